"""The example scripts do what they say, on a small part of their data."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

from ramify.cli import main
from ramify.methods.checks import CHECKS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name, *arguments, folder):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_own_method_passes_every_check(check, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_method

    check(own_method.level_er)


def test_the_own_method_is_short_and_usable_by_name(tmp_path, monkeypatch):
    assert len((EXAMPLES / "own_method.py").read_text().splitlines()) < 80
    monkeypatch.chdir(EXAMPLES)
    out = str(tmp_path / "run")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(EXAMPLES))])
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    assert (
        main(["run", "--method", "own_method:level_er", "--limit", "64", "--eval-images", "50", "--out", out])
        == 0
    )
    assert json.loads((tmp_path / "run" / "result.json").read_text())["final_accuracy"]


def test_a_memory_shared_out_between_levels(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_method

    from ramify.methods.checks import Toy, taught

    engine = taught(own_method.level_er, Toy.stream(120), memory_size=24)
    stored = engine.classes.level_of[engine.memory.classes]
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
            answer = json.load(reply)
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


@pytest.mark.real_data
def test_monthly_taxonomy_on_real_cars(cars64_dir, tmp_path):
    cars = ["--images", str(cars64_dir), "--taxonomy", "stanford-cars", "--size", "32"]
    told = run("monthly_taxonomy.py", *cars, "--per-month", "48", "--test", "20", folder=tmp_path)
    assert "month 2: 48 images" in told
