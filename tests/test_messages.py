"""What messages advise exists: every command and option that one names, in the commands that can show it."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import ramify
from ramify.cli import COMMANDS, main

SOURCE = Path(ramify.__file__).parent
DATASETS = ("run", "compare", "reproduce", "data get", "data check", "data show", "stream show")
# The commands that can show the messages of a file or folder; the longest name counts. The option must be in
# all of them.
SHOWN_BY = {
    "bench/": ("bench",),
    "datasets/": DATASETS,
    "learner/": ("learn", "predict", "describe"),
    "learner/manifest.py": ("learn",),
    "reports/reproduced.py": ("reproduce",),
    "networks/": ("run",),
    "runs/folder.py": ("run",),
    "serve/": ("serve",),
    "runs/track.py": ("run",),
    "sweeps/": ("sweep", "compare", "reproduce"),
    "taxonomy/": ("taxonomy show", "learn", *DATASETS),
    "watch.py": ("watch",),
    **{f"cli/{name}.py": (name,) for name in COMMANDS},
    "cli/data.py": ("data get", "data check", "data show"),
    "cli/stream.py": ("stream show",),
    "cli/taxonomy.py": ("taxonomy show",),
    "cli/engines.py": ("sweep", "compare", "reproduce"),
    "cli/parser.py": ("learn", "compare", "reproduce"),
    "cli/answers.py": ("predict",),
    "cli/answers_as.py": ("predict",),
    "cli/bring.py": ("import",),
    "learner/fiftyone.py": ("predict",),
    "learner/labelstudio.py": ("import", "predict"),
    "cli/edit.py": ("edit MODEL samples",),
}
OTHERS = ("`ray start --head`", "pip install --no-deps timm")  # not ours
SAYS = ("RamifyError", "FolderInUse", "BrokenImage", "warning", "info", "error", "write", "print")
EVERYWHERE = ("--help", "--version")


def text_of(node: ast.AST) -> str:
    """A string as far as it is known before it is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text_of(value) if isinstance(value, ast.Constant) else "VALUE" for value in node.values
        )
    return " ".join(text_of(child) for child in ast.iter_child_nodes(node))


def messages() -> list[tuple[str, str]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in SAYS:
                    text = " ".join(text_of(part) for part in (*node.args, *node.keywords))
                    found.append((path.relative_to(SOURCE).as_posix(), text))
    return found


@cache
def help_of(command: str) -> str:
    """What `--help` of a command says."""
    import contextlib
    import io

    told = io.StringIO()
    with contextlib.redirect_stdout(told), pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code in (0, None), command
    return told.getvalue()


def has(command: str, option: str) -> bool:
    return option in EVERYWHERE or re.search(rf"(?<![\w-]){option}(?![\w-])", help_of(command)) is not None


def test_there_are_messages_to_look_at() -> None:
    found = messages()
    assert len(found) > 300
    assert any("--skip-broken" in text for _, text in found)
    assert any("`ramify data get cifar100`" in text for _, text in found)


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    for file, text in messages():
        for quoted in re.findall(r"`ramify ([^`]+)`|: (?=ramify )ramify ([a-z]+ [^;`]*)", text):
            words = shlex.split((quoted[0] or quoted[1]).replace("…", ""))
            if words[0] in (*EVERYWHERE, "COMMAND", "VALUE"):
                continue
            assert words[0] in COMMANDS, f"{file}: {text}"
            deep = words[0] in ("data", "stream", "taxonomy") and len(words) > 1
            command = " ".join(words[: 1 + deep])
            for option in (word for word in words if word.startswith("--")):
                assert has(command, option.split("=")[0]), f"{file}: {command} has no {option}: {text}"
            help_of(command)


def test_every_option_that_a_message_names_exists_where_it_is_shown() -> None:
    seen = 0
    for file, text in messages():
        plain = re.sub(r"`ramify [^`]+`", "", text)
        for other in OTHERS:
            plain = plain.replace(other, "")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*(?:\.[a-z-]+)*[a-z](?![\w])", plain):
            prefix = max((key for key in SHOWN_BY if file.startswith(key)), key=len, default=None)
            assert prefix is not None, f"{file} names {option}, but who shows it? Say so in SHOWN_BY: {text}"
            for command in SHOWN_BY[prefix]:
                assert has(command, option), f"{file}: {command} has no {option}: {text}"
            seen += 1
    assert seen > 20


def test_a_setting_that_run_takes_as_an_option_is_named_as_learn_takes_it_too() -> None:
    """Networks are built by both; of their settings only `run` makes options, such as --network.weights."""
    found = [text for file, text in messages() if file.startswith("networks/") and "--network." in text]
    assert len(found) >= 4
    for text in found:
        assert re.search(r"`ramify learn --(set network\.\w+=|freeze)", text), text
