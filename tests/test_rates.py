"""Learning rates against traces computed by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import ttest_ind

from ramify.memory import Importance
from ramify.methods import METHODS
from ramify.methods.checks import Toy, learner
from ramify.methods.epochs import warm_restarts
from ramify.reports.data import read_runs
from ramify.runs import run_config
from ramify.runs.run import prepare_dataset, prepare_stream
from ramify.training.rates import Adaptive, ExponentialReset, Rate
from tiny_runs import tiny

NO_PASS = None  # rates do not look at what went through the network


def make_bench():
    return learner(METHODS["er"], Toy.stream(1))


def test_the_exponential_rate_decays_and_starts_again_at_a_new_class():
    rate, bench = ExponentialReset(3e-4, 0.9), make_bench()
    seen = []
    for step in range(9):
        if step in (0, 4):
            bench.classes.meet(1, step, step)
        if step == 7:  # several at once are one new start
            bench.classes.meet(1, 7, step)
            bench.classes.meet(2, 7, step)
        seen.append(rate.value(bench))
        assert rate.value(bench) == seen[-1]  # asking changes nothing
        rate.learned(bench, NO_PASS)
    assert seen == pytest.approx([3e-4 * 0.9**n for n in (0, 1, 2, 3, 0, 1, 2, 0, 1)])


def test_the_exponential_rate_falls_no_further_than_told_and_starts_again_all_the_same():
    rate, bench = ExponentialReset(1.0, 0.5, least=0.3), make_bench()
    seen = []
    for step in range(7):
        if step in (0, 4):
            bench.classes.meet(1, step, step)
        seen.append(rate.value(bench))
        rate.learned(bench, NO_PASS)
    assert seen == [1.0, 0.5, 0.3, 0.3, 1.0, 0.5, 0.3]


def test_a_plain_rate_is_constant():
    rate, bench = Rate(0.1), make_bench()
    rate.learned(bench, NO_PASS)
    bench.classes.meet(1, "new", 0)
    assert rate.value(bench) == 0.1


class Told(Importance):
    """Says what it was told to say of the loss; remembers when intervals began."""

    def __init__(self, say):
        super().__init__(period=5)
        self.updates = 3  # so that a refresh falls into the midst of a call of `count`
        self.say, self.marks = say, 0

    def mark(self, bench):
        self.marks += 1

    def decrease(self, bench):
        return self.say()


def told(say, base=1.0):
    """A rate with the bench that it works on."""
    return Adaptive(base, Told(say)), make_bench()


def count(rate, bench, times):
    """Counts: calls of four updates, whose second is a refresh; between them calls of one without any."""
    values = []
    for _ in range(times):
        for bench.due in (3, 2, 1, 0, 0):
            rate.importance.learned(bench, NO_PASS)
            rate.learned(bench, NO_PASS)
        values.append(rate.value(bench))
    bench.classes.meet(1, len(bench.classes), 0)
    return values


def test_the_adaptive_rate_takes_turns_every_ten_counts():
    rate, bench = told(lambda: None)
    values = [rate.value(bench), *count(rate, bench, 99)]  # no decrease is known: nothing is ever compared
    assert values == pytest.approx([1.0 if n % 20 < 10 else 0.95 for n in range(100)])
    assert rate.importance.marks == 9


def test_the_adaptive_rate_records_under_the_rate_that_was_in_force():
    steps = iter(range(100))
    rate, bench = told(lambda: float(next(steps)))
    count(rate, bench, 19)
    assert (rate.high_decreases, rate.low_decreases) == ([], [])  # the first interval is not recorded
    count(rate, bench, 1)
    assert (rate.high_decreases, rate.low_decreases) == ([], [0.0])  # counts 11 to 20 ran at the low rate
    count(rate, bench, 30)
    assert (rate.high_decreases, rate.low_decreases) == ([1.0, 3.0], [0.0, 2.0])


def scripted(high, low):
    """A rate whose intervals decrease the loss by `high` and `low` plus a known wobble."""
    calls = []

    def say():
        calls.append(None)
        return (low if len(calls) % 2 else high) + 0.01 * ((7 * len(calls)) % 5)

    return told(say)


@pytest.mark.parametrize(
    ("high", "low", "pair"),
    [(0.0, 1.0, (0.95, 0.95**2)), (1.0, 0.0, (1 / 0.95, 1.0)), (0.5, 0.5, (1.0, 0.95))],
)
def test_the_better_rate_wins(high, low, pair):
    rate, bench = scripted(high, low)
    count(rate, bench, 209)
    assert (rate.high, rate.low) == (1.0, 0.95)  # ten low and nine high records are too few
    assert (len(rate.high_decreases), len(rate.low_decreases)) == (9, 10)
    value = count(rate, bench, 1)[0]
    assert (rate.high, rate.low) == pytest.approx(pair)
    assert value == (rate.high if rate.is_high else rate.low)
    changed = high != low
    assert (len(rate.high_decreases), len(rate.low_decreases)) == ((0, 0) if changed else (10, 10))


def reference(decreases, intervals):
    """CLIB's rule as a plain loop over intervals: the (high, low) pair after each."""
    high, low, is_high, records, pairs = 1.0, 0.95, True, {True: [], False: []}, []
    for interval in range(1, intervals + 1):
        if interval >= 2:
            records[is_high] = [*records[is_high], decreases[interval]][-10:]
        is_high = not is_high
        if len(records[True]) == len(records[False]) == 10:
            p = ttest_ind(records[False], records[True], equal_var=False, alternative="greater").pvalue
            if p < 0.05:
                high, low = low, low * 0.95
                records = {True: [], False: []}
            elif p > 0.95:
                high, low = high / 0.95, high
                records = {True: [], False: []}
        pairs.append((high, low, high if is_high else low))
    return pairs


