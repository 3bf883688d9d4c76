"""The example scripts do what they say, on a small part of their data."""

from __future__ import annotations

import importlib
import io
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from ramify.cli import main
from ramify.methods import METHODS
from ramify.methods.checks import CHECKS, Toy, taught
from ramify.methods.recipe import as_method

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name, *arguments, folder):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def own_method(monkeypatch):
    """The example as a module; what it registers is gone after the test."""
    before = dict(METHODS)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    yield importlib.import_module("own_method")
    METHODS.clear()
    METHODS.update(before)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["level_er", "hold"])
def test_the_own_methods_pass_every_check(name, check, own_method):
    check(as_method(getattr(own_method, name)))


@pytest.mark.parametrize(
    ("name", "own"), [("level_er", []), ("hold", []), ("hold", ["--hold.strength", "0.3"])]
)
def test_the_own_methods_are_short_and_usable_by_name(name, own, own_method, tmp_path, monkeypatch):
    first, second = (EXAMPLES / "own_method.py").read_text().split("# ---- features")
    assert max(len(part.splitlines()) for part in (first, second)) < 80
    monkeypatch.chdir(EXAMPLES)
    out = str(tmp_path / "run")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(EXAMPLES))])
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    method = f"own_method:{name}"
    assert main(["run", "--method", method, "--limit", "64", "--eval-images", "50", *own, "--out", out]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["final_accuracy"]
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["config"].get("hold")
    if name == "hold":
        assert kept == {"strength": 0.3 if own else 1.0}


def test_a_memory_shared_out_between_levels(own_method):
    trainer = taught(as_method(own_method.level_er), Toy.stream(120), memory_size=24)
    stored = trainer.classes.level_of[trainer.memory.classes]
    assert abs((stored == 1).sum() - (stored == 2).sum()) <= 2


def test_monthly_taxonomy(tmp_path):
    told = run("monthly_taxonomy.py", "--per-month", "24", "--test", "20", folder=tmp_path)
    assert "month 4: 24 images" in told
    assert re.search(r"level 4: \d+% right", told)
    assert re.search(r"parents .*: \d+ of \d+ right", told)
    assert (tmp_path / "product-model").is_dir()


def test_compare_on_folder(tmp_path, paint):
    for leaf, colour in (
        ("a/x", (200, 0, 0)),
        ("a/y", (200, 90, 0)),
        ("b/z", (0, 0, 200)),
        ("b/w", (0, 90, 200)),
    ):
        for i in range(8):
            paint(tmp_path / "photos" / leaf / f"{i}.png", colour)
    told = run("compare_on_folder.py", "--images", "photos", "--size", "16", "--seeds", "1", folder=tmp_path)
    assert told.count("final accuracy") == 2
    assert "<html" in (tmp_path / "runs" / "compare" / "report.html").read_text()


def test_serve_while_learning(tmp_path):
    command = [sys.executable, str(EXAMPLES / "serve_while_learning.py"), "--samples", "100", "--port", "0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        while "100 samples" not in server.stdout.readline():
            pass
        photo = io.BytesIO()
        Image.new("RGB", (40, 30), (20, 160, 60)).save(photo, "PNG")
        with urllib.request.urlopen(address, photo.getvalue()) as reply:
            answer = json.load(reply, parse_constant=pytest.fail)  # NaN is not JSON
        assert set(answer["labels"]) == set(answer["probabilities"]) == {"1", "2", "3", "4"}
        whole = photo.getvalue()
        refused = (
            (b"no image", {}, "not an image"),
            (whole[: len(whole) // 2], {}, "cannot be used"),
            (b"", {}, "0 bytes"),
            (whole, {"Content-Length": "many"}, "many bytes"),
        )
        for body, headers, expected in refused:
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(urllib.request.Request(address, body, headers))
            assert caught.value.code == 400
            assert expected in json.load(caught.value)["error"]
            caught.value.close()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_teach_over_http(tmp_path):
    from serving import Process

    server = Process(
        tmp_path / "model",
        "--new",
        "--image-size",
        "16",
        "--set",
        "network.width=0.05",
        "--set",
        "memory_size=60",
    )
    try:
        assert server.ready()
        url = f"http://127.0.0.1:{server.port}"
        told = run("teach_over_http.py", "--url", url, "--size", "16", "--samples", "24", folder=tmp_path)
        assert "of 20 answers are right at level 1" in told
        merged, again = (line for line in told.splitlines() if line.startswith("level 1"))
        assert (merged.count("'"), again.count("'")) == (2, 4)
    finally:
        server.kill()


def test_what_is_served_is_json_where_there_is_no_answer(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    serve = importlib.import_module("serve_while_learning")
    assert (serve.share(float("nan")), serve.share(0.25)) == (None, 0.25)


@pytest.mark.real_data
def test_monthly_taxonomy_on_real_cars(cars64_dir, tmp_path):
    cars = ["--images", str(cars64_dir), "--taxonomy", "stanford-cars", "--size", "32"]
    told = run("monthly_taxonomy.py", *cars, "--per-month", "48", "--test", "20", folder=tmp_path)
    assert "month 2: 48 images" in told


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("monthly_taxonomy.py", "month 1"),
        ("compare_on_folder.py", "er seed 0"),
        ("serve_while_learning.py", "ask at"),
    ],
)
def test_ctrl_c_ends_an_example_without_a_traceback(name, sign, tmp_path):
    small = {"monthly_taxonomy.py": ["--per-month", "64"], "compare_on_folder.py": ["--limit", "64"]}
    command = [sys.executable, "-u", str(EXAMPLES / name), *small.get(name, ["--port", "0"]), "--size", "16"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell makes its background jobs deaf
    with subprocess.Popen(command, cwd=tmp_path, text=True, preexec_fn=hears, **pipes) as it:
        while sign not in it.stdout.readline():
            assert it.poll() is None
        it.send_signal(signal.SIGINT)
        told = it.communicate(timeout=60)[1]
    assert "Traceback" not in told
