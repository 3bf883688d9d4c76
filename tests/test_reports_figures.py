"""Figures: values against records and independent counts; nothing outside its panel; one look a method."""

from __future__ import annotations

import base64
import io
import itertools
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load_file, save_file
from sklearn.metrics import confusion_matrix

from made_runs import SMALL, make_run, study
from ramify.errors import RamifyError
from ramify.reports.data import load_run, read_runs
from ramify.reports.figures.anytime import anytime_panels, anytime_points
from ramify.reports.figures.axes import ticks
from ramify.reports.figures.compute import compute_panels, cost
from ramify.reports.figures.confusion import confusion, confusion_panels
from ramify.reports.figures.heat import heat_uri
from ramify.reports.figures.hierarchy import ties
from ramify.reports.figures.memory import memory_counts
from ramify.reports.figures.panel import fit, text_width, wrap
from ramify.reports.figures.tree import node_accuracy
from ramify.reports.markup import Markup, el
from ramify.reports.palette import KNOWN, styles
from ramify.reports.series import Scenario, scenarios
from ramify.reports.write import drawings, write_figures
from ramify.taxonomy import Taxonomy

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    (found,) = scenarios(read_runs([study(tmp_path_factory.mktemp("study"))]))
    return found


def test_curves_are_mean_and_spread_of_the_records(scenario: Scenario) -> None:
    series = scenario.series[0]
    for level in (1, 2, 3):
        points = anytime_points(series, level)
        for samples, mean, std in points:
            values = [
                100 * record.accuracy[str(level)]
                for run in series.runs
                for record in run.records
                if record.samples == samples
            ]
            assert mean == pytest.approx(np.mean(values))
            assert std == pytest.approx(np.std(values, ddof=1))
        drawn = ET.fromstring(anytime_panels(scenario)[level - 1].svg())
        group = next(g for g in drawn.iter("g") if g.get("data-series") == series.key)
        assert json.loads(group.get("data-points") or "") == [
            [x, pytest.approx(mean, abs=0.006), pytest.approx(std, abs=0.006)] for x, mean, std in points
        ]


def test_every_drawing_is_whole_and_inside_its_frame(scenario: Scenario) -> None:
    names = []
    for name, drawing in drawings(scenario):
        names.append(name)
        root = ET.fromstring(drawing.to_svg())
        width, height = float(root.get("width") or 0), float(root.get("height") or 0)
        assert len(drawing.panels) > 0
        for panel in root.iter(f"{SVG}svg"):
            if panel is root:
                continue
            x, y = float(panel.get("x") or 0), float(panel.get("y") or 0)
            w, h = float(panel.get("width") or 0), float(panel.get("height") or 0)
            assert x + w <= width + 0.5
            assert y + h <= height + 0.5
            for text in panel.iter(f"{SVG}text"):
                if text.get("transform"):
                    continue
                start = float(text.get("x") or 0)
                size = {"b": 12, "t9": 9}.get((text.get("class") or "").split()[0], 11)
                length = text_width(text.text or "", size) / 1.06
                start -= {"middle": length / 2, "end": length}.get(text.get("text-anchor") or "", 0)
                assert start >= -1, (name, text.text)
                assert start + length <= w + 1, (name, text.text)
                assert 0 <= float(text.get("y") or 0) <= h, (name, text.text)
    kinds = {name.split("-")[0] for name in names}
    assert kinds == {"anytime", "compute", "tree", "hierarchy", "confusion", "sureness", "memory"}


def test_files_are_written_as_svg_and_png(scenario: Scenario, tmp_path: Path) -> None:
    paths = write_figures(scenario.runs[:1], tmp_path / "svg")
    assert len(paths) == 7
    assert all(ET.parse(path) for path in paths)
    pytest.importorskip("resvg_py", reason="PNG figures need the extra `report`")
    (_, drawing), *_ = drawings(scenario)
    drawing.save(tmp_path / "f.png", scale=2)
    image = Image.open(tmp_path / "f.png").convert("RGB")
    size = re.search(r'width="(\d+)" height="(\d+)"', drawing.to_svg())
    assert size is not None
    assert image.size == (2 * int(size[1]), 2 * int(size[2]))
    colors = {color for _, color in image.getcolors(10**6) or []}
    assert (0, 114, 178) in colors  # ER's blue is there: classes and styles were understood
    assert len(colors) > 50  # and text, which is smooth at its edges


