"""The paper's claims, one by one, against the runs of studies/study.toml (docs/reproduction.md).

Differences are in points of final accuracy at levels 1, 2, ..., over the seeds that both methods have; the
paper's stand in brackets.

python tools/claims.py results/study.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from statistics import mean

import numpy as np

from ramify.evaluation.anytime import Record
from ramify.reports.data import RunData, finished, read_runs
from ramify.reports.paper import Place, paper_figure, paper_results
from ramify.streams import Stream
from ramify.sweeps.experiments import display_name

Setting = tuple[str, str, str]  # dataset, setup, labels
MULTIPLE, SINGLE, DUAL = (
    ("cifar100", *rest)
    for rest in (("multiple-depth", "single"), ("single-depth", "single"), ("single-depth", "dual"))
)
CARS = ("stanford-cars", "single-depth", "single")
FLAT = [("cifar100", setup, "single") for setup in ("disjoint", "blurry", "i-blurry")]
HIERARCHICAL = (MULTIPLE, SINGLE, DUAL, CARS)
RIVALS = ("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib")
Seeds = dict[int, RunData]


class Runs:
    """Finished runs by stream, method and seed; the longer ones, and those with another T, apart."""

    def __init__(self, folder: str) -> None:
        self.plain: dict[tuple[Setting, str], Seeds] = defaultdict(dict)
        self.by_T: dict[float, Seeds] = {}
        self.long: dict[str, Seeds] = {}
        for run, _ in finished(read_runs([folder])):
            config = run.config
            stream = (config.dataset, config.setup, config.labels)
            if config.per_class == 500:
                self.long[config.method] = {config.seed: run}
            elif config.dataset != "cifar100" or config.fms.T == 2000:
                self.plain[stream, config.method][config.seed] = run
            if (
                stream == MULTIPLE
                and config.method == "pl-fms"
                and config.seed == 0
                and config.per_class == 200
            ):
                self.by_T[config.fms.T] = {0: run}

    def of(self, stream: Setting, method: str) -> Seeds:
        """A method's runs by seed."""
        return self.plain.get((stream, method), {})

    def rivals(self, stream: Setting, level: int) -> list[str]:
        """The paper's rivals that were run, the best first."""
        there = [m for m in RIVALS if self.of(stream, m)]
        return sorted(there, key=lambda m: -accuracy(self.of(stream, m), level))


def accuracy(seeds: Seeds, level: int) -> float:
    """Mean final accuracy in per cent."""
    return mean(100 * run.result.final_accuracy[str(level)] for run in seeds.values() if run.result)


def levels(seeds: Seeds) -> range:
    """From 1 to the deepest; none where there is no run."""
    return range(1, next(iter(seeds.values())).tree.depth + 1) if seeds else range(0)


def shared(a: Seeds, b: Seeds) -> tuple[Seeds, Seeds]:
    """Only the seeds that both have."""
    common = sorted(a.keys() & b.keys())
    return {s: a[s] for s in common}, {s: b[s] for s in common}


def minus(runs: Runs, a: tuple[Setting, str], b: tuple[Setting, str]) -> str:
    """The difference of two methods, or of one on two streams, at each level."""
    ours, theirs = shared(runs.of(*a), runs.of(*b))
    shown = []
    for level in levels(ours):
        one, other = (paper_figure(s[1], s[2], s[0], m, level) for s, m in (a, b))
        paper = f" ({one.mean - other.mean:+.1f})" if one and other else ""
        shown.append(f"{accuracy(ours, level) - accuracy(theirs, level):+.1f}{paper}")
    return ", ".join(shown) + (f"; seeds: {len(ours)}" if ours else "not run")


def around(seeds: Seeds, task: int, known: Callable[[Record], Iterable[str]]) -> tuple[float, float]:
    """How accuracy changes at the end of a task, in points, over the known levels.

    First from the evaluation before it, then to the mean of the two evaluations after it.
    """
    changes = []
    for run in seeds.values():
        at = [record.samples for record in run.records].index(run.task_ends[task - 1])
        before, here, *after = run.records[at - 1 : at + 3]
        up = mean(here.accuracy[h] - before.accuracy[h] for h in known(before))
        down = mean(record.accuracy[h] - here.accuracy[h] for record in after for h in known(here))
        changes.append((up, down))
    return 100 * mean(up for up, _ in changes), 100 * mean(down for _, down in changes)


