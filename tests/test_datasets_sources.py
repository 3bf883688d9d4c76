"""The known datasets: the real CIFAR-100 and cars, and small stand-ins in the official layouts."""

import json
import logging
import pickle
import shutil
import tarfile
import time
from dataclasses import replace

import numpy as np
import pytest

from ramify.datasets import SOURCES, cifar100, inaturalist, load_dataset
from ramify.datasets.cars import read_annotations
from ramify.datasets.cifar100 import FOLDER
from ramify.errors import RamifyError
from ramify.taxonomy import read_taxonomy


@pytest.mark.real_data
def test_real_cifar100(cifar100_dir, caplog):
    with caplog.at_level(logging.WARNING):
        dataset = load_dataset("cifar100", cifar100_dir, progress=False)
    assert "not the official" in caplog.text
    assert dataset.taxonomy.sizes == (2, 4, 8, 20, 100)
    assert np.bincount(dataset.train.leaves).tolist() == [500] * 100
    assert np.bincount(dataset.test.leaves).tolist() == [100] * 100
    means = dataset.train.images.mean(axis=(0, 2, 3)) / 255
    np.testing.assert_allclose(means, dataset.mean, atol=2e-4)  # the published means: channels are in order
    start = time.process_time()
    load_dataset("cifar100", cifar100_dir, progress=False)
    assert time.process_time() - start < 1


@pytest.mark.real_data
def test_real_cifar100_pixels_and_labels_belong_together(cifar100_dir):
    dataset = load_dataset("cifar100", cifar100_dir, progress=False)
    record = pickle.loads((cifar100_dir / FOLDER / "test").read_bytes())
    meta = pickle.loads((cifar100_dir / FOLDER / "meta").read_bytes())
    np.testing.assert_array_equal(dataset.test.images.reshape(-1, 3072), record[b"data"])
    names = dataset.taxonomy.names(5)
    expected = [meta[b"fine_label_names"][label].decode() for label in record[b"fine_labels"]]
    assert [names[leaf] for leaf in dataset.test.leaves] == expected
    parents = dataset.taxonomy.leaf_to(4)[dataset.test.leaves]
    assert len(set(zip(parents.tolist(), record[b"coarse_labels"], strict=True))) == 20  # one to one


@pytest.mark.real_data
def test_cifar100_with_its_two_level_tree(cifar100_dir):
    two = load_dataset("cifar100", cifar100_dir, taxonomy="cifar100-2", progress=False)
    five = load_dataset("cifar100", cifar100_dir, progress=False)
    assert two.taxonomy.sizes == (20, 100)
    np.testing.assert_array_equal(two.train.leaves, five.train.leaves)
    assert two.fingerprint != five.fingerprint


@pytest.mark.real_data
def test_real_cars_as_class_folders_and_tree(cars64_dir):
    dataset = load_dataset(
        cars64_dir, cars64_dir.parent, image_size=64, taxonomy="stanford-cars", progress=False
    )
    assert dataset.taxonomy.sizes == (9, 196)
    assert (len(dataset.train), len(dataset.test)) == (8_137, 8_033)
    assert dataset.taxonomy == read_taxonomy("stanford-cars")
    assert np.bincount(dataset.train.leaves, minlength=196).min() > 10


def small_cifar(root, n=200):
    """The official layout with a few random images."""
    rng, names = np.random.default_rng(0), sorted(read_taxonomy("cifar100").names(5))
    (root / FOLDER).mkdir(parents=True)
    for part in ("train", "test"):
        record = {
            b"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8),
            b"fine_labels": [i % 100 for i in range(n)],
        }
        (root / FOLDER / part).write_bytes(pickle.dumps(record, 2))
    meta = {b"fine_label_names": [name.encode() for name in names]}
    (root / FOLDER / "meta").write_bytes(pickle.dumps(meta, 2))
    return root / FOLDER


