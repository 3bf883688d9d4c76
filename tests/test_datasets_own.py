"""Your own images: folders, manifests, Parquet."""

import csv
import io
import json
import os
import sys
import types
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, features

from ramify.cli import main
from ramify.datasets import load_dataset
from ramify.datasets.decode import _heif, decode_image
from ramify.datasets.splits import resplit
from ramify.errors import RamifyError
from ramify.reports.mistakes import Mistake
from ramify.reports.sections import _paths

COLOURS = {"oak": (10, 20, 30), "fir": (40, 50, 60), "cat": (70, 80, 90), "dog": (100, 110, 120)}
TREE = {"oak": "plant", "fir": "plant", "cat": "animal", "dog": "animal"}


def opened(path, **options):
    return load_dataset(path, path.parent / "home", image_size=8, progress=False, **options)


def colours_agree(dataset):
    """Each image has the colour of its class, whatever its order."""
    names = dataset.taxonomy.names(dataset.taxonomy.depth)
    for split in (dataset.train, dataset.test):
        expected = np.array([COLOURS[names[leaf]] for leaf in split.leaves])
        np.testing.assert_array_equal(split.images[:, :, 3, 4], expected)


@pytest.fixture
def folders(paint, tmp_path):
    """Nested class folders: three images a class to train on, two to test."""
    for part, count in (("train", 3), ("test", 2)):
        for name, kind in TREE.items():
            for i in range(count):
                paint(tmp_path / "own" / part / kind / name / f"{i}.png", COLOURS[name])
    return tmp_path / "own"


def test_nested_folders(folders):
    dataset = opened(folders)
    assert dataset.taxonomy.sizes == (2, 4)
    assert (len(dataset.train), len(dataset.test)) == (12, 8)
    assert dataset.taxonomy.path(dataset.taxonomy.index(2, "fir")) == ("plant", "fir")
    assert dataset.mean == (0.485, 0.456, 0.406)
    assert dataset.notes == ()
    colours_agree(dataset)


def test_files_that_are_no_images_are_left_alone(folders):
    (folders / "train/plant/oak/notes.txt").write_text("x")
    (folders / "train/plant/oak/.hidden.png").write_text("x")
    (folders / "README.md").write_text("x")
    assert len(opened(folders).train) == 12


def test_a_changed_file_is_decoded_anew(folders, paint):
    first = opened(folders)
    paint(folders / "train/plant/oak/9.png", COLOURS["oak"])
    second = opened(folders)
    assert (len(first.train), len(second.train)) == (12, 13)
    assert first.fingerprint != second.fingerprint


def test_broken_files_are_named(folders):
    (folders / "train/plant/oak/1.png").write_bytes(b"")
    (folders / "test/animal/cat/0.png").write_bytes(b"no image")
    with pytest.raises(RamifyError, match=r"2 images .*oak/1\.png .*cat/0\.png"):
        opened(folders)
    dataset = opened(folders, skip_broken=True)
    assert (len(dataset.train), len(dataset.test)) == (11, 7)
    assert "2 broken images" in dataset.notes[-1]
    colours_agree(dataset)


def test_images_know_their_files_and_reports_name_them(folders):
    (folders / "test/animal/cat/0.png").write_bytes(b"no image")
    for _ in range(2):  # decoded now, and found decoded
        dataset = opened(folders, skip_broken=True)
        for split in (dataset.train, dataset.test):
            leaves = dataset.taxonomy.names(2)
            assert [Path(name).parts[-2] for name in split.names] == [leaves[i] for i in split.leaves]
    assert "test/animal/cat/0.png" not in dataset.test.names
    number = dataset.test.names.index("test/plant/fir/1.png")
    mistake = Mistake(number, ("plant", "fir"), ("animal", "dog"), 2, ("animal", "dog"))
    paths, unknown = partial(_paths, tree=dataset.taxonomy), (len(dataset.train), "fir")
    assert "test/plant/fir/1.png" in str(paths(mistake, dataset))
    assert "test/plant" not in str(paths(mistake, None))
    assert "stored as dog:" in str(paths(replace(mistake, nearest=((0, "dog"), unknown)), dataset))
    assert "stored as" not in str(paths(replace(mistake, nearest=(unknown,)), dataset))
    assert load_dataset("garden", progress=False).test.names == ()


