"""The kinds of arrays that signatures speak of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[np.integer]  # of any width: slots, rows, classes
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.uint8]
