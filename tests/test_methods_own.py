"""A method of one's own with settings of its own: on the command line, in studies, in files, in reports."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ramify import Learner
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.methods import METHODS, find_method, make_settings
from ramify.methods.checks import ToyNetwork
from ramify.methods.settings import field_name
from ramify.randomness import Generators
from ramify.reports.data import load_run
from ramify.runs.config import config_type, read_config
from ramify.sweeps.study import Study
from ramify.typed import from_dict, to_dict

CODE = '''
"""Methods of my own."""
from dataclasses import dataclass, replace

from ramify.methods import METHODS, method
from ramify.training.rates import Rate


@dataclass(frozen=True)
class MineSettings:
    """Mine."""

    alpha: float = 0.5
    """Share of the rate, at most 100%."""
    rounds: int = 3
    """Not used."""


@method("mine", settings=MineSettings)
def mine(settings, rng):
    """ER with its own rate."""
    return replace(METHODS["er"](settings, rng), rate=Rate(settings.lr * settings[MineSettings].alpha))
'''
NAME = "own_mine:mine"
SMALL = ["--image-size", "8", "--network.name", "tiny_runs:network", "--limit", "24", "--threads", "1"]
RUN = ["run", "--method", NAME, *SMALL]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a method of one's own, where one is; what it registers is gone after the test."""
    before = dict(METHODS)
    (tmp_path / "own_mine.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_mine", raising=False)
    yield tmp_path
    sys.modules.pop("own_mine", None)
    METHODS.clear()
    METHODS.update(before)


def rates(folder: Path) -> set[float]:
    lines = (folder / "records.jsonl").read_text().splitlines()
    return {json.loads(line)["lr"] for line in lines}


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())["config"]


def test_settings_of_ones_own_on_the_command_line(desk: Path) -> None:
    assert main([*RUN, "--mine.alpha", "0.25", "--lr", "0.004", "--out", "a"]) == 0
    assert main([*RUN, "--lr", "0.004", "--out", "b"]) == 0
    assert rates(desk / "a") == {0.001}
    assert rates(desk / "b") == {0.002}  # its default
    assert config_of(desk / "a")["mine"] == {"alpha": 0.25, "rounds": 3}
    assert config_of(desk / "b")["mine"] == {"alpha": 0.5, "rounds": 3}
    assert find_method("mine") is find_method(NAME)  # imported, it has its name


def test_its_settings_stand_in_the_help(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*RUN, "--help"])
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--mine.alpha" in words
    assert "Share of the rate, at most 100%" in words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--mine.alhpa", "0.3"], "--mine.alpha"),
        (["--mine.alpha", "much"], "mine.alpha"),
        (["--mien.alpha", "0.3"], "--mine.alpha"),
    ],
)
def test_a_mistake_in_them_is_named_in_one_line(
    desk: Path, given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, *given, "--out", "out"]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not (desk / "out").exists()


def test_another_method_has_no_such_settings(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--method", "er", *SMALL, "--mine.alpha", "0.3", "--out", "out"]) == 2
    assert "--mine.alpha" in capsys.readouterr().err


TOML = """
[fixed]
image_size = 8
limit = 24
network.name = "tiny_runs:network"
{fixed}

[axes]
method = ["er", "own_mine:mine"]
{axes}
"""


def study(desk: Path, fixed: str = "", axes: str = "") -> Study:
    path = desk / "study.toml"
    path.write_text(TOML.format(fixed=fixed, axes=axes))
    return Study.from_toml(path)


def test_settings_of_ones_own_are_an_axis_of_a_study(desk: Path) -> None:
    (desk / "study.toml").write_text(
        TOML.format(fixed="", axes='"mine.alpha" = [0.1, 0.3]').replace('"er", ', "")
    )
    found = Study.from_toml(desk / "study.toml")
    assert [run.config.mine.alpha for run in found] == [0.1, 0.3]  # type: ignore[attr-defined]
    assert len({run.name for run in found}) == 2
    assert main(["sweep", "study.toml", "--out", "runs", "--workers", "1"]) == 0
    folders = [desk / "runs" / run.name for run in found]
    assert [config_of(folder)["mine"]["alpha"] for folder in folders] == [0.1, 0.3]
    assert len(rates(folders[0]) | rates(folders[1])) == 2


def test_methods_without_the_table_pass_over_it(desk: Path) -> None:
    found = study(desk, fixed="mine.alpha = 0.3")
    er, mine = (run.config for run in found)
    assert not hasattr(er, "mine")
    assert mine.mine.alpha == 0.3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fixed", "axes", "message"),
    [
        ("mine.alhpa = 0.3", "", r"\[fixed\]: mine: no field 'alhpa'; did you mean 'alpha'\?"),
        ("", '"mine.alhpa" = [0.1]', r"\[axes\]: mine: no field 'alhpa'; did you mean 'alpha'\?"),
        ("", '"mien.alpha" = [0.1]', r"\[axes\]: no field 'mien'; did you mean 'mine'\?"),
        ("", '"mine.alpha" = [0.1, "much"]', r"\[axes\]: mine: alpha is 'much'; it must be of type float"),
        ("mine.rounds = 1.5", "", "rounds is 1.5"),
    ],
)
def test_a_mistake_in_a_study_is_named_before_anything_runs(
    desk: Path, fixed: str, axes: str, message: str
) -> None:
    with pytest.raises(RamifyError, match=message) as caught:
        study(desk, fixed, axes)
    assert "\n" not in str(caught.value)


