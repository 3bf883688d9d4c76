"""A setup: the rule by which a stream is made; one file a family, your own by `package.module:name`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.named import find_named
from ramify.streams.draws import Arrivals
from ramify.streams.moves import Move
from ramify.taxonomy import Taxonomy
from ramify.typed import Typed, from_dict, shown

Arrive = Callable[[Ints, Taxonomy, np.random.Generator, int, Any], Arrivals]
Tasks = Callable[[Taxonomy, Any], int]
Moving = Callable[[Taxonomy, np.random.Generator, int, Any], Sequence[Move]]
CheckTasks = Callable[[int, Taxonomy, Any], None]


def any_number(_tasks: int, _tree: Taxonomy, _settings: Any) -> None:
    """The check of a setup that names none: every number of tasks from 1 works."""


@dataclass(frozen=True)
class Setup:
    """One way to make a stream. `settings` below is an instance of its settings, None if it has none."""

    name: str
    levels: int | None
    """How many of the tree's last levels it uses unless told; None = all."""
    tasks: Tasks
    """(tree, settings) → the number of tasks unless told."""
    arrivals: Arrive
    """(leaves, tree, rng, tasks, settings) → (image, level, task) of all arrivals, in any order.

    Each task is shuffled, unless a fourth part says the order within it: numbers that rise."""
    check: CheckTasks = any_number
    """(tasks, tree, settings): refuse, in one line, a number of tasks from 1 that does not work."""
    settings: type[Typed] | None = None
    """What can be set: a frozen dataclass whose fields all have defaults."""
    fixed: Typed | None = None
    """Settings that cannot be changed, for a rule that is shared with another setup."""
    moves: Moving | None = None
    """(tree, rng, tasks, settings) → the classes that move to another parent, and when; drawn last."""

    @property
    def doc(self) -> str:
        """What arrives, in one line: the beginning of the docstring."""
        return " ".join((inspect.getdoc(self.arrivals) or "").split("\n\n")[0].split())

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its settings."""
        return () if self.settings is None else tuple(field.name for field in fields(self.settings))  # type: ignore[arg-type]

    def own(self, given: Mapping[str, Any] | Typed | None) -> Any:
        """Its settings from what was given (None: the defaults), refusing what it has not."""
        if self.settings is not None and isinstance(given, self.settings):
            return given
        if given is not None and not isinstance(given, Mapping):
            kind = "nothing" if self.settings is None else f"a mapping or {self.settings.__name__}"
            raise RamifyError(f"{self.name}: settings are {shown(given)}, expected {kind}")
        values = dict(given or {})
        for key in (key for key in values if key not in self.fields):
            others = [one.name for one in SETUPS.values() if key in one.fields]
            if others or self.settings is None:
                instead = f" or use {', '.join(others)}" if others else ""
                raise RamifyError(
                    f"{self.name} has no setting {key!r}, found {shown(values[key])}: drop it{instead}"
                )
        return self.fixed if self.settings is None else from_dict(self.settings, values, self.name)


SETUPS: dict[str, Setup] = {}


def setup(name: str, *, tasks: Tasks | int, **facts: Any) -> Callable[[Arrive], Setup]:
    """Register a setup, whose arrivals the decorated function gives; see `Setup` for the facts.

    `tasks` may be a number.

    >>> @setup("mine", levels=None, tasks=lambda tree, settings: tree.depth)      # doctest: +SKIP
    ... def mine(leaves, tree, rng, tasks, settings):
    ...     return image, level, task
    """

    def register(arrivals: Arrive) -> Setup:
        known = SETUPS.get(name)
        if known is not None and known.arrivals.__module__.startswith("ramify."):
            raise RamifyError(f"the setup {name!r} is ramify's own: give yours another name")
        count: Tasks = (lambda tree, own: tasks) if isinstance(tasks, int) else tasks
        SETUPS[name] = Setup(name, tasks=count, arrivals=arrivals, **facts)
        return SETUPS[name]

    return register


def find_setup(name: str) -> Setup:
    """A setup by its name, or a user's own as `package.module:name`."""
    found = find_named(name, SETUPS, "setup")
    if not isinstance(found, Setup):
        raise RamifyError(
            f"setup {name!r} is {shown(found)}, expected a function decorated with ramify.streams.setup.setup"
        )
    return found
