"""A device that is not there: tensors that say they are on it, compute on the CPU and behave like a GPU's.

    with pretend.device() as device:
        model.to(device)                       # also torch.zeros(3, device=device), tensor.to(device), …
        model(torch.ones(2, 3))                # RuntimeError: Expected all tensors to be on the same device
        pretend.device_counter.reset()
        train(model)
        assert pretend.device_counter.to_host == 0, pretend.device_counter.places

What a GPU refuses is refused here: operands on two devices, indices of `gather` on the CPU, a fused Adam
whose `step` is on the CPU, `.numpy()`, a generator of the CPU. What it takes is taken: single numbers of the
CPU in pointwise operations, indices of the CPU in `tensor[indices]`, `copy_` and `to`. Numbers are those of
the CPU to the bit, but for code that chooses another way by `device.type`; autocast changes nothing.

It stays stricter than a GPU in one thing: `Module.to` makes new parameters, so whoever held the old ones (an
optimiser that was made before) holds tensors of the CPU.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretend"
CPU = torch.device("cpu")
aten = torch.ops.aten

COPIES = {aten.copy_, aten._foreach_copy_}
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
PINNING = {aten.is_pinned, aten._pin_memory}
# on a GPU these wait for the device, for their result is a number of Python or has a size that must be known
WAITING = {
    *(aten._local_scalar_dense, aten.equal, aten.nonzero, aten.masked_select, aten.bincount),
    *(aten._unique2, aten.unique_dim, aten.unique_consecutive),
}


class Transfers:
    """How often values went from the device to the host and to the device, and who asked for it.

    Waiting for the device without a copy (`nonzero`, indexing by a mask) counts as going to the host.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again at 0."""
        self.to_host = self.to_device = 0
        self.places: Counter[str] = Counter()  # "to_host path/file.py:12 aten._to_copy" -> how often

    def count(self, way: str, operation: Any, times: int = 1) -> None:
        """Take note of transfers; `way` is "to_host" or "to_device"."""
        if times:
            setattr(self, way, getattr(self, way) + times)
            self.places[f"{way} {_caller()} {operation}"] += times


def _caller() -> str:
    """The line that called torch."""
    frame, torch_home = sys._getframe(1), str(Path(torch.__file__).parent)
    while frame.f_back and frame.f_code.co_filename.startswith((torch_home, __file__)):
        frame = frame.f_back
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"


device_counter = Transfers()
_open = 0  # uses of `device` under way
_missing: set[torch.dtype] = set()  # types that the device does not have


class PretendTensor(Tensor):
    """A tensor on the pretend device; `inner` holds its values, on the CPU."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> PretendTensor:
        """Say that `inner` is on the device."""
        _check_type(inner.dtype)
        made: PretendTensor = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation with a tensor of the device."""
        return run(func, args, kwargs or {})

    def _set_data(self, other: PretendTensor) -> None:
        if not isinstance(other, PretendTensor):
            raise RuntimeError("incompatible tensor type: a tensor of the device gets one of the CPU as data")
        Tensor.data.__set__(self, other)
        self.inner = other.inner

    data = property(Tensor.data.__get__, _set_data)

    def numpy(self, *, force: bool = False) -> Any:
        """Refuse, but by force."""
        if not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return self.detach().cpu().numpy()

    def tolist(self) -> Any:
        """Numbers of Python."""
        return self.detach().cpu().tolist()

    def __format__(self, form: str) -> str:
        return format(self.item(), form) if self.ndim == 0 and form else repr(self)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{NAME}: {self.inner!r}"


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do on the CPU what is asked of the device, or refuse it."""
    kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    given = _tensors((args, *kwargs.values()))
    here = any(isinstance(value, PretendTensor) for value in given)
    target = kwargs.get("device")
    packet = func.overloadpacket
    if packet in PINNING:
        return given[0].clone() if packet is aten._pin_memory else False
    if not here and (target is None or target.type != NAME):
        return func(*args, **kwargs)  # nothing to do with the device
    if torch.is_inference_mode_enabled() and func._can_decompose():  # elsewhere torch has done so by now
        with _Mode():
            return func.decompose(*args, **kwargs)
    if kwargs.get("generator") is not None:
        raise RuntimeError(f"Expected a '{NAME}' device type for generator but found 'cpu'")
    if packet in COPIES:
        _count_copies(packet, *args[:2])
    elif packet is aten._to_copy:
        _count_move(given[0], target, kwargs.get("dtype"))
    elif target is None:
        _refuse_mixture(func, args, given)
        if packet in WAITING or (packet in INDEXING and _has_mask(args[1])):
            device_counter.count("to_host", packet)
    inner_args = _each(args, _inner)
    inner_kwargs = {name: _each(value, _inner) for name, value in kwargs.items()}
    if target is not None:
        inner_kwargs["device"] = CPU
    made = func(*inner_args, **inner_kwargs)
    # what is written in place stays who it is
    known = {id(_inner(value)): value for value in reversed(given)}
    if any(value.shape != _inner(value).shape for value in given):
        raise NotImplementedError(f"{func} changes the shape of a tensor in place, which {NAME} cannot")
    stays = target is not None and target.type != NAME

    def outer(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return known[id(value)] if id(value) in known else value if stays else PretendTensor(value)

    return _each(made, outer)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among the values of an operation, also of those in lists."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value, or all of a list, changed: operations know no other trees, and torch's own take long."""
    if isinstance(value, list | tuple):
        return type(value)([_each(one, change) for one in value])
    return change(value)


def _inner(value: Any) -> Any:
    """A value as the CPU takes it."""
    if isinstance(value, PretendTensor):
        return value.inner
    return CPU if isinstance(value, torch.device) and value.type == NAME else value


def _check_type(dtype: torch.dtype | None) -> None:
    if dtype in _missing:
        kind = str(dtype).removeprefix("torch.")
        raise TypeError(
            f"Cannot convert a {NAME} Tensor to {kind} dtype as the device does not support {kind}"
        )


def _count_copies(packet: Any, written: Any, read: Any) -> None:
    """Copies in place go from anywhere to anywhere."""
    pairs = [(written, read)] if isinstance(written, Tensor) else list(zip(written, read, strict=True))
    ways = [(isinstance(a, PretendTensor), isinstance(b, PretendTensor)) for a, b in pairs]
    device_counter.count("to_device", packet, ways.count((True, False)))
    device_counter.count("to_host", packet, ways.count((False, True)))


def _count_move(tensor: Tensor, target: torch.device | None, dtype: torch.dtype | None) -> None:
    """`to`, `cpu`, `float`, …: a move, a change of type, or both."""
    from_here = isinstance(tensor, PretendTensor)
    to_here = from_here if target is None else target.type == NAME
    _check_type(dtype)  # the type changes on the device, on the way there and on the way back
    if from_here != to_here:
        device_counter.count("to_host" if from_here else "to_device", aten._to_copy)


def _refuse_mixture(func: Any, args: Any, given: list[Tensor]) -> None:
    """Refuse operands of the CPU, but for those that a GPU takes too."""
    away = [value for value in given if not isinstance(value, PretendTensor)]
    packet = func.overloadpacket
    if not away:
        return
    if packet in INDEXING:
        if not isinstance(args[0], PretendTensor):
            raise RuntimeError(
                "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
            )
        indices = [i for i in args[1] if isinstance(i, Tensor) and not isinstance(i, PretendTensor)]
        device_counter.count("to_device", packet, len(indices))
        away = [value for value in away if not any(value is i for i in indices) and value.ndim]
    elif torch.Tag.pointwise in func.tags or packet in (aten.fill_, aten.masked_fill, aten.masked_fill_):
        written = [a for a, s in zip(args, func._schema.arguments, strict=False) if s.is_write]
        away = [value for value in away if value.ndim or any(value is w for w in written)]
    if away:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
            f"cpu! (in {func}, a tensor of shape {tuple(away[0].shape)} is on the CPU)"
        )


