"""The stored samples by name: what users called them, and where they came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ramify.errors import RamifyError
from ramify.learner.labels import Label
from ramify.learner.relabel import Labels, stored
from ramify.methods import Trainer
from ramify.plural import counted
from ramify.typed import shown

SPARE = 1024  # names that are kept of samples that are stored no more, before they are looked for


@dataclass(frozen=True)
class Stored:
    """A sample that the learner has stored."""

    number: int
    """Its place in the stream, from 0."""
    id: str | None
    """What it was called when it was taught."""
    source: str | None
    """Where it came from."""
    labels: dict[int, Label]
    """By level."""


class Names:
    """What samples were called and where they came from, by number; of those that are stored."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[str | None, str | None]] = {}
        self._room = SPARE

    def take(self, trainer: Trainer, first: int, ids: Sequence[str] | None, source: str | None) -> None:
        """Samples have been learned from the number `first` on."""
        if ids is None and source is None:
            return
        for number in range(first, trainer.samples):
            self._told[number] = (None if ids is None else ids[number - first], source)
        if len(self._told) > self._room:
            self.prune(trainer)
            self._room = 2 * len(self._told) + SPARE

    def copy(self) -> Names:
        """The same, to be read while this one goes on."""
        other = Names()
        other._told, other._room = dict(self._told), self._room
        return other

    def of(self, number: int) -> tuple[str | None, str | None]:
        """What a sample was called, and where it came from."""
        return self._told.get(number, (None, None))

    def prune(self, trainer: Trainer) -> None:
        """Forget what samples were called that are stored no more."""
        kept = {number for number, _ in stored(trainer)}
        self._told = {number: told for number, told in self._told.items() if number in kept}

    def all(self, trainer: Trainer) -> list[Stored]:
        """All stored samples, in order of arrival; those from before samples had numbers come last."""
        found = [
            Stored(number, *self.of(number), trainer.classes.by_level(labels))
            for number, labels in stored(trainer)
        ]
        return sorted(found, key=lambda sample: (sample.number < 0, sample.number))

    def find(self, trainer: Trainer, given: Any) -> dict[int, Labels]:
        """Numbers and classes of the stored samples that were given by number (an integer) or id (a text)."""
        if isinstance(given, str | int) or not isinstance(given, Iterable):
            given = [given]
        held, called = dict(stored(trainer)), dict[str, list[int]]()
        for number, (name, _) in self._told.items():
            if name is not None and number in held:
                called.setdefault(name, []).append(number)
        found: dict[int, Labels] = {}
        missing = []
        for one in given:
            numbers = [one] if one in held and isinstance(one, int) and one >= 0 else called.get(str(one), [])
            found |= {number: held[number] for number in numbers}
            missing += [] if numbers else [one]
        if missing:
            others = f" (nor are {len(missing) - 1} others)" if len(missing) > 1 else ""
            raise RamifyError(
                f"sample {shown(missing[0])} is not stored, or no longer{others}; `stored()` or `ramify edit "
                f"MODEL samples` lists the {len(held):,} that are. What is not stored can only be taught anew"
            )
        if not found:
            raise RamifyError("no samples were given; name one or more by number or id")
        return found

    def of_source(self, trainer: Trainer, source: str) -> list[int]:
        """The numbers of the stored samples of one source."""
        found = [n for n, _ in stored(trainer) if self.of(n)[1] == source]
        if not found:
            known = sorted({told for _, told in self._told.values() if told is not None})
            listed = (
                f"stored samples come from {', '.join(map(repr, known[:5]))}" if known else "none was named"
            )
            raise RamifyError(f"no sample of the source {source!r} is stored; {listed}")
        return found

    def state(self, trainer: Trainer) -> dict[str, Any]:
        """As text, for the file's header."""
        self.prune(trainer)
        return {str(number): list(told) for number, told in self._told.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self._told = {int(number): (told[0], told[1]) for number, told in state.items()}
        self._room = 2 * len(self._told) + SPARE


def as_ids(ids: Any, count: int) -> list[str] | None:
    """One text an image."""
    if ids is None:
        return None
    given = list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else [ids]
    if len(given) != count:
        raise RamifyError(
            f"{counted(len(given), 'id')} for {counted(count, 'image')}; give one an image, or none"
        )
    for one in given:
        if not isinstance(one, str) or not one:
            raise RamifyError(f"the id {shown(one)} is no text; ids are texts, such as the path of the image")
    return given


def as_source(source: Any) -> str | None:
    """A text."""
    if source is not None and (not isinstance(source, str) or not source):
        raise RamifyError(f"source is {shown(source)}; it is a text that says where the images come from")
    return source
