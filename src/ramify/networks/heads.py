"""Linear heads, one per level, that grow by one class at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramify.change import Change

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

    @torch.no_grad()
    def copy(self, cls: int, new: int, share: float) -> None:
        """Let a class begin as a share of another one."""
        (block, row), (to, place) = divmod(cls, ROWS), divmod(new, ROWS)
        self.weights[to][place] = self.weights[block][row]
        self.biases[to][place] = self.biases[block][row] + math.log(share)

    def follow(self, change: Change) -> None:
        """Rows of classes that became one are joined; those of ended ones are 0."""
        join_rows(change, {f"heads.{name}": p.detach() for name, p in self.named_parameters()}, self.classes)

    def reserve(self, classes: int) -> None:
        """Have the blocks for just this many classes, for weights that are about to be loaded."""
        blocks = -(-classes // ROWS)
        self.weights, self.biases = self.weights[:blocks], self.biases[:blocks]
        while len(self.weights) < blocks:
            self._add_block()
        self.classes = classes

    def forward(self, features: Tensor) -> Tensor:
        """Logits [n, classes] of every class seen, whatever its level; spare rows take no part."""
        # from the dictionaries, for the lists look each one up by its name
        pairs: Any = zip(self.weights._parameters.values(), self.biases._parameters.values(), strict=True)
        blocks = [F.linear(features, *pair) for pair in pairs]
        logits = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)
        return logits[:, : self.classes]

    def differentiate(self, features: Tensor, gradient: Tensor) -> None:
        """Give all rows their gradient by that of the logits [n, classes], to the bit as autograd has it."""
        parts = torch.split(F.pad(gradient, (0, len(self.weights) * ROWS - self.classes)), ROWS, 1)
        pairs: Any = zip(self.weights._parameters.values(), self.biases._parameters.values(), strict=True)
        for (weight, bias), own in zip(pairs, parts, strict=True):
            weight.grad, bias.grad = own.t().mm(features), own.sum(0)


def join_rows(change: Change, weights: Mapping[str, Tensor], known: int, joined: bool = True) -> None:
    """Let the rows of the heads among named `weights` follow, in place; the first `known` classes have one.

    The row of a union is the mean of its members' rows, weighted by their shares π of what was seen, and its
    bias is higher by the entropy of π: Σ π z + H(π) ≤ log Σ exp z, the logit of all of them together, and
    equal to it where the members' probabilities are as π. Without `joined` it is the mean alone (moments).
    """
    for cls, members in change.unions(known):
        shares = change.weights(members)
        entropy = float(-(shares * np.log(np.maximum(shares, 1e-300))).sum()) if joined else 0.0
        for kind, more in (("weights", 0.0), ("biases", entropy)):
            rows = [weights[f"heads.{kind}.{c // ROWS}"][c % ROWS] for c in members.tolist()]
            total = sum(share * row for share, row in zip(shares.tolist(), rows, strict=True)) + more
            weights[f"heads.{kind}.{cls // ROWS}"][cls % ROWS] = total
    for cls in change.ended[change.ended < known].tolist():
        for kind in ("weights", "biases"):
            weights[f"heads.{kind}.{cls // ROWS}"][cls % ROWS] = 0
