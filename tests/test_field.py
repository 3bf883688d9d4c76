"""The field's methods beside the paper's, each against its formula written out once more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ramify.methods.checks import Toy, learner, same, through_a_file, weights
from ramify.methods.derpp import der
from ramify.methods.er_ace import er_ace
from ramify.methods.er_las import er_las


def own_level(row, cls, levels, among=None, shift=None):
    """Cross-entropy of one row over the classes of one level, or some of them, by torch."""
    mates = [c for c, level in enumerate(levels) if level == levels[cls] and (among is None or c in among)]
    values = row[mates] if shift is None else row[mates] + torch.tensor([shift[c] for c in mates])
    return F.cross_entropy(values[None], torch.tensor([mates.index(cls)]))


def held_against(trainer, wanted_loss):
    """Let every loss of a learner be compared, with its gradients, with a formula of batch and logits."""
    original, compared = trainer.recipe.minimise.loss, []

    def watched(bench, forward):
        wanted = wanted_loss(bench, forward.batch, forward.logits)
        found = original(bench, forward)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        grads = [torch.autograd.grad(one, forward.logits, retain_graph=True)[0] for one in (found, wanted)]
        torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-5)
        compared.append(len(forward.batch))
        return found

    trainer.recipe.minimise.loss = watched
    return compared


def test_er_ace_is_its_formula():
    toy = Toy.stream(60)
    trainer = learner(er_ace, toy)

    def formula(bench, batch, logits):
        levels, total = bench.classes.level_of.tolist(), torch.zeros(())
        incoming = {
            int(c) for c, arrival in zip(batch.labels[:, 0], batch.arrivals, strict=True) if arrival >= 0
        }
        for new in (True, False):
            rows = [r for r in range(len(batch)) if (batch.arrivals[r] >= 0) == new]
            parts = [
                own_level(logits[r], int(batch.labels[r, 0]), levels, incoming if new else None) for r in rows
            ]
            total = total + (torch.stack(parts).mean() if parts else 0.0)
        return total

    compared = held_against(trainer, formula)
    toy.teach(trainer, 0, 60)
    assert len(compared) == trainer.updates > 40


@pytest.mark.parametrize(("tau", "window"), [(1.0, 1), (0.5, 3)])
def test_er_las_is_its_formula(tau, window):
    toy = Toy.stream(60)
    trainer = learner(er_las, toy, er_las={"tau": tau, "window": window})
    batches = []

    def formula(bench, batch, logits):
        levels = bench.classes.level_of.tolist()
        batches.append(batch.labels[:, 0].tolist())
        latest = [label for one in batches[-window:] for label in one]
        shift = {}
        for c, level in enumerate(levels):
            mates = [label for label in latest if levels[label] == level]
            share = mates.count(c) / len(mates) if mates else 0.0
            shift[c] = tau * float(np.log(share)) if share else -np.inf
        parts = [
            own_level(logits[r], int(batch.labels[r, 0]), levels, shift=shift) for r in range(len(batch))
        ]
        return torch.stack(parts).mean()

    compared = held_against(trainer, formula)
    toy.teach(trainer, 0, 60)
    assert len(compared) == trainer.updates > 40


class Dark:
    """DER++ written out (Buzzega et al. 2020, eq. 6), with a book of its own of the answers that were kept.

    The mean cross-entropy of the arrivals, α times the mean squared distance of the first half of the stored
    rows to what was answered when they came, β times the mean cross-entropy of the others.
    """

    def __init__(self, alpha, beta):
        self.alpha, self.beta, self.book, self.updates, self.widths = alpha, beta, {}, 0, set()

    def loss(self, trainer, batch, logits, labels):
        levels = trainer.classes.level_of.tolist()

        def own_level(row, cls):
            mates = [c for c, level in enumerate(levels) if level == levels[cls]]
            return F.cross_entropy(logits[row][mates][None], torch.tensor([mates.index(cls)]))

        def mean(values):
            return torch.stack(values).mean() if values else torch.zeros(())

        keys = [image.numpy().tobytes() for image in batch.inputs]
        new = [row for row in range(len(batch)) if batch.arrivals[row] >= 0]
        old = [row for row in range(len(batch)) if batch.arrivals[row] < 0]
        dark, again = old[: len(old) // 2], old[len(old) // 2 :]
        apart = [
            (logits[row, cls] - then) ** 2 for row in dark for cls, then in enumerate(self.book[keys[row]])
        ]
        total = mean([own_level(row, cls) for row in new for cls in labels[keys[row]]])
        total = total + self.alpha * mean(apart)
        total = total + self.beta * mean([own_level(row, cls) for row in again for cls in labels[keys[row]]])
        self.widths |= {len(self.book[keys[row]]) - logits.shape[1] for row in dark}
        for row in new:
            self.book[keys[row]] = logits[row].detach().half().float()
        self.updates += 1
        return total


@pytest.mark.parametrize("several", [False, True])
def test_der_is_its_formula(several):
    alpha, beta, toy = 0.3, 0.7, Toy.stream(80)
    trainer = learner(der, toy, derpp={"alpha": alpha, "beta": beta}, memory_size=16)
    oracle, labels, minimise = Dark(alpha, beta), {}, trainer.recipe.minimise
    original = minimise.loss

    def watched(bench, forward):
        wanted = oracle.loss(bench, forward.batch, forward.logits, labels)
        found = original(bench, forward)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        parameters = list(bench.model.parameters())
        for a, b in zip(
            torch.autograd.grad(found, parameters, retain_graph=True),
            torch.autograd.grad(wanted, parameters, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        return found

    minimise.loss = watched
    for i in range(80):
        pairs = (
            list(enumerate(toy.paths[i], 1)) if several and i % 3 == 0 else [(toy.levels[i], toy.labels[i])]
        )
        for level, label in pairs:
            trainer.meet(level, label)
        labels[toy.images[i].numpy().tobytes()] = [trainer.classes.find(*pair) for pair in pairs]
        trainer.observe(toy.images[i : i + 1], [pairs])
    assert oracle.updates == trainer.updates == 80
    assert min(oracle.widths) < 0  # classes came after some of the answers were kept
    assert 0 in oracle.widths
    memory = trainer.memory
    for slot in range(memory.size):
        kept = oracle.book[memory["inputs"][slot].numpy().tobytes()]
        row = memory["logits"][slot].float()
        torch.testing.assert_close(row[: len(kept)], kept, rtol=0, atol=0)
        assert row[len(kept) :].isnan().all()


def test_ders_loss_does_not_hang_on_spare_room_in_memory():
    """A learner goes on to more classes, is set back, and learns as a fresh one does from the same state."""
    toy = Toy.stream(60, levels=(1,))
    names = [*["a"] * 8, *[f"new {i}" for i in range(40)]]

    def teach(trainer, start, stop):
        trainer.observe(toy.images[start:stop], [[(1, names[i])] for i in range(start, stop)])

    gone_on = learner(der, toy)
    teach(gone_on, 0, 12)
    state = through_a_file(gone_on)
    teach(gone_on, 12, 48)
    gone_on.restore(state)
    fresh = learner(der, toy, seed=5)
    fresh.restore(state)
    for trainer in (gone_on, fresh):
        teach(trainer, 12, 40)
    assert same(weights(gone_on), weights(fresh))
