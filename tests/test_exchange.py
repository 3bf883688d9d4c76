"""Labels from and answers to Label Studio and FiftyOne, without loss."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from ramify import Learner
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.learner.exchange import plain_names, unique_names
from ramify.learner.labelstudio import image_path
from ramify.learner.rows import read_manifest
from ramify.taxonomy import Taxonomy

PATHS = [
    ("fruit", "apple", "boskoop & co"),
    ("fruit", "apple", "other"),
    ("fruit", "pear"),
    ("Werkzeug «groß»", "hammer, heavy"),
    ("Werkzeug «groß»", "other"),
    ("fruit", "other"),
]


def annotated(path: tuple[str, ...], **more: Any) -> dict[str, Any]:
    result = {
        "id": "r1",
        "from_name": "kind",
        "to_name": "img",
        "type": "taxonomy",
        "origin": "manual",
        "value": {"taxonomy": [list(path)]},
    }
    return {"id": 7, "completed_by": 1, "was_cancelled": False, "result": [result], "lead_time": 3.5} | more


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A folder with 100 images, and the export of a project that has annotated them."""
    home = tmp_path_factory.mktemp("project")
    rng = np.random.default_rng(0)
    tasks = []
    for number in range(100):
        kind = number % len(PATHS)
        name = f"shelf {number % 3}/é{number}.png"
        file = home / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        shade = np.full((8, 8, 3), 30 + 40 * kind) + rng.integers(0, 20, (8, 8, 3))
        Image.fromarray(shade.astype(np.uint8)).save(file)
        tasks.append(
            {
                "id": 1000 + number,
                "data": {"image": f"/data/local-files/?d={quote(name)}", "shop": "B"},
                "annotations": [annotated(PATHS[kind])],
                "predictions": [],
                "meta": {"page": number},
                "updated_at": "2026-01-01T00:00:00Z",
            }
        )
    (home / "export.json").write_text(json.dumps(tasks), "utf-8")
    return home, tasks


def taught(home: Path, out: Path) -> None:
    assert main(["import", "labelstudio", str(home / "export.json"), "--out", str(out / "labels.csv")]) == 0
    learn = ["learn", str(out / "labels.csv"), "--images", str(home / "photos"), "--out", str(out / "model")]
    small = [
        "--method",
        "ncm",
        "--image-size",
        "8",
        "--network",
        "ramify.methods.checks:ToyNetwork",
        "--own-code",
    ]
    assert main([*learn, "--taxonomy", str(out / "labels-tree.csv"), *small]) == 0


