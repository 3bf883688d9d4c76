"""Every registered method passes the shared checks, and what is each method's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import ramify.methods.bic as bic
import ramify.methods.checks as checks
import ramify.methods.epochs as epochs
from ramify.errors import RamifyError
from ramify.methods import METHODS, Engine, find_method
from ramify.methods.checks import (
    CHECKS,
    SETTINGS,
    SIZE,
    Toy,
    ToyNetwork,
    check_method,
    learner,
    same,
    weights,
)
from ramify.methods.settings import BicSettings, EpochSettings, NetworkSettings
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf, MemoryOnly
from ramify.training.objectives import CrossEntropy
from ramify.training.schedules import Rate
from ramify.training.targets import Targets, cross_entropy


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", sorted(METHODS))
def test_shared(name, check):
    check(METHODS[name])


def test_a_method_of_ones_own_is_checked_by_name_or_as_it_is(monkeypatch):
    done = []
    monkeypatch.setattr(checks, "CHECKS", (done.append, checks.refuses_to_guess))
    check_method("ramify.methods.er:er")
    check_method(METHODS["clib"])
    assert done == [METHODS["er"], METHODS["clib"]]


def test_bad_methods_are_caught():
    er = METHODS["er"]

    def idle(settings, rng):
        return replace(er(settings, rng), rate=Rate(1e-9))

    with pytest.raises(AssertionError, match="learns: accuracy"):
        check_method(idle)

    def forgetful(settings, rng):  # its batches hang on draws that no state remembers
        return replace(er(settings, rng), rehearse=HalfAndHalf(np.random.default_rng(1)))

    with pytest.raises(AssertionError, match="goes on otherwise"):
        checks.continues_from_its_state(forgetful)

    class Quiet(CrossEntropy):
        def loss(self, forward):
            return super().loss(forward).nan_to_num(0.0)

    with pytest.raises(AssertionError, match="did not raise"):
        checks.stops_at_a_broken_loss(lambda settings, rng: replace(er(settings, rng), minimise=Quiet()))

    restless = np.random.default_rng()

    with pytest.raises(AssertionError, match="one seed differ"):
        checks.follows_the_seed(
            lambda settings, rng: replace(er(settings, rng), rehearse=HalfAndHalf(restless))
        )

    with pytest.raises(RamifyError, match="empty batch"):  # ER stores after training: nothing is there yet
        checks.learns(lambda settings, rng: replace(er(settings, rng), rehearse=MemoryOnly(rng["rehearse"])))


class Traced(Engine):
    """Remembers which images were trained on: the toy's images are all different."""

    def update(self, batch, rate=None):
        self.trained = getattr(self, "trained", set()) | {fingerprint(i) for i in batch.images}
        return super().update(batch, rate)


def fingerprint(image):
    return image.numpy().tobytes()


def traced(name, toy, **settings):
    return Traced(
        METHODS[name], replace(SETTINGS, **settings), SIZE, (0.5,) * 3, (0.25,) * 3, network=ToyNetwork()
    )


def test_bias_layers_are_fitted_on_samples_that_are_never_trained_on(monkeypatch):
    fitted = []
    original = bic.stored
    monkeypatch.setattr(
        bic, "stored", lambda memory, slots: fitted.append(original(memory, slots)) or fitted[-1]
    )
    toy = Toy.stream(160)
    engine = traced("bic", toy, memory_size=40)
    validation, held = engine.recipe.keep.validation, set()
    for start in range(0, 160, 40):
        engine.observe(*toy.part(start, start + 40))
        engine.predict(toy.images[:4])
        held |= {
            fingerprint(i) for i in engine.recipe.keep.validation.images[: engine.recipe.keep.validation.size]
        }
        if start == 40:
            engine.task_end()
    asked = {fingerprint(i) for batch in fitted for i in batch.images}
    assert asked == held
    assert len(held) > 8
    assert not asked & engine.trained
    assert not asked & {fingerprint(i) for i in engine.memory.images[: engine.memory.size]}
    counts = validation.counts[: len(engine.classes)]
    assert counts.max() - counts[counts > 0].min() <= 1  # balanced, whatever the level
    assert engine.memory.capacity + validation.capacity == 40


def test_bias_layers_are_one_pair_per_task_and_level_for_the_tasks_new_classes():
    toy = Toy.stream(160)
    engine = traced("bic", toy, memory_size=60, bic=BicSettings(validation=0.3, epochs=60))
    engine.observe(*toy.part(0, 80))
    engine.task_end()
    layers, old = engine.recipe.answer, len(engine.classes)
    first = (layers.alpha.clone(), layers.beta.clone())
    assert len(set(first[0].tolist())) == 1  # one level so far, all new
    engine.observe(*toy.part(80, 160))
    engine.predict(toy.images[:2])
    assert torch.equal(layers.alpha[:old], first[0])  # an earlier task's stay
    assert torch.equal(layers.beta[:old], first[1])
    assert len(set(layers.alpha[old:].tolist())) == 1
    assert layers.alpha[-1] != 1
    logits = engine.look(toy.images[:2])
    torch.testing.assert_close(engine.logits(toy.images[:2]), logits * layers.alpha + layers.beta)

    # the fit lowers the loss on the validation set, and it is the loss of the corrected logits
    validation = engine.recipe.keep.validation
    raw = engine.look(validation.images[: validation.size])
    targets = Targets.of(validation.classes[: validation.size].astype(np.int64), None)
    before, after = (
        cross_entropy(z, targets, engine.mask(), engine.classes.level_of).mean()
        for z in (raw, raw * layers.alpha + layers.beta)
    )
    assert after < before


