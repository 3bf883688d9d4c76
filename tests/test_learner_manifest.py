"""`ramify learn`, `predict` and `describe`: a list of images, also one that grows, and a model on disk."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ramify import Learner
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.learner.folder import ModelFolder
from ramify.learner.manifest import Lesson, teach
from ramify.learner.rows import ClassFolders, Manifest, read_manifest
from ramify.methods.checks import SIZE, Toy, same, weights
from ramify.reports.data import load_run
from ramify.reports.export import record_rows, result_rows
from ramify.taxonomy import Taxonomy
from strategies import uneven_rows

OWN = ["--network", "ramify.methods.checks:ToyNetwork", "--own-code"]
SMALL = [*OWN, "--image-size", str(SIZE), "--memory-size", "24", "--set", "batch_size=8", "--set", "lr=0.01"]
TOY = Toy.stream(80)


@pytest.fixture
def photos(tmp_path):
    """80 images in a folder, and the lines of a manifest for them."""
    lines = ["path,label,level"]
    for i, image in enumerate(TOY.images):
        path = tmp_path / "photos" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
        lines.append(f"{i}.png,{TOY.labels[i]},{TOY.levels[i]}")
    return tmp_path, lines


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def learn(folder, lines, out, *more, name="stream.csv"):
    manifest = write(folder / name, lines)
    return main(
        ["learn", manifest, "--images", str(folder / "photos"), "--out", str(folder / out), *SMALL, *more]
    )


def model(path):
    return Learner.load(path, own_code=True)


def test_a_manifest_in_two_parts_is_learned_as_in_one(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines, "whole") == 0
    assert learn(folder, lines[:34], "parts") == 0
    assert learn(folder, lines, "parts") == 0
    assert learn(folder, lines, "parts") == 0  # nothing new
    whole, parts = model(folder / "whole"), model(folder / "parts")
    assert parts.samples == 80
    assert same(weights(whole._trainer), weights(parts._trainer))
    assert "the model is in" in capsys.readouterr().err
    direct = Learner(
        image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", batch_size=8, lr=0.01
    ).partial_fit(TOY.images, TOY.labels, TOY.levels)
    assert same(weights(whole._trainer), weights(direct._trainer))


def test_accuracy_is_counted_before_learning(photos):
    folder, lines = photos
    assert learn(folder, lines, "model") == 0
    (entry,) = model(folder / "model").notes["learn"]["log"]
    assert entry["samples"] == 80
    assert entry["labels"] == {"1": 2, "2": 4}
    twin, right, asked = (
        Learner(
            image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", batch_size=8, lr=0.01
        ),
        {1: 0, 2: 0},
        {1: 0, 2: 0},
    )
    for start in range(0, 80, 4):  # a stream batch
        part = slice(start, start + 4)
        images, labels, levels = TOY.images[part], TOY.labels[part], TOY.levels[part]
        for i, (label, level) in enumerate(zip(labels, levels, strict=True)):
            if level in twin.levels and label in twin.labels(level):
                asked[level] += 1
                right[level] += twin.predict(images[i : i + 1], decode="heads").labels[level] == [label]
        twin.partial_fit(images, labels, levels)
    assert entry["accuracy"] == {str(h): pytest.approx(right[h] / asked[h]) for h in (1, 2)}


def test_another_manifest_goes_on_and_a_changed_one_is_refused(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines[:21], "model", name="january.csv") == 0
    assert learn(folder, [lines[0], *lines[21:41]], "model", name="february.csv") == 0
    assert model(folder / "model").samples == 40
    assert learn(folder, lines[:26], "model", name="january.csv") == 0
    assert model(folder / "model").samples == 45
    assert learn(folder, [lines[0], *lines[5:30]], "model", name="january.csv") == 2
    assert "have changed" in capsys.readouterr().err
    assert learn(folder, lines, "model", "--memory-size", "25") == 2
    assert "other settings: memory_size is 24, not 25; leave them out" in capsys.readouterr().err
    assert learn(folder, lines, "model", "--method", "er", "--seed", "3") == 2
    told = capsys.readouterr().err
    assert "method is 'canopy', not 'er'" in told
    assert "seed is 0, not 3" in told


def test_reads_on_while_the_file_grows(photos):
    folder, lines = photos
    manifest = folder / "stream.csv"
    write(manifest, lines[:11])
    with manifest.open("a") as file:
        file.write(lines[11][:5])  # a line that is still being written
    learner = Learner(
        image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", batch_size=8
    )
    lesson = Lesson(learner, manifest, folder / "photos")
    end = threading.Event()
    arguments = (lesson, ModelFolder(folder / "model"), True, 60.0, end.is_set, lambda lesson: None)
    thread = threading.Thread(target=teach, args=arguments)
    thread.start()
    wait_for(lambda: learner.samples == 10)
    wait_for(lambda: (folder / "model" / "learner.safetensors").exists())  # up to date, so it saves
    write(manifest, lines[:41])
    wait_for(lambda: learner.samples == 40)
    end.set()
    thread.join()
    assert model(folder / "model").samples == 40


def wait_for(done, seconds=240):
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_signal_stops_after_the_part_and_the_same_command_goes_on(photos, monkeypatch, capsys):
    folder, lines = photos
    monkeypatch.setattr("ramify.learner.manifest.CHUNK", 16)
    step = Lesson.step

    def interrupted(lesson):
        step(lesson)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Lesson, "step", interrupted)
    assert learn(folder, lines, "model") == 128 + signal.SIGTERM
    assert "the same command goes on" in capsys.readouterr().err
    assert model(folder / "model").samples == 16
    monkeypatch.setattr(Lesson, "step", step)
    assert learn(folder, lines, "model") == 0
    assert model(folder / "model").samples == 80


def test_images_that_cannot_be_read_are_passed_over_and_the_exit_code_says_so(photos, caplog, capsys):
    folder, lines = photos
    (folder / "photos" / "3.png").write_bytes(b"no image")
    with caplog.at_level(logging.WARNING, "ramify"):
        assert learn(folder, [*lines[:6], "gone.png,red,1"], "model") == 1
    assert "4 samples learned, 2 waiting for their image; " in capsys.readouterr().err
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "stream.csv line 5 is passed over",
        "stream.csv line 7 is passed over",
    ]
    assert model(folder / "model").samples == 4


def test_a_manifest_sorted_by_label_is_learned_with_a_word(photos, caplog):
    folder, lines = photos
    grouped = sorted(lines[1:], key=lambda line: line.partition(",")[2])
    with caplog.at_level(logging.WARNING, "ramify"):
        assert learn(folder, lines, "mixed") == 0
        assert not caplog.records
        assert learn(folder, lines[:1] + grouped, "sorted") == 0
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "stream.csv is sorted by label"
    ]


def test_a_manifest_that_is_empty_for_a_moment_is_being_written_anew(photos):
    folder, lines = photos
    manifest = folder / "stream.csv"
    write(manifest, lines[:5])
    source = Manifest(manifest, folder / "photos", {"manifests": []})
    manifest.write_text("")
    source.grow()
    assert len(source.rows) == 4
    write(manifest, lines[:9])
    source.grow()
    assert len(source.rows) == 8


def test_an_image_that_comes_after_its_row_is_learned_once_when_it_comes(photos, monkeypatch, caplog):
    folder, lines = photos
    monkeypatch.setattr("ramify.learner.manifest.POLL", 0.02)
    monkeypatch.setattr("ramify.learner.manifest.PATIENCE", 600.0)
    late = {name: (folder / "photos" / name).read_bytes() for name in ("0.png", "3.png", "9.png")}
    for name in late:
        (folder / "photos" / name).unlink()
    (folder / "photos" / "3.png").write_bytes(late["3.png"][:40])  # still being written
    manifest = folder / "stream.csv"
    write(manifest, lines[:2])  # not even the first image is there
    learner = Learner(
        image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", batch_size=8
    )
    lesson = Lesson(learner, manifest, folder / "photos", follow=True)
    end = threading.Event()
    arguments = (lesson, ModelFolder(folder / "model"), True, 60.0, end.is_set, lambda lesson: None)
    thread = threading.Thread(target=teach, args=arguments)
    with caplog.at_level(logging.WARNING, "ramify"):
        thread.start()
        wait_for(lambda: lesson.waiting == [0])
        write(manifest, lines[:11])
        wait_for(lambda: learner.samples == 7)
        (folder / "photos" / "0.png").write_bytes(late["0.png"])
        wait_for(lambda: learner.samples == 8)
        monkeypatch.setattr("ramify.learner.manifest.PATIENCE", 0.0)  # it is over
        wait_for(lambda: len(caplog.records) == 2)
        end.set()
        thread.join()
    assert len(caplog.records) == 2  # each once
    told = caplog.records[0].getMessage()
    assert told.startswith("stream.csv line 5 is passed over: ")
    assert "3.png cannot be used" in told
    assert "image 0" not in told
    for name, code in (("3.png", 1), ("9.png", 0)):
        (folder / "photos" / name).write_bytes(late[name])
        assert learn(folder, lines[:11], "model", "--set", "lr=0.001") == code
        assert learn(folder, lines[:11], "model", "--set", "lr=0.001") == code
    assert model(folder / "model").samples == 10
    (place,) = model(folder / "model").notes["learn"]["manifests"]
    assert place["waiting"] == []


def test_follow_ends_where_no_image_ever_comes(photos, monkeypatch, capsys):
    folder, lines = photos
    monkeypatch.setattr("ramify.learner.manifest.POLL", 0.02)
    monkeypatch.setattr("ramify.learner.manifest.PATIENCE", 0.1)
    assert learn(folder, lines, "model", "--follow", "--images", str(folder)) == 2
    assert "--images says where" in capsys.readouterr().err


def test_manifests_of_one_name_are_told_apart(photos, capsys):
    folder, lines = photos
    for month in ("jan", "feb", "march"):
        (folder / month).mkdir()
    assert learn(folder, lines[:21], "model", name="jan/stream.csv") == 0
    assert learn(folder, [lines[0], *lines[21:41]], "model", name="feb/stream.csv") == 0
    assert model(folder / "model").samples == 40
    assert learn(folder, lines[:21], "model", name="march/moved.csv") == 0  # the same rows elsewhere
    assert model(folder / "model").samples == 40
    assert learn(folder, [lines[0], *lines[5:30]], "model", name="feb/stream.csv") == 2
    assert "rows that were learned already have changed" in capsys.readouterr().err


def test_rows_that_change_while_it_follows_are_refused(photos):
    folder, lines = photos
    write(folder / "stream.csv", lines[:11])
    lesson = Lesson(
        Learner(image_size=SIZE, memory_size=24, network="ramify.methods.checks:ToyNetwork", batch_size=8),
        folder / "stream.csv",
        folder / "photos",
    )
    lesson.step()
    write(folder / "stream.csv", lines[:6])  # half-way through being written anew
    assert not lesson.refresh()
    write(folder / "stream.csv", [lines[0], *lines[3:20]])
    with pytest.raises(RamifyError, match="have changed"):
        lesson.refresh()


def test_class_folders_are_learned_once_each_with_all_their_levels(photos, capsys, monkeypatch):
    folder, _ = photos
    monkeypatch.setattr("ramify.learner.manifest.CHUNK", 16)
    kinds = folder / "kinds"
    for i in range(40):
        place = kinds.joinpath(*TOY.paths[i])
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "photos" / f"{i}.png", place / f"{i}.png")

    def learn_folder(out, *more):
        return main(["learn", str(kinds), "--out", str(folder / out), *SMALL, *more])

    assert learn_folder("model") == 0
    ours = model(folder / "model")
    assert ours.samples == 40
    assert set(ours.labels(1)) == {path[0] for path in TOY.paths[:40]}
    assert set(ours.labels(2)) == {path[1] for path in TOY.paths[:40]}
    shutil.copy(folder / "photos" / "50.png", kinds.joinpath(*TOY.paths[50]) / "50.png")
    (kinds.joinpath(*TOY.paths[0]) / "bad.png").write_bytes(b"none")
    assert learn_folder("model") == 1
    assert model(folder / "model").samples == 41
    shutil.copy(folder / "photos" / "0.png", kinds.joinpath(*TOY.paths[0]) / "bad.png")
    assert learn_folder("model") == 0
    assert learn_folder("model") == 0
    assert model(folder / "model").samples == 42
    step = Lesson.step

    def interrupted(lesson):
        step(lesson)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Lesson, "step", interrupted)
    assert learn_folder("parts") == 128 + signal.SIGTERM
    assert model(folder / "parts").samples == 16
    monkeypatch.setattr(Lesson, "step", step)
    assert learn_folder("parts") == 0
    assert learn_folder("whole") == 0
    whole, parts = model(folder / "whole"), model(folder / "parts")
    assert same(weights(whole._trainer), weights(parts._trainer))
    assert learn_folder("model", "--images", str(folder)) == 2
    assert "--images goes with a CSV" in capsys.readouterr().err
    (folder / "empty").mkdir()
    assert main(["learn", str(folder / "empty"), "--out", str(folder / "none"), *SMALL]) == 2
    assert "holds no images" in capsys.readouterr().err


def test_a_folder_name_under_two_parents_is_refused(tmp_path, capsys):
    root, model = tmp_path / "twice", str(tmp_path / "model")
    for name in ("fruit/apple", "fruit/other", "tools/other"):
        (root / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(root / name / "1.png")
    assert main(["learn", str(root), "--out", model, "--image-size", "8"]) == 2
    assert "'other' at level 2 has two parents, 'fruit' and 'tools'" in " ".join(
        capsys.readouterr().err.split()
    )
    (root / "tools/other").rename(root / "tools/misc")
    assert main(["learn", str(root), "--out", model, "--image-size", "8"]) == 0


def test_flat_class_folders_have_the_labels_that_the_tree_has_above_them(photos, capsys):
    folder, _ = photos
    for way, parts in (("nested", slice(0, 2)), ("flat", slice(1, 2))):
        for i in range(60):
            place = folder.joinpath(way, *TOY.paths[i][parts])
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "photos" / f"{i}.png", place / f"{i}.png")
    tree = write(folder / "tree.csv", ["level1,level2", *sorted({",".join(path) for path in TOY.paths})])
    for way in ("nested", "flat"):
        command = ["learn", str(folder / way), "--taxonomy", tree, "--out", str(folder / f"of {way}"), *SMALL]
        command += ["--method", "er"]
        assert main(command) == 0
    flat, nested = model(folder / "of flat"), model(folder / "of nested")
    assert flat.levels == nested.levels == (1, 2)

    def taught(learner):
        return {Path(sample.id).name: sample.labels for sample in learner.stored()}

    assert taught(flat)
    assert all(
        labels == dict(enumerate(TOY.paths[int(name[:-4])], 1)) for name, labels in taught(flat).items()
    )
    capsys.readouterr()
    assert main(command) == 0
    assert "flat: nothing new\n" in capsys.readouterr().err
    assert main(["describe", str(folder / "of flat"), "--json", "--own-code"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert sum(levels["1"]["stored"]) == sum(levels["2"]["stored"]) == 24


@settings(max_examples=50)
@given(uneven_rows(), st.data())
def test_a_part_of_a_path_becomes_the_path(tmp_path_factory, rows, data):
    """Whichever folders on the way down to a leaf are there, the leaf's own among them."""
    tree = Taxonomy.from_rows([tuple(f"{h} {name}" for h, name in enumerate(row, 1)) for row in rows])
    path = tree.path(data.draw(st.integers(0, tree.leaves - 1)))
    kept = [name for name in path[:-1] if data.draw(st.booleans())]
    root = tmp_path_factory.mktemp("part")
    place = root.joinpath(*kept, path[-1])
    place.mkdir(parents=True)
    (place / "1.png").touch()
    (row,) = ClassFolders(root, 0, tree, {}).rows
    assert row.labels == tuple((str(h), name) for h, name in enumerate(path, 1))


