"""What commands print where no terminal is: lines that are never broken."""

from __future__ import annotations

import io
from pathlib import Path

import ramify
from ramify.cli import main
from ramify.console import screen
from ramify.methods import METHODS
from ramify.streams import SETUPS


def test_lines_in_a_pipe_are_never_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    file = io.StringIO()
    screen(file=file).print("word " * 200 + "end")
    assert file.getvalue().count("\n") == 1


def test_a_terminal_keeps_its_width():
    assert screen(file=io.StringIO(), force_terminal=True, width=33).width == 33
    assert screen(file=io.StringIO(), width=33).width == 33


def test_lists_have_a_line_an_entry(capsys):
    for command, known in ((["methods"], METHODS), (["stream", "list"], SETUPS)):
        assert main(command) == 0
        _, *lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == list(known)


def test_consoles_are_made_in_one_place():
    """Others break lines at 80 columns in a pipe; those that write into a text of their own say how wide."""
    root = Path(ramify.__file__).parent
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in root.rglob("*.py")}
    makers = {name for name, text in texts.items() if " Console(" in text}
    assert makers == {"console.py", "learner/card.py", "reports/render.py"}
