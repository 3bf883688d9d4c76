"""Model cards, models without the samples they were taught with, and the Hugging Face hub."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import yaml

import hub as stand_in
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.card import BEGIN, END, licence, with_licence
from ramify.methods import METHODS
from ramify.taxonomy import Taxonomy

TREE = Taxonomy.from_rows([("fruit", "apple"), ("fruit", "pear"), ("tools", "hammer"), ("tools", "saw")])
LEAVES = ["apple", "pear", "hammer", "saw"]
FACTS = {"image_size": 8, "memory_size": 12, "network": {"name": "resnet18", "width": 0.05}, "batch_size": 8}


def images(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def taught(method="er", tree=None, count=40, **own):
    """A learner of both levels, with paths of this machine's as names and a note."""
    learner = Learner(method, taxonomy=tree, **(FACTS | own))
    names = [LEAVES[i % 4] for i in range(count)]
    parents = ["fruit" if i % 4 < 2 else "tools" for i in range(count)]
    pixels, ids = images(count), [f"/home/rosa/{i}.png" for i in range(count)]
    half = count // 2
    learner.partial_fit(pixels[:half], parents[:half], 1, ids=ids[:half], source="the cellar")
    learner.partial_fit(pixels[half:], names[half:], 2, ids=ids[half:], source="the cellar")
    learner.notes["camera"] = "rosa's"
    return learner


def front(text):
    return yaml.safe_load(text.split("---\n")[1])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "garden-tools"
    learner = taught(count=120)
    learner.save(folder)
    return folder


def test_the_card_tells_what_the_model_knows(tmp_path):
    learner = taught(tree=TREE, count=120)
    learner.save(tmp_path / "garden")
    text = (tmp_path / "garden" / "README.md").read_text("utf-8")
    about = front(text)
    assert (about["library_name"], about["license"]) == ("ramify", "unknown")
    assert about["pipeline_tag"] == "image-classification"
    assert "# garden\n" in text
    assert "**er** on images of 8 × 8 pixels (resnet18 × 0.05)" in text
    assert "120 labelled samples" in text
    assert "| 1 | 2 | 60 | 30 – 30 |" in text
    assert "| 2 | 4 | 60 | 15 – 15 |" in text
    assert "├── fruit  2" in text
    trust = learner.calibration()[2]
    assert f"| 2 | {trust.answers} | {100 * trust.accuracy:.1f} | {100 * trust.ece:.1f} |" in text
    assert "**It holds 12 images" in text


