"""Tables of docs/reproduction.md and docs/study.md from the study's runs, the paper's figures in brackets.

python tools/tables.py results/study.jsonl
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from claims import CARS, DUAL, FLAT, MULTIPLE, SINGLE, Runs, Seeds, Setting, levels
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


def tables(folder: str) -> Iterator[str]:
    """All tables, an empty line after each."""
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
    parser.add_argument("runs", help="folder of the study's runs")
    print("\n".join(tables(parser.parse_args().runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
