"""Checkpoints of a run: when they are written, how they are found again, and what is refused."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.errors import RamifyError
from ramify.files import digest, fitting, write_atomic, writing
from ramify.runs.config import read_config
from ramify.signals import Listening
from ramify.state import State
from ramify.statefiles import load_state, save_state
from ramify.typed import flat, seconds, to_dict

if TYPE_CHECKING:
    from ramify.runs.folder import RunFolder
    from ramify.runs.run import Run

log = logging.getLogger("ramify")

EVERY = 300.0  # seconds between checkpoints unless told otherwise
KEPT = 2  # generations on disk: the newest, and the one before in case the newest is damaged


class Checkpoints:
    """The checkpoints of one run folder.

    A generation is `checkpoint-N.safetensors` and `checkpoint-N.sha256`, which is written after it: only a
    pair that agrees is whole.
    """

    def __init__(self, folder: RunFolder, every: float = EVERY) -> None:
        self.folder, self.every = folder, seconds("checkpoint_every", every)
        self._written = time.monotonic()
        self.signals = Listening(lambda what: f"{what}; continue with: {folder.continue_command}")

    def after_part(self, run: Run) -> None:
        """Called between two parts of the work: write where one is due; after a signal write and stop."""
        overdue = time.monotonic() - self._written >= self.every
        task_ended = run.step == "learn" and run.position in run.task_end_positions
        stopping = self.signals.heard()
        if stopping or overdue or task_ended:
            self.write(run)
        if stopping:
            self.signals.refuse(f"stopped at sample {run.position:,} of {len(run.stream):,}")

    def write(self, run: Run) -> None:
        """Write one generation, then drop all but the newest two."""
        self.folder.check_present()
        path = self._path(max(self._numbers(), default=0) + 1)
        written = datetime.now(UTC).isoformat(timespec="seconds")
        write_checkpoint(path, run.state(), {**run.identity(), "samples": run.position, "written": written})
        for number in self._numbers()[:-KEPT]:
            self._remove(number)
        self._written = time.monotonic()

    def restore(self, run: Run) -> None:
        """Bring the run to the newest whole checkpoint; where none was written it stays at its beginning."""
        damaged: dict[int, str] = {}
        numbers = self._numbers()
        if numbers == [1] and not self._path(1).with_suffix(".sha256").exists():
            numbers = []  # killed while it wrote its first
        for number in reversed(numbers):
            path = self._path(number)
            reason = _damage(path)
            if reason is None:
                state, about = load_state(path)
                refuse_differences(run.identity(), about, path.name)
                with fitting(path):
                    run.restore(state)
                if damaged:
                    log.warning("%s; continuing from the one before", "; ".join(damaged.values()))
                for broken in damaged:
                    self._remove(broken)
                return
            damaged[number] = f"{path.name} {reason}"
        if damaged:
            raise RamifyError(
                f"{self.folder.path}: no checkpoint is whole ({'; '.join(damaged.values())}): all that was "
                "learned is lost, only records.jsonl remains; begin again with `ramify run --force`"
            )
        if (lost := len(self.folder.records())) > 0:
            log.warning("no checkpoint was written yet: begins again, without the %d records so far", lost)

    def clear(self) -> None:
        """Remove all checkpoints: the run is finished, or begins anew."""
        for number in self._numbers():
            self._remove(number)

    def _path(self, number: int) -> Path:
        return self.folder.path / f"checkpoint-{number:06d}.safetensors"

    def _numbers(self) -> list[int]:
        """The generations of which anything is there, oldest first."""
        names = {path.stem.removeprefix("checkpoint-") for path in self.folder.path.glob("checkpoint-*")}
        return sorted(int(name) for name in names if name.isdecimal())

    def _remove(self, number: int) -> None:
        path = self._path(number)
        with writing(path):
            path.with_suffix(".sha256").unlink(missing_ok=True)
            path.unlink(missing_ok=True)


def write_checkpoint(path: Path, state: State, about: dict[str, Any]) -> None:
    """One generation: the state, and after it the checksum that makes it valid."""
    with writing(path):
        path.with_suffix(".sha256").unlink(missing_ok=True)
    save_state(path, state, about, make_folder=False)
    with writing(path):
        line = _checksum_line(path)
    write_atomic(path.with_suffix(".sha256"), line, make_folder=False)


def refuse_differences(here: dict[str, Any], there: dict[str, Any], where: str) -> None:
    """Refuse to continue `there` with another config, dataset or stream, naming what differs.

    A setting that one of them does not name was added since: it is as it first was.
    """
    found, expected = _as_first() | flat(there), _as_first() | flat(here)
    differ = [
        f"{name} was {_brief(found.get(name))} and is {_brief(expected.get(name))}"
        for name in sorted({*expected, *(name for name in found if name.startswith("config."))})
        if found.get(name) != expected.get(name)
    ]
    if differ:
        raise RamifyError(
            f"{where} belongs to another run: {'; '.join(differ)}; give what it was begun with, or another "
            "folder"
        )


@cache
def _as_first() -> dict[str, Any]:
    return flat({"config": to_dict(read_config({}, "config"))})


def _brief(value: Any) -> str:
    """A value as errors show it: of fingerprints the beginning."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else repr(value)


def _checksum_line(path: Path) -> str:
    """The line that `sha256sum` would print."""
    return f"{digest(path)}  {path.name}\n"


def _damage(path: Path) -> str | None:
    """Why a generation cannot be used, or None."""
    try:
        if path.with_suffix(".sha256").read_bytes() != _checksum_line(path).encode():
            return "is damaged (its checksum differs)"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
