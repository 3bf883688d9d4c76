"""The same options in every command that runs, and the help of the preset that is used."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ramify.cli import compare, main, reproduce, run
from ramify.cli.studying import RUN_OPTIONS
from ramify.methods import METHODS
from ramify.runs.config import Config
from ramify.runs.presets import preset_names, resolve
from ramify.sweeps.study import Study
from ramify.typed import flat, to_dict


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("before", [True, False])
def test_help_tells_the_defaults_of_the_preset_that_is_given(
    preset: str, before: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--preset", preset, "--method", "clib", "--dataset", "cifar100"]
    with pytest.raises(SystemExit):
        run.main(["--help", *given] if before else [*given, "--help"])
    told = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert f"preset {preset}, method clib, dataset cifar100, setup multiple-depth" in told
    config = resolve(preset, "clib", "cifar100", "multiple-depth")
    for name, value in flat(to_dict(config)).items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            option = f"--{name.replace('_', '-')} "
            shown = re.search(re.escape(option) + r"(?:INT|FLOAT|\{None\}\|INT).*?default: ([^)]*)\)", told)
            assert shown is not None, name
            assert float(shown[1]) == value, name
    assert f"default: {preset})" in told


def test_options_are_fields_of_a_run() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    assert RUN_OPTIONS.keys() <= fields


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_what_run_takes_every_command_takes(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Study] = []

    def carry_out(study: Study, *rest: Any) -> bool:
        seen.append(study)
        return False

    monkeypatch.setattr(compare, "carry_out", carry_out)
    monkeypatch.setattr(reproduce, "carry_out", carry_out)
    monkeypatch.chdir(tmp_path)
    first = ["--methods", "er"] if command == "compare" else ["table1"]
    options = ["--taxonomy", "stanford-cars", "--image-size", "16", "--levels", "1", "2", "--limit", "10"]
    more = ["--set", "limit=20", "--precision", "bf16"]
    assert main([command, *first, "--dataset", "photos", *options, *more]) == 0
    (study,) = seen
    for one in study:
        config = one.config
        assert (config.taxonomy, config.image_size, config.levels) == ("stanford-cars", 16, (1, 2))
        assert (config.limit, config.precision) == (20, "bf16")


def test_methods_in_closed_form_are_listed_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    said = capsys.readouterr().out
    assert {line.split()[0] for line in said.splitlines() if "closed form" in line} == {
        name for name, method in METHODS.items() if method.closed_form
    }


@pytest.mark.parametrize("written", ["1 3", "1,3", "=1,3", "-4 -2", "-4,-2", "=-4,-2"])
def test_levels_are_written_alike_for_every_command(
    written: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(run, "execute", lambda command: seen.append(command.levels))
    monkeypatch.setattr(
        compare, "carry_out", lambda study, *rest: seen.append(next(iter(study)).config.levels)
    )
    levels = f"--levels{written}".split() if written.startswith("=") else ["--levels", *written.split()]
    assert main(["stream", "show", "--dataset", "garden", "--setup", "single-depth", *levels, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tree_levels"] == [1, 3]
    assert main(["run", *levels, "--method", "er"]) == 0
    main(["compare", "--methods", "er", *levels, "--out", str(tmp_path)])
    assert seen == [(1, 3) if "-" not in written else (-4, -2)] * 2


def test_seeds_are_written_alike_and_options_are_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        compare, "carry_out", lambda study, *rest: seen.append(sorted({r.config.seed for r in study}))
    )
    for seeds in (["0,2"], ["0", "2"]):
        assert main(["compare", "--methods", "er", "--seeds", *seeds, "--out", str(tmp_path)]) == 0
    assert seen == [[0, 2], [0, 2]]
    for command, hint in {
        "predict model a.png --confidense 0.9": "did you mean --confidence?",
        "learn a.csv --out m --image-sise=3": "did you mean --image-size?",
        "edit model merge a b --ito c": "did you mean --into?",
        "compare --methods er --hold.strength 0.3": "did you mean --set hold.strength=VALUE?",
        "run --method mine.py:x": "did you mean 'mine:x'?",
        "run --method tools/mine.py:x": "did you mean 'tools.mine:x'?",
    }.items():
        assert main(command.split()) == 2
        told = capsys.readouterr().err
        assert hint in told
        assert told.count("\n") == 1


def test_a_stream_can_be_shown_through_a_tree_that_is_given(
    tmp_path: Path, paint: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for leaf in ("apple", "pear", "hammer", "saw"):
        for i in range(4):
            paint(tmp_path / "photos" / leaf / f"{i}.png")
    (tmp_path / "tree.csv").write_text("level1,level2\nfruit,apple\nfruit,pear\ntool,hammer\ntool,saw\n")
    given = ["--dataset", str(tmp_path / "photos"), "--setup", "multiple-depth", "--image-size", "8"]
    tree = ["--taxonomy", str(tmp_path / "tree.csv")]
    assert main(["stream", "show", *given, *tree, "--data-dir", str(tmp_path / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tree_levels"] == [1, 2]
