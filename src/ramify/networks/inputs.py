"""What a learner takes in: how it is checked, stored and made ready for the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramify.arrays import Array
from ramify.errors import RamifyError
from ramify.pixels import check_values
from ramify.randomness import Generators
from ramify.typed import shown, whole

Values = Array | Tensor
DTYPES = {"float32": torch.float32, "float16": torch.float16}
ARRAY_DTYPES: dict[torch.dtype, Any] = {
    torch.uint8: np.uint8,
    torch.float32: np.float32,
    torch.float16: np.float16,
}


def as_tensor(values: Values) -> Tensor:
    """Values as a tensor; an array is copied, for it may be read-only."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values.copy())


@dataclass(frozen=True)
class FeatureInputs:
    """Vectors of `size` values each, from any source; they go into the network as they are.

    With `views` a sample is several of them, the first as it is and so many augmented ones; what is asked is
    a single one. With a `source`, such as a memory-mapped file, a sample is its index there: for a method
    that keeps the whole stream, which the memory need not hold a second time.
    """

    size: int
    dtype: torch.dtype = torch.float32
    views: int = 0
    source: Array | None = field(default=None, repr=False, compare=False, kw_only=True)
    what = "features"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample that is asked."""
        return (whole("the size of a feature", self.size, 1),)

    @property
    def kept(self) -> tuple[torch.dtype, tuple[int, ...]]:
        """What is kept of a sample in memory: type and shape."""
        if self.source is not None:
            return torch.int64, ()
        return self.dtype, (self.views + 1, *self.shape) if self.views else self.shape

    def fetch(self, kept: Tensor) -> Tensor:
        """Samples from what is kept of them."""
        if self.source is None:
            return kept
        return torch.from_numpy(self.source[kept.cpu().numpy()]).to(kept.device)

    def check(self, values: Values, learned: bool = False) -> None:
        """Refuse what is not of this kind; what is to be learned is looked at more closely."""
        if not isinstance(values, Tensor | np.ndarray):
            raise RamifyError(f"{self.what} are a {type(values).__name__}; they must be an array or a tensor")
        if learned and self.source is not None:  # indices arrive
            return
        allowed = (self.dtype, ARRAY_DTYPES[self.dtype])
        shape = self.kept[1] if learned else self.shape
        shapes = (shape, self.kept[1])  # what is about to be learned may be asked
        if values.dtype not in allowed or tuple(values.shape[1:]) not in shapes:
            raise RamifyError(
                f"{self.what} are {values.dtype} of shape {tuple(values.shape)}; they must be "
                f"{str(self.dtype).removeprefix('torch.')} of shape (n, {', '.join(map(str, shape))})"
            )
        self._check_values(values, learned)

    def _check_values(self, values: Values, learned: bool) -> None:
        if learned and not _finite(values):
            raise RamifyError(f"{self.what} hold NaN or infinite values; leave those samples out")

    def take(self, values: Values, rng: Generators) -> Tensor:
        """What has arrived, checked before, as it is kept."""
        return as_tensor(values)

    def ready(self, values: Tensor) -> Tensor:
        """Stored values as the network takes them; of several views the first."""
        return (values[:, 0] if values.ndim == 3 else values).float()


@dataclass(frozen=True)
class ImageInputs(FeatureInputs):
    """uint8 images [3, size, size]; the network gets (x / 255 − mean) / std of each channel."""

    dtype: torch.dtype = torch.uint8
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    what = "images"

    def __post_init__(self) -> None:
        whole("image_size", self.size, 1)
        for name in ("mean", "std"):
            object.__setattr__(self, name, _three(name, getattr(self, name)))
        if not min(self.std) > 0:
            raise RamifyError(f"std is {self.std}; each of its values must be above 0")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one image."""
        return (3, self.size, self.size)

    def _check_values(self, values: Values, learned: bool) -> None:
        """Floats that were cut to bytes are not learned."""
        if learned:
            check_values(values)

    def ready(self, values: Tensor) -> Tensor:
        """Normalise [n, 3, size, size]."""
        mean, std = channels(self.mean, values.device), channels(self.std, values.device)
        return values.float().sub_(mean).div_(std)


def _finite(values: Values) -> bool:
    if isinstance(values, Tensor):  # a finite sum has no other parts, and is found in a tenth of the time
        return bool(values.sum().isfinite()) or bool(values.isfinite().all())
    return bool(np.isfinite(values).all())


@cache
def channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Values of 0..1, one a channel, for images of 0..255."""
    return torch.tensor(values, device=device).mul_(255).view(-1, 1, 1)


def _three(name: str, values: Any) -> tuple[float, ...]:
    try:
        found = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # lists of unlike length, tensors without values
        found = np.empty(0)
    if found.dtype.kind not in "iuf" or found.shape != (3,) or not np.isfinite(found).all():
        raise RamifyError(
            f"{name} is {shown(values)}; it must be three numbers, one a channel, of images in 0..1"
        )
    return tuple(found.tolist())