def test_a_preset_speaks_of_them_too(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = '[method."own_mine:mine"]\nmine.{0} = 0.75\n'
    (desk / "p.toml").write_text(table.format("alpha"))
    assert main([*RUN, "--preset", "p.toml", "--out", "a"]) == 0
    assert config_of(desk / "a")["mine"]["alpha"] == 0.75
    (desk / "p.toml").write_text(table.format("alhpa"))
    assert main([*RUN, "--preset", "p.toml", "--out", "b"]) == 2
    assert "did you mean 'alpha'?" in capsys.readouterr().err


def test_a_run_is_read_back_without_its_code(desk: Path) -> None:
    assert main([*RUN, "--mine.alpha", "0.25", "--out", "a"]) == 0
    written = config_of(desk / "a")
    del sys.modules["own_mine"], METHODS["mine"]
    (desk / "own_mine.py").write_text("raise SystemExit('code was run')")

    run = load_run(desk / "a")
    assert run.config.mine.alpha == 0.25  # type: ignore[attr-defined]
    assert run.config.method == NAME
    read = read_config(written, "config.json")
    assert (read.mine.alpha, read.mine.rounds) == (0.25, 3)  # type: ignore[attr-defined]
    assert read.digest() == run.config.digest()
    other = read_config(written | {"mine": {"alpha": 0.5, "rounds": 3}}, "config.json")
    assert other.digest() != read.digest()
    with pytest.raises(RamifyError, match="no field 'lrr'; did you mean 'lr'"):
        read_config(written | {"lrr": 1.0}, "config.json")
    assert main(["report", "a"]) == 0
    assert "own_mine" not in sys.modules
    script = "import sys; from ramify.reports.data import load_run; c = load_run('a').config; "
    script += "assert c.mine.alpha == 0.25; assert 'own_mine' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], cwd=desk, check=True)


def test_with_its_code_the_settings_are_its_own_again(desk: Path) -> None:
    assert main([*RUN, "--mine.alpha", "0.25", "--out", "a"]) == 0
    read = read_config(config_of(desk / "a"), "config.json", own_code=True)
    import own_mine

    assert read[own_mine.MineSettings] == own_mine.MineSettings(alpha=0.25)
    assert type(read) is config_type(NAME)
    with pytest.raises(RamifyError, match="mine: no field 'alhpa'; did you mean 'alpha'"):
        read_config(config_of(desk / "a") | {"mine": {"alhpa": 1.0}}, "config.json", own_code=True)


def test_a_run_goes_on_with_the_settings_that_it_began_with(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--mine.alpha", "0.25", "--lr", "0.004", "--out", "a"]) == 0
    whole = (desk / "a" / "records.jsonl").read_text().count("\n")
    for name in ("result.json", "records.jsonl"):  # as if it had just begun
        (desk / "a" / name).unlink()
    capsys.readouterr()
    assert main(["resume", "a"]) == 2
    assert "own_mine:mine" in capsys.readouterr().err
    assert main(["resume", "a", "--own-code"]) == 0
    assert rates(desk / "a") == {0.001}
    assert (desk / "a" / "records.jsonl").read_text().count("\n") == whole


def test_a_learner_takes_them_and_keeps_them(desk: Path, tmp_path: Path) -> None:
    images = torch.arange(4 * 3 * 8 * 8).remainder(256).to(torch.uint8).view(4, 3, 8, 8)
    learner = Learner(NAME, image_size=8, network=ToyNetwork(), mine={"alpha": 0.25}, lr=0.004)
    learner.partial_fit(images, [*"abcd"], level=1)
    learner.save(tmp_path / "saved")
    with pytest.raises(RamifyError, match="did you mean 'alpha'"):
        Learner(NAME, image_size=8, network=ToyNetwork(), mine={"alhpa": 0.25})
    with pytest.raises(RamifyError, match="own_mine:mine"):
        Learner.load(tmp_path / "saved", network=ToyNetwork())
    again = Learner.load(tmp_path / "saved", network=ToyNetwork(), own_code=True)
    import own_mine

    assert again.settings[own_mine.MineSettings].alpha == 0.25
    assert again._trainer.recipe.rate.value(again._trainer) == 0.001


def test_settings_made_in_python(desk: Path) -> None:
    method = find_method(NAME)
    made = make_settings(method=method, lr=0.5, mine={"alpha": 0.25}, fms={"T": 7.0})
    assert (made.lr, made.mine.alpha, made.mine.rounds, made.fms.T) == (0.5, 0.25, 3, 7.0)  # type: ignore[attr-defined]
    over = make_settings(made, mine={"rounds": 9})
    assert (over.mine.alpha, over.mine.rounds) == (0.25, 9)  # type: ignore[attr-defined]
    with pytest.raises(RamifyError, match="did you mean 'alpha'"):
        make_settings(method=method, mine={"alhpa": 1.0})
    with pytest.raises(RamifyError, match="have no MineSettings; register the method with settings="):
        method(make_settings(), Generators(0))


@pytest.mark.parametrize(("name", "table"), [("der++", "derpp"), ("pl-fms", "pl_fms"), ("a b", "a_b")])
def test_a_methods_table_has_its_name(name: str, table: str) -> None:
    assert field_name(name) == table


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("own_mine:min", "did you mean 'own_mine:mine'?"),
        ("own_mine:other", "give package.module:name"),
        ("examples/own_mine:mine", "go to the folder examples, and give 'own_mine:mine'"),
        ("own_min:mine", "go to the folder that has own_min.py, or install it"),
    ],
)
def test_a_name_that_is_not_there_says_what_may_be(desk: Path, name: str, told: str) -> None:
    with pytest.raises(RamifyError, match=r"cannot be imported") as error:
        find_method(name)
    assert str(error.value).endswith(told)


