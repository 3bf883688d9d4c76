"""The thread that answers: questions that wait together are answered in one pass."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ramify.errors import RamifyError
from ramify.hierarchy import decode
from ramify.learner import Learner
from ramify.learner.labels import Label
from ramify.learner.learner import Decode
from ramify.learner.replica import Replica

TOGETHER = 32  # questions in one pass
Told = tuple[Label, float]
Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Answer:
    """What the model says of one image."""

    samples: int
    """How many it had learned from."""
    path: dict[int, Told]
    """The label of each level with its probability, down to where the path ends."""
    top: dict[int, list[Told]]
    """The most probable labels of each level's head."""
    margin: float
    """The least lead of a label of the path over the next of its level: 0 is a toss-up."""
    feature: NDArray[np.float32]
    """Of length 1."""


class Answering:
    """Asks a replica in one thread, so that many askers share its passes and none waits for learning."""

    def __init__(self, replica: Replica, top: int = 5) -> None:
        self.replica, self.top = replica, top
        self._waiting: deque[tuple[Pixels, Decode, Future[Answer]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="answering")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End when all that wait are answered."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def ask(self, pixels: Pixels, way: Decode = "path") -> Future[Answer]:
        """The answer, when there is one."""
        answer: Future[Answer] = Future()
        with self._changed:
            if self._closing:
                raise RamifyError("the server is ending; ask again later")
            self._waiting.append((pixels, way, answer))
            self._changed.notify()
        return answer

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                asked = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            try:
                answers = answer(self.replica.now, [a[0] for a in asked], [a[1] for a in asked], self.top)
                for (_, _, future), found in zip(asked, answers, strict=True):
                    future.set_result(found)
            except Exception as error:
                for _, _, future in asked:
                    if not future.done():
                        future.set_exception(error)


def answer(learner: Learner, images: Sequence[Pixels], ways: Sequence[Decode], top: int) -> list[Answer]:
    """Answers from one pass; each may be read in a way of its own."""
    trainer, classes = learner._trainer, learner._trainer.classes
    with trainer.turns:
        trainer.prepare()
        features, logits = trainer.embed(torch.from_numpy(np.stack(images)), trainer._answering)
        log = trainer.levels.log_probabilities(logits)
        chosen = np.empty((len(images), len(classes.levels)), np.int64)
        for way in set(ways):
            rows = [row for row, own in enumerate(ways) if own == way]
            tree = np.empty((0, 0), np.int64) if way == "heads" else learner._ancestors()
            chosen[rows] = decode(way, classes, log[rows], tree)
    probabilities = np.exp(log)
    unit = torch.nn.functional.normalize(features.float()).cpu().numpy()
    return [_told(learner, *row, top) for row in zip(chosen.tolist(), probabilities, unit, strict=True)]


def _told(
    learner: Learner,
    chosen: list[int],
    probabilities: NDArray[np.float64],
    feature: NDArray[np.float32],
    top: int,
) -> Answer:
    classes = learner._trainer.classes
    path: dict[int, Told] = {}
    best: dict[int, list[Told]] = {}
    margin = 1.0
    for level, cls in zip(classes.levels, chosen, strict=True):
        own = classes.of_level(level)
        order = own[np.argsort(-probabilities[own], kind="stable")]
        best[level] = [(classes.labels[c], float(probabilities[c])) for c in order[:top]]
        if cls >= 0:
            path[level] = (classes.labels[cls], float(probabilities[cls]))
            others = order[order != cls]
            rival = float(probabilities[others[0]]) if len(others) else 0.0
            margin = min(margin, path[level][1] - rival)
    return Answer(learner.samples, path, best, margin, feature)