def test_a_label_that_looks_like_another_is_told_once(photos, caplog):
    folder, lines = photos
    rows = [lines[0], *lines[1:5], "5.png,Red,1", "6.png,RED,1", "7.png,Red,1", "8.png,RED,1"]
    rows = [row.replace(",blue,", ",red,") for row in rows]
    with caplog.at_level(logging.WARNING, "ramify"):
        assert learn(folder, rows, "model") == 0
        assert learn(folder, [*rows, "9.png,Red,1"], "model") == 0
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(":")[0] for text in told] == [
        "label 'Red' at level 1 is new beside 'red'",
        "label 'RED' at level 1 is new beside 'red'",
    ]
    assert set(model(folder / "model").labels(1)) == {"red", "Red", "RED"}


def test_a_label_that_another_level_has_is_told_once(photos, caplog):
    folder, lines = photos
    with caplog.at_level(logging.WARNING, "ramify"):
        assert learn(folder, [*lines[:5], "5.png,red,2", "6.png,red,2"], "model") == 0
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == ["label 'red' is new at level 2, and level 1 has it"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "ramify"):  # on purpose, and numbers are often used again
        for names in (("red", "red"), (0, 0)):
            ours = Learner("naive", image_size=8, network={"name": "resnet18", "width": 0.05})
            ours.partial_fit(np.zeros((1, 3, 8, 8), np.uint8), [dict(enumerate(names, 1))])
    assert not caplog.records


