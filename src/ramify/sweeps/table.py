"""All runs of a sweep at a glance: a live table in a terminal, a line for each event elsewhere."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid

from ramify.console import screen
from ramify.errors import RamifyError
from ramify.runs.folder import RunFolder
from ramify.sweeps.engines import Watcher
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.jobs import read_progress
from ramify.sweeps.study import Study
from ramify.sweeps.words import duration

ORDER = ("failed", "running", "waiting", "finished")


@dataclass
class RunRow:
    """What is known of one run."""

    name: str
    folder: Path
    state: str = "waiting"
    began: float = 0.0
    seconds: float | None = None
    note: str = ""


class RunTable(Watcher):
    """The runs of a study; the sweep says what happens, progress is read from the runs' folders."""

    def __init__(self, study: Study, folder: StudyFolder, quiet: bool = False) -> None:
        self.name = study.name
        self.rows = {run.name: RunRow(run.name, folder.of(run)) for run in study}
        changed = folder.changed(study)
        for name, result in folder.results(study).items():
            note = percent(result.final_accuracy)
            note += f"  code of {', '.join(changed[name])} changed since" if name in changed else ""
            self.rows[name].state, self.rows[name].note = "finished", note
        self.console = screen(stderr=True, quiet=quiet)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)

    def __enter__(self) -> RunTable:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *why: object) -> None:
        self.live.stop()

    def started(self, name: str) -> None:
        """A run, or an answer of one (NAME@POSITION), was given to a worker."""
        row = self.rows[name.partition("@")[0]]
        row.state, row.began = "running", time.monotonic()
        self._event(name, "started")

    def finished(self, name: str) -> None:
        """A run, or an answer of one, came to its end."""
        if "@" in name:
            self._event(name, "worked out")
            return
        row = self.rows[name]
        row.state, row.note = "finished", ""
        with suppress(RamifyError):  # it may still be in a store
            row.note = percent(RunFolder(row.folder).result().final_accuracy)
        row.seconds = time.monotonic() - row.began
        self._event(name, f"finished in {duration(row.seconds)}")

    def failed(self, name: str, error: str, again: bool) -> None:
        """A run failed, and will be tried again or not."""
        if "@" not in name:  # a run works out itself what was not worked out ahead
            row = self.rows[name]
            row.state, row.note = ("waiting" if again else "failed"), error
        self._event(name, f"failed: {error}{'; it will be tried again' if again else ''}")

    def say(self, text: str) -> None:
        """A line above the table."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def refresh(self) -> None:
        """Show where all runs are."""
        if self.console.is_terminal:
            self.live.update(self._grid(), refresh=True)

    def _event(self, name: str, what: str) -> None:
        if not self.console.is_terminal:
            done = sum(row.state == "finished" for row in self.rows.values())
            self.say(f"{done}/{len(self.rows)}  {name}  {what}")

    def _grid(self) -> Grid:
        states = [row.state for row in self.rows.values()]
        counts = ", ".join(f"{states.count(state)} {state}" for state in ORDER if state in states)
        grid = Grid(title=f"{self.name}: {counts}", box=None, title_justify="left")
        for column in ("run", "state", "progress", "time", "left", "accuracy by level"):
            grid.add_column(column, no_wrap=True)
        room = max(3, self.console.height - 5)
        for row in sorted(self.rows.values(), key=lambda row: ORDER.index(row.state))[:room]:
            grid.add_row(*self._cells(row))
        if len(self.rows) > room:
            grid.add_row(f"… and {len(self.rows) - room} more")
        return grid

    def _cells(self, row: RunRow) -> tuple[str | ProgressBar, ...]:
        if row.state != "running":
            return row.name, row.state, "", duration(row.seconds), "", row.note[:60]
        spent = time.monotonic() - row.began
        now = read_progress(row.folder)
        if now is None:
            return row.name, row.state, "", duration(spent), "", row.note[:60]
        left = now["seconds"] * (now["total"] - now["samples"]) / now["samples"] if now["samples"] else None
        bar = ProgressBar(now["total"], now["samples"], width=20)
        return row.name, row.state, bar, duration(spent), duration(left), percent(now["accuracy"])


def percent(accuracy: dict[str, float]) -> str:
    """The accuracy of each level.

    >>> percent({"1": 0.5, "2": 0.25})
    '50.0  25.0'
    """
    return "  ".join(f"{100 * value:.1f}" for value in accuracy.values())
