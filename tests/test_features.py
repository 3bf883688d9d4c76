"""Learning from features: files of them, images encoded once, and every method on them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file
from torch import nn

from made_features import WIDTH, frozen
from ramify.cli import main
from ramify.cli.run import parse
from ramify.datasets import load_dataset
from ramify.datasets.table import SplitRows, tables_in
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.memory import Forward, Workbench
from ramify.methods import METHODS, Trainer, make_settings
from ramify.methods.checks import SETTINGS, Toy, answers, same, weights
from ramify.methods.settings import AugmentSettings, NetworkSettings
from ramify.networks import FeatureInputs, ImageInputs
from ramify.networks.encoder import Encoder
from ramify.runs import run_config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run, prepare_dataset
from ramify.sweeps.cost import Costing
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.jobs import How
from ramify.sweeps.plan import _probe
from ramify.sweeps.study import StudyRun
from ramify.training.objectives import CrossEntropy
from tiny_runs import tiny

FROZEN = NetworkSettings("made_features:frozen", freeze="all")


# ---- every method


def toy_features(n: int = 96) -> Toy:
    toy = Toy.stream(n)
    means = toy.images.float().mean((2, 3)) / 255
    return replace(toy, images=means)


def feature_learner(name: str, toy: Toy, dtype=torch.float32, **changes) -> Trainer:
    method = METHODS[name]
    size = {"memory_size": len(toy.labels)} if method.keeps_stream else {}
    chosen = make_settings(
        method=method, **(SETTINGS | {"lr": 0.05, "epochs": {"count": 15}} | size | changes)
    )
    return Trainer(method, chosen, FeatureInputs(3, dtype))


def teach(trainer: Trainer, toy: Toy, start: int, stop: int) -> None:
    toy.teach(trainer, start, stop)
    if stop in (len(toy.labels) // 2, len(toy.labels)):
        trainer.task_end()


@pytest.mark.parametrize("hidden", [0, 12])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_learns_features_and_continues_to_the_bit(name, hidden):
    toy = toy_features()
    network = {"hidden": hidden}
    whole, first, rest = (feature_learner(name, toy, network=network) for _ in range(3))
    for trainer, spans in ((whole, [(0, 48), (48, 70), (70, 96)]), (first, [(0, 48), (48, 70)])):
        for start, stop in spans:
            teach(trainer, toy, start, stop)
    rest.restore(first.state())
    teach(rest, toy, 70, 96)
    for trainer in (whole, rest):
        trainer.predict(toy.images)
    assert same(weights(whole), weights(rest))
    right = (answers(whole, toy.images) == np.array(toy.paths, object)).mean(0)
    assert right[1] > 0.6, right  # of four classes
    if name == "er":  # some methods bring a backbone of their own
        assert whole.model.backbone.__class__ is (nn.Sequential if hidden else nn.Identity)


class Twice(CrossEntropy):
    """An objective that is made of another one."""

    def __init__(self, inner: CrossEntropy) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, bench: Workbench, forward: Forward) -> torch.Tensor:
        return 2 * self.inner.loss(bench, forward)


def test_an_objective_that_is_made_of_another_learns_on_features():
    toy, er = toy_features(), METHODS["er"]
    trainer = feature_learner("er", toy)
    trainer.recipe = replace(trainer.recipe, minimise=Twice(er(trainer.settings, trainer.rng).minimise))
    teach(trainer, toy, 0, 24)
    plain = feature_learner("er", toy)
    teach(plain, toy, 0, 24)
    for name, value in weights(plain).items():  # Adam sees no difference in the size of a loss
        torch.testing.assert_close(weights(trainer)[name], value, rtol=1e-3, atol=1e-5, msg=name)


def test_half_precision_is_kept_and_computed_in_single():
    toy = toy_features()
    toy = replace(toy, images=toy.images.half())
    trainer = feature_learner("er", toy, torch.float16)
    toy.teach(trainer, 0, 96)
    assert trainer.memory["inputs"].dtype == torch.float16
    assert trainer.look(toy.images[:2]).dtype == torch.float32
    assert (answers(trainer, toy.images)[:, 1] == np.array(toy.paths)[:, 1]).mean() > 0.6


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 1280), (torch.float16, 1280)])
def test_a_stored_sample_takes_little_more_than_its_feature(dtype, size):
    trainer = Trainer(
        METHODS["er"], make_settings(method=METHODS["er"], memory_size=500), FeatureInputs(size, dtype)
    )
    values = torch.rand(500, size).to(dtype)
    trainer.settings = replace(trainer.settings, updates_per_sample=1e-9)
    trainer.observe(values, [[(1, i % 7)] for i in range(500)])
    trainer.flush()
    assert trainer.memory.size == 500
    assert trainer.memory.nbytes() <= 1.05 * values.nbytes


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (torch.zeros(2, 4), "shape"),
        (torch.zeros(2, 3, dtype=torch.float64), "float32"),
        (torch.tensor([[0.0, torch.nan, 1.0]]), "NaN"),
    ],
)
def test_features_that_do_not_fit_are_refused(values, words):
    trainer = feature_learner("er", toy_features())
    with pytest.raises(RamifyError, match=words):
        trainer.observe(values, [[(1, "a")]] * len(values))


def test_large_features_are_taken_although_their_sum_is_not_finite():
    inputs = FeatureInputs(3, torch.float16)
    values = torch.full((4, 3), 6e4, dtype=torch.float16)
    assert not values.sum().isfinite()
    inputs.check(values, learned=True)
    for wrong in (torch.inf, -torch.inf, torch.nan):
        values[1, 2], values[2, 0] = wrong, -wrong
        with pytest.raises(RamifyError, match="NaN or infinite"):
            inputs.check(values, learned=True)


def test_features_that_are_not_numbers_get_no_answer():
    learner = Learner("er", features=3)
    learner.partial_fit(features=np.eye(3), labels=["a", "b", "a"], level=1)
    for ask in (learner.predict, learner.predict_proba, learner.explain):
        with pytest.raises(RamifyError, match="NaN or infinite"):
            ask(features=np.array([[0.0, np.nan, 1.0]]))


# ---- files


def write_all(folder: Path, dtype=np.float32) -> list[Path]:
    rng = np.random.default_rng(0)
    leaf = rng.integers(0, 6, 90)
    values = (rng.normal(size=(90, 5)) + leaf[:, None]).astype(dtype)
    coarse, fine = np.array(["x", "y"])[leaf // 3], np.array(list("abcdef"))[leaf]
    split = np.arange(90) % 3 == 0
    names = [folder / f"mine.{kind}" for kind in ("npz", "safetensors", "parquet")]
    np.savez(names[0], features=values, level1=coarse, level2=fine, split=np.where(split, "test", "train"))
    tensors = {"features": values, "level1": leaf // 3, "level2": leaf, "split": split.astype(np.uint8)}
    about = {"level1": json.dumps(["x", "y"]), "level2": json.dumps(list("abcdef"))}
    save_file({n: torch.from_numpy(v) for n, v in tensors.items()}, names[1], about)
    columns = {
        "emb": list(values),
        "level1": coarse,
        "level2": fine,
        "split": np.where(split, "test", "train"),
    }
    parquet.write_table(pa.table(columns), names[2])
    return names


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_all_kinds_of_files_are_the_same_dataset(tmp_path, dtype):
    found = [load_dataset(path, tmp_path / "data", progress=False) for path in write_all(tmp_path, dtype)]
    assert len({dataset.fingerprint for dataset in found}) == 1
    for dataset in found:
        dataset.verify()
        assert (len(dataset.train), len(dataset.test)) == (60, 30)
        assert dataset.train.images.dtype == dtype
        assert isinstance(dataset.train.images, np.memmap)
        assert dataset.taxonomy.sizes == (2, 6)
    with np.load(tmp_path / "mine.npz") as file:
        np.testing.assert_array_equal(found[0].train.images, file["features"][file["split"] == "train"])


def test_a_run_on_a_file_of_features(tmp_path, capsys):
    path = str(write_all(tmp_path)[0])
    place = ["--data-dir", str(tmp_path / "data")]
    assert main(["data", "check", path, *place]) == 0
    assert "features of 5 values" in capsys.readouterr().out
    common = ["run", "--dataset", path, "--method", "er", "--threads", "1", "--network.hidden", "8", *place]
    assert main([*common, "--out", str(tmp_path / "run"), "--lr", "0.05"]) == 0
    config = RunFolder(tmp_path / "run").about()["config"]
    assert config["network"]["name"] == "features"
    assert config["augment"]["flip"] is False
    assert RunFolder(tmp_path / "run").result().final_accuracy["1"] > 0.7
    assert (tmp_path / "run" / "report.html").exists()
    assert main(["data", "show", path, *place]) == 2
    with pytest.raises(RamifyError, match=r"augment.padding needs pixels"):
        parse([*common[1:], "--augment.padding", "3"])


def test_a_study_on_features_finds_its_finished_runs_again(tmp_path, data, capsys):
    """A run writes of its config what applies to features: no augmentation, no network for images."""
    path, out = str(write_all(tmp_path)[0]), tmp_path / "out"
    command = ["compare", "--dataset", path, "--methods", "er,slda", "--seeds", "0", "--preset", "quick"]
    place = ["--workers", "1", "--data-dir", str(tmp_path / "data"), "--out", str(out)]
    for started in (2, 0):
        assert main([*command, *place]) == 0
        said = capsys.readouterr()
        assert said.err.count("started") == started
        assert "Scale: preset quick, features, 1 update a sample" in " ".join(said.out.split())
    run, other = StudyRun(tiny("er", network=FROZEN)), StudyRun(tiny("er", network=FROZEN, memory_size=7))
    run_config(run.config, out / run.name, threads=1, data_dir=data)
    assert StudyFolder(out).result(run) is not None
    (out / run.name).rename(out / other.name)
    with pytest.raises(RamifyError, match="other settings"):
        StudyFolder(out).result(other)


def test_a_sweep_says_where_its_figures_are(tmp_path, capsys):
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(f'[fixed]\ndataset = "{write_all(tmp_path)[0]}"\n[axes]\nmethod = ["ncm"]\n')
    place = ["--workers", "1", "--data-dir", str(tmp_path / "data"), "--out", str(out)]
    assert main(["sweep", str(study), *place]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == f"tables and curves: ramify report {out}"
    assert main(["report", str(out)]) == 0


BAD = {
    "no features": ({"level1": np.array(["a"])}, "expected features"),
    "no labels": ({"features": np.zeros((2, 3), np.float32)}, "level1"),
    "uneven": ({"features": np.zeros((2, 3), np.float32), "label": np.array(["a"])}, "one each"),
    "a table of tables": (
        {"features": np.zeros((2, 3, 4), np.float32), "label": np.array(["a", "b"])},
        "size",
    ),
    "objects": (
        {"features": np.zeros((1, 3), np.float32), "label": np.array([{}], object)},
        "without objects",
    ),
    "nan": (
        {"features": np.full((8, 3), np.nan, np.float32), "label": np.array(list("aabbaabb"))},
        "features of row 0 are not all finite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(tmp_path, name):
    arrays, words = BAD[name]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(RamifyError, match=words) as error:
        load_dataset(tmp_path / "bad.npz", tmp_path, progress=False)
    assert "\n" not in str(error.value)


# ---- tables that are made once


def test_a_table_is_continued_where_it_was_left_and_made_once(tmp_path):
    values = np.arange(100, dtype=np.float32).reshape(50, 2)
    made: list[tuple[int, int]] = []

    def rows(fails_at: int | None) -> dict[str, SplitRows]:
        def make(start, stop):
            if fails_at is not None and start >= fails_at:
                raise KeyboardInterrupt
            made.append((start, stop))
            return values[start:stop], []

        table = SplitRows(50, (2,), np.dtype(np.float32), make, 8)
        return {"train": table, "test": replace(table, count=3)}

    folder = tmp_path / "features" / "x"
    with pytest.raises(KeyboardInterrupt):
        tables_in(folder, rows(24), "x", False)
    assert not folder.exists()
    found = tables_in(folder, rows(None), "x", False)
    again = tables_in(folder, rows(0), "x", False)
    np.testing.assert_array_equal(found.arrays["train"], values)
    np.testing.assert_array_equal(again.arrays["test"], values[:3])
    assert made == [(at, min(at + 8, 50)) for at in range(0, 50, 8)] + [(0, 3)]
    (folder / "train.npy").write_bytes(b"damaged")
    assert tables_in(folder, rows(None), "x", False).arrays["train"].shape == (50, 2)


# ---- images, encoded once


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    """Images that are decoded once for all tests here."""
    return str(tmp_path_factory.mktemp("data"))


def run_of(config, data) -> Run:
    return Run(config, prepare_dataset(config, data), "cpu")


def kept_in(data) -> list[Path]:
    return sorted((Path(data) / "features").glob("[!.]*"))


def test_images_are_encoded_once_and_learned_as_a_plain_loop_would(tmp_path, data):
    config = tiny("er", network=FROZEN)
    run = run_of(config, data)
    plain = frozen().eval()
    dataset = run.dataset
    ready = ImageInputs(8, mean=dataset.mean, std=dataset.std).ready
    with torch.no_grad():
        wanted = plain(ready(torch.from_numpy(np.array(dataset.train.images))))
    np.testing.assert_allclose(run.learned.train.images, wanted.numpy(), atol=1e-5)
    assert run.learned.train.images.shape == (len(dataset.train), WIDTH)
    assert run.config.augment == AugmentSettings(0, False, "none", 0.0)
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.begin(run, None, {})
        run.go(folder)
    alone = Trainer(METHODS["er"], run.config, FeatureInputs(WIDTH), config.seed)
    for at, image in enumerate(run.stream.image):
        label = [(int(run.stream.level[at]), int(run.stream.label[at]))]
        alone.observe(run.learned.train.images[image][None], [label])
    alone.flush()
    assert same(weights(alone), weights(run.trainer))
    assert not any(name.startswith("backbone") for name in run.trainer.state()["model"]["weights"])
    kept = kept_in(data)
    before = [path.stat().st_mtime_ns for path in kept[0].iterdir()]
    run_of(replace(config, seed=1), data)
    assert kept_in(data) == kept
    assert [path.stat().st_mtime_ns for path in kept[0].iterdir()] == before
    other = replace(config, network=replace(FROZEN, args='{"seed": 1}'))
    run_of(other, data)
    run_of(replace(config, feature_dtype="float16"), data)
    assert len(kept_in(data)) == len(kept) + 2


def test_a_run_on_features_goes_on_to_the_bit_and_not_with_other_weights(tmp_path, monkeypatch, data):
    config = tiny("clib", network=FROZEN)

    class Crash(Exception):
        pass

    def crash(run: Run) -> None:
        if run.position == 64:
            raise Crash

    how = {"threads": 1, "data_dir": data}
    with pytest.raises(Crash):
        run_config(config, tmp_path / "crashed", checkpoint_every=0, watch=crash, **how)
    monkeypatch.setattr("made_features.SEED", 5)
    with pytest.raises(RamifyError, match="encoder"):
        run_config(config, tmp_path / "crashed", resume=True, **how)
    monkeypatch.undo()
    run_config(config, tmp_path / "crashed", resume=True, **how)
    run_config(config, tmp_path / "whole", **how)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("crashed", "whole"))
    assert one == two


def test_views_are_augmented_images_and_the_first_is_the_image(data):
    augment = AugmentSettings(padding=2, flip=True, autoaugment="none", cutmix=0.0)
    config = tiny("er", network=FROZEN, feature_views=3, augment=augment)
    run = run_of(config, data)
    plain = run_of(replace(config, feature_views=0), data)
    views, images = np.array(run.learned.train.images), plain.learned.train.images
    assert views.shape == (len(images), 4, WIDTH)
    np.testing.assert_allclose(views[:, 0], images, atol=1e-6)
    assert (np.abs(views[:, 1:] - views[:, :1]).max(2) > 1e-4).mean() > 0.9
    assert run.learned.test.images.ndim == 2
    run.collect(len(run.stream))
    memory = run.trainer.memory
    assert memory["inputs"].shape[1:] == (4, WIDTH)
    batch = memory.batch(np.arange(8))
    drawn = torch.stack([run.trainer.augment(run.trainer, batch) for _ in range(60)])
    for row in range(8):  # every view is drawn, and nothing else
        seen = {tuple(one.tolist()) for one in drawn[:, row]}
        assert seen == {tuple(one.tolist()) for one in batch.inputs[row]}
    torch.testing.assert_close(run.trainer.inputs.ready(batch.inputs), batch.inputs[:, 0])


@pytest.mark.parametrize("method", ["oracle", "pl-fms-t", "gdumb"])
def test_methods_with_needs_of_their_own_run_on_encoded_images(method, tmp_path, data):
    result = run_config(tiny(method, network=FROZEN), tmp_path / "run", threads=1, data_dir=data)
    assert result.final_accuracy


def test_an_augmentation_that_was_asked_for_is_refused_that_of_a_preset_is_left_out():
    chosen = ["--network.name", "made_features:frozen", "--network.freeze", "all"]
    assert parse(chosen).augment.flip
    for extra in (["--feature-views", "2"], ["--network.no-encode"]):
        assert parse([*chosen, *extra, "--augment.padding", "3"]).augment.padding == 3
    with pytest.raises(RamifyError, match=r"augment.padding needs pixels.*--feature-views"):
        parse([*chosen, "--augment.padding", "3"])
    assert parse([*chosen, "--augment.no-flip"]).augment.flip is False


def test_a_study_of_frozen_networks_can_be_planned(data):
    how = How(data_dir=data, threads=1)
    outcome = _probe("one", tiny("er", network=FROZEN), Costing(data), how).work()
    assert outcome.error is None
    assert outcome.value.sample > 0


def test_encoding_is_the_same_in_any_batches():
    encoder = Encoder(frozen(), ImageInputs(8))
    images = torch.randint(0, 256, (70, 3, 8, 8), dtype=torch.uint8)
    parts = torch.cat([encoder(images[:7]), encoder(images[7:])])
    torch.testing.assert_close(encoder(images), parts, atol=1e-5, rtol=1e-5)
    assert encoder(images[:0]).shape == (0, WIDTH)
    with pytest.raises(RamifyError, match="images are"):
        encoder(images[:, :, :4])
