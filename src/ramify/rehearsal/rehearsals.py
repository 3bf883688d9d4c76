"""What a training batch is made of, between the samples that have just arrived and those in memory."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ramify.classes import Classes
from ramify.memory import Memory
from ramify.rehearsal.batch import Batch, stored
from ramify.state import Stateful

Floats = npt.NDArray[np.float64]


class Learning(Protocol):
    """What a rehearsal may know of the learner it serves."""

    memory: Memory
    classes: Classes
    samples: int  # stream samples seen so far
    updates: int

    def interference(self, arrivals: Batch, candidates: Batch) -> Floats:
        """How much each candidate's loss rises by a virtual step on the arrivals."""
        ...


class Rehearsal(Stateful):
    """Composes the batch of each update from the stream buffer and the memory."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def buffer_size(self, batch_size: int) -> int:
        """How many samples arrive before training: half a batch, unless the rehearsal says otherwise."""
        return max(1, batch_size // 2)

    def updates_due(self, credit: float) -> int:
        """How many updates to make now; the rest of the credit is kept."""
        return int(credit + 1e-9)

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        raise TypeError(f"{type(self).__name__} does not say what a batch is made of")

    def fill(self, arrivals: Batch, batch_size: int, memory: Memory) -> Batch:
        """The arrivals, and other samples drawn from memory up to the size of the batch."""
        drawn = memory.sample(batch_size - len(arrivals), self.rng, arrivals.slots[arrivals.slots >= 0])
        return arrivals.join(stored(memory, drawn))


class HalfAndHalf(Rehearsal):
    """ER: all of the stream buffer and as many samples from memory."""

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        return self.fill(arrivals, batch_size, learning.memory)


class StreamOnly(Rehearsal):
    """RM within a task: batches of the stream alone, one update each."""

    def buffer_size(self, batch_size: int) -> int:
        """A whole batch of arrivals."""
        return batch_size

    def updates_due(self, credit: float) -> int:
        """One update a batch."""
        return 1

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        return arrivals


class Nothing(StreamOnly):
    """GDumb and Oracle: the stream is only stored."""

    def updates_due(self, credit: float) -> int:
        """None; training waits until the model is asked."""
        return 0


class MemoryOnly(Rehearsal):
    """CLIB: batches from memory alone, as soon as there is credit for an update."""

    def buffer_size(self, batch_size: int) -> int:
        """Each sample counts at once."""
        return 1

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        return stored(learning.memory, learning.memory.sample(batch_size, self.rng))


class Flexible(Rehearsal):
    """FMS (section 4.2, algorithm 2): a sample of class c enters with probability min((t - T_c) / T, 1).

    t and T_c count stream samples. Refused places are filled from memory without repeating a sample of the
    batch, which is the same as drawing the memory's share and theirs together. The draw is made anew at each
    update; the first stream batch of all is taken whole. `rule`: T as given, or divided by the classes seen.
    """

    def __init__(
        self, rng: np.random.Generator, T: float, rule: Literal["fixed", "per-class"] = "fixed"
    ) -> None:
        super().__init__(rng)
        self.T, self.rule = T, rule

    def admission(self, classes: npt.NDArray[np.int64], samples: int, known: Classes) -> Floats:
        """The probability of eq. 4 for each arrival."""
        horizon = self.T / len(known) if self.rule == "per-class" else self.T
        return np.minimum((samples - known.first_seen[classes]) / horizon, 1.0)

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        if learning.samples > len(arrivals):
            admitted = self.rng.random(len(arrivals)) < self.admission(
                arrivals.classes, learning.samples, learning.classes
            )
            arrivals = arrivals.take(np.flatnonzero(admitted))
        return self.fill(arrivals, batch_size, learning.memory)


class MostInterfered(Rehearsal):
    """MIR (Aljundi et al. 2019): of some candidates those whose loss a step on the arrivals raises most.

    Each level gets the share of the places that it has among the candidates (largest remainder).
    """

    def __init__(self, rng: np.random.Generator, candidates: int) -> None:
        super().__init__(rng)
        self.candidates = candidates

    def compose(self, arrivals: Batch, batch_size: int, learning: Learning) -> Batch:
        """The batch of one update."""
        memory = learning.memory
        candidates = stored(memory, memory.sample(self.candidates, self.rng))
        places = min(batch_size - len(arrivals), len(candidates))
        if places == len(candidates):
            return arrivals.join(candidates)
        rises = learning.interference(arrivals, candidates)
        levels = learning.classes.level_of[candidates.classes]
        return arrivals.join(candidates.take(most_interfered(rises, levels, places)))


def most_interfered(rises: Floats, levels: npt.NDArray[np.int64], places: int) -> npt.NDArray[np.int64]:
    """The rows that rise most within each level, levels in proportion to their number of rows."""
    present, counts = np.unique(levels, return_counts=True)
    shares = places * counts / len(levels)
    quotas = shares.astype(int)
    for index in np.argsort(quotas - shares, kind="stable")[: places - quotas.sum()]:
        quotas[index] += 1
    chosen = []
    for level, quota in zip(present, quotas, strict=True):
        rows = np.flatnonzero(levels == level)
        chosen.append(rows[np.argsort(-rises[rows], kind="stable")[:quota]])
    return np.concatenate(chosen)
