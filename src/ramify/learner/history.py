"""What was changed in a learner's labels: a list for people, and what is needed to take a change back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.state import copied

FILE = "history.jsonl"  # for people; the learner's own file has the same entries and is what counts
KEPT = 50  # edits that can be taken back

Entry = dict[str, Any]


@dataclass(frozen=True)
class Undo:
    """How to take one edit back: exactly, where nothing has happened since, or else by other edits."""

    number: int
    digest: str  # of the state just after the edit
    patch: dict[str, Any]  # from that state to the one before
    inverse: dict[str, Any] | None  # see `backwards`; None: there is no other way


class History:
    """All edits, oldest first, each with a number; and how to take the latest ones back."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.undo: list[Undo] = []

    def add(self, what: str, samples: int, told: Entry) -> Entry:
        """Note an edit that has been made."""
        entry = {"number": len(self.entries) + 1, "edit": what, **told, "samples": samples}
        entry["when"] = datetime.now(UTC).isoformat(timespec="seconds")
        before = self.entries[-1]["id"] if self.entries else ""
        text = before + json.dumps(entry, sort_keys=True)
        entry["id"] = hashlib.sha256(text.encode()).hexdigest()[:16]  # and so of all that came before
        self.entries.append(entry)
        return entry

    def can_undo(self, undo: Undo) -> None:
        """Keep how to take the latest edit back."""
        self.undo = [*self.undo, undo][-KEPT:]

    def write(self, folder: Path) -> None:
        """Add what a folder's list lacks; what stands there stays."""
        if not self.entries:
            return
        path = folder / FILE
        known = {entry.get("id") for entry in read_history(folder)}
        fresh = [json.dumps(entry, ensure_ascii=False) for entry in self.entries if entry["id"] not in known]
        if fresh:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            lines = before if before.endswith("\n") or not before else before + "\n"
            write_atomic(path, lines + "\n".join(fresh) + "\n")

    def state(self) -> dict[str, Any]:
        """What the learner's file keeps of the undos."""
        return {
            str(place): {"number": u.number, "digest": u.digest, "patch": u.patch, "inverse": u.inverse}
            for place, u in enumerate(self.undo)
        }

    def restore(self, entries: list[Entry], state: dict[str, Any]) -> None:
        """Continue from what was saved."""
        self.entries = list(entries)
        self.undo = [Undo(**state[str(place)]) for place in range(len(state))]


def read_history(folder: Path) -> list[Entry]:
    """The entries that a folder's list has."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise RamifyError(
            f"{folder / FILE} cannot be read ({error}); move it away, it is made anew"
        ) from None


def difference(before: Any, after: Any) -> dict[str, Any] | None:
    """What leads from a state `after` back to the one `before`, only the rows that differ; None: nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = {name: difference(value, after.get(name)) for name, value in before.items()}
        items = {name: patch for name, patch in found.items() if patch is not None}
        return {"names": list(before), "items": items} if items or list(before) != list(after) else None
    if _is_table(before) and _is_table(after) and _alike(before, after):
        rows, old, new = min(len(before), len(after)), _bytes(before), _bytes(after)
        differs = np.flatnonzero((old[:rows] != new[:rows]).any(1))
        places = np.concatenate([differs, np.arange(rows, len(before))])
        if not len(places) and len(before) == len(after):
            return None
        return {"length": len(before), "rows": places, "values": _take(before, places)}
    same = type(before) is type(after) and (
        state_digest(before) == state_digest(after) if _is_array(before) else before == after
    )
    return None if same else {"whole": copied(before)}


def patched(after: Any, patch: dict[str, Any] | None) -> Any:
    """The state from which `difference` was taken."""
    if patch is None:
        return after
    if "whole" in patch:
        return patch["whole"]
    if "names" in patch:
        return {name: patched(after.get(name), patch["items"].get(name)) for name in patch["names"]}
    length, rows = patch["length"], np.asarray(patch["rows"])
    if isinstance(after, Tensor):
        found = after.new_zeros((length, *after.shape[1:]))
        found[: min(length, len(after))] = after[:length]
        found[torch.from_numpy(rows)] = patch["values"].to(after.device)
        return found
    table = np.zeros((length, *after.shape[1:]), after.dtype)
    table[: min(length, len(after))] = after[:length]
    table[rows] = patch["values"]
    return table


def state_digest(state: Any) -> str:
    """Equal for states that are equal to the bit."""
    found = hashlib.blake2b(digest_size=16)
    for part in _parts(state, ""):
        found.update(part)
    return found.hexdigest()


def _parts(value: Any, name: str) -> Iterator[bytes]:
    if isinstance(value, dict):
        yield f"{name}{{{len(value)}".encode()
        for key, item in sorted(value.items()):
            yield from _parts(item, f"{name}/{key}")
    elif _is_array(value):
        yield f"{name} {value.dtype} {tuple(value.shape)}".encode()
        yield _bytes(value).tobytes()
    else:
        yield f"{name} {json.dumps(value, default=_plain)}".encode()


def _plain(value: Any) -> Any:
    return value.item()  # numbers of numpy's


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray)


def _is_table(value: Any) -> bool:
    return _is_array(value) and value.ndim > 0


def _alike(a: Any, b: Any) -> bool:
    return (
        isinstance(a, Tensor) is isinstance(b, Tensor) and a.dtype == b.dtype and a.shape[1:] == b.shape[1:]
    )


def _bytes(values: Any) -> Any:
    """The bytes of each row of an array, [rows, bytes], or of all of a single value."""
    rows = len(values) if values.ndim else 1
    if 0 in values.shape:
        return np.empty((rows, math.prod(values.shape[1:]) * values.itemsize), np.uint8)
    if isinstance(values, Tensor):
        return values.detach().cpu().contiguous().reshape(rows, -1).view(torch.uint8).numpy()
    return np.ascontiguousarray(values).reshape(rows, -1).view(np.uint8)


def _take(values: Any, rows: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu()[torch.from_numpy(rows)].clone()
    return values[rows].copy()
