"""The study: what its axes multiply out to, what it refuses, and whose folder is whose."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.errors import RamifyError
from ramify.methods import Trainer, make_settings
from ramify.methods.checks import SETTINGS, continues_from_its_state, follows_the_seed
from ramify.methods.clib import FlexibleSettings, ImportanceSettings, PseudoLabelSettings
from ramify.methods.recipe import find_method
from ramify.networks import ImageInputs
from ramify.reports.data import find_runs
from ramify.runs.config import Config, read_config
from ramify.runs.files import RunFiles
from ramify.runs.presets import resolve
from ramify.sweeps import Study, StudyRun
from ramify.sweeps.archive import Packed
from ramify.sweeps.folder import StudyFolder
from ramify.typed import from_dict, to_dict

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("er", "clib", "pl-fms", "gdumb")


@settings(max_examples=15)
@given(
    methods=st.lists(st.sampled_from(METHODS), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True),
    periods=st.lists(st.floats(1, 9999), min_size=1, max_size=3, unique=True),
)
def test_a_study_is_the_product_of_its_axes_over_the_preset(
    methods: list[str], seeds: list[int], periods: list[float]
) -> None:
    study = Study.of("s", {"method": methods, "seed": seeds, "fms.T": periods}, {"limit": 50}, preset="small")
    found = [(r.config.method, r.config.seed, r.config.fms.T, r.config.limit) for r in study]
    assert found == [(*choice, 50) for choice in product(methods, seeds, periods)]
    assert len({run.name for run in study}) == len(study)
    for run in study:
        expected = to_dict(resolve("small", run.config.method, "garden", "multiple-depth"))
        expected |= {"seed": run.config.seed, "limit": 50}
        expected["fms"]["T"] = run.config.fms.T
        assert to_dict(run.config) == expected


def test_the_name_follows_from_the_config_alone_and_can_be_read() -> None:
    run = StudyRun(Config(method="er", seed=3))
    assert run.name == f"er-multiple-depth-s3-{Config(method='er', seed=3).digest()}"
    assert StudyRun(from_dict(Config, to_dict(run.config), "copy")).name == run.name
    assert StudyRun(Config(method="er", seed=3, lr=1e-3)).name != run.name
    assert "/" not in StudyRun(Config(method="my.own/path:thing")).name


def test_names_are_those_of_earlier_versions() -> None:
    first = Config(
        method="pl-fms",
        importance=ImportanceSettings("sweep"),
        pl=PseudoLabelSettings(exact=True),
        fms=FlexibleSettings(unit="samples"),
    )
    assert first.digest() == "44136fa355b3"  # of {}
    study = Study.from_toml(ROOT / "studies" / "importance.toml")
    assert study.runs[0].name == "pl-fms-multiple-depth-s0-8882d645c634"
    assert study.runs[6].name == "pl-fms-multiple-depth-s0-f3262eb45f98"


def test_published_configs_are_read_and_keep_their_names() -> None:
    """Written by earlier versions: fields outside of their setup's table, fields that were not there yet."""
    paths = find_runs([ROOT / "results"])
    counts = Counter(path.path.stem for path in paths if isinstance(path, Packed))
    assert len(paths) == counts.total()
    assert [counts[name] for name in ("study", "causes", "importance")] == [74, 66, 24]
    assert counts["pretrained"] >= 37
    for path in paths:
        values = RunFiles(path).about()["config"]
        for own_code in (False, True) if ":" not in values["method"] else (False,):
            config = read_config(values, str(path), own_code)
            assert path.name.endswith(f"-{config.digest()}"), path
            assert StudyRun(config).name == path.name
        assert (config.method, config.seed, config.setup) == tuple(
            values[name] for name in ("method", "seed", "setup")
        )
        assert config.labels == values.get("labels", config.labels)
        again = read_config(to_dict(config), "again")
        assert (to_dict(again), again.digest()) == (to_dict(config), config.digest())


def test_flat_settings_of_setups_are_still_read() -> None:
    old = read_config({"setup": "i-blurry", "labels": "single", "n": 30.0, "m": None}, "old")
    new = read_config({"setup": "i-blurry", "i_blurry": {"n": 30.0}}, "new")
    assert old == new
    assert (old.i_blurry.n, old.i_blurry.m) == (30.0, 10.0)  # type: ignore[attr-defined]
    assert read_config({"setup": "single-depth", "labels": "dual"}, "old").labels == "dual"
    with pytest.raises(RamifyError, match="old: single_depth: labels is 'both'; it must be one of"):
        read_config({"labels": "both"}, "old")
    with pytest.raises(RamifyError, match="i_blurry is set, but the setup is multiple-depth"):
        read_config({"n": 30.0}, "old").setup_settings()


def test_what_the_published_causes_changed_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    studies = [Study.from_toml(ROOT / "studies" / f"{name}.toml") for name in ("causes", "er")]
    own = {run.config.method for study in studies for run in study if ":" in run.config.method}
    assert len(own) == 9 + 3
    for method in map(find_method, own):  # that they learn well is for the study to say
        follows_the_seed(method)
        continues_from_its_state(method)