def test_a_run_leaves_broken_files_out_when_told(folders, capsys):
    (folders / "train/plant/oak/1.png").write_bytes(b"")
    small = ["--image-size", "8", "--setup", "multiple-depth", "--network.width", "0.05", "--tasks", "2"]
    place = ["--data-dir", str(folders.parent / "home"), "--out", str(folders.parent / "run")]
    assert main(["run", "--dataset", str(folders), *small, *place]) == 2
    assert "--skip-broken" in capsys.readouterr().err
    assert main(["run", "--dataset", str(folders), *small, *place, "--skip-broken"]) == 0
    about = json.loads((folders.parent / "run" / "config.json").read_text())
    assert about["config"]["skip_broken"]
    assert "1 broken images" in about["dataset"]["notes"][-1]


def test_shallow_classes_end_early_or_are_repeated_when_told(folders, paint, tmp_path, capsys):
    for part in ("train", "test"):
        paint(folders / part / "stone" / "1.png", (1, 2, 3))
        paint(folders / part / "plant" / "2.png", (1, 2, 3))  # a plant of which no more is known
    tree = opened(folders).taxonomy
    assert tree.sizes == (3, 4)
    assert {("stone",), ("plant",), ("plant", "oak")} <= {tree.path(leaf) for leaf in range(tree.leaves)}
    for part in ("train", "test"):
        (folders / part / "plant" / "2.png").unlink()
    dataset = opened(folders, pad=True)
    assert dataset.taxonomy.path(dataset.taxonomy.index(2, "stone")) == ("stone", "stone")
    rows = [f"{p},{'/'.join(p.parts[-3:-1]).replace('/', ',')}" for p in folders.glob("*/*/*/*.png")]
    rows += [f"{p},stone," for p in folders.glob("*/stone/*.png")] * 5
    (tmp_path / "list.csv").write_text("\n".join(["path,level1,level2", *rows]) + "\n")
    assert opened(tmp_path / "list.csv").taxonomy.sizes == (3, 4)
    assert opened(tmp_path / "list.csv", pad=True).taxonomy.sizes == (3, 5)
    check = ["data", "check", str(folders), "--size", "8", "--data-dir", str(tmp_path / "home")]
    assert main(check) == 0
    assert "3 / 4; of 5 leaves 1 ends at level 1, 4 at level 2" in capsys.readouterr().out
    assert main([*check, "--pad"]) == 0
    assert "3 / 5" in capsys.readouterr().out


def test_files_that_are_not_read_are_counted(folders, capsys):
    for name in ("a.xcf", "b.xcf", "c.txt", "plain"):
        (folders / "train/plant/oak" / name).write_bytes(b"x")
    check = ["data", "check", str(folders), "--size", "8", "--data-dir", str(folders.parent / "home")]
    assert main(check) == 0
    assert "note: 4 files are not read: 2 .xcf, 1 .txt, 1 without ending" in capsys.readouterr().out
    (folders / "train/plant/oak/d.raw").write_bytes(b"x")
    assert main(check) == 0  # also when the images have been decoded before
    assert "note: 5 files are not read" in capsys.readouterr().out
    (folders.parent / "none/class").mkdir(parents=True)
    (folders.parent / "none/class/1.cr2").write_bytes(b"x")
    with pytest.raises(RamifyError, match=r"holds no images \(1 file is not read: 1 \.cr2\): expected"):
        opened(folders.parent / "none")


