"""Runs and learners on a tree of unequal depth, from the images to the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file

from ramify import Learner, Taxonomy, load_dataset
from ramify.datasets import Dataset
from ramify.learner.rows import ClassFolders
from ramify.methods import METHODS
from ramify.methods.checks import SIZE
from ramify.reports.data import load_run
from ramify.reports.figures.confusion import confusion
from ramify.reports.mistakes import worst_mistakes
from ramify.reports.series import scenarios
from ramify.reports.write import write_report
from ramify.runs import Config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from ramify.taxonomy import write_taxonomy
from tiny_runs import tiny


@pytest.fixture(scope="module")
def garden() -> Dataset:
    """The garden's 48 plants, of which 6 end at level 1, 6 at level 2, 12 at level 3 and 24 at level 4."""
    tree = load_dataset("garden", image_size=8).taxonomy
    rows = []
    for leaf in range(tree.leaves):
        path = tree.path(leaf)
        cut = {"succulent": (path[1], path[3])[leaf % 2 :], "leafy": (path[0], path[1], path[3])}
        rows.append(cut.get(path[1], path))
    dataset = load_dataset("garden", image_size=8, taxonomy=Taxonomy.from_rows(rows))
    assert dataset.taxonomy.sizes == (9, 9, 18, 24)
    return dataset


def ended(config: Config, dataset: Dataset, out: Path) -> Run:
    run, folder = Run(config, dataset, "cpu"), RunFolder(out)
    out.mkdir()
    folder.begin(run, None, {"data_dir": None, "checkpoint_every": 300.0})
    run.go(folder)
    return run


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_an_uneven_tree(method: str, garden: Dataset, tmp_path: Path) -> None:
    config = tiny(method, setup="multiple-depth", levels=None, per_class=4, eval_every=1000, eval_images=None)
    run = ended(config, garden, tmp_path / "run")
    ends = garden.taxonomy.leaf_levels[garden.train.leaves[run.stream.image]]
    assert (run.stream.level <= ends).all()
    taught = set(zip(run.trainer.classes.level_of.tolist(), run.trainer.classes.labels, strict=True))
    assert taught == {(h, c) for h, size in enumerate(garden.taxonomy.sizes, 1) for c in range(size)}
    data = load_run(tmp_path / "run")
    assert data.tree == garden.taxonomy
    assert data.answers is not None
    truth, said = data.answers.truth, data.answers.predictions
    assert np.array_equal(truth[:, 1] >= 0, garden.taxonomy.leaf_levels[garden.test.leaves] > 1)
    for level, accuracy in run.records[-1].accuracy.items():
        column, asked = int(level) - 1, truth[:, int(level) - 1] >= 0
        assert accuracy == pytest.approx((said[:, column] == truth[:, column])[asked].mean())


@pytest.mark.parametrize("setup", ["multiple-depth", "single-depth", "i-blurry"])
def test_a_report_of_an_uneven_tree(setup: str, garden: Dataset, tmp_path: Path) -> None:
    changes = {"levels": None, "per_class": 6, "eval_images": None, "decode": "path"}
    run = ended(tiny("er", setup=setup, **changes), garden, tmp_path / "run")
    data = load_run(tmp_path / "run")
    write_report([data], tmp_path / "report.html")
    assert "<svg" in (tmp_path / "report.html").read_text()
    ((series,),) = (part.series for part in scenarios([data]))
    tree = run.evaluator.tree
    for level in range(1, tree.depth + 1):
        shares = confusion(series, level)
        assert shares is None or shares.shape == (tree.sizes[level - 1],) * 2
    for mistake in worst_mistakes(series):
        assert mistake.truth in {tree.path(leaf) for leaf in range(tree.leaves)}
        assert len(mistake.answer) <= len(mistake.truth)
        assert mistake.answer != mistake.truth
    assert load_file(tmp_path / "run" / "predictions.safetensors")["truth"].min() == -(setup != "i-blurry")


def test_a_learner_with_an_uneven_tree(tmp_path: Path) -> None:
    """Sure after enough of it, it says where a thing ends, and saves the tree as it is."""
    tree = Taxonomy.from_rows(
        [("red", "dark red"), ("red", "light red"), ("blue",), ("red",)], {"id": [*"abcd"]}
    )
    shades = {"dark red": (90, 0, 0), "light red": (255, 0, 0), "blue": (0, 0, 255)}
    network = "ramify.methods.checks:ToyNetwork"
    ours = Learner(
        "er", image_size=SIZE, memory_size=60, network=network, taxonomy=tree, lr=1e-2, batch_size=8
    )
    rng = np.random.default_rng(0)
    for _ in range(120):
        name = ("dark red", "light red", "blue")[rng.integers(3)]
        labels = {1: name} if name == "blue" else {1: "red", 2: name}
        ours.partial_fit(painted(shades[name]), [labels])
    answer = ours.predict(torch.cat([painted(color) for color in shades.values()]), consistent=True)
    assert [answer[i] for i in range(3)] == [
        {1: "red", 2: "dark red"},
        {1: "red", 2: "light red"},
        {1: "blue", 2: None},
    ]
    found = ours.hierarchy()
    assert {found.path(leaf) for leaf in range(found.leaves)} == {tree.path(leaf) for leaf in range(3)}
    assert found.leaf_attributes["support2"][found.leaf_names.index("blue")] == ""
    ours.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", own_code=True)
    assert again.taxonomy == tree
    assert again.taxonomy.leaf_attributes == tree.leaf_attributes


def painted(color: tuple[int, int, int]) -> torch.Tensor:
    return torch.tensor(color, dtype=torch.uint8)[None, :, None, None].repeat(1, 1, SIZE, SIZE)


def test_folders_of_an_uneven_tree_have_its_levels(tmp_path: Path) -> None:
    """A name that stands at two levels is found by the folder that it lies in."""
    tree = Taxonomy.from_rows([("plant", "rose", "tea rose"), ("rose",), ("plant", "moss")])
    for leaf in range(tree.leaves):
        place = tmp_path.joinpath("images", *tree.path(leaf))
        place.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(place / "1.png")
    write_taxonomy(tree, tmp_path / "tree.csv")
    rows = ClassFolders(tmp_path / "images", 0, tree, {}).rows
    told = {tuple(row.labels) for row in rows}
    assert told == {tuple((str(h), name) for h, name in enumerate(tree.path(i), 1)) for i in range(3)}
