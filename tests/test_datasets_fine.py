"""Further known datasets, from CUB-200 to Tiny-ImageNet: small stand-ins in the official layouts."""

import json
import shutil
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ramify.cli import main
from ramify.datasets import SOURCES, aircraft, cub, inaturalist, load_dataset, omniglot, tiny_imagenet
from ramify.datasets.fetch import Download, Publisher
from ramify.datasets.splits import distinct
from ramify.errors import RamifyError
from ramify.files import digest
from ramify.taxonomy import Taxonomy, read_taxonomy


def opened(name, root, **given):
    return load_dataset(name, root, **{"image_size": 8, "progress": False, **given})


def red_is(dataset, value):
    """Whether each image's red is what `value(path of its names)` says; JPEG is not exact."""
    for split in (dataset.train, dataset.test):
        said = [value(dataset.taxonomy.path(int(leaf))) for leaf in split.leaves]
        assert np.abs(split.images[:, 0, 4, 4].astype(int) - said).max() <= 3


# CUB-200-2011


def make_cub(paint, folder):
    """The official files with three images of each of the 200 species, the last for testing."""
    names = read_taxonomy("cub200").names(3)
    rows = [(i // 3 + 1, f"{i // 3 + 1:03d}.{names[i // 3]}") for i in range(600)]
    paths = [f"{name}/{name[4:]}_{i:04d}_{796111 + i}.jpg" for i, (_, name) in enumerate(rows)]
    for (number, _), path in zip(rows, paths, strict=True):
        paint(folder / "images" / path, (number, 0, 0))
    lists = {
        "classes.txt": dict.fromkeys(f"{number} {name}" for number, name in rows),
        "images.txt": (f"{i + 1} {path}" for i, path in enumerate(paths)),
        "image_class_labels.txt": (f"{i + 1} {number}" for i, (number, _) in enumerate(rows)),
        "train_test_split.txt": (f"{i + 1} {int(i % 3 < 2)}" for i in range(600)),
    }
    for file, lines in lists.items():
        (folder / file).write_text("".join(f"{line}\n" for line in lines))
    return names


def test_cub_has_the_published_tree_and_split(paint, tmp_path):
    names = make_cub(paint, tmp_path / cub.FOLDER)
    dataset = opened("cub200", tmp_path)
    assert dataset.taxonomy.sizes == (13, 38, 200)
    assert (len(dataset.train), len(dataset.test)) == (400, 200)
    red_is(dataset, lambda path: names.index(path[-1]) + 1)
    assert dataset.train.names[0].startswith("images/001.Black_footed_Albatross/")


def test_the_families_of_cub_are_those_of_ornithology():
    """Counts by hand from two public trees (trees/README.md); gulls and kingfishers are where they differ."""
    tree = read_taxonomy("cub200")
    families = Counter(tree.path(leaf)[1] for leaf in range(200))
    assert families.most_common(4) == [
        ("Parulidae", 30),
        ("Passerellidae", 23),
        ("Laridae", 16),
        ("Icteridae", 13),
    ]
    orders = Counter(tree.path(leaf)[0] for leaf in range(200))
    assert orders["Passeriformes"] == 133
    where = {tree.path(leaf)[-1]: tree.path(leaf)[:2] for leaf in range(200)}
    assert where["Red_legged_Kittiwake"] == ("Charadriiformes", "Laridae")
    assert where["White_breasted_Kingfisher"] == ("Coraciiformes", "Halcyonidae")
    assert where["Belted_Kingfisher"] == ("Coraciiformes", "Cerylidae")
    assert where["Frigatebird"] == ("Suliformes", "Fregatidae")


def test_cub_from_its_archive(paint, tmp_path, monkeypatch, capsys):
    make_cub(paint, tmp_path / "made" / cub.FOLDER)
    (tmp_path / "data").mkdir()
    packed = tmp_path / "data" / "CUB_200_2011.tgz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(tmp_path / "made" / cub.FOLDER, cub.FOLDER)
        tar.add(tmp_path / "made" / cub.FOLDER / "classes.txt", "attributes.txt")  # as in the official one
    here = replace(cub.PUBLISHER.archives[0], md5=digest(packed, "md5"))
    get = replace(cub.PUBLISHER, archives=(here,)).fetch
    monkeypatch.setitem(SOURCES, "cub200", replace(cub.SOURCE, get=get))
    assert main(["data", "get", "cub200", "--data-dir", str(tmp_path / "data"), "--size", "8"]) == 0
    told = capsys.readouterr().out
    assert "licence" in told
    assert "400 train and 200 test" in told


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("images.txt", "1 001.", "1 ../001.", "leaves the folder"),
        ("image_class_labels.txt", "600 200\n", "", "no row for '600'"),
        ("train_test_split.txt", "600 0\n", "600\n", "line 600: 1 cells"),
        ("classes.txt", "Black_footed", "Black_headed", "'Black_headed_Albatross'"),
    ],
)
def test_cub_with_other_content_is_refused(paint, tmp_path, file, old, new, message):
    make_cub(paint, tmp_path / cub.FOLDER)
    path = tmp_path / cub.FOLDER / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(RamifyError, match=message) as error:
        opened("cub200", tmp_path)
    assert "\n" not in str(error.value)


