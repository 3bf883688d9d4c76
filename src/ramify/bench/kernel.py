"""What larger images cost, and how much of it is the kernel's work, with and without `ramify.allocator`."""

from __future__ import annotations

import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from ramify.bench.measure import Timed
from ramify.bench.workload import BareLoop, Workload, now

_loops: dict[str, Timed] = {}  # of a measuring process


@dataclass(frozen=True)
class Spent:
    """Seconds an update: on the clock, and the processors' in the program and in the kernel."""

    wall: float
    user: float
    kernel: float


def kernel_cost(work: Workload, blocks: int, block: int) -> dict[str, float]:
    """Speed of an update over that of the bare loop, and the kernel's share of the processors' time.

    `ratio` is against the bare loop in the same process, `plain_ratio` against that of a process as glibc is
    set. Both processes are new and take turns.
    """
    spawn = partial(ProcessPoolExecutor, 1, mp_context=get_context("spawn"), initializer=_prepare)
    with spawn(initargs=(work, True)) as ours, spawn(initargs=(work, False)) as plain:
        series = {"er": (ours, "update"), "kept": (ours, "limit"), "plain": (plain, "limit")}
        found: dict[str, list[Spent]] = {name: [] for name in series}
        for _ in range(1 + blocks):
            for name, (process, loop) in series.items():
                found[name].append(process.submit(_spend, loop, block).result())
    er, kept, plain_ = (spent[1:] for spent in found.values())  # the first is warm-up
    return {
        "ratio": statistics.median(b.wall / a.wall for a, b in zip(er, kept, strict=True)),
        "plain_ratio": statistics.median(b.wall / a.wall for a, b in zip(er, plain_, strict=True)),
        "kernel_share": _share(er),
        "limit_kernel_share": _share(kept),
        "plain_kernel_share": _share(plain_),
        "per_second": 1 / statistics.median(spent.wall for spent in er),
    }


def _share(spent: list[Spent]) -> float:
    kernel = sum(one.kernel for one in spent)
    return kernel / (kernel + sum(one.user for one in spent))


def _prepare(work: Workload, ours: bool) -> None:
    _loops["limit"] = BareLoop(work)
    if ours:
        _loops["update"] = work.mid_stream().updates  # a trainer lets its process keep buffers


def _spend(loop: str, count: int) -> Spent:
    before, start = os.times(), now()
    each = _loops[loop](count)
    after, seconds = os.times(), now() - start
    made = seconds / each  # updates
    return Spent(each, (after.user - before.user) / made, (after.system - before.system) / made)
