"""The live page: what it shows, what it refuses, and that it follows a run in a real browser."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium, looking_at
from made_runs import SMALL, make_run
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.reports.data import load_run
from ramify.reports.series import scenarios
from ramify.reports.words import Progress
from test_reports_html import EVIL, NASTY

pytest.importorskip("uvicorn", reason="the live page needs the extra `watch`")

from ramify.reports.live import LOCAL, LiveRuns, admits, allowed_hosts, make_app, make_server


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which it is watched."""
    root = tmp_path / "runs"
    root.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = make_server(make_app(root), "127.0.0.1", port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    yield root, f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def get(url: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def test_progress_speed_and_time_left_come_from_the_records(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "run", finished=False, evaluations=12))
    progress = Progress.of(run)  # 100 samples a second of training, half a second an evaluation every 100
    assert (progress.done, progress.total) == (600, 1200)
    assert progress.speed == pytest.approx(300 / (3 + 1.5))
    assert progress.left == pytest.approx(600 / (300 / 4.5))


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        ("127.0.0.1:8765", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:8765", True),
        ("evil.example", False),
        ("evil.example:8765", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_only_this_machines_names_are_admitted(header: str, answer: bool) -> None:
    assert admits(LOCAL, header) == answer
    assert admits(allowed_hosts("box.lan"), "box.lan:80")
    assert admits(allowed_hosts("0.0.0.0"), "anything")


def test_the_page_refuses_other_hosts_and_other_paths(served: tuple[Path, str]) -> None:
    root, url = served
    make_run(root / "run", finished=False)
    for path in ("", "view", "events"):
        status, text, _ = get(url + path, Host="evil.example")
        assert (status, text) == (403, "this page is not served under that name\n")
    for path in ("run/config.json", "../secret", "%2e%2e/secret", "static/x"):
        assert get(url + path)[0] == 404
    status, text, headers = get(url)
    assert status == 200
    assert "600 of 1,200 samples" in text
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"


def test_only_runs_below_the_folder_are_read(served: tuple[Path, str], tmp_path: Path) -> None:
    root, url = served
    make_run(root / "inside", "er", finished=False)
    outside = make_run(tmp_path / "outside", "clib", finished=False)
    (root / "link").symlink_to(outside)
    assert "CLIB" not in get(url)[1]
    assert "ER" in get(url)[1]


def test_an_empty_folder_and_a_damaged_run_do_not_break_the_page(served: tuple[Path, str]) -> None:
    root, url = served
    assert "No run below" in get(url)[1]
    folder = make_run(root / "run", finished=False)
    (folder / "config.json").write_text("{<b>")
    status, text, _ = get(url + "view")
    assert status == 200
    assert "config.json is damaged" in text


def test_a_folder_that_is_not_there_and_a_taken_port_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path / "nowhere")]) == 2
    assert main(["watch", str(tmp_path), "--port", "0"]) == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["watch", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert "is not a folder" in errors[0]
    assert "choose another --port" in errors[2]


def test_a_damaged_run_is_told_beside_the_others(tmp_path: Path) -> None:
    for name, method in (("whole", "er"), ("records", "clib"), ("answers", "fms")):
        make_run(tmp_path / name, method)
    (tmp_path / "records" / "records.jsonl").write_text("{}\n")
    (tmp_path / "answers" / "predictions.safetensors").write_bytes(b"")
    page = LiveRuns(tmp_path).view()
    assert "ER, seed 0" in page
    assert "records: " in page
    assert "answers: " in page


def test_without_the_extra_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(RamifyError, match=r"pip install 'ramify\[watch\]'"):
        make_app(tmp_path)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def test_a_new_record_appears_without_reload(browser: Any, served: tuple[Path, str]) -> None:
    root, url = served
    folder = make_run(root / "er", "er", finished=False, tree=NASTY)
    make_run(root / "clib", "clib", finished=False, tree=NASTY)
    with looking_at(browser, url) as page:
        page.get_by_text("live", exact=True).wait_for()
        page.evaluate("window.kept = true")
        page.get_by_label("CLIB", exact=True).uncheck()
        curve = page.locator("svg.panel g[data-label='ER']").first
        before = json.loads(curve.get_attribute("data-points"))
        record = json.loads((folder / "records.jsonl").read_text().splitlines()[-1])
        record |= {"samples": 900, "accuracy": {"1": 0.4321}}
        with (folder / "records.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        page.get_by_text("900 of 1,200 samples").wait_for()
        after = json.loads(curve.get_attribute("data-points"))
        assert after == [*before, [900, 43.21, None]]
        assert page.evaluate("window.kept") is True
        assert not page.locator("svg.panel g[data-label='CLIB']").first.is_visible()
        make_run(root / "new", "pl-fms", finished=False, tree=NASTY)
        page.get_by_label("PL-FMS", exact=True).wait_for()
        assert page.locator("script").count() == 1
        assert EVIL not in page.content()


def test_the_live_page_fits_a_phone(browser: Any, served: tuple[Path, str]) -> None:
    root, url = served
    make_run(root / ("a-very-long-name-" * 8), "er", finished=False, tree=SMALL)
    with looking_at(browser, url, viewport={"width": 390, "height": 800}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_runs_that_failed_are_shown_with_their_reason(tmp_path: Path) -> None:
    early = tmp_path / "er-s0-f00"  # a sweep made its folder, and the run failed before it had begun
    early.mkdir()
    (early / "errors.txt").write_text("2026-01-01T00:00:00+00:00  no folder <b>photos</b>\n")
    folder = LiveRuns(tmp_path)
    before = folder.stamp()
    shown = folder.view()
    assert "er-s0-f00" in shown
    assert "failed: no folder &lt;b&gt;photos&lt;/b&gt;" in shown
    begun = make_run(tmp_path / "begun", finished=False, evaluations=2)
    (begun / "records.jsonl").unlink()
    assert "no evaluation yet" in folder.view()
    (begun / "errors.txt").write_text(
        "2026-01-01T00:00:00+00:00  first\n2026-01-01T00:00:09+00:00  out of memory\n"
    )
    assert folder.stamp() != before
    assert "failed at 0 of 1,200 samples: out of memory" in folder.view()
    later = time.time() + 5
    os.utime(begun / "config.json", (later, later))  # it was taken up again
    assert "out of memory" not in folder.view()
    make_run(early / "run")
    (early / "run" / "result.json").rename(early / "result.json")
    assert "photos" not in folder.view()


def test_one_method_has_no_heading_without_a_choice_and_no_line_twice(tmp_path: Path) -> None:
    make_run(tmp_path / "one")
    text = re.sub(r"<script.*?</script>", "", LiveRuns(tmp_path).view(), flags=re.S)
    assert "Confusion" in text
    assert not re.search(r"</h3>\s*<div[^>]*>\s*<h3", text)
    title = scenarios([load_run(tmp_path / "one")])[0].title
    assert text.count(title) == 1, text[:2000]


def test_a_young_run_has_no_empty_headings(tmp_path: Path) -> None:
    make_run(tmp_path / "young", finished=False, evaluations=2)  # one record
    shown = LiveRuns(tmp_path).view()
    assert "Any-time accuracy" in shown
    for heading in (
        "One method in detail",
        "Memory",
        "Confusion",
        "Accuracy against compute",
        "Final accuracy",
    ):
        assert heading not in shown
    make_run(tmp_path / "older", seed=1, finished=False, evaluations=4)
    assert "Memory" in LiveRuns(tmp_path).view()
