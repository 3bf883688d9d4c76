"""inaturalist19: the official JSON and images, in the seven ranks of biology."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ramify.datasets.archives import extract
from ramify.datasets.cache import Contents, Origin
from ramify.datasets.download import download
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.registry import Source
from ramify.datasets.splits import resplit
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

FOLDER = "inaturalist19"
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
PERCENTS, SPLIT_SEED = (70, 15, 15), 0
LISTS = ("train2019.json", "val2019.json")
NAMES = "categories.json"
URL = "https://ml-inat-competition-datasets.s3.amazonaws.com/2019/"
# The publisher states no checksum for the category names, 13 kB; their counts are checked instead.
ARCHIVES = {
    "train2019.json": "b06a6683537867c0d5c7a45f407a306d",
    "val2019.json": "5cc5509b0fe495f1c8c1362612448497",
    "categories.json": None,
    "train_val2019": "c60a6e2962c9b8ccbd458d12c8582644",
}


def get(root: Path, progress: bool) -> None:
    """Download the lists and the images (74 GB), check and unpack them; what is there stays."""
    folder = root / FOLDER
    for name, md5 in ARCHIVES.items():
        if not (folder / name).exists():
            archive = folder / f"{name}.tar.gz"
            download(URL + archive.name, archive, md5, progress)
            extract(archive, folder, name)


def find(root: Path) -> Origin:
    """The lists below `root/inaturalist19`; they alone are the key, for 268,243 images are slow to list."""
    folder = root / FOLDER
    missing = [name for name in (*LISTS, "train_val2019") if not (folder / name).exists()]
    if missing:
        raise RamifyError(
            f"no inaturalist19 below {root} ({folder / missing[0]} is missing): `ramify data get "
            f"inaturalist19` downloads it (74 GB), or put {', '.join(LISTS)}, {NAMES} and train_val2019 there"
        )
    return Origin(
        "inaturalist19",
        {"lists": stamps(folder, [*LISTS, NAMES]), "percents": PERCENTS, "seed": SPLIT_SEED},
        lambda: _contents(folder),
    )


def _contents(folder: Path) -> Contents:
    lists = [_read(folder / name) for name in LISTS]
    try:
        named = _read(folder / NAMES) if (folder / NAMES).is_file() else lists[0]["categories"]
        categories = named["categories"] if isinstance(named, dict) else named
        rows = [tuple(str(category[rank]) for rank in RANKS) for category in categories]
        leaf = {category["id"]: index for index, category in enumerate(categories)}
        files = {image["id"]: str(image["file_name"]) for part in lists for image in part["images"]}
        pairs = [
            (files[a["image_id"]], leaf[a["category_id"]]) for part in lists for a in part["annotations"]
        ]
    except (KeyError, TypeError) as error:
        raise RamifyError(
            f"{folder}: the lists lack {error} (the names of 2019 were released later: {NAMES} holds them)"
        ) from error
    paths = [path for path, _ in pairs]
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in path:
            raise RamifyError(f"{folder}: the file name {path!r} leaves the folder")
    leaves = np.array([index for _, index in pairs], dtype=np.int64)
    parts = resplit(leaves, PERCENTS, SPLIT_SEED)
    train, test = (
        FileImages(folder, [paths[i] for i in np.flatnonzero(parts == part)], leaves[parts == part])
        for part in (0, 2)
    )
    note = (
        f"train, validation and test are {PERCENTS} % of each class, seed {SPLIT_SEED}; validation is unused"
    )
    return Contents(Taxonomy.from_rows(rows), train, test, notes=(note,))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RamifyError(f"{path} cannot be read as JSON ({error}): get it again") from error


SOURCE = Source(
    "inaturalist19",
    "iNaturalist 2019, 268,243 photographs in 7 levels",
    find,
    get,
    mean=(0.454, 0.474, 0.367),
    std=(0.237, 0.230, 0.249),
    counts=(3, 4, 9, 34, 57, 72, 1010),
)
