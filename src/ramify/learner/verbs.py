"""The ways to change a learner's labels, each as one edit of what it keeps. Those who call hold the turn."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ramify.errors import RamifyError
from ramify.learner.labels import Label, as_labels, as_levels, as_pairs
from ramify.learner.refit import answers, carry_over
from ramify.learner.relabel import Edit, Labels, apply, stored
from ramify.taxonomy import Taxonomy
from ramify.taxonomy import edit as trees
from ramify.typed import shown

LEAST = 1e-3  # share of a label with which another begins

if TYPE_CHECKING:
    from ramify.learner.edits import Editable


@dataclass(frozen=True)
class Done:
    """What was done, for the history; which class stands in for each that has ended, and for each new one."""

    told: dict[str, Any]
    instead: Mapping[int, int] = field(default_factory=dict)
    begun: Mapping[int, int] = field(default_factory=dict)


def rename(learner: Editable, level: int | None, label: Label, new: Label) -> Done:
    """Give a label another name."""
    told, level = level, find_level(learner, level, label)
    new = as_label(learner, new)
    elsewhere = [h for h in _levels(learner) if h != level and known(learner, h, new)]
    if told is None and elsewhere:
        raise RamifyError(
            f"{new!r} is a label of level {elsewhere[0]}, and {label!r} of {level}; choose another name, or "
            f"say level {level} to have it at both"
        )
    if known(learner, level, new):
        way = (
            "choose another name" if new == label else f"merge the two: merge({level}, [{label!r}, {new!r}])"
        )
        raise RamifyError(f"{new!r} is a label of level {level} already; {way}")
    cls = learner._trainer.classes.find(level, label)
    if cls is not None:
        learner._trainer.classes.rename(cls, new)
    _change_tree(learner, lambda tree: trees.renamed(tree, level, str(label), str(new)))
    return Done({"level": level, "label": label, "new": new})


def merge(learner: Editable, level: int | None, labels: Sequence[Label], into: Label | None) -> Done:
    """Make labels of one level one."""
    if isinstance(labels, str) or not isinstance(labels, Iterable) or not list(labels):
        raise RamifyError(f"labels is {shown(labels)}; give two or more labels of one level")
    labels = list(dict.fromkeys(labels))
    level = find_level(learner, level, labels[0])
    for label in labels[1:]:
        find_level(learner, level, label)
    into = labels[0] if into is None else as_label(learner, into)
    ours = [into, *labels] if known(learner, level, into) else labels
    ours = list(dict.fromkeys(ours))
    if len(ours) < 2:
        raise RamifyError(f"only {ours[0]!r} was given; merge needs two or more labels of level {level}")
    classes = learner._trainer.classes
    numbers = sorted(c for c in (classes.find(level, label) for label in ours) if c is not None)
    ended = dict.fromkeys(numbers[1:], numbers[0]) if numbers else {}
    said = answers(learner._trainer, level, np.array(numbers)) if ended else []
    apply(learner._trainer, Edit(ended))
    carry_over(learner._trainer, said, level, {c: {numbers[0]: 1.0} for c in numbers})
    if numbers and classes.labels[numbers[0]] != into:
        classes.rename(numbers[0], into)
    _change_tree(learner, lambda tree: trees.merged(tree, level, list(map(str, ours)), str(into)))
    _follow_tree(learner, level, into)
    union = numbers[0] if numbers else -1
    held = sum(union in own for _, own in stored(learner._trainer))
    return Done({"level": level, "labels": labels, "into": into, "stored": held}, ended)


def split(
    learner: Editable,
    level: int | None,
    label: Label,
    into: Mapping[Label, Any] | Callable[[Any], Label | None],
) -> Done:
    """Give some of a label's stored samples new labels beside it; it ends where none of them keeps it."""
    level = find_level(learner, level, label)
    trainer = learner._trainer
    cls = trainer.classes.find(level, label)
    if cls is None:
        raise RamifyError(
            f"{label!r} has not been learned, so there is nothing to split; put the new labels into the "
            "taxonomy"
        )
    own = {number: labels for number, labels in stored(trainer) if cls in labels and number >= 0}
    given = _assigned(learner, label, own, into)
    said = answers(trainer, level, np.array([cls]))
    shares = {name: len(numbers) / len(own) for name, numbers in given.items()}
    left = 1 - sum(shares.values())
    ends = left < 1e-9 and not _has_below(learner._taxonomy, level, str(label))
    met = len(trainer.classes)
    begun = {_begun(learner, level, name, cls, shares[name]): name for name in given}
    fresh = {new: cls for new in begun if new >= met}
    mine = {number: new for new, name in begun.items() for number in given[name]}
    if not ends:
        trainer.model.heads.copy(cls, cls, max(left, LEAST))
        trainer.classes.seen[cls] = max(1, round(trainer.classes.seen[cls] * left))
    samples = {n: tuple(new if c == cls else c for c in own[n]) for n, new in mine.items()}
    apply(trainer, Edit({cls: -1} if ends else {}, samples))
    parts = {new: shares[name] for new, name in begun.items()} | ({} if ends else {cls: left})
    carry_over(trainer, said, level, {cls: parts}, dict.fromkeys(own, -1 if ends else cls) | mine)
    if ends:
        _change_tree(learner, lambda tree: trees.removed(tree, level, str(label)))
    told = {"level": level, "label": label, "into": {name: len(n) for name, n in given.items()}, "ends": ends}
    return Done(told, {cls: next(iter(fresh), -1)} if ends else {}, fresh)


