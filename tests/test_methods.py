"""Every registered method passes the shared checks, and what is each method's own."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import replace

import numpy as np
import pytest
import torch

import ramify.methods.checks as checks
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.memory import Everything, Memory, Sample, arrived
from ramify.methods import METHODS, Answer, Method, Trainer, find_method, make_settings
from ramify.methods import settings as settings_module
from ramify.methods.bic import BicSettings
from ramify.methods.canopy import FoundTree
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
from ramify.methods.closed_form import InClosedForm, Taken
from ramify.methods.epochs import FreshModel, MemoryEpochs
from ramify.methods.recipe import as_method
from ramify.methods.settings import with_groups
from ramify.networks import ImageInputs, Targets, cross_entropy
from ramify.networks.levels import level_sets
from ramify.randomness import Generators
from ramify.rehearsal import HalfAndHalf, MemoryOnly
from ramify.reports.data import load_run
from ramify.runs import run_config
from ramify.runs.run import Run, prepare_dataset
from ramify.streams.moves import Eras
from ramify.training.cutmix import CutMix
from ramify.training.objectives import CrossEntropy
from ramify.training.rates import Rate
from tiny_runs import network, tiny


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
        checks.continues_from_its_state(as_method(forgetful))

    class Quiet(CrossEntropy):
        def loss(self, bench, forward):
            return super().loss(bench, forward).nan_to_num(0.0)

    with pytest.raises(AssertionError, match="did not raise"):
        checks.stops_at_a_broken_loss(
            as_method(lambda settings, rng: replace(er(settings, rng), minimise=Quiet()))
        )

    restless = np.random.default_rng()

    with pytest.raises(AssertionError, match="one seed differ"):
        checks.follows_the_seed(
            as_method(lambda settings, rng: replace(er(settings, rng), rehearse=HalfAndHalf(restless)))
        )

    with pytest.raises(RamifyError, match="empty batch"):  # ER stores after training: nothing is there yet
        checks.learns(
            as_method(lambda settings, rng: replace(er(settings, rng), rehearse=MemoryOnly(rng["rehearse"])))
        )


class Traced(Trainer):
    """Remembers which images were trained on: the toy's images are all different."""

    def update(self, batch, rate=None):
        self.trained = getattr(self, "trained", set()) | {fingerprint(i) for i in batch.inputs}
        return super().update(batch, rate)


def fingerprint(image):
    return image.numpy().tobytes()


def traced(name, **settings):
    chosen = make_settings(**(SETTINGS | settings))
    return Traced(METHODS[name], chosen, ImageInputs(SIZE, std=(0.25,) * 3), network=ToyNetwork())


def test_bias_layers_are_fitted_on_samples_that_are_never_trained_on(monkeypatch):
    fitted = []
    original = Memory.batch

    def watched(memory, slots):
        found = original(memory, slots)
        if memory is not trainer.memory:
            fitted.append(found)
        return found

    monkeypatch.setattr(Memory, "batch", watched)
    toy = Toy.stream(160)
    trainer, held = traced("bic", memory_size=40), set()
    for start in range(0, 160, 40):
        toy.teach(trainer, start, start + 40)
        trainer.predict(toy.images[:4])
        validation = trainer.recipe.keep.validation
        held |= {fingerprint(i) for i in validation["inputs"][: validation.size]}
        if start == 40:
            trainer.task_end()
    asked = {fingerprint(i) for batch in fitted for i in batch.inputs}
    assert asked == held
    assert len(held) > 8
    assert not asked & trainer.trained
    assert not asked & {fingerprint(i) for i in trainer.memory["inputs"][: trainer.memory.size]}
    counts = validation.counts[: len(trainer.classes)]
    assert counts.max() - counts[counts > 0].min() <= 1  # balanced, whatever the level
    assert trainer.memory.capacity + validation.capacity == 40