# FGVC-Aircraft


def make_aircraft(folder):
    """30 manufacturers of 70 families of 100 variants; red is the variant, the banner is white."""
    (folder / "images").mkdir(parents=True)
    for part, copies in (("trainval", 2), ("test", 1)):
        lines = {level: [] for level in aircraft.LEVELS}
        for i in range(100 * copies):
            variant, family = i % 100, min(i % 100, 69)
            image = f"{i:06d}{copies}"
            canvas = np.zeros((60, 40, 3), np.uint8)
            canvas[:40, :, 0] = variant
            canvas[40:] = 255
            Image.fromarray(canvas).save(folder / "images" / f"{image}.jpg", quality=95, subsampling=0)
            named = (f"Maker {min(family, 29)}", f"Family {family}", f"F/A {variant}")
            for level, name in zip(aircraft.LEVELS, named, strict=True):
                lines[level].append(f"{image} {name}\n")
        for level, rows in lines.items():
            (folder / f"images_{level}_{part}.txt").write_text("".join(rows))


def test_aircraft_is_read_by_its_lists_without_the_banner(tmp_path):
    make_aircraft(tmp_path / aircraft.FOLDER / "data")
    dataset = opened("fgvc-aircraft", tmp_path)
    assert dataset.taxonomy.sizes == (30, 70, 100)
    assert (len(dataset.train), len(dataset.test)) == (200, 100)
    red_is(dataset, lambda path: int(path[-1].split()[1]))
    assert dataset.train.images.max() < 120  # nothing of the white banner
    assert dataset.taxonomy.path(0)[0].startswith("Maker")


def test_aircraft_with_lists_of_two_releases_is_refused(tmp_path):
    make_aircraft(tmp_path / aircraft.FOLDER / "data")
    path = tmp_path / aircraft.FOLDER / "data" / "images_family_test.txt"
    path.write_text(path.read_text().split("\n", 1)[1])
    with pytest.raises(RamifyError, match="all of one release"):
        opened("fgvc-aircraft", tmp_path)


# Omniglot


def make_omniglot(folder, alphabets=((3, 2), (1, 2))):
    """Zip archives with some characters in each part, 20 drawings each, in the official names."""
    folder.mkdir(parents=True)
    number = 0
    for part, (count, characters) in zip(omniglot.PARTS, alphabets, strict=True):
        with zipfile.ZipFile(folder / f"{part}.zip", "w") as packed:
            for i in range(count):
                for character in range(1, characters + 1):
                    number += 1
                    for drawer in range(1, 21):
                        name = f"{part}/{part[7:]}_{i}/character{character:02d}/{number:04d}_{drawer:02d}.png"
                        with packed.open(name, "w") as file:
                            Image.new("1", (105, 105), drawer > 15).save(file, "PNG")


def test_omniglot_is_split_by_drawer(tmp_path, monkeypatch):
    make_omniglot(tmp_path / "omniglot")
    here = tuple(
        replace(archive, md5=digest(tmp_path / "omniglot" / f"{archive.top}.zip", "md5"))
        for archive in omniglot.PUBLISHER.archives
    )
    monkeypatch.setattr(omniglot, "PUBLISHER", replace(omniglot.PUBLISHER, archives=here))
    omniglot.get(tmp_path, progress=False)
    dataset = opened("omniglot", tmp_path, any_counts=True)
    assert dataset.taxonomy.sizes == (4, 8)
    assert np.bincount(dataset.train.leaves).tolist() == [15] * 8
    assert np.bincount(dataset.test.leaves).tolist() == [5] * 8
    assert dataset.train.images.max() == 0  # the drawers 1 to 15 left their pages black
    assert dataset.test.images.min() == 255
    assert "drawer" in dataset.notes[0]
    with pytest.raises(RamifyError, match=r"published are \(50, 1623\)"):
        opened("omniglot", tmp_path)