def test_bias_layers_find_a_known_distortion():
    """Logits of the new classes are 3 z - 1 by construction, so α → 1/3 and β → 1/3 undo it."""
    engine = traced("bic", Toy.stream(1), memory_size=2000, bic=BicSettings(validation=0.5, epochs=600))
    for label in range(4):
        engine._meet(1, f"old {label}" if label < 2 else f"new {label}")
    rng, layers = np.random.default_rng(0), engine.recipe.answer
    layers.before = 2
    true = torch.from_numpy(rng.normal(0, 2, (400, 4))).float()
    labels = [int(rng.choice(4, p=row)) for row in torch.softmax(true.double(), 1).numpy()]
    seen = torch.cat([true[:, :2], 3 * true[:, 2:] - 1], 1)
    for i, label in enumerate(labels):
        image = torch.full((3, SIZE, SIZE), i % 256, dtype=torch.uint8)
        image[0, 0, 0] = i // 256
        engine.recipe.keep.validation.add(image, label)
    engine.look = lambda images: seen[images[:, 1, 0, 0].long() + 256 * images[:, 0, 0, 0].long()]
    layers.BATCH, layers.LR = 400, 1e-2
    layers.prepare(engine)
    assert layers.alpha[2:].tolist() == pytest.approx([1 / 3] * 2, abs=0.08)
    assert layers.beta[2:].tolist() == pytest.approx([1 / 3] * 2, abs=0.25)
    assert layers.alpha[:2].tolist() == [1, 1]


def test_gdumb_trains_a_fresh_model_each_time_it_is_asked(monkeypatch):
    toy = Toy.stream(40)
    engine = traced("gdumb", toy)
    starts = []
    original = epochs.train_on_memory

    def watched(engine):
        starts.append((weights(engine), engine.optimizer.state()))
        original(engine)

    monkeypatch.setattr(epochs, "train_on_memory", watched)
    for start in (0, 20):
        engine.observe(*toy.part(start, start + 20))
        assert engine.updates == 0 or start == 20
        engine.predict(toy.images)
        engine.predict(toy.images)  # asked again with nothing new: the same model
    assert len(starts) == 2
    template = engine._template.state_dict()
    for fresh, optimizer in starts:
        assert optimizer["moments"] == {}
        assert optimizer["steps"] == 0
        assert all(torch.equal(fresh[f"backbone.{name}"], value) for name, value in template.items())
    trained = weights(engine)
    assert not torch.equal(trained["backbone.first.weight"], template["first.weight"])
    assert not torch.equal(starts[0][0]["heads.weights.0"], starts[1][0]["heads.weights.0"])


