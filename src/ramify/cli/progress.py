"""Progress of a run on stderr: a bar in a terminal, a line for each evaluation elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ramify.runs.run import Run


class RunProgress:
    """Shows samples, task, updates/s and the latest accuracy of each level."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.console = Console(stderr=True)
        self.shown = len(run.records)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.row = self.bar.add_task(run.config.method, total=len(run.stream), status="")

    def __enter__(self) -> RunProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def show(self, run: Run) -> None:
        """Tell where the run is."""
        task = f"task {int(run.stream.task[run.position - 1]) + 1}/{run.stream.tasks}"
        speed = run.engine.updates / run.train_seconds if run.train_seconds else 0.0
        accuracy = (
            "  ".join(f"{100 * v:.1f}" for v in run.records[-1].accuracy.values()) if run.records else ""
        )
        status = f"{task}  {speed:.0f} updates/s  {accuracy}"
        self.bar.update(self.row, completed=run.position, status=status)
        if len(run.records) > self.shown:
            self.shown = len(run.records)
            if not self.console.is_terminal:
                self.console.print(f"{run.config.method}: {run.position}/{len(run.stream)} samples  {status}")
