"""Images with a label tree: built in, well-known, or your own. See `load_dataset`."""

from ramify.datasets import cifar100, garden
from ramify.datasets.dataset import Dataset, Split
from ramify.datasets.load import data_root, load_dataset
from ramify.datasets.registry import SOURCES, Source, find_source

__all__ = [
    "SOURCES",
    "Dataset",
    "Source",
    "Split",
    "cifar100",
    "data_root",
    "find_source",
    "garden",
    "load_dataset",
]
