"""What is told of answers: how often such ones were right, and nothing of a memory where there is none."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from ramify import Learner
from ramify.cli import main
from ramify.learner.prequential import LEAST
from ramify.methods.checks import Toy
from test_learner import learner

OWN = ["--network", "ramify.methods.checks:ToyNetwork"]


def noisy(method, count):
    """A learner of labels of which a quarter is wrong, so that its probabilities promise too much."""
    toy, rng = Toy.stream(count, levels=(1, 2, 1, 2)), np.random.default_rng(0)
    wrong = rng.random(count) < 0.25
    labels = [
        toy.labels[rng.integers(count)] if w else label for label, w in zip(toy.labels, wrong, strict=True)
    ]
    levels = [toy.levels[toy.labels.index(label)] for label in labels]
    one = learner(method, network="ramify.methods.checks:ToyNetwork")
    return one.partial_fit(toy.images, labels, levels), toy


@pytest.mark.parametrize("method", ["slda", "er"])
def test_predict_shows_how_often_such_answers_were_right(method, tmp_path, capsys):
    one, toy = noisy(method, 400)
    one.save(tmp_path / "model")
    Image.fromarray(toy.images[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.png")
    asked = ["predict", str(tmp_path / "model"), str(tmp_path / "a.png"), *OWN]
    assert main([*asked, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert main(asked) == 0
    said = capsys.readouterr()
    figures = [float(f) for f in re.findall(r" (\d\.\d\d)(?= |$)", said.out.strip())]
    assert figures == [round(step["confidence"], 2) for step in told["levels"].values()]
    assert figures != [round(step["probability"], 2) for step in told["levels"].values()]
    assert "share of such answers that was right before learning" in said.err


def test_without_a_log_the_figures_are_called_what_they_are(tmp_path, capsys):
    one, toy = noisy("slda", LEAST // 2)
    one.save(tmp_path / "model")
    Image.fromarray(toy.images[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.png")
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "a.png"), *OWN]) == 0
    assert "heads' own probabilities, not calibrated" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["slda", "ncm", "naive"])
def test_what_has_no_memory_speaks_of_none(method, tmp_path, capsys):
    """Of images stored, or of a memory that is empty: in answers, the description and the card."""
    one, toy = noisy(method, 64)
    one.save(tmp_path / "model")
    Image.fromarray(toy.images[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.png")
    model = str(tmp_path / "model")
    assert main(["predict", model, str(tmp_path / "a.png"), "--why", "3", *OWN]) == 0
    assert f"{method} stores no images" in capsys.readouterr().err
    assert main(["describe", model, *OWN]) == 0
    described = capsys.readouterr().out
    assert "no memory" in described
    assert not re.search("stored|memory for", described)
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert not re.search("rehearsal|begins empty", card)


def test_an_empty_memory_is_told_as_such(tmp_path, capsys):
    one, toy = noisy("er", 64)
    one.save(tmp_path / "model", memory=False)
    assert not sum(map(len, Learner.load(tmp_path / "model", network=OWN[1]).stored()))
    Image.fromarray(toy.images[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.png")
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "a.png"), "--why", "3", *OWN]) == 0
    assert "memory is empty" in capsys.readouterr().err
    assert "begins empty" in (tmp_path / "model" / "README.md").read_text("utf-8")
