"""What every method must do, as one list of checks, for yours too: `check_method("package.module:mine")`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ramify.errors import RamifyError
from ramify.methods.engine import Engine
from ramify.methods.recipe import Method, find_method
from ramify.methods.settings import (
    AugmentSettings,
    BicSettings,
    EpochSettings,
    FlexibleSettings,
    MirSettings,
    Settings,
)
from ramify.randomness import Generators
from ramify.rehearsal import Batch

SIZE = 16
COLOURS = np.array([[240, 20, 20], [240, 180, 20], [20, 20, 240], [20, 220, 240]])
SETTINGS = Settings(
    memory_size=24,
    batch_size=8,
    updates_per_sample=1.0,
    lr=1e-2,
    augment=AugmentSettings(padding=0, flip=False, autoaugment="none", cutmix=0.0),
    fms=FlexibleSettings(T=20.0),
    bic=BicSettings(validation=0.2, epochs=10),
    mir=MirSettings(candidates=12),
    epochs=EpochSettings(3),
)


def require(holds: object, otherwise: str) -> None:
    """Fail a check, also where Python runs without assertions."""
    if not holds:
        raise AssertionError(otherwise)


class ToyNetwork(nn.Module):
    """A network that learns colours in a second. `broken` makes it answer with NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 4, 4), nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 2, 2)
        self.broken = False

    def forward(self, images: Tensor) -> Tensor:
        """Features [n, 16]."""
        if self.broken:
            images = images * torch.nan
        features: Tensor = self.second(self.norm(self.first(images)).relu()).relu().mean((2, 3))
        return features


