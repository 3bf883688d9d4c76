"""The report as a document: self-contained, small, and free of injected markup; then in a real browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import chromium, looking_at
from made_runs import EVIL, NASTY, make_run, study
from ramify.cli import main
from ramify.methods.closed_form import KinSettings
from ramify.methods.epochs import EpochSettings
from ramify.reports.data import read_runs
from ramify.reports.html import report_html
from ramify.reports.write import write_report
from ramify.runs.execute import run_config
from ramify.taxonomy import read_taxonomy
from tiny_runs import tiny


class Tags(HTMLParser):
    """The elements of a page, and the addresses they speak of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        for key, value in attrs:
            if key in ("src", "href", "action", "srcset", "data", "poster"):
                self.addresses.append(value or "")
            if key.startswith("on") or key == "style":
                self.handlers.append(key)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods, three seeds, and class names that try to be markup."""
    root = tmp_path_factory.mktemp("report")
    for method in ("er", "clib", "pl-fms"):
        for seed in range(3):
            make_run(root / f"{method}-{seed}", method, seed, tree=NASTY)
    write_report(read_runs([root]), root / "report.html", "A report")
    return root / "report.html"


def test_the_page_needs_nothing_else_and_runs_only_its_own_script(report: Path) -> None:
    text = report.read_text()
    tags = Tags(text)
    assert all(address.startswith("data:image/") for address in tags.addresses)
    assert tags.handlers == []
    assert tags.names.count("script") == 1
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = policy.replace("&#x27;", "'")
    assert rules.startswith("default-src 'none';")
    for tag in ("script", "style"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in rules


def test_names_commands_and_paths_are_text(report: Path) -> None:
    text = report.read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert EVIL not in text
    assert "<img src=x" not in text
    assert "ramify run --method pl-fms --seed 2" in text


def test_it_says_what_was_run_and_at_which_scale(report: Path) -> None:
    text = report.read_text()
    assert "9 runs, all finished" in text
    assert "not the paper&#x27;s scale" in text or "not the paper's scale" in text


def test_24_runs_stay_below_two_megabytes(tmp_path: Path) -> None:
    """Eight methods, three seeds, CIFAR-100's five levels, its 10,000 test images and 55 evaluations."""
    tree = read_taxonomy("cifar100")
    for method in ("er", "ewc++", "bic", "mir", "rm", "gdumb", "clib", "pl-fms"):
        for seed in range(3):
            make_run(
                tmp_path / f"{method}-{seed}",
                method,
                seed,
                tree,
                evaluations=55,
                images=10_000,
                samples=50_000,
            )
    assert len(report_html(read_runs([tmp_path])).encode()) < 2_000_000


def test_24_methods_stay_below_two_megabytes(tmp_path: Path) -> None:
    tree = read_taxonomy("cifar100")
    for i in range(24):
        make_run(tmp_path / f"m{i}", f"mine{i}", 0, tree, evaluations=55, images=10_000, samples=50_000)
    assert len(report_html(read_runs([tmp_path])).encode()) < 2_000_000


def test_settings_that_differ_are_shown(tmp_path: Path) -> None:
    make_run(tmp_path / "a", "er", memory_size=123)
    make_run(tmp_path / "b", "clib", memory_size=456)
    text = report_html(read_runs([tmp_path]))
    assert "Settings that differ" in text
    assert "123" in text
    assert "456" in text
    make_run(tmp_path / "c", "er", memory_size=456, kin=KinSettings(parents=7.0))  # which er does not read
    assert "Settings that differ" not in report_html(read_runs([tmp_path / "b", tmp_path / "c"]))


