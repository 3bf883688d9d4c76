"""The network that learns: a backbone and the heads of all levels on its feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.networks.heads import Heads
from ramify.networks.inputs import FeatureInputs
from ramify.networks.weights import digest_of
from ramify.state import State

Precision = Literal["fp32", "bf16"]


class Model(nn.Module):
    """`backbone` maps inputs to features, `heads` map these to the logits of all classes seen.

    With the precision `bf16` the backbone computes under autocast; features are fp32 again before the heads,
    whoever asks: updates, looks, teachers and virtual steps alike. Modules whose parameters are all frozen
    (`requires_grad` False) are always in evaluation mode, all others as `set_training` says.
    """

    def __init__(self, backbone: nn.Module, heads: Heads, precision: Precision = "fp32") -> None:
        super().__init__()
        self.backbone = backbone
        self.heads = heads
        self.precision = precision
        self._running: list[Tensor] = []
        self._kept: dict[str, Tensor] | None = None  # what was remembered of these, by name
        self._digest: str | None = None
        self._frozen = dict(_frozen(backbone, "backbone."))
        still = {inside for module in self._frozen.values() for inside in module.modules()}
        self._switched = [module for module in self.modules() if module not in still]
        self._by_flag = all(map(_switched_by_flag, self._switched))
        self._switch(True)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features [n, f] and logits [n, classes] of inputs that are ready."""
        features = computed(self.backbone, inputs, self.precision)
        return features, self.heads(features)

    def set_training(self, mode: bool) -> None:
        """Switch between training and evaluation, at no cost where nothing changes."""
        if self.training != mode:
            self._switch(mode)

    def _switch(self, mode: bool) -> None:
        if self._by_flag:  # in a tenth of the time: it is done twice a refresh of the importance
            for module in self._switched:
                vars(module)["training"] = mode
        else:
            self.train(mode)
        for module in self._frozen.values():
            module.eval()

    def changing(self, values: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
        """Those of its weights or statistics that no frozen module holds."""
        return {name: value for name, value in values if not name.startswith(tuple(self._frozen))}

    def frozen_digest(self) -> str | None:
        """A digest of all that is frozen, None where nothing is."""
        if self._digest is None and self._frozen:
            self._digest = digest_of(nn.ModuleList(self._frozen.values()))
        return self._digest

    def remember_statistics(self) -> None:
        """Keep the running statistics as they are, for a step that may fail."""
        if self._kept is None:
            buffers = {n: b for n, b in self.changing(self.named_buffers()).items() if b.numel()}
            self._running = [buffer.detach() for buffer in buffers.values()]
            self._kept = {name: torch.empty_like(buffer) for name, buffer in buffers.items()}
        if self._kept:
            torch._foreach_copy_(list(self._kept.values()), self._running)

    @torch.no_grad()
    def recall_statistics(self, broken: Tensor | None = None) -> None:
        """Put back what was kept; with `broken`, only where it is 1, and without waiting to see."""
        kept = list((self._kept or {}).values())
        if broken is None:
            if kept:
                torch._foreach_copy_(self._running, kept)
            return
        for dtype in {buffer.dtype for buffer in kept}:
            running, before = (
                [buffer for buffer in buffers if buffer.dtype == dtype] for buffers in (self._running, kept)
            )
            then, now = (torch.cat([buffer.reshape(-1) for buffer in part]) for part in (before, running))
            right = torch.split(torch.where(broken > 0, then, now), [buffer.numel() for buffer in running])
            torch._foreach_copy_(running, [a.view_as(b) for a, b in zip(right, running, strict=True)])

    def before_pass(self) -> dict[str, Tensor]:
        """A copy of the network as it was before the training pass under way: weights and statistics."""
        parameters = self.changing(self.named_parameters())
        values = {name: value.detach().clone() for name, value in parameters.items()}
        return values | {name: value.clone() for name, value in (self._kept or {}).items()}

    def renew(self, backbone: nn.Module) -> None:
        """Become a fresh model: the weights of `backbone`, newly drawn heads; what is frozen stays."""
        fresh = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
        self.load_state_dict(self.state_dict() | self.changing(fresh.items()))
        for cls in range(self.heads.classes):
            self.heads.draw(cls)

    def state(self) -> State:
        """All weights and running statistics that can change, and how many classes the heads have.

        Of what is frozen there is a digest: whoever restores the model brings it.
        """
        changing = self.changing(self.state_dict().items())
        values = {name: value.detach().clone() for name, value in changing.items()}
        return {"classes": self.heads.classes, "weights": values, "frozen": self.frozen_digest()}

    def restore(self, state: State) -> None:
        """Continue from `state`."""
        self.heads.reserve(state["classes"])
        there = {} if "frozen" not in state else self.state_dict()
        if state.get("frozen") not in (None, self.frozen_digest()):
            raise RamifyError("the frozen weights are not those that it was trained on: give the same ones")
        self.load_state_dict(there | state["weights"])


def computed(module: nn.Module, inputs: Tensor, precision: Precision) -> Tensor:
    """What a network makes of inputs that are ready: computed in this precision, and fp32 again after it."""
    if precision == "fp32":
        found: Tensor = module(inputs)
        return found
    with torch.autocast(inputs.device.type, dtype=torch.bfloat16):
        found = module(inputs)
    return found.float()


def _switched_by_flag(module: nn.Module) -> bool:
    """Whether a module's `train` does no more than set a flag that is seen from Python."""
    usual = type(module).train is nn.Module.train and "train" not in vars(module)
    return usual and not isinstance(module, torch.jit.ScriptModule)


def _frozen(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The outermost modules that have parameters, none of which is trained, by the names of these."""
    parameters = list(module.parameters())
    if parameters and not any(p.requires_grad for p in parameters):
        yield name, module
    else:
        for inside, child in module.named_children():
            yield from _frozen(child, f"{name}{inside}.")


def feature_size(backbone: nn.Module, inputs: FeatureInputs) -> int:
    """How many features the backbone returns, asked with one blank input."""
    if any(p.is_meta for p in backbone.parameters()):
        raise RamifyError("the network's weights are on the device 'meta'; give it weights with values")
    known = getattr(backbone, "feature_size", None)
    if isinstance(known, int):
        return known
    was_training = backbone.training
    backbone.eval()
    shape = (1, *inputs.shape)
    try:
        with torch.inference_mode():
            device = next((p.device for p in backbone.parameters()), torch.device("cpu"))
            out = backbone(torch.zeros(shape, device=device))
    except Exception as error:  # the network is the user's
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RamifyError(
            f"the network failed on an input {shape} ({words}); it must return features of shape (1, n)"
        ) from error
    finally:
        backbone.train(was_training)
    if not isinstance(out, Tensor) or out.ndim != 2:
        found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise RamifyError(
            f"the network returned {found} for one input; it must return features of shape (1, n)"
        )
    return int(out.shape[1])
