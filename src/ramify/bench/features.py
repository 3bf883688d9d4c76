"""What a frozen network saves: encoding once, and learning from features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ramify.bench.measure import interleave
from ramify.bench.workload import BareLoop, Workload, bare_forward, now
from ramify.methods import make_settings
from ramify.networks import ImageInputs
from ramify.networks.build import LITE
from ramify.networks.efficientnet import FEATURES
from ramify.networks.encoder import BATCH, Encoder

PIXELS = 128
SINGLE_DEPTH = (20, 100)  # CIFAR-100's classes, 120 together


def feature_workload(batch_size: int = 16, classes: tuple[int, ...] = SINGLE_DEPTH) -> Workload:
    """ER with linear heads on features of EfficientNet-Lite0's size."""
    settings = make_settings(updates_per_sample=1.0, batch_size=batch_size)
    return Workload("er", settings, classes, features=FEATURES)


def fine_tuned(pixels: int = PIXELS) -> Workload:
    """ER that trains the whole of EfficientNet-Lite0."""
    settings = make_settings(updates_per_sample=1.0, memory_size=64, network={"name": LITE})
    return Workload("er", settings, SINGLE_DEPTH, image_size=pixels)


def linear_ratio(work: Workload, blocks: int = 31, block: int = 64) -> dict[str, float]:
    """Updates/s on features against a bare linear loop: forward, backward and Adam on a ready batch."""
    return interleave(BareLoop(work), work.mid_stream().updates, blocks, block)


def learning_gain(tuned: Workload, work: Workload, blocks: int = 3) -> dict[str, float]:
    """Samples/s of learning from cached features over those of fine-tuning, end to end."""
    slow, fast = tuned.mid_stream(), work.mid_stream()

    def samples(stream: object, count: int) -> float:
        start = now()
        stream.learn(count)  # type: ignore[attr-defined]
        return (now() - start) / count

    return interleave(lambda count: samples(slow, count), lambda count: samples(fast, 64 * count), blocks, 8)


def encoding_ratio(work: Workload, blocks: int = 7, passes: int = 2) -> dict[str, float]:
    """Images/s of the encoder, from bytes to features, against the bare forward pass of ready batches."""
    encoder = Encoder(work.backbone(), ImageInputs(work.image_size))
    shape = (passes * BATCH, *encoder.inputs.shape)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)

    def encode(count: int) -> float:
        start = now()
        for _ in range(count // passes):
            encoder.array(images)
        return (now() - start) / (count // passes * len(images))

    return interleave(bare_forward(work, BATCH), encode, blocks, 2 * passes)


def bytes_a_sample(work: Workload) -> float:
    """Bytes of a full memory for each sample, in bytes of its feature."""
    memory = replace(work, method="er").mid_stream().trainer.memory
    return memory.nbytes() / (memory.size * 4 * (work.features or 1))
