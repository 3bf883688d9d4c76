"""scikit-learn's words: a classifier of feature arrays with label paths (extra `sklearn`)."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import nn

from ramify.arrays import Array, Floats, Ints
from ramify.errors import RamifyError
from ramify.hierarchy import DECODINGS
from ramify.hierarchy import decode as read
from ramify.learner.stated import Stated
from ramify.memory.workbench import LOOK
from ramify.methods import Trainer, find_method, make_settings
from ramify.networks import FeatureInputs
from ramify.runs.run import pick_device
from ramify.typed import whole

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise RamifyError(
        "HierarchicalClassifier needs the extra `sklearn`: pip install 'ramify[sklearn]'"
    ) from None

Paths = list[list[tuple[int, Any]]]


class HierarchicalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A learner of features [n, f] whose labels are paths, coarse to fine, or single labels.

    `y` is [n], or [n, levels] with None, −1, nan or "" where a level is not known; a list of paths may be of
    unlike length. `fit` begins anew, with `passes` over the data in random order: more than one where the
    method trains by gradients. `partial_fit` goes on, with each sample once, and may bring new labels and new
    levels. `method` and all that is set are those of the `Learner`; `network` maps features to features
    (default: as they are, so that scaled ones are wanted); `settings` has any other field of `Settings`.
    Parents are those that paths in `y` had most often, else those that the method finds.
    """

    _trainer: Trainer
    _levels: int
    _told: list[Any]  # labels that were announced
    _stated: Stated

    def __init__(
        self,
        method: str = "slda",
        *,
        passes: int = 1,
        memory_size: int = 2000,
        batch_size: int = 32,
        updates_per_sample: float = 0.5,
        lr: float = 0.01,
        decode: str = "path",
        network: nn.Module | None = None,
        settings: dict[str, Any] | None = None,
        device: str = "cpu",
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.passes = passes
        self.memory_size = memory_size
        self.batch_size = batch_size
        self.updates_per_sample = updates_per_sample
        self.lr = lr
        self.decode = decode
        self.network = network
        self.settings = settings
        self.device = device
        self.random_state = random_state

    # ---- learning

    def fit(self, X: Any, y: Any) -> HierarchicalClassifier:
        """Learn from scratch."""
        whole("passes", self.passes, 1)
        features, paths = self._begin(X, y)
        rng = np.random.default_rng(self._seed)
        for _ in range(self.passes):
            order = rng.permutation(len(features))
            self._trainer.observe(features[order], [paths[i] for i in order])
        self._trainer.flush()
        self._settle(paths)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> HierarchicalClassifier:
        """Learn from more samples, each once; `classes` of single labels may be told before they come."""
        begun = hasattr(self, "_trainer")
        features, paths = self._checked(X, y) if begun else self._begin(X, y)
        if classes is not None:
            self._told = sorted({*self._told, *np.asarray(classes).tolist()})
        self._trainer.observe(features, paths)
        self._trainer.flush()
        self._settle(paths)
        return self

    def _begin(self, X: Any, y: Any) -> tuple[Array, Paths]:
        for name in ("_trainer", "_levels"):
            self.__dict__.pop(name, None)
        if self.decode not in DECODINGS:
            raise RamifyError(f"decode is {self.decode!r}; use one of {', '.join(DECODINGS)}")
        features, paths = self._checked(X, y, reset=True)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._stated, self._told = Stated(), []
        self._trainer = self._make()
        return features, paths

    def _make(self) -> Trainer:
        method = find_method(self.method)
        if method.offline or method.told_paths:
            raise RamifyError(f"{method.name} does not learn from labels as they come; choose er, canopy, …")
        chosen = {
            "memory_size": self.memory_size,
            "batch_size": self.batch_size,
            "updates_per_sample": self.updates_per_sample,
            "lr": self.lr,
            **(self.settings or {}),
        }
        network = nn.Identity() if self.network is None else self.network
        inputs, device = FeatureInputs(self.n_features_in_), pick_device(self.device)
        return Trainer(method, make_settings(method=method, **chosen), inputs, self._seed, device, network)

    def _checked(self, X: Any, y: Any, reset: bool = False) -> tuple[Array, Paths]:
        """Features as float32, and the known (level, label) pairs of each sample, finest first."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        rows = _rows(y)
        if rows.ndim == 2 and rows.shape[1] > 1:
            features = validate_data(self, X, dtype=np.float32, reset=reset)
            if len(features) != len(rows):
                raise ValueError(f"X has {len(features)} samples and y {len(rows)}; give a path for each")
            self._levels = max(rows.shape[1], getattr(self, "_levels", 0))
            paths = [
                [(h, value) for h, value in enumerate(row, 1) if _known(value)][::-1] for row in rows.tolist()
            ]
            _refuse_mixed(paths)
            return np.ascontiguousarray(features), paths
        features, flat = validate_data(self, X, y, dtype=np.float32, reset=reset)
        check_classification_targets(flat)
        flat = column_or_1d(flat, warn=True)
        self._levels = max(1, getattr(self, "_levels", 0))
        return np.ascontiguousarray(features), [[(1, value)] for value in flat.tolist()]

    def _settle(self, paths: Paths) -> None:
        """Note which labels came with which, and which there are."""
        classes = self._trainer.classes
        for pairs in paths:
            numbers = (classes.find(h, v) for h, v in reversed(pairs))
            self._stated.note([number for number in numbers if number is not None])
        labels = [[classes.labels[c] for c in classes.of_level(h)] for h in range(1, self._levels + 1)]
        found = [np.array(sorted({*own, *(self._told if self._levels == 1 else ())})) for own in labels]
        self.classes_ = found[0] if self._levels == 1 else found

    # ---- asking

    def predict(self, X: Any) -> Array:
        """Labels [n], or paths [n, levels] with −1 (of whole numbers) or None below their end."""
        log = self._log(X)
        if self._levels == 1:
            probabilities = self._columns(log, 1)
            found: Array = np.asarray(self.classes_)[probabilities.argmax(1)]
            return found
        classes = self._trainer.classes
        chosen = read(self.decode, classes, log, self._ancestors())
        whole = all(np.asarray(own).dtype.kind in "iu" for own in self.classes_ if len(own))
        names = [*classes.labels, -1 if whole else None]
        paths = np.full((len(log), self._levels), names[-1], np.int64 if whole else object)
        for column, level in enumerate(classes.levels):
            paths[:, level - 1] = [names[c] for c in chosen[:, column]]
        return paths

    def predict_proba(self, X: Any) -> Array | list[Array]:
        """Probabilities in the order of `classes_`; of paths a list with one array a level."""
        log = self._log(X)
        if self._levels == 1:
            return self._columns(log, 1)
        return [self._columns(log, level) for level in range(1, self._levels + 1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of samples whose known labels are all predicted."""
        if self._levels == 1:
            return float(super().score(X, y, sample_weight))
        _, paths = self._checked(X, y)
        said = self.predict(X)
        right = [all(said[i, h - 1] == v for h, v in pairs) for i, pairs in enumerate(paths)]
        return float(np.average(right, weights=sample_weight))

    def _log(self, X: Any) -> Floats:
        """Log-probabilities [n, classes], in double precision: they do not depend on what is asked along."""
        check_is_fitted(self)
        features = torch.from_numpy(np.array(validate_data(self, X, dtype=np.float64, reset=False)))
        trainer = self._trainer
        trainer.prepare()
        trainer.model.set_training(False)
        weights = {name: v.double() if v.is_floating_point() else v for name, v in trainer.weights().items()}
        with torch.no_grad():
            parts = [
                torch.func.functional_call(trainer.model, weights, (part.to(trainer.device),))[1]
                for part in (features[s : s + LOOK] for s in range(0, len(features), LOOK))
            ]
        return np.concatenate([trainer.levels.log_probabilities(part) for part in parts])

    def _columns(self, log: Floats, level: int) -> Floats:
        labels = self.classes_ if self._levels == 1 else self.classes_[level - 1]
        numbers = [self._trainer.classes.find(level, label) for label in np.asarray(labels).tolist()]
        found = np.zeros((len(log), len(numbers)))
        for column, number in enumerate(numbers):
            if number is not None:
                found[:, column] = np.exp(log[:, number])
        return found

    def _ancestors(self) -> Ints:
        if self.decode == "heads":
            return np.empty((0, 0), np.int64)
        return self._stated.over(self._trainer.ties()).ancestors()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it has learned anything."""
        return hasattr(self, "classes_")

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        """The trainer as its state, for it holds functions."""
        state = dict(super().__getstate__())
        trainer = state.pop("_trainer", None)
        return state | ({} if trainer is None else {"_trainer_state": trainer.state()})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the estimator that gave `state`."""
        trainer = state.get("_trainer_state")
        super().__setstate__({name: value for name, value in state.items() if name != "_trainer_state"})
        if trainer is not None:
            self._trainer = self._make()
            self._trainer.restore(trainer)


def _rows(y: Any) -> Array:
    """Labels as an array; paths of unlike length have None below their end."""
    paths = isinstance(y, list | tuple) and all(isinstance(path, list | tuple) for path in y)
    if paths and len({*map(len, y)}) > 1:
        y = list(zip(*zip_longest(*y), strict=True))
    several = paths and max(map(len, y), default=0) > 1
    return np.array(y, object) if several else np.asarray(y)  # as objects, each value stays as it is


def _refuse_mixed(paths: Paths) -> None:
    kinds = {(h, isinstance(value, str)) for pairs in paths for h, value in pairs}
    for h, text in kinds:
        if text and (h, False) in kinds:
            raise ValueError(f"labels of level {h} are text and other values; use one kind within a level")


def _known(value: Any) -> bool:
    return value is not None and value == value and value not in ("", -1)
