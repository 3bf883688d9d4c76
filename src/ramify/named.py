"""What is given by name: one of ramify's own, or a user's as `package.module:name`."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

from ramify.errors import RamifyError

INSTALLED = ("timm:",)  # sources of networks that are packages, not code of one's own


def is_own(name: str) -> bool:
    """Whether a name is that of code of one's own, `package.module:name`."""
    return ":" in name and not name.startswith(INSTALLED)


def find_named(name: str, known: Mapping[str, Any], what: str) -> Any:
    """The one of `known` that has this name, or what `package.module:name` imports."""
    if name in known:
        return known[name]
    if ":" not in name:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise RamifyError(f"no {what} {name!r}; {hint}known: {', '.join([*known, 'package.module:name'])}")
    module, _, attribute = name.partition(":")
    if module.endswith(".py"):
        dotted = ".".join(PurePath(module.removesuffix(".py")).parts)
        raise RamifyError(
            f"{what} {name!r} names a file; name its module: did you mean {f'{dotted}:{attribute}'!r}?"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a user's own module does
        told = f"{what} {name!r} cannot be imported ({type(error).__name__}: {error})"
        raise RamifyError(f"{told}; {_todo(error, module, attribute)}") from error


def _todo(error: Exception, module: str, attribute: str) -> str:
    """What may help to import an attribute of a module."""
    if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
        *folders, file = PurePath(module).parts
        if folders:
            return f"go to the folder {'/'.join(folders)}, and give {f'{file}:{attribute}'!r}"
        return f"go to the folder that has {error.name}.py, or install it"
    there = vars(sys.modules[module]) if isinstance(error, AttributeError) and module in sys.modules else ()
    if near := difflib.get_close_matches(attribute, there, n=1):
        return f"did you mean {f'{module}:{near[0]}'!r}?"
    return "give package.module:name"


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """What goes wrong in code of one's own is told as such: `the method mine failed (ValueError: …)`."""
    try:
        yield
    except RamifyError:
        raise
    except Exception as error:
        raise RamifyError(f"{what} failed ({type(error).__name__}: {error})") from error