def work(seeds: Seeds) -> tuple[int, int]:
    """Images trained on, and images through the network in training."""
    result = next(iter(seeds.values())).result
    assert result is not None
    return result.images_backward, result.images_forward + result.images_memory


def first(runs: Runs) -> Iterator[str]:
    """PL-FMS, the best rival, and the best of those that train on no more images than ER."""
    for stream in HIERARCHICAL:
        most = work(runs.of(stream, "er"))[0] * 1.01
        for level in levels(runs.of(stream, "pl-fms")):
            rivals = runs.rivals(stream, level)
            fair = [m for m in rivals if work(runs.of(stream, m))[0] <= most]
            paper = {m: paper_figure(*stream[1:], stream[0], m, level) for m in ("pl-fms", *RIVALS)}
            known = {m: figure.mean for m, figure in paper.items() if figure}
            lead = known.pop("pl-fms") - max(known.values())
            against = " and ".join(
                lead_over(runs, stream, m, level) for m in dict.fromkeys((rivals[0], fair[0]))
            )
            yield f"{' '.join(stream)}, level {level}: {against} ({lead:+.1f})"


def lead_over(runs: Runs, stream: Setting, rival: str, level: int) -> str:
    """PL-FMS minus a rival, over the seeds that both have."""
    ours, theirs = shared(runs.of(stream, "pl-fms"), runs.of(stream, rival))
    difference = accuracy(ours, level) - accuracy(theirs, level)
    return f"{difference:+.1f} to {display_name(rival)} (seeds: {len(ours)})"


def parts(runs: Runs) -> Iterator[str]:
    """What PL and FMS add to each other, and to CLIB."""
    for stream in HIERARCHICAL:
        for part, a, b in (
            ("PL to FMS", "pl-fms", "fms"),
            ("FMS to PL", "pl-fms", "pl"),
            ("PL to CLIB", "pl", "clib"),
            ("FMS to CLIB", "fms", "clib"),
        ):
            yield f"{' '.join(stream)}, {part}: {minus(runs, (stream, a), (stream, b))}"


def boundaries(runs: Runs) -> Iterator[str]:
    """Up to the end of each task but the last / after it: all levels known, or level 2 of single-depth."""
    for stream, tasks, known in (
        (MULTIPLE, (1, 2, 3, 4), lambda record: record.accuracy),
        (SINGLE, (2, 3, 4, 5), lambda record: ["2"]),
    ):
        for method in (*RIVALS, "fms", "pl", "pl-fms"):
            seeds = runs.of(stream, method)
            if seeds and next(iter(seeds.values())).config.eval_at == "any-time":
                changes = [around(seeds, task, known) for task in tasks]
                shown = "   ".join(f"{up:+5.1f} / {down:+5.1f}" for up, down in changes)
                yield f"{stream[1]}, {display_name(method):<8}{shown}"


def order(runs: Runs) -> Iterator[str]:
    """The rivals, best first."""
    for stream in (SINGLE, CARS):
        for level in levels(runs.of(stream, "er")):
            rivals = runs.rivals(stream, level)
            shown = ", ".join(f"{display_name(m)} {accuracy(runs.of(stream, m), level):.1f}" for m in rivals)
            yield f"{' '.join(stream)}, level {level}: {shown}"


def newness(runs: Runs) -> Iterator[str]:
    """Classes of the deepest level by the task that brought most of their samples: answers, and accuracy."""
    for stream, method in product((SINGLE, *FLAT), (*RIVALS, "fms", "pl", "pl-fms")):
        for seed, run in runs.of(stream, method).items():
            if run.answers is None:  # as in published runs
                continue
            arrivals = Stream.load(run.path / "stream.safetensors")
            last = arrivals.level == run.tree.depth
            brought = np.zeros((arrivals.tasks, arrivals.classes[-1]), int)
            np.add.at(brought, (arrivals.task[last], arrivals.label[last]), 1)
            came = brought.argmax(axis=0)
            share = np.bincount(came[run.answers.predictions[:, -1]]) / len(run.answers.predictions)
            final = run.answers.class_accuracy[run.tree.depth][-1]
            groups = [(share[task], final[came == task].mean()) for task in sorted(set(came))]
            shown = ", ".join(f"{100 * a:.0f} / {100 * b:.1f}" for a, b in groups)
            yield f"{stream[1]}, {display_name(method)}, seed {seed}: {shown}"