def test_the_card_says_how_to_load_the_model_and_that_is_so(model, monkeypatch):
    text = (model / "README.md").read_text("utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(model.parent)
    from PIL import Image

    Image.fromarray(images(1)[0]).save("photo.jpg")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["learner"].samples == 120


def test_features_have_no_image_pipeline_and_a_network_of_ones_own_is_told(tmp_path):
    learner = Learner(METHODS["er"], features=5)
    learner.partial_fit(
        features=np.random.default_rng(0).normal(size=(20, 5)), labels=["a", "b"] * 10, level=1
    )
    learner.save(tmp_path)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert "pipeline_tag" not in front(text)
    assert "features of 5 values" in text
    assert 'load("' in text and "method=…" in text  # noqa: PT018


def test_what_users_write_into_the_card_stays(tmp_path):
    learner = taught()
    learner.save(tmp_path)
    path = tmp_path / "README.md"
    before, rest = path.read_text("utf-8").split(BEGIN)
    own = before.replace("license: unknown", "license: cc-by-4.0") + "Photos from the cellar.\n\n"
    path.write_text(own + BEGIN + rest + "\nWrite to Rosa.\n", "utf-8")
    learner.partial_fit(images(8, 1), ["fruit"] * 8, 1)
    learner.save(tmp_path)
    text = path.read_text("utf-8")
    assert text.startswith(own)
    assert text.endswith("\nWrite to Rosa.\n")
    assert "48 labelled samples" in text
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    path.write_text("A card of my own.\n")
    learner.save(tmp_path)
    assert path.read_text() == "A card of my own.\n"


@pytest.mark.parametrize(
    "text", ["", "No fields.\n", "---\ntags: [a]\n---\nText\n", "---\nlicense: mit\n---\nText\n"]
)
def test_a_licence_is_set_in_any_card(text):
    changed = with_licence(text, "cc-by-4.0")
    assert front(changed) == {**(front(text) if text[:3] == "---" else {}), "license": "cc-by-4.0"}
    assert licence(changed) == "cc-by-4.0"
    assert changed.endswith(text.rpartition("---\n")[2])
    with pytest.raises(RamifyError, match="short names"):
        with_licence(text, "all rights\nreserved")


KEEPING = [name for name, m in METHODS.items() if not m.offline and not m.told_paths]
SMALL = {"ranpac": {"ranpac": {"size": 40}}, "randumb": {"randumb": {"size": 40}}}


@pytest.mark.parametrize("name", KEEPING)
def test_a_model_without_memory_answers_the_same_and_holds_no_sample(name, tmp_path):
    room = 40 if METHODS[name].keeps_stream else 12
    own = {"network": {"name": "tiny_runs:three_layers"}, "memory_size": room} | SMALL.get(name, {})
    learner = taught(name, count=36, **own)  # some wait for their batch
    asked = images(20, 5)
    if METHODS[name].trains_when_asked:
        with pytest.raises(RamifyError, match=f"{name} needs the stored samples"):
            learner.save(tmp_path / "shared", memory=False)
        return
    before = learner._trainer.state()
    learner.save(tmp_path / "shared", memory=False)
    assert len(learner.stored()) == len(before["memory"]["columns"]["sample"]) + len(before["waiting"])
    data = (tmp_path / "shared" / "learner.safetensors").read_bytes()
    for one in images(36):
        stored = np.ascontiguousarray(one.transpose(2, 0, 1))
        assert all(row.tobytes() not in data for channel in stored for row in channel)
    for word in (b"rosa", b"cellar"):
        assert word not in data
    shared = Learner.load(tmp_path / "shared", own_code=True)
    assert not shared.stored()
    assert not shared.history
    for way in ("heads", "path"):
        told, here = shared.predict(asked, decode=way), learner.predict(asked, decode=way)
        assert told.labels == here.labels
        for level, values in here.probabilities.items():
            np.testing.assert_allclose(told.probabilities[level], values, atol=1e-5)
    assert {h: t.accuracy for h, t in shared.calibration().items()} == {
        h: t.accuracy for h, t in learner.calibration().items()
    }
    shared.save(tmp_path / "again")  # what it knows of the tree is not lost
    again = Learner.load(tmp_path / "again", own_code=True)
    assert again.predict(asked, decode="path").labels == told.labels
    shared.partial_fit(images(16, 6), ["fruit", "spade"] * 8, [1, 2] * 8)
    assert "spade" in shared.labels(2)


def test_answers_that_need_what_is_stored_are_not_sent_without(tmp_path):
    learner = taught("gdumb", epochs={"count": 1})
    learner.predict(images(2))
    with pytest.raises(RamifyError, match="gdumb needs the stored samples"):
        learner.save(tmp_path, memory=False)
    assert not (tmp_path / "learner.safetensors").exists()


def test_the_tree_that_learn_finds_is_saved_with_the_model(tmp_path, capsys):
    from PIL import Image

    rows = ["path,label,level"]
    for i, pixels in enumerate(images(24)):
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        rows.append(
            f"{i}.png,{LEAVES[i % 4] if i > 11 else ('fruit' if i % 4 < 2 else 'tools')},{1 + (i > 11)}"
        )
    (tmp_path / "stream.csv").write_text("\n".join(rows) + "\n")
    own = ["--image-size", "8", "--network", "resnet18", "--set", "network.width=0.05"]
    assert main(["learn", str(tmp_path / "stream.csv"), "--out", str(tmp_path / "m"), *own]) == 0
    text = (tmp_path / "m" / "README.md").read_text("utf-8")
    assert "The tree that it has found in its own answers  2 levels of 2/4 classes" in text
    asked = Learner.load(tmp_path / "m")
    asked.hierarchy()
    assert asked._trainer.cost.images_memory == Learner.load(tmp_path / "m")._trainer.cost.images_memory


# ---- the hub


@pytest.fixture
def hub(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    with stand_in.running() as running:
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", running.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setenv("HF_TOKEN", stand_in.TOKEN)
        yield running


by_lfs = pytest.mark.filterwarnings("ignore:Use 'content=")  # how the client itself sends a large file


@by_lfs
def test_push_leaves_the_images_out_and_what_is_fetched_answers_the_same(model, hub, tmp_path, capsys):
    import huggingface_hub

    assert main(["push", str(model), "rosa/tools", "--licence", "cc-by-4.0"]) == 0
    told = capsys.readouterr().err
    assert f"{hub.url}/rosa/tools (private)" in told
    assert "without the 12 stored samples (--with-memory sends them too)" in told
    assert set(hub.files["rosa/tools"]) == {"learner.safetensors", "README.md"}
    assert hub.private["rosa/tools"]
    assert hub.commits[0]["summary"] == "120 samples learned"
    card = hub.files["rosa/tools"]["README.md"].decode()
    assert front(card)["license"] == "cc-by-4.0"
    assert "It holds none of the samples" in card
    assert 'snapshot_download("rosa/tools")' in card
    assert licence((model / "README.md").read_text("utf-8")) is None
    folder = huggingface_hub.snapshot_download("rosa/tools", local_dir=tmp_path / "fetched")
    fetched, here, asked = Learner.load(folder), Learner.load(model), images(30, 9)
    assert fetched.predict(asked, decode="path").labels == here.predict(asked, decode="path").labels
    assert not fetched.stored()


@by_lfs
def test_push_sends_the_images_where_asked_and_again_to_the_same_place(model, hub, capsys):
    assert main(["push", str(model), "rosa/all", "--with-memory", "--public"]) == 0
    told = capsys.readouterr().err
    assert "public: everyone can see it" in told
    assert "with the 12 stored samples" in told
    assert "its card names no licence" in told
    assert hub.files["rosa/all"]["learner.safetensors"].find(b"/home/rosa/") > 0
    assert main(["push", str(model), "rosa/all"]) == 0
    assert "public" in capsys.readouterr().err  # what it is already, it stays
    assert hub.files["rosa/all"]["learner.safetensors"].find(b"/home/rosa/") < 0


def test_push_says_in_one_line_what_is_wrong(model, hub, tmp_path, capsys, monkeypatch):
    def error(*words):
        assert main(["push", *map(str, words)]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        return told

    assert "expected OWNER/NAME" in error(model, "tools")
    assert "holds no model" in error(tmp_path, "rosa/tools")
    assert "short names" in error(model, "rosa/tools", "--licence", "mine alone")
    hub.refuse = 403
    assert "the token may not write there" in error(model, "rosa/tools")
    hub.refuse = None
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    assert "the token is not valid" in error(model, "rosa/tools")
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    assert "hf auth login" in error(model, "rosa/tools")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'ramify[hub]'" in error(model, "rosa/tools")
    assert hub.files == {}


def test_an_unreachable_hub_is_told_in_one_line(model, hub, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert main(["push", str(model), "rosa/tools"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("ramify: error: rosa/tools was not pushed: ")
    assert told.count("\n") == 1
