"""Runs as a pandas table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ramify.errors import RamifyError
from ramify.reports import data
from ramify.reports.export import columns, record_rows, result_rows
from ramify.typed import shown

if TYPE_CHECKING:
    import pandas


def load_runs(*paths: str | Path, table: Literal["results", "records"] = "results") -> pandas.DataFrame:
    """The runs among and below these folders as one table, as `ramify export` writes it.

    `results` has a row for each finished run and level, `records` one for each evaluation and level.
    """
    if table not in ("results", "records"):
        raise RamifyError(f"table is {shown(table)}; it must be results or records")
    if not paths:
        raise RamifyError("no folder was given; give those of runs, or one with runs below it")
    try:
        import pandas
    except ImportError:
        raise RamifyError("load_runs needs the extra `pandas`: pip install 'ramify[pandas]'") from None
    runs = data.read_runs(paths)
    rows = result_rows(runs) if table == "results" else record_rows(runs)
    return pandas.DataFrame(rows, columns=columns(rows))
