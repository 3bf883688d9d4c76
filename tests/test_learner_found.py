"""What a learner has found out, what it can be told anew, and models that need code of one's own."""

from __future__ import annotations

import ast
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import ramify
from ramify import Learner, RamifyError, Taxonomy
from ramify.cli import main
from ramify.methods.checks import SIZE, ToyNetwork
from ramify.runs import run_config
from ramify.taxonomy.show import render
from tiny_runs import tiny

NETWORK = "ramify.methods.checks:ToyNetwork"


def learner(method: str = "pl-fms", **more: Any) -> Learner:
    settings: dict[str, Any] = {"network": NETWORK, "memory_size": 40, "batch_size": 8, "lr": 0.01}
    return Learner(method, image_size=SIZE, **(settings | more))


def uneven(method: str, seed: int, **more: Any) -> tuple[Learner, torch.Tensor]:
    """A learner of 4, 6 and 12 labels, of which some have no children, and images to ask about."""
    draws = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (90, 3, SIZE, SIZE), generator=draws, dtype=torch.uint8)
    ours = learner(method, seed=seed, **more)
    for level, labels in ((1, 4), (2, 6), (3, 12)):
        chosen = [f"{level}.{i % labels}" for i in range(30)]
        ours.partial_fit(images[30 * level - 30 : 30 * level], chosen, level)
    return ours, images


@pytest.mark.parametrize("method", ["pl-fms", "er", "clib", "canopy"])
@pytest.mark.parametrize("seed", range(4))
def test_every_consistent_path_lies_in_the_hierarchy(method: str, seed: int) -> None:
    ours, images = uneven(method, seed)
    tree = ours.hierarchy()
    rows = [tree.path(leaf) for leaf in range(tree.leaves)]
    answer = ours.predict(images, consistent=True)
    for i in range(len(answer)):
        told = [(k, label) for k, label in enumerate(answer[i].values()) if label is not None]
        assert told
        assert any(all(row[k : k + 1] == (label,) for k, label in told) for row in rows)


@pytest.mark.parametrize("method", ["er", "canopy"])
def test_labels_above_the_finest_have_their_parents_too(method: str) -> None:
    tree = Taxonomy.from_rows(
        [(f"{c}", f"{c}.{f}", f"{c}.{f}.{k}") for c in "ab" for f in "xy" for k in "12"]
    )
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (48, 3, SIZE, SIZE), generator=draws, dtype=torch.uint8)
    ours = learner(method)
    ours.partial_fit(images, [tree.path(i % tree.leaves) for i in range(48)])
    found = ours.hierarchy()
    parents = {path[:2] for path in map(found.path, range(found.leaves)) if len(path) > 1}
    assert {below for _, below in parents} == set(tree.names(2))
    assert {above for above, _ in parents} <= set(tree.names(1))


def told_paths(n: int, seed: int = 0) -> tuple[Taxonomy, torch.Tensor, list[dict[int, str]]]:
    """Images that say nothing, and of each two or three of the labels above each other."""
    tree = Taxonomy.from_rows([(a, a + b, a + b + c) for a in "pq" for b in "xyz" for c in "12"])
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 256, (n, 3, SIZE, SIZE), np.uint8))
    paths = [dict(enumerate(tree.path(i % tree.leaves), 1)) for i in range(n)]
    for path in paths:
        path.pop(int(rng.integers(1, 4)), None) if rng.random() < 0.3 else None
    return tree, images, paths


@pytest.mark.parametrize("method", ["er", "canopy", "slda"])
def test_what_samples_say_of_the_tree_is_not_guessed(method: str, tmp_path: Path) -> None:
    tree, images, paths = told_paths(90)
    ours = learner(method)
    ours.partial_fit(images, paths)
    ours.save(tmp_path)
    for model in (ours, Learner.load(tmp_path, own_code=True)):
        assert ours.hierarchy() == model.hierarchy()
        assert {*map(model.hierarchy().path, range(12))} == {*map(tree.path, range(12))}
    said = ours.predict(images, consistent=True)
    assert {tuple(said[i].values()) for i in range(90)} <= {*map(tree.path, range(12))}


