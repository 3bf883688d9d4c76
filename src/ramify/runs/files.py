"""The files of a run, in its folder or in an archive, as values."""

from __future__ import annotations

import json
import types
from importlib.resources.abc import Traversable
from typing import Any

from ramify.errors import RamifyError
from ramify.evaluation.anytime import Record
from ramify.files import check_format, fitting, read_json
from ramify.named import is_own
from ramify.runs.result import Result

FORMAT = 1
PARTS: dict[str, type | types.UnionType] = {  # of config.json, as far as a run is continued by them
    "config": dict,
    "dataset": dict,
    "stream": dict,
    "device": str,
    "execution": dict,
    "versions": dict,
    "machine": dict,
    "resumed": list,
    "machine.threads": int,
    "execution.checkpoint_every": int | float,
    "execution.data_dir": str | None,
}


class RunFiles:
    """What config.json, records.jsonl and result.json say."""

    path: Traversable

    def __init__(self, path: Traversable) -> None:
        self.path = path

    def named_code(self) -> str | None:
        """The code of one's own, `package.module:name`, that the run's config has ramify import, if any."""
        config = self.about()["config"]
        with fitting(self.path / "config.json"):
            names = (
                config["method"],
                config["network"]["name"],
                config["setup"],
                *(config.get("metrics") or ()),
            )
            return next((name for name in names if is_own(name)), None)

    def begun(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / "config.json").is_file()

    def finished(self) -> bool:
        """Whether a run came to its end here."""
        return (self.path / "result.json").is_file()

    def about(self) -> dict[str, Any]:
        """What config.json says."""
        values = read_json(self.path / "config.json", f"; is {self.path} a run's folder?")
        check_format(values.get("format"), self.path / "config.json", FORMAT)
        missing = [key for key, kind in PARTS.items() if not isinstance(_part(values, key), kind)]
        if missing:
            raise RamifyError(f"{self.path}/config.json is damaged: no usable {missing[0]!r} in it")
        return values

    def records(self) -> list[Record]:
        """All records so far; a line that is still being written is left out."""
        path = self.path / "records.jsonl"
        if not path.is_file():
            return []
        with fitting(path):
            *lines, _unfinished = path.read_bytes().split(b"\n")
        return [_record(line, f"{path} line {number} is damaged") for number, line in enumerate(lines, 1)]

    def result(self) -> Result:
        """The figures of a finished run."""
        values = read_json(self.path / "result.json")
        with fitting(self.path / "result.json"):
            return Result.from_dict(values, self.path / "result.json")


def _part(values: Any, key: str) -> Any:
    """The part of nested tables with the key `a.b`, None where there is none."""
    for name in key.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _record(line: bytes, where: str) -> Record:
    try:
        return Record.from_dict(json.loads(line), where)
    except (ValueError, RecursionError) as error:
        raise RamifyError(f"{where}: {error}; run it again") from None