def test_cifar100_is_unpacked_from_the_archive(tmp_path):
    small_cifar(tmp_path / "made")
    archive = tmp_path / "data" / f"{FOLDER}.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made" / FOLDER, FOLDER)
    here = replace(cifar100.PUBLISHER.archives[0], md5=cifar100.digest(archive, "md5"))
    replace(cifar100.PUBLISHER, archives=(here,)).fetch(archive.parent, progress=False)
    assert len(load_dataset("cifar100", archive.parent, progress=False).train) == 200


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("train", {b"data": None}),
        ("train", {b"data": np.zeros((200, 99), np.uint8)}),
        ("train", {b"fine_labels": [0] * 3}),
        ("train", {b"fine_labels": [100] * 200}),
        ("train", {b"fine_labels": ["apple"] * 200}),
        ("meta", {b"fine_label_names": [b"apple"]}),
        ("meta", {b"fine_label_names": None}),
    ],
)
def test_cifar100_with_other_content_is_refused(tmp_path, file, change):
    path = small_cifar(tmp_path) / file
    path.write_bytes(pickle.dumps({**pickle.loads(path.read_bytes()), **change}, 2))
    with pytest.raises(RamifyError, match=str(path)):
        load_dataset("cifar100", tmp_path, progress=False)


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"garden"}))
def test_what_is_absent_says_how_to_provide_it(tmp_path, name):
    with pytest.raises(RamifyError, match=r"put|point") as error:
        load_dataset(name, tmp_path)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def annotations(rows, **columns):
    """A struct array as MATLAB would write it."""
    kinds = [(name, object) for name in columns]
    return np.array(list(zip(*columns.values(), strict=True)), dtype=kinds)[None, :rows]


