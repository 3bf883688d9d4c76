"""Results to look at: tables, figures, the one-file report, the live page and export."""

from ramify.reports.data import RunData, find_runs, load_run, read_runs

__all__ = ["RunData", "find_runs", "load_run", "read_runs"]