def test_stated_ties_follow_edits() -> None:
    _, images, paths = told_paths(90)
    ours = learner("er")
    ours.partial_fit(images, paths, ids=[str(i) for i in range(90)])
    ours.rename(2, "px", "new")
    ours.merge(2, ["py", "pz"], into="py")
    ours.forget(2, "qz")
    found = {path[:2] for path in map(ours.hierarchy().path, range(ours.hierarchy().leaves))}
    assert {pair for pair in found if "(unknown)" not in pair} == {
        (a, a + b) for a, b in ("py", "qx", "qy")
    } | {("p", "new")}
    ours.undo()
    assert {*map(ours.hierarchy().path, range(12))} >= {("q", "qz", "qz1")}


def test_a_relabelled_sample_says_what_it_should_have_said() -> None:
    _, images, paths = told_paths(60)
    wrong = {1: "q", 2: "fresh"}
    ours = learner("er", memory_size=80)
    ours.partial_fit(images, [*paths[:59], wrong], ids=[str(i) for i in range(60)])
    ours.relabel("59", ("p", "fresh"))
    assert ("p", "fresh") in {path[:2] for path in map(ours.hierarchy().path, range(ours.hierarchy().leaves))}


def test_a_label_below_a_second_parent_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    ours = learner("er")
    images = torch.zeros(4, 3, SIZE, SIZE, dtype=torch.uint8)
    ours.partial_fit(images[:2], [("fruit", "other"), ("fruit", "apple")])
    assert not caplog.text
    ours.partial_fit(images, [("tools", "other"), ("fruit", "apple"), ("tools", "other"), None])
    ours.partial_fit(images[:2], [("tools", "other"), {1: "fruit", 3: "other"}])
    assert caplog.text.count("label 'other' at level 2 comes under 'tools', and came under 'fruit'") == 1
    assert caplog.text.count("comes under") == 1


