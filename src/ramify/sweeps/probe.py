"""A few timed updates of a learner, with its memory full, in a process of its own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from ramify.methods import Trainer, find_method
from ramify.networks import FeatureInputs, ImageInputs
from ramify.networks.encoder import split_network
from ramify.networks.inputs import DTYPES
from ramify.runs.config import Config
from ramify.runs.inputs import on_features
from ramify.runs.result import peak_memory
from ramify.runs.run import pick_device
from ramify.sweeps.jobs import How, Outcome, outcome_of


@dataclass(frozen=True)
class Speed:
    """What was measured: seconds for each of these, and the bytes of the process."""

    sample: float
    """While samples arrive, all that the method does with one."""
    memory_update: float
    answer: float
    """Getting ready to be asked (BiC's fits)."""
    evaluated: float
    memory: int


@dataclass(frozen=True)
class ProbeJob:
    """Times a learner on random images with the labels of its stream."""

    name: str
    config: Config
    levels: tuple[int, ...]
    labels: tuple[int, ...]
    image_size: int
    samples: int
    how: How
    after: frozenset[str] = frozenset()
    features: bool = False
    """Whether the dataset holds features, of the size `image_size`."""
    seconds: float = 0.5
    """How long each of four things is timed; filling the memory may take four times as long."""

    def work(self) -> Outcome:
        """The speed is the outcome's value."""
        try:
            return Outcome(value=self._measure())
        except Exception as error:
            return outcome_of(error)

    def lost(self, why: str) -> Outcome:
        """Say so; it is not tried again."""
        return Outcome(why)

    def _measure(self) -> Speed:
        torch.set_num_threads(self.how.threads)
        trainer, config = self._trainer(), self.config
        random = np.random.default_rng(0)
        dtype, shape = trainer.inputs.dtype, trainer.inputs.shape
        values = torch.from_numpy(random.integers(0, 256, (256, *shape), np.uint8))
        images = values if dtype == torch.uint8 else (values / 255).to(dtype)
        views = trainer.inputs.views + 1
        order = iter(lambda: int(random.integers(len(self.labels))), None)

        def arrive(count: int) -> None:
            for at in itertools.islice(order, count):
                labels = [(self.levels[at], self.labels[at])]
                if trainer.method.told_paths:
                    labels += [(h, 0) for h in range(1, max(self.levels) + 1) if h != self.levels[at]]
                sample = images[at % 256][None]
                trainer.observe(sample[:, None].expand(-1, views, -1) if views > 1 else sample, [labels])

        trainer.settings = replace(trainer.settings, updates_per_sample=1e-12)  # fill the memory, train later
        start = time.perf_counter()
        while not trainer.memory.full and time.perf_counter() - start < 4 * self.seconds:
            arrive(config.batch_size)
        trainer.settings = replace(trainer.settings, updates_per_sample=config.updates_per_sample)
        batch = trainer.memory.batch(np.arange(min(config.batch_size, trainer.memory.size)))
        block = 2 * config.batch_size
        unfilled = (trainer.memory.capacity - trainer.memory.size) * images[0].numel()
        return Speed(
            sample=self._timed(lambda: arrive(block)) / block,
            memory_update=self._timed(lambda: trainer.update(batch, config.lr)) if len(batch) else 0.0,
            answer=0.0 if trainer.method.memory_epochs == "answers" else self._timed(trainer.prepare),
            evaluated=self._timed(lambda: trainer.look(images)) / len(images),
            memory=peak_memory() + unfilled,
        )

    def _trainer(self) -> Trainer:
        config, method = self.config, find_method(self.config.method)
        device, network = pick_device(self.how.device), None
        images = ImageInputs(self.image_size)
        inputs: FeatureInputs = images
        if self.features:
            inputs = FeatureInputs(self.image_size)
            config = replace(config, **on_features(config))
        elif config.network.encodes:
            dtype = DTYPES[config.feature_dtype]
            encoder, network = split_network(config.network, images, 0, device, dtype, config.precision)
            inputs = FeatureInputs(encoder.size, dtype, config.feature_views)
            config = replace(config, precision=encoder.precision)
        if method.keeps_stream:
            config = replace(config, memory_size=self.samples)
        return Trainer(method, config, inputs, 0, device, network)

    def _timed(self, work: Callable[[], object]) -> float:
        """Seconds of one call: once to warm up, then until enough time has passed."""
        work()
        count, start = 0, time.perf_counter()
        while count == 0 or time.perf_counter() - start < self.seconds:
            work()
            count += 1
        return (time.perf_counter() - start) / count
