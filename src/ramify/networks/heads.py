"""Linear heads, one per level, that grow by one class at a time."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS = 128


class Heads(nn.Module):
    """One row of weights a class, in order of first sight; the rows of a level's classes are its head.

    Rows live in blocks of fixed size. A new class takes the next free row; when a block is full another one
    is added. No old weight, bias or optimiser moment is ever copied or touched, and the product with each
    block has the same shape for ever, so the logits of old classes stay the same to the bit. (Doubling one
    tensor instead would move old rows, and a matrix product of another shape may round otherwise.)
    """

    device_marker: Tensor

    def __init__(self, features: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.features = features
        self.rng = rng
        self.classes = 0
        self.register_buffer("device_marker", torch.empty(0), persistent=False)  # follows the model's device
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()

    def grow(self) -> list[nn.Parameter]:
        """Give the next class a freshly drawn row; return the parameters that had to be added for it."""
        added: list[nn.Parameter] = []
        if self.classes == len(self.weights) * ROWS:
            added = self._add_block()
        self.classes += 1
        self.draw(self.classes - 1)
        return added

    @torch.no_grad()
    def draw(self, cls: int) -> None:
        """Draw a class's row anew, as `nn.Linear` would."""
        bound = 1 / math.sqrt(self.features)
        block, row = divmod(cls, ROWS)
        values = torch.from_numpy(self.rng.uniform(-bound, bound, self.features + 1).astype(np.float32))
        self.weights[block][row] = values[:-1]
        self.biases[block][row] = values[-1]

    def _add_block(self) -> list[nn.Parameter]:
        weight = nn.Parameter(torch.zeros(ROWS, self.features, device=self.device_marker.device))
        bias = nn.Parameter(torch.zeros(ROWS, device=self.device_marker.device))
        self.weights.append(weight)
        self.biases.append(bias)
        return [weight, bias]

    def blocks(self, rows: Tensor, biases: Tensor) -> dict[str, Tensor]:
        """Rows [classes, f] and biases [classes] of all classes as parameters of a model's `heads`."""
        found = {}
        for kind, values in (("weights", rows), ("biases", biases)):
            values = values.to(self.device_marker)
            for block in range(len(self.weights)):
                part = values[block * ROWS : (block + 1) * ROWS]
                spare = part.new_zeros(ROWS - len(part), *part.shape[1:])
                found[f"heads.{kind}.{block}"] = torch.cat([part, spare])
        return found

    def reserve(self, classes: int) -> None:
        """Have the blocks for just this many classes, for weights that are about to be loaded."""
        blocks = -(-classes // ROWS)
        self.weights, self.biases = self.weights[:blocks], self.biases[:blocks]
        while len(self.weights) < blocks:
            self._add_block()
        self.classes = classes

    def forward(self, features: Tensor) -> Tensor:
        """Logits [n, classes] of every class seen, whatever its level; spare rows take no part."""
        blocks = [F.linear(features, w, b) for w, b in zip(self.weights, self.biases, strict=True)]
        logits = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)
        return logits[:, : self.classes]
