"""What is gained by not always answering: risk against coverage, and accuracy against depth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ramify.arrays import Floats, Mask
from ramify.evaluation import calibration
from ramify.evaluation.calibration import level_sureness, risk_coverage, stops
from ramify.reports.figures.axes import Axes
from ramify.reports.figures.panel import LEGEND_ROW, Drawing, Panel, label, legend_rows, marker
from ramify.reports.markup import Markup, el, join
from ramify.reports.palette import DASHES, Style
from ramify.reports.series import Series
from ramify.taxonomy import Taxonomy

WIDTH, HEIGHT = 340.0, 228.0
DEMANDS = np.round(np.arange(0, 1, 0.05), 2)
MARKED = (0.5, 0.8, 0.9, 0.95)
POINTS = 200  # at most, of a curve
AXES = (
    "Left: the share of mistakes when only the surest are answered. Right: answers that go as deep as they "
    "are sure enough, for demands from 0 to 0.95."
)
CAPTION = f"Answers given before their sample was learned. {AXES}"
OF_RUNS = f"The last answers on the test images, by the probability of each on its level's head. {AXES}"
Sure = tuple[Floats, Mask]  # confidences, and which answers are right


def sureness(levels: Mapping[int, Sure], paths: Sure | None = None) -> Drawing:
    """A learner's answers before learning, as `sureness_panels` draws them."""
    return Drawing(
        "Answers that know when to stop", tuple(sureness_panels(levels, paths)), CAPTION, columns=2
    )


def series_sureness(series: Series) -> list[Panel]:
    """The same of the last answers of finished runs, all seeds together; none where they are not kept."""
    found = [
        calibration.sureness(answers.predictions, answers.truth, answers.probability)
        for run in series.results()
        if (answers := run.answers) is not None and answers.probability is not None and len(answers.truth)
    ]
    if not found:
        return []
    confidence, right = (np.concatenate(parts) for parts in zip(*found, strict=True))
    levels = level_sureness(confidence, right)
    paths = (confidence, right) if len(levels) > 1 else None
    return sureness_panels(levels, paths, series.runs[0].tree) if levels else []


def sureness_panels(
    levels: Mapping[int, Sure], paths: Sure | None = None, tree: Taxonomy | None = None
) -> list[Panel]:
    """Risk–coverage of each level, [n] each; with `paths`, [n, levels], what a demand on confidence does."""
    names = {h: f"level {h}" if tree is None else tree.level_name(h) for h in levels}
    panels = [_risk_coverage(levels, names)]
    if paths is not None and len(paths[1]):
        panels.append(_depth(*paths))
    return panels


def _risk_coverage(levels: Mapping[int, Sure], names: Mapping[int, str]) -> Panel:
    looks = {level: Style(k % 8, k % len(DASHES)) for k, level in enumerate(levels)}
    curves = {level: risk_coverage(*sure) for level, sure in levels.items()}
    most = max([5.0, *(100 * float(risk.max()) for _, risk in curves.values())])
    axes = Axes((0, 100), (0, min(100.0, 1.05 * most)), 34, 40, WIDTH - 10, HEIGHT - 36)
    parts = [label(0, 13, "risk–coverage", class_="b"), axes.frame("answered (%)", "mistakes (%)")]
    for level, (coverage, risk) in curves.items():
        drawn = np.unique(np.linspace(0, len(risk) - 1, POINTS).astype(int))
        points = list(zip((100 * coverage[drawn]).tolist(), (100 * risk[drawn]).tolist(), strict=True))
        parts.append(_line(axes, points, looks[level]))
    legend, rows = legend_rows([(look, names[level]) for level, look in looks.items()], WIDTH - 44)
    parts.append(el("g", legend, transform=f"translate(34 {HEIGHT + 4:g})"))
    return Panel("Risk against coverage", WIDTH, HEIGHT + 4 + rows * LEGEND_ROW, join(parts))


def _depth(confidence: Floats, right: Mask) -> Panel:
    found = [s for s in stops(confidence, right, DEMANDS) if s.accuracy is not None]
    points = [(s.depth, 100 * s.accuracy) for s in found if s.accuracy is not None]
    least = min(y for _, y in points)
    axes = Axes((0, confidence.shape[1]), (max(0.0, least - 5), 100), 34, 40, WIDTH - 10, HEIGHT - 36)
    look = Style(6)
    parts = [
        label(0, 13, "accuracy of what is answered", class_="b"),
        axes.frame("mean depth (levels)", "right (%)"),
        _line(axes, points, look),
    ]
    row = -np.inf  # of the last name below it, so that none is written over another
    for stop, (x, y) in zip(found[::-1], points[::-1], strict=True):
        if stop.confidence in MARKED:
            row = max(row + 13, axes.y(y) + 4)
            parts.append(marker(look, axes.x(x), axes.y(y)))
            parts.append(label(axes.x(x) - 8, row, f"{stop.confidence:g}", "end", class_="t faint"))
    return Panel("Accuracy against depth", WIDTH, HEIGHT, join(parts))


def _line(axes: Axes, points: list[tuple[float, float]], look: Style) -> Markup:
    return el(
        "path",
        d=axes.path(points),
        class_=f"line s{look.color}",
        fill="none",
        stroke_dasharray=DASHES[look.dash] or None,
    )