def test_a_model_is_not_written_among_the_images_and_one_that_goes_on_is_told(photos, capsys):
    folder, lines = photos
    assert main(["learn", str(folder / "photos"), "--out", str(folder / "photos" / ".")]) == 2
    assert "is where the images are; choose another folder for the model" in capsys.readouterr().err
    assert learn(folder, lines[:9], "model") == 0
    assert "goes on" not in capsys.readouterr().err
    assert learn(folder, lines, "model") == 0
    assert "goes on: canopy, 8 samples so far" in capsys.readouterr().err


def test_images_in_a_wrong_place_are_not_passed_over(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines, "model", "--images", str(folder)) == 2
    assert "--images says where" in capsys.readouterr().err
    assert not (folder / "model" / "learner.safetensors").exists()
    assert learn(folder, lines, "model") == 0
    assert model(folder / "model").samples == 80


def test_tells_where_it_is(photos, capsys, monkeypatch):
    folder, lines = photos
    monkeypatch.setattr("ramify.cli.learn.TELL_EVERY", 0.0)
    monkeypatch.setattr("ramify.learner.manifest.CHUNK", 20)
    assert learn(folder, lines, "model") == 0
    told = capsys.readouterr().err
    assert "stream.csv: 80 rows\n20 of 80 rows\n40 of 80 rows\n" in told
    assert "80 of 80 rows\n80 samples  right before learning: level 1" in told
    assert learn(folder, lines, "model") == 0
    assert "80 rows, 80 of them learned before" in capsys.readouterr().err
    assert learn(folder, lines[:1], "other", name="empty.csv") == 0
    assert "no model yet" in capsys.readouterr().err