def test_bias_layers_are_one_pair_per_task_and_level_for_the_tasks_new_classes():
    toy = Toy.stream(160)
    trainer = traced("bic", memory_size=60, bic={"validation": 0.3, "epochs": 60})
    toy.teach(trainer, 0, 80)
    trainer.task_end()
    layers, old = trainer.recipe.answer, len(trainer.classes)
    first = (layers.alpha.clone(), layers.beta.clone())
    assert len(set(first[0].tolist())) == 1  # one level so far, all new
    toy.teach(trainer, 80, 160)
    trainer.predict(toy.images[:2])
    assert torch.equal(layers.alpha[:old], first[0])  # an earlier task's stay
    assert torch.equal(layers.beta[:old], first[1])
    assert len(set(layers.alpha[old:].tolist())) == 1
    assert layers.alpha[-1] != 1
    logits = trainer.look(toy.images[:2])
    torch.testing.assert_close(trainer.logits(toy.images[:2]), logits * layers.alpha + layers.beta)

    # the fit lowers the loss on the validation set, and it is the loss of the corrected logits
    validation = trainer.recipe.keep.validation
    raw = trainer.look(validation["inputs"][: validation.size])
    targets = Targets.of(validation.classes[: validation.size, None].astype(np.int64))
    before, after = (
        cross_entropy(z, targets, trainer.levels).mean() for z in (raw, raw * layers.alpha + layers.beta)
    )
    assert after < before


def test_bias_layers_find_a_known_distortion():
    """Logits of the new classes are 3 z - 1 by construction, so α → 1/3 and β → 1/3 undo it."""
    trainer = traced("bic", memory_size=2000, bic={"validation": 0.5, "epochs": 600})
    for label in range(4):
        trainer.meet(1, f"old {label}" if label < 2 else f"new {label}")
    rng, layers = np.random.default_rng(0), trainer.recipe.answer
    layers.before = 2
    true = torch.from_numpy(rng.normal(0, 2, (400, 4))).float()
    labels = [int(rng.choice(4, p=row)) for row in torch.softmax(true.double(), 1).numpy()]
    seen = torch.cat([true[:, :2], 3 * true[:, 2:] - 1], 1)
    for i, label in enumerate(labels):
        image = torch.full((3, SIZE, SIZE), i % 256, dtype=torch.uint8)
        image[0, 0, 0] = i // 256
        trainer.recipe.keep.set_aside(trainer).add(Sample(image, (label,), label))
    trainer.look = lambda images, weights: seen[images[:, 1, 0, 0].long() + 256 * images[:, 0, 0, 0].long()]
    layers.BATCH, layers.LR = 400, 1e-2
    layers.fit(trainer)
    assert layers.alpha[2:].tolist() == pytest.approx([1 / 3] * 2, abs=0.08)
    assert layers.beta[2:].tolist() == pytest.approx([1 / 3] * 2, abs=0.25)
    assert layers.alpha[:2].tolist() == [1, 1]


def test_gdumb_trains_a_fresh_model_each_time_it_is_asked(monkeypatch):
    toy = Toy.stream(40)
    trainer = traced("gdumb")
    starts = []
    original = MemoryEpochs.train

    def watched(answer, trainer):
        starts.append((weights(trainer), trainer.optimizer.state()))
        original(answer, trainer)

    monkeypatch.setattr(MemoryEpochs, "train", watched)
    for start in (0, 20):
        toy.teach(trainer, start, start + 20)
        assert trainer.updates == 0 or start == 20
        trainer.predict(toy.images)
        trainer.predict(toy.images)  # asked again with nothing new: the same model
    assert len(starts) == 2
    template = trainer._template.state_dict()
    for fresh, optimizer in starts:
        assert optimizer["moments"] == {}
        assert all(torch.equal(fresh[f"backbone.{name}"], value) for name, value in template.items())
    trained = weights(trainer)
    assert not torch.equal(trained["backbone.first.weight"], template["first.weight"])
    assert not torch.equal(starts[0][0]["heads.weights.0"], starts[1][0]["heads.weights.0"])