def labels(runs: Runs) -> Iterator[str]:
    """Dual minus single."""
    for method in ("er", "mir", "clib", "fms", "pl-fms"):
        yield f"{display_name(method)}: {minus(runs, (DUAL, method), (SINGLE, method))}"


def horizons(runs: Runs) -> Iterator[str]:
    """Final accuracy by T; the paper's T is 2.5 times ours, as its stream is."""
    for T, seeds in sorted(runs.by_T.items()):
        row, at = f"T={T * 2.5:.0f}", levels(seeds)
        paper = [paper_results().get(Place(6, *MULTIPLE[1:], "cifar100", row, level)) for level in at]
        ours = ", ".join(f"{accuracy(seeds, level):.1f}" for level in at)
        yield f"T={T:<8g}{ours}   ({', '.join(f'{f.mean:.1f}' for f in paper if f)})"


def flat(runs: Runs) -> Iterator[str]:
    """FMS minus CLIB."""
    for stream in FLAT:
        yield f"{stream[1]}: {minus(runs, (stream, 'fms'), (stream, 'clib'))}"


def bounds(runs: Runs) -> Iterator[str]:
    """Minus PL-FMS."""
    for method in ("pl-fms-t", "oracle"):
        yield f"{display_name(method)}: {minus(runs, (MULTIPLE, method), (MULTIPLE, 'pl-fms'))}"


def longer(runs: Runs) -> Iterator[str]:
    """Final accuracy."""
    for method, seeds in runs.long.items():
        yield f"{display_name(method)}: " + ", ".join(f"{accuracy(seeds, h):.1f}" for h in levels(seeds))


def through_the_tree(runs: Runs) -> Iterator[str]:
    """Mean over the levels: from each level's own head, and of the finest answer with its ancestors.

    The height of the lowest common ancestor counts the levels at which the ancestors are wrong.
    """
    long = {f"all 50,000 images, {display_name(method)}": seeds for method, seeds in runs.long.items()}
    shown = {
        f"{' '.join(stream)}, {display_name(method)}": seeds
        for (stream, method), seeds in runs.plain.items()
        if stream in HIERARCHICAL
    }
    for name, seeds in (*sorted(shown.items()), *long.items()):
        run = next(iter(seeds.values()))
        stream = (run.config.setup, run.config.labels, run.config.dataset)
        figures = [paper_figure(*stream, run.config.method, level) for level in levels(seeds)]
        wrong = mean(r.result.mistake_severity["all"] or 0.0 for r in seeds.values() if r.result)
        paper = f" ({mean(f.mean for f in figures if f):.1f})" if all(figures) else ""
        heads = mean(accuracy(seeds, level) for level in levels(seeds))
        yield f"{name}: {heads:.1f}, {100 - 100 * wrong / run.tree.depth:.1f}{paper}"


def spent(runs: Runs) -> Iterator[str]:
    """As a multiple of ER's."""
    for (stream, method), seeds in sorted(runs.plain.items()):
        if runs.of(stream, "er"):
            trained, passed = (a / b for a, b in zip(work(seeds), work(runs.of(stream, "er")), strict=True))
            yield f"{' '.join(stream)}, {display_name(method)}: {trained:.2f}, {passed:.2f}"


CLAIMS: dict[str, Callable[[Runs], Iterator[str]]] = {
    "PL-FMS is first at every level and setup": first,
    "PL contributes more than FMS": parts,
    "The drop at task boundaries is mild for PL-FMS and CLIB, and RM jumps": boundaries,
    "GDumb is worst in single-depth": order,
    "Head bias: share of answers / accuracy in %, by the classes' task (deepest level)": newness,
    "Dual-label is above single-label": labels,
    "T = 0.1 of the stream is best (multiple-depth)": horizons,
    "FMS is ahead of CLIB on flat streams": flat,
    "PL-FMS-T and Oracle are above PL-FMS (multiple-depth)": bounds,
    "All 50,000 images, 1 update a sample (multiple-depth)": longer,
    "Mean accuracy over levels, from their heads, and of the finest answer's ancestors": through_the_tree,
    "Work: images trained on, and images passed in training with those examined in memory": spent,
}


def main() -> int:
    """Print what each claim comes to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", help="folder of the study's runs")
    runs = Runs(parser.parse_args().runs)
    for claim, evidence in CLAIMS.items():
        print(claim)
        for line in evidence(runs):
            print(" ", line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
