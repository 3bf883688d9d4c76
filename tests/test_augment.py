"""Crop, flip, the policies' draws, normalisation and CutMix."""

from collections import Counter
from dataclasses import replace
from functools import reduce
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramify.memory import Batch, Sample, arrived
from ramify.methods import METHODS, Trainer, ahead, make_settings
from ramify.methods.checks import SIZE, Toy, Watched, learner
from ramify.networks import ImageInputs, Targets
from ramify.networks.levels import level_sets
from ramify.randomness import Generators
from ramify.training.augment import Augment, as_it_is, crop_flip
from ramify.training.autoaugment import AutoAugmentName, auto_augment
from ramify.training.autoaugment_ops import Op
from ramify.training.cutmix import CutMix, unmixed

seeds = st.integers(0, 2**32)
quick = settings(max_examples=60)


def random_images(rng: np.random.Generator, n: int, height: int, width: int) -> torch.Tensor:
    return torch.from_numpy(rng.integers(1, 256, (n, 3, height, width), dtype=np.uint8))


@quick
@given(seeds, st.integers(1, 9), st.integers(1, 12), st.integers(1, 12), st.integers(0, 4))
def test_crop_and_flip_image_by_image(seed: int, n: int, height: int, width: int, padding: int) -> None:
    rng = np.random.default_rng(seed)
    images = random_images(rng, n, height, width)
    top, left = rng.integers(0, 2 * padding + 1, (2, n))
    flip = rng.random(n) < 0.5
    result = crop_flip(images, top, left, flip, padding).numpy()
    for i, image in enumerate(images.numpy()):
        mirrored = image[:, :, ::-1] if flip[i] else image
        padded = np.pad(mirrored, ((0, 0), (padding, padding), (padding, padding)))
        assert (result[i] == padded[:, top[i] : top[i] + height, left[i] : left[i] + width]).all()


def test_draws_cover_every_crop_and_half_of_the_flips() -> None:
    draw = Augment(padding=4).draw(20_000, np.random.default_rng(0))
    for offset in (draw.top, draw.left):
        counts = np.bincount(offset, minlength=9)
        assert len(counts) == 9
        assert np.abs(counts / 20_000 - 1 / 9).max() < 0.01
    assert abs(draw.flip.mean() - 0.5) < 0.02
    assert not Augment(flip=False).draw(100, np.random.default_rng(0)).flip.any()


def test_without_padding_flip_and_policy_images_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    images = random_images(rng, 5, 7, 9)
    augment = Augment(None, padding=0, flip=False)
    assert torch.equal(augment.apply(images, augment.draw(5, rng)), images)


@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_augment_repeats_by_seed_and_trains(name: AutoAugmentName) -> None:
    augment = Augment(name)
    images = random_images(np.random.default_rng(0), 40, 32, 32)
    kept = images.clone()
    first, again, other = (
        augment.apply(images, augment.draw(40, np.random.default_rng(seed))) for seed in (1, 1, 2)
    )
    assert torch.equal(images, kept)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    weight = torch.ones(1, 3, 3, 3, requires_grad=True)
    torch.nn.functional.conv2d(ImageInputs(32).ready(first), weight).sum().backward()
    assert weight.grad is not None


def bench_and_batch(labels: list[tuple[int, ...]], levels: list[int], seed: int = 0) -> tuple[Watched, Batch]:
    """A learner that knows classes of these levels, and samples with these labels that have arrived."""
    bench = learner(METHODS["er"], Toy.stream(1))
    for label, level in enumerate(levels):
        bench.classes.meet(level, label, 0)
    images = random_images(np.random.default_rng(seed), len(labels), SIZE, SIZE)
    return bench, arrived([Sample(i, own) for i, own in zip(images, labels, strict=True)])


def test_a_batch_is_augmented_with_the_draws_of_its_own_generator() -> None:
    augment = Augment("cifar10")
    bench, batch = bench_and_batch([(0,)] * 9, [1])
    kept = batch.inputs.clone()
    rng = Generators(bench.rng.seed)["augment"]
    for _ in range(3):
        assert torch.equal(augment(bench, batch), augment.apply(kept, augment.draw(9, rng)))
    assert torch.equal(batch.inputs, kept)
    assert as_it_is(bench, batch) is batch.inputs