def test_gdumbs_answer_does_not_depend_on_how_often_it_was_asked():
    toy = Toy.stream(40)
    trainers = [learner(METHODS["gdumb"], toy) for _ in range(2)]
    for start in (0, 20):
        for trainer in trainers:
            toy.teach(trainer, start, start + 20)
        trainers[start // 20].predict(toy.images)
    trainers[0].predict(toy.images)
    assert same(weights(trainers[0]), weights(trainers[1]))


def test_a_network_by_name_is_drawn_anew_each_time():
    settings = make_settings(**SETTINGS, network={"name": "resnet18", "width": 0.05})
    trainer = Trainer(METHODS["gdumb"], settings, ImageInputs(SIZE))
    first = weights(trainer)["backbone.stem.0.weight"]
    trainer.renew()
    assert not torch.equal(weights(trainer)["backbone.stem.0.weight"], first)


def test_memory_is_updated_before_or_after_training_as_each_method_says():
    toy, stored = Toy.stream(8), {}
    for name in ("er", "ewc++", "mir", "rm", "clib", "fms", "pl", "pl-fms"):
        trainer = traced(name)
        trainer.update = lambda batch, rate=None, trainer=trainer, name=name: stored.setdefault(
            name, trainer.memory.size
        )
        toy.teach(trainer, 0, 8)
    # a stream batch is 4, RM's 8; CLIB and PL train after every sample
    assert stored == {"er": 0, "ewc++": 0, "mir": 0, "rm": 0, "clib": 1, "fms": 4, "pl": 1, "pl-fms": 4}


def test_rm_trains_on_memory_when_a_task_ends():
    toy = Toy.stream(40)
    trainer = traced("rm", epochs={"count": 5})
    toy.teach(trainer, 0, 40)
    assert trainer.updates == 40 // 8
    rates = []
    original = trainer.optimizer.step
    trainer.optimizer.step = lambda rate, clip, *more: (
        rates.append((rate, clip)) or original(rate, clip, *more)
    )
    trainer.task_end()
    assert trainer.updates == 5 + 5 * (24 // 8)
    base = SETTINGS["lr"]
    assert [r for r, _ in rates] == pytest.approx(np.repeat([0.1, 1, 1, 0.505, 1], 3) * base)
    assert {clip for _, clip in rates} == {10.0}


FACTS = {  # what is not by default
    "bic": {"task_free": False, "trains_when_asked": True},
    "canopy": {"decode": "joint", "average": 0.996},
    "ewc++": {"task_free": False},
    "rm": {"task_free": False, "memory_epochs": "task ends"},
    "gdumb": {"trains_when_asked": True, "memory_epochs": "answers"},
    "oracle": {
        "trains_when_asked": True,
        "memory_epochs": "answers",
        "told_paths": True,
        "offline": True,
        "keeps_stream": True,
        "bound": "ceiling",
    },
    "pl-fms-t": {"told_paths": True},
    "naive": {"bound": "floor"},
    "retrain": {
        "trains_when_asked": True,
        "memory_epochs": "answers",
        "keeps_stream": True,
        "bound": "ceiling",
    },
    "ncm": {"closed_form": True},
    "slda": {"closed_form": True, "decode": "joint"},
    "ranpac": {"closed_form": True, "decode": "joint"},
    "randumb": {"closed_form": True, "decode": "joint", "bound": "floor"},
}
FIELDS = [f.name for f in dataclasses.fields(Method) if f.name not in ("name", "build", "settings")]


@pytest.mark.parametrize("name", METHODS)
def test_what_is_said_of_a_method_is_so(name):
    method, recipe = METHODS[name], METHODS[name](make_settings(**SETTINGS), Generators(0))
    default = Method("", lambda settings, rng: None)
    for fact in FIELDS:
        assert getattr(method, fact) == FACTS.get(name, {}).get(fact, getattr(default, fact)), fact
    assert method.task_free == (recipe.consolidate is None)
    assert method.task_free != ("Not task-free" in inspect.getdoc(method.build))
    own_answer = type(recipe.answer).weights is not Answer.weights
    assert method.closed_form == isinstance(recipe.keep, Taken)
    known = isinstance(recipe.answer, FoundTree | InClosedForm)
    assert method.trains_when_asked == (own_answer and not known)
    assert method.keeps_stream == isinstance(recipe.keep, Everything)
    when = "answers" if isinstance(recipe.answer, FreshModel) else "task ends"
    assert method.memory_epochs == (when if isinstance(recipe.answer, MemoryEpochs) else "never")
    assert method.name == name


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_all_settings_that_it_reads_and_no_others(name):
    method, rng = METHODS[name], Generators(0)
    plain = settings_module.Settings
    assert METHODS[name](with_groups(plain, method.settings)(), rng)
    for table in method.settings:
        others = {key: kind for key, kind in method.settings.items() if key != table}
        with pytest.raises(RamifyError, match=f"have no {method.settings[table].__name__}"):
            method(with_groups(plain, others)(), rng)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_tells_paths_to_those_that_are_told(name):
    config = tiny(name, memory_size=60)
    run = Run(config, prepare_dataset(config), "cpu")
    run.collect(24)
    run.trainer.flush()
    trainer, stream = run.trainer, run.stream
    levels, known = stream.level[:24].tolist(), Eras.of(run.dataset.taxonomy, stream.levels).paths[0]
    counted = [(h, label) for h, label in zip(levels, stream.label[:24].tolist(), strict=True)]
    memory, classes = trainer.memory, trainer.classes
    labels = memory["labels"][: memory.size]
    assert ((labels >= 0).sum(1) == (3 if METHODS[name].told_paths else 1)).all()
    assert set(classes.levels) == ({1, 2, 3} if METHODS[name].told_paths else set(levels))
    for own, cls in zip(labels, memory.classes[: memory.size].tolist(), strict=True):
        names = {(int(classes.level_of[c]), classes.labels[c]) for c in own if c >= 0}
        assert (int(classes.level_of[cls]), classes.labels[cls]) in names
        assert (int(classes.level_of[cls]), classes.labels[cls]) in counted
        if METHODS[name].told_paths:
            by_level = dict(names)
            assert any(tuple(path) == (by_level[1], by_level[2], by_level[3]) for path in known.tolist())


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if one.keeps_stream])
def test_a_run_whose_stream_is_kept_keeps_no_second_copy(name):
    config = tiny(name)
    run = Run(config, prepare_dataset(config), "cpu")
    run.collect(24)
    run.trainer.flush()
    memory = run.trainer.memory
    assert memory["inputs"].shape == (len(run.stream),)  # numbers of images
    slots = np.arange(memory.size)
    kept = memory.batch(slots).inputs.numpy()
    np.testing.assert_array_equal(kept, run.dataset.train.images[run.stream.image[memory["sample"][slots]]])


