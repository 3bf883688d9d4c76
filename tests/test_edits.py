"""Labels that change: what is kept follows each edit, undo restores to the bit, and nothing else is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ramify import Learner, RamifyError, Taxonomy
from ramify.learner.history import digest
from ramify.methods import METHODS
from ramify.methods.editing import stores
from test_learner import TOY, learner

IDS = [f"photo {i}" for i in range(60)]
TREE = Taxonomy.from_rows([(path[0], path[1]) for path in sorted({tuple(p) for p in TOY.paths})])
TAUGHT = sorted(name for name, method in METHODS.items() if not method.offline and not method.told_paths)
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
    before = [digest(ours._whole())]
    for _ in range(data.draw(st.integers(1, 4), label="edits")):
        if not ours.levels:
            break
        held = digest(ours._whole())
        kind = edit(ours, data)
        if kind.endswith("refused"):
            assert digest(ours._whole()) == held
        elif kind == "forget_samples":
            before = [digest(ours._whole())]
        else:
            before.append(digest(ours._whole()))
    folder = tmp_path_factory.mktemp("model")
    ours.save(folder)
    again = Learner.load(folder, network=ours.get_params()["network"], method=method)
    assert digest(again._whole()) == digest(ours._whole())
    for wanted in before[-2::-1]:  # before anything is asked: some methods train then
        assert again.undo()["exactly"]
        assert digest(again._whole()) == wanted
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
