"""The server behind its doors: the journal, exactly-once learning, answers meanwhile, limits, who may ask."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ramify
from ramify.cli import main
from ramify.errors import RamifyError
from ramify.learner.folder import ModelFolder
from ramify.learner.replica import Replica
from ramify.serve.asked import least_sure
from ramify.serve.commands import Taught, command, grown
from ramify.serve.journal import Journal, JournalEntry
from ramify.serve.limits import Limits, RateLimit
from ramify.serve.teaching import Full, Teaching
from ramify.taxonomy import Taxonomy
from serving import SIZE, SMALL, Process, ask, begun, free_port, image, labels, query, reference, same

pytest.importorskip("uvicorn", reason="the server needs the extra `serve`")

from ramify.reports.live import make_server
from ramify.serve.app import make_app
from ramify.serve.service import Service

# ---- the journal

ENTRIES = st.lists(
    st.builds(
        JournalEntry, st.dictionaries(st.text(max_size=5), st.integers(), max_size=2), st.binary(max_size=40)
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40)
@given(ENTRIES, st.data())
def test_whatever_byte_a_kill_stops_at_the_whole_entries_before_it_are_read(
    tmp_path_factory: pytest.TempPathFactory, entries: list[JournalEntry], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    for entry in entries:
        journal.append([entry])
    journal.close()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    ends = np.cumsum([len(entry.packed(n)) for n, entry in enumerate(entries, 1)])
    cut = data.draw(st.integers(0, len(whole)))
    garbage = data.draw(st.binary(max_size=8))  # what a full disk or a crash may leave
    path.write_bytes(whole[:cut] + (garbage if cut in (0, *ends.tolist()) else b""))
    kept = int((ends <= cut).sum())
    again = Journal(folder)
    assert list(again.read(0)) == list(enumerate(entries[:kept], 1))
    assert again.append([JournalEntry({"next": 1})]) == [kept + 1]
    again.close()
    assert [number for number, _ in Journal(folder).read(0)] == list(range(1, kept + 2))


@settings(max_examples=40)
@given(ENTRIES, st.data())
def test_a_damaged_byte_before_a_whole_entry_is_told_not_cut_off(
    tmp_path_factory: pytest.TempPathFactory, entries: list[JournalEntry], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    journal.append([*entries, JournalEntry({"last": True})])
    journal.close()
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    before = len(content) - len(JournalEntry({"last": True}).packed(1))
    content[data.draw(st.integers(0, before - 1))] ^= 0x41
    path.write_bytes(content)
    with pytest.raises(RamifyError, match=r"damaged at byte \d+"):
        Journal(folder)


def test_a_journal_forgets_whole_files_that_the_model_has(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append([JournalEntry({"a": 1}), JournalEntry({"a": 2})])
    journal.trim(1)  # the second is still needed
    journal.append([JournalEntry({"a": 3})])
    assert [n for n, _ in journal.read(1)] == [2, 3]
    journal.trim(2)
    assert [n for n, _ in journal.read(0)] == [3]
    journal.trim(3)
    assert not list(tmp_path.iterdir())
    journal = Journal(tmp_path, last=3)
    assert journal.append([JournalEntry({})]) == [4]
    journal.close()
    with pytest.raises(RamifyError, match=r"begins with entry 4, and the model has what came up to 1"):
        Journal(tmp_path, last=1)


def test_a_full_disk_leaves_no_half_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    journal.append([JournalEntry({"a": 1})])

    def full(file: Any, data: bytes) -> None:
        file.write(data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ramify.serve.journal._write", full)
        with pytest.raises(RamifyError, match="No space left"):
            journal.append([JournalEntry({"a": 2})])
    assert journal.append([JournalEntry({"a": 3})]) == [2]
    journal.close()
    assert [entry.about["a"] for _, entry in Journal(tmp_path).read(0)] == [1, 3]


# ---- teaching


def taught(number: int, key: str | None = None) -> Taught:
    pixels = np.random.default_rng(number).integers(0, 256, (3, SIZE, SIZE), np.uint8)
    return Taught(pixels, tuple(sorted(labels(number).items())), key)


def learner() -> ramify.Learner:
    return ramify.Learner("pl-fms", device="cpu", **SMALL)


def finish(teaching: Teaching) -> None:
    end = time.monotonic() + 240
    while teaching.waiting and time.monotonic() < end:
        time.sleep(0.005)
    teaching.close()


def test_a_command_is_the_same_after_the_journal() -> None:
    before = taught(3, "a key")
    after = command(before.entry(), SIZE)
    assert isinstance(after, Taught)
    assert (after.labels, after.key) == (before.labels, "a key")
    assert np.array_equal(after.pixels, before.pixels)
    with pytest.raises(RamifyError, match="another model's"):
        command(before.entry(), SIZE + 1)


def test_what_is_learned_is_what_the_journal_says_however_often_it_was_asked_saved_and_stopped(
    tmp_path: Path,
) -> None:
    folder, count = ModelFolder(tmp_path), 40
    with folder.locked():
        own = learner()
        for start in range(0, count, 10):
            teaching = Teaching(own, folder, save_every=0.01, idle=None)
            teaching.start()
            for number in range(start, start + 10):
                teaching.accept(taught(number, f"k{number}"))[0].result(240)
                if teaching.replica.now.levels:
                    teaching.replica.now.predict(np.zeros((1, 3, SIZE, SIZE), np.uint8), decode="path")
            teaching.accept(taught(start, f"k{start}"))[0].result(240)  # sent again
            teaching.close()  # with some of them still waiting
            if own.samples:  # else it was closed before it had begun
                own = ramify.Learner.load(tmp_path, device="cpu")
        last = Teaching(own, folder, idle=None)
        last.start()
        assert last.accept(taught(5, "k5"))[0].result(240).again
        finish(last)
        assert not list((tmp_path / "journal").iterdir())
    plain = learner()
    for number in range(count):
        plain.partial_fit(taught(number).pixels[None], [labels(number)])
    assert own.samples == count
    assert same(own, plain)


def test_samples_that_wait_for_their_batch_are_trained_on_when_nothing_comes_and_that_is_repeatable(
    tmp_path: Path,
) -> None:
    folder = ModelFolder(tmp_path / "one")
    with folder.locked():
        teaching = Teaching(learner(), folder, idle=0.05)
        teaching.start()
        for number in range(3):
            teaching.accept(taught(number))
        end = time.monotonic() + 240
        while teaching.learner.updates < 3 and time.monotonic() < end:
            time.sleep(0.01)
        finish(teaching)
    plain = learner()
    for number in range(3):
        plain.partial_fit(taught(number).pixels[None], [labels(number)])
    assert plain.updates == 0  # they wait for a batch of eight
    plain.flush()
    assert same(teaching.learner, plain)


def test_the_queue_has_an_end_and_a_bad_label_is_refused_before_the_journal(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    with folder.locked():
        teaching = Teaching(learner(), folder, most=2, idle=None)  # not started: nothing leaves the queue
        for number in range(2):
            teaching.accept(taught(number))
        with pytest.raises(Full, match="2 samples in the queue"):
            teaching.accept(taught(2))
        bad = Taught(taught(1).pixels, ((1, " fruit"),))
        with pytest.raises(RamifyError, match="spaces at its ends"):
            teaching.accept(bad)
        teaching.start()
        finish(teaching)
        assert teaching.learner.samples == 2


def test_a_full_disk_at_a_save_is_told_and_the_journal_keeps_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> None:
        raise RamifyError("no space")

    folder = ModelFolder(tmp_path)
    with folder.locked():
        teaching = Teaching(learner(), folder, save_every=0.01, idle=None)
        with monkeypatch.context() as patch:
            patch.setattr("ramify.learner.saving.save", no_space)
            teaching.start()
            teaching.accept(taught(0))[1].result(240)
            end = time.monotonic() + 240
            while teaching.save_error is None and time.monotonic() < end:
                time.sleep(0.01)
            assert teaching.save_error == "no space"
            with pytest.raises(RamifyError, match="no space"):
                teaching.close()
        again = Teaching(learner(), folder, idle=None)
        again.start()
        finish(again)
        assert again.learner.samples == 1


# ---- answering


def test_a_replica_answers_as_the_learner_did_and_asking_it_changes_nothing() -> None:
    own = learner()
    images = np.stack([taught(n).pixels for n in range(24)])
    own.partial_fit(images, [dict([*labels(n).items()][:1]) for n in range(24)])
    replica, before = Replica(own), own._trainer.state()
    for way in ("heads", "path", "joint"):
        one, other = (asked.predict(images, decode=way) for asked in (own, replica.now))  # type: ignore[arg-type]
        assert one.labels == other.labels
        for level in (1, 2):
            assert np.array_equal(one.probabilities[level], other.probabilities[level], equal_nan=True)
    first = replica.now
    own.partial_fit(images[:8], [{1: "toy", 2: "ball"}] * 8)
    assert replica.now is first
    assert 1 in first.levels
    assert "toy" not in first.labels(1)
    replica.refresh()
    assert "toy" in replica.now.labels(1)
    ties = replica.now._trainer.ties()
    classes = replica.now._trainer.classes
    assert ties.parents[classes.find(2, "ball")] == classes.find(1, "toy")  # told with the samples
    assert before["samples"] == 24
    with pytest.raises(RamifyError, match="gdumb trains when it is asked"):
        Replica(ramify.Learner("gdumb", **SMALL))


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12),
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
)
def test_what_to_label_next_is_unsure_and_unlike_what_was_chosen(
    margins: list[float], seed: int, count: int
) -> None:
    features = np.random.default_rng(seed).normal(size=(len(margins), 4)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    chosen = least_sure(np.array(margins), features, count)
    expected: list[int] = []
    for _ in range(min(count, len(margins))):  # slowly and plainly
        scores = []
        for i, margin in enumerate(margins):
            near = [max(0.0, 1 - float(features[i] @ features[c])) for c in expected]
            scores.append(-1.0 if i in expected else (1 - margin) * min([1.0, *near]))
        expected.append(int(np.argmax(scores)))
    assert len(chosen) == len(set(chosen)) == len(expected)
    best = [(1 - margins[i]) for i in (chosen[0], expected[0])]
    assert best[0] == best[1]


def test_a_second_photo_of_the_same_thing_comes_after_another_thing() -> None:
    features = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    assert least_sure(np.array([0.0, 0.01, 0.5]), features, 3) == [0, 2, 1]


def test_a_rate_is_kept_over_time_and_each_asker_has_its_own() -> None:
    rate = RateLimit(5)
    taken = [rate.wait("a", now / 100) == 0 for now in range(1000)]  # ten seconds
    assert 50 <= sum(taken) <= 61
    assert rate.wait("b", 10.0) == 0
    assert 0 < rate.wait("a", 9.99) <= 0.2
    assert RateLimit(0).wait("a") == 0


def test_a_fine_label_is_taught_with_those_above_it_where_a_tree_was_given(tmp_path: Path) -> None:
    ours = ramify.Learner("er", image_size=8, network={"name": "resnet18", "width": 0.1}, taxonomy=TREE)
    images = np.random.default_rng(0).integers(0, 256, (24, 3, 8, 8), np.uint8)
    ours.partial_fit(images, [TREE.path(i % 4) for i in range(24)])
    folder = ModelFolder(tmp_path)
    with folder.locked():
        service = Service(ours, folder)
        service.start()
        assert service.pairs(["pear"], []) == ((1, "fruit"), (2, "pear"))
        assert service.pairs(["nut"], [1]) == ((1, "nut"),)  # not in the tree
        assert {node["label"]: node["stored"] for node in service.labels()["1"]} == {"fruit": 12, "tool": 12}
        with pytest.raises(RamifyError, match="did you mean 'pear'"):
            service.pairs(["peer"], [])
        service.close()


TREE = Taxonomy.from_rows([("fruit", "apple"), ("fruit", "pear"), ("tool", "saw"), ("tool", "hammer")])


def test_a_tree_grows_by_a_path() -> None:
    tree = Taxonomy.from_rows([("fruit", "apple"), ("tool", "saw")])
    assert grown(tree, [(1, "fruit"), (2, "apple")]) is tree
    assert grown(tree, [(1, "fruit"), (2, "quince")]).names(2) == ("apple", "saw", "quince")
    with pytest.raises(RamifyError):
        grown(tree, [(1, "tool"), (2, "apple")])  # it stands elsewhere
    for gap in ([(2, "quince")], [(1, "fruit"), (3, "quince")]):
        with pytest.raises(
            RamifyError, match=rf"nothing says what stands above it at level {gap[0][0] % 2 + 1};"
        ):
            grown(tree, gap)


def test_a_new_label_needs_its_place_in_a_tree_that_was_given(tmp_path: Path) -> None:
    ours = ramify.Learner("er", image_size=8, network={"name": "resnet18", "width": 0.1}, taxonomy=DEEP)
    pixels = np.zeros((3, 8, 8), np.uint8)
    folder = ModelFolder(tmp_path)
    with folder.locked():
        service = Service(ours, folder)
        service.start()
        told = service.pairs(["car", "quince"], [2, 3])
        assert told == ((1, "thing"), (2, "car"), (3, "quince"))  # what the tree has above is filled in
        with pytest.raises(RamifyError, match="new=1 puts a new label into the tree"):
            Taught(pixels, told).check(service.learner)
        Taught(pixels, told, grows=True).check(service.learner)
        with pytest.raises(RamifyError, match="nothing says what stands above it at level 1"):
            Taught(pixels, service.pairs(["quince"], [3]), grows=True).check(service.learner)
        service.close()


DEEP = Taxonomy.from_rows([("thing", "car", "mini"), ("plant", "fruit", "apple")])


# ---- over HTTP


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, int]]:
    """A service, and the port at which it can be asked."""
    folder = ModelFolder(tmp_path_factory.mktemp("served") / "model")
    with folder.locked():
        service = Service(learner(), folder, Limits(bytes=2000, pixels=400, queue=50, rate=0), idle=0.05)
        with running(service) as port:
            yield service, port


class running:
    """A service on a port, as long as it lasts."""

    def __init__(self, service: Service, token: str | None = None) -> None:
        self.service, self.port = service, free_port()
        self.server = make_server(make_app(service, token=token), "127.0.0.1", self.port)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> int:
        self.service.start()
        self.thread.start()
        end = time.monotonic() + 240
        while not self.server.started and time.monotonic() < end:
            time.sleep(0.01)
        return self.port

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(240)
        self.service.close()


def settled(service: Service) -> None:
    """Wait until all is learned and shown."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        teaching = service.teaching
        if not teaching.waiting and not teaching._unflushed and teaching.shown == teaching.revision:
            return
        time.sleep(0.01)
    raise AssertionError("it does not come to rest")


