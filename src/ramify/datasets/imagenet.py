"""imagenet-hier100: 100 classes out of an ImageNet folder, by their WordNet ids."""

from __future__ import annotations

from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Publisher
from ramify.datasets.listing import FileImages, image_files, stamps
from ramify.datasets.registry import Source
from ramify.errors import RamifyError
from ramify.taxonomy import read_taxonomy

FOLDERS = ("imagenet", "imagenet-hier100", "ILSVRC/Data/CLS-LOC")


def find(root: Path) -> Origin:
    """The folders `train/WNID` and `val/WNID` of the 100 classes."""
    tree = read_taxonomy("imagenet-hier100")
    folder = next((root / name for name in FOLDERS if (root / name / "train").is_dir()), None)
    if folder is None:
        raise RamifyError(
            f"no ImageNet below {root}: it needs a login at image-net.org (ILSVRC2012) or kaggle.com; put it "
            f"at {root / FOLDERS[0]} as train/WNID/*.JPEG and val/WNID/*.JPEG"
        )
    for part in ("train", "val"):
        missing = [wnid for wnid in tree.leaf_attributes["wnid"] if not (folder / part / wnid).is_dir()]
        if missing:
            flat = part == "val" and any((folder / part).glob("*.JPEG"))
            raise RamifyError(
                f"{folder / part} lacks {len(missing)} of the 100 class folders, {missing[0]} first"
                + (": move each validation image into a folder named by its WordNet id" if flat else "")
            )
    files = {part: _files(folder, part, tree.leaf_attributes["wnid"]) for part in ("train", "val")}

    def contents() -> Contents:
        train, test = (FileImages.labelled(folder, rows) for rows in files.values())
        return Contents(tree, train, test)

    paths = [path for rows in files.values() for path, _ in rows]
    return Origin("imagenet-hier100", {"files": stamps(folder, paths)}, contents)


def _files(folder: Path, part: str, wnids: tuple[str, ...]) -> list[tuple[str, int]]:
    return [
        (f"{part}/{wnid}/{'/'.join(path)}", leaf)
        for leaf, wnid in enumerate(wnids)
        for path in image_files(folder / part / wnid)
    ]


SOURCE = Source(
    "imagenet-hier100",
    "ImageNet-Hier100, 128,741 + 5,000 photographs in 10 kinds and 100 classes",
    find,
    counts=(10, 100),
    images=(128_741, 5_000),
    publisher=Publisher(
        "https://www.image-net.org/download.php", "non-commercial research and education; see the page"
    ),
)
