"""Tables of the docs from published runs: each study has its own.

`study` those of docs/reproduction.md and docs/study.md, the paper's figures in brackets; `pretrained` those
of docs/pretrained.md.

python tools/tables.py results/study.jsonl
python tools/tables.py results/pretrained.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, median

from claims import CARS, DUAL, FLAT, MULTIPLE, SINGLE, Runs, Seeds, Setting, accuracy, levels, shared
from ramify.reports.data import RunData, finished, read_runs
from ramify.reports.paper import Place, paper_figure, paper_results
from ramify.reports.statistics import Figure
from ramify.sweeps.experiments import display_name

METHODS = ("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "fms", "pl", "pl-fms")
TITLES: dict[Setting, str] = {
    MULTIPLE: "multiple-depth, `study` (10,000 updates)",
    SINGLE: "single-depth, single-label, `study`",
    DUAL: "single-depth, dual-label, `study` (40,000 samples, 20,000 updates)",
    CARS: "Stanford Cars at 64×64, single-depth, single-label, `study` (4,068 updates)",
}


def cell(seeds: Seeds, level: int, paper: Figure | None = None, metric: str = "final_accuracy") -> str:
    """Mean, spread over seeds where there are several, and the paper's mean in brackets."""
    if not seeds:
        return "–"
    ours = Figure.over_seeds(
        {seed: 100 * getattr(run.result, metric)[str(level)] for seed, run in seeds.items()}
    )
    spread = "" if ours.std is None else f"±{ours.std:.1f}"
    return f"{ours.mean:.1f}{spread}" + (f" ({paper.mean:.1f})" if paper else "")


