"""Whether a network computes faster in bf16 on this machine."""

from __future__ import annotations

import copy
import statistics
from time import perf_counter

import torch
from torch import nn

from ramify.networks.heads import Heads
from ramify.networks.inputs import FeatureInputs
from ramify.networks.model import Model, Precision, feature_size
from ramify.randomness import Generators

GAIN, PAIRS = 1.1, 5  # bf16 must be faster by a tenth to be worth its rounding


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for bf16; without them it is only emulated."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capability = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    found = capability.get("avx512_bf16") or capability.get("amx_bf16")
    return device.type == "cpu" and bool(found)


def measured_precision(
    backbone: nn.Module, inputs: FeatureInputs, batch_size: int, device: torch.device
) -> Precision:
    """bf16 where the device has it and training steps of this network gain by it; a second or so."""
    if not has_bf16(device):
        return "fp32"
    heads = Heads(feature_size(backbone, inputs), Generators(0)["heads"])
    heads.grow()
    model = Model(copy.deepcopy(backbone), heads).to(device)
    batch = inputs.ready(torch.zeros((max(2, batch_size), *inputs.shape), dtype=inputs.dtype, device=device))
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
        ratios = [_seconds(model, batch, "fp32") / _seconds(model, batch, "bf16") for _ in range(PAIRS + 1)]
    return "bf16" if statistics.median(ratios[1:]) >= GAIN else "fp32"  # the first warms up


def _seconds(model: Model, batch: torch.Tensor, precision: Precision) -> float:
    model.precision = precision
    start = perf_counter()
    model(batch)[1].sum().backward()
    model.zero_grad(set_to_none=True)
    if batch.device.type == "cuda":
        torch.cuda.synchronize(batch.device)
    return perf_counter() - start
