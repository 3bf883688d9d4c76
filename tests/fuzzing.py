"""Readers of what users give, and how to make up input for them: used by the tests and by tools/fuzz.py."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from made_runs import make_run
from ramify.datasets import load_dataset
from ramify.datasets.own import manifest_origin
from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.methods.settings import NetworkSettings
from ramify.reports.data import load_run
from ramify.reports.export import export
from ramify.reports.html import report_html
from ramify.reports.series import scenarios
from ramify.reports.write import drawings
from ramify.runs.checkpoint import Checkpoints, _checksum_line
from ramify.runs.config import Config
from ramify.runs.folder import RunFolder
from ramify.runs.presets import resolve
from ramify.runs.run import Run
from ramify.statefiles import load_state, save_state
from ramify.streams import Stream, build_stream
from ramify.streams.files import read_csv
from ramify.taxonomy import read_taxonomy
from ramify.typed import from_dict, to_dict
from tiny_runs import tiny

Edits = list[tuple[int, Any]]
REMOVE = object()
SCRATCH = Path(tempfile.mkdtemp(prefix="ramify-fuzz-"))


WORDS = (b"", b",", b'"', b"\n", b"\x00", b"\xff", b"-1", b"9" * 20, b"nan", b"{", b"]", b"null")


def written(name: str, data: bytes) -> Path:
    """A file that holds `data`; the same one every time."""
    path = SCRATCH / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@st.composite
def changed(draw: st.DrawFn, *seeds: bytes) -> bytes:
    """One of the seeds after some edits: bytes replaced, removed, repeated, or text put in."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.sampled_from((0, 1, 1, 2, 8, 40, 1000))))
        words = st.one_of(st.sampled_from(WORDS), st.binary(max_size=8))
        data[start:stop] = draw(words | st.just(bytes(data[start:stop]) * 2))
    return bytes(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def config_values(draw: st.DrawFn) -> dict[str, Any]:
    """A config's values, some of them replaced by anything at all."""
    values = to_dict(tiny())
    for _ in range(draw(st.integers(1, 4))):
        table = values
        name = draw(st.sampled_from(sorted(values)))
        if isinstance(values[name], dict) and values[name] and draw(st.booleans()):
            table, name = values[name], draw(st.sampled_from(sorted(values[name])))
        table[draw(st.sampled_from((name, name.replace("_", "-"), name + "x")))] = draw(json_values)
    return values


def edits(values: st.SearchStrategy[Any] = json_values) -> st.SearchStrategy[Edits]:
    """What to do to nested values: replace the n-th of them, or remove it."""
    return st.lists(st.tuples(st.integers(0, 10_000), st.just(REMOVE) | values), min_size=1, max_size=4)


arrays = st.builds(
    np.full,
    st.sampled_from([(), (3,), (12, 3), (3, 12), (3, 2), (3, 3), (3, 6), (0, 3), (1, 1, 3)]),
    st.sampled_from([-2, -1, 0, 1, 5, 6, 2**31, -0.5, 0.5, 1.5, float("nan"), float("inf"), True]),
)


TREE = b"level1,level2,wnid\nanimal,cat,n1\nanimal,dog,n2\nplant,oak,n3\n"
EDGES = b"parent,child,level\n,animal,1\nanimal,cat,2\nanimal,dog,2\n"
NESTED = b'{"animal": {"cat": null, "dog": null}, "plant": ["oak", "fir"]}'
MANIFEST = b"path,level1,level2,split\na.png,animal,cat,train\nb.png,animal,cat,test\nc.png,plant,oak,train\n"
STREAM = b"image,level,label,task\n0,1,0,0\n7,2,1,0\n200,4,2,1\n"
PRESET = (
    b'[all]\nlr = 0.1\nmemory_size = 9\nnetwork = { name = "resnet18", width = 0.5 }\n[method.er]\nlr = 1\n'
)


@cache
def garden() -> Any:
    return load_dataset("garden", image_size=8)


@cache
def saved_stream() -> bytes:
    stream = build_stream("disjoint", garden().train.leaves, garden().taxonomy, 0)
    stream.save(SCRATCH / "good.stream")
    return (SCRATCH / "good.stream").read_bytes()


@cache
def fresh_run() -> Run:
    return Run(tiny("pl-fms", limit=24), garden(), "cpu")


@cache
def run_folder(network: str = "tiny_runs:network") -> dict[str, bytes]:
    """The files of a run that has come to its end, with its last checkpoint."""
    run = Run(tiny("pl-fms", limit=24, network=NetworkSettings(network, 0.02)), garden(), "cpu")
    folder = RunFolder(SCRATCH / f"good-run-{network}")
    folder.path.mkdir(exist_ok=True)
    folder.begin(run, None, {"data_dir": None, "checkpoint_every": 300.0})
    run.go(folder, Checkpoints(folder).after_part)
    return {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}


@cache
def made_folder() -> dict[str, bytes]:
    """The files of a finished run on a tree so small that its report is quick to make."""
    folder = make_run(SCRATCH / "made-run", images=12)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def saved_learner() -> bytes:
    learner = Learner("er", image_size=8, memory_size=4, network={"name": "resnet18", "width": 0.02})
    images = garden().train.images[:8]
    learner.partial_fit(images, ["a", "b"] * 4, [1] * 8)
    learner.save(SCRATCH / "good-learner")
    return (SCRATCH / "good-learner" / "learner.safetensors").read_bytes()


def read_manifest(data: bytes) -> None:
    manifest_origin(written("m.csv", data), "m").contents()


def read_checkpoint(data: bytes) -> None:
    """A checkpoint whose checksum is right whatever it holds."""
    path = written("restored/checkpoint-000001.safetensors", data)
    path.with_suffix(".sha256").write_text(_checksum_line(path))
    Checkpoints(RunFolder(path.parent)).restore(fresh_run())


def read_run(name: str) -> Callable[[bytes], None]:
    """Read a run's folder, of which one file is changed."""

    def read(data: bytes) -> None:
        for other, content in run_folder().items():
            written(f"run/{other}", content)
        path = written(f"run/{name}", data).parent
        folder = RunFolder(path)
        for read_part in (folder.about, folder.named_code, folder.records, folder.result):
            refused(lambda part: part(), read_part)
        show(path)

    return read


def show(path: Path) -> None:
    """All that is made of a run: report, figures, tables."""
    runs = [load_run(path)]
    report_html(runs)
    for scenario in scenarios(runs):
        list(drawings(scenario))
    for kind in ("csv", "parquet"):
        export(runs, SCRATCH / "tables", kind)


def show_edited(change: tuple[str, Edits]) -> None:
    """Show a run of which one file is whole, but some values in it are others or gone."""
    name, changes = change
    for other, content in made_folder().items():
        path = written(f"made/{other}", content)
    path = path.with_name(name)
    if name == "predictions.safetensors":
        arrays = load_file(path)
        edit(arrays, changes)
        save_file(arrays, path)
    elif name == "records.jsonl":
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        edit(records, changes)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        values = json.loads(path.read_bytes())
        edit(values, changes)
        path.write_text(json.dumps(values))
    show(path.parent)


def changed_run(name: str) -> Callable[[], st.SearchStrategy[bytes]]:
    return lambda: changed(run_folder()[name])


def checkpoint() -> bytes:
    names = [
        name for name in run_folder() if name.startswith("checkpoint-") and name.endswith(".safetensors")
    ]
    return run_folder()[names[-1]]


def read_model(data: bytes) -> None:
    """Read the model of a run."""
    written("model/taxonomy.csv", run_folder("resnet18")["taxonomy.csv"])
    Learner.load(written("model/model.safetensors", data).parent, device="cpu")


def read_edited_model(changes: Edits) -> None:
    """Read a model of which the weights are whole, but some values in its header are others or gone."""
    path = written("model/good", run_folder("resnet18")["model.safetensors"])
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["ramify"])
    edit(header, changes)
    save_file(load_file(path), path, {"ramify": json.dumps(header)})
    read_model(path.read_bytes())


