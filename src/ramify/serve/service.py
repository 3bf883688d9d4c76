"""A served learner: the parts that teach, answer and remember, and what can be said of them."""

from __future__ import annotations

import difflib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from ramify import __version__
from ramify.arrays import Pixels
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.folder import ModelFolder
from ramify.learner.labels import Label, with_above
from ramify.learner.relabel import remembers
from ramify.learner.saving import method_name
from ramify.learner.trust import course
from ramify.serve.answering import Answerer, Asking, Reply
from ramify.serve.asked import AskedImages, png
from ramify.serve.limits import Limits, RateLimit
from ramify.serve.metrics import ByLabels, Requests, metric_lines
from ramify.serve.teaching import Teaching
from ramify.taxonomy import Taxonomy


@dataclass(frozen=True)
class LabelNode:
    """A label in the tree, with how many samples of it were learned and how many are stored."""

    path: tuple[tuple[int, Label], ...]
    """Levels and labels down to its own; those that are not known are left out."""
    seen: int
    stored: int

    @property
    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        level, label = self.path[-1]
        return {"level": level, "label": label, "seen": self.seen, "stored": self.stored}


class Service:
    """Everything behind the doors of a server; `start` and `close` its threads."""

    def __init__(
        self,
        learner: Learner,
        folder: ModelFolder,
        limits: Limits | None = None,
        save_every: float = 60.0,
        keep: int = 500,
        idle: float | None = 1.0,
    ) -> None:
        self.limits = limits or Limits()
        self.teaching = Teaching(learner, folder, self.limits.queue, save_every, idle)
        self.answering = Answerer(self.teaching.replica)
        self.asked, self.requests = AskedImages(keep), Requests()
        self.rate_limit = RateLimit(self.limits.rate)
        self.folder, self.began = folder.path, monotonic()

    def start(self) -> None:
        """Begin to learn and to answer."""
        self.teaching.start()
        self.answering.start()

    def close(self) -> None:
        """End both, and save."""
        self.answering.close()
        self.teaching.close()

    @property
    def learner(self) -> Learner:
        """The learner as it was a moment ago, to ask."""
        return self.teaching.replica.now

    # ---- what it is

    def nodes(self) -> list[LabelNode]:
        """All labels in the order of the tree: each after its parent."""
        learner = self.learner
        found = _met(learner)
        if learner.taxonomy is not None:
            found = _placed(found, _given(learner.taxonomy))
        return sorted(
            found, key=lambda node: [(h, str(label).casefold(), str(label)) for h, label in node.path]
        )

    def tree(self) -> dict[str, Any]:
        """The same, nested."""
        root: dict[str, Any] = {"children": []}
        at: dict[tuple[tuple[int, Label], ...], dict[str, Any]] = {(): root}
        for node in self.nodes():
            at[node.path] = node.facts | {"children": []}
            at.get(node.path[:-1], root)["children"].append(at[node.path])
        return root

    def labels(self) -> dict[str, list[dict[str, Any]]]:
        """The labels of each level with their paths."""
        found: dict[str, list[dict[str, Any]]] = {}
        for node in self.nodes():
            found.setdefault(str(node.path[-1][0]), []).append(node.facts | {"path": node.path})
        return dict(sorted(found.items(), key=lambda pair: int(pair[0])))

    def status(self) -> dict[str, Any]:
        """What a page shows all the time."""
        learner, teaching = self.learner, self.teaching
        return {
            "model": self.folder.name,
            "method": method_name(learner.get_params()["method"]),
            "image_size": learner.image_size,
            "samples": learner.samples,
            "revision": teaching.shown,
            "waiting": teaching.waiting,
            "refused": teaching.refused,
            "failed": teaching.failed,
            "save_error": teaching.save_error,
            "asked": len(self.asked),
            "levels": {str(h): len(learner.labels(h)) for h in learner.levels},
            "stores": remembers(learner._trainer),
            "tree": "given" if learner.taxonomy is not None else "found",
            "log": course(learner._trainer),
        }

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether all is well, and the facts."""
        teaching = self.teaching
        problem = teaching.failed or teaching.save_error
        facts = {
            "status": "ok" if problem is None else "failing",
            "problem": problem,
            "version": __version__,
            "samples": self.learner.samples,
            "waiting": teaching.waiting,
            "seconds_since_save": None
            if teaching.saved_at is None
            else round(monotonic() - teaching.saved_at, 1),
            "uptime_seconds": round(monotonic() - self.began, 1),
        }
        return problem is None, facts

    def metrics(self) -> Iterator[str]:
        """In Prometheus' format."""
        learner, teaching = self.learner, self.teaching
        yield from metric_lines("samples", "gauge", "Samples the model has learned.", learner.samples)
        yield from metric_lines("updates", "gauge", "Training steps the model has made.", learner.updates)
        yield from metric_lines(
            "learned_total", "counter", "Commands carried out since the start.", teaching.learned
        )
        yield from metric_lines(
            "refused_total", "counter", "Accepted commands that failed.", teaching.refused
        )
        yield from metric_lines(
            "queue_length", "gauge", "Commands accepted, not carried out yet.", teaching.waiting
        )
        yield from metric_lines("queue_limit", "gauge", "How many may wait.", self.limits.queue)
        yield from metric_lines("asked", "gauge", "Images kept to be labelled.", len(self.asked))
        since = teaching.saved_at
        if since is not None:
            yield from metric_lines(
                "save_age_seconds", "gauge", "Time since the last save.", monotonic() - since
            )
        yield from metric_lines("failing", "gauge", "1 where learning or saving fails.", not self.health()[0])
        sizes: ByLabels = {(("level", str(h)),): len(learner.labels(h)) for h in learner.levels}
        yield from metric_lines("labels", "gauge", "Labels known, by level.", sizes)
        last: ByLabels = {
            (("level", level),): value
            for entry in course(learner._trainer)[-1:]
            for level, value in entry["accuracy"].items()
        }
        yield from metric_lines(
            "accuracy", "gauge", "Right before learning, of the last part of the log.", last
        )
        yield from self.requests.lines()

    # ---- what it is told

    def pairs(self, names: list[str], levels: list[int]) -> tuple[tuple[int, Label], ...]:
        """Labels as they were sent, with their levels, coarsest first; one without is found by its name."""
        learner = self.learner
        kinds = {type(label) for level in learner.levels for label in learner.labels(level)[:1]}
        if int in kinds and not all(name.lstrip("-").isdecimal() for name in names):
            raise RamifyError(f"{names[0]!r} is no number, and the labels of this model are; send a number")
        labels: list[Label] = [int(name) for name in names] if int in kinds else list(names)
        if not levels:
            levels = [self._level(label) for label in labels]
        if len(set(levels)) < len(levels):
            raise RamifyError(f"two labels at one level were given, {names}; give one a level")
        return tuple(sorted(with_above(dict(zip(levels, labels, strict=True)), learner.taxonomy).items()))

    def _level(self, label: Label) -> int:
        found = sorted({node.path[-1][0] for node in self.nodes() if str(node.path[-1][1]) == str(label)})
        if len(found) == 1:
            return found[0]
        if found:
            raise RamifyError(f"label {label!r} stands at levels {found}; say at which: &level={found[0]}")
        near = difflib.get_close_matches(str(label), [str(node.path[-1][1]) for node in self.nodes()], n=1)
        hint = f"did you mean {near[0]!r}? A new one needs" if near else "a new one needs"
        raise RamifyError(f"label {label!r} is not known; {hint} its level: &level=1 is the coarsest")

    # ---- why, and asking again

    def why(self, pixels: Pixels, count: int = 8) -> list[dict[str, Any]]:
        """The stored images that are nearest to an image, as JSON has them; null for one kept as features."""
        image = np.ascontiguousarray(pixels.transpose(1, 2, 0))
        return [
            {
                "image": None if reason.image is None else _data(reason.image),
                "sample": reason.number,
                "id": reason.id,
                "labels": {str(level): label for level, label in sorted(reason.labels.items())},
                "similarity": round(reason.similarity, 4),
                "agrees": reason.agrees,
            }
            for reason in self.learner.explain(image, count, "path")
        ]

    def renew(self, most: int = 64) -> None:
        """Ask again about some of the images whose answers come from an earlier model."""
        stale = self.asked.stale(self.learner.samples, most)
        for question, answer in [(q, self.answering.ask(Asking(q.pixels))) for q in stale]:
            self.asked.renew(question.name, answer.result())


