"""Labels that change: what is kept follows each edit, undo restores to the bit, and nothing else is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from ramify import Learner, RamifyError, Taxonomy, load_dataset
from ramify.change import Change, class_means, class_pairs, class_sums, slot_rows
from ramify.cli import main
from ramify.learner.history import difference, patched, read_history, state_digest
from ramify.learner.relabel import stores
from ramify.methods import METHODS
from ramify.methods.checks import Toy, same, weights
from ramify.state import copied
from ramify.taxonomy import edit as trees
from test_learner import TOY, learner

IDS = [f"photo {i}" for i in range(60)]
TREE = Taxonomy.from_rows([(path[0], path[1]) for path in sorted({tuple(p) for p in TOY.paths})])
SLOW = {"ranpac", "randumb", "retrain"}  # many random features (tested on their own), or the whole stream
TAUGHT = sorted(n for n, m in METHODS.items() if not m.offline and not m.told_paths and n not in SLOW)
SAVED: dict[tuple[str, bool], dict[str, Any]] = {}


def taught(method="pl-fms", **given) -> Learner:
    ours = learner(method, epochs={"count": 1}, bic={"epochs": 2, "validation": 0.2}, **given)
    for part in (slice(0, 30), slice(30, 59)):  # the last leaves samples that wait
        labels, levels = TOY.labels[part], TOY.levels[part]
        ours.partial_fit(TOY.images[part], labels, levels, ids=IDS[part], source=f"part {part.start}")
    several = [dict(enumerate(path, 1)) for path in TOY.paths[:3]]
    return ours.partial_fit(TOY.images[:3], several, ids=["a", "b", "c"], source="paths")


def check(ours: Learner) -> None:
    """What must hold of any learner."""
    trainer = ours._trainer
    classes = trainer.classes
    alive = {c for c, _, _ in classes}
    for memory in stores(trainer):
        for cls in range(len(classes) + 1):
            members = np.sort(memory.members(cls))
            assert members.tolist() == np.flatnonzero(memory.classes[: memory.size] == cls).tolist()
        assert memory.counts.sum() == memory.size
        for row, cls in zip(memory["labels"][: memory.size], memory.classes[: memory.size], strict=True):
            labels = [c for c in row.tolist() if c >= 0]
            assert cls in labels
            assert alive.issuperset(labels)
            levels = classes.level_of[labels].tolist()
            assert levels == sorted(set(levels))
        numbers = memory["sample"][: memory.size].tolist()
        assert len(set(numbers)) == len(numbers)
        assert (memory.classes[memory.size :] == -1).all()
        assert not memory["inputs"][memory.size :].any()
    for sample in trainer.waiting:
        assert sample.slot < 0 or trainer.memory["sample"][sample.slot] == sample.values["sample"]
        assert sample.cls in sample.labels
    votes = getattr(trainer.recipe.keep, "votes", None)
    if votes is not None and len(votes.predictions):
        cast = votes.predictions[votes.predictions >= 0]
        assert alive.issuperset(cast.tolist())
        assert (votes.predictions[trainer.memory.size :] == -1).all()
        for level, column in enumerate(votes.predictions.T, 1):
            assert (classes.level_of[column[column >= 0]] == level).all()
    if ours.levels:
        for decode in ("heads", "path", "joint", "crm", "up"):
            answer = ours.predict(TOY.images[:4], decode=decode)
            for level in ours.levels:
                assert set(answer.labels[level]) <= {*ours.labels(level), None}
        for level in ours.levels:
            assert ours.predict_proba(TOY.images[:4], level).sum() == pytest.approx(4, abs=1e-3)
        ours.hierarchy()


def edit(ours: Learner, data: Any) -> str:
    """Some edit that is possible."""
    level = data.draw(st.sampled_from(ours.levels), label="level")
    labels = ours.labels(level)
    label = data.draw(st.sampled_from(labels), label="label")
    held = ours.stored(level, label)
    kinds = ["rename", "forget", "relabel"]
    kinds += ["merge"] * 2 if len(labels) > 1 else []
    kinds += ["split"] * 2 if len(held) > 1 else []
    kinds += ["forget_samples"] if ours.stored() else []
    kinds += ["move"] if ours.taxonomy is not None and level == 2 else []
    kind = data.draw(st.sampled_from(kinds), label="edit")
    some = st.lists(
        st.sampled_from([s.number for s in ours.stored()] or [0]), min_size=1, max_size=5, unique=True
    )
    fresh = f"new {len(ours.history)}"
    try:
        if kind == "rename":
            ours.rename(level, label, fresh)
        elif kind == "merge":
            others = st.lists(st.sampled_from([n for n in labels if n != label]), min_size=1, unique=True)
            ours.merge(level, [label, *data.draw(others)], data.draw(st.sampled_from([None, fresh])))
        elif kind == "split":
            count = data.draw(st.integers(1, len(held)), label="of them")
            ours.split(level, label, {fresh: [s.number for s in held[:count]]})
        elif kind == "move":
            ours.move(level, label, data.draw(st.sampled_from(ours.taxonomy.names(1))))
        elif kind == "forget":
            ours.forget(level, label)
        elif kind == "relabel":
            ours.relabel(data.draw(some), label, level)
        else:
            ours.forget_samples(data.draw(some))
    except RamifyError:
        return f"{kind} refused"
    return kind


@pytest.mark.parametrize("method", TAUGHT)
@given(data=st.data())
@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
def test_random_edits_of_every_method(
    method: str, data: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tree = data.draw(st.booleans(), label="with a tree")
    ours = learner(
        method, epochs={"count": 1}, bic={"epochs": 2, "validation": 0.2}, taxonomy=TREE if tree else None
    )
    if (method, tree) not in SAVED:
        first = taught(method, taxonomy=TREE if tree else None)
        SAVED[method, tree] = first._trainer.state() | {"names": first._names.state(first._trainer)}
    ours._trainer.restore(SAVED[method, tree])
    ours._names.restore(SAVED[method, tree]["names"])
    before = [state_digest(ours._whole())]
    for _ in range(data.draw(st.integers(1, 4), label="edits")):
        if not ours.levels:
            break
        held = state_digest(ours._whole())
        kind = edit(ours, data)
        if kind.endswith("refused"):
            assert state_digest(ours._whole()) == held
        elif kind == "forget_samples":
            before = [state_digest(ours._whole())]
        else:
            before.append(state_digest(ours._whole()))
    folder = tmp_path_factory.mktemp("model")
    ours.save(folder)
    again = Learner.load(folder, network=ours.get_params()["network"], method=method)
    assert state_digest(again._whole()) == state_digest(ours._whole())
    for wanted in before[-2::-1]:  # before anything is asked: some methods train then
        assert again.undo()["exactly"]
        assert state_digest(again._whole()) == wanted
    with pytest.raises(RamifyError, match="no edit to take back"):
        again.undo()
    check(again)
    check(ours)
    if not ours.levels:
        return
    level = ours.levels[-1]
    known = ours.labels(level)
    ours.partial_fit(TOY.images[:20], [known[i % len(known)] for i in range(20)], level)
    check(ours)
    for _ in before[1:]:
        if ours._history.undo[-1].inverse is None:
            with pytest.raises(RamifyError, match="forgot labels"):
                ours.undo()
            break
        ours.undo()  # after learning, as far as it goes
        check(ours)


def read_as_one(labels: list[Any], into: dict[str, str]) -> list[Any]:
    return [into.get(label, label) for label in labels]


def test_merged_labels_are_within_a_point_of_labels_taught_as_one():
    garden = load_dataset("garden")
    names, of_leaf = garden.taxonomy.names(3), garden.taxonomy.leaf_to(3)
    into = {names[1]: names[0], names[7]: names[6], names[4]: names[3]}
    truth = read_as_one([names[c] for c in of_leaf[garden.test.leaves]], into)
    merged, together = [], []
    for seed in (0, 1):
        rows = np.random.default_rng(seed).permutation(len(garden.train.leaves))[:600]
        labels = [names[c] for c in of_leaf[garden.train.leaves[rows]]]
        for taught_as, scores in ((labels, merged), (read_as_one(labels, into), together)):
            ours = learner("er", image_size=32, memory_size=500, batch_size=16, lr=5e-3, seed=seed)
            ours.partial_fit(garden.train.images[rows], taught_as, 3)
            if taught_as is labels:
                for other, name in into.items():
                    ours.merge(3, [name, other])
            said = ours.predict(garden.test.images[:]).labels[3]
            scores.append(np.mean([a == b for a, b in zip(said, truth, strict=True)]))
    assert np.mean(together) > 0.2  # of nine labels
    assert np.mean(merged) > np.mean(together) - 0.01


def test_split_labels_are_told_apart_at_once():
    ours = taught("er")
    colours = {s.number: TOY.paths[s.number][1] for s in ours.stored(1, "red") if s.number < 59}
    by_colour = {name: [n for n, c in colours.items() if c == name] for name in set(colours.values())}
    assert len(by_colour) == 2
    rest = [s.number for s in ours.stored(1, "red") if s.number not in colours]
    by_colour["colour 0"] += rest
    entry = ours.split(1, "red", by_colour)
    assert entry["ends"]
    assert set(ours.labels(1)) == {"blue", "colour 0", "colour 1"}
    numbers = sorted(colours)
    said = ours.predict(TOY.images[numbers]).labels[1]
    assert np.mean([a == colours[n] for a, n in zip(said, numbers, strict=True)]) > 0.8


def test_a_split_is_fitted_to_samples_in_the_window():
    """Canopy's latest samples are not in memory yet; the edit is theirs, too."""
    toy = Toy.stream(40, levels=(1,))
    ours = learner("canopy", memory_size=2000).partial_fit(toy.images, toy.labels, toy.levels)
    assert ours._trainer.memory.size == 0
    colours = {s.number: toy.paths[s.number][1] for s in ours.stored(1, "red")}
    ours.split(1, "red", {name: [n for n, c in colours.items() if c == name] for name in {*colours.values()}})
    said = ours.predict(toy.images[sorted(colours)]).labels[1]
    assert np.mean([a == colours[n] for a, n in zip(said, sorted(colours), strict=True)]) > 0.8


