"""Networks of timm, which wants torchvision for a few names that its models never use here."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from torch import nn

from ramify.errors import RamifyError
from ramify.pixels import Channels

TIMM = "timm:"


def timm_model(name: str, arguments: dict[str, Any], pretrained: bool) -> nn.Module:
    """The network `timm:NAME` without its classifier; downloads its weights unless told otherwise."""
    timm = _timm()
    chosen = {"pretrained": pretrained, "num_classes": 0} | arguments
    try:
        built: nn.Module = timm.create_model(name.removeprefix(TIMM), **chosen)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        hint = (
            "; without a download give --network.weights FILE, or --network.args '{\"pretrained\": false}' "
            "(`ramify learn --set network.weights=FILE`)"
            if chosen["pretrained"]
            else ""
        )
        raise RamifyError(f"network {name!r} failed ({words}){hint}") from error
    return built


def timm_normalisation(name: str) -> tuple[Channels, Channels] | None:
    """Mean and standard deviation of the network's pretrained configuration."""
    found = _timm().get_pretrained_cfg(name.removeprefix(TIMM))
    return None if found is None else (tuple(found.mean), tuple(found.std))


def timm_stages(network: Any) -> list[list[nn.Parameter]]:
    """The parameters of the stem and of each stage, as the network's authors group them."""
    groups = _timm().models.group_parameters(network, network.group_matcher(coarse=True))
    return [[network.get_parameter(name) for name in names] for names in groups.values()]


def _timm() -> Any:
    """The package, also where torchvision is not installed, or was built for another torch."""
    if "timm" in sys.modules:
        return sys.modules["timm"]
    try:
        import torchvision  # noqa: F401
    except Exception:  # not there, or it does not load beside this torch
        with _stand_in():
            return _imported()
    return _imported()


def _imported() -> Any:
    try:
        import timm
    except ImportError as error:
        raise RamifyError(
            f"networks of timm need it ({error}): pip install 'ramify[timm]'; where that would change torch: "
            "pip install --no-deps timm, and pip install huggingface_hub pyyaml"
        ) from None
    return timm


class _Kind(type):
    """A name of torchvision's that nothing here uses: it can be inherited from, and has such names itself."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kind(name, (), {})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__module__ == __name__:
            raise RamifyError(f"timm asked torchvision for {cls.__name__}: install torchvision beside torch")
        return super().__call__(*args, **kwargs)


class _Empty(types.ModuleType):
    """A module in which every name is found."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Kind(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds torchvision and all below it, but what timm can do without."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Only its own."""
        inside = fullname.split(".")[0] == "torchvision" and "feature_extraction" not in fullname
        return ModuleSpec(fullname, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Nothing is in it."""
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


@contextmanager
def _stand_in() -> Iterator[None]:
    """While timm is imported, modules under torchvision's name.

    Its models want one class to compare with, its data part many names; no network is built of them.
    They are taken away again: other packages find out for themselves that torchvision is not there.
    """
    finder = _Finder()
    for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:  # what is left of a broken one
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n, module in sys.modules.items() if isinstance(module, _Empty)]:
            del sys.modules[name]
