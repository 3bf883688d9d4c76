"""Values of their declared type: one check for files, command lines and calls from Python."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import operator
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from ramify.errors import RamifyError

T = TypeVar("T")

MOST = 2**63  # whole numbers lie below it, on either side of 0
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60


class Bounds(NamedTuple):
    """Which values of a field make sense, and how to say so."""

    holds: Callable[[Any], bool]
    words: str


Positive = Annotated[float, Bounds(lambda value: 0 < value < math.inf, "above 0")]
NotNegative = Annotated[float, Bounds(lambda value: 0 <= value < math.inf, "0 or more")]
Share = Annotated[float, Bounds(lambda value: 0 <= value <= 1, "between 0 and 1")]
Difference = Annotated[float, Bounds(lambda value: -1 <= value <= 1, "between -1 and 1")]
Decay = Annotated[float, Bounds(lambda value: 0 < value <= 1, "above 0 and up to 1")]
Percentage = Annotated[float, Bounds(lambda value: 0 <= value <= 100, "a percentage from 0 to 100")]
SomePercent = Annotated[float, Bounds(lambda value: 0 < value <= 100, "a percentage above 0, to 100")]
Count = Annotated[int, Bounds(lambda value: value >= 1, "a whole number, at least 1")]
Whole = Annotated[int, Bounds(lambda value: value >= 0, "a whole number, at least 0")]


class Typed:
    """A frozen dataclass whose fields are checked when it is made. `_table` is its name within another."""

    _table: ClassVar[str] = ""

    def __post_init__(self) -> None:
        above = f"{self._table}." if self._table else ""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            hint = _hints(type(self))[field.name]  # type: ignore[arg-type]
            object.__setattr__(
                self, field.name, typed(hint, getattr(self, field.name), f"{above}{field.name}")
            )


def to_dict(values: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(values)))
    return plain


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Tables within tables as dotted names."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        inside = isinstance(value, Mapping)
        out |= flat(value, f"{above}{name}.") if inside else {f"{above}{name}": value}
    return out


def from_dict(cls: type[T], values: dict[str, Any], where: str, base: T | None = None) -> T:
    """A dataclass from nested values, over `base` where one is given.

    Unknown, missing and ill-typed fields are refused; `where` names the source in errors.
    """
    if not isinstance(values, dict):
        raise RamifyError(f"{where} is {shown(values)}; it must be a table of fields")
    hints = _hints(cls)  # type: ignore[arg-type]
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise no_field(where, key, fields)
        if dataclasses.is_dataclass(hints[name]):
            current = None if base is None else getattr(base, name)
            given[name] = from_dict(hints[name], value, f"{where}: {key}", current)
        else:
            given[name] = typed(hints[name], value, f"{where}: {key}")
    if base is not None:
        return dataclasses.replace(base, **given)  # type: ignore[type-var]
    missing = [name for name, field in fields.items() if name not in given and _needed(field)]
    if missing:
        raise RamifyError(f"{where}: {missing[0]!r} is missing; it must have {', '.join(fields)}")
    return cls(**given)


def no_field(where: str, key: str, known: Iterable[str], what: str = "field") -> RamifyError:
    """An unknown field, with the known one that may be meant."""
    names = sorted(known)
    near = difflib.get_close_matches(key.replace("-", "_"), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
    return RamifyError(f"{where}: no {what} {key!r}; {hint}")


@functools.cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    """The declared types of a dataclass's fields, by name."""
    return typing.get_type_hints(cls, include_extras=True)


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def typed(hint: Any, value: Any, where: str) -> Any:
    """`value` if it has the hinted type (whole numbers count as floats, lists as tuples).

    >>> typed(float, 3, "lr"), typed(tuple[int, ...] | None, [1, 2], "levels")
    (3.0, (1, 2))
    """
    if hint is Any:
        return value
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        hint = next(o for o in options if o is not type(None))
        origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        found = typed(options[0], value, where)
        for bounds in options[1:]:
            if isinstance(bounds, Bounds) and not bounds.holds(found):
                raise RamifyError(f"{where} is {shown(value)}; it must be {bounds.words}")
        return found
    if origin is Literal:
        if isinstance(value, str) and value in options:
            return value
        raise RamifyError(f"{where} is {shown(value)}; it must be one of {', '.join(map(str, options))}")
    if origin is dict:
        if isinstance(value, dict):
            return {key: typed(options[1], v, f"{where}.{key}") for key, v in value.items()}
        raise RamifyError(f"{where} is {shown(value)}; it must be a table")
    if origin in (list, tuple):
        if not isinstance(value, list | tuple):
            raise RamifyError(f"{where} is {shown(value)}; it must be a list")
        if origin is list or options[-1] is Ellipsis:
            return origin(typed(options[0], v, where) for v in value)
        if len(value) != len(options):
            raise RamifyError(f"{where} is {shown(value)}; it must be a list of {len(options)}")
        return tuple(typed(option, v, where) for option, v in zip(options, value, strict=True))
    if hint in (int, float) and isinstance(value, int) and not isinstance(value, bool):
        if not -MOST < value < MOST:
            raise RamifyError(f"{where} is {shown(value)}; it must lie below 2⁶³")
        return hint(value)
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
    return whole("seed", value, 0, MOST - 1)


def seconds(name: str, value: float) -> float:
    """`value` if it can be a number of seconds."""
    if not isinstance(value, int | float) or not value >= 0:
        raise RamifyError(f"{name} is {shown(value)}; it is a number of seconds, 0 or more")
    return value


def shown(value: Any) -> str:
    """A value for an error: in one line, cut where it is long."""
    return " ".join(_REPR.repr(value).split())


def amount(size: float) -> str:
    """A number of bytes in the unit that suits it.

    >>> amount(999), amount(1_500), amount(20_400_000), amount(7.5e12)
    ('999 bytes', '1.5 kB', '20.4 MB', '7.5 TB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
