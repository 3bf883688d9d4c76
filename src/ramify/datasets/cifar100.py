"""cifar100: the official python archive, or its unpacked files as they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ramify.datasets.arrays import ArrayImages
from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.listing import stamps
from ramify.datasets.pickles import as_text, read_pickle
from ramify.datasets.registry import Source
from ramify.errors import RamifyError
from ramify.files import digest
from ramify.taxonomy import read_taxonomy

FILE_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
FOLDER = "cifar-100-python"
PUBLISHER = Publisher(
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    "none is stated; cite the technical report that the page names",
    (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            FOLDER,
        ),
    ),
    "169 MB",
)


def find(root: Path) -> Origin:
    """The files below `root/cifar-100-python`, whether official or not."""
    files = {name: root / FOLDER / name for name in FILE_MD5}
    PUBLISHER.check("cifar100", root, *files.values())
    return Origin("cifar100", {"files": stamps(root / FOLDER, files)}, lambda: _contents(files))


def _contents(files: dict[str, Path]) -> Contents:
    differing = [name for name, path in files.items() if digest(path, "md5") != FILE_MD5[name]]
    warning = f"{files['train'].parent}: {', '.join(differing)} not the official by md5; used as it is"
    taxonomy = read_taxonomy("cifar100")
    names = read_pickle(files["meta"]).get("fine_label_names")
    if not isinstance(names, list) or sorted(map(as_text, names)) != sorted(taxonomy.names(taxonomy.depth)):
        raise RamifyError(f"{files['meta']} does not hold the 100 class names of CIFAR-100")
    leaf_of = np.array([taxonomy.index(taxonomy.depth, as_text(name)) for name in names])
    train, test = (_split(files[name], leaf_of) for name in ("train", "test"))
    return Contents(taxonomy, train, test, warnings=(warning,) if differing else ())


def _split(path: Path, leaf_of: np.ndarray[Any, Any]) -> ArrayImages:
    record = read_pickle(path)
    pixels, labels = record.get("data"), record.get("fine_labels")
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3072:
        raise RamifyError(f"{path} has no array `data` of 3,072 bytes an image")
    if (
        not isinstance(labels, list)
        or len(labels) != len(pixels)
        or not all(isinstance(label, int) and 0 <= label < len(leaf_of) for label in labels)
    ):
        raise RamifyError(
            f"{path} has no `fine_labels` of 0 to {len(leaf_of) - 1} for its {len(pixels):,} images"
        )
    return ArrayImages(pixels.reshape(-1, 3, 32, 32), leaf_of[np.array(labels, dtype=np.int64)])


SOURCE = Source(
    "cifar100",
    "CIFAR-100, 60,000 photographs of 32×32 in 5 levels",
    find,
    PUBLISHER.fetch,
    image_size=32,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
    counts=(2, 4, 8, 20, 100),
    images=(50_000, 10_000),
    publisher=PUBLISHER,
)
