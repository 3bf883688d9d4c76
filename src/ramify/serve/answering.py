"""The thread that answers: questions that wait together are answered in one pass."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch

from ramify.arrays import Floats, Pixels, Singles
from ramify.errors import RamifyError
from ramify.hierarchy import decode
from ramify.learner import Learner
from ramify.learner.asking import Told
from ramify.learner.learner import Decode
from ramify.learner.prediction import Prediction
from ramify.learner.replica import Replica
from ramify.learner.sure import answered, check_confidence

TOGETHER = 32  # questions in one pass
TOP = 5  # labels that are told of each level


@dataclass(frozen=True, eq=False)
class Reply:
    """What the model says of one image."""

    samples: int
    """How many it had learned from."""
    path: dict[int, Told]
    """The label of each level with its probability, down to where the path ends."""
    top: dict[int, list[Told]]
    """The most probable labels of each level's head."""
    confidence: dict[int, float]
    """How often such answers have been right, at the levels where enough is known of that."""
    new: list[int]
    """The levels at which the image looks like none of the labels."""
    margin: float
    """The least lead of a label of the path over the next of its level: 0 is a toss-up."""
    feature: Singles
    """Of length 1."""


@dataclass(frozen=True, eq=False)
class Asking:
    """A question: an image, how the answer is to be read, and how sure it has to be."""

    pixels: Pixels
    way: Decode = "path"
    confidence: float | None = None


class Answerer:
    """Asks a replica in one thread, so that many askers share its passes and none waits for learning."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self._waiting: deque[tuple[Asking, Future[Reply]]] = deque()
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

    def ask(self, asking: Asking) -> Future[Reply]:
        """The answer, when there is one."""
        if asking.confidence is not None:
            check_confidence(self.replica.now._trainer, asking.confidence)
        answer: Future[Reply] = Future()
        with self._changed:
            if self._closing:
                raise RamifyError("the server is ending; ask again later")
            self._waiting.append((asking, answer))
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
                answers = replies(self.replica.now, [asking for asking, _ in asked])
                for (_, future), found in zip(asked, answers, strict=True):
                    future.set_result(found)
            except Exception as error:
                for _, future in asked:
                    if not future.done():
                        future.set_exception(error)


def replies(learner: Learner, asked: Sequence[Asking]) -> list[Reply]:
    """Answers from one pass; each may be read in a way of its own."""
    trainer, classes = learner._trainer, learner._trainer.classes
    found: dict[int, Reply] = {}
    with trainer.turns:
        trainer.prepare()
        images = torch.from_numpy(np.stack([asking.pixels for asking in asked]))
        features, logits = trainer.embed(images, trainer.answering)
        log, energies = trainer.levels.log_probabilities(logits), trainer.levels.energies(logits)
        unit = torch.nn.functional.normalize(features.float()).cpu().numpy()
        for way, confidence in {(asking.way, asking.confidence) for asking in asked}:
            rows = [row for row, own in enumerate(asked) if (own.way, own.confidence) == (way, confidence)]
            chosen = decode(way, classes, log[rows], trainer.ancestors(way, learner.taxonomy))
            said = answered(trainer, chosen, log[rows], energies[rows], way, confidence)
            for place, row in enumerate(rows):
                found[row] = _told(learner, said, place, np.exp(log[row]), unit[row])
    return [found[row] for row in range(len(asked))]


def _told(
    learner: Learner,
    said: Prediction,
    place: int,
    probabilities: Floats,
    feature: Singles,
) -> Reply:
    """One row of what was said, with the rivals of its labels."""
    classes = learner._trainer.classes
    path: dict[int, Told] = {}
    best: dict[int, list[Told]] = {}
    margin = 1.0
    for level in classes.levels:
        own = classes.of_level(level)
        order = own[np.argsort(-probabilities[own], kind="stable")]
        best[level] = [(classes.labels[c], float(probabilities[c])) for c in order[:TOP]]
        label = said.labels[level][place]
        if label is not None:
            path[level] = (label, float(said.probabilities[level][place]))
            rivals = [probability for other, probability in best[level][:2] if other != label]
            margin = min([margin, *(path[level][1] - rival for rival in rivals[:1])])
    sure = {h: round(float(said.confidences[h][place]), 4) for h in path if h in said.confidences}
    new = [h for h, flags in said.new.items() if flags[place]]
    return Reply(learner.samples, path, best, sure, new, margin, feature)
