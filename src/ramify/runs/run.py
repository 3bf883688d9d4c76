"""One run: a method on a stream, evaluated at any time, recorded on disk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ramify.arrays import Floats, Ints
from ramify.datasets import Dataset, load_dataset
from ramify.errors import RamifyError
from ramify.evaluation.anytime import Evaluation, Evaluator, Record
from ramify.evaluation.own import find_metrics
from ramify.methods import Trainer, find_method
from ramify.methods.closed_form import sums_of
from ramify.networks import ImageInputs
from ramify.runs.answers import take
from ramify.runs.config import Config
from ramify.runs.folder import SUMS, RunFolder
from ramify.runs.inputs import prepare_inputs
from ramify.runs.result import Result
from ramify.runs.why import why
from ramify.state import State
from ramify.streams import Stream, build_stream
from ramify.taxonomy.levels import tree_levels
from ramify.typed import shown, to_dict

CHUNK = 8  # samples handed over at a time: between two such parts a checkpoint can be written


def pick_device(name: str) -> torch.device:
    """`auto` is the best there is; a device that is not there is refused."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(n for n in ("cuda", "mps", "cpu") if there[n])
    if not isinstance(name, str) or not there.get(name, False):
        known = ", ".join(n for n in there if there[n])
        raise RamifyError(f"device {shown(name)} is not available; use {known}")
    return torch.device(name)


def prepare_dataset(config: Config, data_dir: str | None = None) -> Dataset:
    """The dataset that a config speaks of."""
    return load_dataset(
        config.dataset,
        data_dir=data_dir,
        image_size=config.image_size,
        taxonomy=config.taxonomy,
        skip_broken=config.skip_broken,
        any_counts=config.any_counts,
        pad=config.pad,
    )


def prepare_stream(config: Config, dataset: Dataset) -> Stream:
    """The stream that a config speaks of, over the images that `per_class` leaves, cut at `limit`."""
    leaves = dataset.train.leaves
    if config.stream is not None:
        path = Path(config.stream)
        stream = Stream.from_csv(path, dataset) if path.suffix == ".csv" else Stream.load(path)
        stream.check(dataset)
    else:
        chosen = first_per_class(leaves, config.per_class)
        stream = build_stream(
            config.setup,
            leaves[chosen],
            dataset.taxonomy,
            config.seed,
            settings=config.setup_settings(),
            tasks=config.tasks,
            levels=config.levels,
            imbalance=config.imbalance,
        )
        stream = replace(stream, image=chosen[stream.image], images=len(leaves))
    if config.limit is None:
        return stream
    arrays = ("image", "level", "label", "task")
    cut: dict[str, Any] = {name: getattr(stream, name)[: config.limit] for name in arrays}
    return replace(stream, **cut, moves=tuple(m for m in stream.moves if m.task <= cut["task"][-1]))


def first_per_class(leaves: Ints, count: int | None) -> Ints:
    """Positions of the first `count` images of each leaf (of all for None), in order."""
    if count is None:
        return np.arange(len(leaves))
    order = np.argsort(leaves, kind="stable")
    place = np.arange(len(leaves)) - np.searchsorted(leaves[order], leaves[order])  # within its leaf
    return np.sort(order[place < count])


def evaluated_at(config: Config, stream: Stream, offline: bool = False) -> dict[int, bool]:
    """Positions of the stream at which the learner is asked, in order, and whether that is a periodic one."""
    ends = [*stream.task_starts[1:].tolist(), len(stream)]
    if offline:
        return {len(stream): False}
    any_time = config.eval_at == "any-time"
    periodic = range(config.eval_every, len(stream) + 1, config.eval_every) if any_time else range(0)
    return {position: position in periodic for position in sorted({*ends, *periodic})}