def test_it_is_taught_and_answers_over_http(served: tuple[Service, int]) -> None:
    service, port = served
    assert ask(port, "POST", "/predict", image(0))[0] == 409
    for number in range(24):
        status, receipt = ask(port, "POST", query(number), image(number))
        assert status == 202
        assert receipt["number"] > number
        assert receipt["labels"] == {str(h): label for h, label in labels(number).items()}
    settled(service)
    status, answer = ask(port, "POST", "/predict", image(0))
    assert status == 200
    assert answer["samples"] == 24
    assert [step["level"] for step in answer["path"]] in ([1, 2], [1], [2])
    told = service.learner.predict(
        service.asked.find(answer["image"]).pixels[None],  # type: ignore[union-attr]
        decode="path",
    )
    for step in answer["path"]:
        assert told.labels[step["level"]] == [step["label"]]
        assert step["probability"] == pytest.approx(float(told.probabilities[step["level"]][0]), abs=1e-4)
    assert len(answer["top"]["2"]) == 4
    tree = ask(port, "GET", "/tree")[1]
    assert {node["label"] for node in tree["children"] if node["level"] == 1} == {"fruit", "tool"}
    flat = ask(port, "GET", "/labels")[1]
    assert {node["label"] for node in flat["2"]} == {"apple", "pear", "saw", "hammer"}
    assert sum(node["seen"] for node in flat["1"]) == sum(1 in labels(n) for n in range(24))
    health = ask(port, "GET", "/health")
    assert (health[0], health[1]["status"], health[1]["samples"]) == (200, "ok", 24)
    status = ask(port, "GET", "/status")[1]
    assert (status["samples"], status["waiting"], status["levels"]) == (24, 0, {"1": 2, "2": 4})