def _has_mask(indices: Any) -> bool:
    return any(isinstance(i, PretendTensor) and i.dtype in (torch.bool, torch.uint8) for i in indices)


class _Mode(TorchDispatchMode):
    """Sees what `PretendTensor` cannot: factories, and tensors of the CPU that go to the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> Tensor:
    """`torch.tensor(values, device=…)` passes by every mode: it asks the device itself for a tensor …"""
    return PretendTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(read: Tensor, written: PretendTensor, non_blocking: bool = False) -> Tensor:
    """… and to fill it."""
    _count_copies(aten._copy_from, written, read)
    written.inner.copy_(read)
    return written


@cache
def _set_up() -> tuple[Any, ...]:
    """Tell torch of the device, once a process; what is returned must be kept."""
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this version of torch knows no devices that are written in Python")
    module, hook = backend_registration._DummyBackendModule(), backend_registration._DummyPrivateUse1Hook()
    module.is_available = hook.is_available = lambda: _open > 0  # other tests in this process have no device
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    backend_registration._setup_privateuseone_for_python_backend(NAME, module, hook)
    kernels, autocast = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    kernels.impl("empty_strided", _empty_strided, "PrivateUse1")
    kernels.impl("_copy_from", _copy_from, "PrivateUse1")
    autocast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    return kernels, autocast, hook


@contextmanager
def device(float64: bool = True) -> Iterator[torch.device]:
    """The device; without `float64` it has none, as Apple's MPS. The device_counter begins at 0."""
    global _open
    _set_up()
    device_counter.reset()
    before = set(_missing)
    _open += 1
    _missing.update(() if float64 else {torch.float64})
    try:
        # gradients in the thread of the caller: it sees the mode, and rounds as the CPU with as many threads
        with torch.autograd.set_multithreading_enabled(False), _Mode():
            yield torch.device(NAME)
    finally:
        _open -= 1
        _missing.clear()
        _missing.update(before)