def test_a_hundred_tasks_go_there_and_back_without_loss(
    project: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    home, tasks = project
    taught(home, tmp_path)
    rows = read_manifest(tmp_path / "labels.csv")
    assert [row.path for row in rows] == [f"shelf {n % 3}/é{n}.png" for n in range(100)]
    brought = [tuple(plain_names([label for _, label in row.labels])) for row in rows]
    assert brought == [PATHS[n % len(PATHS)] for n in range(100)]

    back = tmp_path / "back.json"
    ask = ["predict", str(tmp_path / "model"), str(home / "export.json"), "--images", str(home / "photos")]
    assert main([*ask, "--own-code", "--as", "labelstudio", "--to", str(back)]) == 0
    again = json.loads(back.read_text("utf-8"))
    assert [task | {"predictions": []} for task in again] == tasks  # all that was there is there
    learner = Learner.load(tmp_path / "model", own_code=True)
    files = [home / "photos" / f"shelf {n % 3}/é{n}.png" for n in range(100)]
    answers = learner.predict(files, decode="path")
    for number, task in enumerate(again):
        (prediction,) = task["predictions"]
        (result,) = prediction["result"]
        assert (result["from_name"], result["to_name"], result["type"]) == ("kind", "img", "taxonomy")
        said = [str(label) for label in answers[number].values() if label is not None]
        assert result["value"] == {"taxonomy": [plain_names(said)]}
        assert 0 <= prediction["score"] <= 1

    assert (
        main([*ask, "--own-code", "--as", "labelstudio", "--to", str(back)]) == 0
    )  # the same model: no double
    assert json.loads(back.read_text("utf-8")) == again
    view = ElementTree.parse(tmp_path / "back.xml").getroot()  # calls all by the names of the predictions
    assert view.find("Taxonomy").attrib == {"name": "kind", "toName": "img"}  # type: ignore[union-attr]
    assert view.find("Image").attrib == {"name": "img", "value": "$image"}  # type: ignore[union-attr]


def test_the_configuration_has_the_tree_as_choices(
    project: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    home, _ = project
    taught(home, tmp_path)
    ask = ["predict", str(tmp_path / "model"), str(home / "photos"), "--own-code"]
    assert main([*ask, "--as", "labelstudio", "--to", str(tmp_path / "new.json")]) == 0
    view = ElementTree.parse(tmp_path / "new.xml").getroot()
    (control,) = view.findall("Taxonomy")

    def paths(node: ElementTree.Element, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        below = [(choice, (*above, choice.attrib["value"])) for choice in node.findall("Choice")]
        return {own for choice, path in below for own in (paths(choice, path) or {path})}

    assert paths(control) == set(PATHS)
    tasks = json.loads((tmp_path / "new.json").read_text("utf-8"))
    assert len(tasks) == 100
    assert all(task["predictions"] for task in tasks)
    said = {image_path(task["data"]["image"]) for task in tasks}
    assert said == {str(file) for file in (home / "photos").rglob("*.png")}
    assert {r["from_name"] for t in tasks for p in t["predictions"] for r in p["result"]} == {
        control.attrib["name"]
    }


def test_which_annotation_counts_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = annotated(("a", "b"))
    two["result"][0]["value"]["taxonomy"] = [["a", "b"], ["a", "c"]]
    deeper = annotated(("a",))
    deeper["result"][0]["value"]["taxonomy"] = [["a"], ["a", "b"]]
    old, new = (annotated(("a", x), updated_at=f"2026-0{k}-01") for k, x in ((1, "b"), (2, "c")))
    kept = {
        "1.png": ([old, new], ("a", "c")),  # the latest
        "2.png": ([old | {"ground_truth": True}, new], ("a", "b")),
        "3.png": ([old, new | {"was_cancelled": True}], ("a", "b")),
        "4.png": ([deeper], ("a", "b")),
    }
    others = {
        "5.png": [],
        "6.png": [two],
        "7.png": [new | {"was_cancelled": True}],
        "8.png": [new | {"result": []}],
    }
    given = [({"image": name}, made) for name, (made, _) in kept.items()]
    given += [({"image": name}, made) for name, made in others.items()]
    tasks = [{"data": data, "annotations": made} for data, made in given]
    (tmp_path / "x.json").write_text(json.dumps(tasks), "utf-8")
    assert main(["import", "labelstudio", str(tmp_path / "x.json")]) == 0
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    assert rows == [(name, *path) for name, (_, path) in kept.items()]
    told = capsys.readouterr().err
    for said in (
        "4 labelled images",
        "1 has no annotation",
        "1 was skipped",
        "1 has labels that lie on no one",
    ):
        assert said in told


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not valid JSON"),
        ('{"a": 1}', "holds no list of tasks"),
        ('[{"image": "a.png", "kind": [["a"]]}]', "not as JSON-MIN"),
        ('[{"data": {"a": "x", "b": "y"}, "annotations": []}]', "--field"),
        ('[{"data": {"image": "a.png"}, "annotations": []}]', "has no labelled image; 1 has no annotation"),
    ],
)
def test_what_is_no_export_is_told_in_one_line(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text(content, "utf-8")
    assert main(["import", "labelstudio", str(tmp_path / "x.json")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert main(["import", "labelstudoi", "x.json"]) == 2
    assert "did you mean labelstudio?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("/data/local-files/?d=a%20b/%C3%A9.png", "a b/é.png"),
        ("/data/upload/3/8f2-cat.jpg", "3/8f2-cat.jpg"),
        ("https://example.org/x/a%20b.jpg?token=1", "x/a b.jpg"),
        ("s3://bucket/x/b.jpg", "x/b.jpg"),
        ("x/c.jpg", "x/c.jpg"),
    ],
)
def test_the_image_of_a_task(reference: str, path: str) -> None:
    assert image_path(reference) == path


names = st.sampled_from(["a", "b", "a/b", "a/a", "other"])


@given(st.lists(st.lists(names, min_size=1, max_size=4).map(tuple), min_size=1))
def test_names_stand_once_within_a_level_and_come_back(paths: list[tuple[str, ...]]) -> None:
    try:
        unique = unique_names(paths)
    except RamifyError:  # "a/b" below "a" and "b" below "a/b" would both be "a/a/b"
        assume(False)
    Taxonomy.from_rows(sorted({unique[p] for p in paths if not any(p == q[: len(p)] != q for q in paths)}))
    for path in paths:
        assert tuple(plain_names(unique[path])) == path


def fiftyone_reads(folder: Path) -> dict[str, list[tuple[str, float, dict[str, Any]]]]:
    """As FiftyOne's importer does: images by their path below data/ without its ending."""
    files = {str(f.relative_to(folder / "data").with_suffix("")): f for f in (folder / "data").rglob("*.*")}
    labels = json.loads((folder / "labels.json").read_text("utf-8"))["labels"]
    return {
        str(files[name]): [(one["label"], one["confidence"], one["attributes"]) for one in target]
        for name, target in labels.items()
    }


def test_a_dataset_of_fiftyone_is_written_and_read(
    project: tuple[Path, list[dict[str, Any]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, _ = project
    taught(home, tmp_path)
    (home / "photos" / "shelf 0" / "é0.jpg").write_bytes(
        (home / "photos" / "shelf 0" / "é0.png").read_bytes()
    )
    ask = ["predict", str(tmp_path / "model"), str(home / "photos"), "--own-code"]
    assert main([*ask, "--as", "fiftyone", "--to", str(tmp_path / "fo")]) == 0
    (home / "photos" / "shelf 0" / "é0.jpg").unlink()
    written = fiftyone_reads(tmp_path / "fo")
    assert len(written) == 101  # two files that differ in their ending alone
    assert main(["import", "fiftyone", str(tmp_path / "fo")]) == 0
    rows = read_manifest(tmp_path / "fo" / "labels.csv")
    read = {
        str(tmp_path / "fo" / row.path): [(label, int(level)) for level, label in row.labels] for row in rows
    }
    assert read == {
        name: [(label, about["level"]) for label, _, about in one] for name, one in written.items()
    }
    assert main([*ask, "--as", "fiftyone", "--to", str(tmp_path / "fo")]) == 2
    assert "holds a dataset already" in capsys.readouterr().err


def test_other_forms_of_fiftyone_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.jpg", "b.v2.jpg", "c.jpg"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).write_bytes(b"")
    labels = {"a": 1, "b.v2": "pear", "c": None, "gone": 0}
    (tmp_path / "labels.json").write_text(json.dumps({"classes": ["apple", "plum"], "labels": labels}))
    assert main(["import", "fiftyone", str(tmp_path)]) == 0
    assert [(row.path, row.labels) for row in read_manifest(tmp_path / "labels.csv")] == [
        ("data/a.jpg", (("", "plum"),)),
        ("data/b.v2.jpg", (("", "pear"),)),
    ]
    told = capsys.readouterr().err
    assert "1 has no label" in told
    assert "1 has no image in data" in told
    several = {"a": ["fruit", "plum"], "b.v2": [{"label": "pear", "attributes": {"level": 2}}]}
    (tmp_path / "labels.json").write_text(json.dumps({"classes": None, "labels": several}))
    assert main(["import", "fiftyone", str(tmp_path)]) == 0
    assert [row.labels for row in read_manifest(tmp_path / "labels.csv")] == [
        (("1", "fruit"), ("2", "plum")),
        (("2", "pear"),),
    ]