def test_what_was_asked_waits_to_be_labelled_and_is_taught_by_its_name(
    served: tuple[Service, int],
) -> None:
    service, port = served
    name = ask(port, "POST", "/predict", image(100))[1]["image"]
    ask(port, "POST", "/predict?keep=0", image(101))
    queue = ask(port, "GET", "/queue")[1]
    assert name in [item["image"] for item in queue]
    status, picture = ask(port, "GET", f"/images/{name}", raw=True)
    assert (status, picture[:4]) == (200, b"\x89PNG")
    before = len(service.asked)
    assert ask(port, "POST", f"/learn?image={name}&label=saw&level=2")[0] == 202
    assert len(service.asked) == before - 1
    assert ask(port, "POST", f"/learn?image={name}&label=saw&level=2")[0] == 404
    assert ask(port, "GET", "/images/none")[0] == 404


def test_labels_change_over_http_and_back(served: tuple[Service, int]) -> None:
    service, port = served
    settled(service)
    status, entry = ask(port, "POST", "/edit", b'{"edit": "merge", "level": 2, "labels": ["apple", "pear"]}')
    assert (status, entry["edit"]) == (200, "merge")
    assert "pear" not in service.learner.labels(2)
    assert (
        ask(port, "POST", "/edit", b'{"edit": "rename", "level": 2, "label": "saw", "new": "jigsaw"}')[0]
        == 200
    )
    assert "jigsaw" in service.learner.labels(2)
    assert [e["edit"] for e in ask(port, "GET", "/history")[1]] == ["merge", "rename"]
    for _ in range(2):
        assert ask(port, "POST", "/undo")[0] == 200
    assert set(service.learner.labels(2)) == {"apple", "pear", "saw", "hammer"}
    assert ask(port, "POST", "/undo")[0] == 422
    status, entry = ask(port, "POST", "/edit", b'{"edit": "rename", "label": "saw", "new": "jigsaw"}')
    assert (status, entry["level"]) == (200, 2)  # a level may be left out where it is clear
    assert ask(port, "POST", "/undo")[0] == 200
    for body, wanted in (
        (b'{"edit": "rename", "level": 2, "label": "nothing", "new": "x"}', 422),
        (b'{"edit": "explode"}', 422),
        (b'{"edit": "rename", "level": 2}', 422),
        (b"[1]", 400),
        (b"{", 400),
    ):
        status, told = ask(port, "POST", "/edit", body)
        assert status == wanted, told
        assert "\n" not in told["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/predict", b"", 400, "empty"),
        ("/predict", b"abc", 415, "not an image of a known format"),
        ("/predict", b"x" * 3000, 413, "3,000 bytes; at most 2,000"),
        ("/predict?decode=magic", image(1), 400, "use one of heads, path"),
        ("/predict?decod=up", image(1), 400, "no parameter 'decod'; did you mean 'decode'?"),
        ("/learn", image(1), 400, "no label"),
        ("/learn?label=saw&levels=1", image(1), 400, "did you mean 'level'?"),
        ("/learn?label=saw&level=x", image(1), 400, "not a whole number"),
        ("/learn?label=saw&level=1&level=2", image(1), 400, "2 levels for 1 label"),
        ("/learn?label=saw&level=0", image(1), 422, "levels count from 1"),
        ("/learn?label=saw&label=pear&level=2&level=2", image(1), 422, "two labels at one level"),
        ("/learn?label=nobody+knows", image(1), 422, "is not known; a new one needs its level"),
        ("/learn?label=%20&level=1", image(1), 422, "empty, or has spaces"),
        ("/learn?image=gone&label=saw&level=2", None, 404, "send the file"),
        ("/edit", b"", 400, "empty; send a table with edit"),
        ("/nothing", b"", 404, "no '/nothing' here; /api describes"),
        ("/labels", b"", 405, "/labels takes GET, not POST"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    served: tuple[Service, int], path: str, body: bytes | None, status: int, words: str
) -> None:
    found, told = ask(served[1], "POST", path, body)
    assert (found, list(told)) == (status, ["error"])
    assert words in told["error"]