def test_png_without_its_extra_is_one_line(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    (_, drawing), *_ = drawings(scenario)
    with pytest.raises(RamifyError, match=r"pip install 'ramify\[report\]'"):
        drawing.save(tmp_path / "f.png")


def test_confusion_is_scikit_learns_in_tree_order(scenario: Scenario) -> None:
    series = scenario.series[0]
    order = SMALL.order(3)
    both = [(run.answers.truth[:, 2], run.answers.predictions[:, 2]) for run in series.runs if run.answers]
    truth, said = (np.concatenate(part) for part in zip(*both, strict=True))
    expected = confusion_matrix(truth, said, labels=order, normalize="true")
    assert np.allclose(confusion(series, 3), expected)


def test_ties_are_the_parent_most_often_answered_with_a_child(scenario: Scenario) -> None:
    series = scenario.series[0]
    found = ties(series, 3)
    assert found is not None
    for child in range(SMALL.sizes[2]):
        together = [
            int(parent)
            for run in series.runs
            if run.answers is not None
            for parent in run.answers.predictions[run.answers.predictions[:, 2] == child, 1]
        ]
        counts = [together.count(parent) for parent in range(SMALL.sizes[1])]
        assert found.parent[child] == counts.index(max(counts))
        assert found.share[child] == pytest.approx(max(counts) / len(together))
        assert found.right[child] == (found.parent[child] == SMALL.parent(3, child))


def test_memory_is_the_mean_over_seeds(scenario: Scenario) -> None:
    series = scenario.series[1]
    moments, counts = memory_counts(series)
    assert moments == [record.samples for record in series.runs[0].records]
    for i, at in enumerate(moments):
        records = [record for run in series.runs for record in run.records if record.samples == at]
        for level, stored in records[0].memory_classes.items():
            expected = np.mean([record.memory_classes[level] for record in records], 0)
            assert np.allclose(counts[int(level) - 1][:, i], expected)
            assert len(stored) == SMALL.sizes[int(level) - 1]


def test_a_node_shows_what_is_known_and_what_was(scenario: Scenario) -> None:
    series = scenario.series[0]
    found = node_accuracy(series, 2)
    assert found is not None
    tables = [run.answers.class_accuracy[2] for run in series.runs if run.answers]
    assert np.allclose(found[0], np.mean([table[-1] for table in tables], 0))
    assert np.allclose(found[1], np.mean([np.nanmax(table, 0) for table in tables], 0))


def test_cost_counts_a_backward_pass_as_two(scenario: Scenario) -> None:
    found = {series.method: cost(series) for series in scenario.series}
    assert found["er"] is not None
    assert found["er"].mean == 9600 + 2 * 9600
    assert found["pl-fms"] is not None
    assert found["pl-fms"].mean == 9600 + 2 * 9600 + 1200


@settings(max_examples=30)
@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_heat_map_can_be_read_back_from_its_image(rows: list[list[float]]) -> None:
    uri = heat_uri(np.array(rows))
    image = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGBA")
    shares = (np.asarray(image)[:, :, 3] / 255.0) ** 2
    assert np.abs(shares - rows).max() < 0.005


def test_the_papers_methods_have_looks_of_their_own() -> None:
    assert len(set(KNOWN.values())) == len(KNOWN)
    hues = [style.color for method, style in KNOWN.items() if method not in ("fms", "pl", "pl-fms-t")]
    assert len(set(hues)) == len(hues)
    many = styles([*KNOWN, *(f"mine{i}" for i in range(12))])
    assert len(set(many.values())) == 24
    assert all(many[method] == KNOWN[method] for method in KNOWN)


@settings(max_examples=60)
@given(st.floats(0, 1e6), st.floats(0.1, 1e6), st.integers(3, 8))
@example(1.0, 400_001.0, 3)
def test_ticks_are_few_round_and_inside(low: float, span: float, most: int) -> None:
    found = ticks(low, low + span, most)
    assert 1 <= len(found) <= most
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)
    steps = {round((b - a) / span, 6) for a, b in itertools.pairwise(found)}
    assert len(steps) <= 1