def test_follows_until_it_is_told_to_stop(photos, capsys, monkeypatch):
    folder, lines = photos
    monkeypatch.setattr("ramify.learner.manifest.CHUNK", 8)
    refresh = Lesson.refresh

    def interrupted(lesson):
        if lesson.learned == len(lines) - 1:
            os.kill(os.getpid(), signal.SIGINT)
        return refresh(lesson)

    monkeypatch.setattr(Lesson, "refresh", interrupted)
    assert learn(folder, lines, "model", "--follow") == 0
    told = capsys.readouterr().err
    assert "80 of 80 rows; waiting for more, Ctrl-C ends" in told
    assert "80 samples learned; the model is in" in told
    assert main(["describe", str(folder / "model"), "--own-code"]) == 0
    assert "Right before learning" in capsys.readouterr().out  # the open entry too


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("path,level\n0.png,1\n", "no column label"),
        ("path;label;level\n0.png;red;1\n", "the columns are parted by semicolons; save it with commas"),
        ("path,label,level\n0.png,red,x\n", "line 2 (0.png): level 'x'"),
        ("path,label,level\n0.png,red,0\n", "line 2 (0.png): level 0"),
        ("path,level1,level2\n0.png,,\n", "line 2: no label at any level"),
        ("path,label\n0.png,red\n", "line 2 (0.png): level is missing"),
        ("path,label,level\n0.png,,1\n", "line 2 (0.png): label ''"),
        ("", "is empty"),
    ],
)
def test_refuses_a_wrong_manifest_in_one_line(photos, text, expected, capsys):
    folder, _ = photos
    (folder / "wrong.csv").write_text(text)
    images = ["--images", str(folder / "photos")]
    assert main(["learn", str(folder / "wrong.csv"), *images, "--out", str(folder / "model"), *SMALL]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert expected in error


def test_a_taxonomy_gives_the_levels(photos):
    folder, lines = photos
    write(folder / "tree.csv", ["level1,level2", *sorted({",".join(path) for path in TOY.paths})])
    rows = [line.rsplit(",", 1)[0] for line in lines]
    assert learn(folder, rows[:41], "model", "--taxonomy", str(folder / "tree.csv")) == 0
    assert model(folder / "model").levels == (1,)
    assert learn(folder, rows, "model") == 0
    assert model(folder / "model").levels == (1, 2)
    assert read_manifest(folder / "stream.csv")[0].labels[0][0] == ""


def test_fine_labels_of_a_manifest_have_the_labels_that_the_tree_has_above_them(photos, capsys):
    folder, _ = photos
    write(folder / "tree.csv", ["level1,level2", *sorted({",".join(path) for path in TOY.paths})])
    rows = ["path,label", *(f"{i}.png,{leaf}" for i, (_, leaf) in enumerate(TOY.paths))]
    assert learn(folder, rows, "model", "--taxonomy", str(folder / "tree.csv")) == 0
    ours = model(folder / "model")
    assert ours.levels == (1, 2)
    assert {tuple(sample.labels.values()) for sample in ours.stored()} <= {tuple(path) for path in TOY.paths}
    capsys.readouterr()
    assert main(["predict", str(folder / "model"), str(folder / "photos" / "0.png"), "--own-code"]) == 0
    said = [part.split()[0] for part in capsys.readouterr().out.partition(": ")[2].split(" > ")]
    assert len(said) == 2
    levels = ["path,level1,level2", *(f"{i}.png,{a},{b}" for i, (a, b) in enumerate(TOY.paths))]
    assert learn(folder, levels, "alike", name="levels.csv") == 0
    assert same(weights(ours._trainer), weights(model(folder / "alike")._trainer))


def test_who_is_never_sure_enough_says_why(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines, "model") == 0
    capsys.readouterr()
    ask = ["predict", str(folder / "model"), str(folder / "photos" / "0.png"), "--own-code"]
    code = main([*ask, "--confidence", "0.9999"])
    told = capsys.readouterr().err.splitlines()[-1]
    if code == 2:  # no level has enough answers at all
        assert "answers in the log" in told
    else:
        assert "no answer is as sure for 1 of 1 image: level 1 " in told
        assert "sure (right on" in told


def test_a_tree_without_a_class_that_was_learned_is_refused(photos, capsys):
    folder, lines = photos
    paths = sorted({tuple(path) for path in TOY.paths})
    tree = str(folder / "tree.csv")
    write(folder / "tree.csv", ["level1,level2", *map(",".join, paths)])
    assert learn(folder, lines[:61], "model", "--taxonomy", tree) == 0
    before = (folder / "model" / "learner.safetensors").read_bytes()
    learned = {label for label, level in zip(TOY.labels[:60], TOY.levels[:60], strict=True) if level == 2}
    gone = next(leaf for _, leaf in paths if leaf in learned)
    renamed = [(a, f"new {b}" if b == gone else b) for a, b in paths]
    capsys.readouterr()
    for changed in (renamed, [path for path in paths if path[1] != gone]):
        write(folder / "tree.csv", ["level1,level2", *map(",".join, changed)])
        assert learn(folder, lines, "model", "--taxonomy", tree) == 2
        told = capsys.readouterr().err.splitlines()[-1]
        assert f"lacks 1 of the classes that the model has learned: {gone!r} (level 2); put" in told
        assert (folder / "model" / "learner.safetensors").read_bytes() == before
    grown = [*paths, (paths[0][0], "quite new")]
    write(folder / "tree.csv", ["level1,level2", *map(",".join, grown)])
    assert learn(folder, lines, "model", "--taxonomy", tree) == 0
    ours = model(folder / "model")
    assert ours.predict(TOY.images[:3], consistent=True).levels == (1, 2)
    with pytest.raises(RamifyError, match="lacks"):
        ours.taxonomy = Taxonomy.from_rows([("a",), ("b",)])
    ours.taxonomy = None
    ours.rename(2, gone, f"new {gone}")  # what the message says may be done
    ours.taxonomy = Taxonomy.from_rows(renamed)


def test_folders_that_cannot_be_called_as_in_the_tree_are_found_all_the_same(photos, capsys):
    """As a dataset finds them: `Ram C/V` is no name of a folder, and disks differ in what case is."""
    folder, _ = photos
    for place, i in ((("RED", "ram c_v"), 0), (("blue", "other"), 2)):
        folder.joinpath("cars", *place).mkdir(parents=True)
        shutil.copy(folder / "photos" / f"{i}.png", folder.joinpath("cars", *place))
    tree = write(folder / "cars.csv", ["level1,level2", "red,Ram C/V", "blue,other"])
    command = ["learn", str(folder / "cars"), "--taxonomy", tree, "--out", str(folder / "of cars"), *SMALL]
    assert main([*command, "--method", "er"]) == 0, capsys.readouterr().err
    stored = {tuple(sample.labels.values()) for sample in model(folder / "of cars").stored()}
    assert {tuple(sorted(labels)) for labels in stored} == {("Ram C/V", "red"), ("blue", "other")}


def test_labels_off_the_path_name_their_image(photos, capsys):
    folder, _ = photos
    (folder / "cars" / "blue" / "van").mkdir(parents=True)
    shutil.copy(folder / "photos" / "0.png", folder / "cars" / "blue" / "van")
    tree = write(folder / "cars.csv", ["level1,level2", "red,van", "blue,other"])
    command = ["learn", str(folder / "cars"), "--taxonomy", tree, "--out", str(folder / "of cars"), *SMALL]
    assert main(command) == 2
    told = capsys.readouterr().err.splitlines()[-1].replace("\\", "/")
    assert "van/0.png: an image has the labels 'blue' (level 1) and 'van' (level 2)" in told.replace(
        "\\", "/"
    )


def test_predict_and_describe(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines, "model") == 0
    ours, path, asked = model(folder / "model"), str(folder / "model"), str(folder / "photos" / "7.png")
    answer = ours.predict([asked])
    capsys.readouterr()
    assert main(["predict", path, asked, "--own-code", "--decode", "heads"]) == 0
    assert capsys.readouterr().out.startswith(f"{asked}: level 1: {answer.labels[1][0]} ")
    heads = ["--json", "--level", "2", "--own-code", "--decode", "heads"]
    assert main(["predict", path, asked, asked, *heads]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["image"] for entry in found] == [asked, asked]
    assert found[0]["levels"]["2"]["label"] == answer.labels[2][0]
    assert found[0]["levels"]["2"]["probability"] == pytest.approx(answer.probabilities[2][0], abs=1e-4)
    assert list(found[0]["levels"]) == ["2"]
    assert main(["predict", path, asked, "--level", "7", "--own-code"]) == 2
    assert "knows no level 7" in capsys.readouterr().err
    for way in ("--consistent", "--crm"):
        assert main(["predict", path, asked, way, "--own-code"]) == 0
    capsys.readouterr()
    assert main(["describe", path, "--own-code"]) == 0
    told = capsys.readouterr().out
    assert "80 samples" in told
    assert all(name in told for path in TOY.paths for name in path)
    assert main(["describe", str(folder), "--own-code"]) == 2
    assert main(["describe", path]) == 2
    assert "--own-code" in capsys.readouterr().err


@pytest.fixture
def asked(photos):
    """A model and its photos, one of which is bad."""
    folder, lines = photos
    assert learn(folder, lines, "model") == 0
    (folder / "photos" / "bad.png").write_bytes(b"no image")
    return folder


def predict(folder, *arguments):
    return main(["predict", str(folder / "model"), *map(str, arguments), "--own-code"])


def test_the_command_answers_with_one_path_unless_told(asked, capsys):
    files = [str(asked / "photos" / f"{i}.png") for i in range(80)]
    ours = model(asked / "model")
    told = {}
    for way in (None, "path", "heads", "crm", "up", "joint"):
        capsys.readouterr()
        assert predict(asked, *files, *([] if way is None else ["--decode", way])) == 0
        told[way] = capsys.readouterr().out.splitlines()
        answer = ours.predict(files, decode=way or "path")
        for i, line in enumerate(told[way]):
            labels = [f"{x} {answer.probabilities[h][i]:.2f}" for h, x in answer[i].items() if x is not None]
            apart = " | ".join(f"level {h}: {text}" for h, text in enumerate(labels, 1))
            expected = " > ".join(labels) if way in (None, "path", "up") else apart
            assert line == f"{files[i]}: {expected}"
    assert told[None] == told["path"]
    for flag, way in (("--consistent", "path"), ("--crm", "crm")):
        assert predict(asked, *files, flag) == 0
        assert capsys.readouterr().out.splitlines() == told[way]
    assert predict(asked, files[0], "--crm", "--decode", "path") == 2
    assert "not allowed with" in capsys.readouterr().err


def test_images_by_folder_list_and_standard_input(asked, capsys, monkeypatch):
    monkeypatch.setattr("ramify.learner.asking.CHUNK", 16)
    photos = asked / "photos"
    good = sorted(str(path) for path in photos.iterdir() if path.name != "bad.png")
    capsys.readouterr()
    assert predict(asked, photos) == 1  # for bad.png, and all others are answered
    told = capsys.readouterr()
    assert [line.split(": ")[0] for line in told.out.splitlines()] == good
    assert f"{photos / 'bad.png'}: cannot be used: not an image" in told.err
    assert "1 of 81 images cannot be used; the others are answered" in told.err
    write(asked / "list.csv", ["id,path", "1,3.png", "2,gone.png", "3,4.png"])
    assert predict(asked, asked / "list.csv", "--images", photos) == 1
    told = capsys.readouterr()
    assert [line.split(": ")[0] for line in told.out.splitlines()] == ["3.png", "4.png"]
    assert "gone.png: cannot be used: No such file" in told.err
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(good[:5]) + "\n\n"))
    assert predict(asked, "-") == 0
    assert [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()] == good[:5]
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    for asking, expected in (("-", "no images were given"), (asked / "model", "holds no images")):
        assert predict(asked, asking) == 2
        assert expected in capsys.readouterr().err
    write(asked / "list.csv", ["id,file", "1,3.png"])
    assert predict(asked, asked / "list.csv") == 2
    assert "expected path" in capsys.readouterr().err


