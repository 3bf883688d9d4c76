"""An argument parser whose errors are like all others: one line, exit code 2."""

from __future__ import annotations

import argparse
import difflib
import gc
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ramify.errors import RamifyError


class Parser(argparse.ArgumentParser):
    """`argparse` without the usage text before its errors."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise RamifyError(f"{message}; {self._hint(message)}see `{self.prog} --help`")

    def _hint(self, message: str) -> str:
        """The option that was perhaps meant by one that is not known."""
        _, unknown, words = message.partition("unrecognized arguments: ")
        name = words.split()[0].partition("=")[0] if unknown else ""
        inner = [a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction)]
        parsers = [self, *(parser for choices in inner for parser in choices.values())]
        known = [o for parser in parsers for o in parser._option_string_actions if o.startswith("--")]
        near = difflib.get_close_matches(name, known, n=1) if name.startswith("--") else []
        if "." in name and "--set" in known:  # as `ramify run` takes it
            near = [f"--set {name[2:].replace('-', '_')}=VALUE"]
        return f"did you mean {near[0]}? " if near else ""


def numbers_alike(argv: list[str]) -> list[str]:
    """`--levels 1,2` and `--levels=1,2` as `--levels 1 2`, and `--seeds 0 1` as `--seeds 0,1`, everywhere."""
    found: list[str] = []
    for word in argv:
        name, equals, value = word.partition("=")
        of_levels = name == "--levels" if equals else found[-1:] == ["--levels"]
        numbers = value if equals else word
        if word.isdecimal() and found[-2:-1] == ["--seeds"]:
            found[-1] += f",{word}"
        elif of_levels and re.fullmatch(r"-?\d+(,-?\d+)*", numbers):
            found += [name, *numbers.split(",")] if equals else numbers.split(",")
        else:
            found.append(word)
    return found


LENIENT = {
    "skip_broken": "leave out images that cannot be decoded",
    "pad": "repeat leaves of the tree that are less deep than others downwards",
    "any_counts": "accept a tree of other sizes than the published",
}


@contextmanager
def importing() -> Iterator[None]:
    """Where a command first imports torch: nothing of that is garbage, and to look for it takes a while."""
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


def add_leniency(parser: argparse.ArgumentParser) -> None:
    """Options of every command that opens a dataset: what errors about images and trees advise."""
    for name, told in LENIENT.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=told)


def lenient(args: argparse.Namespace) -> dict[str, bool]:
    """Those of them that were given."""
    return {name: True for name in LENIENT if getattr(args, name)}


def add_own_code(parser: argparse.ArgumentParser, more: str = "") -> None:
    """What lets a saved model use code of one's own; `more` is what else `--network` is for."""
    parser.add_argument("--own-code", action="store_true", help="let the model import your method or network")
    parser.add_argument(
        "--network",
        metavar="package.module:factory",
        help="the code of a model that was made with a network of your own" + more,
    )


def set_values(pairs: list[str], form: str = "FIELD=VALUE") -> dict[str, Any]:
    """What `--set` gives; a value is JSON where it can be read so, else a text. `form` is for errors."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise RamifyError(f"--set {pair!r}: expected {form}, such as network.width=0.25")
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):
            values[name] = text
    return values
