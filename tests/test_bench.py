"""The benchmark measures what it says."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ramify.bench import table
from ramify.bench.augment import batch_making
from ramify.bench.features import (
    bytes_a_sample,
    encoding_ratio,
    feature_workload,
    fine_tuned,
    learning_gain,
    linear_ratio,
)
from ramify.bench.kernel import kernel_cost
from ramify.bench.learner import predict_start_up
from ramify.bench.measure import (
    admission,
    checkpoint_share,
    evaluation_ratio,
    interleave,
    learning_memory,
    update_ratio,
)
from ramify.bench.photos import by_pillow, make
from ramify.bench.profile import Clock, profile_table, profile_update
from ramify.bench.workload import BareLoop, Workload
from ramify.cli import main
from ramify.datasets import load_dataset
from ramify.methods import Settings
from ramify.methods.clib import ImportanceSettings
from ramify.methods.settings import NetworkSettings

TINY = Settings(memory_size=48, updates_per_sample=1.0, network=NetworkSettings("resnet18", 0.1, "imagenet"))
WORK = Workload("pl-fms", TINY, classes=(2, 5))
FEATURES = replace(feature_workload(classes=(2, 5)), features=64)
TUNED = replace(fine_tuned(32), settings=replace(fine_tuned().settings, memory_size=16))


def test_the_ratio_is_the_median_of_paired_blocks() -> None:
    limits, others = iter([9, 1.0, 2.0, 4.0]), iter([9, 2.0, 8.0, 4.0])  # the first are warm-up
    found = interleave(lambda _: next(limits), lambda _: next(others), blocks=3, block=8)
    assert found == {"ratio": 0.5, "per_second": 1 / 4, "limit_per_second": 1 / 2}


def test_a_learner_is_measured_in_mid_stream() -> None:
    stream = WORK.mid_stream()
    trainer = stream.trainer
    assert trainer.memory.full
    assert (len(trainer.classes), trainer.updates) == (7, 0)
    before = trainer.memory["inputs"].clone()
    first = next(trainer.model.backbone.parameters())
    weights = first.detach().clone()
    assert stream.updates(16) > 0
    assert trainer.updates == 16
    assert not torch.equal(before, trainer.memory["inputs"])
    assert any(
        not torch.equal(a, b) for a, b in zip(weights, trainer.model.backbone.parameters(), strict=True)
    )


def test_a_method_that_is_told_the_paths_is_measured_too() -> None:
    assert update_ratio(replace(WORK, method="pl-fms-t"), 1, 8)["ratio"] > 0


def test_the_limit_trains_the_methods_own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    adam = torch.optim.Adam.step

    def step(self: torch.optim.Adam) -> None:
        steps.append(sum(p.numel() for group in self.param_groups for p in group["params"]))
        adam(self)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    BareLoop(WORK)(3)
    backbone = sum(p.numel() for p in WORK.mid_stream().trainer.model.backbone.parameters())
    assert steps == [backbone + 7 * (51 + 1)] * 3


def test_more_work_costs_more() -> None:
    sweep = replace(TINY, memory_size=800, importance=ImportanceSettings("sweep", 1))
    probe = replace(sweep, importance=ImportanceSettings("probe", 1))
    slow, fast = (update_ratio(Workload("clib", s, classes=(2, 5)), 1, 4)["ratio"] for s in (sweep, probe))
    assert slow < 0.7 * fast


def test_the_other_figures_are_of_the_right_size() -> None:
    assert 0 < admission(WORK, 50) < 0.1
    assert 0.1 < predict_start_up(1) < 60
    assert evaluation_ratio(WORK, 1)["ratio"] > 0.1
    found = checkpoint_share(WORK, 1)
    assert found["bytes"] > 48 * 3 * 32 * 32
    assert found["share"] == pytest.approx(found["seconds"] / 300)


def test_the_steps_of_a_batch_are_timed() -> None:
    found = batch_making(16, 32, "cifar10", 30)
    assert found["crop and flip"] < found["all augmentation"] < 1
    assert min(found.values()) > 0


def test_the_peak_memory_is_that_of_the_learner_alone() -> None:
    ballast = np.ones(1 << 27)  # a GB in this process, from which the measuring one is started
    assert 50e6 < learning_memory(WORK) < 0.9 * ballast.nbytes


def test_the_quick_benchmark_prints_and_writes_the_same(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(table, "small", lambda method: replace(WORK, method=method))
    monkeypatch.setattr(table, "paper", lambda method: replace(WORK, method=method))
    monkeypatch.setattr(table, "with_memory", lambda work, size: work)
    monkeypatch.setattr(table, "update_ratio", lambda work, blocks, block: update_ratio(work, 1, 8))
    monkeypatch.setattr(table, "sized", lambda pixels: replace(WORK, method="er", image_size=pixels))
    monkeypatch.setattr(table, "SIZES", {64: 8})
    monkeypatch.setattr(table, "kernel_cost", lambda work, blocks, block: kernel_cost(work, 1, block))
    monkeypatch.setattr(table, "PERIOD", 8)
    monkeypatch.setattr(table, "feature_workload", lambda batch=16: FEATURES)
    monkeypatch.setattr(table, "fine_tuned", lambda: TUNED)
    monkeypatch.setattr(table, "linear_ratio", lambda work, blocks: linear_ratio(work, 1, 8))
    monkeypatch.setattr(table, "learning_gain", lambda tuned, work: learning_gain(tuned, work, 1))
    monkeypatch.setattr(table, "encoding_ratio", lambda work: encoding_ratio(work, 1, 1))
    assert main(["bench", "--quick", "--json", "--out", str(tmp_path / "b.json")]) == 0
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "b.json").read_text()
    report = json.loads(printed)
    assert report["limit"] > 0
    for name in ("er", "pl-fms", "clib", "fms", "er resnet34 paper"):
        assert report["methods"][name]["ratio"] > 0
    assert report["rows"][0]["name"] == "er, updates/s ÷ limit"
    assert {"er 64 px, updates/s ÷ limit", "er 64 px, share of the kernel"} <= {
        row["name"] for row in report["rows"]
    }
    for found in report["sizes"].values():
        assert min(found["ratio"], found["plain_ratio"], found["per_second"]) > 0
        assert all(0 <= found[share] < 1 for share in ("kernel_share", "plain_kernel_share"))
    frozen = report["features"]
    assert all(0 < frozen[f"linear {batch}"]["ratio"] < 5 for batch in (16, 64))
    assert frozen["gain"]["ratio"] > 1
    assert frozen["encoding"]["ratio"] > 0.2


def test_what_a_stored_feature_takes() -> None:
    assert type(FEATURES.mid_stream().trainer.model.backbone) is torch.nn.Identity
    wide = replace(FEATURES, features=1280)
    assert 1 <= bytes_a_sample(wide) <= 1.05
    assert bytes_a_sample(replace(FEATURES, features=8)) > 1.05  # what belongs to a sample is counted


class Parts:
    """One part that asks another."""

    def outer(self) -> None:
        spin(0.02)
        self.inner()

    def inner(self) -> None:
        spin(0.04)


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("whole", [False, True])
def test_time_counts_for_the_innermost_part_or_for_one_as_a_whole(whole: bool) -> None:
    clock, parts = Clock(), Parts()
    clock.watch("outer", parts, "outer", whole=whole)
    clock.watch("inner", parts, "inner", "not there")
    clock.begin()
    parts.outer()
    spin(0.01)
    found = clock.end(2)
    expected = {"outer": 0.03, "rest": 0.005} if whole else {"outer": 0.01, "inner": 0.02, "rest": 0.005}
    assert found == pytest.approx(expected, abs=0.003)


def test_a_profile_has_every_part_and_adds_up() -> None:
    found = profile_update(WORK, blocks=1, block=8)
    assert set(found) == {"pl-fms", "bare"}
    ours, bare = found["pl-fms"], found["bare"]
    needed = ("gather", "augment", "CutMix", "forward", "loss", "backward", "step", "keep", "votes")
    assert all(ours[part] > 0 for part in (*needed, "importance", "rest"))
    assert {part for part, seconds in bare.items() if seconds} == {
        *("forward", "loss", "backward", "step", "rest", "together")
    }
    for spent in found.values():
        assert sum(spent.values()) == pytest.approx(2 * spent["together"])
    assert "| importance |" in profile_table("tiny", found)


def test_pillow_alone_reads_the_same_photographs(tmp_path: Path) -> None:
    """What decoding is timed beside is no less work: all photographs, to the same pixels."""
    paths = make(tmp_path / "own", (48, 36), 5)
    dataset = load_dataset(tmp_path / "own", tmp_path / "data", image_size=16, progress=False)
    ours = [image.tobytes() for split in (dataset.train, dataset.test) for image in split.images]
    alone = [np.asarray(pixels).transpose(2, 0, 1).tobytes() for pixels in by_pillow(paths, 16)]
    assert sorted(ours) == sorted(alone)