@pytest.mark.parametrize("seed", range(3))
def test_the_adaptive_rate_follows_its_rule_over_a_long_trace(seed):
    rng = np.random.default_rng(seed)
    decreases = rng.normal(0, 1, 401) + 0.4 * np.sin(np.arange(401) / 20) * (-1.0) ** np.arange(401)
    said = iter(decreases[2:])
    rate, bench = told(lambda: float(next(said)))
    got = []
    for _ in range(400):
        value = count(rate, bench, 10)[-1]
        got.append((rate.high, rate.low, value))
    np.testing.assert_allclose(got, reference(decreases, 400))
    assert len({pair[0] for pair in got}) > 2  # it did move


def test_losses_that_never_change_leave_the_rate_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rate, bench = told(lambda: 0.0)
        count(rate, bench, 400)
    assert (rate.high, rate.low) == (1.0, 0.95)


def test_the_adaptive_rate_continues_from_its_state():
    rate, bench = scripted(0.0, 1.0)
    count(rate, bench, 137)
    other = Adaptive(5.0, rate.importance)
    other.restore(rate.state())
    assert other.value(bench) == rate.value(bench)
    assert other.state() == rate.state()
    assert other.state() is not rate.state()
    other.low_decreases.append(3.0)
    assert len(rate.low_decreases) == len(other.low_decreases) - 1


@pytest.mark.parametrize(
    ("name", "per_sample", "period", "counts"),
    [
        ("fms", 1.0, 4, 6),
        ("fms", 1.0, 1, 6),
        ("fms", 1.0, 3, 6),
        ("fms", 1.0, 5, 4),
        ("clib", 3.0, 5, 14),
        ("clib", 3.0, 2, 24),
        ("clib", 0.5, 2, 6),
    ],
)
def test_a_count_is_a_training_call_that_contains_a_refresh(name, per_sample, period, counts):
    """FMS makes 4 updates a call here (a stream batch of 4), CLIB 3, or one in two samples."""
    toy = Toy.stream(24, levels=(1,))
    trainer = learner(METHODS[name], toy, updates_per_sample=per_sample, importance={"period": period})
    toy.teach(trainer, 0, 24)
    updates, calls = round(24 * per_sample), {"fms": 6, "clib": min(24, round(24 * per_sample))}[name]
    ends = np.arange(calls + 1) * updates // calls
    assert trainer.recipe.rate.counts == counts == (np.diff(ends // period) > 0).sum()


def test_epochs_on_memory_warm_up_then_restart_as_torchs_scheduler_does():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=0.01)
    expected = [0.1]
    for _ in range(99):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert [warm_restarts(epoch) for epoch in range(100)] == pytest.approx(expected)


def test_a_run_records_the_rate_that_it_has_reached(tmp_path):
    config = tiny("er", lr_decay=0.9)
    run_config(config, tmp_path, threads=1)
    dataset = prepare_dataset(config)
    stream = prepare_stream(config, dataset)
    _, first = np.unique([stream.level, stream.label], axis=1, return_index=True)
    (run,) = read_runs([tmp_path])
    for record in run.records:
        latest = max(place for place in first if place < record.samples)
        updates = record.updates - latest // 4 * 4  # less those of the stream batches before its own
        assert record.lr == pytest.approx(config.lr * 0.9**updates)