TAKEN = ("network", "augment", "seed", "labels", "epochs", "iirc", "digest", "class", "2nd")


@pytest.mark.parametrize("name", TAKEN)
def test_a_method_whose_settings_would_hide_others_is_refused(desk: Path, name: str) -> None:
    (desk / "own_mine.py").write_text(CODE.replace('@method("mine"', f'@method("{name}"'))
    with pytest.raises(RamifyError, match=f"MineSettings cannot be the settings '{name}'"):
        config_type(NAME)


def test_a_command_tells_of_names_that_its_own_options_have(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "own_mine.py").write_text(CODE.replace('@method("mine"', '@method("out"'))
    assert main([*RUN, "--out", "x"]) == 2
    assert "MineSettings cannot be the settings 'out'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["fine", "first", "n", "width"])  # settings of setups, which had no table
def test_a_table_may_be_called_as_a_setups_setting_is(desk: Path, name: str) -> None:
    (desk / "own_mine.py").write_text(CODE.replace('@method("mine"', f'@method("{name}"'))
    kind = config_type(NAME)
    config = from_dict(kind, {"method": NAME, name: {"alpha": 0.25}}, "here", kind())
    read = read_config(to_dict(config), "there")
    assert to_dict(read)[name]["alpha"] == 0.25
    assert read.digest() == config.digest()
    other = replace(config, iirc=replace(config.iirc, fine=70.0, first=9))
    again = from_dict(kind, {name: {"alpha": 0.75}}, "here", other)
    assert len({config.digest(), other.digest(), again.digest()}) == 3
