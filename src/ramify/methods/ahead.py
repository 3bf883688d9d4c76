"""The batches of updates, made ahead of them where neither the model nor what arrives has a say in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ramify.memory import Batch
from ramify.training.augment import Augment

if TYPE_CHECKING:
    from ramify.methods.trainer import Trainer

BYTES = 2 * 2**20  # of images that are augmented together; larger ones gain nothing by it
CALLS = 8  # updates of later calls whose batches are made together; of a memory with fewer than
# CALLS times as many places as they take, fewer: a batch is made again when a sample of it is replaced


class Ready(NamedTuple):
    """A batch, and what the generators were before it was drawn."""

    batch: Batch
    numbers: Any  # of its samples in their stream
    chosen: Mapping[str, Any]
    augmented: Mapping[str, Any]


class Ahead:
    """Composes the batches of updates, together where they are known: small images cost by the call.

    Those of one training call are, if the rehearsal only has to `choose`. Where it chooses from memory
    `alone`, so are those of the calls to come, once memory is full. Before anything else draws, and when one
    of their samples has left memory, the generators are set back (`rewind`): all is as if each had been made
    when it was due.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self._ready: deque[Ready] = deque()

    def batches(self, arrivals: Batch) -> list[Batch]:
        """Of the next updates, at most as many as are due."""
        trainer, rehearse = self.trainer, self.trainer.recipe.rehearse
        size, memory = trainer.settings.batch_size, trainer.memory
        if not rehearse.ahead:
            return [rehearse.compose(trainer, arrivals, size)]
        if not all(self._holds(ready) for ready in islice(self._ready, trainer.due)):
            self.rewind()
        if not self._ready:
            count = trainer.due
            if rehearse.alone and memory.full and isinstance(trainer.augment, Augment):
                count = max(count, min(CALLS, memory.size // (CALLS * size)))
            count = min(count, max(1, BYTES // (size * arrivals.inputs[0].nbytes)))
            self._ready.extend(self._make(arrivals, count))
        return [self._ready.popleft().batch for _ in range(min(trainer.due, len(self._ready)))]

    def _make(self, arrivals: Batch, count: int) -> list[Ready]:
        trainer, rehearse = self.trainer, self.trainer.recipe.rehearse
        drawn = trainer.rng["augment"]
        lasting = rehearse.alone  # beyond this call: what was drawn may have to be drawn again
        choices, chosen = [], []
        for _ in range(count):
            chosen.append(rehearse.rng.bit_generator.state if lasting else {})
            choices.append(rehearse.choose(trainer, arrivals, trainer.settings.batch_size))
        sizes = [len(choice.rows) + len(choice.slots) for choice in choices]
        batches = trainer.gather(arrivals, choices)
        augmented = [drawn.bit_generator.state if lasting else {}] * count
        if isinstance(trainer.augment, Augment) and min(sizes) > 1:
            parts = batches.split(sizes)
            if all((part.labels >= 0).any() for part in parts):  # others are not learned, and draw nothing
                draws = []
                for place, part in enumerate(parts):
                    augmented[place] = drawn.bit_generator.state if lasting else {}
                    draws.append(trainer.augment.draw(len(part), drawn, part.rehearsed))
                batches = trainer.augment.together(trainer, batches, draws)
        numbers = trainer.memory["sample"] if lasting else None
        made = zip(batches.split(sizes), chosen, augmented, strict=True)
        return [
            Ready(one, numbers if numbers is None else numbers[one.slots], first, then)
            for one, first, then in made
        ]

    def _holds(self, ready: Ready) -> bool:
        """Whether the batch is what would be made now."""
        memory, batch = self.trainer.memory, ready.batch
        same = len(batch) == self.trainer.settings.batch_size and memory.full
        return same and bool((memory["sample"][batch.slots] == ready.numbers).all())

    def rewind(self) -> None:
        """Forget what is ready, and that it was drawn."""
        if self._ready:
            first = self._ready[0]
            self.trainer.recipe.rehearse.rng.bit_generator.state = first.chosen
            self.trainer.rng["augment"].bit_generator.state = first.augmented
            self._ready.clear()
