"""No update is made on a loss that is not finite."""

from __future__ import annotations

import math

from torch import Tensor

from ramify.errors import RamifyError
from ramify.memory import Workbench

EVERY = 64  # updates after which the losses of a device are read at the latest


class Guard:
    """Sees that an update on a loss that is not finite leaves the network as it was, and tells of it.

    On the CPU the loss is read at once, and the update ends there. A device is not waited for: there it makes
    the step where the loss is finite, by a flag that the host does not see. The losses are read
    with whatever is read next: after `EVERY` updates, before the learner is asked and before it is saved.
    """

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self._broken: list[str] = []  # what is to be told

    def check(self, loss: Tensor, rate: float) -> Tensor | None:
        """On a device a flag, 1 where the update must not be made; on the CPU None, or the error."""
        bench, known = self.bench, loss.detach()
        at = bench.updates + 1, bench.samples, rate
        if bench.device.type != "cpu":
            bench.readings.ask(lambda: known, lambda value: self._note(float(value), *at))
            return (~known.isfinite()).float()
        self._note(known.item(), *at)
        if self._broken:
            bench.model.recall_statistics()  # batch normalisation has already taken the broken batch in
            self.tell()
        return None

    def _note(self, loss: float, update: int, sample: int, rate: float) -> None:
        if not math.isfinite(loss):
            where = f"at update {update} (sample {sample}, learning rate {rate:g})"
            self._broken.append(f"the loss became {loss} {where}")

    def read(self) -> None:
        """Fetch what waits on the device; raise the error where an update was not made."""
        self.bench.readings.fetch()
        self.tell()

    def tell(self) -> None:
        """Raise the error of the first update that was not made since it was last told."""
        broken, self._broken = self._broken, []
        if broken:
            more = f", and at {len(broken) - 1} later ones" if len(broken) > 1 else ""
            raise RamifyError(
                f"{broken[0]}{more}; lower lr, or look for broken images. This update was not made; what "
                "came before it stays learned"
            )