def test_a_form_is_refused_with_what_to_send_in_its_place(served: tuple[Service, int]) -> None:
    kind = "multipart/form-data; boundary=x"
    status, told = ask(served[1], "POST", "/learn?label=saw&level=2", b"--x\r\n\r\n", Content_Type=kind)
    assert (status, told["error"]) == (
        415,
        "the body is a form; send the file alone: curl --data-binary @photo.jpg",
    )


def test_too_many_pixels_are_refused_before_they_are_decoded(served: tuple[Service, int]) -> None:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (100, 100)).save(file, "PNG")
    status, told = ask(served[1], "POST", "/predict", file.getvalue())
    assert (status, told["error"]) == (413, "the image has 100×100 pixels, more than 400")


def test_a_body_without_a_length_has_the_same_limit(served: tuple[Service, int]) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", served[1], timeout=20)
    connection.request("POST", "/predict", iter([b"x" * 1500, b"x" * 1500]))
    assert connection.getresponse().status == 413
    connection.close()


def test_other_sites_and_other_names_are_kept_out(served: tuple[Service, int]) -> None:
    port = served[1]
    assert ask(port, "POST", "/learn?label=x&level=1", image(1), Origin="http://evil.example")[0] == 403
    assert ask(port, "GET", "/tree", Host="evil.example")[0] == 403
    assert ask(port, "GET", "/tree", Origin=f"http://127.0.0.1:{port}")[0] == 200