def test_a_split_by_a_function_and_one_that_leaves_the_label():
    ours = taught("er")
    held = ours.stored(1, "blue")
    ours.split(1, "blue", lambda image: "dark" if image[0, 0, 1] > 120 else None)
    assert set(ours.labels(1)) == {"red", "blue", "dark"}
    assert {s.number for s in (*ours.stored(1, "blue"), *ours.stored(1, "dark"))} == {s.number for s in held}


def test_relabel_moves_counts_votes_and_the_log():
    ours = taught("pl-fms")
    sample = next(s for s in ours.stored(2) if len(s.labels) == 1)
    right = next(label for label in ours.labels(2) if label != sample.labels[2])
    classes, seen = ours._trainer.classes, ours._trainer.classes.seen.copy()
    entry = ours.relabel(sample.id, right)
    assert entry["stored"] == 1
    now = next(s for s in ours.stored() if s.number == sample.number)
    assert now.labels == {2: right}
    old, new = classes.find(2, sample.labels[2]), classes.find(2, right)
    assert classes.seen[old] == seen[old] - 1
    assert classes.seen[new] == seen[new] + 1
    log = ours._trainer.log
    assert set(log.truth[log.sample == sample.number].tolist()) <= {new}
    with pytest.raises(RamifyError, match="not stored, or no longer"):
        ours.relabel("no such photo", right)