@pytest.mark.parametrize("suffix", [".jfif", ".jpe", ".avif"])
def test_more_kinds_of_images(folders, suffix):
    if suffix == ".avif" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    kind = "AVIF" if suffix == ".avif" else "JPEG"
    Image.new("RGB", (8, 8), COLOURS["oak"]).save(folders / f"train/plant/oak/9{suffix}", kind, quality=100)
    assert len(opened(folders).train) == 13


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"


def test_heic_names_its_extra_and_is_read_with_it(folders, monkeypatch):
    (folders / "train/plant/oak/9.heic").write_bytes(HEIC)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(RamifyError, match=r"oak/9\.heic \(HEIC needs the extra `heic`: .*ramify\[heic\]"):
        opened(folders)
    pretended = types.ModuleType("pillow_heif")

    class Pretended(ImageFile.ImageFile):
        format = "HEIF"

        def _open(self):
            self._size, self._mode = (8, 8), "RGB"
            self.im = Image.new("RGB", (8, 8), COLOURS["oak"]).im
            self.tile = []

        def load(self):
            return Image.Image.load(self)

    def register():
        Image.register_open("HEIF", Pretended, lambda prefix: prefix[4:8] == b"ftyp")

    pretended.register_heif_opener = register
    monkeypatch.setitem(sys.modules, "pillow_heif", pretended)
    try:
        _heif.cache_clear()
        np.testing.assert_array_equal(decode_image(HEIC, 8)[:, 3, 4], COLOURS["oak"])
    finally:
        _heif.cache_clear()
        Image.OPEN.pop("HEIF", None)
        Image.ID.remove("HEIF")


def test_a_full_disk_is_told_in_units_that_say_something(folders, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=1234))
    with pytest.raises(RamifyError, match=r"has 1\.2 kB free, the decoded images need 3\.8 kB"):
        opened(folders)


def test_a_class_left_without_images_is_an_error(folders):
    for i in range(3):
        (folders / f"train/plant/oak/{i}.png").write_bytes(b"")
    with pytest.raises(RamifyError, match="'oak'"):
        opened(folders, skip_broken=True)


def flat(paint, root, folder=lambda name: name):
    for part, count in (("train", 3), ("test", 1)):
        for name in COLOURS:
            for i in range(count):
                paint(root / part / folder(name) / f"{i}.png", COLOURS[name])
    return root


def write_tree(path, rows):
    path.write_text("level1,level2\n" + "".join(f"{kind},{name}\n" for kind, name in rows))
    return path


def test_flat_folders_and_a_tree(paint, tmp_path):
    root = flat(paint, tmp_path / "own")
    tree = write_tree(tmp_path / "tree.csv", [(kind, name) for name, kind in TREE.items()])
    dataset = opened(root, taxonomy=tree)
    assert dataset.taxonomy.names(2) == tuple(TREE)
    colours_agree(dataset)
    assert opened(root).taxonomy.sizes == (4,)


def test_a_tree_in_the_folder_is_found(paint, tmp_path):
    root = flat(paint, tmp_path / "own")
    write_tree(root / "taxonomy.csv", [(kind, name) for name, kind in TREE.items()])
    assert opened(root).taxonomy.sizes == (2, 4)


def test_names_match_without_their_punctuation(paint, tmp_path):
    root = flat(paint, tmp_path / "own", lambda name: name.upper() + "_c-v")
    tree = write_tree(tmp_path / "tree.csv", [(kind, f"{name} C/V") for name, kind in TREE.items()])
    dataset = opened(root, taxonomy=tree)
    expected = [COLOURS[dataset.taxonomy.names(2)[leaf].split()[0]] for leaf in dataset.train.leaves]
    np.testing.assert_array_equal(dataset.train.images[:, :, 0, 0], expected)


def test_leaves_without_images_are_cut_off_and_strangers_refused(paint, tmp_path):
    root = flat(paint, tmp_path / "own")
    rows = [(kind, name) for name, kind in TREE.items()]
    more = write_tree(tmp_path / "more.csv", [("animal", "yak"), *rows, ("mineral", "salt")])
    dataset = opened(root, taxonomy=more)
    assert dataset.taxonomy.sizes == (2, 4)
    colours_agree(dataset)
    with pytest.raises(RamifyError, match="'oak'"):
        opened(root, taxonomy=write_tree(tmp_path / "less.csv", rows[1:]))