def test_metrics_are_prometheus_text(served: tuple[Service, int]) -> None:
    text = ask(served[1], "GET", "/metrics", raw=True)[1].decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["ramify_samples"]) >= 24
    assert float(values['ramify_labels{level="2"}']) == 4
    counts = [float(v) for k, v in values.items() if k.startswith("ramify_requests_total")]
    assert sum(counts) > 20
    inf = {k: v for k, v in values.items() if 'le="+Inf"' in k and "predict" in k}
    assert list(inf.values()) == [values['ramify_request_seconds_count{path="/predict"}']]
    told = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(told) == len(set(told))


def test_the_description_names_every_door(served: tuple[Service, int]) -> None:
    service, port = served
    described = ask(port, "GET", "/openapi.json")[1]
    app = make_app(service)
    doors = {
        (route.path, how.lower())  # type: ignore[attr-defined]
        for route in app.routes
        for how in route.methods or ()  # type: ignore[attr-defined]
        if how != "HEAD" and not route.path.startswith(("/assets", "/images", "/openapi", "/api"))  # type: ignore[attr-defined]
    } - {("/", "get")}
    assert {(path, how) for path, own in described["paths"].items() for how in own} == doors
    refs = {part.split('"')[0] for part in json.dumps(described).split("#/components/schemas/")[1:]}
    assert refs <= set(described["components"]["schemas"])


