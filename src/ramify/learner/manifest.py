"""Teaching a learner from a list of labelled images that may still grow."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ramify.arrays import Pixels
from ramify.datasets.decode import BrokenImage, decode_image, quiet_pillow
from ramify.errors import RamifyError
from ramify.learner.folder import ModelFolder
from ramify.learner.labels import Label, as_labels, as_levels, refuse_off_path, with_above
from ramify.learner.learner import Learner
from ramify.learner.rows import ClassFolders, LessonRow, Manifest, RowSource

log = logging.getLogger("ramify")

CHUNK = 64  # rows that are asked, then learned, at a time
ENTRY = 500  # samples in one entry of the accuracy log
POLL = 1.0  # seconds between two looks at a file that may grow, or at images that may come
SORTED = (
    "%s is sorted by label; rows are learned in their order, and what came last is remembered best: shuffle "
    "them, unless they did come so"
)
PATIENCE = 30.0  # seconds after which a row that waits for its image is reported


class Lesson:
    """A learner that is taught from a manifest or a folder and knows, also after `load`, how far it is.

    Each row is asked before it is learned; the share of right answers is the accuracy log. A row whose image
    cannot be read waits: it is tried again, now and at every later start, and learned when it can be. What
    the lesson needs is in `learner.notes["learn"]`, so that it is saved with the learner or not at all.
    """

    def __init__(
        self, learner: Learner, manifest: Path, images: Path | None = None, follow: bool = False
    ) -> None:
        self.learner, self.manifest, self.follow = learner, manifest, follow
        notes = learner.notes.setdefault("learn", {"manifests": [], "log": [], "open": {}})
        self.notes: dict[str, Any] = notes
        self.source: RowSource = (
            ClassFolders(manifest, learner._trainer.rng.seed, learner.taxonomy, notes)
            if manifest.is_dir()
            else Manifest(manifest, images, notes)
        )
        if manifest.is_file() and sorted_by_label(self.rows[self.learned :]):
            log.warning(SORTED, self.source.name)
        self._since = dict.fromkeys(self.waiting, time.monotonic())  # row -> when it was first tried
        self._tried: dict[int, tuple[int, int] | None] = {}  # row -> the file that could not be read
        self._reasons: dict[int, str] = {}
        self._reported: set[int] = set()
        self._found_any = False

    @property
    def rows(self) -> list[LessonRow]:
        """All rows so far."""
        return self.source.rows

    @property
    def learned(self) -> int:
        """How many of them were taken: learned, or found to wait."""
        return self.source.taken

    @property
    def waiting(self) -> list[int]:
        """The numbers of the rows whose image could not be read yet."""
        return self.source.waiting

    def save(self, folder: ModelFolder) -> None:
        """Write the learner with its place in the manifest."""
        folder.check_present()
        self.source.keep()
        self.learner.save(folder.path)

    def refresh(self) -> bool:
        """Read on where there is more; whether there is anything left to learn."""
        if self.learned == len(self.rows):
            self.source.grow()
        return self.learned < len(self.rows)

    def step(self) -> None:
        """Ask, then learn the next rows; those whose images cannot be read wait."""
        numbers = range(self.learned, min(self.learned + CHUNK, len(self.rows)))
        self._refuse_misplaced([self.rows[number] for number in numbers])
        waiting = self._teach(numbers)
        self.waiting.extend(waiting)
        self.source.taken += len(numbers)

    def retry(self) -> bool:
        """Try again the waiting rows whose file has come or changed; whether any was learned."""
        due = [n for n in self.waiting if n not in self._tried or self._stamp(n) != self._tried[n]]
        learned = False
        for start in range(0, len(due), CHUNK):
            part = due[start : start + CHUNK]
            done = set(part) - set(self._teach(part))
            self.waiting[:] = [n for n in self.waiting if n not in done]
            learned = learned or bool(done)
        return learned

    def report(self, patience: float = 0.0) -> None:
        """Warn, once a row, of those that have been waiting for longer than `patience` seconds."""
        for n in self.waiting:
            if n not in self._reported and time.monotonic() - self._since[n] >= patience:
                self._reported.add(n)
                told = "%s is passed over: %s; it is learned when it can be read, also at a later start"
                log.warning(told, self.rows[n].where, self._reasons.get(n, "its image cannot be read"))
        found_none = bool(self.waiting) and len(self.waiting) == self.learned
        if patience and found_none and time.monotonic() - self._since[self.waiting[0]] >= patience:
            self._refuse_misplaced([self.rows[n] for n in self.waiting[:CHUNK]], now=True)

    def _teach(self, numbers: Sequence[int]) -> list[int]:
        """Ask about rows and learn them; returns those whose image cannot be read."""
        labels = {n: self._checked(self.rows[n]) for n in numbers}  # refused before anything is learned
        pixels: dict[int, Pixels] = {}
        for n in numbers:
            self._tried[n] = self._stamp(n)
            try:
                with quiet_pillow():
                    pixels[n] = decode_image(self._path(n), self.learner.image_size)
            except BrokenImage as reason:
                self._reasons[n] = f"{self._path(n)} cannot be used: {reason}"
                self._since.setdefault(n, time.monotonic())
        if pixels:
            images, told = torch.from_numpy(np.stack(list(pixels.values()))), [labels[n] for n in pixels]
            self._found_any = True
            before = self.learner.samples
            ids = [self.rows[n].path for n in pixels]
            self.learner.partial_fit(images, told, ids=ids, source=self.source.name)
            self._tally(before)
            self.source.learned([self.rows[n] for n in pixels])
            if self._asked() >= ENTRY:
                self.close_entry()
        return [n for n in numbers if n not in pixels]

    def _path(self, number: int) -> Path:
        return self.source.images / self.rows[number].path

    def _stamp(self, number: int) -> tuple[int, int] | None:
        try:
            status = self._path(number).stat()
        except (OSError, ValueError):
            return None
        return status.st_size, status.st_mtime_ns

    def _refuse_misplaced(self, part: list[LessonRow], now: bool = False) -> None:
        """Refuse to pass over all of the first rows: the images lie elsewhere. Who follows waits a while."""
        images = self.source.images
        self._found_any = self._found_any or any((images / row.path).exists() for row in part)
        if part and not self._found_any and (now or not self.follow):
            raise RamifyError(
                f"{part[0].where}: {images / part[0].path} is not there, nor any of the first {len(part)} "
                "images; --images says where the paths begin"
            )

    def _checked(self, row: LessonRow) -> dict[int, Label]:
        """The labels of a row by level."""
        found: dict[int, Label] = {}
        try:
            for text, label in row.labels:
                if text and not text.isdecimal():
                    raise RamifyError(f"level {text!r} is not a number from 1")
                if not text and self.learner.taxonomy is None:
                    raise RamifyError(
                        "level is missing; fill in the column level (1: coarsest), or --taxonomy"
                    )
                labels = as_labels([label], self.learner._trainer.classes)
                level = int(text[:9]) if text else None
                found[as_levels(level, labels, self.learner.taxonomy)[0]] = labels[0]
            if self.learner.taxonomy is not None:
                refuse_off_path(sorted(found.items(), reverse=True), self.learner.taxonomy)
        except RamifyError as error:
            file = "" if row.where.endswith(row.path) else f" ({row.path})"
            raise RamifyError(f"{row.where}{file}: {error}") from None
        return with_above(found, self.learner.taxonomy)

    def _tally(self, before: int) -> None:
        """Count right answers to the samples from `before` on, as the prequential log has them."""
        trainer = self.learner._trainer
        for level in trainer.classes.levels:
            right = trainer.log.entries(trainer.classes, level, before).right
            if len(right):
                tally = self.notes["open"].setdefault(str(level), [0, 0])
                tally[0] += int(right.sum())
                tally[1] += len(right)

    def _asked(self) -> int:
        return sum(asked for _, asked in self.notes["open"].values())

    def close_entry(self) -> None:
        """End the current entry of the accuracy log, if it has anything."""
        self.notes |= {"log": accuracy_log(self.learner), "open": {}}


def sorted_by_label(rows: Sequence[LessonRow]) -> bool:
    """Whether all rows of a label follow each other, for several labels with many rows each."""
    parts = [labels for labels, _ in groupby(row.labels for row in rows)]
    return len(parts) == len(set(parts)) and len(parts) > 2 and len(rows) >= 8 * len(parts)


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
    """Teach the whole manifest, and with `follow` what is added to it, until `stopped`; save on the way.

    Rows whose image is not there yet are tried again at the start, each `POLL` seconds, and at the end.
    """
    saved, unsaved, tried = time.monotonic(), False, float("-inf")
    try:
        while not stopped():
            more = lesson.refresh()
            if time.monotonic() - tried >= POLL or not (more or follow):
                unsaved = lesson.retry() or unsaved
                tried = time.monotonic()
                lesson.report(PATIENCE)
            if more:
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
        if unsaved:
            _find_tree(lesson.learner)
    finally:
        lesson.report()
        if not follow:
            lesson.close_entry()
        if lesson.learner.samples:
            lesson.save(folder)


def _find_tree(learner: Learner) -> None:
    """Find the tree now, so that the model's card shows it and who asks the model need not wait for it."""
    if learner.taxonomy is None and learner.levels and not learner._trainer.method.trains_when_asked:
        learner.hierarchy()
