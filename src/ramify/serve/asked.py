"""The images that were asked about and not taught yet, and which of them to label next."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from PIL import Image

from ramify.arrays import Floats, Pixels, Singles
from ramify.serve.answering import Reply


@dataclass(frozen=True, eq=False)
class AskedImage:
    """An image that was asked about, and the last answer to it."""

    name: str
    pixels: Pixels
    answer: Reply


def image_name(pixels: Pixels) -> str:
    """What an image is known by: the same pixels, the same name."""
    return hashlib.sha256(pixels.tobytes()).hexdigest()[:20]


def png(pixels: Pixels) -> bytes:
    """Pixels [3, h, w] as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "PNG", compress_level=1)
    return file.getvalue()


class AskedImages:
    """The last images that were asked about, at most `most`; one that is taught leaves."""

    def __init__(self, most: int = 500) -> None:
        self.most = most
        self._questions: OrderedDict[str, AskedImage] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._questions)

    def add(self, pixels: Pixels, answer: Reply) -> str:
        """Keep an image; its name."""
        name = image_name(pixels)
        with self._lock:
            self._questions[name] = AskedImage(name, pixels, answer)
            self._questions.move_to_end(name)
            while len(self._questions) > self.most:
                self._questions.popitem(last=False)
        return name

    def renew(self, name: str, answer: Reply) -> None:
        """A later answer to an image, if it is still there."""
        with self._lock:
            if name in self._questions:
                self._questions[name] = AskedImage(name, self._questions[name].pixels, answer)

    def find(self, name: str) -> AskedImage | None:
        """An image by its name."""
        return self._questions.get(name)

    def drop(self, name: str) -> None:
        """An image was taught, or is not wanted."""
        with self._lock:
            self._questions.pop(name, None)

    def stale(self, samples: int, most: int) -> list[AskedImage]:
        """Those whose answer is of an earlier model, the oldest answers first."""
        with self._lock:
            found = [q for q in self._questions.values() if q.answer.samples != samples]
        return sorted(found, key=lambda q: q.answer.samples)[:most]

    def next_to_label(self, count: int) -> list[AskedImage]:
        """The answers that are least sure, and unlike each other."""
        with self._lock:
            questions = list(self._questions.values())
        if not questions:
            return []
        width = min(len(q.answer.feature) for q in questions)
        features = np.stack([q.answer.feature[:width] for q in questions])
        margins = np.array([q.answer.margin for q in questions])
        return [questions[i] for i in least_sure(margins, features, count)]


def least_sure(margins: Floats, features: Singles, count: int) -> list[int]:
    """Rows to label next, one after the other: unsure, and far from those that were chosen before.

    Each time the greatest (1 − margin) · distance, where the distance is 1 − cosine to the nearest row chosen
    so far, and 1 for the first: a second image of the same thing teaches little.
    """
    unsure = 1 - np.clip(margins, 0, 1)
    distance = np.ones(len(margins))
    chosen: list[int] = []
    for _ in range(min(count, len(margins))):
        score = unsure * distance
        score[chosen] = -1
        best = int(score.argmax())
        chosen.append(best)
        distance = np.minimum(distance, np.maximum(0.0, 1 - features @ features[best]))
    return chosen