def test_a_token_is_needed_where_one_is_set(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "model")
    with folder.locked():
        service = Service(learner(), folder, Limits(rate=20))
        with running(service, token="secret") as port:
            assert ask(port, "GET", "/tree")[0] == 401
            assert ask(port, "GET", "/tree", Authorization="Bearer wrong")[0] == 401
            assert ask(port, "GET", "/tree", Authorization="Bearer secret")[0] == 200
            assert ask(port, "GET", "/tree", Cookie="ramify_token=secret")[0] == 200
            status, page = ask(port, "GET", "/?token=wrong", raw=True)
            assert (status, b"This is not the token" in page) == (401, True)
            assert ask(port, "GET", "/?token=secret", raw=True)[0] == 303
            assert ask(port, "GET", "/assets/page.css", raw=True)[0] == 200
            assert ask(port, "GET", "/health") == (200, {"status": "ok"})  # probes know no token
            assert ask(port, "GET", "/health?ts=1", Authorization="Bearer secret")[0] == 200
            assert ask(port, "GET", "/health", Authorization="Bearer secret")[1]["samples"] == 0
            service.teaching.save_error = "/home/rosa is full"
            assert ask(port, "GET", "/health") == (503, {"status": "failing"})
            service.teaching.save_error = None
            found = [ask(port, "GET", "/health", Authorization="Bearer secret")[0] for _ in range(60)]
            assert 429 in found


