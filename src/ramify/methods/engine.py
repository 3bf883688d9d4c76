"""The learner that every method shares: samples arrive, memory keeps, updates follow, answers at any time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ramify.allocator import keep_buffers
from ramify.classes import Classes
from ramify.errors import RamifyError
from ramify.memory import Examination, Memory, Update
from ramify.methods.recipe import Method, build_recipe
from ramify.methods.settings import Settings
from ramify.networks import Model, build_backbone, feature_size
from ramify.networks.heads import Heads
from ramify.randomness import Generators
from ramify.rehearsal import Arrival, Batch, arrived, stored
from ramify.state import State, Stateful
from ramify.training.augment import Augment, Normalize
from ramify.training.cutmix import CutMix
from ramify.training.objectives import Forward
from ramify.training.optimizer import Optimizer
from ramify.training.targets import LevelMask, Targets, cross_entropy, residuals
from ramify.typed import whole

LOOK = 256  # images in one pass without gradients
Images = npt.NDArray[np.uint8] | Tensor


@dataclass
class Cost:
    """Images that went through the network, by purpose."""

    images_forward: int = 0  # in training, virtual steps and teachers included
    images_backward: int = 0
    images_memory: int = 0  # stored samples examined for importance and votes
    images_evaluation: int = 0


class Passes(Stateful):
    """How far training on the whole of memory has come, so that a checkpoint can be taken on the way."""

    _state: ClassVar[tuple[str, ...]] = ("epoch", "place", "order")

    def __init__(self) -> None:
        self.epoch = self.place = 0
        self.order = np.empty(0, np.int64)

    @property
    def begun(self) -> bool:
        """Whether there is something to continue."""
        return self.epoch > 0 or self.place > 0


class Engine(Stateful):
    """A method at work. `observe` takes what arrives; `predict` answers at every level met so far."""

    _state: ClassVar[tuple[str, ...]] = (
        "rng",
        "classes",
        "memory",
        "samples",
        "updates",
        "credit",
        "model",
        "optimizer",
        "passes",
    )

    def __init__(
        self,
        method: Method,
        settings: Settings,
        image_size: int,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        seed: int = 0,
        device: torch.device | str = "cpu",
        network: nn.Module | None = None,
    ) -> None:
        keep_buffers()
        self.settings = settings
        self.device = torch.device(device)
        image_size = whole("image_size", image_size, 1)
        self.image_shape = (3, image_size, image_size)
        self.rng = Generators(seed)
        self.recipe = build_recipe(method, settings, self.rng)
        self.classes = Classes()
        self.memory = Memory(self.recipe.keep.capacity(settings.memory_size), self.image_shape, self.device)
        self.samples = self.updates = 0
        self.credit = 0.0
        self.cost = Cost()
        self.normalize = Normalize(mean, std)
        policy = None if settings.augment.autoaugment == "none" else settings.augment.autoaugment
        self.augment = Augment(policy, settings.augment.padding, settings.augment.flip)
        self.cutmix = CutMix(settings.augment.cutmix)
        self._template = network
        backbone = self._backbone()
        heads = Heads(feature_size(backbone, image_size), self.rng["heads"])
        self.model = Model(backbone, heads).to(self.device)
        self.optimizer = Optimizer(self.model, settings.lr)
        self.mask = LevelMask(self.classes, self.device)
        self.recipe.keep.bind(self.memory, self.classes, self.examine)
        self.recipe.minimise.bind(self.model, self.classes, self.mask)
        self.buffer_size = self.recipe.rehearse.buffer_size(settings.batch_size)
        self._buffer: list[Arrival] = []
        self.passes = Passes()
        self.pause: Callable[[], None] = lambda: None  # called between the updates of long training

    def _backbone(self) -> nn.Module:
        """A backbone with fresh weights: a copy of the user's own, or one built by name."""
        if self._template is not None:
            return copy.deepcopy(self._template)
        draws = torch.Generator().manual_seed(int(self.rng["network"].integers(2**63)))
        chosen = self.settings.network
        return build_backbone(chosen.name, chosen.stem, chosen.width, draws, self.image_shape[1])

    def renew(self) -> None:
        """Forget all that the network has learned; memory stays."""
        self.model.renew(self._backbone())
        self.optimizer = Optimizer(self.model, self.settings.lr)

    # ---- learning

    def observe(
        self, images: Images, labels: list[Any], levels: list[int], paths: list[list[Any]] | None = None
    ) -> None:
        """Learn from samples in the order in which they arrive, each with one label at one level.

        Images are uint8 [n, 3, size, size]. `paths`, the label at every level, is for methods that are told.
        """
        self._check(images, labels, levels, paths)
        images = _tensor(images).to(self.device)
        for row, (label, level) in enumerate(zip(labels, levels, strict=True)):
            cls = self._meet(level, label)
            path = None
            if self.recipe.told_paths and paths is not None:
                path = np.array([self._meet(h, name) for h, name in enumerate(paths[row], 1)], np.int32)
            self._arrive(images[row].clone(), cls, path)  # the caller may use its tensor again

    def _check(
        self, images: Images, labels: list[Any], levels: list[int], paths: list[list[Any]] | None
    ) -> None:
        self._check_images(images)
        if not len(images) == len(labels) == len(levels):
            raise RamifyError(
                f"{len(images)} images, {len(labels)} labels and {len(levels)} levels were given; each image "
                "needs one of both"
            )
        wrong = [level for level in levels if not isinstance(level, int | np.integer) or level < 1]
        if wrong:
            raise RamifyError(f"level {wrong[0]!r} was given; levels are whole numbers from 1, the coarsest")
        if not self.recipe.told_paths or not len(labels):
            return
        if paths is None or len(paths) != len(labels):
            raise RamifyError(
                "this method is told the label at every level; give `paths`, one for each image"
            )
        depth = len(paths[0]) if self.memory.paths is None else self.memory.paths.shape[1]
        if any(len(path) != depth for path in paths):
            raise RamifyError(f"paths differ in length; each must have a label for all {depth} levels")

    def _check_images(self, images: Images) -> None:
        if not isinstance(images, Tensor | np.ndarray):
            raise RamifyError(f"images are a {type(images).__name__}; they must be an array or a tensor")
        if images.dtype not in (torch.uint8, np.uint8) or tuple(images.shape[1:]) != self.image_shape:
            raise RamifyError(
                f"images are {images.dtype} of shape {tuple(images.shape)}; they must be uint8 of shape "
                f"(n, {', '.join(map(str, self.image_shape))})"
            )

    def _meet(self, level: int, label: Any) -> int:
        known = self.classes.find(level, label)
        if known is not None:
            return known
        self.recipe.minimise.new_class(self.updates)
        cls = self.classes.meet(level, label, when=self.samples)
        self.optimizer.add(self.model.heads.grow())
        self.recipe.rate.new_class()
        return cls

    def _arrive(self, image: Tensor, cls: int, path: npt.NDArray[np.int32] | None) -> None:
        self.samples += 1
        self.credit += self.settings.updates_per_sample
        if self.recipe.keep.reserve(image, cls):
            return
        slot = self.recipe.keep.offer(image, cls, path) if self.recipe.keep.before_training else None
        self._buffer.append(Arrival(image, cls, path, -1 if slot is None else slot))
        if len(self._buffer) >= self.buffer_size:  # more, after an update that failed
            self.flush()

    def flush(self) -> None:
        """Train on what has arrived since the last update, then let the memory have it."""
        if not self._buffer:
            return
        arrivals = arrived(self._buffer)
        due = self.recipe.rehearse.updates_due(self.credit)
        self.credit = max(0.0, self.credit - due)
        refreshed = False
        for _ in range(due):
            refreshed = self.update(self.recipe.rehearse.compose(arrivals, self.settings.batch_size, self))
        if due:
            self.recipe.rate.called(refreshed)
        if not self.recipe.keep.before_training:
            for arrival in self._buffer:
                self.recipe.keep.offer(arrival.image, arrival.cls, arrival.path)
        self._buffer.clear()

    def task_end(self) -> None:
        """Tell a method that is not task-free that a task is over."""
        if self.recipe.consolidate is not None:
            self.flush()
            self.recipe.consolidate(self)

    def update(self, batch: Batch, rate: float | None = None) -> bool:
        """One training step on a batch; at `rate` where the method's own schedule does not apply.

        True when the importance of the stored samples was refreshed.
        """
        if not len(batch):
            raise RamifyError(
                "the method gave an empty batch; let `rehearse` take arrivals, or `keep` store before "
                "training"
            )
        if len(batch) == 1:  # batch normalisation needs two values
            batch = batch.join(batch)
        levels = (
            self.classes.level_of[batch.classes] if batch.paths is None else np.zeros(len(batch), np.int64)
        )
        images = self.normalize(self.augment(batch.images, self.rng["augment"]))
        images, partner, lam = self.cutmix(images, levels, self.rng["cutmix"])
        targets = Targets.of(batch.classes, batch.paths, partner, lam)
        self.model.set_training(True)
        self.model.remember_statistics()
        with torch.autocast("cuda", enabled=self.device.type == "cuda", dtype=torch.bfloat16):
            features, logits = self.model(images)
        objective = self.recipe.minimise
        loss = objective.loss(Forward(images, features, logits, targets))
        value = self._check_finite(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        objective.adjust_gradients()
        self.optimizer.step(self.recipe.rate.value if rate is None else rate, objective.clip)
        self.updates += 1
        self.cost.images_forward += len(batch) * (1 + objective.extra_passes)
        self.cost.images_backward += len(batch)
        if rate is not None:
            return False
        logits = logits.detach()
        self.recipe.rate.updated()
        return self.recipe.keep.trained(
            Update(
                batch.slots,
                self.classes.level_of[batch.classes],
                value,
                features.detach(),
                lambda: residuals(logits, targets, self.mask(), self.classes.level_of),
                lambda: self.mask.predict(logits),
            )
        )

    def _check_finite(self, loss: Tensor) -> float:
        value = loss.item()
        if not np.isfinite(value):
            self.model.recall_statistics()  # batch normalisation has already taken the broken batch in
            raise RamifyError(
                f"the loss became {value} at update {self.updates + 1} (sample {self.samples}, learning rate "
                f"{self.recipe.rate.value:g}); lower --lr or look for broken images. This update was not "
                "made; what came before it stays learned"
            )
        return value

    def interference(self, arrivals: Batch, candidates: Batch) -> npt.NDArray[np.float64]:
        """MIR: how much the loss of each candidate rises by a virtual SGD step on the arrivals."""
        self.model.set_training(True)
        free = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        kept = {n: b.clone() for n, b in self.model.named_buffers()}
        doubled = arrivals if len(arrivals) > 1 else arrivals.join(arrivals)
        _, logits = self.model(self.normalize(doubled.images))
        loss = cross_entropy(
            logits, Targets.of(doubled.classes, doubled.paths), self.mask(), self.classes.level_of
        ).mean()
        gradients = torch.autograd.grad(loss, list(free.values()), materialize_grads=True)
        with torch.no_grad():
            for name, buffer in self.model.named_buffers():
                buffer.copy_(kept[name])
            rate = self.recipe.rate.value
            moved = {n: p - rate * g for (n, p), g in zip(free.items(), gradients, strict=True)}
        before = self._losses(self.look(candidates.images), candidates)
        after = self._losses(self.look(candidates.images, moved), candidates)
        self.cost.images_forward += len(doubled) + 2 * len(candidates)
        self.cost.images_backward += len(doubled)
        return after - before

    def _losses(self, logits: Tensor, batch: Batch) -> npt.NDArray[np.float64]:
        """The loss of each sample, the mean over its levels where it carries several."""
        targets = Targets.of(batch.classes, batch.paths)
        losses = cross_entropy(logits, targets, self.mask(), self.classes.level_of).double().cpu().numpy()
        if targets.rows is None:
            return losses
        return np.bincount(targets.rows, losses) / np.bincount(targets.rows)

    # ---- asking

    @torch.no_grad()
    def look(self, images: Tensor, parameters: dict[str, Tensor] | None = None) -> Tensor:
        """Logits of uint8 images, not augmented, in evaluation mode."""
        self.model.set_training(False)
        ready = self.normalize(images.to(self.device, non_blocking=True))
        with torch.autocast("cuda", enabled=self.device.type == "cuda", dtype=torch.bfloat16):
            logits: Tensor = torch.func.functional_call(self.model, parameters or {}, (ready,))[1]
        return logits

    def examine(self, slots: npt.NDArray[np.integer]) -> Examination:
        """What the model says of stored samples."""
        losses, predictions = [], []
        for start in range(0, len(slots), LOOK):
            batch = stored(self.memory, slots[start : start + LOOK].astype(np.int64))
            logits = self.look(batch.images)
            losses.append(self._losses(logits, batch))
            predictions.append(self.mask.predict(logits))
        self.cost.images_memory += len(slots)
        return Examination(np.concatenate(losses), np.concatenate(predictions))

    def prepare(self) -> None:
        """Make the model ready to be asked; called by `predict`."""
        if not len(self.classes):
            raise RamifyError("nothing has been learned yet; give the learner a sample before asking it")
        if self.recipe.answer is not None:
            self.recipe.answer.prepare(self)

    def logits(self, images: Tensor) -> Tensor:
        """Logits [n, classes] of every class met so far, after any correction of the method."""
        logits = self.look(images)
        self.cost.images_evaluation += len(images)
        return logits if self.recipe.answer is None else self.recipe.answer.correct(logits)

    def predict(self, images: Images, batch_size: int = LOOK) -> npt.NDArray[np.int64]:
        """The best class of every level, [n, levels], from one pass; -1 where a level has no class yet."""
        self._check_images(images)
        whole("batch_size", batch_size, 1)
        self.prepare()
        parts = []
        for start in range(0, max(1, len(images)), batch_size):
            parts.append(self.mask.predict(self.logits(_tensor(images[start : start + batch_size]))))
        return np.concatenate(parts)

    # ---- saving

    def state(self) -> State:
        """Everything that the next update depends on."""
        waiting = list(zip(*self._buffer, strict=True)) or [()] * 4
        images, classes, paths, slots = waiting
        parts = {name: part.state() for name, part in self._parts().items()}
        return super().state() | {
            "cost": asdict(self.cost),
            "buffer": {
                "images": torch.stack(images) if images else None,
                "classes": list(classes),
                "slots": list(slots),
                "paths": np.stack(paths) if paths and paths[0] is not None else None,
            },
            **parts,
        }

    def restore(self, state: State) -> None:
        """Become the learner that gave `state`, to the bit."""
        super().restore(state)
        self.cost = Cost(**state["cost"])
        for name, part in self._parts().items():
            part.restore(state[name])
        buffer = state["buffer"]
        self._buffer = [
            Arrival(
                buffer["images"][row].to(self.device),
                cls,
                None if buffer["paths"] is None else buffer["paths"][row],
                slot,
            )
            for row, (cls, slot) in enumerate(zip(buffer["classes"], buffer["slots"], strict=True))
        ]

    def _parts(self) -> dict[str, Stateful]:
        parts = {
            name: getattr(self.recipe, name) for name in ("keep", "rehearse", "minimise", "rate", "answer")
        }
        return {name: part for name, part in parts.items() if part is not None}


def _tensor(images: Images) -> Tensor:
    """Images as a tensor; an array is copied, for it may be read-only."""
    return images if isinstance(images, Tensor) else torch.from_numpy(images.copy())
