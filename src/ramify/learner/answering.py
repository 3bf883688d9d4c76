"""What can be asked of a learner: labels, how sure they are, why, and the tree that it has found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from torch import Tensor

from ramify.arrays import Singles
from ramify.errors import RamifyError
from ramify.hierarchy import DECODINGS
from ramify.hierarchy import decode as read
from ramify.learner.images import Images, OneImage, image_tensor, one_tensor
from ramify.learner.labels import Label, Levels, as_labels, as_levels, refuse_unequal
from ramify.learner.prediction import Prediction
from ramify.learner.samples import Names
from ramify.learner.shared import SharedTrainer
from ramify.learner.sure import answered, check_confidence
from ramify.learner.taking import Features, Taking, as_features
from ramify.learner.trust import Trust, trust
from ramify.learner.why import Reason, reasons
from ramify.taxonomy import Taxonomy
from ramify.typed import shown, whole

Decode = Literal["heads", "path", "crm", "up", "joint"]


class Answering:
    """The questions that a `Learner` answers, at any time and from any thread."""

    _trainer: SharedTrainer
    _taxonomy: Taxonomy | None
    _taking: Taking
    _names: Names
    image_size: int

    def labels(self, level: int) -> tuple[Label, ...]:
        """The labels of a level, in order of first sight."""
        classes = self._trainer.classes
        if not isinstance(level, int | np.integer) or level not in classes.levels:
            raise RamifyError(f"level {shown(level)} has not been met; known levels: {classes.levels}")
        return tuple(classes.labels[c] for c in classes.of_level(level))

    def predict(
        self,
        images: Images | None = None,
        consistent: bool = False,
        decode: Decode | None = None,
        confidence: float | None = None,
        *,
        features: Features | None = None,
    ) -> Prediction:
        """The best label at each level met so far, from one pass.

        `decode` says how answers are read: each level's head by itself (`heads`), the most probable `path`
        through the tree (`consistent=True` says the same), the labels of least expected tree distance (`crm`,
        Karthik et al. 2021), the finest answer and its ancestors (`up`), or all heads together (`joint`); by
        default as the method does. The tree is the taxonomy or, without one, the hierarchy worked out so far.

        With `confidence`, 0.9 for nine of ten right, the path (the default then) ends at the finest label
        that is as sure; its other labels are None. How sure is measured on the samples that were asked before
        they were learned, level by level.
        """
        if decode not in (None, *DECODINGS) or (consistent and decode not in (None, "path")):
            known = ", ".join(DECODINGS)
            raise RamifyError(f"decode is {decode!r}; use one of {known}, and with consistent=True only path")
        way = decode or (self._trainer.method.decode if confidence is None and not consistent else "path")
        pixels = self._inputs(images, features)
        with self._trainer.turns:
            if confidence is not None:
                check_confidence(self._trainer, confidence)
            log, score = self._trainer.consider(pixels)
            chosen = read(way, self._trainer.classes, log, self._trainer.ancestors(way, self._taxonomy))
            return answered(self._trainer, chosen, log, score, way, confidence)

    def explain(
        self,
        image: OneImage | None = None,
        k: int = 5,
        decode: Decode | None = None,
        *,
        features: Features | None = None,
    ) -> list[Reason]:
        """The `k` stored images nearest to an image in the network's features: why it answers as it does.

        Nearest first, each with its number and id, the labels that it was taught with, and whether these are
        what `predict` answers. None where nothing is stored. `features` [1, size] may be asked in the place
        of an image.
        """
        whole("k", k, 1)
        pixels = self._inputs(None if image is None else one_tensor(image, self.image_size), features)
        if len(pixels) != 1:
            raise RamifyError(f"{len(pixels)} samples were given; explain takes one at a time")
        way = decode or self._trainer.method.decode
        with self._trainer.turns:
            log = self._trainer.log_probabilities(pixels)
            chosen = read(way, self._trainer.classes, log, self._trainer.ancestors(way, self._taxonomy))
            return reasons(self._trainer, self._names, pixels, chosen[0], log[0], k)

    def predict_proba(
        self, images: Images | None = None, level: int = 1, *, features: Features | None = None
    ) -> Singles:
        """Probabilities [n, labels of the level], columns in the order of `labels(level)`."""
        pixels = self._inputs(images, features)
        with self._trainer.turns:
            self.labels(level)
            log = self._trainer.log_probabilities(pixels)[:, self._trainer.classes.of_level(level)]
            return np.exp(log).astype(np.float32)

    def score(
        self,
        images: Images | None = None,
        labels: Iterable[Any] = (),
        level: Levels = None,
        *,
        features: Features | None = None,
    ) -> float:
        """Share of images whose label is predicted at its level; a label that was never learned is missed."""
        names = as_labels(labels, self._trainer.classes)
        levels = as_levels(level, names, self._taxonomy)
        answer = self.predict(images, features=features)
        refuse_unequal(len(answer), len(names))
        if not names:
            raise RamifyError("no images were given; a score needs at least one")
        asked = enumerate(zip(levels, names, strict=True))
        return float(np.mean([h in answer.labels and answer.labels[h][i] == name for i, (h, name) in asked]))

    def calibration(self) -> dict[int, Trust]:
        """How far the answers of each level can be trusted, by samples that were asked before learning."""
        with self._trainer.turns:
            return trust(self._trainer)

    def hierarchy(self) -> Taxonomy:
        """What the learner knows of the label tree: the parent of each label.

        Of a label whose samples carried a coarser one as well it is that one, the most frequent, and the
        support its share (leaf attributes `support2` … `supportH`). For others the model is asked about its
        stored samples: the label of the next coarser level that it gives most often to a child's samples is
        the parent, its share of these answers the support. Levels are renumbered from 1.
        """
        with self._trainer.turns:
            return self._trainer.ties().taxonomy()

    def _inputs(self, images: Images | None, features: Features | None) -> Tensor:
        """What was given, as the trainer takes it."""
        if (images is None) == (features is None):
            raise RamifyError("give images, or features=… in their place")
        if features is not None:
            return as_features(features, self._trainer.inputs)
        if self._taking.images is None:
            size = self._trainer.inputs.size
            raise RamifyError(f"the learner takes features of {size} values, not images: give features=…")
        assert images is not None
        return image_tensor(images, self.image_size)
