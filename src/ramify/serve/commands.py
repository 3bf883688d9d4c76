"""What a served learner is told to do: a sample to learn, an edit of its labels; kept in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch

from ramify.arrays import Pixels
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.edits import VERBS
from ramify.learner.labels import Label, as_pairs
from ramify.learner.samples import as_ids, as_source
from ramify.serve.journal import JournalEntry
from ramify.taxonomy import Taxonomy
from ramify.typed import shown

Pairs = tuple[tuple[int, Label], ...]


@dataclass(frozen=True)
class Taught:
    """An image with its labels, coarsest first. `grows`: labels that the tree lacks are put into it.

    `corrects`: it is trained on until it is answered so.
    """

    pixels: Pixels
    labels: Pairs
    key: str | None = None
    grows: bool = False
    source: str | None = None
    corrects: bool = False

    def check(self, learner: Learner) -> None:
        """Refuse what cannot be learned."""
        as_ids(None if self.key is None else [self.key], 1)
        as_source(self.source)
        tree, told = learner.taxonomy, [dict(self.labels)]
        if tree is None or self.grows:
            as_pairs(told, None, learner._trainer.classes, None)
            if tree is not None:
                grown(tree, self.labels)
            return
        try:
            as_pairs(told, None, learner._trainer.classes, tree)
        except RamifyError as error:
            raise RamifyError(f"{error} (new=1 puts a new label into the tree)") from None

    def entry(self) -> JournalEntry:
        """As the journal keeps it."""
        about = {
            "labels": self.labels,
            "key": self.key,
            "grows": self.grows,
            "source": self.source,
            "corrects": self.corrects,
        }
        return JournalEntry({"do": "learn"} | about, self.pixels.tobytes())

    def carry_out(self, learner: Learner) -> None:
        """Learn."""
        if self.grows and learner.taxonomy is not None:
            learner.taxonomy = grown(learner.taxonomy, self.labels)
        images, told = torch.tensor(self.pixels)[None], [dict(self.labels)]
        teach = learner.correct if self.corrects else learner.partial_fit
        teach(images, told, ids=None if self.key is None else [self.key], source=self.source)


@dataclass(frozen=True)
class Flushed:
    """Nothing more came for a while: train on what still waits for its stream batch to fill."""

    key: None = None

    def check(self, learner: Learner) -> None:
        """It can always be done."""

    def entry(self) -> JournalEntry:
        """As the journal keeps it."""
        return JournalEntry({"do": "flush"})

    def carry_out(self, learner: Learner) -> None:
        """Train."""
        learner.flush()


@dataclass(frozen=True)
class Edited:
    """A change of labels; `what` has its name and its arguments, as `Learner.edit` takes them."""

    what: dict[str, Any]
    key: None = None

    def check(self, learner: Learner) -> None:
        """Refuse what is no edit at all; whether it can be done is seen when its turn comes."""
        if self.what.get("edit") not in (*VERBS, "undo"):
            raise RamifyError(f"no edit {shown(self.what.get('edit'))}; use one of {', '.join(VERBS)}")

    def entry(self) -> JournalEntry:
        """As the journal keeps it."""
        return JournalEntry({"do": "edit", "what": self.what})

    def carry_out(self, learner: Learner) -> dict[str, Any]:
        """Make the change; its entry in the history."""
        arguments = {name: value for name, value in self.what.items() if name != "edit"}
        return learner.edit(self.what["edit"], **arguments)


Command = Taught | Flushed | Edited


def command(entry: JournalEntry, image_size: int) -> Command:
    """What an entry of the journal says."""
    about: dict[str, Any] = entry.about
    if about["do"] == "flush":
        return Flushed()
    if about["do"] == "edit":
        return Edited(about["what"])
    if len(entry.data) != 3 * image_size**2:
        raise RamifyError(
            f"the journal has an image of {len(entry.data)} bytes, and the model's have {3 * image_size**2}: "
            "the journal is another model's; move it away"
        )
    pixels = np.frombuffer(entry.data, np.uint8).reshape(3, image_size, image_size).copy()
    labels = tuple((int(level), label) for level, label in about["labels"])
    return Taught(pixels, labels, about["key"], about["grows"], about["source"], about.get("corrects", False))


def grown(tree: Taxonomy, labels: Sequence[tuple[int, Label]]) -> Taxonomy:
    """The tree with a path, which must begin at level 1 and skip none; as it is where it has the path."""
    path, levels = [str(label) for _, label in labels], [level for level, _ in labels]
    if levels != list(range(1, len(path) + 1)):
        lacks = next(level for level in count(1) if level not in levels)
        raise RamifyError(
            f"{path[-1]!r} (level {levels[-1]}) is to be put into the tree, and nothing says what stands "
            f"above it at level {lacks}; send those labels too"
        )
    rows = [tree.path(leaf) for leaf in range(tree.leaves)]
    if any(list(row[: len(path)]) == path for row in rows):
        return tree
    return Taxonomy.from_rows([*rows, path]).numbered_as(tree)
