"""What a training batch is made of, between the samples that have just arrived and those in memory."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from ramify.arrays import AnyInts, Floats, Ints
from ramify.memory import Batch, Column, Workbench
from ramify.memory.batch import Choice
from ramify.memory.store import NONE, Columns
from ramify.state import Stateful


class Rehearsal(Stateful):
    """Composes the batch of each update from the stream buffer and the memory.

    One that only has to `choose`, so that neither the model nor anything that updates change has a say in it,
    lets the batches of one training call be made together. Others override `compose`.
    """

    window = 0  # how many of the latest samples wait before they are offered to the memory
    alone = False
    """Whether it chooses from memory alone, whatever arrives: batches of later calls are then made ahead, and
    made again where that was too early, so `choose` may change nothing but the state of its generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def buffer_size(self, batch_size: int) -> int:
        """How many samples arrive before training: half a batch, unless the rehearsal says otherwise."""
        return max(1, batch_size // 2)

    def updates_due(self, credit: float) -> int:
        """How many updates to make now; the rest of the credit is kept."""
        return int(credit + 1e-9)

    def compose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Batch:
        """The batch of one update."""
        return bench.gather(arrivals, [self.choose(bench, arrivals, batch_size)])

    @property
    def ahead(self) -> bool:
        """Whether batches can be made before the updates on others before them."""
        return type(self).compose is Rehearsal.compose

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """Which of the arrivals the batch of one update holds, and the slots of its stored samples."""
        raise TypeError(f"{type(self).__name__} does not say what a batch is made of")

    def fill(self, bench: Workbench, arrivals: Batch, rows: AnyInts, batch_size: int) -> Choice:
        """These arrivals, and other samples drawn from memory up to the size of the batch."""
        slots = arrivals.slots if len(rows) == len(arrivals) else arrivals.slots[rows]
        stored = slots[slots >= 0]
        return Choice(rows, bench.memory.sample(batch_size - len(rows), self.rng, stored))


class HalfAndHalf(Rehearsal):
    """ER: all of the stream buffer and as many samples from memory."""

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """All of the arrivals, and a draw from memory."""
        return self.fill(bench, arrivals, np.arange(len(arrivals)), batch_size)


class Spread(HalfAndHalf):
    """Half of each batch from the latest `window` samples: those not trained on yet, then any of them.

    So that the updates on a sample do not come in a row, with the same others beside it. A sample is offered
    to the memory when it leaves the window. How often each has been drawn is counted, and told as more the
    longer the stream is (`bench.reach`): a network that knows more gains by changed images sooner.
    """

    columns: ClassVar[Columns] = {"rehearsed": Column(np.int32)}

    def __init__(self, rng: np.random.Generator, window: int) -> None:
        super().__init__(rng)
        self.window = window

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """Some of the latest, and a draw from memory."""
        latest = [bench.waiting[place].values for place in arrivals.arrivals]
        times = np.array([values.get("rehearsed", 0) for values in latest])
        count = max(batch_size // 2, batch_size - bench.memory.size)
        chosen = np.sort(np.lexsort((self.rng.random(len(times)), times > 0))[:count])
        slots, stored = self.fill(bench, arrivals, chosen, batch_size).slots, bench.memory["rehearsed"]
        rehearsed = np.concatenate([times[chosen], stored[slots]])
        stored[slots] += 1
        for row in chosen:
            latest[row]["rehearsed"] = int(times[row]) + 1
        return Choice(chosen, slots, rehearsed * bench.reach)


class ArrivalsOnly(Rehearsal):
    """Batches of the stream alone: nothing is rehearsed."""

    def buffer_size(self, batch_size: int) -> int:
        """A whole batch of arrivals."""
        return batch_size

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """All of the arrivals."""
        return Choice(np.arange(len(arrivals)), NONE)


class StreamOnly(ArrivalsOnly):
    """RM within a task: batches of the stream alone, one update each."""

    def updates_due(self, credit: float) -> int:
        """One update a batch."""
        return 1


class Nothing(StreamOnly):
    """GDumb and Oracle: the stream is only stored."""

    def updates_due(self, credit: float) -> int:
        """None; training waits until the model is asked."""
        return 0


class MemoryOnly(Rehearsal):
    """CLIB: batches from memory alone, as soon as there is credit for an update."""

    alone = True

    def buffer_size(self, batch_size: int) -> int:
        """Each sample counts at once."""
        return 1

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """A draw from memory."""
        return Choice(NONE, bench.memory.sample(batch_size, self.rng))


class Flexible(Rehearsal):
    """FMS (section 4.2, algorithm 2): a sample of class c enters with probability min((t - T_c) / T, 1).

    t and T_c count stream samples, and so does T, the `horizon`. Refused places are filled from memory
    without repeating a sample of the batch, which is the same as drawing the memory's share and theirs
    together. The draw is made anew at each update; the first stream batch of all is taken whole. `rule`: T as
    given, or divided by the number of classes seen.
    """

    def __init__(
        self, rng: np.random.Generator, horizon: float, rule: Literal["fixed", "per-class"] = "fixed"
    ) -> None:
        super().__init__(rng)
        self.horizon, self.rule = horizon, rule

    def admission(self, bench: Workbench, classes: Ints) -> Floats:
        """The probability of eq. 4 for each arrival; one without a label is no newcomer."""
        known = bench.classes
        horizon = self.horizon / len(known) if self.rule == "per-class" else self.horizon
        age = bench.samples - known.first_seen[classes]
        return np.where(classes >= 0, np.minimum(age / horizon, 1.0), 1.0)

    def choose(self, bench: Workbench, arrivals: Batch, batch_size: int) -> Choice:
        """Those that are admitted, and a draw from memory."""
        rows = np.arange(len(arrivals))
        if bench.samples > len(arrivals):
            admitted = self.rng.random(len(arrivals)) < self.admission(bench, arrivals.classes)
            rows = np.flatnonzero(admitted)
        return self.fill(bench, arrivals, rows, batch_size)