@pytest.mark.parametrize("name", ["one/0001_01.png", "one/character01/a.png"])
def test_omniglot_with_other_files_is_refused(paint, tmp_path, name):
    for part in omniglot.PARTS:
        paint(tmp_path / "omniglot-py" / part / name)
    with pytest.raises(RamifyError, match=r"expected|number of its drawer"):
        opened("omniglot", tmp_path, any_counts=True)


# iNaturalist-21


def make_inat21(paint, folder):
    """Four species, two of whose genera are called alike; 3 images for training and 1 for validation."""
    ranks = [
        ("Animalia", "Chordata", "Aves", "Passeriformes", "Muscicapidae", "Oenanthe", "Oenanthe oenanthe"),
        ("Animalia", "Chordata", "Aves", "Passeriformes", "Turdidae", "Turdus", "Turdus merula"),
        ("Plantae", "Tracheophyta", "Magnoliopsida", "Apiales", "Apiaceae", "Oenanthe", "Oenanthe crocata"),
        ("Plantae", "Tracheophyta", "Magnoliopsida", "Apiales", "Apiaceae", "Daucus", "Daucus carota"),
    ]
    categories = [{"id": i, **dict(zip(inaturalist.RANKS, row, strict=True))} for i, row in enumerate(ranks)]
    for part, copies in (("train_mini", 3), ("val", 1)):
        files = [(f"{part}/{i:05d}_{'_'.join(ranks[i])}/{k}.jpg", i) for i in range(4) for k in range(copies)]
        for name, i in files:
            paint(folder / name, (50 * i, 0, 0))
        content = {
            "images": [{"id": 7 * n, "file_name": name} for n, (name, _) in enumerate(files)],
            "annotations": [{"image_id": 7 * n, "category_id": i} for n, (_, i) in enumerate(files)],
            "categories": categories,
        }
        (folder / f"{part}.json").write_text(json.dumps(content))
    return ranks


def test_inaturalist21_keeps_its_split_and_tells_genera_of_one_name_apart(paint, tmp_path):
    ranks = make_inat21(paint, tmp_path / "inaturalist21")
    dataset = opened("inaturalist21-mini", tmp_path)
    assert dataset.taxonomy.sizes == (2, 2, 2, 2, 3, 4, 4)
    assert dataset.taxonomy.names(6) == ("Oenanthe (Muscicapidae)", "Turdus", "Oenanthe (Apiaceae)", "Daucus")
    assert np.bincount(dataset.train.leaves).tolist() == [3] * 4
    assert np.bincount(dataset.test.leaves).tolist() == [1] * 4
    red_is(dataset, lambda path: 50 * [row[-1] for row in ranks].index(path[-1]))
    assert "validation images" in dataset.notes[0]


labels = st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=1, max_size=20, unique=True)


@given(labels)
def test_distinct_names_make_a_tree_of_the_same_shape(rows):
    made = distinct(rows)
    tree = Taxonomy.from_rows(made)  # refuses a name with two parents
    assert tree.sizes == tuple(len({row[: level + 1] for row in rows}) for level in range(3))
    assert [tuple(name[:1] for name in row) for row in made] == rows
    assert distinct(made) == made


# Tiny-ImageNet


def make_tiny(paint, folder, sort=False):
    """Two training images and one of validation for each of the 200 classes; red is the leaf's number."""
    wnids = read_taxonomy("tiny-imagenet").leaf_attributes["wnid"]
    rows = []
    for leaf, wnid in enumerate(wnids):
        for i in range(2):
            paint(folder / f"train/{wnid}/images/{wnid}_{i}.JPEG", (leaf, 0, 0), 64)
        name = f"val_{(7 * leaf) % 200}.JPEG"
        paint(folder / "val" / (f"{wnid}/{name}" if sort else f"images/{name}"), (leaf, 0, 0), 64)
        rows.append(f"{name}\t{wnid}\t0\t32\t44\t62\n")
    if not sort:
        (folder / "val/val_annotations.txt").write_text("".join(rows))
    return wnids