def test_answers_go_to_files(asked, capsys):
    names = [asked / "photos" / name for name in ("3.png", "bad.png", "4.png")]
    ours = model(asked / "model")
    answer = ours.predict([names[0], names[2]], decode="path")
    for kind in ("csv", "json", "jsonl", "parquet"):
        out = asked / f"answers.{kind}"
        assert predict(asked, *names, "--to", out) == 1
        told = capsys.readouterr()
        assert (told.out, f"{out} has 2 answers" in told.err) == ("", True)
        if kind in ("csv", "parquet"):
            if kind == "csv":
                rows = list(csv.DictReader(out.read_text().splitlines()))
            else:
                rows = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
            columns = [f"{name}{h}" for h in (1, 2) for name in ("level", "probability", "confidence")]
            assert list(rows[0]) == ["image", *columns, "new", "error"]
            assert [row["image"] for row in rows] == list(map(str, names))
            assert [rows[0]["level1"], rows[2]["level1"]] == answer.labels[1]
            assert float(rows[0]["probability1"]) == pytest.approx(answer.probabilities[1][0], abs=1e-4)
            assert [bool(row["error"]) for row in rows] == [False, True, False]
            assert not rows[1]["level1"]
        else:
            text = out.read_text()
            found = json.loads(text) if kind == "json" else list(map(json.loads, text.splitlines()))
            assert [entry["image"] for entry in found] == list(map(str, names))
            assert found[0]["levels"]["1"]["label"] == answer.labels[1][0]
            assert found[1] == {"image": str(names[1]), "error": "not an image of a known format"}
    assert predict(asked, names[0], "--to", asked / "answers.txt") == 2
    assert "choose one of them" in capsys.readouterr().err


