"""Teaching a learner from a CSV file that may still grow: path, label and level of one image a row."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ramify.errors import RamifyError
from ramify.learner.folder import ModelFolder
from ramify.learner.images import as_tensor
from ramify.learner.labels import Label, as_labels, as_levels
from ramify.learner.learner import Learner
from ramify.taxonomy.read import read_table, read_text

log = logging.getLogger("ramify")

CHUNK = 64  # rows that are asked, then learned, at a time
ENTRY = 500  # samples in one entry of the accuracy log
POLL = 1.0  # seconds between two looks at a file that may grow


@dataclass(frozen=True)
class Row:
    """One image of a manifest."""

    path: str
    label: str
    level: str  # empty: as the taxonomy says
    line: int

    @property
    def text(self) -> str:
        """What makes the row the same row."""
        return "\x1f".join((self.path, self.label, self.level))


def read_rows(path: Path) -> list[Row]:
    """The rows of a manifest so far; a last line without its end is still being written."""
    text = read_text(path)
    header, rows, lines = read_table(text[: text.rfind("\n") + 1] or text, path.name)
    missing = [column for column in ("path", "label") if column not in header]
    if missing:
        raise RamifyError(
            f"{path.name} line 1: no column {missing[0]}; the columns are path, label and level (with a "
            "taxonomy level may be left out)"
        )
    path_at, label_at = header.index("path"), header.index("label")
    level_at = header.index("level") if "level" in header else None
    return [
        Row(row[path_at], row[label_at], "" if level_at is None else row[level_at], line)
        for row, line in zip(rows, lines, strict=True)
    ]


class Lesson:
    """A learner that is taught from one manifest and knows, also after `Learner.load`, how far it is.

    Each row is asked before it is learned; the share of right answers is the accuracy log. What it needs is
    in `learner.notes["learn"]`, so that it is saved with the learner or not at all.
    """

    def __init__(self, learner: Learner, manifest: Path, images: Path | None = None) -> None:
        self.learner, self.manifest = learner, manifest
        self.images = manifest.parent if images is None else images
        notes = learner.notes.setdefault("learn", {"manifests": [], "log": [], "open": {}})
        self.notes: dict[str, Any] = notes
        self.rows = read_rows(manifest)
        self.place: dict[str, Any] = self._find_place()
        self.learned: int = self.place["rows"]
        self._found_any = False

    def _find_place(self) -> Any:
        """Where in this manifest the learner is: found by the rows that it has learned."""
        places = self.notes["manifests"]
        for place in reversed(places):
            if place["rows"] <= len(self.rows) and place["sha256"] == self._digest(place["rows"]):
                return place
        if any(place["name"] == self.manifest.name for place in places):
            raise RamifyError(
                f"{self.manifest}: rows that were learned already have changed; put them back, or give new "
                "rows in a file of another name"
            )
        return {"name": self.manifest.name, "rows": 0, "sha256": ""}

    def _digest(self, rows: int) -> str:
        return hashlib.sha256("\x1e".join(row.text for row in self.rows[:rows]).encode()).hexdigest()

    def save(self, folder: ModelFolder) -> None:
        """Write the learner with its place in the manifest."""
        folder.check_present()
        if self.learned and self.place not in self.notes["manifests"]:
            self.notes["manifests"].append(self.place)
        self.place |= {"rows": self.learned, "sha256": self._digest(self.learned)}
        self.learner.save(folder.path)

    def refresh(self) -> bool:
        """Read on where the file has grown; whether there is anything left to learn."""
        if self.learned == len(self.rows):
            self.rows = read_rows(self.manifest)
        return self.learned < len(self.rows)

    def step(self) -> None:
        """Ask, then learn the next rows; images that cannot be read are passed over with a warning."""
        part = self.rows[self.learned : self.learned + CHUNK]
        self._refuse_misplaced(part)
        pixels, labels, levels = [], [], []
        for row in part:
            label, level = self._checked(row)
            try:
                pixels.append(as_tensor([self.images / row.path], self.learner.image_size))
            except RamifyError as error:
                log.warning("%s line %d is passed over: %s", self.manifest.name, row.line, error)
                continue
            labels.append(label)
            levels.append(level)
        if pixels:
            images = torch.cat(pixels)
            self._ask(images, labels, levels)
            self.learner.partial_fit(images, labels, levels)
        self.learned += len(part)
        if self._asked() >= ENTRY:
            self.close_entry()

    def _refuse_misplaced(self, part: list[Row]) -> None:
        """Refuse to pass over all of the first rows: the images lie elsewhere."""
        self._found_any = self._found_any or any((self.images / row.path).exists() for row in part)
        if not self._found_any:
            raise RamifyError(
                f"{self.manifest.name} line {part[0].line}: {self.images / part[0].path} is not there, nor "
                f"any of the first {len(part)} images; --images says where the paths begin"
            )

    def _checked(self, row: Row) -> tuple[Label, int]:
        try:
            if row.level and not row.level.isdecimal():
                raise RamifyError(f"level {row.level!r} is not a number from 1")
            labels = as_labels([row.label], self.learner._trainer.classes)
            level = int(row.level[:9]) if row.level else None
            return labels[0], as_levels(level, labels, self.learner.taxonomy)[0]
        except RamifyError as error:
            raise RamifyError(f"{self.manifest.name} line {row.line}: {error}") from None

    def _ask(self, images: torch.Tensor, labels: list[Label], levels: list[int]) -> None:
        """Count right answers among the labels known so far; not of methods that train to be asked."""
        known = [
            h in self.learner.levels and x in self.learner.labels(h)
            for x, h in zip(labels, levels, strict=True)
        ]
        if self.learner._trainer.method.trains_when_asked or not any(known):
            return
        answer = self.learner.predict(images)
        for i, (label, level) in enumerate(zip(labels, levels, strict=True)):
            if known[i]:
                tally = self.notes["open"].setdefault(str(level), [0, 0])
                tally[0] += answer.labels[level][i] == label
                tally[1] += 1

    def _asked(self) -> int:
        return sum(asked for _, asked in self.notes["open"].values())

    def close_entry(self) -> None:
        """End the current entry of the accuracy log, if it has anything."""
        self.notes |= {"log": accuracy_log(self.learner), "open": {}}


def accuracy_log(learner: Learner) -> list[dict[str, Any]]:
    """The entries so far, the last of which may still be open; none where no manifest was learned."""
    notes = learner.notes.get("learn", {"log": [], "open": {}})
    if not notes["open"]:
        return list(notes["log"])
    entry = {
        "samples": learner.samples,
        "accuracy": {level: right / asked for level, (right, asked) in sorted(notes["open"].items())},
        "labels": {str(h): len(learner.labels(h)) for h in learner.levels},
    }
    return [*notes["log"], entry]


def teach(
    lesson: Lesson,
    folder: ModelFolder,
    follow: bool,
    save_every: float,
    stopped: Callable[[], bool],
    show: Callable[[Lesson], None],
) -> None:
    """Teach the whole manifest, and with `follow` what is added to it, until `stopped`; save on the way."""
    saved, unsaved = time.monotonic(), False
    try:
        while not stopped():
            if lesson.refresh():
                lesson.step()
                unsaved = True
                show(lesson)
            elif not follow:
                break
            elif unsaved:  # up to date: a good moment
                saved = float("-inf")
            else:
                time.sleep(POLL)
            if unsaved and time.monotonic() - saved >= save_every:
                lesson.save(folder)
                saved, unsaved = time.monotonic(), False
    finally:
        if not follow:
            lesson.close_entry()
        if lesson.learner.samples:
            lesson.save(folder)