def test_a_token_stands_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = ModelFolder(tmp_path / "model")
    with caplog.at_level(logging.DEBUG), folder.locked():
        logging.getLogger("ramify").setLevel(logging.DEBUG)
        try:
            with running(Service(learner(), folder), token="secret-7") as port:
                ask(port, "GET", "/?token=secret-7", raw=True)
                ask(port, "GET", "/tree?keep=0&Token=secret-7")
                ask(port, "GET", "/tree", Authorization="Bearer secret-7")
        finally:
            logging.getLogger("ramify").setLevel(logging.NOTSET)
    assert "GET /?token=…" in caplog.text
    assert "secret-7" not in caplog.text


def test_only_a_token_that_was_made_up_is_told(tmp_path: Path) -> None:
    with begun(tmp_path / "model") as model:
        server = Process(model, "--token", "secret-7", "-v", log=tmp_path / "log")
        assert server.ready()
        assert server.ask("GET", "/?token=secret-7", raw=True)[0] == 303
        assert server.stop() == 0
    told = (tmp_path / "log").read_text()
    assert "serving" in told
    assert "GET /" in told
    assert "secret-7" not in told


def test_samples_are_taught_by_many_at_once_and_none_is_lost_when_it_is_killed(tmp_path: Path) -> None:
    import serve_kills

    found = serve_kills.trial(tmp_path, kills=3, clients=4, longest=0.4)
    assert found.same, found
    assert found.learned == found.samples > 0


def test_the_reference_computes_on_one_thread_as_the_server_does() -> None:
    before = torch.get_num_threads()
    one = reference([0, 1, 2, 3])
    torch.set_num_threads(2)
    try:
        assert same(reference([0, 1, 2, 3]), one)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_sigterm_saves_and_what_still_waits_is_learned_at_the_next_start(tmp_path: Path) -> None:
    with begun(tmp_path / "model") as model:
        server = Process(model, "--idle", "0")
        assert server.ready()
        for number in range(12):
            assert server.ask("POST", query(number), image(number))[0] == 202
        assert server.stop(signal.SIGTERM) == 0
        server = Process(model, "--idle", "0")
        assert server.ready()
        end = time.monotonic() + 240
        while server.ask("GET", "/health")[1]["waiting"] and time.monotonic() < end:
            time.sleep(0.02)
        assert server.stop(signal.SIGINT) == 0
        assert same(ramify.Learner.load(model, device="cpu"), reference(list(range(12))))


def test_a_new_model_is_made_as_learn_makes_it_and_its_options_are_for_it_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ramify.cli.serve import _learner, _parser

    tree = tmp_path / "tree.csv"
    tree.write_text("level1,level2\nfruit,apple\nfruit,pear\n")
    options = ["--network", "resnet18", "--freeze", "all", "--image-size", "16", "--taxonomy", str(tree)]
    made = _learner(_parser().parse_args([str(tmp_path / "new"), "--new", *options]))
    assert made.settings.network.name == "resnet18"
    assert made.settings.network.freeze == "all"
    assert made.taxonomy is not None
    assert made.taxonomy.names(2) == ("apple", "pear")
    learner().save(tmp_path / "old")
    for option, value in (("--freeze", "all"), ("--taxonomy", str(tree)), ("--method", "er")):
        assert main(["serve", str(tmp_path / "old"), "--port", str(free_port()), option, value]) == 2
        assert f"{option} is for a new one; leave it out" in capsys.readouterr().err


def test_a_server_that_was_taught_nothing_says_that_there_is_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ramify.serve.server as server

    monkeypatch.setattr(server, "serve", lambda *_, **__: None)
    assert main(["serve", str(tmp_path / "none"), "--new", "--port", str(free_port())]) == 0
    assert "nothing was learned; there is no model yet" in capsys.readouterr().err


def test_mistakes_of_the_command_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for options, words in (
        ([str(tmp_path / "none")], "holds no model"),
        ([str(tmp_path), "--port", "0"], "expected a number from 1"),
        ([str(tmp_path), "--queue", "0"], "--queue is 0"),
        ([str(tmp_path), "--rate", "-1"], "must be 0 or more"),
    ):
        assert main(["serve", *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
    from ramify.serve.server import serve

    with pytest.raises(RamifyError, match="give a --token"):
        serve(learner, tmp_path, host="0.0.0.0")
    monkeypatch.setitem(__import__("sys").modules, "starlette.applications", None)
    with pytest.raises(RamifyError, match=r"pip install 'ramify\[serve\]'"):
        make_app(None)  # type: ignore[arg-type]
