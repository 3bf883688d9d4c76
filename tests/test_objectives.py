"""Losses, penalties and distillation against torch's own functions and formulas written out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ramify.classes import Classes
from ramify.memory import Column, Forward, Sample, Workbench, arrived
from ramify.methods.bic import Distillation
from ramify.methods.ewc import FisherPenalty
from ramify.networks import FeatureInputs, Heads, LevelMask, Model, Targets, cross_entropy
from ramify.networks.levels import residuals
from ramify.randomness import Generators
from ramify.training.objectives import CrossEntropy, Shifted

LEVELS = [1, 2, 1, 2, 2, 4, 2]  # of classes 0, 1, …: met in this order; level 3 has none yet


def make_classes(levels=LEVELS):
    classes = Classes()
    for label, level in enumerate(levels):
        classes.meet(level, label, 0)
    return classes


def own_level(row, cls, levels=LEVELS):
    """Cross-entropy of one row over the classes of one level, by torch."""
    mates = [c for c, level in enumerate(levels) if level == levels[cls]]
    return F.cross_entropy(row[mates][None], torch.tensor([mates.index(cls)]))


@pytest.fixture
def setting():
    classes = make_classes()
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(12, len(classes), generator=generator, requires_grad=True)
    labels = np.random.default_rng(0).integers(len(classes), size=12)
    return classes, LevelMask(classes, torch.device("cpu")), logits, labels


def with_gradient(losses, logits):
    return losses, torch.autograd.grad(losses.sum(), logits, retain_graph=True)[0]


def test_the_loss_is_torchs_on_each_samples_own_level(setting):
    _, mask, logits, labels = setting
    got = cross_entropy(logits, Targets.of(labels[:, None]), mask)
    wanted = torch.stack([own_level(logits[i], int(c)) for i, c in enumerate(labels)])
    torch.testing.assert_close(with_gradient(got, logits), with_gradient(wanted, logits))


def test_the_loss_of_mixed_samples_is_mixed(setting):
    classes, mask, logits, labels = setting
    rng = np.random.default_rng(1)
    partner = np.array([rng.choice(np.flatnonzero(classes.level_of[labels] == LEVELS[c])) for c in labels])
    lam = rng.random(12).astype(np.float32)
    got = cross_entropy(logits, Targets.of(labels[:, None]).mixed(partner, lam), mask)
    wanted = torch.stack(
        [
            float(w) * own_level(logits[i], int(labels[i]))
            + (1 - float(w)) * own_level(logits[i], int(labels[partner[i]]))
            for i, w in enumerate(lam)
        ]
    )
    torch.testing.assert_close(with_gradient(got, logits), with_gradient(wanted, logits))


def some_labels(rng, rows=12):
    """A table of labels at levels 1, 2 and 4, coarsest first: all of them, some or none, -1 for the rest."""
    table = np.full((rows, 3), -1)
    for row in table:
        chosen = [rng.choice(c) for c in ([0, 2], [1, 3, 4, 6], [5]) if rng.random() < 0.6]
        row[: len(chosen)] = chosen
    assert {0, 1, 2, 3} == set((table >= 0).sum(1))
    return table


def whole_paths(rng, rows=12):
    return np.stack([rng.choice([0, 2], rows), rng.choice([1, 3, 4, 6], rows), np.full(rows, 5)], 1)


def partners(labels, rng):
    """For each row one that has labels at the same levels."""
    sets = [{LEVELS[c] for c in row if c >= 0} for row in labels]
    return np.array([rng.choice([j for j, other in enumerate(sets) if other == own]) for own in sets])


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("draw", [whole_paths, some_labels])
def test_samples_that_carry_several_labels_are_compared_at_each_of_them(setting, mixed, draw):
    _, mask, logits, _ = setting
    rng = np.random.default_rng(2)
    labels = draw(rng)
    partner, lam = partners(labels, rng), rng.random(12).astype(np.float32)
    targets = Targets.of(labels).mixed(partner, lam) if mixed else Targets.of(labels)
    got = cross_entropy(logits, targets, mask)
    wanted = []
    for i in range(12):
        for own, other in zip(labels[i], labels[partner[i]], strict=True):
            if own < 0:
                continue
            loss = own_level(logits[i], int(own))
            if mixed:
                loss = float(lam[i]) * loss + (1 - float(lam[i])) * own_level(logits[i], int(other))
            wanted.append(loss)
    wanted = torch.stack(wanted)
    torch.testing.assert_close(with_gradient(got, logits), with_gradient(wanted, logits))


@pytest.mark.parametrize("draw", [whole_paths, some_labels, lambda rng: rng.choice([0, 2], (12, 1))])
def test_residuals_are_the_gradient_by_the_logits(setting, draw):
    _, mask, logits, _ = setting
    rng = np.random.default_rng(3)
    labels = draw(rng)
    targets = Targets.of(labels).mixed(partners(labels, rng), rng.random(12).astype(np.float32))
    rows = np.arange(12) if targets.rows is None else targets.rows
    losses = cross_entropy(logits, targets, mask)
    shares = torch.tensor(1 / np.bincount(rows)[rows], dtype=torch.float32)  # a row's loss is their mean
    (gradient,) = torch.autograd.grad((losses * shares).sum(), logits)
    found = residuals(logits.detach(), targets, mask)
    torch.testing.assert_close(found, gradient)
    assert (found[(labels < 0).all(1)] == 0).all()


def test_predictions_are_the_best_class_of_each_level(setting):
    classes, mask, logits, _ = setting
    got = mask.predict(logits.detach())
    assert got.shape == (12, 4)
    for i, row in enumerate(got):
        for level in (1, 2, 4):
            assert row[level - 1] == max(classes.of_level(level), key=lambda c: logits[i, c].item())
        assert row[2] == -1


def test_the_mask_follows_the_classes_also_through_a_restoration(setting):
    classes, mask, *_ = setting
    before = mask()
    assert mask() is before
    classes.meet(3, "late", 0)
    assert mask().shape == (4, 8)
    other = make_classes([2, 1, 2, 1, 1, 4, 1, 3])  # as many classes, other levels
    classes.restore(other.state())
    wanted = LevelMask(other, torch.device("cpu"))()
    assert torch.equal(mask(), wanted)


def make_bench(levels=LEVELS, seed=0):
    """What the parts of a learner share, with a small network and classes of these levels."""
    torch.manual_seed(seed)
    backbone = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh())
    model = Model(backbone, Heads(6, np.random.default_rng(seed)))
    inputs, columns = FeatureInputs(5), {"inputs": Column(torch.float32, (5,))}
    bench = Workbench(model, Classes(), inputs, 8, columns, Generators(seed), torch.device("cpu"))
    for level in levels:
        meet(bench, level)
    return bench


def meet(bench, level):
    bench.classes.meet(level, len(bench.classes), 0)
    bench.model.heads.grow()


def forward(bench, seed, labels):
    """A training pass over made-up samples; `labels` has a class, or a list of them, for each."""
    rows = [(row,) if np.ndim(row) == 0 else tuple(row) for row in labels]
    inputs = torch.randn(len(rows), 5, generator=torch.Generator().manual_seed(seed))
    batch = arrived([Sample(x, own) for x, own in zip(inputs, rows, strict=True)])
    bench.model.set_training(True)
    bench.model.remember_statistics()
    features, logits = bench.model(inputs)
    return Forward(batch, inputs, features, logits, Targets.of(batch.labels), bench.levels)


LABELS = [0, 1, 2, 3, 4, 5, 6, 1]
SEVERAL = [(0, 1, 5), (2,), (), (2, 6), (3,), (5,), (0, 4), ()]


def pairs(labels):
    """(row, class) of each label."""
    return [(i, c) for i, row in enumerate(labels) for c in ([row] if np.ndim(row) == 0 else row)]


def plain_loss(logits, labels, levels=LEVELS):
    return torch.stack([own_level(logits[i], c, levels) for i, c in pairs(labels)]).mean()


class Leaning(Shifted):
    """Some classes have a lead."""

    def shift(self, bench, batch):
        return np.arange(len(bench.classes)) % 3 * 0.7


def given(objective, bench, passed):
    """The loss and what each parameter of the heads is given."""
    loss = objective.loss(bench, passed)
    objective.differentiate(bench, loss)
    found = [p.grad for p in bench.model.heads.parameters()]
    for parameter in bench.model.parameters():
        parameter.grad = None
    return [loss.detach(), *found]


@pytest.mark.parametrize("classes", [7, 128, 300])
@pytest.mark.parametrize("kind", [CrossEntropy, Leaning])
def test_the_gradient_of_heads_alone_is_to_the_bit_that_of_autograd(kind, classes):
    class Found(kind):
        """The same, for all but that its class has a method of its own."""

        def differentiate(self, bench, loss):
            super().differentiate(bench, loss)

    rng = np.random.default_rng(classes)
    bench = make_bench(rng.integers(1, 4, classes).tolist())
    bench.model.backbone.requires_grad_(False)
    for size in (2, 3, 16, 33, 64):
        rows = rng.integers(classes, size=size).tolist()
        objectives = kind(), Found()
        objectives[0].minimised = objectives[1].minimised = True
        written, found = (given(one, bench, forward(bench, size, rows)) for one in objectives)
        assert objectives[0].plain
        assert not objectives[1].plain
        assert len(found) == 1 + 2 * -(-classes // 128)
        assert all(torch.equal(a, b) for a, b in zip(written, found, strict=True))


def test_the_gradient_is_found_where_it_cannot_be_written_down():
    objective, bench = CrossEntropy(), make_bench()
    objective.minimised = True
    bench.model.backbone.requires_grad_(False)
    objective.loss(bench, forward(bench, 0, LABELS))  # no update was made on it
    several = given(objective, bench, forward(bench, 1, SEVERAL))
    passed = forward(bench, 1, SEVERAL)
    loss = plain_loss(passed.logits, SEVERAL)
    wanted = torch.autograd.grad(loss, list(bench.model.heads.parameters()))
    torch.testing.assert_close(several, [loss.detach(), *wanted])
    bench.model.backbone.requires_grad_(True)
    objective.differentiate(bench, objective.loss(bench, forward(bench, 1, LABELS)))
    assert all(p.grad is not None for p in bench.model.parameters())


@pytest.mark.parametrize("labels", [LABELS, SEVERAL])
def test_the_objective_is_the_mean_over_all_labels_of_the_batch(labels):
    bench = make_bench()
    passed = forward(bench, 1, labels)
    torch.testing.assert_close(CrossEntropy().loss(bench, passed), plain_loss(passed.logits, labels))


def test_the_loss_of_a_sample_is_the_mean_over_its_labels():
    bench = make_bench()
    passed = forward(bench, 1, SEVERAL)
    wanted = [
        np.mean([own_level(row, c).item() for c in own] or [0.0])
        for row, own in zip(passed.logits, SEVERAL, strict=True)
    ]
    np.testing.assert_allclose(bench.losses(passed.logits.detach(), passed.batch), wanted, rtol=1e-5)


def gradients(model, loss):
    named = dict(model.backbone.named_parameters())
    return dict(zip(named, torch.autograd.grad(loss, list(named.values()), retain_graph=True), strict=True))


@pytest.mark.parametrize("labels", [LABELS, SEVERAL])
def test_fisher_and_penalty_are_those_of_autograd(labels):
    bench, strength, decay = make_bench(), 100.0, 0.5
    model = bench.model
    objective = FisherPenalty(strength, decay)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fisher = {n: torch.zeros_like(p) for n, p in model.backbone.named_parameters()}
    anchored = anchor = None
    for step in range(9):
        optimizer.zero_grad()
        passed = forward(bench, step, labels)
        plain = plain_loss(passed.logits, labels)
        wanted = gradients(model, plain)
        heads = torch.autograd.grad(plain, list(model.heads.parameters()), retain_graph=True)
        fisher = {n: (1 - decay) * fisher[n] + decay * wanted[n] ** 2 for n in fisher}
        if anchored is not None:
            named = dict(model.backbone.named_parameters())
            penalty = strength * sum((anchored[n] * (named[n] - anchor[n]) ** 2).sum() for n in named)
            wanted = gradients(model, plain + penalty)
            assert step == 4 or penalty > 0
        objective.differentiate(bench, objective.loss(bench, passed))
        for name, parameter in model.backbone.named_parameters():
            torch.testing.assert_close(objective.fisher[name], fisher[name])
            torch.testing.assert_close(parameter.grad, wanted[name])
        for parameter, gradient in zip(model.heads.parameters(), heads, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
        optimizer.step()
        if step == 3:  # a task ends
            objective.anchor(bench)
            anchored = {n: f.clone() for n, f in fisher.items()}
            anchor = {n: p.detach().clone() for n, p in model.backbone.named_parameters()}
    assert all(f.abs().max() > 0 for n, f in objective.fisher.items() if n != "0.bias")  # BN hides this bias


def differentiate(objective, bench, passed):
    objective.differentiate(bench, objective.loss(bench, passed))


def test_a_task_that_ends_before_the_first_update_holds_nothing():
    bench = make_bench()
    objective = FisherPenalty(100.0, 0.5)
    objective.anchor(bench)
    differentiate(objective, bench, forward(bench, 0, LABELS))
    assert objective.anchor_point == {}


def test_fisher_continues_from_its_state():
    bench = make_bench()
    first = FisherPenalty(100.0, 0.5)
    differentiate(first, bench, forward(bench, 0, LABELS))
    first.anchor(bench)
    second = FisherPenalty(100.0, 0.5)
    second.restore(first.state())
    for name in ("fisher", "anchored", "anchor_point"):
        a, b = getattr(first, name), getattr(second, name)
        assert len(a) > 0
        assert a.keys() == b.keys()
        assert all(torch.equal(a[n], b[n]) for n in a)


def written_out(teacher, passed, labels, known, temperature, levels):
    """Mean over all labels of -Σ_c softmax(z'/T)_c log softmax(z/T)_c, c over its level's old classes."""
    teacher.eval()
    with torch.no_grad():
        answers = teacher(passed.inputs)[1]
    total = torch.zeros(())
    for i, cls in pairs(labels):
        old = [c for c in range(known) if levels[c] == levels[cls]]
        if old:
            soft = F.softmax(answers[i, old] / temperature, 0)
            total = total - (soft * F.log_softmax(passed.logits[i, old] / temperature, 0)).sum()
    return total / len(pairs(labels))


@pytest.mark.parametrize("labels", [LABELS, SEVERAL])
def test_distillation_is_its_formula(labels):
    levels = [1, 2, 1, 2, 2]
    bench = make_bench(levels)
    model = bench.model
    objective = Distillation(2.0, 1.5, clip=10.0)
    known = [0, 1, 2, 3, 4]
    for seed in range(2):  # there is nothing yet that could be kept
        passed = forward(bench, seed, known)
        torch.testing.assert_close(objective.loss(bench, passed), plain_loss(passed.logits, known, levels))
    assert (objective.known, bench.cost.images_forward) == (0, 0)

    teacher = copy.deepcopy(model)
    levels += [4, 2]
    for level in levels[5:]:  # no update in between: one teacher for both
        meet(bench, level)

    def check(passed):
        buffers = [b.clone() for b in model.buffers()]
        got = objective.loss(bench, passed)
        wanted = plain_loss(passed.logits, labels) + 1.5 * written_out(
            teacher, passed, labels, 5, 2.0, levels
        )
        torch.testing.assert_close(got, wanted)
        for a, b in zip(
            torch.autograd.grad(got, list(model.parameters()), retain_graph=True),
            torch.autograd.grad(wanted, list(model.parameters())),
            strict=True,
        ):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
        assert model.training
        assert all(torch.equal(a, b) for a, b in zip(model.buffers(), buffers, strict=True))
        assert objective.known == 5

    check(forward(bench, 4, labels))  # the network before this pass is the teacher, its statistics too
    with torch.no_grad():  # the model goes on, its statistics too
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    for seed in range(3):
        forward(bench, 50 + seed, labels)
    check(forward(bench, 5, labels))
    assert bench.cost.images_forward == 2 * len(labels)  # the teacher's passes

    only_new = forward(bench, 6, [5, 5, 5])  # level 4: the teacher knows nothing of it
    torch.testing.assert_close(objective.loss(bench, only_new), plain_loss(only_new.logits, [5, 5, 5]))
    assert bench.cost.images_forward == 2 * len(labels)


def test_distillation_outlives_a_new_block_of_rows_and_a_restoration():
    bench = make_bench([1, 1, 2])
    objective = Distillation(2.0, 1.0, clip=10.0)
    objective.loss(bench, forward(bench, 0, [0, 1, 2]))
    meet(bench, 2)
    objective.loss(bench, forward(bench, 1, [0, 1, 2, 3]))
    assert objective.known == 3
    met = objective.state() | {"met": 203}  # as if the others had come without a new teacher
    for _ in range(199):
        meet(bench, 1)
    passed = forward(bench, 3, [0, 1, 2, 150])
    objective.restore(met)
    loss = objective.loss(bench, passed)
    assert objective.known == 3  # a teacher with fewer blocks of rows than the model has now
    other = Distillation(2.0, 1.0, clip=10.0)
    other.restore(objective.state())
    assert torch.equal(other.loss(bench, passed), loss)
    assert loss > CrossEntropy.loss(objective, bench, passed)


def test_each_new_class_makes_the_network_of_the_update_before_it_the_teacher():
    bench = make_bench([1, 1])
    objective = Distillation(2.0, 1.0, clip=10.0)
    for step, fresh in enumerate([0, 1, 0, 2]):
        for _ in range(fresh):
            meet(bench, 1)
        before = copy.deepcopy(bench.model.state_dict())
        known = len(bench.classes) - fresh
        passed = forward(bench, step, [0, 1])
        objective.loss(bench, passed).backward()
        with torch.no_grad():
            for parameter in bench.model.parameters():
                parameter -= 0.1 * parameter.grad
        if fresh:
            assert objective.known == known
            assert all(torch.equal(objective.teacher[name], value) for name, value in before.items())
