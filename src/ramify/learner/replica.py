"""Copies of a learner, to ask while it learns on."""

from __future__ import annotations

import copy
from time import monotonic

import numpy as np

from ramify.errors import RamifyError
from ramify.hierarchy import Ties
from ramify.learner.learner import Learner

SHARE = 0.1  # of the time may go into finding the tree


class Replica:
    """Answers as a learner did at the last `refresh`, without ever waiting for it.

    There are two copies: one is asked (`now`), the other one is brought up to date and takes its place. What
    they are asked changes nothing in the learner. Where the model is asked about all of its memory to find
    the tree, that is done now and then only; classes that have come since have no parent until then.
    """

    def __init__(self, learner: Learner) -> None:
        if learner._trainer.method.trains_when_asked:
            raise RamifyError(
                f"{learner._trainer.method.name} trains when it is asked, so it cannot answer while it "
                "learns: use a model of another method, such as pl-fms"
            )
        self.learner = learner
        params = learner.get_params() | {"precision": learner._trainer.settings.precision}
        self.now, self._other = Learner(**params), Learner(**params)
        self._ties: Ties | None = None
        self._found, self._took = float("-inf"), 0.0
        self.refresh()

    def refresh(self, edited: bool = False) -> None:
        """Let `now` be the learner as it is; to be called where it learns, between two samples.

        `edited`: classes were renamed, merged or removed, so what was known of the tree no longer holds.
        """
        learner, fresh = self.learner, self._other
        if edited:
            self._ties = None
        with learner._trainer.turns:
            state = learner._trainer.state()
            fresh._taxonomy, fresh.notes = learner.taxonomy, copy.deepcopy(learner.notes)
            fresh._names = learner._names.copy()
        with fresh._trainer.turns:
            fresh._trainer.restore(state)
            if learner.taxonomy is None and len(fresh._trainer.classes):
                self._find_tree(fresh)
        self.now, self._other = fresh, self.now

    def _find_tree(self, fresh: Learner) -> None:
        """Find the tree anew, or take the last one where that was costly and not long ago."""
        trainer, start = fresh._trainer, monotonic()
        if self._ties is None or start - self._found > self._took / SHARE:
            self._ties = trainer.ties()
            self._found, self._took = monotonic(), monotonic() - start
        known = len(self._ties.parents)
        parents, support = np.full(len(trainer.classes), -1, np.int64), np.zeros(len(trainer.classes))
        parents[:known], support[:known] = self._ties.parents, self._ties.support
        trainer.know_ties(trainer.stated.over(Ties(trainer.classes, parents, support)))
