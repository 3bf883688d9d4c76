"""Labels that change: what the owner of a learner may do to its labels and its stored samples."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ramify.arrays import Pixels
from ramify.errors import RamifyError
from ramify.learner import verbs
from ramify.learner.history import Entry, History, Undo, difference, patched, state_digest
from ramify.learner.labels import Label, refuse_missing
from ramify.learner.refit import answers, carry_over
from ramify.learner.relabel import Edit, apply, stored, stores
from ramify.learner.samples import Names, Stored
from ramify.learner.verbs import LEAST, Done
from ramify.state import State
from ramify.taxonomy import Taxonomy
from ramify.typed import shown

if TYPE_CHECKING:
    import threading

    from ramify.learner.shared import SharedTrainer

VERBS = ("rename", "merge", "split", "move", "forget", "relabel", "forget_samples", "forget_source")


class Editable:
    """What a `Learner` can do with labels that change.

    An edit is done whole or not at all, between two samples, and waits for `partial_fit` to end. Where
    `level` is None, it is the only one at which the label stands. Each returns its entry in the `history`;
    `stored` in it is the number of stored samples whose labels it changed or that it took out; of a merge, of
    all that have the label now.
    """

    _trainer: SharedTrainer
    _taxonomy: Taxonomy | None
    _learns: threading.Lock
    _names: Names
    _history: History

    def edit(self, what: str, **arguments: Any) -> Entry:
        """An edit by its name: one of `VERBS`, or `undo`; `arguments` are those of the method.

        `level` may be left out where the label stands at one level only.
        """
        if what not in (*VERBS, "undo"):
            near = difflib.get_close_matches(str(what), (*VERBS, "undo"), n=1)
            hint = f"did you mean {near[0]}?" if near else f"use {', '.join(VERBS)} or undo"
            raise RamifyError(f"no edit {shown(what)}; {hint}")
        verb = getattr(self, what)
        if "level" in inspect.signature(verb).parameters:
            arguments = {"level": None} | arguments
        try:
            inspect.signature(verb).bind(**arguments)
        except TypeError as error:
            taken = ", ".join(inspect.signature(verb).parameters) or "nothing"
            raise RamifyError(f"{what}: {error}; it takes {taken}") from None
        entry: Entry = verb(**arguments)
        return entry

    # ---- labels

    def rename(self, level: int | None, label: Label, new: Label) -> Entry:
        """Give a label another name; all that was learned stays.

        A name that another level has is taken only where `level` is given: without it, a label is known by
        its name.
        """
        return self._perform("rename", lambda: verbs.rename(self, level, label, new))

    def merge(self, level: int | None, labels: Sequence[Label], into: Label | None = None) -> Entry:
        """Make labels of one level one, called `into`: the first of them, another known one or a new name.

        The row of the union begins as the mean of the rows, weighted by the samples seen, its bias higher by
        the entropy of these weights, and is fitted so that it answers about stored samples as its members did
        together; counters are added. In a taxonomy it has the children of all, and the place
        of `into` or else of the first.
        """
        return self._perform("merge", lambda: verbs.merge(self, level, labels, into))

    def split(
        self,
        level: int | None,
        label: Label,
        into: Mapping[Label, Sequence[int | str]] | Callable[[Pixels], Label | None],
    ) -> Entry:
        """Give stored samples of a label new labels beside it.

        `into` names the samples of each new label, by number or id, or is a function from a stored image
        [size, size, 3] to its label (None: it keeps its own). The label ends where no stored sample keeps it
        and nothing lies below it. The new rows begin as the old one and are fitted to the stored samples.
        """
        return self._perform("split", lambda: verbs.split(self, level, label, into))

    def move(self, level: int | None, label: Label, parent: Label) -> Entry:
        """Give a label, and all below it, another parent in the taxonomy."""
        return self._perform("move", lambda: verbs.move(self, level, label, parent))

    def forget(self, level: int | None, label: Label | Sequence[Label], for_good: bool = False) -> Entry:
        """Drop a label, or several of one level: their rows, and the stored samples without another label.

        What the rest of the network has learned from them remains. `for_good`: it cannot be undone, nor any
        edit before it, and their images leave the file when the learner is saved.
        """
        return self._perform("forget", lambda: verbs.forget(self, level, label), for_good)

    # ---- samples

    def relabel(
        self, samples: int | str | Sequence[int | str], label: Any, level: int | None = None
    ) -> Entry:
        """Correct the label of stored samples, given by number or id.

        A label takes the place of the sample's label at its level; with a taxonomy its other labels follow.
        A whole path ("fruit", "apple") or table {level: label} takes the place of all. The weights have
        learned from the wrong label; they learn the right one as the sample is rehearsed.
        """
        return self._perform("relabel", lambda: verbs.relabel(self, samples, label, level))

    def forget_samples(self, samples: int | str | Sequence[int | str]) -> Entry:
        """Take stored samples out for good: their images leave the memory, and the file when it is saved.

        What the weights have learned from them remains. Neither this nor any edit before it can be undone,
        for that would need the images.
        """
        return self._perform("forget_samples", lambda: verbs.forget_samples(self, samples), for_good=True)

    def forget_source(self, source: str) -> Entry:
        """Take all stored samples of one source out for good; see `forget_samples`."""
        return self._perform("forget_source", lambda: verbs.forget_source(self, source), for_good=True)

    def stored(
        self, level: int | None = None, label: Label | None = None, source: str | None = None
    ) -> list[Stored]:
        """The stored samples, in order of arrival; only those of a level, a label, a source."""
        with self._trainer.turns:
            found = self._names.all(self._trainer)
        return [
            sample
            for sample in found
            if (level is None or level in sample.labels)
            and (label is None or label in ([sample.labels.get(level)] if level else sample.labels.values()))
            and (source is None or sample.source == source)
        ]

    def stored_image(self, number: int) -> Pixels:
        """The image of a stored sample, [size, size, 3]."""
        for memory in stores(self._trainer):
            slots = np.flatnonzero(memory["sample"][: memory.size] == number)
            if len(slots):
                inputs = memory["inputs"][int(slots[0])]
                break
        else:
            waiting = [s.inputs for s in self._trainer.waiting if s.values["sample"] == number]
            if not waiting:
                raise RamifyError(f"sample {shown(number)} is not stored (any more)")
            inputs = waiting[0]
        if inputs.ndim != 3:
            raise RamifyError(
                "this learner stores features of images, not the images, so there is none to show; "
                "`ramify edit MODEL samples` lists their paths, and `split` takes a CSV of sample and label"
            )
        found: Pixels = inputs.permute(1, 2, 0).contiguous().cpu().numpy()
        return found

    # ---- history

    @property
    def history(self) -> tuple[Entry, ...]:
        """All edits, oldest first."""
        return tuple(dict(entry) for entry in self._history.entries)

    def undo(self) -> Entry:
        """Take the latest edit back that has not been taken back.

        To the bit, where nothing was learned since. Otherwise labels, tree and the labels of the samples
        that are still stored are as before; a label that comes back begins with the row of the one that it
        was merged into. What was forgotten comes back only where nothing was learned since.
        """
        with self._learns, self._trainer.turns:
            if not self._history.undo:
                raise RamifyError("there is no edit to take back")
            undo = self._history.undo[-1]
            now = self._whole()
            exactly = state_digest(now) == undo.digest
            if exactly:
                self._become(patched(now, undo.patch))
            else:
                self._safely(now, lambda: self._go_back(now, undo))
            self._history.undo.pop()
            told = {"of": undo.number, "exactly": exactly, "stored": 0}
            return dict(self._history.add("undo", self._trainer.samples, told))

    def _go_back(self, now: State, undo: Undo) -> None:
        """Undo an edit after which more was learned."""
        if undo.inverse is None:
            raise RamifyError(
                f"edit {undo.number} forgot labels, and the model has been trained since: they cannot come "
                "back as they were; teach them again, or load a copy of the model from before"
            )
        trainer, back, becomes = self._trainer, undo.inverse, dict[int, int]()
        if state_digest(now["taxonomy"]) == back["tree"]:
            patch = undo.patch["items"].get("taxonomy")
            self._taxonomy = _as_tree(patched(now["taxonomy"], patch), self._taxonomy)
        for name, label in back["labels"].items():
            again = trainer.classes.find(int(trainer.classes.level_of[int(name)]), label)
            if again is not None and again != int(name):
                becomes[again] = int(name)
            trainer.classes.rename(int(name), label)
        level = next((level for level, *_ in back["ended"].values()), 0)
        ended = {int(name): ended for name, ended in back["ended"].items()}
        unions = np.array([instead for *_, instead in ended.values()], np.int64)
        said = answers(trainer, level, unions) if ended else []
        parts: dict[int, dict[int, float]] = {}
        for cls, (_, label, first, seen, instead) in ended.items():
            again = trainer.classes.find(level, label)
            if again is not None:  # taught anew since
                becomes[again] = cls
            share = min(max(seen / max(int(trainer.classes.seen[instead]), 1), LEAST), 1 - LEAST)
            trainer.classes.begin_again(cls, level, label, first, seen)
            trainer.classes.seen[instead] = max(0, trainer.classes.seen[instead] - seen)
            trainer.model.heads.copy(instead, cls, share)
            trainer.model.heads.copy(instead, instead, 1 - share)
            left = parts.setdefault(instead, {instead: 1.0})
            parts[instead] = {to: part * (1 - share) for to, part in left.items()} | {cls: share}
        held = {number for number, _ in stored(trainer)}
        samples = {int(n): tuple(labels) for n, labels in back["samples"].items() if int(n) in held}
        becomes |= {int(c): old for c, old in back["begun"].items()}
        apply(trainer, Edit(becomes, samples))
        mine = {n: c for n, labels in samples.items() for c in labels if trainer.classes.level_of[c] == level}
        if not becomes:
            carry_over(trainer, said, level, parts, mine)
        if self._taxonomy is not None:
            refuse_missing(self._taxonomy, trainer.classes)

    # ---- how an edit is done

    def _perform(self, what: str, work: Callable[[], Done], for_good: bool = False) -> Entry:
        """Do it whole or not at all, and remember how to take it back."""
        with self._learns, self._trainer.turns:
            before, samples = self._whole(), dict(stored(self._trainer))
            done = self._safely(before, work)
            after, now = self._whole(), dict(stored(self._trainer))
            self._trainer.know_ties(None)
            changed = {n: labels for n, labels in samples.items() if now.get(n) != labels}
            told = {"stored": len(changed)} | done.told | ({"for_good": True} if for_good else {})
            entry = self._history.add(what, self._trainer.samples, told)
            if for_good:
                self._history.undo.clear()
            else:
                patch = difference(before, after) or {"names": list(before), "items": {}}
                inverse = _backwards(before, after, changed, done)
                self._history.can_undo(Undo(entry["number"], state_digest(after), patch, inverse))
            return dict(entry)

    def _safely(self, before: State, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except BaseException:
            self._become(before)
            raise

    def _whole(self) -> State:
        """All that an edit may change."""
        state = self._trainer.state()
        del state["cost"]  # what was asked in between changes no more than that
        tree = self._taxonomy
        rows = None if tree is None else [list(tree.path(leaf)) for leaf in range(tree.leaves)]
        attributes = {} if tree is None else {k: list(v) for k, v in tree.leaf_attributes.items()}
        return {"trainer": state, "taxonomy": {"rows": rows, "attributes": attributes}}

    def _become(self, whole: State) -> None:
        self._trainer.restore(whole["trainer"] | {"cost": dataclasses.asdict(self._trainer.cost)})
        self._taxonomy = _as_tree(whole["taxonomy"], self._taxonomy)


def _as_tree(state: State, before: Taxonomy | None) -> Taxonomy | None:
    """The tree of a state, its levels told as those of the one that it comes after."""
    if state["rows"] is None:
        return None
    tree = Taxonomy.from_rows(state["rows"], state["attributes"])
    return tree if before is None else tree.numbered_as(before)


def _backwards(before: State, after: State, samples: Mapping[int, Any], done: Done) -> dict[str, Any] | None:
    """How to go back in words of classes and samples, which hold whatever is learned meanwhile."""
    if -1 in done.instead.values():
        return None
    was, now = before["trainer"]["classes"], after["trainer"]["classes"]
    ended = {
        str(c): [
            int(was["level_of"][c]),
            was["labels"][c],
            int(was["first_seen"][c]),
            int(was["seen"][c]),
            to,
        ]
        for c, to in done.instead.items()
    }
    pairs = zip(was["labels"], now["labels"], strict=False)  # some may be new
    return {
        "ended": ended,
        "labels": {str(c): a for c, (a, b) in enumerate(pairs) if a != b and b is not None},
        "begun": {str(c): old for c, old in done.begun.items()},
        "samples": {str(n): list(classes) for n, classes in samples.items()},
        "tree": state_digest(after["taxonomy"]),
    }
