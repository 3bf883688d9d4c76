"""What the command says on stderr: how much of it, and in which form."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from pathlib import Path

import pytest

from ramify import cli
from ramify.cli import main
from ramify.cli.logs import JsonLines, on_stderr, take_level, tell, warn, write_as
from ramify.datasets.progress import progress_bar
from ramify.learner.card import _drawn
from ramify.taxonomy import from_nested

LOG = logging.getLogger("ramify")


@pytest.mark.parametrize(
    ("level", "shown"),
    [(logging.DEBUG, "debug tell warn"), (logging.INFO, "tell warn"), (logging.WARNING, "warn")],
)
def test_more_and_less_is_shown(level, shown, capsys):
    with on_stderr(level):
        LOG.debug("debug")
        tell("tell")
        warn("warn")
    assert capsys.readouterr().err.split() == shown.split()
    warn("afterwards")
    assert LOG.handlers == []
    assert LOG.level == logging.NOTSET


def test_the_options_may_stand_anywhere_and_the_last_one_counts():
    assert take_level(["run", "--out", "a"]) == (["run", "--out", "a"], logging.INFO)
    assert take_level(["-q", "run", "--out", "a", "-v"]) == (["run", "--out", "a"], logging.DEBUG)
    assert take_level(["run", "--quiet"]) == (["run"], logging.WARNING)


def test_quiet_leaves_the_result_and_errors(tmp_path, capsys):
    for option in ([], ["-q"]):
        out = tmp_path / f"tree{len(option)}.svg"
        words = ["stream", "show", "--dataset", "garden", "--setup", "multiple-depth", "--out", str(out)]
        assert main([*words, *option]) == 0
        said = capsys.readouterr()
        assert ("picture" in said.err) == (not option)
        assert out.exists()
    assert main(["-q", "lern"]) == 2
    assert capsys.readouterr().err == "ramify: error: no command 'lern'; did you mean 'learn'?\n"


def test_verbose_shows_where_an_error_comes_from(capsys):
    assert main(["lern", "-v"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("did you mean 'learn'?\n")


def test_json_lines(capsys):
    with on_stderr(logging.INFO):
        write_as("json")
        tell('a "word"\nand another – line')
        try:
            raise OSError("no space")
        except OSError:
            LOG.exception("failed")
        logging.getLogger("uvicorn.error").warning("of the %s", "server")
        write_as("text")
        tell("plain")
    *told, plain = capsys.readouterr().err.splitlines()
    first, failed, foreign = map(json.loads, told)
    assert first["message"] == 'a "word"\nand another – line'
    assert (first["level"], first["logger"]) == ("info", "ramify.cli")
    assert datetime.fromisoformat(first["time"]).utcoffset().total_seconds() == 0
    assert failed["level"] == "error"
    assert failed["trace"].endswith("OSError: no space")
    assert foreign["message"] == "of the server"
    assert plain == "plain"
    assert JsonLines().format(logging.makeLogRecord({"msg": "x"})).startswith('{"time": ')


def test_bars_are_the_command_s(monkeypatch, capsys):
    """A library shows no progress of its own accord: rich is not even asked."""
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    for level, asked in ((logging.WARNING, False), (logging.INFO, True)):
        monkeypatch.setattr(LOG, "level", level)
        LOG.manager._clear_cache()
        try:
            with progress_bar("decoding", 3, 0, show=True) as advance:
                advance(1)
            assert not asked
        except ImportError:
            assert asked
    assert capsys.readouterr().err == ""


def test_texts_are_the_same_in_a_notebook(monkeypatch, capsys):
    """Rich shows what it prints by itself where it finds Jupyter; ours goes into files."""
    tree = from_nested({"fruit": {"apple": 0}})
    before = _drawn(tree, "tree")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert _drawn(tree, "tree") == before
    assert "apple" in before
    assert capsys.readouterr().out == ""


def test_every_command_says_what_it_says_through_the_log():
    for path in Path(cli.__file__).parent.glob("*.py"):
        if path.name not in ("__init__.py", "logs.py"):
            assert "sys.stderr.write" not in path.read_text("utf-8"), path.name
