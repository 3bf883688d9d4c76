"""tiny-imagenet: 200 classes of ImageNet at 64×64, in the tree that WordNet has above them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.glance import glance
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.lists import look_up, read_rows
from ramify.datasets.registry import Source
from ramify.errors import RamifyError
from ramify.taxonomy import read_taxonomy

FOLDER = "tiny-imagenet-200"
NOTES = "val_annotations.txt"
PUBLISHER = Publisher(
    "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
    "non-commercial research and education, as ImageNet's",
    (
        Download(
            "https://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", FOLDER
        ),
    ),
    "248 MB",
)


def find(root: Path) -> Origin:
    """`train/WNID/images` and `val/images` with its list, or `val/WNID` where someone sorted them."""
    folder = root / FOLDER
    PUBLISHER.check("tiny-imagenet", root, folder / "train", folder / "val")
    seen = {part: glance(folder / part, root) for part in ("train", "val")}
    key = {"list": stamps(folder, [f"val/{NOTES}"]), **{part: images.key for part, images in seen.items()}}
    return Origin(
        "tiny-imagenet",
        key,
        lambda: _contents(folder, [(part, *path) for part in seen for path in seen[part].files()]),
    )


def _contents(folder: Path, files: Sequence[tuple[str, ...]]) -> Contents:
    """The training images, and for testing those of the validation: the test labels were never released."""
    notes = folder / "val" / NOTES
    listed = {name: wnid for name, wnid, *_ in read_rows(notes, 3, "\t")} if notes.is_file() else {}
    tree = read_taxonomy("tiny-imagenet")
    leaf = {wnid: index for index, wnid in enumerate(tree.leaf_attributes["wnid"])}
    chosen: dict[str, list[tuple[str, int]]] = {"train": [], "val": []}
    for path in files:
        part, wnid = path[:2]
        if part == "val" and wnid == "images":
            wnid = look_up(listed, path[-1], notes)
        if wnid not in leaf:
            raise RamifyError(f"{folder / Path(*path)}: {wnid!r} is not one of the 200 classes: move it away")
        chosen[part].append(("/".join(path), leaf[wnid]))
    train, test = (FileImages.labelled(folder, rows) for rows in chosen.values())
    note = "the validation images are used for testing: the labels of the test images were never released"
    return Contents(tree, train, test, notes=(note,))


SOURCE = Source(
    "tiny-imagenet",
    "Tiny-ImageNet, 110,000 photographs of 64×64 in 200 classes and the levels of WordNet",
    find,
    PUBLISHER.fetch,
    image_size=64,
    taxonomy="tiny-imagenet",
    counts=(6, 17, 41, 80, 76, 38, 16, 7, 11),
    images=(100_000, 10_000),
    publisher=PUBLISHER,
)