def test_gdumbs_answer_does_not_depend_on_how_often_it_was_asked():
    toy = Toy.stream(40)
    engines = [learner(METHODS["gdumb"], toy) for _ in range(2)]
    for start in (0, 20):
        for engine in engines:
            engine.observe(*toy.part(start, start + 20))
        engines[start // 20].predict(toy.images)
    engines[0].predict(toy.images)
    assert same(weights(engines[0]), weights(engines[1]))


def test_a_network_by_name_is_drawn_anew_each_time():
    settings = replace(SETTINGS, network=NetworkSettings("resnet18", 0.05))
    engine = Engine(METHODS["gdumb"], settings, SIZE, (0.5,) * 3, (0.25,) * 3)
    first = weights(engine)["backbone.stem.0.weight"]
    engine.renew()
    assert not torch.equal(weights(engine)["backbone.stem.0.weight"], first)


def test_memory_is_updated_before_or_after_training_as_each_method_says():
    toy, stored = Toy.stream(8), {}
    for name in ("er", "ewc++", "mir", "rm", "clib", "fms", "pl", "pl-fms"):
        engine = traced(name, toy)
        engine.update = lambda batch, rate=None, engine=engine, name=name: stored.setdefault(
            name, engine.memory.size
        )
        engine.observe(*toy.part(0, 8))
    # a stream batch is 4, RM's 8; CLIB and PL train after every sample
    assert stored == {"er": 0, "ewc++": 0, "mir": 0, "rm": 0, "clib": 1, "fms": 4, "pl": 1, "pl-fms": 4}


def test_rm_trains_on_memory_when_a_task_ends():
    toy = Toy.stream(40)
    engine = traced("rm", toy, epochs=EpochSettings(5))
    engine.observe(*toy.part(0, 40))
    assert engine.updates == 40 // 8
    rates = []
    original = engine.optimizer.step
    engine.optimizer.step = lambda rate, clip: rates.append((rate, clip)) or original(rate, clip)
    engine.task_end()
    assert engine.updates == 5 + 5 * (24 // 8)
    base = SETTINGS.lr
    assert [r for r, _ in rates] == pytest.approx(np.repeat([0.1, 1, 1, 0.505, 1], 3) * base)
    assert {clip for _, clip in rates} == {10.0}


def test_only_methods_that_need_task_ends_get_them():
    told = {name for name, build in METHODS.items() if not build(SETTINGS, Generators(0)).task_free}
    assert told == {"ewc++", "bic", "rm"}
    for name in told:
        assert "Not task-free" in METHODS[name].__doc__


def test_ewc_holds_the_backbone_from_the_first_task_end_on():
    toy = Toy.stream(40)
    engine = traced("ewc++", toy)
    engine.observe(*toy.part(0, 20))
    penalty = engine.recipe.minimise
    assert penalty.anchor_point == {}
    assert max(f.max() for f in penalty.fisher.values()) > 0
    engine.task_end()
    point = {n: p.detach().clone() for n, p in engine.model.backbone.named_parameters()}
    fisher = {n: f.clone() for n, f in penalty.anchored.items()}
    engine.observe(*toy.part(20, 40))
    assert all(torch.equal(penalty.anchor_point[n], p) for n, p in point.items())
    assert all(torch.equal(penalty.anchored[n], f) for n, f in fisher.items())
    assert any(not torch.equal(penalty.fisher[n], f) for n, f in fisher.items())
    assert not any("head" in n for n in penalty.fisher)


def test_mixing_stays_within_a_level_and_spans_all_for_samples_with_a_path():
    seen = {}
    for name in ("er", "pl-fms-t"):
        toy = Toy.stream(40)
        engine = traced(name, toy, augment=replace(SETTINGS.augment, cutmix=1.0))
        mixer = engine.cutmix

        def cutmix(images, levels, rng, mixer=mixer, name=name):
            out = mixer(images, levels, rng)
            seen.setdefault(name, []).append((levels, out[1]))
            return out

        engine.cutmix = cutmix
        engine.observe(*toy.part(0, 40))
    assert all((levels == levels[partner]).all() for levels, partner in seen["er"])
    assert any(len(set(levels.tolist())) == 2 for levels, _ in seen["er"])
    assert all((levels == 0).all() for levels, _ in seen["pl-fms-t"])


def test_what_arrives_is_checked_in_one_line():
    toy = Toy.stream(4)
    images, labels, levels, paths = toy.part(0, 4)
    engine = traced("pl-fms-t", toy)
    for bad in (
        (images.float() / 255, labels, levels, paths),
        (images[:, :, :8], labels, levels, paths),
        (images[:3], labels, levels, paths),
        (images, labels, levels[:3], paths),
        (images, labels, levels, None),
        (images, labels, levels, paths[:2]),
        (images, labels, levels, [*paths[:3], ["red"]]),
        (images, labels, [0, 1, 1, 1], paths),
    ):
        with pytest.raises(RamifyError) as error:
            engine.observe(*bad)
        assert "\n" not in str(error.value)
    assert engine.samples == 0


def test_a_tensor_that_is_used_again_does_not_change_what_was_learned():
    toy, buffer = Toy.stream(30), torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8)
    torch.manual_seed(0)
    engines = [learner(METHODS["er"], toy) for _ in range(2)]
    for i in range(30):
        image, *rest = toy.part(i, i + 1)
        engines[0].observe(image, *rest)
        buffer.copy_(image)
        engines[1].observe(buffer, *rest)
        buffer.zero_()
    assert same(weights(engines[0]), weights(engines[1]))


def test_no_images_no_answers():
    toy = Toy.stream(10)
    engine = traced("er", toy)
    engine.observe(*toy.part(0, 10))
    assert engine.predict(toy.images[:0]).shape == (0, 2)


def test_frozen_weights_stay_with_every_method():
    toy = Toy.stream(24)
    for name in METHODS:
        engine = learner(METHODS[name], toy)
        engine.model.backbone.first.requires_grad_(False)
        before = engine.model.backbone.first.weight.clone()
        engine.observe(*toy.part(0, 24))
        engine.task_end()
        engine.predict(toy.images)
        assert torch.equal(engine.model.backbone.first.weight, before)


@pytest.mark.parametrize("name", ["er2", "no.such.module:x", ":x", "ramify.methods.er:none"])
def test_an_unknown_method_is_refused_in_one_line(name):
    with pytest.raises(RamifyError) as error:
        find_method(name)
    assert "\n" not in str(error.value)