@dataclass(frozen=True)
class Toy:
    """Flat coloured images: two reddish and two bluish leaves, coarse labels first and fine labels later."""

    images: Tensor
    labels: list[str]
    levels: list[int]
    paths: list[list[str]]

    @classmethod
    def stream(cls, n: int, levels: tuple[int, ...] = (1, 2), leaves: int = 4, seed: int = 0) -> Toy:
        """`n` samples, in as many equal parts as `levels` are given, each labelled at its level."""
        rng = np.random.default_rng(seed)
        leaf = rng.integers(leaves, size=n)
        noise = rng.integers(-15, 16, (n, 3, SIZE, SIZE))
        images = (COLOURS[leaf][:, :, None, None] + noise).astype(np.uint8)
        paths = [["red" if i < 2 else "blue", f"colour {i}"] for i in leaf]
        level = [levels[len(levels) * i // n] for i in range(n)]
        return cls(
            torch.from_numpy(images), [p[h - 1] for p, h in zip(paths, level, strict=True)], level, paths
        )

    def part(self, start: int, stop: int) -> tuple[Tensor, list[str], list[int], list[list[str]]]:
        """Some samples, as `Engine.observe` takes them."""
        cut = slice(start, stop)
        return self.images[cut], self.labels[cut], self.levels[cut], self.paths[cut]


class Watched(Engine):
    """An engine that remembers its weights as they were before the latest update."""

    before: dict[str, Tensor]

    def update(self, batch: Batch, rate: float | None = None) -> bool:
        """One training step."""
        self.before = weights(self)
        return super().update(batch, rate)


def learner(method: Method, toy: Toy, seed: int = 0, **settings: Any) -> Watched:
    """A small learner for the toy; a method that keeps the whole stream gets a memory for it."""
    chosen = replace(SETTINGS, **settings)
    if method(replace(chosen, memory_size=24), Generators(0)).offline:
        chosen = replace(chosen, memory_size=len(toy.labels))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ToyNetwork()
    return Watched(method, chosen, SIZE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), seed, network=network)


def taught(method: Method, toy: Toy, seed: int = 0, **settings: Any) -> Watched:
    """A learner that has seen the whole toy, a task a level, and was asked at the end."""
    engine = learner(method, toy, seed, **settings)
    ends = [i for i in range(1, len(toy.levels)) if toy.levels[i] != toy.levels[i - 1]] + [len(toy.levels)]
    for start, stop in zip([0, *ends], ends, strict=False):
        engine.observe(*toy.part(start, stop))
        engine.task_end()
    engine.predict(toy.images)
    return engine


def weights(engine: Engine) -> dict[str, Tensor]:
    """All weights and running statistics."""
    return {name: value.clone() for name, value in engine.model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two networks are equal to the bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def answers(engine: Engine, images: Tensor) -> npt.NDArray[np.object_]:
    """Predicted labels, [n, levels]."""
    return np.array([*engine.classes.labels, None], object)[engine.predict(images)]


def learns(method: Method) -> None:
    """A separable stream is learned to 95% at both levels."""
    toy = Toy.stream(160)
    engine = taught(method, toy, memory_size=48, epochs=EpochSettings(8))
    right = (answers(engine, toy.images) == np.array(toy.paths, object)).mean(0)
    require((right >= 0.95).all(), f"accuracy {right[0]:.0%} and {right[1]:.0%} on a separable stream")


def follows_the_seed(method: Method) -> None:
    """The same seed gives the same weights, another seed others."""
    toy = Toy.stream(24)
    first = weights(taught(method, toy))
    require(same(first, weights(taught(method, toy))), "two learners with one seed differ")
    require(not same(first, weights(taught(method, toy, seed=1))), "two seeds give the same weights")


def knows_only_what_arrived(method: Method) -> None:
    """No class is known before its first label, and how the stream is cut into calls changes nothing."""
    toy = Toy.stream(30)
    whole, single = learner(method, toy), learner(method, toy)
    whole.observe(*toy.part(0, 30))
    told, arrived = single.recipe.told_paths, set()
    for i in range(30):
        single.observe(*toy.part(i, i + 1))
        arrived |= set(enumerate(toy.paths[i], 1)) if told else {(toy.levels[i], toy.labels[i])}
        known = set(zip(single.classes.level_of.tolist(), single.classes.labels, strict=True))
        require(known == arrived, f"classes {known - arrived} are known before they arrived")
        width = single.look(toy.images[:1]).shape[1]
        require(width == len(arrived), f"the heads have {width} outputs for {len(arrived)} classes")
    require(same(weights(whole), weights(single)), "samples given one at a time are learned otherwise")


def works_with_one_class(method: Method) -> None:
    """A single class at a single level."""
    toy = Toy.stream(20, levels=(1,), leaves=2)
    engine = taught(method, toy)
    require((answers(engine, toy.images)[:, 0] == "red").all(), "the only class is not predicted")


def works_with_little_memory(method: Method) -> None:
    """A memory smaller than the batch, and of a single image; or a refusal when the learner is made."""
    for size in (1, 3):
        try:
            learner(method, Toy.stream(20), memory_size=size)
        except RamifyError:
            continue
        engine = taught(method, Toy.stream(20), memory_size=size)
        require(engine.memory.size <= engine.memory.capacity <= max(size, 20), "the memory outgrew its size")


def works_with_a_batch_of_one(method: Method) -> None:
    """The smallest batch."""
    taught(method, Toy.stream(12), batch_size=1)


def takes_a_level_late(method: Method) -> None:
    """Levels in any order; a level without a class yet is answered by -1."""
    toy = Toy.stream(24, levels=(2, 1))
    engine = learner(method, toy)
    engine.observe(*toy.part(0, 12))
    if not engine.recipe.told_paths:
        require((engine.predict(toy.images)[:, 0] == -1).all(), "a level without classes was answered")
    engine.task_end()
    engine.observe(*toy.part(12, 24))
    require((engine.predict(toy.images) >= 0).all(), "a level that appeared late is not answered")


def refuses_to_guess(method: Method) -> None:
    """Asked before the first sample it says so."""
    toy = Toy.stream(1)
    try:
        learner(method, toy).predict(toy.images)
    except RamifyError:
        return
    require(False, "predict before the first sample did not raise RamifyError")


def continues_from_its_state(method: Method) -> None:
    """Saved in mid-stream and with a partial buffer, restored elsewhere, it goes on to the bit."""
    toy = Toy.stream(36)
    engine = learner(method, toy)
    engine.observe(*toy.part(0, 11))
    engine.task_end()
    engine.observe(*toy.part(11, 25))
    state = engine.state()
    wanted: list[tuple[dict[str, Tensor], npt.NDArray[np.int64]]] = []
    for one in (engine, learner(method, toy, seed=5), engine):  # a fresh one, and one that has gone on
        if wanted:
            one.restore(state)
        one.observe(*toy.part(25, 36))
        one.task_end()
        predicted = one.predict(toy.images)
        wanted.append((weights(one), predicted))
        require(same(wanted[0][0], weights(one)), "a restored learner goes on otherwise")
        require(np.array_equal(wanted[0][1], predicted), "a restored learner answers otherwise")


def stops_at_a_broken_loss(method: Method) -> None:
    """A loss that is not finite raises an error that names the update; the weights stay, learning goes on."""
    toy = Toy.stream(42)
    engine = learner(method, toy)
    engine.observe(*toy.part(0, 10))
    network = cast(ToyNetwork, engine.model.backbone)
    network.broken = True
    try:
        engine.observe(*toy.part(10, 26))
        engine.task_end()
        engine.predict(toy.images)
    except RamifyError as error:
        require(f"update {engine.updates + 1}" in str(error), f"the error does not name the update: {error}")
        require(same(engine.before, weights(engine)), "the failed update has changed the network")
    else:
        require(False, "a loss of NaN did not raise RamifyError")
    network.broken = False
    done = engine.updates
    engine.observe(*toy.part(26, 42))
    engine.task_end()
    engine.predict(toy.images)
    require(engine.updates > done, "nothing is learned after a failed update")


CHECKS: tuple[Callable[[Method], None], ...] = (
    learns,
    follows_the_seed,
    knows_only_what_arrived,
    works_with_one_class,
    works_with_little_memory,
    works_with_a_batch_of_one,
    takes_a_level_late,
    refuses_to_guess,
    continues_from_its_state,
    stops_at_a_broken_loss,
)


def check_method(method: str | Method) -> None:
    """Run every check on a method, by name or as it is; raises AssertionError at the first that fails."""
    build = find_method(method) if isinstance(method, str) else method
    for check in CHECKS:
        try:
            check(build)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from None
