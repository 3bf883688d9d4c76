"""Ratios, measured interleaved: blocks of the one and of the other in turn, so that noise hits both."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from ramify.bench.workload import BareLoop, Workload, bare_forward, now
from ramify.memory import Sample
from ramify.memory.workbench import LOOK
from ramify.methods import Trainer
from ramify.runs.checkpoint import EVERY, write_checkpoint
from ramify.runs.result import peak_memory

Timed = Callable[[int], float]


def interleave(limit: Timed, other: Timed, blocks: int, block: int) -> dict[str, float]:
    """Medians over alternating blocks: the limit's speed, the other's, and the median of their ratios."""
    limit(block)  # warm-up
    other(block)
    pairs = [(limit(block), other(block)) for _ in range(blocks)]
    return {
        "ratio": statistics.median(a / b for a, b in pairs),
        "per_second": 1 / statistics.median(b for _, b in pairs),
        "limit_per_second": 1 / statistics.median(a for a, _ in pairs),
    }


def update_ratio(work: Workload, blocks: int = 7, block: int = 48) -> dict[str, float]:
    """Updates/s of a method, end to end, against the bare loop."""
    return interleave(BareLoop(work), work.mid_stream().updates, blocks, block)


def class_growth(few: Workload, many: Workload, blocks: int = 9) -> dict[str, float]:
    """How much longer an update and an answer take where there are more classes."""
    less, more = few.mid_stream(), many.mid_stream()
    images = less.images[:LOOK]

    def asks(trainer: Trainer) -> Timed:
        def run(count: int) -> float:
            start = now()
            trainer.predict(images[: 8 * count])
            return (now() - start) / count

        return run

    answers = interleave(asks(less.trainer), asks(more.trainer), blocks, 8)
    updates = interleave(less.updates, more.updates, blocks, 8)
    return {"predict": 1 / answers["ratio"], "learn": 1 / updates["ratio"]}


def admission(work: Workload, samples: int = 2000) -> float:
    """Seconds to admit one sample to a full memory, without any training."""
    stream = work.mid_stream()
    trainer = stream.trainer
    images = trainer.memory["inputs"][:16].clone()
    classes = stream.rng.integers(0, len(trainer.classes), samples)
    times = []
    for index, cls in enumerate(classes.tolist()):
        sample = Sample(images[index % 16], (cls,), cls)
        start = perf_counter()
        trainer.recipe.keep.offer(trainer, sample)
        times.append(perf_counter() - start)
    return statistics.median(times)


def evaluation_ratio(work: Workload, blocks: int = 5) -> dict[str, float]:
    """Images/s of an evaluation at all levels against the bare forward pass."""
    trainer = work.mid_stream().trainer
    images = np.random.default_rng(1).integers(0, 256, (LOOK, 3, work.image_size, work.image_size), np.uint8)

    def asked(count: int) -> float:
        start = now()
        for _ in range(count):
            trainer.predict(images)
        return (now() - start) / (count * LOOK)

    return interleave(bare_forward(work, LOOK), asked, blocks, 4)


def checkpoint_share(work: Workload, blocks: int = 5) -> dict[str, float]:
    """Share of a run's time that goes into checkpoints at the default interval, and what one costs."""
    stream = work.mid_stream()
    trainer = stream.trainer
    stream.updates(2)  # the optimiser's moments
    trainer.task_end()
    with TemporaryDirectory() as folder:
        path, times = Path(folder) / "checkpoint-000001.safetensors", []
        for _ in range(blocks):
            start = perf_counter()
            write_checkpoint(path, trainer.state(), {})
            times.append(perf_counter() - start)
        seconds = statistics.median(times)
        return {"share": seconds / EVERY, "seconds": seconds, "bytes": float(path.stat().st_size)}


def start_up(blocks: int = 5) -> float:
    """Seconds of `ramify --help`, a process of its own."""
    command = [sys.executable, "-c", "import sys; from ramify.cli import main; sys.exit(main(['--help']))"]
    times = []
    for _ in range(blocks):
        start = perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(perf_counter() - start)
    return statistics.median(times)


def learning_memory(work: Workload) -> float:
    """Peak bytes of a process of its own that learns and evaluates, above the images it was given."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_peak, work).result()


def _peak(work: Workload) -> float:
    stream = work.mid_stream()
    stream.updates(64)
    stream.trainer.predict(stream.images[:1000])
    return float(peak_memory() - stream.images.nbytes)


def with_memory(work: Workload, size: int) -> Workload:
    """The same with another memory."""
    return replace(work, settings=replace(work.settings, memory_size=size))