def test_a_source_is_forgotten_in_memory_and_on_disk(tmp_path):
    ours = taught("er", memory_size=200)  # room for all
    ours.rename(1, "red", "crimson")
    secret = ours.stored_image(7).transpose(2, 0, 1).tobytes()
    ours.save(tmp_path)
    file = tmp_path / "learner.safetensors"
    assert secret in file.read_bytes()
    entry = ours.forget_source("part 0")
    assert entry["stored"] == 30
    assert {s.source for s in ours.stored()} == {"part 30", "paths"}
    ours.save(tmp_path)
    assert secret not in file.read_bytes()
    with pytest.raises(RamifyError, match="no edit to take back"):
        ours.undo()
    with pytest.raises(RamifyError, match="no sample of the source 'part 0' is stored"):
        ours.forget_source("part 0")
    assert [e["edit"] for e in read_history(tmp_path)] == ["rename", "forget_source"]


def test_a_forgotten_label_keeps_its_images_for_undo_unless_for_good(tmp_path):
    for for_good in (False, True):
        ours = taught("er", memory_size=200)
        secret = ours.stored_image(45).transpose(2, 0, 1).tobytes()
        ours.forget(2, ours.labels(2), for_good=for_good)
        assert ours.levels == (1,)
        ours.save(tmp_path)
        assert (secret in (tmp_path / "learner.safetensors").read_bytes()) != for_good
        assert not for_good or not ours._history.undo