@pytest.mark.parametrize("sort", [False, True])
def test_tiny_imagenet_with_validation_as_published_or_sorted(paint, tmp_path, sort):
    make_tiny(paint, tmp_path / tiny_imagenet.FOLDER, sort)
    dataset = opened("tiny-imagenet", tmp_path)
    assert dataset.taxonomy == read_taxonomy("tiny-imagenet")
    assert (len(dataset.train), len(dataset.test)) == (400, 200)
    for split in (dataset.train, dataset.test):
        assert np.abs(split.images[:, 0, 4, 4].astype(int) - split.leaves).max() <= 3
    assert "never released" in dataset.notes[0]


def test_tiny_imagenet_can_be_padded_and_laid_under_another_tree(paint, tmp_path):
    make_tiny(paint, tmp_path / tiny_imagenet.FOLDER)
    padded = opened("tiny-imagenet", tmp_path, pad=True)
    assert padded.taxonomy.sizes == (6, 18, 49, 107, 157, 179, 189, 193, 200)
    flat = Taxonomy.from_rows([("all", name) for name in read_taxonomy("tiny-imagenet").leaf_names])
    assert opened("tiny-imagenet", tmp_path, taxonomy=flat).taxonomy.sizes == (1, 200)


def test_tiny_imagenet_with_other_content_is_refused(paint, tmp_path):
    folder = tmp_path / tiny_imagenet.FOLDER
    make_tiny(paint, folder)
    paint(folder / "train/n00000000/images/1.JPEG")
    with pytest.raises(RamifyError, match="'n00000000' is not one of the 200"):
        opened("tiny-imagenet", tmp_path)
    shutil.rmtree(folder / "train/n00000000")
    paint(folder / "val/images/val_9999.JPEG")
    with pytest.raises(RamifyError, match=r"no row for 'val_9999\.JPEG'"):
        opened("tiny-imagenet", tmp_path)


def test_the_tree_of_tiny_imagenet_is_that_of_wordnet():
    tree = read_taxonomy("tiny-imagenet")
    assert tree.leaves == 200
    assert len(set(tree.leaf_attributes["wnid"])) == 200
    where = {tree.path(leaf)[-1]: tree.path(leaf) for leaf in range(200)}
    assert where["Persian cat"][:4] == ("animal", "vertebrate", "mammal", "placental")
    assert where["Persian cat"][4:] == ("carnivore", "feline", "cat", "domestic cat", "Persian cat")
    assert where["acorn"] == ("acorn",)
    assert where["goldfish"] == ("animal", "vertebrate", "goldfish")
    for level in range(1, tree.depth):  # no class has a single child
        up = tree.up(level + 1, level)
        assert 1 not in np.bincount(up).tolist()


# All of them


def test_every_dataset_says_where_it_comes_from():
    for source in set(SOURCES.values()) - {SOURCES["garden"]}:
        assert source.publisher.page.startswith("https://")
        assert source.publisher.licence
        assert all(a.url.startswith("https://") for a in source.publisher.archives)
        assert not source.publisher.archives or source.publisher.size
        assert "\n" not in source.publisher.licence


def test_a_publisher_brings_only_what_is_missing(tmp_path):
    (tmp_path / "there").mkdir()
    packed = tmp_path / "b.zip"
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("b/1.txt", "one")
    publisher = Publisher(
        "https://x.invalid",
        "none",
        (
            Download("https://x.invalid/there.zip", "0", "there"),
            Download("https://x.invalid/b.zip", digest(packed, "md5"), "b"),
        ),
        "1 MB",
    )
    publisher.fetch(tmp_path, progress=False)  # nothing is downloaded: one is unpacked, one there as archive
    assert (tmp_path / "b/1.txt").read_text() == "one"
    publisher.check("x", tmp_path, tmp_path / "b")
    shutil.rmtree(tmp_path / "b")
    with pytest.raises(RamifyError, match=r"no x below .*b is missing.*ramify data get x.*1 MB"):
        publisher.check("x", tmp_path, tmp_path / "b")


def test_trees_of_present_datasets_are_shown(paint, tmp_path, capsys):
    make_inat21(paint, tmp_path / "inaturalist21")
    assert main(["taxonomy", "show", "inaturalist21-mini", "--data-dir", str(tmp_path)]) == 0
    assert "Oenanthe (Apiaceae)" in capsys.readouterr().out
    assert main(["taxonomy", "show", "fgvc-aircraft", "--data-dir", str(tmp_path)]) == 2
    assert "ramify data get fgvc-aircraft" in capsys.readouterr().err
    assert main(["taxonomy", "show", "cub200", "--data-dir", str(tmp_path)]) == 0
    assert "13/38/200" in capsys.readouterr().out