def row(name: str, cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return f"| {name} | {' | '.join(cells)} |"


def head(title: str, columns: Sequence[str]) -> Iterator[str]:
    """The first two lines of a Markdown table."""
    yield row(title, columns)
    yield "|---" * (1 + len(columns)) + "|"


def level_names(seeds: Seeds) -> list[str]:
    """Level 1, 2, ... with their numbers of classes."""
    tree = next(iter(seeds.values())).tree
    return [f"{'level ' if h == 1 else ''}{h} ({size})" for h, size in enumerate(tree.sizes, 1)]


def final(seeds: Seeds, stream: Setting, method: str) -> str:
    """A method's final accuracy at every level."""
    dataset, setup, labels = stream
    paper = [paper_figure(setup, labels, dataset, method, h) for h in levels(seeds)]
    cells = [cell(seeds, h, figure) for h, figure in zip(levels(seeds), paper, strict=True)]
    return row(display_name(method), cells)


def hierarchical(runs: Runs, stream: Setting) -> Iterator[str]:
    """A row a method, a column a level."""
    yield from head(TITLES[stream], level_names(runs.of(stream, "er")))
    for method in METHODS:
        if seeds := runs.of(stream, method):
            yield final(seeds, stream, method)


def longer(runs: Runs) -> Iterator[str]:
    """The whole of CIFAR-100."""
    title = "multiple-depth, all 50,000 images, 1 update a sample (50,000 updates)"
    yield from head(title, level_names(runs.long["er"]))
    for method in ("er", "clib", "pl-fms"):
        yield final(runs.long[method], MULTIPLE, method)


def horizons(runs: Runs) -> Iterator[str]:
    """T, and what more labels are worth."""
    yield from head("PL-FMS, multiple-depth, `study`, seed 0", level_names(runs.of(MULTIPLE, "er")))
    for T, seeds in sorted(runs.by_T.items()):
        theirs = T * 2.5  # as the paper's stream is to ours
        cells = [Place(6, *MULTIPLE[1:], "cifar100", f"T={theirs:.0f}", h) for h in levels(seeds)]
        figures = [cell(seeds, h, paper_results().get(c)) for h, c in zip(levels(seeds), cells, strict=True)]
        yield row(f"T = {T:,.0f} (the paper's {theirs:,.0f})", figures)
    for method in ("pl-fms-t", "oracle"):
        yield final(runs.of(MULTIPLE, method), MULTIPLE, method)


def flat(runs: Runs) -> Iterator[str]:
    """A column a setup: final accuracy, then A_AUC."""
    names = [stream[1] for stream in FLAT]
    yield from head("flat streams, `study`", [*names, *(f"{name}, any-time" for name in names)])
    for method in ("er", "rm", "clib", "fms"):
        seeds = [runs.of(stream, method) for stream in FLAT]
        paper = [paper_figure(*stream[1:], stream[0], method, 1) for stream in FLAT]
        last = [cell(each, 1, figure) for each, figure in zip(seeds, paper, strict=True)]
        yield row(display_name(method), [*last, *(cell(each, 1, metric="auc") for each in seeds)])


def anytime(runs: Runs, stream: Setting) -> Iterator[str]:
    """A_AUC of the methods that were asked at any time."""
    yield from head(f"any-time, {TITLES[stream]}", level_names(runs.of(stream, "er")))
    for method in METHODS:
        seeds = runs.of(stream, method)
        if seeds and next(iter(seeds.values())).config.eval_at == "any-time":
            yield row(display_name(method), [cell(seeds, h, metric="auc") for h in levels(seeds)])


FROZEN = {
    MULTIPLE: "CIFAR-100, multiple-depth",
    SINGLE: "CIFAR-100, single-depth",
    CARS: "Stanford Cars at 64 × 64, single-depth",
}
ORDER = ("naive", "randumb", "ncm", "slda", "ranpac", "er", "clib", "fms", "pl-fms", "canopy", "retrain")


def alone(run: RunData) -> bool:
    """Whether a learner in closed form got no help between levels."""
    return run.config.method in ("slda", "ranpac") and run.config.decode == "heads"


def on_features(path: str) -> dict[Setting, dict[tuple[str, bool], Seeds]]:
    """The runs on frozen features by stream, then method and whether its levels are alone."""
    found: dict[Setting, dict[tuple[str, bool], Seeds]] = {stream: defaultdict(dict) for stream in FROZEN}
    for run, _ in finished(read_runs([path])):
        stream = (run.config.dataset, run.config.setup, "single")
        found[stream][run.config.method, alone(run)][run.config.seed] = run
    return found


def frozen(runs: dict[tuple[str, bool], Seeds], title: str) -> Iterator[str]:
    """A row a method: its seeds, final accuracy and A_AUC at each level, and the median of its seconds."""
    names = [name.partition(" (")[0] for name in level_names(runs["er", False])]
    yield from head(title, ["seeds", *names, "A_AUC of each level", "seconds"])
    for method, apart in product(ORDER, (False, True)):
        if seeds := runs.get((method, apart)):
            results = [run.result for run in seeds.values() if run.result]
            asked = all(result.auc for result in results)
            auc = [mean(100 * one.auc[str(h)] for one in results) for h in levels(seeds)] if asked else []
            cells = [str(len(seeds)), *(cell(seeds, h) for h in levels(seeds))]
            seconds = f"{median(result.seconds for result in results):.0f}"
            name = display_name(method) + (", levels alone" if apart else "")
            yield row(name, [*cells, "/".join(f"{one:.1f}" for one in auc) or "–", seconds])


def help_between_levels(runs: dict[Setting, dict[tuple[str, bool], Seeds]], method: str) -> str:
    """What levels gain by each other in final accuracy, in points, over the seeds of both."""
    pairs = [shared(found[method, False], found[method, True]) for found in runs.values()]
    gains = [", ".join(f"{accuracy(a, h) - accuracy(b, h):+.1f}" for h in levels(b)) for a, b in pairs]
    return f"{display_name(method)} {'; '.join(gains)}"


def pretrained(path: str) -> Iterator[str]:
    """The tables of docs/pretrained.md, and what levels gain by each other."""
    runs = on_features(path)
    for stream, title in FROZEN.items():
        yield from (*frozen(runs[stream], title), "")
    yield from (help_between_levels(runs, method) for method in ("slda", "ranpac"))


def tables(folder: str) -> Iterator[str]:
    """All tables of the study, an empty line after each."""
    runs = Runs(folder)
    parts = (
        hierarchical(runs, MULTIPLE),
        longer(runs),
        hierarchical(runs, SINGLE),
        hierarchical(runs, DUAL),
        hierarchical(runs, CARS),
        horizons(runs),
        flat(runs),
        anytime(runs, MULTIPLE),
        anytime(runs, SINGLE),
    )
    for part in parts:
        yield from (*part, "")


def main() -> int:
    """Print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", help="the study's runs, as results/ has them")
    runs = parser.parse_args().runs
    print("\n".join(pretrained(runs) if Path(runs).stem == "pretrained" else tables(runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
