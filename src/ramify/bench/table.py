"""The benchmark itself: which workloads are measured, and the bars they are held against."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ramify.bench.augment import SHAPES, batch_making
from ramify.bench.features import (
    bytes_a_sample,
    encoding_ratio,
    feature_workload,
    fine_tuned,
    learning_gain,
    linear_ratio,
)
from ramify.bench.kernel import kernel_cost
from ramify.bench.learner import one_at_a_time, predict_start_up
from ramify.bench.measure import (
    admission,
    checkpoint_share,
    class_growth,
    evaluation_ratio,
    interleave,
    learning_memory,
    start_up,
    update_ratio,
    with_memory,
)
from ramify.bench.photos import IMAGES, PHOTOS, READ_AT, decoding, start_again
from ramify.bench.sweeps import no_op, overhead, ray_overhead, two_workers
from ramify.bench.workload import BareLoop, Workload
from ramify.methods import METHODS, make_settings
from ramify.networks.precision import has_bf16
from ramify.runs.presets import resolve

SMALL = make_settings(updates_per_sample=1.0, network={"name": "resnet18", "width": 0.5})
PERIOD = 24  # updates of the paper between two refreshes of the importance: a block has one of them
BARS = {"er": 0.93, "clib": 0.91, "fms": 0.91, "pl-fms": 0.9, "canopy": 0.9}  # on the small network
SIZES = {64: 8, 128: 8, 224: 4}  # pixels: updates in a block
THOUSAND = (3, 5, 12, 30, 90, 260, 600)
TEN_THOUSAND = (10, 30, 100, 300, 900, 2660, 6000)
SEVEN = (3, 4, 9, 34, 57, 72, 1010)  # iNaturalist-19's levels, 1,189 classes


@dataclass(frozen=True)
class Measured:
    """One figure. `bar` is the least ratio, or the largest time or size, that will do; None: no bar."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_most: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the bar is met."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.at_most else self.value >= self.bar


Show = Callable[[Measured], None]


def small(method: str) -> Workload:
    """A method on the benchmark's small network."""
    return Workload(method, SMALL)


def paper(method: str) -> Workload:
    """A method with the paper's settings for CIFAR-100, multiple-depth, and the default importance."""
    settings = resolve("paper", method, "cifar100", "multiple-depth")
    return Workload(method, make_settings(settings, importance={"kind": "probe"}, pl={"exact": False}))


def sized(pixels: int) -> Workload:
    """ER on the small network and larger images."""
    return Workload("er", replace(SMALL, memory_size=256, updates_per_sample=0.5), image_size=pixels)


