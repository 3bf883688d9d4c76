"""Progress of a run on stderr: a bar in a terminal, a line for each evaluation elsewhere."""

from __future__ import annotations

import logging

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from ramify.console import screen
from ramify.runs.run import Run
from ramify.streams import renumbered


class RunProgress:
    """Shows samples, task, updates/s and the latest accuracy of each level."""

    def __init__(self) -> None:
        quiet = not logging.getLogger("ramify").isEnabledFor(logging.INFO)
        self.console = screen(stderr=True, quiet=quiet)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.row: TaskID | None = None

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(self, *why: object) -> None:
        self.bar.stop()

    def show(self, run: Run) -> None:
        """Tell where the run is; the first call starts the bar."""
        if self.row is None:
            self.shown = len(run.records)
            self.row = self.bar.add_task(run.config.method, total=len(run.stream), status="")
            self.bar.start()
            if told := renumbered(run.stream.levels, run.dataset.taxonomy.depth):
                self.console.print(f"{run.config.method}: {told}", soft_wrap=True)
            if run.position:
                self.console.print(
                    f"{run.config.method}: continued at {run.position}/{len(run.stream)} samples"
                )
        task = f"task {int(run.stream.task[max(run.position - 1, 0)]) + 1}/{run.stream.tasks}"
        speed = run.trainer.updates / run.train_seconds if run.train_seconds else 0.0
        status = f"{task}  {speed:.0f} updates/s"
        if run.records:
            levels = " / ".join(f"{100 * v:.1f}" for v in run.records[-1].accuracy.values())
            status += f"  accuracy {levels} %"
        self.bar.update(self.row, completed=run.position, status=status)
        if len(run.records) > self.shown:
            self.shown = len(run.records)
            if not self.console.is_terminal:
                self.console.print(f"{run.config.method}: {run.position}/{len(run.stream)} samples  {status}")
