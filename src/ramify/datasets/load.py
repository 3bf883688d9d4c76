"""`load_dataset`: from a name or a path to a `Dataset`."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ramify.arrays import Ints
from ramify.datasets.cache import SPLITS, Cache, Contents, open_or_build, read_names
from ramify.datasets.dataset import Dataset, Split, fingerprint
from ramify.datasets.features import FeatureFile, feature_file
from ramify.datasets.glance import forget_listings
from ramify.datasets.hf import PREFIX, hf_source
from ramify.datasets.own import own_source
from ramify.datasets.places import data_root, kept
from ramify.datasets.registry import SOURCES, Source, find_source
from ramify.datasets.table import folder_of, tables_in
from ramify.errors import RamifyError
from ramify.plural import counted
from ramify.taxonomy import Taxonomy, read_taxonomy
from ramify.typed import whole

log = logging.getLogger("ramify")

MAX_SIZE = 1024


def load_dataset(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    image_size: int | None = None,
    taxonomy: str | Path | Taxonomy | None = None,
    progress: bool = True,
    skip_broken: bool = False,
    any_counts: bool = False,
    pad: bool = False,
    thorough: bool = False,
) -> Dataset:
    """Open a dataset by its name, or your own by the path of a folder, a CSV manifest or a Parquet file.

    A file of features (.npz, .safetensors, or Parquet with lists of numbers) is a dataset, too.
    `hf:NAME?levels=COARSE,…,FINE` is a Hugging Face dataset on disk, with the columns that are its levels.

    Images are decoded once to `image_size` (None: the dataset's own) below the data folder and memory-mapped.
    `taxonomy`, a tree or what `read_taxonomy` reads, is laid over the classes by their names. `skip_broken`
    leaves out images that cannot be decoded; `any_counts` accepts a tree of other sizes than published; `pad`
    repeats leaves that are less deep than others downwards. A folder that was opened before counts as
    unchanged where none of its folders has changed; `thorough` looks at every file again.
    """
    root = data_root(data_dir)
    if thorough:
        forget_listings(root)
    path = Path(name_or_path).expanduser()
    if str(name_or_path) not in SOURCES and feature_file(path):
        file = FeatureFile(path.absolute(), pad)
        tree = None if taxonomy is None else read_taxonomy(taxonomy, pad)
        return _of_features(file, tree, kept(root, "features"), progress)
    source = _source(name_or_path, pad)
    size = source.image_size if image_size is None else image_size
    whole("image_size", size, 1, MAX_SIZE)
    chosen = source.taxonomy if taxonomy is None else taxonomy
    tree = None if chosen is None else read_taxonomy(chosen, pad)
    counts = () if any_counts or pad or taxonomy is not None else source.counts
    origin = source.open(root)

    def checked() -> Contents:
        contents = origin.contents()
        leaves = {split: getattr(contents, split).leaves for split in SPLITS}
        _laid(tree, contents.taxonomy, leaves, source.name, counts)
        return contents

    cache = open_or_build(
        replace(origin, contents=checked), size, kept(root, "decoded"), progress, skip_broken
    )
    leaves, own = _laid(tree, cache.taxonomy, cache.leaves, source.name, counts)
    for warning in cache.meta.warnings:
        log.warning("%s", warning)
    return _assemble(source, cache, own, leaves, origin.unread)


def dataset_tree(name_or_path: str | Path, data_dir: str | Path | None = None, pad: bool = False) -> Taxonomy:
    """The tree of a dataset without decoding its images: the one that ramify ships, or that of its files."""
    path = Path(name_or_path).expanduser()
    if str(name_or_path) not in SOURCES and feature_file(path):
        return FeatureFile(path.absolute(), pad).taxonomy
    source = _source(name_or_path, pad)
    if source.taxonomy is not None:
        return read_taxonomy(source.taxonomy, pad)
    return source.open(data_root(data_dir)).contents().taxonomy


def is_present(source: Source, root: Path) -> bool:
    """Whether the files of a source are below the data folder."""
    try:
        source.open(root)
    except RamifyError:
        return False
    return True


def _source(name_or_path: str | Path, pad: bool) -> Source:
    """A known name wins over a path (`./garden` is the path)."""
    if str(name_or_path) in SOURCES:
        return SOURCES[str(name_or_path)]
    if str(name_or_path).startswith(PREFIX):
        return hf_source(str(name_or_path), pad)
    path = Path(name_or_path).expanduser()
    if not path.exists():
        return find_source(str(name_or_path))
    return own_source(path, pad)


def _of_features(file: FeatureFile, tree: Taxonomy | None, folder: Path, progress: bool) -> Dataset:
    """A dataset of features from elsewhere, copied once to where they can be memory-mapped."""
    leaves, own = _laid(tree, file.taxonomy, file.leaves, file.name)
    found = tables_in(folder_of(folder, file.name, file.key), file.tables(), f"reading {file.name}", progress)
    train, test = (Split(found.arrays[split], leaves[split]) for split in SPLITS)
    dataset = Dataset(file.name, train, test, own, (0.0,) * 3, (1.0,) * 3, "", file.notes)
    return replace(dataset, fingerprint=fingerprint([found.meta.sha256[split] for split in SPLITS], dataset))


def _laid(
    tree: Taxonomy | None,
    own: Taxonomy,
    leaves: Mapping[str, Ints],
    name: str,
    counts: tuple[int, ...] = (),
) -> tuple[dict[str, Ints], Taxonomy]:
    """The leaves of each split in the given tree, and that tree; refuse other sizes than the published."""
    mapping, laid = _lay(tree, own, name)
    if counts and laid.sizes != counts:
        raise RamifyError(
            f"{name}: the tree has {laid.sizes} classes a level, published are {counts}; "
            "check the files, or accept it with --any-counts (any_counts=True)"
        )
    for split in SPLITS:
        if not len(leaves[split]):
            raise RamifyError(f"{name}: there are no {split} images")
    found = {split: mapping[own_leaves] for split, own_leaves in leaves.items()}
    missing = np.flatnonzero(np.bincount(found["train"], minlength=laid.leaves) == 0)
    if len(missing):
        first = laid.leaf_names[missing[0]]
        raise RamifyError(
            f"{name}: {counted(len(missing), 'class', 'classes')} without a training image, {first!r} first; "
            "add images or take the class out"
        )
    return found, laid


def _assemble(
    source: Source, cache: Cache, tree: Taxonomy, leaves: Mapping[str, Ints], unread: str
) -> Dataset:
    skipped = cache.meta.broken
    notes = (*cache.meta.notes, *cache.meta.warnings)
    if skipped:
        notes = (*notes, f"{len(skipped)} broken images are left out: see {cache.folder / 'broken.txt'}")
    if unread:
        notes = (*notes, unread)
    train, test = (Split(cache.images[split], leaves[split], read_names(cache, split)) for split in SPLITS)
    dataset = Dataset(source.name, train, test, tree, source.mean, source.std, "", notes)
    return replace(dataset, fingerprint=fingerprint([cache.meta.sha256[split] for split in SPLITS], dataset))


def _lay(tree: Taxonomy | None, own: Taxonomy, name: str) -> tuple[Ints, Taxonomy]:
    """Lay a tree over the classes of `own` by name: the new leaf of each, and the tree of those that occur.

    Names that differ in nothing but case and punctuation match: a folder cannot be called `Ram C/V`.
    """
    if tree is None:
        return np.arange(own.leaves), own
    counts = Counter(tree.leaf_names)
    known = {leaf: index for index, leaf in enumerate(tree.leaf_names) if counts[leaf] == 1}
    bare = {name: known[leaf] for name, leaf in loosely(known).items()}
    paths = {tree.path(index): index for index in range(tree.leaves)}  # of two leaves of one name
    found = [
        known.get(leaf, paths.get(own.path(index), bare.get(plain(leaf), -1)))
        for index, leaf in enumerate(own.leaf_names)
    ]
    strangers = [leaf for leaf, index in zip(own.leaf_names, found, strict=True) if index < 0]
    if strangers:
        raise RamifyError(
            f"{name}: {counted(len(strangers), 'class', 'classes')} not among the leaves of the given tree, "
            f"{strangers[0]!r} first; add them to the tree or rename them"
        )
    if len(set(found)) < len(found):
        raise RamifyError(f"{name}: two classes have the same leaf in the given tree: rename one of them")
    there = np.unique(found)
    attributes = {key: [values[i] for i in there] for key, values in tree.leaf_attributes.items()}
    return np.searchsorted(there, found), Taxonomy.from_rows([tree.path(i) for i in there], attributes)


def plain(name: str) -> str:
    """A name without case and punctuation: folders cannot always be called as in the tree."""
    return re.sub(r"[\W_]+", "", name).casefold()


def loosely(names: Iterable[str]) -> dict[str, str]:
    """The names by what is left of them without case and punctuation, where that is one name's alone."""
    names = list(names)
    counts = Counter(map(plain, names))
    return {plain(name): name for name in names if counts[plain(name)] == 1}