@settings(max_examples=40)
@given(st.text(max_size=40), st.floats(5, 200))
def test_a_shortened_text_fits(text: str, width: float) -> None:
    assert text_width(fit(text, width, 11), 11) <= max(width, 0) or fit(text, width, 11) == ""
    assert " ".join(wrap(text, width, 11)) == " ".join(text.split())


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_nothing_in_a_text_becomes_markup(text: str) -> None:
    drawn = ET.fromstring(el("text", text, data_tip=text))
    assert list(drawn) == []
    shown = (drawn.text or "", drawn.get("data-tip"))
    plain = "".join(c if c.isprintable() or c in "\n\t" else "" for c in text)
    assert "".join(c for c in shown[0] if c.isprintable() or c in "\n\t").replace(
        "\ufffd", ""
    ) == plain.replace("\ufffd", "")
    assert el("b", Markup("<i>kept</i>")) == "<b><i>kept</i></b>"


def test_a_tree_too_fine_to_draw_is_cut_and_says_so(tmp_path: Path) -> None:
    fine = Taxonomy.from_rows([(f"p{i % 5}", f"leaf {i}") for i in range(400)])
    (found,) = scenarios([load_run(make_run(tmp_path / "run", tree=fine, images=400))])
    drawn = dict(drawings(found))
    assert "too fine to draw" in drawn["tree-ER"].to_svg()
    assert "hierarchy-ER" not in drawn


def test_a_level_that_was_not_met_is_not_said_to_be_too_fine(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    arrays = load_file(run / "predictions.safetensors")
    save_file(
        {name: a for name, a in arrays.items() if name != "accuracy.3"}, run / "predictions.safetensors"
    )
    (found,) = scenarios([load_run(run)])
    assert "too fine" not in dict(drawings(found))["tree-ER"].to_svg()


def test_every_method_has_its_name_beside_its_cost(tmp_path: Path) -> None:
    methods = ("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "fms", "pl", "pl-fms", "oracle")
    for method in methods:  # all at one place
        make_run(tmp_path / method, method, final={"1": 0.5, "2": 0.4, "3": 0.3})
    (found,) = scenarios(read_runs([tmp_path]))
    for panel in compute_panels(found):
        rows = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="t">([^<]+)<', panel.body)
        places = {name: (float(x), float(y)) for x, y, name in rows}
        assert places.keys() >= {series.label for series in found.series}
        for (x, y), (u, v) in itertools.combinations(places.values(), 2):
            assert abs(y - v) >= 12 or abs(x - u) > 20


def test_names_stand_beside_the_numbers_of_the_axis(tmp_path: Path) -> None:
    for method in ("er", "ncm", "slda"):
        make_run(tmp_path / method, method, final={"1": 0.8, "2": 0.8, "3": 0.8})
        if method != "er":  # one pass: next to nothing beside an update a sample
            file = tmp_path / method / "result.json"
            work = {"images_forward": 90, "images_backward": 0}
            file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | work), "utf-8")
    (found,) = scenarios(read_runs([tmp_path]))
    for panel in compute_panels(found):
        rows = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="t">(NCM|SLDA)<', panel.body)
        assert [float(x) >= 34 for x, _ in rows] == [True, True]


def test_a_confusion_names_its_columns_and_has_a_scale(scenario: Scenario) -> None:
    for level, panel in enumerate(confusion_panels(scenario.series[0]), 1):
        for name in scenario.tree.names(level):
            assert panel.body.count(f">{name}</text>") == 2
        assert ">0 %<" in panel.body
        assert ">100 %<" in panel.body
        assert panel.body.count("<image") == 2