def _data(image: Pixels) -> str:
    """An image [h, w, 3] as an address that holds it."""
    return "data:image/png;base64," + b64encode(png(image.transpose(2, 0, 1))).decode()


def _met(learner: Learner) -> list[LabelNode]:
    """The labels that were learned."""
    trainer = learner._trainer
    if not len(trainer.classes):
        return []
    counts = learner.memory_counts(every=True)
    with trainer.turns:
        classes, ancestors = trainer.classes, trainer.ancestors("path", learner.taxonomy)
        found = []
        for level in classes.levels:
            for cls in classes.of_level(level).tolist():
                line = ancestors[cls]
                path = tuple((int(classes.level_of[c]), classes.labels[c]) for c in line[line >= 0])
                found.append(LabelNode(path, int(classes.seen[cls]), counts[level][classes.labels[cls]]))
    return found


def _placed(met: list[LabelNode], given: Iterable[LabelNode]) -> list[LabelNode]:
    """All labels where the given tree has them: those that were learned also below parents that were not."""
    known = {_text(*node.path[-1]): node for node in met}
    found = {}
    for node in given:
        keys = [_text(*pair) for pair in node.path]
        own = tuple(
            known[key].path[-1] if key in known else pair for key, pair in zip(keys, node.path, strict=True)
        )
        found[keys[-1]] = replace(known.get(keys[-1], node), path=own)
    return list((known | found).values())


def _given(tree: Taxonomy) -> Iterator[LabelNode]:
    """The labels of a given tree, as if none had been learned."""
    for path in {
        tree.path(leaf)[:level] for leaf in range(tree.leaves) for level in range(1, tree.depth + 1)
    }:
        yield LabelNode(tuple(enumerate(path, 1)), 0, 0)


def _text(level: int, label: Label) -> tuple[int, str]:
    return level, str(label)


def as_json(answer: Reply) -> dict[str, Any]:
    """An answer as JSON has it."""
    return {
        "samples": answer.samples,
        "path": [
            _pair(level, *pair) | {"confidence": answer.confidence.get(level)}
            for level, pair in answer.path.items()
        ],
        "new": answer.new,
        "top": {str(level): [_pair(level, *pair) for pair in best] for level, best in answer.top.items()},
        "margin": round(answer.margin, 4),
    }


def _pair(level: int, label: Label, probability: float) -> dict[str, Any]:
    return {"level": level, "label": label, "probability": round(probability, 4)}
