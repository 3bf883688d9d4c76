"""stanford-cars: the official images and .mat annotations, or class folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ramify.datasets.archives import extract
from ramify.datasets.cache import Contents, Origin
from ramify.datasets.fetch import Publisher
from ramify.datasets.folders import folder_origin
from ramify.datasets.listing import FileImages, image_files, stamps
from ramify.datasets.places import first_there
from ramify.datasets.registry import Source
from ramify.datasets.splits import assemble
from ramify.errors import RamifyError

FOLDERS = ("stanford-cars", "stanford_cars")
ARCHIVES = {
    "car_ims.tgz": "car_ims",
    "cars_train.tgz": "cars_train",
    "cars_test.tgz": "cars_test",
    "car_devkit.tgz": "devkit",
}

HOW = (
    "the official host is gone; copies are on kaggle.com (jessicali9530/stanford-cars-dataset, with a login) "
    "and in github.com/pytorch/vision/issues/7545; put there car_ims.tgz and cars_annos.mat, or cars_train, "
    "cars_test, devkit and cars_test_annos_withlabels.mat, or train/CLASS and test/CLASS"
)


class Annotation(NamedTuple):
    """One image of a .mat file: where it is, its class name, and its split."""

    path: str
    label: str
    part: str


def get(root: Path, progress: bool) -> None:
    """Unpack the archives that were put there: nothing can be downloaded."""
    folder = first_there(root, FOLDERS)
    for archive, name in ARCHIVES.items():
        if (folder / archive).is_file() and not (folder / name).exists():
            extract(folder / archive, folder, name)
    find(root)


def find(root: Path) -> Origin:
    """The one layout of three that is there."""
    folder = first_there(root, FOLDERS)
    if (folder / "cars_annos.mat").is_file() and (folder / "car_ims").is_dir():
        return _origin(folder, ["cars_annos.mat"], ["car_ims"])
    test = next(
        (
            p
            for p in ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat")
            if (folder / p).is_file()
        ),
        None,
    )
    mats = ["devkit/cars_meta.mat", "devkit/cars_train_annos.mat"]
    images = ["cars_train", "cars_test"]
    if test and all((folder / path).exists() for path in (*mats, *images)):
        return _origin(folder, [*mats, test], images)
    if (folder / "train").is_dir():
        return folder_origin(folder, "stanford-cars")
    packed = [archive for archive in ARCHIVES if (folder / archive).is_file()]
    if packed and packed != ["car_devkit.tgz"]:
        raise RamifyError(f"{folder / packed[0]} is not unpacked: run `ramify data get stanford-cars`")
    raise RamifyError(f"no stanford-cars in {folder}: {HOW}")


def _origin(folder: Path, mats: Sequence[str], images: Sequence[str]) -> Origin:
    files = [f"{part}/{'/'.join(path)}" for part in images for path in image_files(folder / part)]

    def contents() -> Contents:
        rows = read_annotations([folder / mat for mat in mats])
        images = FileImages.chosen(folder, [row.path for row in rows])
        return assemble([(row.label,) for row in rows], [row.part for row in rows], images, str(folder))

    return Origin("stanford-cars", {"files": stamps(folder, [*mats, *files])}, contents)


def read_annotations(mats: Sequence[Path]) -> list[Annotation]:
    """The rows of `cars_annos.mat`, or of the devkit's meta, train and test files."""
    loaded = [_load(path) for path in mats]
    try:
        names = [str(name) for name in loaded[0]["class_names"]]
        if len(loaded) == 1:
            return [
                Annotation(
                    str(row["relative_im_path"]),
                    names[int(row["class"]) - 1],
                    "test" if row["test"] else "train",
                )
                for row in loaded[0]["annotations"]
            ]
        return [
            Annotation(f"cars_{part}/{row['fname']}", names[int(row["class"]) - 1], part)
            for part, table in zip(("train", "test"), loaded[1:], strict=True)
            for row in table["annotations"]
        ]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RamifyError(
            f"{mats[0]} and its like are not the annotations of Stanford Cars ({error!r})"
        ) from error


def _load(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        content: dict[str, Any] = loadmat(str(path), squeeze_me=True)
    except Exception as error:  # a damaged file can raise anything
        raise RamifyError(f"{path} cannot be read as a .mat file ({error}): get it again") from error
    return content


SOURCE = Source(
    "stanford-cars",
    "Stanford Cars, 16,185 photographs in 9 types and 196 models",
    find,
    get,
    taxonomy="stanford-cars",
    counts=(9, 196),
    images=(8_144, 8_041),
    publisher=Publisher(
        "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        "non-commercial research and education, as ImageNet's",
    ),
)
