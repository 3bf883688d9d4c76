"""The batches of updates, made ahead of them where neither the model nor what arrives has a say in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ramify.memory import Batch, Sample, arrived
from ramify.memory.batch import Choice
from ramify.training.augment import Augment
from ramify.training.cutmix import CutMix

if TYPE_CHECKING:
    from ramify.methods.trainer import Trainer

BYTES = 2 * 2**20  # of images that are augmented together; larger ones gain nothing by it
CALLS = 8  # updates of later calls whose batches are made together; of a memory with fewer than
# CALLS times as many places as they take, fewer: a batch is made again when a sample of it is replaced


class Ready(NamedTuple):
    """A batch, and what the generators were before it was drawn."""

    batch: Batch
    numbers: Any  # of its samples in their stream
    states: Mapping[str, Any]  # by the generator's name


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

    def batches(self, waiting: Sequence[Sample]) -> list[Batch]:
        """Of the next updates, at most as many as are due; these samples have arrived."""
        trainer, rehearse = self.trainer, self.trainer.recipe.rehearse
        size, memory = trainer.settings.batch_size, trainer.memory
        if not rehearse.ahead:
            return [rehearse.compose(trainer, arrived(waiting), size)]
        if not all(self._holds(ready) for ready in islice(self._ready, trainer.due)):
            self.rewind()
        if not self._ready:
            count = trainer.due
            if rehearse.alone and memory.full and type(trainer.augment) is Augment:
                count = max(count, min(CALLS, memory.size // (CALLS * size)))
            count = min(count, max(1, BYTES // (size * waiting[0].inputs.nbytes)))
            self._ready.extend(self._make(arrived(waiting), count))
        return [self._ready.popleft().batch for _ in range(min(trainer.due, len(self._ready)))]

    def _make(self, arrivals: Batch, count: int) -> list[Ready]:
        trainer, rehearse = self.trainer, self.trainer.recipe.rehearse
        lasting = rehearse.alone  # beyond this call: what was drawn may have to be drawn again
        choices: list[Choice] = []
        states: list[dict[str, Any]] = []
        for _ in range(count):
            states.append({"rehearse": rehearse.rng.bit_generator.state} if lasting else {})
            choices.append(rehearse.choose(trainer, arrivals, trainer.settings.batch_size))
        batches = trainer.gather(arrivals, choices)
        parts = batches.split([len(choice.rows) + len(choice.slots) for choice in choices])
        learned = all(len(part) > 1 and (part.labels >= 0).any() for part in parts)  # others draw nothing
        if type(trainer.augment) is Augment and learned:  # one of your own has its turn with each batch
            parts = self._images(trainer.augment, batches, parts, states)
        numbers = trainer.memory["sample"] if lasting else None
        made = zip(parts, states, strict=True)
        return [
            Ready(one, numbers if numbers is None else numbers[one.slots], before) for one, before in made
        ]

    def _images(
        self, augment: Augment, batches: Batch, parts: list[Batch], states: list[dict[str, Any]]
    ) -> list[Batch]:
        """The parts with what the network takes, augmented together."""
        trainer, draws = self.trainer, []
        mix = trainer.mix if type(trainer.mix) is CutMix else None  # another one mixes when it is its turn
        for place, part in enumerate(parts):
            if states[place]:  # may have to be drawn again
                names = ["augment"] if mix is None else ["augment", "cutmix"]
                states[place] |= {name: trainer.rng[name].bit_generator.state for name in names}
            draws.append(augment.draw(len(part), trainer.rng["augment"], part.rehearsed))
            if mix is not None:
                parts[place] = mix.draw(trainer, part)
        sizes, images = [len(part) for part in parts], augment.together(batches.inputs, draws)
        if mix is not None:  # before they are normalised: bytes are moved faster, and become the same
            images = torch.cat(list(map(mix.paste, torch.split(images, sizes), parts)))
        ready = torch.split(trainer.inputs.ready(trainer.send(images)), sizes)
        return [replace(part, ready=own) for part, own in zip(parts, ready, strict=True)]

    def _holds(self, ready: Ready) -> bool:
        """Whether the batch is what would be made now."""
        memory, batch = self.trainer.memory, ready.batch
        same = len(batch) == self.trainer.settings.batch_size and memory.full
        return same and bool((memory["sample"][batch.slots] == ready.numbers).all())

    def rewind(self) -> None:
        """Forget what is ready, and that it was drawn."""
        if self._ready:
            first = self._ready[0]
            for name, state in first.states.items():
                rehearse = self.trainer.recipe.rehearse
                rng = rehearse.rng if name == "rehearse" else self.trainer.rng[name]
                rng.bit_generator.state = state
            self._ready.clear()
