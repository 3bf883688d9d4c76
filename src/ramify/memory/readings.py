"""What the host wants to know of the device, asked for together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Array


class Readings:
    """Values that the device has and the host wants, fetched in one transfer when one of them is needed.

    Each transfer waits for all that the device has been told to do. So whoever can wait asks here; answers
    come in the order of the questions.
    """

    def __init__(self) -> None:
        self._asked: list[tuple[Callable[[], Tensor], Callable[[Array], None]]] = []

    def ask(self, value: Callable[[], Tensor], then: Callable[[Array], None]) -> None:
        """Call `then` with the value, which is worked out on the device when it is fetched."""
        self._asked.append((value, then))

    def fetch(self) -> None:
        """Answer all that has been asked for."""
        asked, self._asked = self._asked, []
        if asked:
            arrays = to_host([value() for value, _ in asked])
            for array, (_, then) in zip(arrays, asked, strict=True):
                then(array)


def to_host(values: Sequence[Tensor]) -> list[Array]:
    """float32 and int tensors as arrays, in one transfer; ints are int32 on the way."""
    if all(value.device.type == "cpu" for value in values):
        return [value.numpy() for value in values]
    narrow = [value if value.is_floating_point() else value.int() for value in values]
    words = torch.cat([value.reshape(-1).view(torch.int32) for value in narrow]).cpu().numpy()
    parts = np.split(words, np.cumsum([value.numel() for value in values])[:-1])
    return [
        (part.view(np.float32) if value.is_floating_point() else part).reshape(value.shape)
        for part, value in zip(parts, values, strict=True)
    ]
