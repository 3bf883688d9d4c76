"""Images with a label tree: built in, well-known, or your own. See `load_dataset`."""

from ramify.datasets import cars, cifar100, garden, imagenet, inaturalist
from ramify.datasets.dataset import Dataset, Split
from ramify.datasets.load import data_root, is_present, load_dataset
from ramify.datasets.registry import SOURCES, Source, find_source, register

__all__ = ["SOURCES", "Dataset", "Source", "Split", "data_root", "find_source", "is_present", "load_dataset"]

for module in (garden, cifar100, cars, imagenet, inaturalist):
    register(module.SOURCE)
del module
