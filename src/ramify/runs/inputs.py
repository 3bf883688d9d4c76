"""What a run learns from: images as they are, or features of them, encoded once and kept on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ramify.arrays import Array
from ramify.datasets import Dataset, Split
from ramify.datasets.cache import SPLITS
from ramify.datasets.table import Chunk, SplitRows, folder_of, tables_in
from ramify.methods.settings import AugmentSettings, Settings
from ramify.named import is_own
from ramify.networks import FeatureInputs, ImageInputs
from ramify.networks.build import own_normalisation
from ramify.networks.encoder import Encoder, split_network
from ramify.networks.inputs import ARRAY_DTYPES, DTYPES
from ramify.networks.settings import FEATURES, NetworkSettings
from ramify.pixels import Channels
from ramify.randomness import Generators
from ramify.runs.config import Config
from ramify.typed import to_dict

STEP = 256  # images encoded between two looks at the clock
PLAIN = AugmentSettings(padding=0, flip=False, autoaugment="none", cutmix=0.0)


@dataclass(frozen=True)
class Prepared:
    """A config as it applies to its dataset, what of that is learned, and the network that learns it."""

    config: Config
    dataset: Dataset
    inputs: FeatureInputs
    encoder: Encoder | None = None
    network: nn.Module | None = None
    """What comes after the encoder; None: it is built by its settings."""


def prepare_inputs(config: Config, dataset: Dataset, device: torch.device) -> Prepared:
    """Encode the images of a dataset where the network is frozen; features are learned as they are."""
    if dataset.of_features:
        kind = torch.float16 if dataset.train.images.dtype == np.float16 else torch.float32
        inputs = FeatureInputs(dataset.image_size, kind)
        return Prepared(replace(config, **on_features(config)), dataset, inputs)
    images = image_inputs(config.network, dataset.image_size, dataset.mean, dataset.std)
    if not config.network.encodes:
        return Prepared(config, dataset, images)
    encoder, network = split_network(
        config.network, images, config.seed, device, DTYPES[config.feature_dtype], config.precision
    )
    learned = encoded(dataset, encoder, config)
    inputs = FeatureInputs(encoder.size, encoder.dtype, config.feature_views)
    config = replace(config, augment=augmentation(config), precision=encoder.precision)
    return Prepared(config, learned, inputs, encoder, network)


def on_features(settings: Settings) -> dict[str, Any]:
    """The settings that apply to a dataset of features: no augmentation, and no network for images."""
    chosen = settings.network
    if not is_own(chosen.name):
        chosen = NetworkSettings(FEATURES, hidden=chosen.hidden, lr_factor=chosen.lr_factor)
    return {"augment": PLAIN, "network": chosen, "feature_views": 0}


def may_become(config: Config) -> tuple[Config, ...]:
    """What a run may write of this config, by its dataset: as it is, on features, and on encoded images."""
    found = config, replace(config, **on_features(config))
    return (*found, replace(config, augment=augmentation(config))) if config.network.encodes else found


def augmentation(settings: Settings) -> AugmentSettings:
    """What of it can be applied before images are encoded: it makes the views, and none without them."""
    return replace(settings.augment, cutmix=0.0) if settings.feature_views else PLAIN


def image_inputs(settings: NetworkSettings, size: int, mean: Channels, std: Channels) -> ImageInputs:
    """Images with mean and deviation as told, else as the network was trained with, else these."""
    own = own_normalisation(settings) or (mean, std)
    return ImageInputs(size, mean=settings.mean or own[0], std=settings.std or own[1])


def encoded(dataset: Dataset, encoder: Encoder, settings: Config) -> Dataset:
    """The features of a dataset's images, kept beside the decoded images where these are on disk."""
    tables = {
        "train": _rows(dataset.train, encoder, settings, settings.feature_views),
        "test": _rows(dataset.test, encoder, settings, 0),
    }
    network, where = settings.network.name, getattr(dataset.train.images, "filename", None)
    if where is None:
        arrays = {name: _all(rows) for name, rows in tables.items()}
        seconds = ""
    else:
        folder = Path(where).parent
        key: dict[str, Any] = {"images": folder.name, **encoder.key()}
        if settings.feature_views:
            augment = to_dict(augmentation(settings))
            key |= {"views": settings.feature_views, "augment": augment, "seed": settings.seed}
        name = f"{dataset.name}-{dataset.image_size}-{network.replace(':', '-').replace('/', '-')}"
        there = folder_of(folder.parent.with_name("features"), name, key)
        found = tables_in(there, tables, f"encoding {dataset.name} by {network}", progress=True)
        arrays, seconds = dict(found.arrays), f", {found.meta.seconds:,.0f} s"
    train, test = (replace(getattr(dataset, name), images=arrays[name]) for name in SPLITS)
    count = len(dataset.train) + len(dataset.test)
    note = f"encoded once by {network}: {count:,} images, {encoder.size:,} values each{seconds}"
    return replace(dataset, train=train, test=test, notes=(*dataset.notes, note))


def _rows(split: Split, encoder: Encoder, settings: Config, views: int) -> SplitRows:
    augment, rng = augmentation(settings).made(), Generators(settings.seed)

    def make(start: int, stop: int) -> Chunk:
        images = np.array(split.images[start:stop])
        if not views:
            return encoder.array(images), []
        rng.restart(("views",), start)  # the same views wherever encoding was continued
        pixels = torch.from_numpy(images)
        seen = [augment.apply(pixels, augment.draw(len(images), rng["views"])) for _ in range(views)]
        return np.stack([encoder.array(one) for one in (pixels, *seen)], 1), []

    shape = (views + 1, encoder.size) if views else (encoder.size,)
    return SplitRows(len(split), shape, np.dtype(ARRAY_DTYPES[encoder.dtype]), make, STEP)


def _all(rows: SplitRows) -> Array:
    parts = [rows.make(at, min(at + rows.step, rows.count))[0] for at in range(0, rows.count, rows.step)]
    return np.concatenate(parts)
