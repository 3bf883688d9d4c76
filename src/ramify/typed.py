"""Values of their declared type: one check for files, command lines and calls from Python."""

from __future__ import annotations

import functools
import operator
import reprlib
import types
import typing
from contextlib import suppress
from typing import Any, Literal

from ramify.errors import RamifyError

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60


class Typed:
    """A frozen dataclass whose fields are checked when it is made."""

    def __post_init__(self) -> None:
        for name, hint in field_types(type(self)).items():  # type: ignore[arg-type]
            object.__setattr__(self, name, typed(hint, getattr(self, name), name))


@functools.cache
def field_types(cls: type[Any]) -> dict[str, Any]:
    """The declared types of a dataclass's fields, by name."""
    return typing.get_type_hints(cls)


def typed(hint: Any, value: Any, where: str) -> Any:
    """`value` if it has the hinted type (whole numbers count as floats, lists as tuples).

    >>> typed(float, 3, "lr"), typed(tuple[int, ...] | None, [1, 2], "levels")
    (3.0, (1, 2))
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        hint = next(o for o in options if o is not type(None))
        origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if isinstance(value, str) and value in options:
            return value
        raise RamifyError(f"{where} is {shown(value)}; it must be one of {', '.join(map(str, options))}")
    if origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(typed(options[0], v, where) for v in value)
        raise RamifyError(f"{where} is {shown(value)}; it must be a list")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    if isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise RamifyError(f"{where} is {shown(value)}; it must be of type {hint.__name__}")


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """`value` as an int, if it is a whole number (also one of numpy's) within its bounds."""
    with suppress(TypeError):
        number = operator.index(value)
        if not isinstance(value, bool) and least <= number and (most is None or number <= most):
            return number
    bound = f"at least {least}" if most is None else f"from {least} to {most}"
    raise RamifyError(f"{name} is {shown(value)}; it must be a whole number, {bound}")


def whole_seed(value: Any) -> int:
    """`value` if it can be the seed of all draws."""
    return whole("seed", value, 0, 2**63 - 1)


def seconds(name: str, value: float) -> float:
    """`value` if it can be a number of seconds."""
    if not value >= 0:
        raise RamifyError(f"{name} is {value}; it is a number of seconds, 0 or more")
    return value


def shown(value: Any) -> str:
    """A value for an error: in one line, cut where it is long."""
    return " ".join(_REPR.repr(value).split())