def run_bench(quick: bool, show: Show) -> dict[str, Any]:
    """Measure everything (or the first rows), show each figure as it is known, return all of them."""
    report: dict[str, Any] = {"methods": {}, "growth": {}, "rows": []}

    def tell(row: Measured) -> None:
        report["rows"].append({"name": row.name, "value": row.value, "unit": row.unit, "bar": row.bar})
        show(row)

    def ratio(name: str, work: Workload, bar: float | None = None, blocks: int = 31, block: int = 8) -> None:
        found = update_ratio(work, blocks // 3 if quick else blocks, block)
        report["methods"][name] = found
        report.setdefault("limit", found["limit_per_second"])
        tell(Measured(f"{name}, updates/s ÷ limit", found["ratio"], "×", bar))

    for name, bar in BARS.items():
        ratio(name, small(name), bar)
    for name in BARS:
        ratio(f"{name} resnet34 paper", paper(name), 0.97, 7, PERIOD)
    _half_precision(report, tell, 3 if quick else 7)
    _larger_images(report, tell, 5 if quick else 15)
    _features(report, tell, quick)
    if quick:
        return report
    swept = make_settings(SMALL, importance={"kind": "sweep", "period": 5}, pl={"exact": True})
    ratio("pl-fms sweep 5", Workload("pl-fms", swept), None, 3, 16)
    for name in METHODS:
        trains = METHODS[name].memory_epochs != "answers" and not METHODS[name].closed_form
        if trains and name not in report["methods"]:
            ratio(name, small(name), None, 15)
    wide = Workload("pl-fms", replace(SMALL, memory_size=50_000), SEVEN)
    seconds = admission(wide)
    tell(
        Measured(
            "admission of one sample, memory 50,000, 1,189 classes, 7 levels", 1e6 * seconds, "µs", 150, True
        )
    )
    report["admission_seconds"] = seconds
    _batches(report, tell)
    report["evaluation"] = evaluation_ratio(small("er"))
    tell(Measured("evaluation ÷ bare forward pass, 5 levels", report["evaluation"]["ratio"], "×", 0.9))
    report["checkpoint"] = checkpoint_share(paper("ewc++"))
    share = 100 * report["checkpoint"]["share"]
    tell(Measured("checkpoints of ewc++ resnet34 every 300 s, share of the time", share, "%", 2, True))
    report["start_up_seconds"] = start_up()
    tell(Measured("ramify --help", report["start_up_seconds"], "s", 0.3, True))
    report["predict_seconds"] = predict_start_up()
    tell(Measured("ramify predict on one photo, processor time", report["predict_seconds"], "s", 1.5, True))
    report["peak_bytes"] = learning_memory(small("pl-fms"))
    tell(Measured("peak memory above the dataset", report["peak_bytes"] / 1e6, "MB", 700, True))
    _many_runs(report, tell)
    report["learner"] = one_at_a_time(small("pl-fms"))
    tell(Measured("partial_fit one sample at a time ÷ a run", report["learner"]["ratio"], "×", 0.9))
    _many_classes(report, tell)
    _growth(report, tell)
    _photographs(report, tell)
    return report


def _batches(report: dict[str, Any], tell: Show) -> None:
    """What the making of a batch takes, apart from the network."""
    report["batches"] = {}
    for images, size, autoaugment, repeats in SHAPES:
        name = f"{images}×3×{size}×{size}, {autoaugment}"
        report["batches"][name] = found = batch_making(images, size, autoaugment, repeats)
        for step, seconds in found.items():
            tell(Measured(f"{step}, batch of {name}", 1e6 * seconds, "µs"))


def _half_precision(report: dict[str, Any], tell: Show, blocks: int) -> None:
    """What bf16 gains with the paper's network, on one thread of a processor that has it."""
    if not has_bf16(torch.device("cpu")):
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    work = paper("pl-fms")
    half = replace(work, settings=replace(work.settings, precision="bf16"))
    method = half.mid_stream()
    report["precision"] = {}
    for name, limit, bar in (("fp32", work, 1.3), ("bf16", half, 0.93)):
        found = interleave(BareLoop(limit), method.updates, blocks, PERIOD)
        report["precision"][name] = found
        what = f"pl-fms resnet34 paper bf16, one thread, updates/s ÷ {name} limit"
        tell(Measured(what, found["ratio"], "×", bar))
    torch.set_num_threads(threads)


def _larger_images(report: dict[str, Any], tell: Show, blocks: int) -> None:
    """How an update fares at larger sizes, and how much of it is the kernel's work."""
    report["sizes"] = {}
    for pixels, block in SIZES.items():
        report["sizes"][pixels] = found = kernel_cost(sized(pixels), blocks, block)
        name = f"er {pixels} px"
        tell(Measured(f"{name}, updates/s ÷ limit", found["ratio"], "×", 0.85))
        tell(Measured(f"{name}, updates/s ÷ limit with glibc's own setting", found["plain_ratio"], "×"))
        tell(Measured(f"{name}, share of the kernel", 100 * found["kernel_share"], "%", 2, True))
        plain = 100 * found["plain_kernel_share"]
        tell(Measured(f"limit {pixels} px with glibc's own setting, share of the kernel", plain, "%"))


def _photographs(report: dict[str, Any], tell: Show) -> None:
    """What own photographs cost before anything is learned from them."""
    report["photos"] = {}
    for sides, count in PHOTOS.items():
        for size in READ_AT:
            name = f"photos of {sides[0]}×{sides[1]} to {size}, read ÷ Pillow alone"
            report["photos"][name] = found = decoding(sides, size, count)
            tell(Measured(name, found, "×", 0.8))
    report["second_start_seconds"] = seconds = start_again(IMAGES)
    tell(Measured(f"second start on {IMAGES:,} images", seconds, "s", 1, True))


def _features(report: dict[str, Any], tell: Show, quick: bool) -> None:
    """What a frozen network saves, and what learning from its features costs beside the bare loop."""
    report["features"] = found = {}
    for batch in (16, 64):
        found[f"linear {batch}"] = linear_ratio(feature_workload(batch), 11 if quick else 31)
        name = f"er on 1,280 features, batch {batch}, updates/s ÷ bare linear loop"
        tell(Measured(name, found[f"linear {batch}"]["ratio"], "×", 0.8))
    found["gain"] = learning_gain(fine_tuned(), feature_workload())
    tell(Measured("er on features ÷ fine-tuning at 128 px, samples/s", found["gain"]["ratio"], "×", 20))
    found["encoding"] = encoding_ratio(fine_tuned())
    tell(Measured("encoding at 128 px ÷ bare forward pass", found["encoding"]["ratio"], "×", 0.95))
    found["bytes"] = {"ratio": bytes_a_sample(feature_workload())}
    tell(Measured("memory a stored feature ÷ its bytes", found["bytes"]["ratio"], "×", 1.05, True))


def _many_runs(report: dict[str, Any], tell: Show) -> None:
    """What a sweep adds to its runs, and what its workers gain."""
    report["sweeps"] = found = {"two_workers": two_workers(), "overhead": overhead(), "no_op": no_op()}
    tell(
        Measured(
            "8 runs: two workers ÷ one worker on both cores", found["two_workers"]["ratio"], "×", 0.6, True
        )
    )
    tell(Measured("overhead of a run in a sweep", found["overhead"]["seconds"], "s", 1, True))
    tell(Measured("sweep of 90 finished runs", found["no_op"]["seconds"], "s", 3, True))
    if importlib.util.find_spec("ray"):
        found["ray"] = ray_overhead()
        tell(Measured("overhead of a run on Ray", found["ray"]["seconds"], "s", 3, True))


def _many_classes(report: dict[str, Any], tell: Show) -> None:
    """What 10,000 classes cost beside 1,000, in 7 levels, with the network and images of a `Learner`."""
    report["classes"] = {}
    for method in ("er", "pl-fms"):
        few, many = (Workload(method, SMALL, classes, 64) for classes in (THOUSAND, TEN_THOUSAND))
        for what, ratio in class_growth(few, many).items():
            report["classes"][f"{method}, {what}"] = ratio
            tell(
                Measured(f"{method}, {what}: 10,000 ÷ 1,000 classes, 7 levels, 64 px", ratio, "×", 1.3, True)
            )


def _growth(report: dict[str, Any], tell: Show) -> None:
    """How the cost of an update grows with the memory, the levels and the classes."""

    def row(name: str, found: float, bar: float | None = None) -> None:
        report["growth"][name] = found
        tell(Measured(name, found, "×", bar))

    for method in BARS:
        work = small(method)
        large = with_memory(work, 50_000)
        found = interleave(work.mid_stream().updates, large.mid_stream().updates, 15, 8)
        row(f"{method}, updates/s at memory 50,000 ÷ 2,000", found["ratio"], 0.98)
        seven = update_ratio(replace(work, classes=SEVEN), 15, 8)
        row(f"{method}, 7 levels, 1,189 classes, updates/s ÷ limit", seven["ratio"], 0.88)
        flat = update_ratio(replace(work, classes=(100,)), 15, 8)
        row(f"{method}, 1 level, updates/s ÷ limit", flat["ratio"])