# The sum of the probabilities of each operation over the table of the paper's appendix.
TOTALS = {
    "cifar10": {
        Op.SHEAR_X: 0, Op.SHEAR_Y: 0.7, Op.TRANSLATE_X: 0.8, Op.TRANSLATE_Y: 3.4, Op.ROTATE: 0.7,
        Op.CONTRAST: 0.8, Op.COLOR: 2.9, Op.SHARPNESS: 2.8, Op.BRIGHTNESS: 2.3, Op.INVERT: 0.2,
        Op.POSTERIZE: 0.3, Op.SOLARIZE: 1.9, Op.AUTOCONTRAST: 5.0, Op.EQUALIZE: 4.7,
    },
    "imagenet": {
        Op.SHEAR_X: 0.6, Op.SHEAR_Y: 0, Op.TRANSLATE_X: 0, Op.TRANSLATE_Y: 0, Op.ROTATE: 3.6,
        Op.CONTRAST: 2.0, Op.COLOR: 3.8, Op.SHARPNESS: 0.4, Op.BRIGHTNESS: 0, Op.INVERT: 1.8,
        Op.POSTERIZE: 2.8, Op.SOLARIZE: 3.6, Op.AUTOCONTRAST: 1.2, Op.EQUALIZE: 11.2,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ["cifar10", "imagenet"])
def test_policies_have_the_published_probabilities(name: AutoAugmentName) -> None:
    compiled = auto_augment(name, 32, 32, torch.device("cpu"))
    weights = np.diff(np.concatenate([[0], compiled.edges, [1]]))
    assert weights.sum() == pytest.approx(1)
    kinds = np.searchsorted(compiled.operations.edges, compiled.outcomes, side="right") - 1
    totals: Counter[Op] = Counter()
    for stage, outcome in product(range(2), range(len(weights))):
        totals[Op(kinds[stage, outcome])] += 25 * weights[outcome]
    assert {op: totals[op] for op in TOTALS[name]} == pytest.approx(TOTALS[name])
    # A first operation is missing only if the second is.
    assert (kinds[1][kinds[0] == Op.IDENTITY] == Op.IDENTITY).all()


def test_one_sub_policy_in_full() -> None:
    """Rotate 0.7 at strength 2, then TranslateX 0.3 at strength 9, on images 66 wide (150/331: 29 px)."""
    compiled = auto_augment("cifar10", 32, 66, torch.device("cpu"))
    table = compiled.operations
    weights = np.diff(np.concatenate([[0], compiled.edges, [1]]))
    kinds = np.searchsorted(table.edges, compiled.outcomes, side="right") - 1
    both = (kinds[0] == Op.ROTATE) & (kinds[1] == Op.TRANSLATE_X)
    assert weights[both] == pytest.approx([0.7 * 0.3 / 25 / 4] * 4)
    image = torch.arange(66, dtype=torch.uint8).repeat(1, 3, 32, 1)
    shifted = {
        int(table(image, np.array([[number]]))[0, 0, 0, 33])
        for number in np.unique(compiled.outcomes[1, both])
    }
    assert shifted == {33 - 29, 33 + 29}


def test_choose_follows_the_weights() -> None:
    compiled = auto_augment("cifar10", 8, 8, torch.device("cpu"))
    chosen = compiled.choose(np.random.default_rng(0).random(200_000))
    weights = np.diff(np.concatenate([[0], compiled.edges, [1]]))
    nothing = weights[(compiled.outcomes == 0).all(0)].sum()
    assert abs((chosen == 0).all(0).mean() - nothing) < 0.005
    first = np.bincount(compiled.outcomes[0], weights)
    assert np.abs(np.bincount(chosen[0], minlength=len(first)) / 200_000 - first).max() < 0.005


@quick
@given(seeds)
def test_normalize_is_its_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = random_images(rng, 3, 4, 5)
    mean, std = tuple(rng.random(3)), tuple(rng.uniform(0.1, 0.5, 3))
    expected = (images.numpy() / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    kept = images.clone()
    result = ImageInputs(4, mean=mean, std=std).ready(images)
    assert result.dtype == torch.float32
    assert torch.equal(images, kept)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-5)


def mix(cutmix: CutMix, images: torch.Tensor, levels: Any, rng: np.random.Generator) -> Any:
    """Images, partners and shares."""
    mixture = cutmix.choose(levels, images.shape[2], images.shape[3], rng)
    batch = replace(arrived([Sample(image, (0,)) for image in images]), mixture=mixture)
    return cutmix.paste(images, batch), mixture.partner, mixture.lam


@quick
@given(seeds, st.integers(1, 20), st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_cutmix_pastes_one_box_a_level(seed: int, n: int, height: int, width: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 5, n)
    images = torch.arange(1, n + 1).to(torch.uint8).view(n, 1, 1, 1).repeat(1, 3, height, width)
    images = images if whole else images.float() / 3
    mixed, partner, lam = mix(CutMix(probability=1), images, levels, rng)
    assert mixed.dtype == images.dtype
    assert lam.dtype == np.float32
    assert partner is not None
    assert sorted(partner) == list(range(n))
    assert (levels[partner] == levels).all()
    for level in np.unique(levels):
        members = np.flatnonzero(levels == level)
        assert len(set(lam[members])) == 1
        for i in members:
            own, other = images[i, 0, 0, 0], images[partner[i], 0, 0, 0]
            assert ((mixed[i] == own) | (mixed[i] == other)).all()
            if own != other:
                pasted = (mixed[i] == other).all(0).numpy()
                assert lam[i] == pytest.approx(1 - pasted.mean(), abs=1e-6)
                rows, columns = pasted.any(1), pasted.any(0)
                assert (pasted == np.outer(rows, columns)).all()
                assert all((np.diff(np.flatnonzero(edge)) == 1).all() for edge in (rows, columns))


def test_cutmix_mixes_with_its_probability() -> None:
    rng = np.random.default_rng(0)
    images = random_images(rng, 8, 16, 16)
    levels = np.ones(8, np.int64)
    lams = []
    for _ in range(2000):
        mixed, partner, lam = mix(CutMix(), images, levels, rng)
        if partner is None:
            assert mixed is images
            lam = np.ones(1)
        elif (lam == 1).all():
            assert torch.equal(mixed, images)
        lams.append(lam[0])
    assert abs(np.mean(np.array(lams) < 1) - 0.5) < 0.04
    mixed, partner, lam = mix(CutMix(probability=0), images, levels, rng)
    assert mixed is images
    assert partner is None


LEVELS = [1, 2, 1, 2, 2, 4, 2]  # of classes 0, 1, …; level 3 has none
OF_LEVEL = {1: [0, 2], 2: [1, 3, 4, 6], 4: [5]}
some_labels = st.fixed_dictionaries(
    {}, optional={level: st.sampled_from(classes) for level, classes in OF_LEVEL.items()}
)  # several, one or none, each at another level
label_lists = st.lists(some_labels.map(lambda found: tuple(found[h] for h in sorted(found))), min_size=1)


@quick
@given(label_lists)
def test_level_sets_are_the_rows_with_labels_at_the_same_levels(labels: list[tuple[int, ...]]) -> None:
    _, batch = bench_and_batch(labels, LEVELS)
    sets = level_sets(batch.labels, np.array(LEVELS))
    mine = [{LEVELS[c] for c in own} for own in labels]
    for i, j in product(range(len(labels)), repeat=2):
        assert (sets[i] == sets[j]) == (mine[i] == mine[j])
    if all(len(own) == 1 for own in labels):
        assert [{number} for number in sets.tolist()] == mine


@quick
@given(label_lists, seeds)
def test_samples_with_any_labels_are_mixed_among_those_with_labels_at_the_same_levels(
    labels: list[tuple[int, ...]], seed: int
) -> None:
    bench, batch = bench_and_batch(labels, LEVELS, seed)
    bench.rng = Generators(seed)
    plain, images = Targets.of(batch.labels), batch.inputs.float()
    mixed, targets = CutMix(probability=1)(bench, batch, images, plain)
    rows = np.arange(len(labels)) if targets.rows is None else targets.rows
    # the pure part with the same draws says who was whose partner
    bench.rng = Generators(seed)
    mixture = CutMix(probability=1).draw(bench, batch).mixture
    assert mixture is not None
    partner, lam = mixture.partner, mixture.lam
    assert lam is not None
    assert partner is not None
    for i, own in enumerate(labels):
        other = labels[partner[i]]
        assert {LEVELS[c] for c in own} == {LEVELS[c] for c in other}
        pasted = (mixed[i] != images[i]).any(0)
        assert torch.equal(mixed[i][:, pasted], images[partner[i]][:, pasted])
        assert pasted.float().mean() <= 1 - lam[i] + 1e-6
        groups = np.flatnonzero(rows == i)
        # one group a label, with the partner's class at its level; their weights are λ and the rest to 1
        assert targets.classes[groups].tolist() == [list(pair) for pair in zip(own, other, strict=True)]
        assert targets.weights is not None
        np.testing.assert_allclose(targets.weights[groups].sum(1), 1, rtol=1e-6)
        np.testing.assert_array_equal(targets.weights[groups, 0], np.full(len(own), lam[i]))
    assert len(targets) == sum(map(len, labels))


def test_what_is_not_mixed_stays_as_it_is() -> None:
    bench, batch = bench_and_batch([(0,), (), (0, 1)], LEVELS)
    targets = Targets.of(batch.labels)
    for leave in (CutMix(probability=0), unmixed):
        images, same = leave(bench, batch, batch.inputs, targets)
        assert images is batch.inputs
        assert same is targets


@given(st.integers(0, 2**32), st.lists(st.integers(2, 9), min_size=1, max_size=5))
def test_batches_are_augmented_together_as_one_by_one(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    augment: Any = Augment("cifar10")
    bench = SimpleNamespace(rng=Generators(seed))
    batches = [
        arrived([Sample(torch.from_numpy(rng.integers(0, 256, (3, 8, 8), np.uint8)), (0,), 0)] * size)
        for size in sizes
    ]
    before = bench.rng.state()
    draws = [augment.draw(size, bench.rng["augment"]) for size in sizes]
    together = augment.together(reduce(Batch.join, batches).inputs, draws).split(sizes)
    after = bench.rng.state()
    bench.rng.restore(before)
    for batch, made in zip(batches, together, strict=True):
        assert torch.equal(made, augment(bench, batch))
    assert bench.rng.state() == after


def test_the_more_often_an_image_was_rehearsed_the_more_often_it_is_changed_in_full() -> None:
    """New ones get crop and flip alone; AutoAugment and CutMix touch k / (k + half) of the others."""
    n, half = 1000, 5.0
    bench, batch = bench_and_batch([(0,)] * (3 * n), [1])
    batch = replace(batch, rehearsed=np.repeat([0, 5, 45], n))
    augment = Augment("cifar10", half=half)
    draw = augment.draw(3 * n, np.random.default_rng(0), batch.rehearsed)
    np.testing.assert_allclose(draw.ripe.reshape(3, n).mean(1), [0, 0.5, 0.9], atol=0.05)
    plain = Augment(None).apply(batch.inputs, draw)
    changed = (augment.apply(batch.inputs, draw) != plain).flatten(1).any(1).numpy()
    assert not (changed & ~draw.ripe).any()
    assert changed[draw.ripe].mean() > 0.3
    mixed, _ = CutMix(1.0, half=half)(bench, batch, batch.inputs, Targets.of(batch.labels))
    touched = (mixed != batch.inputs).flatten(1).any(1).numpy().reshape(3, n).mean(1)
    np.testing.assert_allclose(touched, [0, 0.5, 0.9], atol=0.06)


class InTurn(CutMix):
    """Another part than `CutMix`, so that each batch is mixed when its update comes."""


@pytest.mark.parametrize("method", ["er", "clib", "canopy"])
def test_batches_mixed_ahead_learn_what_those_mixed_in_turn_learn(method: str) -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (40, 3, 16, 16), np.uint8)
    labels = [[(1, i % 2)] if i % 3 else [(1, i % 2), (2, i % 5)] for i in range(40)]
    network = {"name": "tiny_runs:three_layers"}
    settings = make_settings(memory_size=16, batch_size=8, updates_per_sample=2.5, network=network)
    states = []
    for part in (CutMix, InTurn):
        made = Trainer(METHODS[method], settings, ImageInputs(16))
        assert isinstance(made.mix, CutMix)
        made.mix = part(0.7, half=made.mix.half)
        made.observe(images, labels)
        states.append(made.state())
    same(*states)


class Darker(Augment):
    """An augmentation of one's own that changes what ramify's makes of a batch."""

    def __call__(self, bench: Any, batch: Batch) -> torch.Tensor:
        return super().__call__(bench, batch) // 2


@pytest.mark.parametrize("method", ["er", "clib"])
def test_an_augmentation_of_ones_own_is_asked_for_every_batch(method: str) -> None:
    images = np.full((40, 3, 16, 16), 255, np.uint8)
    settings = make_settings(memory_size=16, batch_size=8, network={"name": "tiny_runs:three_layers"})
    made = Trainer(METHODS[method], settings, ImageInputs(16))
    made.augment, made.mix = Darker(None, padding=0), None
    seen, ready = [], made.inputs.ready
    object.__setattr__(made.inputs, "ready", lambda values: seen.append(values) or ready(values))
    made.observe(images, [[(1, i % 2)] for i in range(40)])
    assert made.updates
    trained = [values for values in seen if values.max() < 255]
    assert len(trained) >= made.updates
    assert all((values == 127).all() for values in trained)


@pytest.mark.parametrize("method", ["er", "clib", "pl-fms", "canopy", "mir", "rm"])
def test_updates_made_ahead_learn_what_single_ones_learn(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 3, 16, 16), np.uint8)
    labels = [[(1, i % 2), (2, i % 5)][: 1 + i % 2] if i % 7 else [] for i in range(40)]
    network = {"name": "tiny_runs:three_layers"}
    settings = make_settings(memory_size=12, batch_size=8, updates_per_sample=2.5, network=network)
    together, seen = Augment.together, []
    monkeypatch.setattr(Augment, "together", lambda *a: seen.append(len(a[2])) or together(*a))
    states = []
    for limit in (ahead.BYTES, 0):
        monkeypatch.setattr(ahead, "BYTES", limit)
        made = Trainer(METHODS[method], settings, ImageInputs(16))
        made.observe(images, labels)
        states.append(made.state())
    counts = {"er": 10, "clib": 3, "pl-fms": 10, "canopy": 10, "mir": 0, "rm": 1}
    assert max(seen, default=0) == counts[method]
    assert states[0]["updates"] > 10 or method == "rm"
    same(*states)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(("learn", "single", "save", "size")), max_size=12))
