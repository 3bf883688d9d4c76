"""Training keeps its buffers, where that is possible and the user has not decided otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ramify import allocator

only_glibc = pytest.mark.skipif(not allocator.is_glibc(), reason="glibc's malloc alone is told")

# Page faults are what the kernel's share of an update is made of, and other work on the machine adds none.
# Huge pages are left aside (PR_SET_THP_DISABLE of <sys/prctl.h>): there, one fault stands for hundreds.
UPDATES = """
import ctypes, resource, sys, torch
from ramify.bench.workload import Workload
from ramify.methods import make_settings, trainer
if sys.argv[1] == "plain":
    trainer.keep_buffers = lambda: None
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
torch.set_num_threads(1)
network = {"name": "resnet18", "width": 0.25}
settings = make_settings(memory_size=16, batch_size=16, updates_per_sample=0.5, network=network)
stream = Workload("er", settings, classes=(2, 5), image_size=64).mid_stream()
stream.updates(4)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
stream.updates(8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def clean() -> dict[str, str]:
    """The environment without a word about malloc."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}


def page_faults(how: str, **environment: str) -> int:
    """How often eight updates ask the kernel for a page."""
    command = [sys.executable, "-c", UPDATES, how]
    done = subprocess.run(command, env=clean() | environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


@only_glibc
def test_updates_leave_the_kernel_alone_unless_the_user_has_tuned_the_process() -> None:
    if (plain := page_faults("plain")) < 1000:
        pytest.skip("the kernel has next to nothing to do on this machine as it is")
    ours = min(page_faults("ours") for _ in range(3))  # what the kernel does beside it adds to a count
    assert ours < 0.25 * plain
    eager = {"MALLOC_MMAP_THRESHOLD_": str(128 * 1024), "MALLOC_TRIM_THRESHOLD_": "0"}
    assert page_faults("ours", **eager) > 4 * ours


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What malloc is told, which here does not reach it; as if on glibc, and without the user's wishes."""
    calls: list[tuple[int, int]] = []

    class Library:
        def __init__(self, name: None) -> None: ...

        @staticmethod
        def mallopt(option: int, value: int) -> int:
            calls.append((option, value))
            return 1

    monkeypatch.setattr(allocator.ctypes, "CDLL", Library)
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36", raising=False)
    for name in set(os.environ) - set(clean()):
        monkeypatch.delenv(name)
    return calls


def test_both_thresholds_are_set(told: list[tuple[int, int]]) -> None:
    assert allocator.keep_buffers()
    assert sorted(told) == [(-3, 32 * 2**20), (-1, -1)]


@pytest.mark.parametrize(
    ("name", "value", "respected"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "131072", True),
        ("MALLOC_TRIM_THRESHOLD_", "1", True),
        ("MALLOC_MMAP_MAX_", "0", True),
        ("MALLOC_TOP_PAD_", "0", True),
        ("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.malloc.trim_threshold=1", True),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=4096", True),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=1", False),
        ("MALLOC_ARENA_MAX", "2", False),
    ],
)
def test_the_environment_comes_first(
    told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, name: str, value: str, respected: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert allocator.keep_buffers() is not respected
    assert bool(told) is not respected


def _unknown(name: str) -> str:
    raise ValueError("unrecognized configuration name")  # what musl and macOS answer


@pytest.mark.parametrize("confstr", [_unknown, lambda name: None, lambda name: "another libc"])
def test_nothing_is_done_without_glibc(told, monkeypatch, confstr) -> None:
    monkeypatch.setattr(os, "confstr", confstr)
    assert not allocator.keep_buffers()
    monkeypatch.delattr(os, "confstr")  # Windows
    assert not allocator.keep_buffers()
    assert not told


def test_a_library_without_mallopt_is_no_mistake(told, monkeypatch) -> None:
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_buffers()
