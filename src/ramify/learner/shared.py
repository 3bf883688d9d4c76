"""The trainer of a learner that is asked by other threads while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from ramify.errors import RamifyError
from ramify.learner.turns import Turns
from ramify.memory import Batch, Sample
from ramify.memory.store import SAMPLE, Columns
from ramify.methods import Trainer


class SharedTrainer(Trainer):
    """Learns in turns: before each sample and each update those who wait may ask.

    A method that trains when it is asked (BiC, GDumb) is asked between samples only.
    """

    columns: ClassVar[Columns] = {"sample": SAMPLE}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.turns = Turns()

    def adopt(self, weights: dict[str, Tensor], classes: Sequence[tuple[int, str]]) -> None:
        """Take over a network that was trained elsewhere, with the classes of its outputs."""
        if self.method.trains_when_asked:
            raise RamifyError(
                f"{self.method.name} trains when it is asked and cannot take over a network; choose pl-fms"
            )
        for level, label in classes:
            self.classes.meet(level, label, when=0)
        self.model.restore({"classes": len(classes), "weights": weights})
        self.optimizer.add([])

    def update(self, batch: Batch, rate: float | None = None) -> None:
        """One training step; nobody sees the network within it."""
        if not self.method.trains_when_asked:
            self.turns.give_way()
        super().update(batch, rate)

    def _arrive(self, sample: Sample) -> None:
        self.turns.give_way()
        sample.values["sample"] = self.samples
        super()._arrive(sample)