def described(model: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert main(["describe", str(model), "--own-code", *more]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_describe_counts_only_classes(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, _ = uneven("er", seed)
    tree = ours.hierarchy()
    assert not tree.even
    ours.save(tmp_path / "model")
    told = described(tmp_path / "model", capsys, "--all")
    assert "3 levels of 4/6/12 classes" in told
    drawn = told.partition("classes")[2].partition("weakly")[0]
    for level in ours.levels:
        for label in ours.labels(level):
            assert sum(str(label) in line.split() for line in drawn.splitlines()) == 1
    facts = json.loads(described(tmp_path / "model", capsys, "--json"))
    assert facts["levels"]["2"]["labels"] == list(ours.labels(2))
    stored = sum(sum(level["stored"]) for level in facts["levels"].values())
    assert stored == 40 + 2  # a full memory, and the 90 % 4 samples that still wait to be trained on
    paths = {tuple(path) for path in facts["found_tree"]}
    assert len(paths) == tree.leaves
    assert all(set(map(len, paths)) <= {1, 2, 3} and path[-1] != "(unknown)" for path in paths)
    assert facts["samples"] == 90
    assert facts["taxonomy"] is None


def test_unknown_parents_are_drawn_and_not_counted() -> None:
    tree = Taxonomy.from_rows([("a",), ("(unknown)", "(unknown)", "x"), ("b", "y")])
    console = Console(width=100)
    with console.capture() as caught:
        console.print(render(tree, "tree", sizes=[2, 1, 1]))
    told = caught.get()
    assert "2/1/1 classes" in told
    assert told.count("(unknown)") == 2
    assert told.count("y") == 1


def test_describe_json_of_a_model_that_has_learned_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner().save(tmp_path / "model")
    facts = json.loads(described(tmp_path / "model", capsys, "--json"))
    assert (facts["samples"], facts["levels"], facts["found_tree"]) == (0, {}, [])


def test_set_params_is_as_if_made_so() -> None:
    ours = learner("er")
    ours.notes["kept"] = 1
    assert ours.set_params() is ours
    assert ours.set_params(method="clib", memory_size=7, lr=0.5) is ours
    made = learner("clib", memory_size=7, lr=0.5)
    assert ours.get_params() == made.get_params()
    assert ours.settings == made.settings
    assert ours.notes == {"kept": 1}
    before = ours.get_params()
    with pytest.raises(RamifyError, match="did you mean 'memory_size'"):
        ours.set_params(memory_sise=5)
    with pytest.raises(RamifyError, match="did you mean 'freeze'"):
        learner("er", freze="all")
    with pytest.raises(RamifyError, match="memory_size is 'x'"):
        ours.set_params(memory_size="x")
    assert ours.get_params() == before
    images = torch.zeros(2, 3, SIZE, SIZE, dtype=torch.uint8)
    ours.partial_fit(images, ["a", "b"], 1)
    with pytest.raises(RamifyError, match="has taken 2 samples; set_params is for one that has taken none"):
        ours.set_params(lr=0.1)


def test_a_model_with_a_module_of_ones_own_opens_where_its_code_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, images = uneven("er", 0, network=ToyNetwork())
    ours.save(tmp_path / "model")
    photo = tmp_path / "photo.png"
    Image.fromarray(images[0].permute(1, 2, 0).numpy()).save(photo)
    asked = ["predict", str(tmp_path / "model"), str(photo), "--json", "--decode", "heads"]
    assert main(asked) == 2
    assert "name its code: --network package.module:factory" in capsys.readouterr().err
    assert main([*asked, "--network", NETWORK]) == 0
    found = json.loads(capsys.readouterr().out)[0]["levels"]
    assert {int(h): level["label"] for h, level in found.items()} == ours.predict(
        [str(photo)], decode="heads"
    )[0]
    assert main(["describe", str(tmp_path / "model"), "--network", NETWORK]) == 0
    (tmp_path / "more.csv").write_text("path,label,level\nphoto.png,1.0,1\n")
    out = ["--out", str(tmp_path / "model")]
    assert main(["learn", str(tmp_path / "more.csv"), *out, "--network", NETWORK]) == 0
    assert Learner.load(tmp_path / "model", network=NETWORK).samples == 91
    assert main([*asked, "--network", "ramify.methods.checks:no_such"]) == 2
    assert "cannot be imported" in capsys.readouterr().err


def test_naming_the_network_allows_that_code_and_no_other(tmp_path: Path) -> None:
    uneven("er", 0)[0].save(tmp_path / "named")
    with pytest.raises(RamifyError, match="names code to import"):
        Learner.load(tmp_path / "named")
    assert Learner.load(tmp_path / "named", network=NETWORK).samples == 90
    Learner("er", image_size=16, network={"name": "resnet18", "width": 0.05}).save(tmp_path / "plain")
    with pytest.raises(RamifyError, match="was made with resnet18, not with code of your own"):
        Learner.load(tmp_path / "plain", network=NETWORK)
    with pytest.raises(RamifyError, match=r"was made with resnet18, .* leave out the network"):
        Learner.load(tmp_path / "plain", network=ToyNetwork())


def test_a_run_with_a_network_of_ones_own_opens_where_its_code_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_config(tiny("er"), tmp_path / "run")
    photo = tmp_path / "photo.png"
    Image.new("RGB", (8, 8), (20, 160, 60)).save(photo)
    asked = ["predict", str(tmp_path / "run"), str(photo), "--json"]
    assert main(asked) == 2
    assert "--network package.module:factory" in capsys.readouterr().err
    assert main([*asked, "--network", "tiny_runs:network"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["levels"].keys() == {"1", "2", "3"}


def test_the_library_prints_nothing_and_the_command_shows_its_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(ramify.__file__).parent
    for path in home.rglob("*.py"):
        if path.relative_to(home).parts[0] != "cli":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                assert called not in ("print", "sys.stdout.write", "sys.stderr.write"), path

    def dispatch(argv: list[str]) -> int:
        logging.getLogger("ramify").info("told %d", len(argv))
        return 0

    monkeypatch.setattr("ramify.cli.dispatch", dispatch)
    level = logging.getLogger("ramify").level
    assert main(["x"]) == 0
    assert capsys.readouterr().err == "told 1\n"
    assert (logging.getLogger("ramify").handlers, logging.getLogger("ramify").level) == ([], level)
