"""What the `Learner` costs beside a run: samples given one at a time, and questions asked meanwhile."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from PIL import Image

from ramify.bench.measure import interleave
from ramify.bench.workload import MidStream, Workload
from ramify.learner import Learner


def _learner(work: Workload, stream: MidStream) -> Learner:
    """A learner in the state of a trainer in mid-stream."""
    settings = {name: getattr(work.settings, name) for name in LEARNER_SETTINGS}
    learner = Learner(
        work.method,
        image_size=work.image_size,
        memory_size=work.settings.memory_size,
        network=work.settings.network,
        device="cpu",
        **settings,
    )
    learner._trainer.restore(stream.trainer.state())
    return learner


LEARNER_SETTINGS = (
    "batch_size",
    "updates_per_sample",
    "lr",
    "lr_decay",
    "augment",
    "importance",
    "pl",
    "fms",
)


def one_at_a_time(work: Workload, blocks: int = 5, samples: int = 48) -> dict[str, float]:
    """Samples/s of `partial_fit`, one sample a call, against a run that is given the same samples."""
    stream = work.mid_stream()
    learner = _learner(work, stream)
    position = 0

    def fit(count: int) -> float:
        nonlocal position
        rows = np.arange(position, position + count) % len(stream.images)
        start = perf_counter()
        for row in rows.tolist():
            learner.partial_fit(
                stream.images[row : row + 1], [int(stream.labels[row])], int(stream.levels[row])
            )
        position += count
        return (perf_counter() - start) / count

    def run(count: int) -> float:
        start = perf_counter()
        for _ in range(0, count, 8):
            stream.learn(8)
        return (perf_counter() - start) / count

    return interleave(run, fit, blocks, samples)


def predict_start_up(blocks: int = 5) -> float:
    """Processor seconds of `ramify predict` on one photo, a process of its own."""
    times = []
    with TemporaryDirectory() as folder:
        learner = Learner("er", image_size=32, device="cpu")
        pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 32, 32), np.uint8)
        learner.partial_fit(pixels, [0, 1], 1)
        model, photo = Path(folder) / "model", Path(folder) / "photo.png"
        learner.save(model)
        Image.fromarray(pixels[0].transpose(1, 2, 0)).save(photo)
        command = [sys.executable, "-m", "ramify", "predict", str(model), str(photo)]
        for _ in range(blocks):
            before = os.times()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            after = os.times()
            times.append(sum(after[2:4]) - sum(before[2:4]))  # of children: user and system
    return statistics.median(times)


def waiting(work: Workload, samples: int = 200, images: int = 1) -> dict[str, float]:
    """Seconds that `predict` takes while another thread is in `partial_fit`, and alone."""
    stream = work.mid_stream()
    learner = _learner(work, stream)
    asked = stream.images[:images]

    def ask() -> float:
        start = perf_counter()
        learner.predict(asked)
        return perf_counter() - start

    alone = [ask() for _ in range(20)]
    labels, levels = stream.labels[:samples].tolist(), stream.levels[:samples].tolist()
    thread = threading.Thread(target=learner.partial_fit, args=(stream.images[:samples], labels, levels))
    before, start = learner.updates, perf_counter()
    thread.start()
    meanwhile = []
    while thread.is_alive():
        meanwhile.append(ask())
    thread.join()
    seconds = perf_counter() - start
    return {
        "alone": float(np.median(alone)),
        "meanwhile": float(np.median(meanwhile)),
        "longest": float(np.max(meanwhile)),
        "answers": float(len(meanwhile)),
        "update": seconds / max(1, learner.updates - before),
    }