def test_ewc_holds_the_backbone_from_the_first_task_end_on():
    toy = Toy.stream(40)
    trainer = traced("ewc++")
    toy.teach(trainer, 0, 20)
    penalty = trainer.recipe.minimise
    assert penalty.anchor_point == {}
    assert max(f.max() for f in penalty.fisher.values()) > 0
    trainer.task_end()
    point = {n: p.detach().clone() for n, p in trainer.model.backbone.named_parameters()}
    fisher = {n: f.clone() for n, f in penalty.anchored.items()}
    toy.teach(trainer, 20, 40)
    assert all(torch.equal(penalty.anchor_point[n], p) for n, p in point.items())
    assert all(torch.equal(penalty.anchored[n], f) for n, f in fisher.items())
    assert any(not torch.equal(penalty.fisher[n], f) for n, f in fisher.items())
    assert not any("head" in n for n in penalty.fisher)


class Seen(CutMix):
    """Mixing that remembers its batches."""

    def __call__(self, bench, batch, images, targets):
        mixed = super().__call__(bench, batch, images, targets)
        bench.mixtures = [*getattr(bench, "mixtures", []), (batch.labels, mixed[1])]
        return mixed


def test_mixing_stays_within_a_level_and_spans_all_for_samples_with_a_path():
    for name in ("er", "pl-fms-t"):
        toy, trainer = Toy.stream(40), traced(name)
        trainer.mix = Seen(probability=1.0)
        toy.teach(trainer, 0, 40)
        level_of = trainer.classes.level_of
        widths = set()
        for labels, targets in trainer.mixtures:
            assert (level_of[targets.classes[:, 0]] == level_of[targets.classes[:, 1]]).all()
            np.testing.assert_allclose(targets.weights.sum(1), 1, rtol=1e-6)
            assert len(targets) == (labels >= 0).sum()
            widths.add(len(set(level_sets(labels, level_of).tolist())))
        assert widths == ({1, 2} if name == "er" else {1})  # all samples with a path are alike


