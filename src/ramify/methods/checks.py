"""What every method must do, as one list of checks, for yours too: `check_method("package.module:mine")`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ramify.arrays import Ints
from ramify.errors import RamifyError
from ramify.memory import Batch
from ramify.methods import Trainer, make_settings
from ramify.methods.recipe import Build, Method, as_method, find_method
from ramify.networks import ImageInputs
from ramify.state import State
from ramify.statefiles import load_state, save_state

SIZE = 16
COLOURS = np.array([[240, 20, 20], [240, 180, 20], [20, 20, 240], [20, 220, 240]])
SETTINGS: dict[str, Any] = {
    "memory_size": 24,
    "batch_size": 8,
    "updates_per_sample": 1.0,
    "lr": 1e-2,
    "augment": {"padding": 0, "flip": False, "autoaugment": "none", "cutmix": 0.0},
    "fms": {"T": 20.0, "unit": "samples"},
    "bic": {"validation": 0.2, "epochs": 10},
    "mir": {"candidates": 12},
    "epochs": {"count": 3},
    "ranpac": {"size": 64},
    "randumb": {"size": 256},
}


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

    def teach(self, trainer: Trainer, start: int, stop: int) -> None:
        """Let a learner observe some samples, each with its label, or its path for a method that is told."""
        labels = [[(self.levels[i], self.labels[i])] for i in range(start, stop)]
        if trainer.method.told_paths:
            for pairs, path in zip(labels, self.paths[start:stop], strict=True):
                pairs += [(h, name) for h, name in enumerate(path, 1) if h != pairs[0][0]]
        trainer.observe(self.images[start:stop], labels)


class Watched(Trainer):
    """A trainer that remembers its weights as they were before the latest update."""

    before: dict[str, Tensor]

    def update(self, batch: Batch, rate: float | None = None) -> None:
        """One training step."""
        self.before = weights(self)
        super().update(batch, rate)


def learner(method: Method, toy: Toy, seed: int = 0, **settings: Any) -> Watched:
    """A small learner for the toy; a method that keeps the whole stream gets a memory for it."""
    size = {"memory_size": len(toy.labels)} if method.keeps_stream else {}
    chosen = make_settings(method=method, **(SETTINGS | settings | size))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ToyNetwork()
    inputs = ImageInputs(SIZE, std=(0.25, 0.25, 0.25))
    return Watched(method, chosen, inputs, seed, network=network)


def taught(method: Method, toy: Toy, seed: int = 0, **settings: Any) -> Watched:
    """A learner that has seen the whole toy, a task a level, and was asked at the end."""
    trainer = learner(method, toy, seed, **settings)
    ends = [i for i in range(1, len(toy.levels)) if toy.levels[i] != toy.levels[i - 1]] + [len(toy.levels)]
    for start, stop in zip([0, *ends], ends, strict=False):
        toy.teach(trainer, start, stop)
        trainer.task_end()
    trainer.predict(toy.images)
    return trainer


def weights(trainer: Trainer) -> dict[str, Tensor]:
    """All weights and running statistics."""
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two networks are equal to the bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def answers(trainer: Trainer, images: Tensor) -> npt.NDArray[np.object_]:
    """Predicted labels, [n, levels]."""
    return np.array([*trainer.classes.labels, None], object)[trainer.predict(images)]


def learns(method: Method) -> None:
    """A separable stream is learned to 95% at both levels."""
    toy = Toy.stream(160)
    trainer = taught(method, toy, memory_size=48, epochs={"count": 8})
    right = (answers(trainer, toy.images) == np.array(toy.paths, object)).mean(0)
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
    toy.teach(whole, 0, 30)
    told, arrived = method.told_paths, set()
    for i in range(30):
        toy.teach(single, i, i + 1)
        arrived |= set(enumerate(toy.paths[i], 1)) if told else {(toy.levels[i], toy.labels[i])}
        known = set(zip(single.classes.level_of.tolist(), single.classes.labels, strict=True))
        require(known == arrived, f"classes {known - arrived} are known before they arrived")
        width = single.look(toy.images[:1]).shape[1]
        require(width == len(arrived), f"the heads have {width} outputs for {len(arrived)} classes")
    require(same(weights(whole), weights(single)), "samples given one at a time are learned otherwise")


def works_with_one_class(method: Method) -> None:
    """A single class at a single level."""
    toy = Toy.stream(20, levels=(1,), leaves=2)
    trainer = taught(method, toy)
    require((answers(trainer, toy.images)[:, 0] == "red").all(), "the only class is not predicted")


def works_with_little_memory(method: Method) -> None:
    """A memory smaller than the batch, and of a single image; or a refusal when the learner is made."""
    for size in (1, 3):
        try:
            learner(method, Toy.stream(20), memory_size=size)
        except RamifyError:
            continue
        trainer = taught(method, Toy.stream(20), memory_size=size)
        require(
            trainer.memory.size <= trainer.memory.capacity <= max(size, 20), "the memory outgrew its size"
        )


def works_with_a_batch_of_one(method: Method) -> None:
    """The smallest batch."""
    taught(method, Toy.stream(12), batch_size=1)


def takes_a_level_late(method: Method) -> None:
    """Levels in any order; a level without a class yet is answered by -1."""
    toy = Toy.stream(24, levels=(2, 1))
    trainer = learner(method, toy)
    toy.teach(trainer, 0, 12)
    if not method.told_paths:
        require((trainer.predict(toy.images)[:, 0] == -1).all(), "a level without classes was answered")
    trainer.task_end()
    toy.teach(trainer, 12, 24)
    require((trainer.predict(toy.images) >= 0).all(), "a level that appeared late is not answered")


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
    trainer = learner(method, toy)
    toy.teach(trainer, 0, 11)
    trainer.task_end()
    toy.teach(trainer, 11, 25)
    state = through_a_file(trainer)
    wanted: list[tuple[dict[str, Tensor], Ints]] = []
    for one in (trainer, learner(method, toy, seed=5), trainer):  # a fresh one, and one that has gone on
        if wanted:
            one.restore(state)
        toy.teach(one, 25, 36)
        one.task_end()
        predicted = one.predict(toy.images)
        wanted.append((weights(one), predicted))
        require(same(wanted[0][0], weights(one)), "a restored learner goes on otherwise")
        require(np.array_equal(wanted[0][1], predicted), "a restored learner answers otherwise")


def through_a_file(trainer: Trainer) -> State:
    """The state of a learner as a file gives it back: keys are texts there, tuples lists."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        save_state(path, trainer.state(), {})
        return load_state(path)[0]


