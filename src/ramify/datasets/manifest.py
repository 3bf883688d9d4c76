"""A CSV manifest: one row an image."""

from __future__ import annotations

import re
from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.splits import assemble
from ramify.errors import RamifyError
from ramify.taxonomy.read import read_table, read_text


def manifest_origin(path: Path, name: str, pad: bool = False) -> Origin:
    """Columns: `path` (absolute or from the manifest), `level1`…`levelH` or `label`, optionally `split`."""
    header, rows, lines = read_table(read_text(path), path.name)
    levels = sorted((c for c in header if re.fullmatch(r"level\d+", c)), key=lambda c: int(c[5:]))
    columns = levels or [column for column in header if column == "label"]
    if "path" not in header or not columns:
        raise RamifyError(
            f"{path} line 1: the columns are {', '.join(header)}: "
            "expected path, level1, level2, … (or path, label) and optionally split"
        )
    where = header.index("path")
    numbers = [header.index(column) for column in columns]
    paths = [row[where] for row in rows]

    def contents() -> Contents:
        for row, line in zip(rows, lines, strict=True):
            names = [row[i] for i in numbers]  # an image may have no class at the finer levels
            gaps = [c for k, c in enumerate(columns) if not names[k] and (k == 0 or any(names[k:]))]
            if gaps or not row[where]:
                raise RamifyError(f"{path} line {line}: {(*gaps, 'path')[0]} is empty: fill it in")
        split = header.index("split") if "split" in header else None
        return assemble(
            [tuple(row[i] for i in numbers) for row in rows],
            None if split is None else [row[split] for row in rows],
            FileImages.chosen(path.parent, paths),
            str(path),
            pad,
        )

    key = {"manifest": stamps(path.parent, [path.name]), "files": stamps(path.parent, paths)}
    return Origin(name, key | ({"pad": "yes"} if pad else {}), contents)