def test_what_arrives_is_checked_in_one_line():
    toy, trainer = Toy.stream(4), traced("pl-fms-t")
    images, labels = toy.images, [list(enumerate(path, 1)) for path in toy.paths]
    for bad in (
        (images.float() / 255, labels),
        (images[:, :, :8], labels),
        (images[:3], labels),
        (images, labels[:3]),
        (images, []),
        (images, [*labels[:3], [(1, "red"), (1, "blue")]]),
        (images, [*labels[:3], [(0, "red")]]),
        (images, [*labels[:3], [("1", "red")]]),
    ):
        with pytest.raises(RamifyError) as error:
            trainer.observe(*bad)
        assert "\n" not in str(error.value)
    assert trainer.samples == len(trainer.classes) == 0


def test_a_tensor_that_is_used_again_does_not_change_what_was_learned():
    toy, buffer = Toy.stream(30), torch.zeros(1, 3, SIZE, SIZE, dtype=torch.uint8)
    trainers = [learner(METHODS["er"], toy) for _ in range(2)]
    for i in range(30):
        image, labels = toy.images[i : i + 1], [[(toy.levels[i], toy.labels[i])]]
        trainers[0].observe(image, labels)
        buffer.copy_(image)
        trainers[1].observe(buffer, labels)
        buffer.zero_()
    assert same(weights(trainers[0]), weights(trainers[1]))


# ---- samples with several labels, with some, with none


def any_labels(toy, seed=7):  # the toy has its colours from seed 0
    """Each sample of a toy with its whole path, its label alone, or none, in any order."""
    rng = np.random.default_rng(seed)
    labels = []
    for level, path in zip(toy.levels, toy.paths, strict=True):
        pairs = list(enumerate(path, 1))
        ways = [pairs, pairs[::-1], [pairs[level - 1]], []]
        labels.append(ways[rng.integers(len(ways))])
    return labels


@pytest.mark.parametrize("mixed", [0.0, 1.0])
@pytest.mark.parametrize("name", METHODS)
def test_samples_with_any_number_of_labels_are_learned(name, mixed):
    toy = Toy.stream(120)
    augment = SETTINGS["augment"] | {"cutmix": mixed}
    trainer = learner(METHODS[name], toy, memory_size=48, epochs={"count": 8}, augment=augment)
    labels = any_labels(toy)
    for start in range(0, 120, 60):
        trainer.observe(toy.images[start : start + 60], labels[start : start + 60])
        trainer.task_end()
    right = (checks.answers(trainer, toy.images) == np.array(toy.paths, object)).mean(0)
    assert (right >= (0.6 if mixed else 0.95)).all(), right
    memory, level_of = trainer.memory, trainer.classes.level_of
    stored = memory["labels"][: memory.size]
    assert ({1, 2} if memory.capacity else set()) == set((stored >= 0).sum(1).tolist())  # none without one
    for own, cls in zip(stored, memory.classes[: memory.size], strict=True):
        assert cls in own
        levels = level_of[own[own >= 0]].tolist()
        assert levels == sorted(set(levels))


def test_a_sample_counts_for_its_first_label():
    toy, trainer = Toy.stream(8), traced("er")
    labels = [list(enumerate(path, 1))[:: 1 if i % 2 else -1] for i, path in enumerate(toy.paths)]
    trainer.observe(toy.images, labels)
    trainer.flush()
    level_of = trainer.classes.level_of[trainer.memory.classes[:8]]
    assert level_of.tolist() == [2, 1] * 4