def test_settings_of_ones_own_are_among_those_that_differ_and_others_are_not(tmp_path: Path) -> None:
    make_run(tmp_path / "er", "er")
    for share in (0.5, 1.0):
        path = make_run(tmp_path / f"mine{share}", "mine:best", epochs=EpochSettings(7)) / "config.json"
        about = json.loads(path.read_text())
        about["config"]["best"] = {"share": share}
        path.write_text(json.dumps(about))
    text = report_html(read_runs([tmp_path]))
    row = re.search(r'<th scope="row">best.share</th>(.*?)</tr>', text)
    assert row is not None
    assert re.findall(r">([^<]+)</td>", row[1]) == ["–", "0.5", "1.0"]
    assert "epochs.count" not in text  # of which er has none, and which both of the others leave as it is


def test_a_run_just_begun_has_a_report(tmp_path: Path) -> None:
    make_run(tmp_path / "a", finished=False)
    (tmp_path / "a" / "records.jsonl").unlink()
    assert "no evaluation yet" in report_html(read_runs([tmp_path]))


def test_images_of_mistakes_come_from_the_dataset_that_was_learned(tmp_path: Path) -> None:
    run_config(tiny("er"), tmp_path / "run", threads=1)
    assert main(["report", str(tmp_path / "run"), "--figures", str(tmp_path / "figures")]) == 0
    text = (tmp_path / "run" / "report.html").read_text()
    mistakes = text.count('alt="test image')
    assert mistakes >= 4
    assert text.count("taught as") == 2 * 3 * mistakes  # three stored images each, in `alt` and `title`
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 7
    facts = json.loads((tmp_path / "run" / "config.json").read_text())
    facts["dataset"]["fingerprint"] = "another"
    (tmp_path / "run" / "config.json").write_text(json.dumps(facts))
    write_report(read_runs([tmp_path / "run"]), tmp_path / "without.html")
    text = (tmp_path / "without.html").read_text()
    assert "<img" not in text
    assert "The images are not at hand" in text


