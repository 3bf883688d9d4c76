"""What a lesson is read from: a CSV file or a folder of class folders, either of which may still grow."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ramify.datasets.listing import image_files
from ramify.datasets.load import loosely, plain
from ramify.datasets.splits import PARTS
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy
from ramify.taxonomy.read import read_table, read_text

LevelLabels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LessonRow:
    """One image with its labels, (level, label) each; an empty level is the one that the taxonomy says."""

    path: str
    labels: LevelLabels
    where: str  # for errors

    @property
    def text(self) -> str:
        """What makes the row the same row."""
        return "\x1f".join((self.path, *(word for level, label in self.labels for word in (label, level))))


class RowSource(Protocol):
    """Rows in the order of learning. Those before `taken` were tried; `waiting` are the ones that failed."""

    name: str
    images: Path
    rows: list[LessonRow]
    taken: int
    waiting: list[int]

    def grow(self) -> None:
        """Read on."""

    def learned(self, rows: list[LessonRow]) -> None:
        """These rows were learned just now."""

    def keep(self) -> None:
        """Write into the notes what the next start must know."""


def read_manifest(path: Path) -> list[LessonRow]:
    """The rows of a manifest so far; a last line without its end is still being written."""
    return _rows_in(read_text(path), path)


def _rows_in(text: str, path: Path) -> list[LessonRow]:
    header, rows, lines = read_table(text[: text.rfind("\n") + 1] or text, path.name)
    labels = _label_columns(header, path.name)
    at = header.index("path")
    return [
        LessonRow(row[at], labels(row, f"{path.name} line {line}"), f"{path.name} line {line}")
        for row, line in zip(rows, lines, strict=True)
    ]


def _label_columns(header: list[str], name: str) -> Callable[[list[str], str], LevelLabels]:
    """How the labels of a row are told: `label` and `level`, or a column for each level."""
    levels = {header.index(column): column[5:] for column in header if re.fullmatch(r"level\d+", column)}
    if "path" not in header or not (levels or "label" in header):
        raise RamifyError(
            f"{name} line 1: no column {'path' if 'path' not in header else 'label'}; the columns are path, "
            "label and level (with a taxonomy level may be left out), or path, level1, level2, …"
        )
    if "label" in header:
        label, level = header.index("label"), header.index("level") if "level" in header else None
        return lambda row, where: (("" if level is None else row[level], row[label]),)

    def several(row: list[str], where: str) -> LevelLabels:
        found = tuple((level, row[at]) for at, level in levels.items() if row[at])
        if not found:
            raise RamifyError(f"{where}: no label at any level; fill one in, or remove the row")
        return found

    return several


class Manifest:
    """A CSV file, known by the rows that were learned of it and by where it lies, not by its name."""

    def __init__(self, path: Path, images: Path | None, notes: dict[str, Any]) -> None:
        self.path, self.name, self.notes = path, path.name, notes
        self.images = path.parent if images is None else images
        self.rows = read_manifest(path)
        self.place = self._find_place()
        self.taken: int = self.place["rows"]
        self.waiting: list[int] = list(self.place.get("waiting", ()))

    def _find_place(self) -> dict[str, Any]:
        """Where in this manifest the learner is: found by the rows that it has learned."""
        places, at = self.notes["manifests"], _digest(str(self.path.resolve()))
        fitting = [
            place
            for place in places
            if place["rows"] <= len(self.rows) and place["sha256"] == self._of_first(place["rows"])
        ]
        if fitting:
            found: dict[str, Any] = max(fitting, key=lambda place: (place["rows"], place.get("at") == at))
            return found
        if any(place.get("at") == at for place in places):
            raise self._changed()
        return {"path": str(self.path), "at": at, "rows": 0, "sha256": ""}

    def _changed(self) -> RamifyError:
        return RamifyError(
            f"{self.path}: rows that were learned already have changed; put them back, or give new rows in "
            "another file"
        )

    def _of_first(self, rows: int) -> str:
        """A digest of so many rows."""
        return _digest("\x1e".join(row.text for row in self.rows[:rows]))

    def grow(self) -> None:
        """Read on where the file has grown; rows that were learned must still be there."""
        text = read_text(self.path)
        rows = _rows_in(text, self.path) if text else []
        if len(rows) < len(self.rows):  # it is being written anew
            return
        if any(a.text != b.text for a, b in zip(rows, self.rows[: self.taken], strict=False)):
            raise self._changed()
        self.rows = rows

    def learned(self, rows: list[LessonRow]) -> None:
        """The place says it all."""

    def keep(self) -> None:
        """Its place among the others."""
        if self.taken and self.place not in self.notes["manifests"]:
            self.notes["manifests"].append(self.place)
        self.place |= {
            "rows": self.taken,
            "sha256": self._of_first(self.taken),
            "waiting": list(self.waiting),
        }


class ClassFolders:
    """Class folders, nested as the levels are; with a tree, names stand at its levels, below their parents.

    Names that differ from the tree's in nothing but case and punctuation are the tree's, as in a dataset.

    The order is that of a digest of seed and path: as good as random, and the same after an interruption.
    What comes later is learned later. An image is known by its path within the folder and its size in bytes.
    """

    def __init__(self, path: Path, seed: int, tree: Taxonomy | None, notes: dict[str, Any]) -> None:
        self.name, self.images, self.notes = path.name or str(path), path, notes
        self.seed, self.tree = seed, tree
        leaves = [] if tree is None else [tree.path(leaf) for leaf in range(tree.leaves)]
        self._paths = {path[:level] for path in leaves for level in range(1, len(path) + 1)}
        self._named: dict[str, list[tuple[str, ...]]] = {}  # name -> where it stands in the tree
        for place in self._paths:
            self._named.setdefault(place[-1], []).append(place)
        self._bare = loosely(self._named)
        self._above: dict[tuple[int, str], tuple[str, ...]] = {}  # without a tree: where a name stands
        self.known: set[str] = set(notes.setdefault("files", []))
        self.rows: list[LessonRow] = []
        self._listed: set[str] = set()
        self.taken, self.waiting = 0, list[int]()
        self.grow()
        if not self._listed and not self.known:
            raise RamifyError(f"{path} holds no images: expected class folders with .jpg, .png, … files")

    def grow(self) -> None:
        """Add the images that were not there before."""
        files = list(image_files(self.images))
        parts = any(PARTS.get(names[0].lower()) == "train" for names in files)
        if parts:
            files = [names for names in files if PARTS.get(names[0].lower()) == "train"]
        fresh = [names for names in files if "/".join(names) not in self._listed]
        self._listed |= {"/".join(names) for names in fresh}
        rows = [self._row(names, names[parts:-1]) for names in fresh]
        rows = [row for row in rows if self._key(row) not in self.known]
        self.rows += sorted(rows, key=lambda row: _digest(f"{self.seed}\x1f{row.path}"))

    def _row(self, names: tuple[str, ...], classes: tuple[str, ...]) -> LessonRow:
        path = "/".join(names)
        if not classes:
            raise RamifyError(f"{self.images / path} lies in no class folder: move it into one")
        classes = self._whole(classes)
        if self.tree is None:
            self._refuse_two_parents(classes)
        told = self.tree is None or len(classes) == self.tree.depth or classes in self._paths
        levels = tuple((str(level) if told else "", name) for level, name in enumerate(classes, 1))
        return LessonRow(path, levels, str(self.images / path))

    def _refuse_two_parents(self, classes: tuple[str, ...]) -> None:
        for level, name in enumerate(classes, 1):
            known = self._above.setdefault((level, name), classes[: level - 1])
            if known != classes[: level - 1]:
                raise RamifyError(
                    f"{self.images}: {name!r} at level {level} has two parents, {'/'.join(known)!r} and "
                    f"{'/'.join(classes[: level - 1])!r}; a name stands once within a level: rename one of "
                    "the folders, or give a taxonomy"
                )

    def _whole(self, classes: tuple[str, ...]) -> tuple[str, ...]:
        """The path in the tree that these folders are a part of, where there is just one."""
        classes = tuple(
            name if name in self._named else self._bare.get(plain(name), name) for name in classes
        )
        places = self._named.get(classes[-1], [])
        if classes in self._paths or len(places) != 1:
            return classes
        above = iter(places[0])
        return places[0] if all(name in above for name in classes) else classes

    def _key(self, row: LessonRow) -> str:
        try:
            size = (self.images / row.path).stat().st_size
        except OSError:
            size = -1
        return _digest(f"{row.path}\x1f{size}")[:16]

    def learned(self, rows: list[LessonRow]) -> None:
        """They are known from now on."""
        self.known |= {self._key(row) for row in rows}

    def keep(self) -> None:
        """What is waiting is not among the known, so the next start tries it again."""
        self.notes["files"] = sorted(self.known)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