class Run:
    """A learner on its way through a stream."""

    def __init__(self, config: Config, dataset: Dataset, device: str = "auto") -> None:
        self.dataset = dataset
        self.stream = prepare_stream(config, dataset)
        self.task_end_positions = {*self.stream.task_starts[1:].tolist(), len(self.stream)}
        where = pick_device(device)
        ready = prepare_inputs(config, dataset, where)
        config, self.learned, self.encoder, inputs = ready.config, ready.dataset, ready.encoder, ready.inputs
        torch.manual_seed(config.seed)  # ramify draws nothing from torch's own generator; your network may
        method = find_method(config.method)
        settings = replace(config, memory_size=len(self.stream)) if method.keeps_stream else config
        if method.keeps_stream:  # it keeps the whole stream: by reference, not a second time
            inputs = replace(inputs, source=self.learned.train.images)
        self.trainer = Trainer(method, settings, inputs, config.seed, where, ready.network)
        self.config = replace(config, precision=self.trainer.settings.precision)  # auto: as measured
        self.evaluator = Evaluator(
            self.learned.test,
            dataset.taxonomy,
            self.stream.levels,
            config.eval_images,
            config.decode or method.decode,
            find_metrics(config.metrics or ()),
            self.stream.moves,
        )
        self.evaluated_at = evaluated_at(config, self.stream, method.offline)
        self.answers: Path | None = None  # folder of answers that may have been worked out ahead
        self.records: list[Record] = []
        self.task_ends: list[dict[int, Floats]] = []  # accuracy of each class, per level
        self.position = 0
        self.step: Literal["learn", "end task", "evaluate"] = "learn"  # what to do next at this position
        self.train_seconds = 0.0
        self.last: Evaluation | None = None

    def go(self, folder: RunFolder, *after_part: Callable[[Run], None]) -> Result:
        """Learn the stream from where it stands to its end; records and result go into the folder.

        `after_part` is called after each part, and now and then while a method trains on memory for long.
        """

        def pause() -> None:
            for act in after_part:
                act(self)

        self.trainer.pause = pause
        while self.position < len(self.stream) or self.step != "learn":
            if self.step == "learn":
                self._learn(self._next_stop())
                self.step = "end task"
            if self.step == "end task":
                if self.position in self.task_end_positions:
                    self._timed(self.trainer.task_end)
                self.step = "evaluate"
            if self.position in self.evaluated_at:
                folder.append(self._evaluate())
            self.step = "learn"
            pause()
        folder.check_present()
        last = self.last
        assert last is not None  # the end of the stream is always asked about
        folder.write_predictions(last, self.evaluator.truth, self.task_ends, why(self, last.predictions))
        folder.write_model(*self._model())
        result = Result.of(self.records, self.task_ends, last, self.evaluator, asdict(self.trainer.cost))
        folder.write_result(result)
        return result

    def collect(self, position: int) -> None:
        """Learn the stream up to `position` without being asked anything on the way."""
        while self.position < position:
            self._learn(min(self._next_stop(), position))
            if self.position in self.task_end_positions:
                self._timed(self.trainer.task_end)

    def _next_stop(self) -> int:
        """The next position at which something else than learning may be due."""
        every = self.config.eval_every
        stops = [self.position + CHUNK, (self.position // every + 1) * every]
        stops += [end for end in self.task_end_positions if end > self.position]
        return min(stops)

    def _learn(self, stop: int) -> None:
        part = slice(self.position, stop)
        stream = self.stream
        chosen = stream.image[part]
        inputs = chosen if self.trainer.method.keeps_stream else self.learned.train.images[chosen]
        labels = [
            [pair] for pair in zip(stream.level[part].tolist(), stream.label[part].tolist(), strict=True)
        ]
        if self.trainer.method.told_paths:
            eras = self.evaluator.eras
            known = eras.paths[int(eras.at(self._task(self.position)))]  # a part lies within one task
            paths = known[self.dataset.train.leaves[stream.image[part]]].tolist()
            for own, path in zip(labels, paths, strict=True):
                own += [(h, label) for h, label in enumerate(path, 1) if label >= 0 and h != own[0][0]]
        self._timed(lambda: self.trainer.observe(inputs, labels))
        self.position = stop
        if stop == len(stream):
            self._timed(self.trainer.flush)

    def _timed(self, work: Callable[[], None]) -> None:
        start = time.perf_counter()
        work()
        self.train_seconds += time.perf_counter() - start

    def _evaluate(self) -> Record:
        start = time.perf_counter()
        task_end = self.position in self.task_end_positions
        ready = None if self.answers is None else take(self, self.answers / f"{self.position}.safetensors")
        last = self.position == len(self.stream)
        task = self._task(self.position - 1)
        evaluation = self.evaluator(ready or self.trainer, whole=task_end, every_way=last, task=task)
        if task_end:
            self.task_ends.append(evaluation.class_accuracy)
        if last:
            self.last = evaluation
        trainer = self.trainer
        stored = self._stored()
        record = Record(
            samples=self.position,
            updates=trainer.updates,
            task=task + 1,
            periodic=self.evaluated_at[self.position],
            task_end=task_end,
            accuracy={str(h): v for h, v in evaluation.accuracy.items()},
            classes_seen={str(h): v for h, v in evaluation.classes_seen.items()},
            memory={level: int(counts.sum()) for level, counts in stored.items()},
            memory_classes={level: counts.tolist() for level, counts in stored.items()},
            train_seconds=round(self.train_seconds, 3),
            eval_seconds=round(time.perf_counter() - start + (ready.seconds if ready else 0.0), 3),
            lr=trainer.recipe.rate.value(trainer),
            metrics={name: values for name, values in evaluation.metrics.items() if values},
            finest=evaluation.finest,
            jaccard=evaluation.jaccard,
            hops=evaluation.hops,
            tree_levels=tree_levels(self.evaluator.tree.level_numbers),
        )
        self.records.append(record)
        return record

    def _task(self, position: int) -> int:
        return int(self.stream.task[position])

    def _stored(self) -> dict[str, Ints]:
        """How many images of each class are in memory, by level."""
        classes, memory = self.trainer.classes, self.trainer.memory
        labels = np.array(classes.labels, np.int64)
        counts = memory.counted(len(classes))
        stored = {str(h): np.zeros(self.evaluator.tree.sizes[h - 1], np.int64) for h in classes.levels}
        for level, by_class in stored.items():
            met = classes.of_level(int(level))
            by_class[labels[met]] = counts[met]
        return stored

    def _model(self) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
        classes, tree = self.trainer.classes, self.evaluator.tree
        names = [
            [int(level), tree.names(int(level))[label]]
            for level, label in zip(classes.level_of, classes.labels, strict=True)
        ]
        about = {
            "method": self.config.method,
            "network": asdict(self.config.network),
            **self._takes(),
            "classes": names,
            "seen": classes.seen.tolist(),
        }
        self.trainer.prepare()
        weights = {n: value.detach().cpu().contiguous() for n, value in self.trainer.weights().items()}
        return weights | {f"{SUMS}{n}": value for n, value in sums_of(self.trainer).items()}, about

    def _takes(self) -> dict[str, object]:
        """What the network takes: images, by way of an encoder or not, or features."""
        seen = self.trainer.inputs if self.encoder is None else self.encoder.inputs
        if not isinstance(seen, ImageInputs):
            return {"features": seen.size, "feature_dtype": str(seen.dtype).removeprefix("torch.")}
        about: dict[str, object] = {"image_size": seen.size, "mean": seen.mean, "std": seen.std}
        return about | ({} if self.encoder is None else {"encoder": self._encoder()})

    def _encoder(self) -> dict[str, object]:
        assert self.encoder is not None
        dtype = str(self.encoder.dtype).removeprefix("torch.")
        return {"weights": self.encoder.digest, "feature_dtype": dtype, "precision": self.encoder.precision}

    # ---- saving

    def identity(self) -> dict[str, dict[str, Any]]:
        """What a run must have in common with the checkpoint that it continues from."""
        encoder = {} if self.encoder is None else {"encoder": self._encoder()}
        return {
            "config": to_dict(self.config),
            "dataset": {"fingerprint": self.dataset.fingerprint},
            "stream": {"fingerprint": self.stream.fingerprint},
            **encoder,
        }

    def state(self) -> State:
        """Everything that the rest of the run depends on."""
        records = json.dumps([record.to_dict() for record in self.records]).encode()
        return {
            "trainer": self.trainer.state(),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state() if self.trainer.device.type == "cuda" else None,
            "position": self.position,
            "step": self.step,
            "train_seconds": self.train_seconds,
            "records": np.frombuffer(records, np.uint8).copy(),  # an array: headers are for small things
            "task_ends": {
                str(end): {str(h): values for h, values in levels.items()}
                for end, levels in enumerate(self.task_ends)
            },
            "last": None if self.last is None else self.last.predictions,
            "probability": None if self.last is None else self.last.probability,
            "decoded": None if self.last is None else _by_text(self.last.decoded),
        }

    def restore(self, state: State) -> None:
        """Become the run that gave `state`, to the bit."""
        self.trainer.restore(state["trainer"])
        torch.set_rng_state(state["torch"])
        if state["cuda"] is not None and self.trainer.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"])
        self.position, self.step = state["position"], state["step"]
        self.train_seconds = state["train_seconds"]
        self.records = [Record.from_dict(values) for values in json.loads(state["records"].tobytes())]
        self.task_ends = [{int(h): v for h, v in levels.items()} for levels in state["task_ends"].values()]
        if state["last"] is not None:
            final = self.records[-1]
            self.last = Evaluation(
                images=self.evaluator.all,
                predictions=state["last"],
                accuracy={int(h): v for h, v in final.accuracy.items()},
                classes_seen={int(h): v for h, v in final.classes_seen.items()},
                class_accuracy=self.task_ends[-1],
                decoded={
                    way: {int(h): v for h, v in levels.items()} for way, levels in state["decoded"].items()
                },
                metrics=final.metrics,
                finest=final.finest,
                jaccard=final.jaccard,
                hops=final.hops,
                probability=state.get("probability"),  # not in older ones
            )


def _by_text(decoded: dict[str, dict[int, float]]) -> dict[str, dict[str, float]]:
    return {way: {str(h): value for h, value in levels.items()} for way, levels in decoded.items()}