def test_without_a_test_folder_a_share_is_held_out(paint, tmp_path):
    for name in COLOURS:
        for i in range(10):
            paint(tmp_path / "own" / name / f"{i}.png", COLOURS[name])
    dataset = opened(tmp_path / "own")
    assert np.bincount(dataset.test.leaves).tolist() == [2] * 4
    assert "20%" in dataset.notes[0]
    assert "seed 0" in dataset.notes[0]
    colours_agree(dataset)


def test_validation_images_stand_in_for_missing_test_images(folders):
    (folders / "test").rename(folders / "val")
    dataset = opened(folders)
    assert len(dataset.test) == 8
    assert "validation" in dataset.notes[0]


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=300),
    st.sampled_from([(80, 20), (70, 15, 15), (50, 50)]),
    st.integers(0, 9),
)
def test_resplit_shares(leaves, percents, seed):
    _, leaves = np.unique(leaves, return_inverse=True)
    parts = resplit(leaves, percents, seed)
    assert (parts == resplit(leaves, percents, seed)).all()
    for leaf in range(leaves.max() + 1):
        counts = np.bincount(parts[leaves == leaf], minlength=len(percents))
        assert counts[0] >= 1
        assert np.abs(counts - counts.sum() * np.array(percents) / 100).max() <= 1


def manifest(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_manifest_with_a_column_a_level(folders):
    rows = [
        (file.relative_to(folders), part, file.parent.parent.name, file.parent.name)
        for part in ("train", "test")
        for file in sorted((folders / part).rglob("*.png"))
    ]
    dataset = opened(manifest(folders / "m.csv", ("path", "split", "level1", "level2"), rows))
    assert dataset.taxonomy.sizes == (2, 4)
    assert (len(dataset.train), len(dataset.test)) == (12, 8)
    colours_agree(dataset)


def test_manifest_with_leaves_and_a_tree(folders, tmp_path):
    rows = [(file, file.parent.name) for file in sorted(folders.rglob("*.png"))]
    tree = write_tree(tmp_path / "tree.csv", [(kind, name) for name, kind in TREE.items()])
    dataset = opened(manifest(tmp_path / "m.csv", ("path", "label"), rows), taxonomy=tree)
    assert dataset.taxonomy.sizes == (2, 4)
    assert (len(dataset.train), len(dataset.test)) == (16, 4)
    colours_agree(dataset)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("file,label\na.png,x\n", "expected path"),
        ("path\na.png\n", "expected path"),
        ("path,label\n", "no images"),
        ("path,label\na.png,\n", "line 2: label is empty"),
        ("path,label\n,x\n", "line 2: path is empty"),
        ("path,level1,level2,level3\na.png,x,,z\n", "line 2: level2 is empty"),
        ("path,label,split\na.png,x,train\nb.png,x,later\n", "'later'"),
        ("path,level1,level2\na.png,x,z\nb.png,y,z\n", "two parents"),
        ("path,label\nmissing.png,x\nm2.png,x\n", r"missing\.png \(No such file"),
        ("path,label,split\na.png,x,test\n", "no train images"),
        ('path,label\n"a.png,x\n', "quotes"),
        ("path,label\na\0b.png,x\n", "."),
    ],
)
def test_bad_manifests(tmp_path, text, message):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(RamifyError, match=message) as error:
        opened(tmp_path / "m.csv")
    assert "\n" not in str(error.value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=60), st.text('path,leveb12\n"x/. \0split', max_size=60).map(str.encode)))
def test_no_manifest_raises_anything_else(tmp_path, data):
    (tmp_path / "m.csv").write_bytes(data)
    with pytest.raises(RamifyError):
        opened(tmp_path / "m.csv")


