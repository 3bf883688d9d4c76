"""Named random generators: every draw in a learner comes from one of them, and all can be saved."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ramify.typed import whole_seed

if TYPE_CHECKING:
    import torch


class Generators:
    """One independent generator a name, all set by one seed.

    A part draws only from its own generator, so changing how one part draws (more memory, another
    augmentation) leaves the draws of the others as they were.

    >>> bool(Generators(0)["memory"].integers(100) == Generators(0)["memory"].integers(100))
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = whole_seed(seed)
        self._made: dict[str, np.random.Generator] = {}

    def __getitem__(self, name: str) -> np.random.Generator:
        """The generator of this name, the same object every time."""
        if name not in self._made:
            self._made[name] = self._fresh(name)
        return self._made[name]

    def torch(self, name: str) -> torch.Generator:
        """A generator of torch's, set by a draw from the one of this name."""
        import torch  # streams need none

        return torch.Generator().manual_seed(int(self[name].integers(2**63)))

    def _fresh(self, name: str, *moment: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(name.encode()), *moment])

    def restart(self, names: Iterable[str], moment: int) -> None:
        """Set generators anew, by their name, the seed and a moment: whatever was drawn before."""
        for name in names:
            self[name].bit_generator.state = self._fresh(name, moment).bit_generator.state

    def state(self) -> dict[str, Any]:
        """The seed and the state of every generator that was used so far (plain JSON values)."""
        return {
            "seed": self.seed,
            "made": {name: rng.bit_generator.state for name, rng in self._made.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.seed = state["seed"]
        for name in {*self._made, *state["made"]}:  # in place: the parts hold these very objects
            unused = self._fresh(name).bit_generator.state
            self[name].bit_generator.state = state["made"].get(name, unused)