def test_the_tree_follows():
    ours = taught("er", taxonomy=TREE)
    ours.move(2, "colour 1", "blue")
    assert trees.ancestry(ours.taxonomy, 2, "colour 1") == ("blue", "colour 1")
    for sample in ours.stored():
        if len(sample.labels) > 1 and sample.labels[2] == "colour 1":
            assert sample.labels[1] == "blue"
    with pytest.raises(RamifyError, match="'colour 1' stands under 'blue' already"):
        ours.move(None, "colour 1", "blue")
    ours.rename(1, "blue", "cold")
    assert set(ours.taxonomy.names(1)) == {"red", "cold"}
    with pytest.raises(RamifyError, match="has labels below it in the taxonomy"):
        ours.forget(1, "cold")
    with pytest.raises(RamifyError, match="which the taxonomy has under 'cold'"):
        ours.partial_fit(TOY.images[:1], [("red", "colour 1")])
    for _ in range(2):
        assert ours.undo()["exactly"]
    assert ours.taxonomy == TREE


def test_levels_in_any_order_and_branches_that_end_early():
    ours = learner("pl-fms")
    three = [f"{path[1]} {i % 2}" for i, path in enumerate(TOY.paths)]
    ours.partial_fit(TOY.images[:20], three[:20], level=3)  # before anything above it
    assert ours.levels == (3,)
    ours.partial_fit(TOY.images[20:40], [path[0] for path in TOY.paths[20:40]], level=1)
    ours.partial_fit(TOY.images[40:], [("red", None, name) for name in three[40:]])  # a gap
    ours.partial_fit(TOY.images[:8], ["lonely"] * 8, level=1)  # nothing below it
    ours.partial_fit(TOY.images[20:40], [path[1] for path in TOY.paths[20:40]], level=2)
    check(ours)
    ours.merge(3, ours.labels(3)[:2])
    ours.forget(2, ours.labels(2))
    assert ours.levels == (1, 3)
    check(ours)


MISTAKES = {
    "no label": (lambda o: o.rename(2, "colour 9", "x"), "no label 'colour 9' at level 2; did you mean"),
    "its own name": (lambda o: o.rename(1, "red", "red"), "choose another name"),
    "a name that is taken": (lambda o: o.rename(1, "red", "blue"), r"merge\(1, \['red', 'blue'\]\)"),
    "another level": (lambda o: o.rename(2, "red", "x"), "'red' is a label of level 1, not of 2"),
    "a name of another level": (
        lambda o: o.rename(None, "colour 1", "red"),
        "'red' is a label of level 1, and 'colour 1' of 2; choose another name, or say level 2",
    ),
    "a number": (lambda o: o.rename(1, "red", 3), "labels are strings and integers"),
    "one label": (lambda o: o.merge(1, ["red"]), "merge needs two or more labels"),
    "no labels": (lambda o: o.merge(1, "red"), "two or more labels of one level"),
    "no tree": (lambda o: o.move(2, "colour 1", "blue"), "was given no taxonomy"),
    "not its sample": (
        lambda o: o.split(1, "red", {"x": [o.stored(1, "blue")[0].number]}),
        "does not have the label that is split",
    ),
    "nothing new": (
        lambda o: o.split(1, "red", {"red": [o.stored(1, "red")[0].number]}),
        "no sample was given",
    ),
    "no edit": (lambda o: o.edit("mrege", level=1), "did you mean merge"),
    "no argument": (lambda o: o.edit("merge", level=1), "missing a required argument: 'labels'; it takes"),
    "nothing to undo": (lambda o: o.undo(), "no edit to take back"),
    "no ids": (lambda o: o.partial_fit(TOY.images[:2], ["red"] * 2, 1, ids=["a"]), "1 id for 2 images"),
}


