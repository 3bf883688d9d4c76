"""Losses, penalties and distillation against torch's own functions and formulas written out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ramify.classes import Classes
from ramify.networks import Heads, Model
from ramify.training.objectives import CrossEntropy, Distillation, FisherPenalty, Forward
from ramify.training.targets import LevelMask, Targets, cross_entropy, residuals

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


def same_with_gradients(got, wanted, logits):
    torch.testing.assert_close(got, wanted)
    a = torch.autograd.grad(got.sum(), logits, retain_graph=True)[0]
    b = torch.autograd.grad(wanted.sum(), logits, retain_graph=True)[0]
    torch.testing.assert_close(a, b)


def test_the_loss_is_torchs_on_each_samples_own_level(setting):
    classes, mask, logits, labels = setting
    got = cross_entropy(logits, Targets.of(labels, None), mask(), classes.level_of)
    wanted = torch.stack([own_level(logits[i], int(c)) for i, c in enumerate(labels)])
    same_with_gradients(got, wanted, logits)


def test_the_loss_of_mixed_samples_is_mixed(setting):
    classes, mask, logits, labels = setting
    rng = np.random.default_rng(1)
    partner = np.array([rng.choice(np.flatnonzero(classes.level_of[labels] == LEVELS[c])) for c in labels])
    lam = rng.random(12).astype(np.float32)
    got = cross_entropy(logits, Targets.of(labels, None, partner, lam), mask(), classes.level_of)
    wanted = torch.stack(
        [
            float(w) * own_level(logits[i], int(labels[i]))
            + (1 - float(w)) * own_level(logits[i], int(labels[partner[i]]))
            for i, w in enumerate(lam)
        ]
    )
    same_with_gradients(got, wanted, logits)


@pytest.mark.parametrize("mixed", [False, True])
def test_samples_that_carry_their_path_are_compared_at_every_level(setting, mixed):
    classes, mask, logits, _ = setting
    rng = np.random.default_rng(2)
    paths = np.stack(
        [rng.choice([0, 2], 12), rng.choice([1, 3, 4, 6], 12), np.full(12, -1), np.full(12, 5)], 1
    )
    paths = paths.astype(np.int32)
    partner, lam = (rng.permutation(12), rng.random(12).astype(np.float32)) if mixed else (None, None)
    targets = Targets.of(paths[:, 1].astype(np.int64), paths, partner, lam)
    got = cross_entropy(logits, targets, mask(), classes.level_of)
    wanted = []
    for i in range(12):
        for level in (0, 1, 3):
            loss = own_level(logits[i], int(paths[i, level]))
            if mixed:
                other = own_level(logits[i], int(paths[partner[i], level]))
                loss = float(lam[i]) * loss + (1 - float(lam[i])) * other
            wanted.append(loss)
    same_with_gradients(got, torch.stack(wanted), logits)


@pytest.mark.parametrize("told", [False, True])
def test_residuals_are_the_gradient_by_the_logits(setting, told):
    classes, mask, logits, _ = setting
    rng = np.random.default_rng(3)
    labels, partner, lam = rng.choice([0, 2], 12), rng.permutation(12), rng.random(12).astype(np.float32)
    paths = np.stack([labels, rng.choice([1, 3], 12)], 1).astype(np.int32) if told else None
    targets = Targets.of(labels, paths, partner, lam)
    losses = cross_entropy(logits, targets, mask(), classes.level_of)
    (gradient,) = torch.autograd.grad(losses.sum() / (2 if told else 1), logits)
    torch.testing.assert_close(residuals(logits.detach(), targets, mask(), classes.level_of), gradient)


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


def tiny(classes, seed=0):
    torch.manual_seed(seed)
    model = Model(
        nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh()), Heads(6, np.random.default_rng(seed))
    )
    for _ in range(len(classes)):
        model.heads.grow()
    return model


def forward(model, seed, labels):
    images = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(seed))
    model.train()
    features, logits = model(images)
    return Forward(images, features, logits, Targets.of(labels, None))


def bind(objective, model, classes):
    objective.bind(model, classes, LevelMask(classes, torch.device("cpu")))
    return objective


LABELS = np.array([0, 1, 2, 3, 4, 5, 6, 1])


def plain_loss(logits, labels):
    return torch.stack([own_level(logits[i], int(c)) for i, c in enumerate(labels)]).mean()


def test_the_objective_is_the_mean_over_the_batch():
    classes = make_classes()
    model = tiny(classes)
    passed = forward(model, 1, LABELS)
    got = bind(CrossEntropy(), model, classes).loss(passed)
    torch.testing.assert_close(got, plain_loss(passed.logits, LABELS))


def gradients(model, loss):
    named = dict(model.backbone.named_parameters())
    return dict(zip(named, torch.autograd.grad(loss, list(named.values()), retain_graph=True), strict=True))


def test_fisher_and_penalty_are_those_of_autograd():
    classes, strength, decay = make_classes(), 100.0, 0.5
    model = tiny(classes)
    objective = bind(FisherPenalty(strength, decay), model, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fisher = {n: torch.zeros_like(p) for n, p in model.backbone.named_parameters()}
    anchored = anchor = None
    for step in range(9):
        optimizer.zero_grad()
        passed = forward(model, step, LABELS)
        loss = objective.loss(passed)
        loss.backward(retain_graph=True)
        plain = gradients(model, plain_loss(passed.logits, LABELS))
        heads = [p.grad.clone() for p in model.heads.parameters()]
        objective.adjust_gradients()
        fisher = {n: (1 - decay) * fisher[n] + decay * plain[n] ** 2 for n in fisher}
        wanted = plain
        if anchored is not None:
            named = dict(model.backbone.named_parameters())
            penalty = strength * sum((anchored[n] * (named[n] - anchor[n]) ** 2).sum() for n in named)
            wanted = gradients(model, plain_loss(passed.logits, LABELS) + penalty)
            assert step == 4 or penalty > 0
        for name, parameter in model.backbone.named_parameters():
            torch.testing.assert_close(objective.fisher[name], fisher[name])
            torch.testing.assert_close(parameter.grad, wanted[name])
        assert all(torch.equal(p.grad, g) for p, g in zip(model.heads.parameters(), heads, strict=True))
        optimizer.step()
        if step == 3:  # a task ends
            objective.anchor()
            anchored = {n: f.clone() for n, f in fisher.items()}
            anchor = {n: p.detach().clone() for n, p in model.backbone.named_parameters()}
    assert all(f.abs().max() > 0 for n, f in objective.fisher.items() if n != "0.bias")  # BN hides this bias


def test_a_task_that_ends_before_the_first_update_holds_nothing():
    classes = make_classes()
    model = tiny(classes)
    objective = bind(FisherPenalty(100.0, 0.5), model, classes)
    objective.anchor()
    objective.loss(forward(model, 0, LABELS)).backward()
    objective.adjust_gradients()
    assert objective.anchor_point == {}


def test_fisher_continues_from_its_state():
    classes = make_classes()
    model = tiny(classes)
    first = bind(FisherPenalty(100.0, 0.5), model, classes)
    first.loss(forward(model, 0, LABELS)).backward()
    first.adjust_gradients()
    first.anchor()
    second = bind(FisherPenalty(100.0, 0.5), copy.deepcopy(model), classes)
    second.restore(first.state())
    for name in ("fisher", "anchored", "anchor_point"):
        a, b = getattr(first, name), getattr(second, name)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[n], b[n]) for n in a)


def written_out(teacher, passed, labels, known, temperature, levels):
    """Mean over the batch of -Σ_c softmax(z'/T)_c log softmax(z/T)_c, c over the old classes of the level."""
    teacher.eval()
    with torch.no_grad():
        answers = teacher(passed.images)[1]
    total = torch.zeros(())
    for i, cls in enumerate(labels):
        old = [c for c in range(known) if levels[c] == levels[cls]]
        if old:
            soft = F.softmax(answers[i, old] / temperature, 0)
            total = total - (soft * F.log_softmax(passed.logits[i, old] / temperature, 0)).sum()
    return total / len(labels)


def test_distillation_is_its_formula():
    levels = [1, 2, 1, 2, 2]
    classes = make_classes(levels)
    model = tiny(classes)
    objective = bind(Distillation(2.0, 1.5, clip=10.0), model, classes)
    objective.new_class(0)
    assert objective.known == objective.extra_passes == 0  # nothing has been learned that could be kept

    teacher = copy.deepcopy(model)
    objective.new_class(7)
    assert (objective.known, objective.extra_passes) == (5, 1)
    levels += [4, 2]
    for level in levels[5:]:
        classes.meet(level, f"new {level}", 0)
        model.heads.grow()
        objective.new_class(7)  # no update in between: the teacher stays
    assert objective.known == 5

    with torch.no_grad():  # the model goes on, its statistics too
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    for seed in range(3):
        forward(model, 50 + seed, LABELS)
    passed = forward(model, 5, LABELS)
    buffers = [b.clone() for b in model.buffers()]
    got = objective.loss(passed)
    wanted = plain_loss(passed.logits, LABELS) + 1.5 * written_out(teacher, passed, LABELS, 5, 2.0, levels)
    torch.testing.assert_close(got, wanted)
    for a, b in zip(
        torch.autograd.grad(got, list(model.parameters()), retain_graph=True),
        torch.autograd.grad(wanted, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)
    assert model.training
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), buffers, strict=True))

    only_new = forward(model, 6, np.array([5, 5, 5]))  # level 4: the teacher knows nothing of it
    torch.testing.assert_close(objective.loss(only_new), plain_loss(only_new.logits, [5, 5, 5]))


def test_distillation_outlives_a_new_block_of_rows_and_a_restoration():
    classes = make_classes([1, 1, 2])
    model = tiny(classes)
    objective = bind(Distillation(2.0, 1.0, clip=10.0), model, classes)
    objective.new_class(1)
    for label in range(200):
        classes.meet(1, f"more {label}", 0)
        model.heads.grow()
    passed = forward(model, 3, np.array([0, 1, 2, 150]))
    loss = objective.loss(passed)
    other = bind(Distillation(2.0, 1.0, clip=10.0), model, classes)
    other.restore(objective.state())
    assert torch.equal(other.loss(passed), loss)
    assert loss > CrossEntropy.loss(objective, passed)