def edited(data: bytes, changes: Edits) -> bytes:
    """A state file that is whole, but some values in it are others or gone."""
    state, about = load_state(written("whole", data))
    edit(state, changes)
    save_state(SCRATCH / "edited", state, about)
    return (SCRATCH / "edited").read_bytes()


def edit(values: Any, changes: Edits) -> None:
    """Replace or remove values somewhere in nested dicts and lists."""
    for number, value in changes:
        places = list(_places(values))
        if not places:
            break
        table, key = places[number % len(places)]
        if value is REMOVE:
            del table[key]
        else:
            table[key] = value


def _places(values: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(values.items() if isinstance(values, dict) else enumerate(values)):
        yield values, key
        if isinstance(value, dict | list):
            yield from _places(value)


def read_learner(data: bytes) -> None:
    Learner.load(written("learner/learner.safetensors", data).parent)


TARGETS: dict[str, tuple[Callable[[], st.SearchStrategy[Any]], Callable[[Any], object]]] = {
    "tree, CSV": (lambda: changed(TREE, EDGES), lambda data: read_taxonomy(written("t.csv", data))),
    "tree, JSON": (lambda: changed(NESTED), lambda data: read_taxonomy(written("t.json", data))),
    "tree, any JSON": (
        lambda: json_values,
        lambda value: read_taxonomy(written("t.json", json.dumps(value).encode())),
    ),
    "manifest": (lambda: changed(MANIFEST), read_manifest),
    "preset": (
        lambda: changed(PRESET),
        lambda data: resolve(str(written("p.toml", data)), "er", "garden", "disjoint"),
    ),
    "config": (config_values, lambda values: from_dict(Config, values, "config")),
    "stream, CSV": (
        lambda: changed(STREAM),
        lambda data: read_csv(written("s.csv", data), garden().taxonomy, len(garden().train.leaves)),
    ),
    "stream, saved": (lambda: changed(saved_stream()), lambda data: Stream.load(written("s.stream", data))),
    "state": (lambda: changed(checkpoint()), lambda data: load_state(written("state", data))),
    "checkpoint": (lambda: changed(checkpoint()), read_checkpoint),
    "checkpoint, values": (edits, lambda changes: read_checkpoint(edited(checkpoint(), changes))),
    "config.json": (changed_run("config.json"), read_run("config.json")),
    "records.jsonl": (changed_run("records.jsonl"), read_run("records.jsonl")),
    "result.json": (changed_run("result.json"), read_run("result.json")),
    "predictions": (changed_run("predictions.safetensors"), read_run("predictions.safetensors")),
    "run, values": (
        lambda: st.tuples(st.sampled_from(("config.json", "records.jsonl", "result.json")), edits()),
        show_edited,
    ),
    "predictions, values": (
        lambda: st.tuples(st.just("predictions.safetensors"), edits(arrays)),
        show_edited,
    ),
    "model": (lambda: changed(run_folder("resnet18")["model.safetensors"]), read_model),
    "model, values": (edits, read_edited_model),
    "learner": (lambda: changed(saved_learner()), read_learner),
    "learner, values": (edits, lambda changes: read_learner(edited(saved_learner(), changes))),
}


def refused(read: Callable[[Any], object], value: Any) -> str | None:
    """Read; what the library refuses is as it should be (its words are returned), all else is a crash."""
    try:
        read(value)
    except RamifyError as error:
        return str(error)
    return None