def _begun(learner: Editable, level: int, name: Label, cls: int, share: float) -> int:
    """A class that begins as a share of another one, unless it is known; its number."""
    trainer = learner._trainer
    there = trainer.classes.find(level, name)
    if there is not None:
        return there
    new = trainer.meet(level, name)
    trainer.model.heads.copy(cls, new, share)
    trainer.classes.first_seen[new] = trainer.classes.first_seen[cls]
    trainer.classes.seen[new] = max(1, round(trainer.classes.seen[cls] * share))
    beside = str(learner._trainer.classes.labels[cls])
    _change_tree(learner, partial(_joined, level=level, name=str(name), beside=beside))
    return new


def move(learner: Editable, level: int | None, label: Label, parent: Label) -> Done:
    """Give a label another parent in the taxonomy."""
    level = find_level(learner, level, label)
    if learner._taxonomy is None:
        raise RamifyError(
            "this learner was given no taxonomy: it finds parents in its own answers, so there is nothing "
            "to move; give it one first (learner.taxonomy = …, `ramify learn --taxonomy`)"
        )
    before = trees.ancestry(learner._taxonomy, level, str(label))
    _change_tree(learner, lambda tree: trees.moved(tree, level, str(label), str(parent)))
    if trees.ancestry(learner._taxonomy, level, str(label)) == before:
        raise RamifyError(f"{label!r} stands under {parent!r} already; name another parent")
    _follow_tree(learner, level, label)
    return Done({"level": level, "label": label, "parent": parent, "from": before[-2]})


def forget(learner: Editable, level: int | None, labels: Any) -> Done:
    """Drop labels, with the stored samples that have no other."""
    names = [labels] if isinstance(labels, str | int) or not isinstance(labels, Iterable) else list(labels)
    if not names:
        raise RamifyError("no labels were given; name one or more")
    level = find_level(learner, level, names[0])
    gone = {}
    for name in names:
        find_level(learner, level, name)
        gone[name] = learner._trainer.classes.find(level, name)
        _change_tree(learner, partial(trees.removed, level=level, name=str(name)))
    ended = {c: -1 for c in gone.values() if c is not None}
    apply(learner._trainer, Edit(ended))
    return Done({"level": level, "label": names}, ended)


def relabel(learner: Editable, samples: Any, label: Any, level: int | None) -> Done:
    """Give stored samples the label that they should have had."""
    trainer, tree = learner._trainer, learner._taxonomy
    found = learner._names.find(trainer, samples)
    whole = isinstance(label, Mapping | tuple | list)
    if level is None and not whole and label is not None:
        level = find_level(learner, None, label)
    (pairs,) = as_pairs([label], level, trainer.classes, tree)
    if not pairs:
        raise RamifyError("no label was given; to take samples out, forget them")
    new = {h: trainer.meet(h, name) for h, name in pairs}
    edits: dict[int, Labels] = {}
    for number, labels in found.items():
        by_level = {} if whole else {int(trainer.classes.level_of[c]): c for c in labels}
        edits[number] = _as_labels(_in_tree(learner, by_level | new, max(new)))
        _count_again(learner, labels, edits[number])
    apply(trainer, Edit(samples=edits))
    return Done({"numbers": sorted(found), "labels": {str(h): name for h, name in sorted(pairs)}})


def forget_samples(learner: Editable, samples: Any) -> Done:
    """Take samples out."""
    gone = sorted(learner._names.find(learner._trainer, samples))
    _take_out(learner, gone)
    return Done({"numbers": gone})


def forget_source(learner: Editable, source: str) -> Done:
    """Take all samples of one source out."""
    _take_out(learner, learner._names.of_source(learner._trainer, source))
    return Done({"source": source})


# ---- what the verbs share


def known(learner: Editable, level: int, label: Label) -> bool:
    """Whether a label has been learned at a level, or stands there in the tree."""
    tree = learner._taxonomy
    in_tree = tree is not None and level <= tree.depth and str(label) in tree.names(level)
    return in_tree or learner._trainer.classes.find(level, label) is not None


def as_label(learner: Editable, label: Any) -> Label:
    """A label that may be new."""
    return as_labels([label], learner._trainer.classes)[0]