def test_names_that_are_not_utf8_and_circles(folders, tmp_path):
    link = folders / "train/plant/oak/again"
    link.symlink_to(folders / "train")
    with pytest.raises(RamifyError, match="circle"):
        opened(folders)
    link.unlink()
    Path(os.fsdecode(os.fsencode(folders) + b"/train/plant/f\xff")).mkdir()
    with pytest.raises(RamifyError, match="rename it"):
        opened(folders)


def test_a_path_that_is_nothing_known(tmp_path):
    (tmp_path / "x.bin").write_text("")
    (tmp_path / "empty").mkdir()
    for path, message in (
        ("x.bin", "expected a folder"),
        ("empty", "no images"),
        ("gardn", "did you mean 'garden'"),
    ):
        with pytest.raises(RamifyError, match=message):
            load_dataset(path if path == "gardn" else tmp_path / path, tmp_path, progress=False)


def test_an_image_in_no_class_folder(paint, tmp_path):
    paint(tmp_path / "own" / "a.png")
    with pytest.raises(RamifyError, match="in no class folder"):
        opened(tmp_path / "own")


@pytest.mark.parametrize("size", [0, -3, 5000, 3.5])
def test_image_sizes_are_checked(size):
    with pytest.raises(RamifyError, match="image_size is"):
        load_dataset("garden", image_size=size)


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    return file.getvalue()


def write_parquet(path, copies, named=True):
    """The Hugging Face layout of cifar100: fine label before coarse, class names in the metadata."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    fine, coarse = list(TREE), ["plant", "animal"]
    names = [name for name in TREE for _ in range(copies)]
    columns = {
        "img": [{"bytes": png(COLOURS[name]), "path": None} for name in names],
        "fine_label": [fine.index(name) if named else name for name in names],
        "coarse_label": [coarse.index(TREE[name]) if named else TREE[name] for name in names],
    }
    features = {
        "img": {"_type": "Image"},
        "fine_label": {"names": fine, "_type": "ClassLabel"},
        "coarse_label": {"names": coarse, "_type": "ClassLabel"},
    }
    table = pa.table(columns)
    if named:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, row_group_size=3)


@pytest.mark.parametrize("named", [True, False])
def test_parquet_folder(tmp_path, named):
    write_parquet(tmp_path / "own/data/train-00000-of-00002.parquet", 3, named)
    write_parquet(tmp_path / "own/data/train-00001-of-00002.parquet", 2, named)
    write_parquet(tmp_path / "own/data/test-00000-of-00001.parquet", 2, named)
    dataset = opened(tmp_path / "own")
    assert dataset.taxonomy.sizes == (2, 4)
    assert dataset.taxonomy.path(dataset.taxonomy.index(2, "dog")) == ("animal", "dog")
    assert (len(dataset.train), len(dataset.test)) == (20, 8)
    colours_agree(dataset)


def test_one_parquet_file_is_split(tmp_path):
    write_parquet(tmp_path / "all.parquet", 10)
    dataset = opened(tmp_path / "all.parquet")
    assert (len(dataset.train), len(dataset.test)) == (32, 8)
    colours_agree(dataset)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "all.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RamifyError, match=r"ramify\[parquet\]"):
        opened(tmp_path / "all.parquet")


def test_bad_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "no.parquet").write_bytes(b"nothing")
    parquet.write_table(pa.table({"label": ["a"]}), tmp_path / "imageless.parquet")
    parquet.write_table(pa.table({"image": [b"x"]}), tmp_path / "labelless.parquet")
    parquet.write_table(pa.table({"image": [b"x"], "label": [None]}), tmp_path / "null.parquet")
    for name, message in (
        ("no", "not a Parquet"),
        ("imageless", "no column"),
        ("labelless", "no label"),
        ("null", "None"),
    ):
        with pytest.raises(RamifyError, match=message):
            opened(tmp_path / f"{name}.parquet")
