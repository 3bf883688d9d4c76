"""FiftyOne's image classification datasets on disk: `labels.json` beside the images in `data/`.

https://docs.voxel51.com/user_guide/import_datasets.html, `FiftyOneImageClassificationDataset`. Each label
carries its level as an attribute. No database is needed to read or to write them.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ramify.errors import RamifyError
from ramify.files import beside, json_text, read_json, write_atomic
from ramify.learner.asking import FileAnswer
from ramify.learner.exchange import Brought

LABELS, DATA, MANIFEST = "labels.json", "data", "data.json"
TYPE = "FiftyOneImageClassificationDataset"


def brought(folder: Path, begin: Path) -> Brought:
    """The images of a dataset with their labels; paths are told from the folder `begin`."""
    content = read_json(folder / LABELS)
    given = content.get("labels")
    if not isinstance(given, dict):
        raise RamifyError(f"{folder / LABELS} has no table labels; export from FiftyOne as {TYPE}")
    classes, files, left_out = content.get("classes"), _files(folder), Counter[str]()
    rows = []
    for name in sorted(given):
        file = Path(name) if Path(name).is_absolute() else files.get(os.path.normpath(name))
        labels = _labels(given[name], classes)
        if file is None or not labels:
            left_out["has no image in data" if file is None else "has no label"] += 1
        else:
            rows.append((Path(os.path.relpath(file, begin)).as_posix(), labels))
    return Brought(rows, left_out)


def write_answers(answers: Iterable[tuple[FileAnswer, Path]], folder: Path) -> int:
    """Write images with what was answered as a dataset; how many. The images are copied."""
    if (folder / LABELS).exists() or (folder / DATA).exists():
        raise RamifyError(f"{folder} holds a dataset already; choose another --to, or remove it")
    given = [(answer, Path(answer.image), file) for answer, file in answers]
    labels: dict[str, list[dict[str, Any]]] = {}
    begin = os.path.commonpath([path.absolute().parent for _, path, _ in given]) if given else ""
    for answer, path, file in given:
        name = path.absolute().relative_to(begin)
        stem = name.with_suffix("")
        number = 1
        while stem.as_posix() in labels:  # FiftyOne knows images by their path without its ending
            number += 1
            stem = name.with_name(f"{name.stem}-{number}")
        with beside(folder / DATA / f"{stem}{name.suffix}") as temporary:
            shutil.copyfile(file, temporary)
        labels[stem.as_posix()] = [
            {
                "label": str(label),
                "confidence": round(float(answer.share(level)), 4),
                "attributes": {"level": level},
            }
            for level, (label, _) in sorted(answer.levels.items())
        ]
    write_atomic(folder / LABELS, json_text({"classes": None, "labels": labels}))
    return len(labels)


def _files(folder: Path) -> dict[str, Path]:
    """The images by their path without its ending."""
    if (folder / DATA).is_dir():
        found = ((file.relative_to(folder / DATA), file) for file in sorted((folder / DATA).rglob("*")))
        return {os.path.normpath(name.with_suffix("")): file for name, file in found if file.is_file()}
    if (folder / MANIFEST).is_file():
        told = read_json(folder / MANIFEST)
        return {os.path.normpath(Path(name).with_suffix("")): folder / path for name, path in told.items()}
    raise RamifyError(f"{folder} has neither {DATA} nor {MANIFEST}; export the images from FiftyOne as well")


def _labels(target: Any, classes: Any) -> dict[int, str]:
    """Labels by level; several without one count from level 1 down, a single one has level 0: not known."""
    several = isinstance(target, list)
    found: dict[int, str] = {}
    for place, one in enumerate(target if several else [target], 1):
        about = one if isinstance(one, dict) else {"label": one}
        name, level = about.get("label"), (about.get("attributes") or {}).get("level")
        if isinstance(name, int) and isinstance(classes, list) and 0 <= name < len(classes):
            name = classes[name]
        if name is not None:
            found[int(level) if level is not None else place if several else 0] = str(name)
    return found
