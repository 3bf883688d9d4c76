"""inaturalist19 and inaturalist21-mini: the official JSON and images, in the seven ranks of biology."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.lists import inside
from ramify.datasets.registry import Source
from ramify.datasets.splits import distinct, resplit
from ramify.errors import RamifyError
from ramify.taxonomy import Taxonomy

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
PERCENTS, SPLIT_SEED = (70, 15, 15), 0
NAMES = "categories.json"
LICENCE = "non-commercial research and education; the photographs are their authors' and not to be passed on"
URL = "https://ml-inat-competition-datasets.s3.amazonaws.com/"


@dataclass(frozen=True)
class Edition:
    """One year's competition: its lists of images, and whether the paper splits them anew."""

    name: str
    folder: str
    lists: tuple[str, str]
    images: tuple[str, ...]
    anew: bool
    publisher: Publisher

    def get(self, root: Path, progress: bool) -> None:
        """Download the lists and the images, check and unpack them; what is there stays."""
        self.publisher.fetch(root / self.folder, progress)

    def find(self, root: Path) -> Origin:
        """The lists below the folder; they alone are the key, for 268,243 images are slow to list."""
        folder = root / self.folder
        self.publisher.check(self.name, root, *(folder / name for name in (*self.lists, *self.images)))
        if self.anew:
            key = {"lists": stamps(folder, [*self.lists, NAMES]), "percents": PERCENTS, "seed": SPLIT_SEED}
        else:
            key = {"lists": stamps(folder, self.lists)}
        return Origin(self.name, key, lambda: _contents(folder, self))


def _archive(year: int, name: str, md5: str | None) -> Download:
    return Download(f"{URL}{year}/{name}.tar.gz", md5, name)


# The publisher states no checksum for the category names of 2019, 13 kB; their counts are checked instead.
EDITION_19 = Edition(
    "inaturalist19",
    "inaturalist19",
    ("train2019.json", "val2019.json"),
    ("train_val2019",),
    True,
    Publisher(
        "https://github.com/visipedia/inat_comp/tree/master/2019",
        LICENCE,
        (
            _archive(2019, "train2019.json", "b06a6683537867c0d5c7a45f407a306d"),
            _archive(2019, "val2019.json", "5cc5509b0fe495f1c8c1362612448497"),
            _archive(2019, NAMES, None),
            _archive(2019, "train_val2019", "c60a6e2962c9b8ccbd458d12c8582644"),
        ),
        "74 GB",
    ),
)
EDITION_21 = Edition(
    "inaturalist21-mini",
    "inaturalist21",
    ("train_mini.json", "val.json"),
    ("train_mini", "val"),
    False,
    Publisher(
        "https://github.com/visipedia/inat_comp/tree/master/2021",
        LICENCE,
        (
            _archive(2021, "train_mini.json", "395a35be3651d86dc3b0d365b8ea5f92"),
            _archive(2021, "val.json", "4d761e0f6a86cc63e8f7afc91f6a8f0b"),
            _archive(2021, "train_mini", "db6ed8330e634445efc8fec83ae81442"),
            _archive(2021, "val", "f6f6e0e242e3d4c9569ba56400938afc"),
        ),
        "50 GB",
    ),
)


def _contents(folder: Path, edition: Edition) -> Contents:
    lists = [_read(folder / name) for name in edition.lists]
    try:
        named = _read(folder / NAMES) if (folder / NAMES).is_file() else lists[0]["categories"]
        categories = named["categories"] if isinstance(named, dict) else named
        rows = [tuple(str(category[rank]) for rank in RANKS) for category in categories]
        leaf = {category["id"]: index for index, category in enumerate(categories)}
        files = [{image["id"]: str(image["file_name"]) for image in part["images"]} for part in lists]
        pairs = [
            (inside(names[mark["image_id"]], folder), leaf[mark["category_id"]], number)
            for number, (names, part) in enumerate(zip(files, lists, strict=True))
            for mark in part["annotations"]
        ]
    except (KeyError, TypeError) as error:
        raise RamifyError(
            f"{folder}: the lists lack {error} (the names of 2019 were released later: {NAMES} holds them)"
        ) from error
    paths = [path for path, *_ in pairs]
    leaves = np.array([index for _, index, _ in pairs], dtype=np.int64)
    parts = np.array([2 * number for *_, number in pairs])
    note = "the validation images of the competition are used for testing: its test labels are not public"
    if edition.anew:
        parts = resplit(leaves, PERCENTS, SPLIT_SEED)
        shares = f"train, validation and test are {PERCENTS} % of each class, seed {SPLIT_SEED}"
        note = f"{shares}; validation is unused"
    train, test = (
        FileImages(folder, [paths[i] for i in np.flatnonzero(parts == part)], leaves[parts == part])
        for part in (0, 2)
    )
    return Contents(Taxonomy.from_rows(distinct(rows)), train, test, notes=(note,))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RamifyError(f"{path} cannot be read as JSON ({error}): get it again") from error


def _source(edition: Edition, summary: str, **published: Any) -> Source:
    pixels: dict[str, Any] = {"mean": (0.454, 0.474, 0.367), "std": (0.237, 0.230, 0.249)}
    known = {"publisher": edition.publisher, **pixels, **published}
    return Source(edition.name, summary, edition.find, edition.get, **known)


SOURCE = _source(
    EDITION_19, "iNaturalist 2019, 268,243 photographs in 7 levels", counts=(3, 4, 9, 34, 57, 72, 1010)
)
MINI = _source(
    EDITION_21,
    "iNaturalist 2021 mini, 500,000 + 100,000 photographs of 10,000 species in 7 levels",
    images=(500_000, 100_000),
)