@pytest.mark.parametrize("name", ["er_fresh_moments", "er_fresh_heads"])
def test_what_is_renewed_at_a_new_class_and_at_no_other_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    trainer = Trainer(find_method(f"studies.variants:{name}"), make_settings(**SETTINGS), ImageInputs(16))
    images = np.zeros((8, 3, 16, 16), np.uint8)

    def learn(level: int, label: str) -> tuple[dict[str, float], np.ndarray]:
        trainer.observe(images, [[(level, label)]] * len(images))
        ages = {key: float(value["step"]) for key, value in trainer.optimizer.state()["moments"].items()}
        return ages, trainer.model.heads.weights[0].detach().numpy().copy()

    learn(1, "a")
    learn(2, "x")
    ages, before = learn(1, "a")
    trainer.recipe.keep.arrive(trainer, trainer.waiting[0] if trainer.waiting else None)  # no class has come
    assert np.array_equal(trainer.model.heads.weights[0].detach().numpy(), before)
    trainer.meet(1, "b")
    trainer.recipe.keep.arrive(trainer, None)
    after = trainer.model.heads.weights[0].detach().numpy()
    assert (trainer.optimizer.state()["moments"] == {}) == (name == "er_fresh_moments")
    assert np.array_equal(after[0], before[0]) == (name == "er_fresh_moments")
    assert np.array_equal(after[1], before[1])  # the head of level 2 has not grown
    assert min(ages.values()) > 0


def test_a_mixed_up_label_has_its_place_on_the_other_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from studies.variants import MixedUp

    trainer = Trainer(find_method("studies.variants:er_mixed_up"), make_settings(**SETTINGS), ImageInputs(16))
    for when, (level, label) in enumerate([(1, "a"), (2, "x"), (1, "b"), (2, "y"), (2, "z")]):
        trainer.classes.meet(level, label, when)
    mix = trainer.mix
    assert isinstance(mix, MixedUp)
    a, x, b, y, z = range(5)
    found = mix.pasted(trainer, np.array([a, a, a, x, z, y]), np.array([x, y, z, a, b, x]))
    assert found.tolist() == [a, b, a, x, y, x]


def test_blocks_have_axes_settings_and_a_preset_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "truth.toml"
    path.write_text(
        """
        preset = "small"
        [fixed]
        limit = 100
        network = { width = 0.25 }
        [axes]
        setup = ["multiple-depth", "single-depth"]
        [[block]]
        axes = { method = ["er", "clib"], seed = [0, 1, 2] }
        [[block]]
        fixed = { method = "pl-fms", setup = "multiple-depth", network.width = 0.5 }
        axes.fms.T = [10, 30]
        [[block]]
        preset = "paper"
        fixed.method = "oracle"
        """
    )
    study = Study.from_toml(path)
    assert study.name == "truth"
    assert len(study) == 2 * 2 * 3 + 2 + 2
    assert {run.config.limit for run in study} == {100}
    assert [run.config.network.width for run in study.runs[12:14]] == [0.5, 0.5]
    assert [run.config.fms.T for run in study.runs[12:14]] == [10, 30]
    assert {run.preset for run in study.runs[:14]} == {"small"}
    assert [(run.preset, run.config.network.name) for run in study.runs[14:]] == [("paper", "resnet34")] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[axes]\nsed = [1]", "no field 'sed'; did you mean 'seed'?"),
        ("[axes]\nmethod = []", "method is empty"),
        ("[axes]\nseed = 3", "an axis is a list"),
        ("[axes]\nseed = ['x']", "seed is 'x'; it must be of type int"),
        ("[axes]\nfms.Tee = [1]", "no field 'Tee'"),
        ("[axes]\nmethod = ['er', 'clip']", "no method 'clip'; did you mean 'clib'?"),
        ("[axes]\nsetup = ['flat']", "no setup 'flat'; known: single-depth"),
        ("[axes]\nseed = [1, 2, 1]", "occurs twice"),
        ("[[block]]\n[[block]]", "occurs twice"),
        ("[fixed]\nlimit = 0", "limit is 0; it must be a whole number, at least 1"),
        ("[fixed]\nlimits = 4", "did you mean 'limit'?"),
        ("seed = 1", "no key 'seed'"),
        ("preset = 'huge'", "no preset 'huge'"),
        ("preset = 3", "preset is 3"),
        ("axes = 3", "axes must be a table"),
        ("block = 3", "[[block]]"),
        ("block = [3]", "must be a table"),
        ("[[block]]\nname = 'x'", "no key 'name'"),
        ("x = ", "is not a TOML file"),
    ],
)
def test_mistakes_are_named_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(RamifyError) as caught:
        Study.from_toml(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_belongs_to_the_study_whose_runs_it_holds(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "out")
    study = Study.of("one", {"seed": [0, 1]})
    folder.check(study)  # a new folder is anybody's
    folder.write(study)
    folder.check(Study.of("one", {"seed": [1, 2], "method": ["canopy", "er"]}))  # grown
    with pytest.raises(RamifyError, match="belongs to another study, 'one'"):
        folder.check(Study.of("two", {"seed": [5]}))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").touch()
    with pytest.raises(RamifyError, match="not empty and holds no study"):
        StudyFolder(tmp_path / "home").check(study)
    for text, said in {
        "[]": "is damaged",
        "[" * 100_000: "is damaged",
        "{}": "has format None; this ramify reads 1",
        '{"format": true, "name": "one", "runs": []}': "has format True",
        '{"format": 2, "name": "one", "runs": []}': "has format 2",
        '{"format": 1, "name": "one", "runs": 5}': "does not fit together",
    }.items():
        (tmp_path / "out" / "study.json").write_text(text)
        with pytest.raises(RamifyError, match=said):
            folder.check(study)


def test_a_name_with_other_settings_behind_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = StudyFolder(tmp_path), Study.of("s", {"seed": [0]}).runs[0]
    assert folder.result(run) is None
    folder.of(run).mkdir()
    (folder.of(run) / "result.json").write_text("{}")
    about = {"config": to_dict(run.config) | {"lr": 0.5}}
    monkeypatch.setattr(RunFiles, "about", lambda self: about)
    with pytest.raises(RamifyError, match="other settings"):
        folder.result(run)
