"""Edits of what a learner knows: classes that become others or end, stored samples that get other labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ramify.arrays import Ints
from ramify.change import Change
from ramify.memory import Memory, Sample
from ramify.methods.trainer import Trainer

Labels = tuple[int, ...]  # classes, coarsest level first


@dataclass(frozen=True)
class Edit:
    """What is to change; what is not named stays.

    `becomes`: class → the class that it becomes, -1: none. `samples`: number of a sample → its classes from
    now on; a sample without any is taken out. The samples of a class follow it where they are not named.
    """

    becomes: Mapping[int, int] = field(default_factory=dict)
    samples: Mapping[int, Labels] = field(default_factory=dict)


def stores(trainer: Trainer) -> tuple[Memory, ...]:
    """The memory, and what the method keeps beside it."""
    return (trainer.memory, *trainer.recipe.keep.stores())


def remembers(trainer: Trainer) -> bool:
    """Whether the method stores samples at all; one in closed form, and the naive one, store none."""
    return any(memory.capacity for memory in stores(trainer))


def stored(trainer: Trainer) -> Iterator[tuple[int, Labels]]:
    """Number and classes of every sample that is stored, or waits to be trained on; each once."""
    told: set[int] = set()
    for memory in stores(trainer):
        numbers, labels = memory["sample"][: memory.size], memory["labels"][: memory.size]
        for number, row in zip(numbers.tolist(), labels.tolist(), strict=True):
            told.add(number)
            yield number, tuple(c for c in row if c >= 0)
    for sample in trainer.waiting:
        if sample.values["sample"] not in told:
            yield sample.values["sample"], sample.labels


def apply(trainer: Trainer, edit: Edit) -> None:
    """Change classes, memory, waiting samples and all that is kept by them, at once.

    The class that was met first goes on as the union of all that become one with it, whichever of them was
    named; its label is the caller's to give.
    """
    becomes = np.arange(len(trainer.classes))
    for cls, target in edit.becomes.items():
        becomes[cls] = target
    for target in {t for t in edit.becomes.values() if t >= 0}:
        union = becomes == target
        becomes[union] = np.flatnonzero(union)[0]
    corrected = {
        number: _by_level(trainer, labels, edit.samples[number])
        for number, labels in stored(trainer)
        if number in edit.samples
    }
    slots, relabelled = np.empty(0, np.int64), np.empty(0, np.int64)
    for memory in reversed(stores(trainer)):  # the memory last: its slots are what parts know
        slots, relabelled = _edit_store(trainer, memory, becomes, edit.samples)
    _edit_waiting(trainer, becomes, edit.samples, slots)
    seen = trainer.classes.seen.astype(float)
    totals = np.bincount(becomes[becomes >= 0], seen[becomes >= 0], minlength=len(becomes))
    shares = np.where(becomes >= 0, seen / np.maximum(totals[becomes], 1), 0.0)
    change = Change(becomes, shares, slots, relabelled, corrected)
    _edit_classes(trainer, change)
    trainer.follow(change)


def take_all_out(trainer: Trainer) -> None:
    """Take every stored sample out, and those that wait; classes, counts and all that was learned stay."""
    slots = none = np.empty(0, np.int64)
    for memory in reversed(stores(trainer)):
        slots = memory.remove(np.arange(memory.size))
    trainer.waiting = []
    same = np.arange(len(trainer.classes))
    trainer.follow(Change(same, np.ones(len(same)), slots, none, {}))


def _edit_store(
    trainer: Trainer, memory: Memory, becomes: Ints, samples: Mapping[int, Labels]
) -> tuple[Ints, Ints]:
    """Where each slot's sample is now, and the slots, as they were, that were relabelled by name."""
    ended = np.flatnonzero(becomes != np.arange(len(becomes)))
    labels, numbers = memory["labels"][: memory.size], memory["sample"][: memory.size]
    named = np.isin(numbers, list(samples)) & (numbers >= 0)
    gone = []
    for slot in np.flatnonzero(named | np.isin(labels, ended).any(1)).tolist():
        before = tuple(c for c in labels[slot].tolist() if c >= 0)
        now = samples[int(numbers[slot])] if named[slot] else _mapped(becomes, before)
        if not now:
            gone.append(slot)
        elif now != before:
            memory.relabel(slot, now, _counted(trainer, int(memory.classes[slot]), becomes, now))
    return memory.remove(np.array(gone, np.int64)), np.flatnonzero(named)


def _edit_waiting(trainer: Trainer, becomes: Ints, samples: Mapping[int, Labels], slots: Ints) -> None:
    waiting: list[Sample] = []
    for sample in trainer.waiting:
        now = samples.get(sample.values["sample"], _mapped(becomes, sample.labels))
        if sample.labels and not now:
            continue
        if now != sample.labels:
            sample.labels, sample.cls = now, _counted(trainer, sample.cls, becomes, now)
        sample.slot = int(slots[sample.slot]) if sample.slot >= 0 else -1
        waiting.append(sample)
    trainer.waiting = waiting


def _edit_classes(trainer: Trainer, change: Change) -> None:
    classes = trainer.classes
    for cls, members in change.unions():
        classes.seen[cls] = classes.seen[members].sum()
        classes.first_seen[cls] = classes.first_seen[members].min()
    for cls in change.ended.tolist():
        classes.end(cls)


def _mapped(becomes: Ints, labels: Labels) -> Labels:
    """What a sample's classes have become, none of them twice."""
    return tuple(dict.fromkeys(c for c in becomes[list(labels)].tolist() if c >= 0))


def _by_level(trainer: Trainer, before: Labels, now: Labels) -> dict[int, int]:
    """Each class of a sample, and that which it has now at the same level, -1 for none."""
    level_of = trainer.classes.level_of
    return {c: next((n for n in now if level_of[n] == level_of[c]), -1) for c in before}


def _counted(trainer: Trainer, cls: int, becomes: Ints, labels: Labels) -> int:
    """The class that a sample counts for: what its own became, one of the same level, or else the finest."""
    if becomes[cls] in labels:
        return int(becomes[cls])
    level_of = trainer.classes.level_of
    return next((c for c in labels if level_of[c] == level_of[cls]), labels[-1])