@pytest.mark.parametrize("name", METHODS)
def test_samples_without_labels_come_at_any_time(name):
    """First of all, alone or among others; what has no label teaches nothing."""
    toy = Toy.stream(24)
    trainer = learner(METHODS[name], toy)
    before = weights(trainer)
    trainer.observe(toy.images[:10], [[]] * 10)
    trainer.flush()
    trainer.task_end()
    assert same(weights(trainer), before)
    assert (trainer.samples, trainer.updates, trainer.memory.size, len(trainer.classes)) == (10, 0, 0, 0)
    with pytest.raises(RamifyError, match="nothing has been learned"):
        trainer.predict(toy.images)
    toy.teach(trainer, 0, 12)
    trainer.observe(toy.images[:10], [[]] * 10)
    stored = trainer.memory.size
    other = learner(METHODS[name], toy, seed=5)
    other.restore(checks.through_a_file(trainer))  # some of them may wait for training
    for one in (trainer, other):
        toy.teach(one, 12, 24)
        one.flush()
        one.task_end()
        assert one.predict(toy.images).shape == (24, 2)
    assert same(weights(trainer), weights(other))
    assert (trainer.updates > 0) != METHODS[name].closed_form
    assert (0 < stored <= 12) == (trainer.memory.capacity > 0)


@pytest.mark.parametrize("name", METHODS)
def test_an_update_without_any_label_learns_nothing_and_fails_nothing(name):
    toy = Toy.stream(24)
    trainer = learner(METHODS[name], toy, augment=SETTINGS["augment"] | {"cutmix": 1.0})
    toy.teach(trainer, 0, 24)
    trainer.prepare()
    for rows in (1, 5):
        none = arrived([Sample(image, ()) for image in toy.images[:rows]])
        before, cost = checks.through_a_file(trainer), trainer.cost.images_forward
        trainer.update(none)
        assert_equal(checks.through_a_file(trainer), before)
        assert trainer.cost.images_forward == cost


def assert_equal(found, wanted):
    """Nested states that are equal to the bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_equal(found[key], wanted[key])
    elif isinstance(wanted, torch.Tensor | np.ndarray):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    else:
        assert found == wanted


def test_no_images_no_answers():
    toy = Toy.stream(10)
    trainer = traced("er")
    toy.teach(trainer, 0, 10)
    assert trainer.predict(toy.images[:0]).shape == (0, 2)


def test_frozen_weights_stay_with_every_method():
    toy = Toy.stream(24)
    for name in METHODS:
        trainer = learner(METHODS[name], toy)
        for toys in (m for m in trainer.model.modules() if isinstance(m, ToyNetwork)):
            toys.first.requires_grad_(False)
            before = toys.first.weight.clone()
            toy.teach(trainer, 0, 24)
            trainer.task_end()
            trainer.predict(toy.images)
            assert torch.equal(toys.first.weight, before)


@pytest.mark.parametrize("name", ["er2", "no.such.module:x", ":x", "ramify.methods.er:none"])
def test_an_unknown_method_is_refused_in_one_line(name):
    with pytest.raises(RamifyError) as error:
        find_method(name)
    assert "\n" not in str(error.value)


def test_a_bic_runs_saved_model_answers_as_the_run_did(tmp_path):
    config = tiny("bic", bic=BicSettings(0.3, epochs=200), memory_size=60)
    runs = []
    run_config(config, tmp_path / "run", threads=1, watch=runs.append)
    trainer, evaluator = runs[-1].trainer, runs[-1].evaluator
    layers = trainer.recipe.answer
    assert (layers.alpha - 1).abs().max() > 0.05  # there is something to correct
    images = torch.from_numpy(runs[-1].dataset.test.images.copy())
    loaded = Learner.load(tmp_path / "run", network=network())
    inside = loaded._trainer
    assert [
        (int(h), evaluator.tree.names(int(h))[label])
        for h, label in zip(trainer.classes.level_of, trainer.classes.labels, strict=True)
    ] == list(zip(inside.classes.level_of.tolist(), inside.classes.labels, strict=True))
    np.testing.assert_allclose(inside.log_probabilities(images), trainer.log_probabilities(images), atol=1e-5)
    raw = trainer.levels.log_probabilities(trainer.look(images))
    assert np.abs(raw - trainer.log_probabilities(images)).max() > 0.01  # without the correction otherwise
    answers = load_run(tmp_path / "run").answers
    number = {(h, name): i for h in (1, 2, 3) for i, name in enumerate(evaluator.tree.names(h))}
    found = inside.predict(images)
    named = np.array(
        [[number[h, inside.classes.labels[c]] for h, c in enumerate(row, 1)] for row in found.tolist()]
    )
    np.testing.assert_array_equal(named, answers.predictions)
