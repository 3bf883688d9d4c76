"""Reading CIFAR's pickles without running anything in them."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ramify.errors import RamifyError

MAX_BYTES = 2**28


class _Array:
    """Stands in for a NumPy array while it is read: holds bytes that were in the file, and calls nothing."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, data = state
        shape = tuple(int(side) for side in shape)
        if kind != "u1" or fortran or not isinstance(data, bytes) or math.prod(shape) != len(data):
            raise pickle.UnpicklingError("an array in it is not plain uint8")
        self.value = np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _DtypeName(str):
    """Stands in for a dtype: its name alone."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment mean nothing for bytes."""


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _dtype(name: object, *_: object) -> _DtypeName:
    return _DtypeName(name.decode() if isinstance(name, bytes) else name)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in the encoding {encoding!r}")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _dtype,
    ("_codecs", "encode"): _encode,
}


_Unpickler: Any = pickle._Unpickler


# The one written in Python: the one in C takes memory for whatever index or length a hostile file names.
class _Reader(_Unpickler):  # type: ignore[misc]
    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[module, name]

    def load_build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Array | _DtypeName):
            raise pickle.UnpicklingError("it changes an object that is not an array")
        self.stack[-1].__setstate__(state)

    dispatch[pickle.BUILD[0]] = load_build


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in a pickle of dicts, lists, numbers, text and uint8 arrays; anything else is refused."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RamifyError(f"{path} has {path.stat().st_size:,} bytes: expected at most {MAX_BYTES:,}")
        with path.open("rb") as file:
            content = _Reader(file, encoding="bytes").load()
    except OSError as error:
        raise RamifyError(f"cannot read {path}: {error.strerror}") from error
    except RamifyError:
        raise
    except Exception as error:  # a hostile or damaged pickle can raise anything
        raise RamifyError(
            f"{path} is not a CIFAR file ({error}): get it again with `ramify data get cifar100`"
        ) from error
    if not isinstance(content, dict):
        raise RamifyError(f"{path} holds a {type(content).__name__}: expected the dict of a CIFAR file")
    return {as_text(name): kept.value if isinstance(kept, _Array) else kept for name, kept in content.items()}


def as_text(name: object) -> str:
    """A name, which CIFAR keeps as bytes."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
