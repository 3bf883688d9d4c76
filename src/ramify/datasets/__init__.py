"""Images with a label tree: built in, well-known, or your own. See `load_dataset`."""

from ramify.datasets import (
    aircraft,
    cars,
    cifar100,
    cub,
    garden,
    imagenet,
    inaturalist,
    omniglot,
    tiny_imagenet,
)
from ramify.datasets.dataset import Dataset, Split
from ramify.datasets.load import dataset_tree, is_present, load_dataset
from ramify.datasets.places import data_root
from ramify.datasets.registry import SOURCES, Source, find_source, register

__all__ = [
    "SOURCES",
    "Dataset",
    "Source",
    "Split",
    "data_root",
    "dataset_tree",
    "find_source",
    "is_present",
    "load_dataset",
]

for source in (
    garden.SOURCE,
    cifar100.SOURCE,
    cars.SOURCE,
    imagenet.SOURCE,
    inaturalist.SOURCE,
    inaturalist.MINI,
    cub.SOURCE,
    aircraft.SOURCE,
    omniglot.SOURCE,
    tiny_imagenet.SOURCE,
):
    register(source)
del source
