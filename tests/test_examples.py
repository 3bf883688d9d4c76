"""The example scripts do what they say, on a small part of their data."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from ramify.cli import main
from ramify.methods import METHODS
from ramify.methods.checks import CHECKS, Toy, learner, same, taught, through_a_file, weights
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
@pytest.mark.parametrize("name", ["level_er", "der"])
def test_the_own_methods_pass_every_check(name, check, own_method):
    check(as_method(getattr(own_method, name)))


@pytest.mark.parametrize(
    ("name", "own"), [("level_er", []), ("der", []), ("der", ["--derpp.alpha", "0.3", "--derpp.beta", "1"])]
)
def test_the_own_methods_are_short_and_usable_by_name(name, own, own_method, tmp_path, monkeypatch):
    first, second = (EXAMPLES / "own_method.py").read_text().split("# ---- DER++")
    assert max(len(part.splitlines()) for part in (first, second)) < 80
    monkeypatch.chdir(EXAMPLES)
    out = str(tmp_path / "run")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(EXAMPLES))])
    monkeypatch.delitem(sys.modules, "own_method", raising=False)
    method = f"own_method:{name}"
    assert main(["run", "--method", method, "--limit", "64", "--eval-images", "50", *own, "--out", out]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["final_accuracy"]
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["config"].get("derpp")
    if name == "der":
        assert kept == ({"alpha": 0.3, "beta": 1.0} if own else {"alpha": 0.1, "beta": 0.5})


def test_a_memory_shared_out_between_levels(own_method):
    trainer = taught(as_method(own_method.level_er), Toy.stream(120), memory_size=24)
    stored = trainer.classes.level_of[trainer.memory.classes]
    assert abs((stored == 1).sum() - (stored == 2).sum()) <= 2


class Dark:
    """DER++ written out (Buzzega et al. 2020, eq. 6), with a book of its own of the answers that were kept.

    The mean cross-entropy of the arrivals, α times the mean squared distance of the first half of the stored
    rows to what was answered when they came, β times the mean cross-entropy of the others.
    """

    def __init__(self, alpha, beta):
        self.alpha, self.beta, self.book, self.updates, self.widths = alpha, beta, {}, 0, set()

    def loss(self, trainer, batch, logits, labels):
        levels = trainer.classes.level_of.tolist()

        def own_level(row, cls):
            mates = [c for c, level in enumerate(levels) if level == levels[cls]]
            return F.cross_entropy(logits[row][mates][None], torch.tensor([mates.index(cls)]))

        def mean(values):
            return torch.stack(values).mean() if values else torch.zeros(())

        keys = [image.numpy().tobytes() for image in batch.inputs]
        new = [row for row in range(len(batch)) if batch.arrivals[row] >= 0]
        old = [row for row in range(len(batch)) if batch.arrivals[row] < 0]
        dark, again = old[: len(old) // 2], old[len(old) // 2 :]
        apart = [
            (logits[row, cls] - then) ** 2 for row in dark for cls, then in enumerate(self.book[keys[row]])
        ]
        total = mean([own_level(row, cls) for row in new for cls in labels[keys[row]]])
        total = total + self.alpha * mean(apart)
        total = total + self.beta * mean([own_level(row, cls) for row in again for cls in labels[keys[row]]])
        self.widths |= {len(self.book[keys[row]]) - logits.shape[1] for row in dark}
        for row in new:
            self.book[keys[row]] = logits[row].detach().half().float()
        self.updates += 1
        return total


@pytest.mark.parametrize("several", [False, True])
def test_der_is_its_formula(several, own_method):
    alpha, beta, toy = 0.3, 0.7, Toy.stream(80)
    trainer = learner(own_method.der, toy, derpp={"alpha": alpha, "beta": beta}, memory_size=16)
    oracle, labels, minimise = Dark(alpha, beta), {}, trainer.recipe.minimise
    original = minimise.loss

    def watched(bench, forward):
        wanted = oracle.loss(bench, forward.batch, forward.logits, labels)
        found = original(bench, forward)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        parameters = list(bench.model.parameters())
        for a, b in zip(
            torch.autograd.grad(found, parameters, retain_graph=True),
            torch.autograd.grad(wanted, parameters, retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        return found

    minimise.loss = watched
    for i in range(80):
        pairs = (
            list(enumerate(toy.paths[i], 1)) if several and i % 3 == 0 else [(toy.levels[i], toy.labels[i])]
        )
        for level, label in pairs:
            trainer._meet(level, label)
        labels[toy.images[i].numpy().tobytes()] = [trainer.classes.find(*pair) for pair in pairs]
        trainer.observe(toy.images[i : i + 1], [pairs])
    assert oracle.updates == trainer.updates == 80
    assert min(oracle.widths) < 0  # classes came after some of the answers were kept
    assert 0 in oracle.widths
    memory = trainer.memory
    for slot in range(memory.size):
        kept = oracle.book[memory["inputs"][slot].numpy().tobytes()]
        row = memory["logits"][slot].float()
        torch.testing.assert_close(row[: len(kept)], kept, rtol=0, atol=0)
        assert row[len(kept) :].isnan().all()


def test_ders_loss_does_not_hang_on_spare_room_in_memory(own_method):
    """A learner goes on to more classes, is set back, and learns as a fresh one does from the same state."""
    toy = Toy.stream(60, levels=(1,))
    names = [*["a"] * 8, *[f"new {i}" for i in range(40)]]

    def teach(trainer, start, stop):
        trainer.observe(toy.images[start:stop], [[(1, names[i])] for i in range(start, stop)])

    gone_on = learner(own_method.der, toy)
    teach(gone_on, 0, 12)
    state = through_a_file(gone_on)
    teach(gone_on, 12, 48)
    gone_on.restore(state)
    fresh = learner(own_method.der, toy, seed=5)
    fresh.restore(state)
    for trainer in (gone_on, fresh):
        teach(trainer, 12, 40)
    assert same(weights(gone_on), weights(fresh))


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


def test_what_is_served_is_json_where_there_is_no_answer(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    serve = importlib.import_module("serve_while_learning")
    assert (serve.share(float("nan")), serve.share(0.25)) == (None, 0.25)


@pytest.mark.real_data
def test_monthly_taxonomy_on_real_cars(cars64_dir, tmp_path):
    cars = ["--images", str(cars64_dir), "--taxonomy", "stanford-cars", "--size", "32"]
    told = run("monthly_taxonomy.py", *cars, "--per-month", "48", "--test", "20", folder=tmp_path)
    assert "month 2: 48 images" in told