def find_level(learner: Editable, level: int | None, label: Any) -> int:
    """The level of a label that is known; given, or the only one at which it stands."""
    label = as_label(learner, label)
    classes = learner._trainer.classes
    if level is not None:
        (level,) = as_levels(level, [label], None)
        if known(learner, level, label):
            return level
    found = [h for h in _levels(learner) if known(learner, h, label)]
    if level is None and len(found) == 1:
        return found[0]
    if found:
        where = " and ".join(map(str, found))
        told = f"{label!r} is a label of level {where}"
        raise RamifyError(f"{told}; say which with level=" if level is None else f"{told}, not of {level}")
    names = [str(name) for _, h, name in classes if level in (None, h)]
    near = difflib.get_close_matches(str(label), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`ramify describe` lists the labels"
    raise RamifyError(f"no label {label!r}{'' if level is None else f' at level {level}'}; {hint}")


def _levels(learner: Editable) -> range:
    """All levels of the tree and of what was learned."""
    tree = learner._taxonomy
    return range(1, 1 + max([*learner._trainer.classes.levels, 0 if tree is None else tree.depth]))


def _take_out(learner: Editable, numbers: Iterable[int]) -> None:
    apply(learner._trainer, Edit(samples=dict.fromkeys(numbers, ())))
    learner._names.prune(learner._trainer)


def _change_tree(learner: Editable, change: Callable[[Taxonomy], Taxonomy]) -> None:
    if learner._taxonomy is not None:
        learner._taxonomy = change(learner._taxonomy)


def _joined(tree: Taxonomy, level: int, name: str, beside: str) -> Taxonomy:
    return tree if name in tree.names(level) else trees.joined(tree, level, name, beside)


def _has_below(tree: Taxonomy | None, level: int, name: str) -> bool:
    if tree is None or level >= tree.depth or name not in tree.names(level):
        return False
    return bool(len(tree.children(level, tree.index(level, name))))


def _assigned(
    learner: Editable, label: Label, own: Mapping[int, Labels], into: Any
) -> dict[Label, list[int]]:
    """The numbers of the stored samples that each new label gets."""
    if not own:
        raise RamifyError("no sample of this label is stored, so none can be given a new label; teach some")
    if callable(into):
        given: dict[Label, list[int]] = {}
        for number in own:
            name = into(learner.stored_image(number))
            if name is not None:
                given.setdefault(as_label(learner, name), []).append(number)
    elif isinstance(into, Mapping):
        named = {
            as_label(learner, name): learner._names.find(learner._trainer, s) for name, s in into.items()
        }
        given = {name: list(found) for name, found in named.items()}
    else:
        raise RamifyError(f"into is {shown(into)}; give a table {{new label: [samples]}} or a function")
    every = [number for numbers in given.values() for number in numbers]
    if len(set(every)) < len(every):
        raise RamifyError("a sample was given two new labels; give it one")
    for number in every:
        if number not in own:
            raise RamifyError(f"sample {number} does not have the label that is split; leave it out")
    found = {name: numbers for name, numbers in given.items() if numbers and name != label}
    if not found:
        raise RamifyError(f"no sample was given another label than {label!r}; name some of those stored")
    return found


def _in_tree(learner: Editable, by_level: dict[int, int], level: int) -> dict[int, int]:
    """Classes by level that agree with the one at `level`: its ancestors above, below none of another."""
    tree, classes = learner._taxonomy, learner._trainer.classes
    if tree is None:
        return by_level
    path = trees.ancestry(tree, level, str(classes.labels[by_level[level]]))
    found = {}
    for h, cls in by_level.items():
        if h < level:
            named = _as_known(learner, path[h - 1])
            found[h] = learner._trainer.meet(h, named)
        elif h == level or trees.ancestry(tree, h, str(classes.labels[cls]))[:level] == path:
            found[h] = cls
    return found


def _as_known(learner: Editable, name: str) -> Label:
    """A name of the tree as the learner's labels are: texts or whole numbers."""
    kind = next((type(label) for _, _, label in learner._trainer.classes), str)
    return kind(name)


def _follow_tree(learner: Editable, level: int, label: Label) -> None:
    """Let stored samples below a label that was moved have the ancestors that it has now."""
    tree, trainer = learner._taxonomy, learner._trainer
    if tree is None:
        return
    edits = {}
    for number, labels in list(stored(trainer)):
        levels = {int(trainer.classes.level_of[c]): c for c in labels}
        if number < 0 or len(levels) < 2 or max(levels) < level:
            continue
        finest = max(levels)
        path = trees.ancestry(tree, finest, str(trainer.classes.labels[levels[finest]]))
        if path[level - 1] == str(label):
            now = _as_labels(_in_tree(learner, levels, finest))
            if now != labels:
                edits[number] = now
                _count_again(learner, labels, now)
    if edits:
        apply(trainer, Edit(samples=edits))


def _as_labels(by_level: Mapping[int, int]) -> Labels:
    return tuple(by_level[h] for h in sorted(by_level))


def _count_again(learner: Editable, before: Labels, now: Labels) -> None:
    """Let the counts of samples seen be what they would be had the labels been right."""
    seen = learner._trainer.classes.seen
    seen[list(before)] = np.maximum(seen[list(before)] - 1, 0)
    seen[list(now)] += 1
