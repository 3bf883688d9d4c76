"""The thread that teaches a served learner, in the order of its journal, and saves it."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.folder import ModelFolder
from ramify.learner.replica import Replica
from ramify.plural import counted
from ramify.serve.commands import Command, Edited, Flushed, Taught, command
from ramify.serve.journal import Journal

log = logging.getLogger("ramify")

FRESH = 0.25  # seconds after which answers come from a newer model
SHARE = 0.1  # of the time may go into that
KEYS = 10_000  # keys of samples that are remembered, so that one sent again is not learned again
FOLDER = "journal"


class Full(RamifyError):
    """The queue has no room now."""


class TeachingStopped(RamifyError):
    """Nothing more can be learned; answers go on."""


@dataclass(frozen=True)
class Receipt:
    """What is told of an accepted command: its number in the journal, and how many come before it."""

    number: int
    ahead: int
    again: bool = False
    """Whether its key was known: it is not learned once more."""


@dataclass(eq=False)
class Accepted:
    """A command on its way through the journal, and who waits for news of it."""

    what: Command
    receipt: Future[Receipt]
    done: Future[Any]


class Teaching:
    """Takes commands, writes them to the journal, and carries them out one after the other.

    `accept` may be called from any thread; it is answered when the command is on the disk. The model's notes
    hold the number of the last command that was carried out, so that model and number are saved together or
    not at all: after a kill the journal's later commands are carried out, each once. What is learned depends
    on the journal alone, to the bit, not on when the model was asked, saved or killed.
    """

    def __init__(
        self,
        learner: Learner,
        folder: ModelFolder,
        most: int = 1000,
        save_every: float = 60.0,
        idle: float | None = 1.0,
    ) -> None:
        """`idle`: seconds without a sample after which those that wait for their batch are trained on."""
        self.learner, self.folder, self.most = learner, folder, most
        self.save_every, self.idle = save_every, idle
        self.notes: dict[str, Any] = learner.notes.setdefault("serve", {"number": 0, "keys": {}})
        self.journal = Journal(folder.path / FOLDER, self.notes["number"])
        self._keys: dict[str, int] = dict(self.notes["keys"])
        self._queue: deque[tuple[int, Command, Future[Any]]] = deque()
        for number, entry in self.journal.read(self.notes["number"]):
            what = command(entry, learner.image_size)
            self._queue.append((number, what, Future()))
            self._remember(self._keys, what.key, number)
        self.replica = Replica(learner)
        self.learned = self.refused = 0
        self.revision = self.shown = 0
        """Commands carried out since the start, and those of them that answers know of."""
        self.failed: str | None = None
        self.saved_at: float | None = None
        self.save_error: str | None = None
        self._arriving: list[Accepted] = []
        self._changed = threading.Condition()
        self._closing = False
        self._unsaved = self._stale = self._edited = False
        self._unflushed = any(isinstance(what, Taught) for _, what, _ in self._queue)
        self._threads = [threading.Thread(target=run, name=run.__name__) for run in (self._write, self._work)]

    def start(self) -> None:
        """Begin."""
        self._saved = self._refreshed = self._worked = monotonic()
        self._took = 0.0
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many commands are not carried out yet."""
        return len(self._queue) + len(self._arriving)

    def accept(self, what: Command) -> tuple[Future[Receipt], Future[Any]]:
        """The receipt, when the command is on the disk, and what came of it, when it was carried out."""
        what.check(self.replica.now)
        accepted = Accepted(what, Future(), Future())
        with self._changed:
            if self.failed is not None or self._closing:
                raise TeachingStopped(self.failed or "the server is ending; send it again later")
            known = what.key and self._keys.get(what.key)
            if known:
                accepted.receipt.set_result(Receipt(known, self._ahead(known), again=True))
                return accepted.receipt, accepted.done
            if self.waiting >= self.most:
                waits = counted(self.waiting, "sample")
                raise Full(f"{waits} in the queue, as many as may wait to be learned; send it again later")
            self._arriving.append(accepted)
            self._changed.notify_all()
        return accepted.receipt, accepted.done

    def close(self) -> None:
        """Stop after the command under way, and save; what still waits is carried out at the next start."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self.journal.close()
        if self._unsaved and self.failed is None:
            self._save()
        if self.save_error is not None:
            raise RamifyError(self.save_error)

    def _ahead(self, number: int) -> int:
        return sum(waiting[0] < number for waiting in self._queue)

    # ---- the thread that writes the journal

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._arriving or self._closing)
                arrived = list(self._arriving)
                if not arrived:
                    return
            fresh = self._not_twice(arrived)
            try:
                numbers = self.journal.append([accepted.what.entry() for accepted in fresh]) if fresh else []
            except Exception as error:
                log.warning("%s", error)
                told = error if isinstance(error, RamifyError) else RamifyError(f"the journal: {error}")
                numbers = None
            with self._changed:
                del self._arriving[: len(arrived)]
                for accepted, number in zip(fresh, numbers or [], strict=False):
                    ahead = len(self._queue)
                    self._queue.append((number, accepted.what, accepted.done))
                    self._remember(self._keys, accepted.what.key, number)
                    accepted.receipt.set_result(Receipt(number, ahead))
                for accepted in arrived:
                    if accepted.receipt.done():
                        continue
                    if numbers is None:
                        accepted.receipt.set_exception(told)
                    else:  # the same key came twice at once
                        number = self._keys[accepted.what.key or ""]
                        accepted.receipt.set_result(Receipt(number, self._ahead(number), again=True))
                self._changed.notify_all()

    def _not_twice(self, arrived: list[Accepted]) -> list[Accepted]:
        keys: set[str] = set()
        fresh = []
        for accepted in arrived:
            key = accepted.what.key
            if key is None or (key not in keys and key not in self._keys):
                fresh.append(accepted)
                keys.add(key or "")
        return fresh

    @staticmethod
    def _remember(keys: dict[str, int], key: str | None, number: int) -> None:
        if key is not None:
            keys[key] = number
            while len(keys) > KEYS:
                del keys[next(iter(keys))]

    # ---- the thread that learns

    def _work(self) -> None:
        if sys.platform == "linux":  # where threads have priorities of their own: answers come first
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        try:
            while not self._closing:
                with self._changed:
                    self._changed.wait_for(lambda: self._queue or self._closing, timeout=self._patience())
                    head = self._queue[0] if self._queue and not self._closing else None
                if head is not None:
                    self._carry_out(*head)
                elif self._unflushed and self.idle is not None and self._resting() >= self.idle:
                    self._unflushed = False
                    self._order(Flushed())
                now = monotonic()
                if self._stale and (
                    not self._queue or now - self._refreshed > max(FRESH, self._took / SHARE)
                ):
                    self._refresh()
                if self._unsaved and now - self._saved >= self.save_every:
                    self._save()
        except BaseException as error:
            self.failed = f"learning has stopped ({type(error).__name__}: {error}); see the log, then restart"
            log.exception("learning has stopped")

    def _patience(self) -> float | None:
        """Seconds until something is due although nothing comes."""
        due = [self._saved + self.save_every - monotonic()] if self._unsaved else []
        if self._unflushed and self.idle is not None:
            due.append(self.idle - self._resting())
        return max(0.0, min(due)) if due else None

    def _resting(self) -> float:
        return monotonic() - self._worked

    def _order(self, what: Command) -> None:
        """A command of its own, which takes its place in the journal like all others."""
        with self._changed:
            self._arriving.append(Accepted(what, Future(), Future()))
            self._changed.notify_all()

    def _carry_out(self, number: int, what: Command, done: Future[Any]) -> None:
        """One command. One that cannot be carried out is passed over, as it would be after a restart."""
        try:
            result, problem = what.carry_out(self.learner), None
            self.learned += 1
        except RamifyError as error:
            result, problem = None, error
            self.refused += 1
            log.warning("number %d of the journal was not carried out: %s", number, error)
        self._worked = monotonic()
        self._unflushed = isinstance(what, Taught) or (self._unflushed and not isinstance(what, Flushed))
        self._edited = self._edited or isinstance(what, Edited)
        self.revision += 1
        self.notes["number"] = number
        self._remember(self.notes["keys"], what.key, number)
        self._unsaved = self._stale = True
        with self._changed:
            self._queue.popleft()
        if self._edited:  # who waits for it sees it at once
            self._refresh()
        if problem is not None:
            done.set_exception(problem)
        else:
            done.set_result(result)

    def _refresh(self) -> None:
        start = monotonic()
        self.replica.refresh(self._edited)
        self._refreshed, self._stale, self._edited = monotonic(), False, False
        self.shown = self.revision
        self._took = self._refreshed - start

    def _save(self) -> None:
        """Save the model, and forget what the journal no longer needs to keep."""
        self._saved = monotonic()
        try:
            self.folder.check_present()
            self.learner.save(self.folder.path)
            self._unsaved, self.save_error, self.saved_at = False, None, monotonic()
            self.journal.trim(self.notes["number"])
        except RamifyError as error:  # no space, say: the journal still has all, and the next minute may do
            self.save_error = str(error)
            log.warning("the model was not saved: %s", error)