@settings(max_examples=12)
def test_batches_of_later_calls_are_made_ahead_as_when_they_are_due(seed: int, moments: list[str]) -> None:
    """CLIB draws from memory alone: with `CALLS` at 1 each batch is made when its update is due."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (200, 3, 16, 16), np.uint8)
    labels = [[(1, i % 3)] for i in range(200)]
    network = {"name": "tiny_runs:three_layers"}
    settings = make_settings(memory_size=40, batch_size=4, updates_per_sample=1.5, network=network)
    states, made, make = [], [], ahead.Ahead._make
    for most in (3, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ahead, "CALLS", most)
            patch.setattr(ahead.Ahead, "_make", lambda *a: made.append(a[2]) or make(*a))
            one = Trainer(METHODS["clib"], settings, ImageInputs(16))
            one.observe(images[:80], labels[:80])
            for place, moment in enumerate(moments, 8):
                one.observe(images[10 * place : 10 * place + 10], labels[10 * place : 10 * place + 10])
                if moment == "single":  # as a correction makes one
                    one.update(one.memory.batch(np.arange(3)), 1e-3)
                elif moment == "save":
                    one.restore(one.state())
                elif moment == "size":
                    one.settings = replace(one.settings, batch_size=9 - one.settings.batch_size)
        states.append(one.state())
    assert made.count(3) > 5
    same(*states)


def same(one: object, other: object) -> None:
    """Equal to the bit, however nested."""
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name])
    elif isinstance(one, torch.Tensor):
        assert isinstance(other, torch.Tensor)
        assert torch.equal(one, other)
    else:
        np.testing.assert_equal(one, other)
