"""Class folders, nested as the tree is, with train and test above them or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.listing import FileImages, image_files, stamps, told_unread
from ramify.datasets.splits import PARTS, assemble
from ramify.errors import RamifyError


def folder_origin(folder: Path, name: str, pad: bool = False) -> Origin:
    """The images below `folder`: `[train|test/]CLASS[/CLASS…]/IMAGE`."""
    unread: Counter[str] = Counter()
    files = list(image_files(folder, unread=unread))
    unread[".csv"] -= (folder / "taxonomy.csv").is_file()  # the tree of the folder
    told = told_unread(+unread)
    if not files:
        raise RamifyError(
            f"{folder} holds no images{f' ({told})' if told else ''}: expected class folders with .jpg, "
            ".png, … files, or .parquet files"
        )
    paths = ["/".join(parts) for parts in files]
    has_parts = any(PARTS.get(parts[0].lower()) == "train" for parts in files)

    def contents() -> Contents:
        chosen = [i for i, parts in enumerate(files) if not has_parts or parts[0].lower() in PARTS]
        labels = [files[i][has_parts:-1] for i in chosen]
        for i, label in zip(chosen, labels, strict=True):
            if not label:
                raise RamifyError(f"{folder / paths[i]} lies in no class folder: move it into one")
        return assemble(
            labels,
            [files[i][0] for i in chosen] if has_parts else None,
            lambda picked, leaves: FileImages(folder, [paths[chosen[i]] for i in picked], leaves),
            str(folder),
            pad,
        )

    return Origin(name, {"files": stamps(folder, paths), **({"pad": True} if pad else {})}, contents, told)