def test_the_most_probable_labels(asked, capsys):
    name, ours = asked / "photos" / "3.png", model(asked / "model")
    capsys.readouterr()
    assert predict(asked, name, "--top", "3", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    for level in ours.levels:
        values, labels = ours.predict_proba([name], level)[0], ours.labels(level)
        best = sorted(zip(values, labels, strict=True), reverse=True)[:3]
        assert [told["label"] for told in found["levels"][str(level)]["top"]] == [x for _, x in best]
    assert predict(asked, name, "--top", "2") == 0
    assert re.fullmatch(r".*: level 1: \w+ [\d.]+, \w+ [\d.]+ \| level 2: .*\n", capsys.readouterr().out)
    assert predict(asked, name, "--top", "9", "--to", asked / "top.csv") == 0
    (row,) = csv.DictReader((asked / "top.csv").read_text().splitlines())
    assert row["level1.top1"] == found["levels"]["1"]["top"][0]["label"]
    assert predict(asked, name, "--top", "0") == 2


def test_the_network_of_a_run_is_taught_on(photos):
    folder, lines = photos
    run = str(folder / "run")
    tiny = ["--limit", "24", "--eval-images", "10", "--image-size", str(SIZE), "--network.width", "0.1"]
    assert main(["run", "--dataset", "garden", "--preset", "quick", *tiny, "--out", run]) == 0
    before = Learner.load(run)
    rows = [lines[0], *(f"{i}.png,daisies,3" for i in range(4))]
    manifest = write(folder / "stream.csv", rows)
    assert main(["learn", manifest, "--images", str(folder / "photos"), "--out", run]) == 0
    after = Learner.load(run)
    assert after.samples == 4
    assert after.labels(1) == before.labels(1)
    assert after.labels(3) == ("daisies",)


def test_a_run_says_which_levels_of_the_tree_it_uses(photos, capsys):
    folder, _ = photos
    tiny = ["--limit", "24", "--eval-images", "10", "--image-size", str(SIZE), "--network.width", "0.05"]
    asked = str(folder / "photos" / "0.png")
    for setup, more, expected, deeper in (
        ("single-depth", [], "levels 3, 4 of the tree's 4 are used, and counted as 1, 2", {"1": 3, "2": 4}),
        ("single-depth", ["--levels", "1", "2"], "levels 1, 2 of the tree's 4 are used", {}),
        ("multiple-depth", [], None, {}),
    ):
        run = str(folder / f"run-{setup}{len(more)}")
        assert main(["run", "--setup", setup, "--method", "er", *tiny, *more, "--out", run]) == 0
        told = [capsys.readouterr().err.splitlines()[0].removeprefix("er: ")]
        assert main(["predict", run, asked]) == 0
        told.append("".join(capsys.readouterr().err.splitlines()[:1]))
        assert main(["describe", run]) == 0
        page = capsys.readouterr().out, (folder / run / "report.html").read_text()
        if expected is None:
            assert all("of the tree's" not in text for text in (*told, *page))
        else:
            assert told == [expected] * 2
            assert expected in page[0]
            assert expected[1:].replace("'", "&#x27;") in page[1] or expected[1:] in page[1]
        assert ("level 1 (tree level 3" in page[1]) == bool(deeper)
        records = (folder / run / "records.jsonl").read_text().splitlines()
        assert all(json.loads(record).get("tree_levels", {}) == deeper for record in records)
        assert json.loads((folder / run / "result.json").read_text()).get("tree_levels", {}) == deeper
        assert load_run(run).tree.level_name(1) == ("level 1 (tree level 3)" if deeper else "level 1")
        for row in (*record_rows([load_run(run)]), *result_rows([load_run(run)])):
            assert row["tree_level"] == deeper.get(str(row["level"]), row["level"])


def test_answers_of_a_run_tell_the_levels_of_the_dataset_s_tree(photos, capsys):
    folder, _ = photos
    run, asked = str(folder / "run"), str(folder / "photos" / "0.png")
    tiny = ["--eval-images", "10", "--image-size", str(SIZE), "--network.width", "0.05", "--per-class", "3"]
    assert main(["run", "--setup", "single-depth", "--method", "er", *tiny, "--out", run]) == 0
    learner = Learner.load(run)
    learner.partial_fit([asked], ["moon daisy"], 2)
    learner.save(folder / "on")
    for model in (run, str(folder / "on")):
        capsys.readouterr()
        assert main(["predict", model, asked, "--decode", "heads"]) == 0
        assert re.search(
            r": level 1 \(tree level 3\): .* \| level 2 \(tree level 4\): ", capsys.readouterr().out
        )
        assert main(["predict", model, asked, "--json"]) == 0
        levels = json.loads(capsys.readouterr().out)[0]["levels"]
        assert {h: told["tree_level"] for h, told in levels.items()} == {"1": 3, "2": 4}
        assert main(["predict", model, asked, "--to", str(folder / "a.csv")]) == 0
        (row,) = csv.DictReader((folder / "a.csv").read_text().splitlines())
        assert (row["tree_level1"], row["tree_level2"]) == ("3", "4")
        assert main(["describe", model, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["tree_levels"] == {"1": 3, "2": 4}
    assert main(["describe", str(folder / "on")]) == 0
    assert re.search(r"^1 \(tree level 3\) +12 ", capsys.readouterr().out, re.M)


def test_settings_on_the_command_line(photos, capsys):
    folder, lines = photos
    assert learn(folder, lines[:3], "model", "--set", "augment.flip=false", "--method", "er") == 0
    assert not model(folder / "model").settings.augment.flip
    assert learn(folder, lines[:3], "other", "--set", "flip") == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_setting_of_the_network_leaves_its_name_alone(photos):
    folder, lines = photos
    manifest = write(folder / "stream.csv", lines[:3])
    small = ["--image-size", str(SIZE), "--memory-size", "4", "--network", "resnet34"]
    width = ["--set", "network.width=0.02", "--out", str(folder / "model")]
    assert main(["learn", manifest, "--images", str(folder / "photos"), *small, *width]) == 0
    network = Learner.load(folder / "model").settings.network
    assert (network.name, network.width, network.stem) == ("resnet34", 0.02, "imagenet")


@pytest.mark.parametrize("every", ["0", "1e9"])
def test_a_folder_that_is_deleted_meanwhile_is_named_and_not_made_again(photos, monkeypatch, capsys, every):
    folder, lines = photos
    monkeypatch.setattr("ramify.learner.manifest.CHUNK", 16)
    step = Lesson.step

    def delete(lesson):
        step(lesson)
        if lesson.learned == 32:
            shutil.rmtree(folder / "model")

    monkeypatch.setattr(Lesson, "step", delete)
    assert learn(folder, lines, "model", "--save-every", every) == 2
    assert "was removed or moved while the model was taught" in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "model").exists()