@pytest.fixture(scope="module")
def one() -> Learner:
    return taught("er")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_one_line_and_changes_nothing(name, one):
    mistake, told = MISTAKES[name]
    before = state_digest(one._whole())
    with pytest.raises(RamifyError, match=told) as caught:
        mistake(one)
    assert "\n" not in str(caught.value)
    assert state_digest(one._whole()) == before
    assert not one.history


def test_an_edit_that_breaks_midway_leaves_all_as_it_was(monkeypatch):
    ours = taught("pl-fms")
    before = state_digest(ours._whole())

    def breaks(*args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(ours._trainer), "follow", breaks)
    with pytest.raises(MemoryError):
        ours.merge(2, ours.labels(2))
    assert state_digest(ours._whole()) == before
    assert not ours.history


def test_a_name_of_another_level_is_taken_where_the_level_is_said():
    ours = taught("er")
    ours.rename(2, "colour 1", "red")
    assert "red" in ours.labels(1)
    assert "red" in ours.labels(2)
    with pytest.raises(RamifyError, match="say which with level="):
        ours.rename(None, "red", "x")


def test_after_an_edit_it_learns_on_as_its_saved_copy_does(tmp_path):
    ours = taught("pl-fms")
    ours.merge(2, ours.labels(2)[:2], "both")
    ours.save(tmp_path)
    again = Learner.load(tmp_path, network=ours.get_params()["network"])
    for one_of_them in (ours, again):
        one_of_them.partial_fit(TOY.images[:30], ["both"] * 30, 2)
    assert same(weights(ours._trainer), weights(again._trainer))
    assert again.history == ours.history


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = ["path,label,level"]
    for i in range(24):
        Image.fromarray(TOY.images[i].permute(1, 2, 0).numpy()).save(f"{i}.png")
        rows.append(f"{i}.png,{TOY.paths[i][1]},2")
    Path("stream.csv").write_text("\n".join(rows) + "\n")
    assert main(["learn", "stream.csv", "--out", "model", "--method", "er", "--image-size", "16"]) == 0

    def edit(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["edit", "model", *words]) == code
        out = capsys.readouterr()
        return out.out if code == 0 else out.err

    assert "renamed colour 0 to crimson (level 2)" in edit("rename", "colour 0", "crimson")
    merged = edit("merge", "crimson", "colour 1", "--into", "red")
    assert "merged crimson, colour 1 into red" in merged
    listed = edit("samples", "--label", "red", "--images", "out").splitlines()
    assert f"; {len(listed) - 1} stored samples" in merged  # all that have the label now
    assert listed[0] == "sample,id,source,level2"
    assert all(line.endswith(",stream.csv,red") for line in listed[1:])
    numbers = [line.split(",")[0] for line in listed[1:]]
    assert sorted(p.stem for p in Path("out").iterdir()) == sorted(numbers)
    Path("sorted/warm").mkdir(parents=True)
    Path(f"out/{numbers[0]}.png").rename(f"sorted/warm/{numbers[0]}.png")
    assert "split red (level 2): warm 1; the others keep it" in edit("split", "red", "--by", "sorted")
    Path("by.csv").write_text(f"sample,label\n{numbers[1]},warm\n")
    edit("split", "red", "--by", "by.csv")
    assert "relabelled sample " in edit("relabel", f"{numbers[0]}.png", "red")
    assert "took edit 5 back" in edit("undo")
    assert "weights have learned from them remains" in edit("forget-samples", numbers[0])
    assert "did you mean 'warm'" in edit("rename", "wram", "x", code=2)
    assert "the columns are sample and label" in edit("split", "red", "--by", "stream.csv", code=2)
    told = edit("history").splitlines()
    assert len(told) == 7
    entries = [json.loads(line) for line in edit("history", "--json").splitlines()]
    assert entries == read_history(Path("model"))
    assert [e["number"] for e in entries] == list(range(1, 8))
    assert main(["learn", "stream.csv", "--out", "model"]) == 0  # it goes on


