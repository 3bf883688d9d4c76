"""The engine of a learner that is asked by other threads while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ramify.errors import RamifyError
from ramify.learner.turns import Turns
from ramify.methods import Engine
from ramify.rehearsal import Batch


class SharedEngine(Engine):
    """Learns in turns: before each sample and each update those who wait may ask.

    A method that prepares its answers (BiC, GDumb) may train for them, so it is asked between samples only.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.turns = Turns()

    def adopt(self, weights: dict[str, Tensor], classes: Sequence[tuple[int, str]]) -> None:
        """Take over a network that was trained elsewhere, with the classes of its outputs."""
        if self.recipe.answer is not None:
            raise RamifyError(
                "this method trains when it is asked; it cannot take over a network: choose pl-fms"
            )
        for level, label in classes:
            self.classes.meet(level, label, when=0)
        self.model.restore({"classes": len(classes), "weights": weights})
        self.optimizer.add([])

    def update(self, batch: Batch, rate: float | None = None) -> bool:
        """One training step; nobody sees the network within it."""
        if self.recipe.answer is None:
            self.turns.give_way()
        return super().update(batch, rate)

    def _arrive(self, image: Tensor, cls: int, path: npt.NDArray[np.int32] | None) -> None:
        self.turns.give_way()
        super()._arrive(image, cls, path)
