"""`hf:NAME`: Hugging Face datasets on disk."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from ramify.cli import main
from ramify.datasets import load_dataset
from ramify.errors import RamifyError

hf = pytest.importorskip("datasets")

TREE = {
    "daisy": ("plant", "flower"),
    "rose": ("plant", "flower"),
    "oak": ("plant", "tree"),
    "ant": ("animal", "insect"),
}
COLOURS = {"daisy": 10, "rose": 60, "oak": 110, "ant": 160}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    hf.disable_progress_bars()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def opened(name, root, **given):
    return load_dataset(name, root, **{"image_size": 8, "progress": False, **given})


def make(copies, labels="words"):
    """Images whose red is their species; labels as words, as classes, or in columns level1 to level3."""
    names = [name for name in TREE for _ in range(copies)]
    rows = {
        "photo": [Image.new("RGB", (9, 9), (COLOURS[name], 0, 0)) for name in names],
        "author": [f"a{i % 3}" for i in range(len(names))],
        "species": names,
        "kingdom": [TREE[name][0] for name in names],
        "kind": [TREE[name][1] for name in names],
    }
    features = {"photo": hf.Image(), **{key: hf.Value("string") for key in rows if key != "photo"}}
    made = hf.Dataset.from_dict(rows, features=hf.Features(features))
    if labels == "classes":
        for column in ("species", "kingdom", "kind"):
            made = made.class_encode_column(column)
    if labels == "levels":
        made = made.rename_columns({"kingdom": "level1", "kind": "level2", "species": "level3"})
    return made


def agrees(dataset):
    assert dataset.taxonomy.sizes == (2, 3, 4)
    for split in (dataset.train, dataset.test):
        names = [dataset.taxonomy.path(int(leaf)) for leaf in split.leaves]
        assert [(*TREE[path[-1]], path[-1]) for path in names] == names
        np.testing.assert_array_equal(split.images[:, 0, 0, 0], [COLOURS[path[-1]] for path in names])


CHOICE = "?levels=kingdom,kind,species"


def test_a_saved_dict_with_the_columns_named(tmp_path):
    hf.DatasetDict(train=make(5), test=make(2)).save_to_disk(str(tmp_path / "plants"))
    dataset = opened(f"hf:plants{CHOICE}", tmp_path)
    assert (len(dataset.train), len(dataset.test), dataset.name) == (20, 8, "plants")
    agrees(dataset)
    two = opened("hf:plants?levels=kingdom,species&image=photo", tmp_path)
    assert two.taxonomy.sizes == (2, 4)


@pytest.mark.parametrize("labels", ["classes", "levels"])
def test_columns_are_found_by_type_or_number(tmp_path, labels):
    hf.DatasetDict(train=make(5, labels), validation=make(2, labels)).save_to_disk(str(tmp_path / "plants"))
    dataset = opened(f"hf:{tmp_path / 'plants'}", tmp_path)
    agrees(dataset)
    assert "validation images" in dataset.notes[0]


def test_one_saved_table_is_split_and_rows_may_have_been_chosen(tmp_path):
    order = np.random.default_rng(0).permutation(40)
    make(10).select(order).save_to_disk(str(tmp_path / "plants"))
    dataset = opened(f"hf:plants{CHOICE}", tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (32, 8)
    agrees(dataset)


@pytest.mark.parametrize(
    "layout",
    ["data/{}-00000-of-00001.parquet", "default/{}/0000.parquet", "{}/part.parquet"],
)
def test_parquet_as_the_hub_lays_it_out(tmp_path, layout):
    for part, copies in (("train", 5), ("test", 2)):
        path = tmp_path / "some" / layout.format(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        make(copies).to_parquet(str(path))
    dataset = opened(f"hf:some{CHOICE}", tmp_path)
    assert (len(dataset.train), len(dataset.test)) == (20, 8)
    agrees(dataset)


def test_what_the_hub_downloaded_is_found_by_its_name(tmp_path):
    folder = tmp_path / "hub/datasets--someone--plants/snapshots/0123abcd/data"
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        make(3).to_parquet(str(folder / f"{part}-00000-of-00001.parquet"))
    dataset = opened(f"hf:someone/plants{CHOICE}", tmp_path)
    assert dataset.name == "someone_plants"
    agrees(dataset)


def test_another_choice_of_columns_is_another_dataset(tmp_path):
    hf.DatasetDict(train=make(4), test=make(2)).save_to_disk(str(tmp_path / "plants"))
    assert opened(f"hf:plants{CHOICE}", tmp_path).taxonomy.depth == 3
    assert opened("hf:plants?levels=species", tmp_path).taxonomy.depth == 1


def test_a_row_without_image_is_named(tmp_path):
    made = make(4)
    broken = made.map(
        lambda row, i: {"photo": {"bytes": b"", "path": None} if i == 5 else row["photo"]}, with_indices=True
    )
    hf.DatasetDict(train=broken, test=make(1)).save_to_disk(str(tmp_path / "plants"))
    with pytest.raises(RamifyError, match="row 5"):
        opened(f"hf:plants{CHOICE}", tmp_path)
    assert len(opened(f"hf:plants{CHOICE}", tmp_path, skip_broken=True).train) == 15


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:nothing", "save_to_disk"),
        ("hf:plants", "no label among its columns photo, author, .*levels="),
        ("hf:plants?levels=kingdom,genus", "no column 'genus'"),
        ("hf:plants?image=picture", "no column 'picture'"),
        ("hf:plants?level=kingdom", "no option 'level'"),
        ("hf:plants?levels=author,species", "two parents"),
        ("hf:empty", "neither"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, name, message):
    make(6).save_to_disk(str(tmp_path / "plants"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RamifyError, match=message) as error:
        opened(name, tmp_path)
    assert "\n" not in str(error.value)
    assert main(["data", "check", name, "--data-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    make(2).save_to_disk(str(tmp_path / "plants"))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RamifyError, match=r"ramify\[hf\]"):
        opened(f"hf:plants{CHOICE}", tmp_path)


def test_a_damaged_table_is_refused(tmp_path):
    make(2).save_to_disk(str(tmp_path / "plants"))
    next((tmp_path / "plants").glob("*.arrow")).write_bytes(io.BytesIO(b"no table").getvalue())
    with pytest.raises(RamifyError, match="cannot be read as a saved dataset"):
        opened(f"hf:plants{CHOICE}", tmp_path)