def stops_at_a_broken_loss(method: Method) -> None:
    """A loss that is not finite raises an error that names the update; the weights stay, learning goes on."""
    toy = Toy.stream(42)
    trainer = learner(method, toy)
    toy.teach(trainer, 0, 10)
    network = next((m for m in trainer.model.modules() if isinstance(m, ToyNetwork)), None)
    if network is None:  # it has features of its own
        return
    network.broken = True
    try:
        toy.teach(trainer, 10, 26)
        trainer.task_end()
        trainer.predict(toy.images)
    except RamifyError as error:
        where = "sample " if method.closed_form else f"update {trainer.updates + 1}"
        require(where in str(error), f"the error does not name the {where}: {error}")
        if not method.closed_form:
            require(same(trainer.before, weights(trainer)), "the failed update has changed the network")
    else:
        require(False, "a loss of NaN did not raise RamifyError")
    network.broken = False
    done = trainer.updates
    toy.teach(trainer, 26, 42)
    trainer.task_end()
    trainer.predict(toy.images)
    if method.closed_form:
        said, wanted = answers(trainer, toy.images), answers(taught(method, toy), toy.images)
        require((said == wanted).all(), "samples that could not be embedded at first are lost")
    else:
        require(trainer.updates > done, "nothing is learned after a failed update")


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


def check_method(method: str | Method | Build) -> None:
    """Run every check on a method, by name or as it is; raises AssertionError at the first that fails."""
    chosen = find_method(method) if isinstance(method, str) else as_method(method)
    for check in CHECKS:
        try:
            check(chosen)
        except AssertionError as error:
            raise AssertionError(f"{check.__name__}: {error}") from None
