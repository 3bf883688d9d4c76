"""A method of your own: ER whose memory is shared out evenly between the levels.

Balanced over classes, a memory leaves the few coarse classes hardly any places; here each level has as many
as the others, and its classes share them. Try it where this file is:

    ramify run --method own_method:level_er --dataset garden --preset quick --out runs/level-er
    python own_method.py        # the checks that every method of ramify passes
"""

from __future__ import annotations

import numpy as np

from ramify.memory import Policy
from ramify.methods import Recipe, Settings
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import ExponentialReset


class LevelBalanced(Policy):
    """What to keep: the level with the most stored samples gives up one of its largest class."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def victim(self, newcomer: int) -> int:
        """The slot that a newcomer of this class takes."""
        stored = self.memory.counts[: len(self.classes)].astype(float)  # by class
        by_level = np.bincount(self.classes.level_of[: len(stored)], stored)
        stored[self.classes.level_of[: len(stored)] != by_level.argmax()] = -1
        return int(self.rng.choice(self.memory.members(int(stored.argmax()))))


def level_er(settings: Settings, rng: Generators) -> Recipe:
    """Four choices: what to keep, what to rehearse, what to minimise, how fast to learn."""
    return Recipe(
        keep=LevelBalanced(rng["keep"]),
        rehearse=HalfAndHalf(rng["rehearse"]),
        minimise=CrossEntropy(),
        rate=ExponentialReset(settings.lr, settings.lr_decay),
    )


if __name__ == "__main__":
    from ramify import check_method

    check_method(level_er)
    print("level_er passes all checks")
