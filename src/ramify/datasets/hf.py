"""`hf:NAME`: a Hugging Face image dataset on disk, as `save_to_disk` or the hub lays it out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.columns import ColumnChoice, table_contents
from ramify.datasets.listing import stamps
from ramify.datasets.parquet import parquet_files, parquet_origin
from ramify.datasets.registry import Source
from ramify.errors import RamifyError

PREFIX = "hf:"
MARKS = ("dataset_dict.json", "dataset_info.json")


class SavedTable:
    """The splits of a dataset that `save_to_disk` wrote, as one list of rows."""

    def __init__(self, splits: dict[str, Any]) -> None:
        self._splits = [split.with_format("arrow") for split in splits.values()]
        self.schema = self._splits[0].features.arrow_schema
        self.parts = [name for name, split in splits.items() for _ in range(len(split))]

    def values(self, column: str) -> list[Any]:
        """A whole column."""
        return [v for s in self._splits for v in s.select_columns(column)[:].column(0).to_pylist()]

    def images(self, column: str) -> Callable[[int], Any]:
        """What reads the cell of a row: the files are memory-mapped."""
        cells = [split.select_columns(column) for split in self._splits]

        def cell(row: int) -> Any:
            for part in cells:
                if row < len(part):
                    return part[row : row + 1].column(0)[0].as_py()
                row -= len(part)
            raise IndexError(row)

        return cell


def hf_source(text: str, pad: bool = False) -> Source:
    """The dataset that `hf:NAME[?levels=A,B,C][&image=COLUMN]` speaks of, levels coarse to fine."""
    name, _, query = text.removeprefix(PREFIX).partition("?")
    choice = _choice(query, text)
    plain = re.sub(r"[^\w.-]+", "_", name).strip("_.") or "hf"
    return Source(plain, f"Hugging Face, {name}", lambda root: _find(name, root, plain, pad, choice))


def _choice(query: str, text: str) -> ColumnChoice:
    options = {key: ",".join(values) for key, values in parse_qs(query, keep_blank_values=True).items()}
    strange = next((key for key in options if key not in ("levels", "image")), None)
    if strange is not None:
        raise RamifyError(f"{text!r}: no option {strange!r}; use hf:NAME?levels=COARSE,…,FINE&image=COLUMN")
    levels = tuple(level.strip() for level in options.get("levels", "").split(",") if level.strip())
    return ColumnChoice(levels, options.get("image", ""))


def _find(name: str, root: Path, plain: str, pad: bool, choice: ColumnChoice) -> Origin:
    snapshots = _hub_cache() / f"datasets--{name.replace('/', '--')}" / "snapshots"
    places = [Path(name).expanduser(), root / name, *sorted(snapshots.glob("*"), key=_age)]
    folder = next((place.absolute() for place in places if place.exists()), None)
    if folder is None:
        raise RamifyError(
            f"no dataset {name!r} here, below {root} or in {_hub_cache()}: put there what "
            "`dataset.save_to_disk` wrote, or let `hf download` bring it"
        )
    if any((folder / mark).is_file() for mark in MARKS):
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        key = {"files": stamps(folder, files), "choice": [choice.levels, choice.image], "pad": pad}
        return Origin(plain, key, lambda: _saved(folder, pad, choice))
    if not parquet_files(folder):
        raise RamifyError(
            f"{folder} holds neither {' nor '.join(MARKS)} (as save_to_disk writes) nor .parquet files"
        )
    return parquet_origin(folder, plain, pad, choice)


def _saved(folder: Path, pad: bool, choice: ColumnChoice) -> Contents:
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise RamifyError(f"{folder} needs the library datasets: pip install 'ramify[hf]'") from error
    try:
        loaded = load_from_disk(str(folder))
    except Exception as error:
        raise RamifyError(f"{folder} cannot be read as a saved dataset ({error})") from error
    table = SavedTable(dict(loaded) if isinstance(loaded, DatasetDict) else {"all": loaded})
    return table_contents(table, table.parts, choice, str(folder), pad)


def _hub_cache() -> Path:
    """Where the Hugging Face hub keeps what it downloaded."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def _age(path: Path) -> float:
    return -path.stat().st_mtime  # the latest snapshot first
