"""The trainer of a learner that is asked by other threads while it learns, and whose turn it is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from ramify.classes import Pair
from ramify.errors import RamifyError
from ramify.hierarchy import Ties
from ramify.learner.prequential import PrequentialLog
from ramify.learner.stated import Stated
from ramify.memory import Batch, Sample
from ramify.methods import Trainer
from ramify.state import State


class Turns:
    """A lock in order of arrival, whose holder can let those who wait go first and then go on.

    A plain lock that is released and taken again at once is hardly ever obtained by another thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the first has the turn

    def __enter__(self) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                self._changed.wait_for(lambda: self._queue[0] is ticket)
            except BaseException:  # interrupted while it waited: nobody may wait for it
                self._queue.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(self, *why: object) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def give_way(self) -> None:
        """Let each of those who wait now have one turn; call it only while holding the turn."""
        if len(self._queue) > 1:
            self.__exit__()
            try:
                self.__enter__()
            except BaseException:  # the caller still believes that it has the turn
                self.__enter__()
                raise


class SharedTrainer(Trainer):
    """Learns in turns: before each sample and each update those who wait may ask.

    A method that trains when it is asked (BiC, GDumb) is asked between samples only. Samples are asked
    before they are learned, as `log` wants; no answer changes what is learned. Samples that carry labels of
    several levels say how these belong together.
    """

    _state: ClassVar[tuple[str, ...]] = (*Trainer._state, "log", "stated")

    def __init__(self, *args: Any, log: PrequentialLog, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.turns, self.log, self.stated = Turns(), log, Stated()

    def adopt(
        self,
        weights: dict[str, Tensor],
        classes: Sequence[tuple[int, str]],
        seen: Sequence[int] | None = None,
    ) -> None:
        """Take over a network that was trained elsewhere, with the classes of its outputs."""
        if self.method.trains_when_asked:
            raise RamifyError(
                f"{self.method.name} trains when it is asked and cannot take over a network; choose pl-fms"
            )
        for level, label in classes:
            self.classes.meet(level, label, when=0)
        if seen is not None:
            self.classes.seen[:] = seen
        self.model.restore({"classes": len(classes), "weights": weights})
        self.optimizer.add([])

    def update(self, batch: Batch, rate: float | None = None) -> None:
        """One training step; nobody sees the network within it."""
        if not self.method.trains_when_asked:
            self.turns.give_way()
        super().update(batch, rate)

    def _take(self, values: Tensor, labels: Sequence[Sequence[Pair]]) -> None:
        start = 0
        while start < len(labels):  # those that are trained on together are asked together
            together = len(labels) if self.method.closed_form else max(1, self.buffer_size - self.fresh)
            part = slice(start, start + together)
            asked = self.log.ask(self, values[part], labels[part])
            super()._take(values[part], labels[part])
            self.log.note(self.classes, asked)
            start = part.stop

    def _arrive(self, sample: Sample) -> None:
        self.turns.give_way()
        self.stated.note(sample.labels)
        super()._arrive(sample)

    def find_ties(self) -> Ties:
        """The tree as samples have said, and where they have not, as the method finds it."""
        return self.stated.over(super().find_ties())

    def restore(self, state: State) -> None:
        """Become the learner that gave `state`; one that was saved before there was a part begins it."""
        super().restore({"log": PrequentialLog().state(), "stated": Stated().state()} | state)
