"""cub200: Caltech-UCSD Birds-200-2011, in 13 orders, 38 families and 200 species."""

from __future__ import annotations

from pathlib import Path

from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.listing import FileImages, stamps
from ramify.datasets.lists import inside, look_up, read_map
from ramify.datasets.registry import Source
from ramify.datasets.splits import assemble

FOLDER = "CUB_200_2011"
CLASSES, IMAGES, LABELS, PARTS = LISTS = (
    "classes.txt",
    "images.txt",
    "image_class_labels.txt",
    "train_test_split.txt",
)
PUBLISHER = Publisher(
    "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    "none is stated; the photographs are their authors', for non-commercial research and education",
    (
        Download(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            "97eceeb196236b17998738112f37df78",
            FOLDER,
        ),
    ),
    "1.1 GB",
)


def find(root: Path) -> Origin:
    """The lists and images below `root/CUB_200_2011`."""
    folder = root / FOLDER
    PUBLISHER.check("cub200", root, *(folder / name for name in (*LISTS, "images")))
    return Origin("cub200", {"lists": stamps(folder, LISTS)}, lambda: _contents(folder))


def _contents(folder: Path) -> Contents:
    classes, files, labels, parts = (read_map(folder / name) for name in LISTS)
    paths = [inside(f"images/{path}", folder) for path in files.values()]
    numbers = [look_up(labels, image, folder / LABELS) for image in files]
    names = [look_up(classes, number, folder / CLASSES).partition(".")[2] for number in numbers]
    train = [look_up(parts, image, folder / PARTS) == "1" for image in files]
    return assemble(
        [(name,) for name in names],
        ["train" if chosen else "test" for chosen in train],
        FileImages.chosen(folder, paths),
        str(folder),
    )


SOURCE = Source(
    "cub200",
    "CUB-200-2011, 11,788 photographs of birds in 13 orders, 38 families and 200 species",
    find,
    PUBLISHER.fetch,
    taxonomy="cub200",
    counts=(13, 38, 200),
    images=(5_994, 5_794),
    publisher=PUBLISHER,
)