def test_mistakes_of_the_user_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert main(["report"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all(line.startswith("ramify: error: ") for line in errors)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_a_switch_takes_its_method_away_and_back(browser: Any, report: Path) -> None:
    with looking_at(browser, report.as_uri()) as page:
        lines = page.locator("svg.panel g[data-label='CLIB']")
        assert lines.count() == 2
        box = page.get_by_label("CLIB", exact=True)
        box.focus()
        page.keyboard.press("Space")
        assert not lines.first.is_visible()
        assert not page.locator("tr[data-series] th", has_text="CLIB").first.is_visible()
        assert page.locator("svg.panel g[data-label='ER']").first.is_visible()
        box.check()
        assert lines.first.is_visible()


def test_pointing_at_a_curve_tells_the_value_of_the_records(browser: Any, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", "er", seed=0)
    write_report(read_runs([folder]), tmp_path / "report.html")
    record = json.loads((folder / "records.jsonl").read_text().splitlines()[3])
    with looking_at(browser, (tmp_path / "report.html").as_uri()) as page:
        panel = page.locator("svg.panel[data-kind=lines]").first
        panel.scroll_into_view_if_needed()
        box, left, right = (
            panel.bounding_box(),
            *(float(panel.get_attribute(f"data-{s}")) for s in ("left", "right")),
        )
        scale = box["width"] / 340
        x = box["x"] + scale * (left + (right - left) * record["samples"] / 1200)
        page.mouse.move(x + 1, box["y"] + box["height"] / 2)
        tip = page.locator("#tip")
        expected = round(100 * record["accuracy"]["1"], 2)
        assert tip.inner_text() == f"{record['samples']} samples\nER: {expected:g} %"
        page.mouse.move(5, 5)
        assert not tip.is_visible()
        panel.focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        assert f"ER: {expected:g} %" in tip.inner_text()


def test_pointing_at_a_confusion_tells_its_share(browser: Any, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", "er")
    runs = read_runs([folder])
    write_report(runs, tmp_path / "report.html")
    assert runs[0].answers is not None
    truth, said = runs[0].answers.truth[:, 0], runs[0].answers.predictions[:, 0]
    share = 100 * np.mean(said[truth == 0] == 1)
    with looking_at(browser, (tmp_path / "report.html").as_uri()) as page:
        panel = page.locator("svg.panel[aria-label='Confusion at level 1, ER']")
        image = panel.locator("image").first
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        tip = page.locator("#tip")
        page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 0.25 * box["height"])
        page.wait_for_timeout(100)
        page.mouse.move(box["x"] + 0.74 * box["width"], box["y"] + 0.25 * box["height"])
        text = tip.inner_text()
        assert text.startswith("plant → animal: ")
        assert float(text.split(": ")[1].split()[0]) == pytest.approx(share, abs=0.5)


def test_one_method_at_a_time_in_detail(browser: Any, report: Path) -> None:
    with looking_at(browser, report.as_uri()) as page:
        details = page.locator("[data-detail]")
        assert [details.nth(i).is_visible() for i in range(3)] == [True, False, False]
        page.get_by_label("Method:").select_option(label="PL-FMS")
        page.locator("svg.panel[aria-label='Confusion at level 1, PL-FMS']").wait_for()
        assert [details.nth(i).is_visible() for i in range(3)] == [False, False, True]
        page.locator("[data-tip]:visible", has_text=EVIL).first.hover()
        assert EVIL in page.locator("#tip").inner_text()


def test_a_class_called_script_shows_as_text(browser: Any, report: Path) -> None:
    with looking_at(browser, report.as_uri()) as page:
        assert page.get_by_text(EVIL).first.is_visible()
        page.locator("[data-tip]", has_text=EVIL).first.hover()
        assert EVIL in page.locator("#tip").inner_text()
        assert page.locator("script").count() == 1
        assert page.locator("img").count() == 0


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_or_on_top_of_another(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    study(tmp_path / "runs", ("er", "ewc++", "bic", "mir", "clib", "pl-fms"), seeds=1)
    write_report(read_runs([tmp_path / "runs"]), tmp_path / "report.html")
    size = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with looking_at(browser, (tmp_path / "report.html").as_uri(), **size) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        overlaps = page.evaluate(OVERLAPS)
        assert overlaps == []
        small = page.evaluate(SMALLEST)
        assert small >= 8, "text that cannot be read"
        cut = page.evaluate(
            "[...document.querySelectorAll('.wide')].map((e) => e.scrollWidth > e.clientWidth)"
        )
        signs = page.locator(".more-sign")
        assert [signs.nth(i).is_visible() for i in range(signs.count())] == cut == [width == 390] * len(cut)
        if width == 1400:  # figures fill the page, also where they are two or four
            right = page.evaluate(WIDEST)
            assert min(right) > 0.95 * 1360
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")


WIDEST = """() => [...document.querySelectorAll(".panels, .wide")].flatMap((e) => {
  if (!e.checkVisibility()) return [];
  const boxes = [...e.querySelectorAll("svg.panel")].map((svg) => svg.getBoundingClientRect());
  return Math.max(...boxes.map((b) => b.right)) - Math.min(...boxes.map((b) => b.left));
})"""
OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg.panel")) {
    if (!svg.checkVisibility()) continue;
    const name = svg.getAttribute("aria-label");
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [i, [a, p]] of boxes.entries()) {
      const cut = p.left < frame.left - 2 || p.right > frame.right + 2 || p.bottom > frame.bottom + 3;
      if (cut) found.push(`${name}: ${a} is cut`);
      for (const [b, q] of boxes.slice(i + 1)) {
        const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (across > 1.5 && down > 4.5) found.push(`${name}: ${a} / ${b}`);
      }
    }
  }
  return found;
}"""
SMALLEST = """() => {
  const texts = [...document.querySelectorAll("svg.panel text")].filter((text) => text.checkVisibility());
  const scale = (t) => Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b);  // also of turned texts
  return Math.min(...texts.map((t) => parseFloat(getComputedStyle(t).fontSize) * scale(t)));
}"""
