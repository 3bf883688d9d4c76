"""Class folders, nested as the tree is, with train and test above them or not."""

from __future__ import annotations

from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.glance import Files, glance
from ramify.datasets.listing import FileImages
from ramify.datasets.splits import PARTS, assemble
from ramify.errors import RamifyError


def folder_origin(folder: Path, name: str, pad: bool = False, root: Path | None = None) -> Origin:
    """The images below `folder`: `[train|test/]CLASS[/CLASS…]/IMAGE`; `root` remembers what was there."""
    seen = glance(folder, root, ("taxonomy.csv",))  # the tree of the folder

    def contents() -> Contents:
        return _contents(folder, seen.files(), pad)

    if not seen.known and not seen.files():
        raise RamifyError(
            f"{folder} holds no images{f' ({seen.unread})' if seen.unread else ''}: expected class folders "
            "with .jpg, .png, … files, or .parquet files"
        )
    return Origin(name, {"files": seen.key, **({"pad": True} if pad else {})}, contents, seen.unread)


def _contents(folder: Path, files: Files, pad: bool) -> Contents:
    has_parts = any(PARTS.get(parts[0].lower()) == "train" for parts in files)
    chosen = [parts for parts in files if not has_parts or parts[0].lower() in PARTS]
    paths, labels = ["/".join(parts) for parts in chosen], [parts[has_parts:-1] for parts in chosen]
    if () in labels:
        raise RamifyError(f"{folder / paths[labels.index(())]} lies in no class folder: move it into one")
    splits = [parts[0] for parts in chosen] if has_parts else None
    return assemble(labels, splits, FileImages.chosen(folder, paths), str(folder), pad)
