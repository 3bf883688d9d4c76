"""What runs cost: counted before they are run, added up afterwards, and at the paper's scale."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch.utils.flop_counter import FlopCounterMode

from ramify.datasets import Dataset
from ramify.methods import find_method
from ramify.methods.epochs import EpochSettings
from ramify.networks import build_backbone
from ramify.networks.settings import NetworkSettings
from ramify.plural import counted
from ramify.randomness import Generators
from ramify.rehearsal import Rehearsal
from ramify.runs.config import Config
from ramify.runs.presets import resolve
from ramify.runs.result import Result
from ramify.runs.run import evaluated_at, prepare_dataset, prepare_stream
from ramify.streams import Stream
from ramify.sweeps.words import duration, rounded
from ramify.typed import amount

AVERAGED = 64  # stream batches
BACKWARD = 2  # a backward pass costs about two forward passes


@dataclass(frozen=True)
class Work:
    """What a run does, as its config says."""

    samples: int
    stream_updates: float
    """Updates while samples arrive."""
    memory_updates: int
    """Updates of RM, GDumb and Oracle on their memory."""
    answers: int
    """Evaluations."""
    evaluated: int
    """Images in all evaluations."""

    @property
    def updates(self) -> float:
        """All of them."""
        return self.stream_updates + self.memory_updates


class Costing:
    """Counts the work of runs; a dataset is opened, and a stream of each shape laid out, only once."""

    def __init__(self, data_dir: str | None = None) -> None:
        self.data_dir = data_dir
        self._datasets: dict[tuple[object, ...], Dataset] = {}
        self._streams: dict[Config, Stream] = {}
        self._ratios: dict[Config, float] = {}

    def dataset(self, config: Config) -> Dataset:
        """The images that a run uses."""
        key = (config.dataset, config.image_size, config.taxonomy, config.skip_broken, config.pad)
        if key not in self._datasets:
            self._datasets[key] = prepare_dataset(config, self.data_dir)
        return self._datasets[key]

    def stream(self, config: Config, dataset: Dataset) -> Stream:
        """The stream of a run, or one of another seed."""
        key = replace(type(config)(), **config.stream_fields())
        if key not in self._streams:
            self._streams[key] = prepare_stream(key, dataset)
        return self._streams[key]

    def work(self, config: Config, dataset: Dataset | None = None) -> Work:
        """What a run does, from its stream and the parts of its method."""
        dataset = dataset or self.dataset(config)
        stream = self.stream(config, dataset)
        method = find_method(config.method)
        rehearse = method(config, Generators(config.seed)).rehearse
        ends = {*stream.task_starts[1:].tolist(), len(stream)}
        asked = evaluated_at(config, stream, method.offline)
        trained_at = {"never": [], "task ends": ends, "answers": asked}[method.memory_epochs]
        room = len(stream) if method.keeps_stream else config.memory_size
        batches = sum(math.ceil(min(at, room) / config.batch_size) for at in trained_at)
        test = len(dataset.test.leaves)
        subset = min(test, config.eval_images or test)
        return Work(
            samples=len(stream),
            stream_updates=len(stream) * _updates_a_sample(rehearse, config),
            memory_updates=batches * config[EpochSettings].count,
            answers=len(asked),
            evaluated=sum(test if at in ends else subset for at in asked),
        )

    def paper_ratio(self, config: Config) -> float:
        """How much more a run would cost with the paper's settings, by multiply-adds."""
        kind = replace(config, seed=0)
        if kind not in self._ratios:
            dataset = self.dataset(config)
            if dataset.of_features:  # the paper has no such runs
                return 1.0
            here, there = (
                multiply_adds(one, dataset.image_size, self.work(one, dataset))
                for one in (kind, at_paper_scale(kind))
            )
            self._ratios[kind] = there / here
        return self._ratios[kind]


def _updates_a_sample(rehearse: Rehearsal, config: Config) -> float:
    """Updates for each sample, averaged over some stream batches."""
    size = rehearse.buffer_size(config.batch_size)
    credit, updates = 0.0, 0
    for _ in range(AVERAGED):
        credit += size * config.updates_per_sample
        due = rehearse.updates_due(credit)
        credit = max(0.0, credit - due)
        updates += due
    return updates / (size * AVERAGED)


def multiply_adds(config: Config, image_size: int, work: Work) -> float:
    """Of all updates and evaluations. Examining the memory and a method's extra passes are left out.

    `image_size` is for a config that leaves it to the dataset.
    """
    one = forward_cost(config.network, config.image_size or image_size)
    if config.network.encodes:  # each image once; what is trained on features is next to nothing
        return one * work.samples
    return one * (work.updates * config.batch_size * (1 + BACKWARD) + work.evaluated)


@functools.cache
def forward_cost(network: NetworkSettings, image_size: int) -> float:
    """Multiply-adds of one image in the convolutions and linear layers of a backbone."""
    backbone = build_backbone(network, image_size=image_size).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        backbone(torch.zeros(1, 3, image_size, image_size))
    return float(counter.get_total_flops()) / 2  # a multiply-add counts as two there


def at_paper_scale(config: Config) -> Config:
    """The same question with the paper's settings: method, dataset, stream and seed stay."""
    paper = resolve("paper", config.method, config.dataset, config.setup)
    asked = {n: v for n, v in config.stream_fields().items() if n not in ("per_class", "limit")}
    return replace(paper, **asked, seed=config.seed)


@dataclass(frozen=True)
class Totals:
    """The cost of several runs."""

    runs: int
    seconds: float
    images_forward: int
    images_backward: int
    images_memory: int
    images_evaluation: int
    peak_memory: int
    """Of the run that needed most, in bytes."""

    @classmethod
    def of(cls, results: Iterable[Result]) -> Totals:
        """Add up what runs recorded."""
        listed = list(results)
        summed = ("seconds", "images_forward", "images_backward", "images_memory", "images_evaluation")
        added = {name: sum(getattr(result, name) for result in listed) for name in summed}
        return cls(runs=len(listed), **added, peak_memory=max(result.peak_memory for result in listed))

    def __str__(self) -> str:
        images = {
            "forward": self.images_forward,
            "backward": self.images_backward,
            "examined in memory": self.images_memory,
            "evaluated": self.images_evaluation,
        }
        counts = ", ".join(f"{rounded(count)} {what}" for what, count in images.items())
        return (
            f"{counted(self.runs, 'run')}: {duration(self.seconds)} of computing; images: {counts}; "
            f"at most {amount(self.peak_memory)} a run"
        )