@given(data=st.data())
@settings(max_examples=50)
def test_a_patch_leads_back(data):
    shapes = st.sampled_from([(0, 2), (3, 2), (5, 2), (4,), ()])
    kinds = st.sampled_from([np.float32, np.int64, bool])

    def leaf() -> Any:
        kind = data.draw(st.sampled_from(["array", "tensor", "plain"]))
        if kind == "plain":
            return data.draw(
                st.one_of(st.integers(), st.text(max_size=3), st.none(), st.lists(st.floats(allow_nan=False)))
            )
        values = np.random.default_rng(data.draw(st.integers(0, 3))).integers(-1, 2, data.draw(shapes))
        table = np.asarray(values * -1.0).astype(data.draw(kinds))  # with zeros of both signs
        return torch.from_numpy(table) if kind == "tensor" else table

    def state(depth: int) -> dict[str, Any]:
        names = data.draw(st.lists(st.sampled_from("abc"), unique=True))
        return {name: state(depth - 1) if depth and data.draw(st.booleans()) else leaf() for name in names}

    before, after = state(2), state(2)
    assert state_digest(patched(after, difference(before, after))) == state_digest(before)
    assert difference(before, copied(before)) is None


def test_what_follows_a_change():
    change = Change(
        np.array([0, 0, 2, -1]), np.array([0.75, 0.25, 1.0, 0.0]), np.array([1, -1, 0]), np.array([0]), {}
    )
    assert class_sums(change, np.array([1.0, 2, 3, 4])).tolist() == [3, 0, 3, 0]
    assert class_means(change, torch.tensor([4.0, 8, 3, 4])).tolist() == [5, 0, 3, 0]
    assert class_sums(change, np.array([5.0])).tolist() == [5]  # a part that knows fewer classes
    table = np.arange(16).reshape(4, 4)
    merged = class_pairs(change, table)
    assert merged[0, 0] == table[:2, :2].sum()
    assert merged.sum() == table[:3, :3].sum()
    assert slot_rows(change, np.array([[7], [8], [9]])).tolist() == [[9], [7], [-1]]


def test_edits_of_trees():
    rows = [("a", "x"), ("a", "y"), ("b", "z")]
    tree = Taxonomy.from_rows(rows, {"size": ["1", "2", "3"]})
    moved = trees.moved(tree, 2, "z", "a")
    assert [moved.path(i) for i in range(moved.leaves)] == [("a", "x"), ("a", "y"), ("a", "z"), ("b",)]
    assert moved.leaf_attributes["size"] == ("1", "2", "3", "")
    merged = trees.merged(tree, 1, ["b", "a"], "c")
    assert [merged.path(i) for i in range(merged.leaves)] == [("c", "x"), ("c", "y"), ("c", "z")]
    assert trees.removed(trees.joined(tree, 2, "w", "x"), 2, "w").fingerprint == tree.fingerprint
    assert [trees.removed(tree, 2, "z").path(2)] == [("b",)]
    with pytest.raises(RamifyError, match="level 1, which has no parents"):
        trees.moved(tree, 1, "a", "b")


def test_what_is_forgotten_before_it_is_trained_on_is_not_counted():
    """With a window not all that waits is new; the next update comes when a buffer is full of new ones."""
    ours = learner("canopy", memory_size=96).partial_fit(TOY.images[:42], TOY.labels[:42], TOY.levels[:42])
    trainer = ours._trainer
    assert (len(trainer.waiting), trainer.fresh, trainer.buffer_size) == (8, 2, 4)
    again = learner("canopy", memory_size=96)._trainer
    again.restore(trainer.state())
    assert [sample.new for sample in again.waiting] == [sample.new for sample in trainer.waiting]
    ours.forget_samples([trainer.waiting[0].values["sample"], trainer.waiting[-1].values["sample"]])
    assert (len(trainer.waiting), trainer.fresh) == (6, 1)
    updates = ours.updates
    for count, trained in ((2, False), (1, True)):
        ours.partial_fit(TOY.images[:count], TOY.labels[:count], TOY.levels[:count])
        assert (ours.updates > updates) == trained
