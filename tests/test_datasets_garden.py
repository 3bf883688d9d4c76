import hashlib
import time

import numpy as np
import pytest

from ramify.datasets import garden, load_dataset

PIXELS = "8a8955fe10a2ae2c88b0982fbf984679362b50ee96908419b02f2a5cf571223f"


@pytest.fixture(scope="module")
def drawn():
    start = time.process_time()
    pictures = np.stack([garden.draw(leaf, 125) for leaf in range(48)])
    return pictures, time.process_time() - start


def test_every_machine_draws_the_same_bytes_in_time(drawn):
    pictures, seconds = drawn
    assert hashlib.sha256(pictures.tobytes()).hexdigest() == PIXELS
    assert seconds < 10


def test_tree_and_counts():
    dataset = load_dataset("garden", progress=False)
    assert dataset.taxonomy.sizes == (2, 4, 12, 48)
    assert np.bincount(dataset.train.leaves).tolist() == [100] * 48
    assert np.bincount(dataset.test.leaves).tolist() == [25] * 48
    assert dataset.train.images.shape == (4800, 3, 32, 32)


def test_cache_holds_the_drawing(drawn):
    dataset = load_dataset("garden", progress=False)
    pictures, _ = drawn
    np.testing.assert_array_equal(dataset.train.images, pictures[:, :100].reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(dataset.test.images, pictures[:, 100:].reshape(-1, 3, 32, 32))


def test_second_start_is_quick_and_maps_the_pixels():
    load_dataset("garden", progress=False)
    start = time.process_time()
    dataset = load_dataset("garden", progress=False)
    assert time.process_time() - start < 1
    assert isinstance(dataset.train.images, np.memmap)
    assert not dataset.train.images.flags.writeable


def test_no_two_pictures_are_alike(drawn):
    pictures = drawn[0].reshape(6000, -1)
    assert len(np.unique(pictures[:, ::7], axis=0)) == 6000


def test_relatives_look_alike(drawn):
    """Mean pictures (nuisance averaged out) are nearest within their genus far more often than by chance."""
    means = drawn[0].mean(axis=1).reshape(48, -1)
    distances = ((means[:, None] - means) ** 2).sum(-1)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(1)
    assert (nearest // 4 == np.arange(48) // 4).mean() > 0.6  # by chance: 3/47
    assert (nearest // 24 == np.arange(48) // 24).mean() > 0.85


def test_other_sizes_are_stretched():
    dataset = load_dataset("garden", image_size=16, progress=False)
    assert dataset.train.images.shape[1:] == (3, 16, 16)
    full = load_dataset("garden", progress=False)
    assert abs(dataset.train.images[:100].mean() - full.train.images[:100].mean()) < 1
    assert dataset.fingerprint != full.fingerprint
