"""What runs will cost, against what they did cost and against published counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ramify.cli import main
from ramify.methods import METHODS
from ramify.networks import build_backbone
from ramify.networks.settings import NetworkSettings
from ramify.runs.presets import resolve
from ramify.runs.result import Result
from ramify.sweeps import sweep
from ramify.sweeps.cost import Costing, Totals, at_paper_scale, forward_cost
from ramify.sweeps.local import Local
from ramify.sweeps.plan import wall_seconds
from sweeping import TOML, small_study


@pytest.fixture(scope="module")
def costed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    study = small_study(method=["er", "rm", "clib", "gdumb", "oracle"])
    return sweep(study, tmp_path_factory.mktemp("cost") / "out", Local(2), quiet=True)


def test_the_work_is_counted_before_as_it_is_recorded_afterwards(costed: dict[str, Result]) -> None:
    costing = Costing()
    for run in small_study(method=["er", "rm", "clib", "gdumb", "oracle"]):
        work, result = costing.work(run.config), costed[run.name]
        assert work.updates == result.updates, run.name
        assert work.evaluated == result.images_evaluation, run.name
        assert work.samples == result.samples == 64


def test_totals_add_up(costed: dict[str, Result]) -> None:
    totals = Totals.of(costed.values())
    assert totals.runs == 5
    assert totals.images_backward == sum(one.images_backward for one in costed.values())
    assert totals.peak_memory == max(one.peak_memory for one in costed.values()) > 50_000_000
    assert str(totals).startswith("5 runs: ")


@pytest.mark.parametrize(("name", "published"), [("resnet18", 1.814e9), ("resnet34", 3.663e9)])
def test_multiply_adds_are_the_published_ones(name: str, published: float) -> None:
    assert forward_cost(NetworkSettings(name), 224) == pytest.approx(
        published, rel=0.01
    )  # less its classifier


def test_trimmed_convolutions_are_counted_as_they_run() -> None:
    backbone, total = build_backbone(NetworkSettings("resnet18", 0.5), image_size=32).eval(), 0

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        assert isinstance(layer.weight, Tensor)
        total += output.numel() * layer.weight[0].numel()

    for layer in backbone.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(count)
    with torch.no_grad():
        backbone(torch.zeros(1, 3, 32, 32))
    assert forward_cost(NetworkSettings("resnet18", 0.5), 32) == total


@pytest.mark.parametrize("method", [*METHODS])
def test_the_paper_costs_more_and_itself_as_much(method: str) -> None:
    config = resolve("small", method, "garden", "single-depth")
    paper = at_paper_scale(config)
    assert paper == resolve("paper", method, "garden", "single-depth")
    costing = Costing()
    assert costing.paper_ratio(paper) == 1
    assert costing.paper_ratio(config) > 5


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.integers(1, 6))
def test_the_time_of_a_plan_is_between_its_bounds(seconds: list[float], places: int) -> None:
    wall = wall_seconds(seconds, places)
    assert wall >= max(max(seconds), sum(seconds) / places) - 1e-6
    assert wall <= sum(seconds) / places + max(seconds) + 1e-6


def test_a_plan_runs_nothing(tmp_path: Path, hasty: None, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(TOML + 'method = ["er", "naive"]\nseed = [0, 1]\n')  # naive keeps nothing to train on
    assert main(["sweep", str(path), "--out", str(out), "--plan"]) == 0
    said = capsys.readouterr().out
    assert said.count("er-multiple-depth-s") == said.count("naive-multiple-depth-s") == 2
    assert "4 of 4 runs to do" in said
    assert not out.exists()