def cars_images(paint, folder):
    """Two images a class, named in order of class; returns names and labels (from 1) of the 392 images."""
    labels = [i // 2 + 1 for i in range(392)]
    files = [f"{i:05d}.jpg" for i in range(392)]
    for file, label in zip(files, labels, strict=True):
        paint(folder / file, (label, 0, 0))
    return files, labels


@pytest.fixture
def class_names():
    """The official names in the official order: by alphabet, one with a slash."""
    names = sorted(read_taxonomy("stanford-cars").names(2))
    return np.array([name.replace("C-V", "C/V").replace("CV", "C/V") for name in names], dtype=object)


def red_is_the_class(dataset, class_names):
    plain = {"".join(filter(str.isalnum, name)): i for i, name in enumerate(class_names)}
    for split in (dataset.train, dataset.test):
        found = ["".join(filter(str.isalnum, dataset.taxonomy.names(2)[leaf])) for leaf in split.leaves]
        red = split.images[:, 0, 2, 2].astype(int)
        assert np.abs(red - [plain[name] + 1 for name in found]).max() <= 2  # JPEG is not exact


def test_cars_from_one_mat_file(paint, tmp_path, class_names):
    from scipy.io import savemat

    folder = tmp_path / "stanford-cars"
    files, labels = cars_images(paint, folder / "car_ims")
    rows = annotations(
        392, relative_im_path=[f"car_ims/{file}" for file in files], **{"class": labels, "test": [0, 1] * 196}
    )
    savemat(folder / "cars_annos.mat", {"annotations": rows, "class_names": class_names[None]})
    dataset = load_dataset("stanford-cars", tmp_path, image_size=8, progress=False)
    assert (len(dataset.train), len(dataset.test)) == (196, 196)
    assert dataset.taxonomy == read_taxonomy("stanford-cars")
    red_is_the_class(dataset, class_names)


def test_cars_from_the_devkit(paint, tmp_path, class_names):
    from scipy.io import savemat

    folder = tmp_path / "stanford_cars"
    (folder / "devkit").mkdir(parents=True)
    savemat(folder / "devkit/cars_meta.mat", {"class_names": class_names[None]})
    for part, target in (
        ("train", "devkit/cars_train_annos.mat"),
        ("test", "cars_test_annos_withlabels.mat"),
    ):
        files, labels = cars_images(paint, folder / f"cars_{part}")
        savemat(folder / target, {"annotations": annotations(392, fname=files, **{"class": labels})})
    dataset = load_dataset("stanford-cars", tmp_path, image_size=8, progress=False)
    assert (len(dataset.train), len(dataset.test)) == (392, 392)
    red_is_the_class(dataset, class_names)


def test_cars_as_class_folders_and_packed(paint, tmp_path):
    for name in read_taxonomy("stanford-cars").names(2):
        for part in ("train", "test"):
            paint(tmp_path / "stanford-cars" / part / name.replace("/", "-") / "1.jpg")
    dataset = load_dataset("stanford-cars", tmp_path, image_size=8, progress=False)
    assert dataset.taxonomy.sizes == (9, 196)
    shutil.rmtree(tmp_path / "stanford-cars" / "train")
    (tmp_path / "stanford-cars" / "cars_train.tgz").write_bytes(b"")
    with pytest.raises(RamifyError, match="not unpacked: run `ramify data get stanford-cars`"):
        load_dataset("stanford-cars", tmp_path)


def test_damaged_mat_files(tmp_path):
    from scipy.io import savemat

    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    savemat(tmp_path / "b.mat", {"other": [1]})
    for name in ("a.mat", "b.mat"):
        with pytest.raises(RamifyError, match=r"\.mat"):
            read_annotations([tmp_path / name])


def test_imagenet_by_wnid(paint, tmp_path):
    tree = read_taxonomy("imagenet-hier100")
    for leaf, wnid in enumerate(tree.leaf_attributes["wnid"]):
        paint(tmp_path / f"imagenet/train/{wnid}/{wnid}_1.JPEG", (2 * leaf, 0, 0))
        paint(tmp_path / f"imagenet/val/{wnid}/val_1.JPEG", (2 * leaf, 0, 0))
    paint(tmp_path / "imagenet/train/n00000000/other.JPEG")
    dataset = load_dataset("imagenet-hier100", tmp_path, image_size=8, progress=False)
    assert dataset.taxonomy.sizes == (10, 100)
    assert len(dataset.train) == len(dataset.test) == 100
    red = dataset.train.images[:, 0, 0, 0].astype(int)
    assert np.abs(red - 2 * dataset.train.leaves).max() <= 2
    shutil.rmtree(tmp_path / "imagenet/val")
    paint(tmp_path / "imagenet/val/ILSVRC2012_val_00000001.JPEG")
    with pytest.raises(RamifyError, match="move each validation image"):
        load_dataset("imagenet-hier100", tmp_path)


def inat(paint, root, named=True):
    """Twelve species of three genera, 20 images each, in the official JSON."""
    folder = root / "inaturalist19"
    ranks = {rank: rank for rank in inaturalist.RANKS[:5]}
    categories = [{"id": i, "name": f"G{i % 3} s{i}", "genus": f"G{i % 3}", **ranks} for i in range(12)]
    images = [{"id": 500 - i, "file_name": f"train_val2019/{i % 12}/{i}.png"} for i in range(240)]
    for i, image in enumerate(images):
        paint(folder / image["file_name"], (i % 12, 0, 0))
    marks = [{"image_id": 500 - i, "category_id": i % 12} for i in range(240)]
    hidden = categories if named else [{"id": i, "name": str(i)} for i in range(12)]
    for name, part in (("train2019.json", slice(None, 200)), ("val2019.json", slice(200, None))):
        content = {"images": images[part], "annotations": marks[part], "categories": hidden}
        (folder / name).write_text(json.dumps(content))
    return folder, categories


def test_inaturalist_is_split_anew(paint, tmp_path):
    inat(paint, tmp_path)
    dataset = load_dataset("inaturalist19", tmp_path, image_size=8, progress=False, any_counts=True)
    assert dataset.taxonomy.sizes == (1, 1, 1, 1, 1, 3, 12)
    assert np.bincount(dataset.train.leaves).tolist() == [14] * 12
    assert np.bincount(dataset.test.leaves).tolist() == [3] * 12
    np.testing.assert_array_equal(dataset.train.images[:, 0, 0, 0], dataset.train.leaves)
    assert "seed 0" in dataset.notes[0]
    assert dataset.mean == (0.454, 0.474, 0.367)


def test_inaturalist_refuses_another_tree_before_decoding(paint, tmp_path):
    inat(paint, tmp_path)
    with pytest.raises(RamifyError, match=r"published are \(3, 4, 9, 34, 57, 72, 1010\).*any-counts"):
        load_dataset("inaturalist19", tmp_path, image_size=8, progress=False)
    assert not list((tmp_path / "decoded").glob("*/*.npy"))


def test_inaturalist_names_that_came_later(paint, tmp_path):
    folder, categories = inat(paint, tmp_path, named=False)
    with pytest.raises(RamifyError, match=r"categories\.json"):
        load_dataset("inaturalist19", tmp_path, image_size=8, progress=False, any_counts=True)
    (folder / "categories.json").write_text(json.dumps(categories))
    dataset = load_dataset("inaturalist19", tmp_path, image_size=8, progress=False, any_counts=True)
    assert dataset.taxonomy.names(6) == ("G0", "G1", "G2")


def test_inaturalist_file_names_stay_in_the_folder(paint, tmp_path):
    folder, _ = inat(paint, tmp_path)
    text = (folder / "train2019.json").read_text().replace("train_val2019/0/0.png", "../../secret.png")
    (folder / "train2019.json").write_text(text)
    with pytest.raises(RamifyError, match="leaves the folder"):
        load_dataset("inaturalist19", tmp_path, image_size=8, progress=False, any_counts=True)
