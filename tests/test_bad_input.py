"""Whatever is wrong with what a user gives: one line that names it, exit code 2, and nothing is changed."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ramify.cli import main
from ramify.runs import run_config
from ramify.runs.run import Run
from tiny_runs import tiny

Prepare = Callable[[Path], None]
RUN = "run --image-size 8 --network.name tiny_runs:network --limit 48 --threads 1 --out out"
OWN = "run --image-size 8 --network.name tiny_runs:network --setup disjoint --tasks 2 --threads 1 --out out"
PRESET, STREAM, SAVED = f"{RUN} --preset a.toml", f"{RUN} --stream s.csv", f"{RUN} --stream s.stream"
MANIFEST = f"{OWN} --dataset a.csv"
LEARN = "learn a.csv --out model"
COLUMNS = "image,level,label\n"
TREE = "level1,level2\nanimal,cat\nanimal,dog\nplant,oak\nplant,fir\n"
ROWS = "path,level1,level2,split\n" + "".join(
    f"{name}.png,{above},{name},{split}\n"
    for above, name in (("animal", "cat"), ("plant", "oak"))
    for split in ("train", "test")
)


def png(size: int = 8) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), 90, np.uint8)).save(file, "PNG")
    return file.getvalue()


def bomb() -> bytes:
    """A PNG of a few hundred bytes that says it has 10 milliard pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))


@dataclass(frozen=True)
class Case:
    """A command line, the files it finds, what is done to them, and what the error must mention."""

    argv: str
    says: tuple[str, ...]
    files: tuple[tuple[str, str | bytes], ...] = ()
    prepare: Prepare | None = None


def case(argv: str, *says: str, prepare: Prepare | None = None, **files: str | bytes) -> Case:
    """Underscores in a file's name stand for its dots and, doubled, for folders."""
    named = ((name.replace("__", "/").replace("_", "."), text) for name, text in files.items())
    return Case(argv, says, tuple(named), prepare)


def finished(place: Path) -> None:
    run_config(tiny(limit=8), place / "out", threads=1)


def unfinished(place: Path) -> None:
    class Crash(Exception):
        pass

    def crash(run: Run) -> None:
        if run.position >= 24:
            raise Crash

    with pytest.raises(Crash):
        run_config(tiny(limit=48), place / "out", threads=1, checkpoint_every=0, watch=crash)


def about(change: Callable[[dict[str, Any]], object]) -> Prepare:
    """An unfinished run whose config.json was changed by hand."""

    def prepare(place: Path) -> None:
        unfinished(place)
        path = place / "out" / "config.json"
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return prepare


def cut_checkpoints(place: Path) -> None:
    unfinished(place)
    for path in (place / "out").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:-7])


def saved_stream(change: Callable[[bytes], bytes], dataset: str = "garden") -> Prepare:
    def prepare(place: Path) -> None:
        from ramify.datasets import load_dataset
        from ramify.streams import build_stream

        data = load_dataset(dataset, image_size=8)
        stream = build_stream("disjoint", data.train.leaves, data.taxonomy, 0)
        stream.save(place / "s.stream")
        (place / "s.stream").write_bytes(change((place / "s.stream").read_bytes()))

    return prepare


COMMAND_LINES = {
    "command": case("rnu", "no command 'rnu'", "did you mean 'run'?"),
    "option": case(f"{RUN} --metod er", "--metod"),
    "option without value": case(f"{RUN} --method", "--method"),
    "sub-command": case("taxonomy shwo x", "shwo", "taxonomy --help"),
    "method": case(f"{RUN} --method ear", "no method 'ear'", "did you mean 'er'?"),
    "method's module": case(f"{RUN} --method no_such:thing", "no_such:thing", "no_such.py"),
    "method's name": case(f"{RUN} --method os:thing", "os:thing", "package.module:name"),
    "method that is none": case(f"{RUN} --method os:getcwd", "method getcwd failed"),
    "dataset": case(f"{RUN} --dataset gardn", "no dataset 'gardn'", "did you mean 'garden'?"),
    "setup": case(f"{RUN} --setup triple-depth", "no setup 'triple-depth'", "did you mean 'multiple-depth'?"),
    "setup's module": case(f"{RUN} --setup no_such:thing", "no_such:thing", "no_such.py"),
    "setup that is none": case(f"{RUN} --setup os:getcwd", "os:getcwd", "streams.setup"),
    "module that fails": case(f"{RUN} --setup broken:x", "broken:x", "ZeroDivisionError", broken_py="1 / 0"),
    "setting in words": case("stream show --dataset garden --setup i-blurry --n x", "n is 'x'", "float"),
    "network": case(f"{RUN} --network.name resnet7", "no network 'resnet7'", "resnet18"),
    "network that is none": case(f"{RUN} --network.name os:getcwd", "os:getcwd", "torch.nn.Module"),
    "network that raises": case(f"{RUN} --network.name shutil:rmtree", "shutil:rmtree"),
    "width": case(f"{RUN} --network.width 0", "network.width is 0.0"),
    "memory size 0": case(f"{RUN} --memory-size 0", "memory_size is 0"),
    "memory size in words": case(f"{RUN} --memory-size many", "many"),
    "memory size beyond the machine": case(
        f"{RUN} --method er --memory-size 999999999999", "999,999,999,999 samples"
    ),
    "batch size": case(f"{RUN} --batch-size -4", "batch_size is -4"),
    "rate that is no number": case(f"{RUN} --lr nan", "lr is nan"),
    "infinite rate": case(f"{RUN} --lr inf", "lr is inf"),
    "updates": case(f"{RUN} --updates-per-sample 0", "updates_per_sample is 0"),
    "decay": case(f"{RUN} --lr-decay 1.5", "lr_decay is 1.5"),
    "probability": case(f"{RUN} --augment.cutmix 1.5", "augment.cutmix is 1.5"),
    "padding": case(f"{RUN} --augment.padding -1", "augment.padding", "-1"),
    "T": case(f"{RUN} --fms.T -5", "fms.T is -5"),
    "epochs": case(f"{RUN} --epochs.count 0", "epochs.count is 0"),
    "share of the Fisher information": case(f"{RUN} --ewc.decay 2", "ewc.decay is 2"),
    "validation share": case(f"{RUN} --method bic --bic.validation 1.5", "bic.validation", "1.5"),
    "limit": case(f"{RUN} --limit 0", "limit is 0"),
    "seed": case(f"{RUN} --seed -1", "seed is -1"),
    "evaluation period": case(f"{RUN} --eval-every 0", "eval_every is 0"),
    "threads": case(f"{RUN} --threads 0", "threads is 0"),
    "seconds between checkpoints": case(f"{RUN} --checkpoint-every -1", "checkpoint_every is -1"),
    "resume and force": case(f"{RUN} --resume --force", "--resume", "--force"),
    "image size": case(f"{RUN} --image-size 5000", "5000", "1024"),
    "level beyond the tree": case(f"{RUN} --levels 9", "9"),
    "level 0": case(f"{RUN} --levels 0 1", "0"),
    "levels upside down": case(f"{RUN} --levels 2 1", "2"),
    "tasks of multiple-depth": case(f"{RUN} --tasks 3", "3 tasks", "4"),
    "tasks of single-depth": case(f"{RUN} --setup single-depth --tasks 6", "6 tasks", "12 parents"),
    "more tasks than classes": case(f"{RUN} --setup disjoint --tasks 99", "99 tasks", "48 classes"),
    "percentage": case(f"{RUN} --setup i-blurry --i-blurry.n 150", "n is 150", "0 to 100"),
    "setting of another setup": case(f"{RUN} --i-blurry.n 30", "i_blurry is set", "or choose i-blurry"),
    "labels of another setup": case(
        f"{RUN} --single-depth.labels dual", "single_depth is set", "or choose single-depth"
    ),
    "setting outside of its setup's table": case(f"{RUN} --labels dual", "dual", "--single-depth.labels"),
    "too few images a class": case(f"{RUN} --per-class 2", "too few images", "4"),
    "taxonomy of no dataset": case("stream show --dataset garden --setup no", "no setup 'no'"),
    "levels in words": case("stream show --dataset garden --setup disjoint --levels a,b", "a,b"),
    "bench format": case("bench --nope", "--nope"),
    "two methods to compare": case("compare --methods er,ear --dataset garden", "ear"),
    "report of nothing": case("report nowhere", "nowhere"),
    "export of nothing": case("export nowhere", "nowhere"),
    "watch of nothing": case("watch nowhere", "nowhere"),
    "table": case("reproduce table99", "table99"),
}

CONFIGS = {
    "preset": case(f"{RUN} --preset quik", "no preset 'quik'", "quick"),
    "preset file": case(f"{RUN} --preset no.toml", "no.toml"),
    "preset that is a folder": case(PRESET, "a.toml", a_toml__x="x"),
    "preset that is no TOML": case(PRESET, "a.toml", "TOML", a_toml="[all"),
    "preset that is not UTF-8": case(PRESET, "a.toml", a_toml=b"[all]\nlr = \xff"),
    "table of a preset": case(PRESET, "no table 'alle'", "all", a_toml="[alle]\nlr = 1"),
    "preset without tables": case(PRESET, "all", "3", a_toml="all = 3"),
    "table that is no table": case(PRESET, "dataset", a_toml="dataset = 3"),
    "table in a table": case(PRESET, "method", "er", a_toml="[method]\ncanopy = 3"),
    "field of a preset": case(
        PRESET, "no field 'memory_sise'", "did you mean 'memory_size'?", a_toml="[all]\nmemory_sise = 3"
    ),
    "text for a number": case(PRESET, "memory_size", "'3'", "int", a_toml="[all]\nmemory_size = '3'"),
    "truth for a number": case(PRESET, "lr", "True", "float", a_toml="[all]\nlr = true"),
    "number for a table": case(PRESET, "network", "3", "table", a_toml="[all]\nnetwork = 3"),
    "number for a list": case(PRESET, "levels", "3", "list", a_toml="[all]\nlevels = 3"),
    "unknown choice": case(PRESET, "stem", "vgg", "cifar", a_toml="[all]\nnetwork.stem = 'vgg'"),
    "list as a choice": case(PRESET, "stem", "cifar", a_toml="[all]\nnetwork.stem = [1]"),
    "value out of range": case(PRESET, "memory_size is 0", a_toml="[all]\nmemory_size = 0"),
    "study": case("sweep no.toml", "no.toml"),
    "study that is no TOML": case("sweep a.toml", "a.toml", "TOML", a_toml="x = ["),
    "study with an unknown field": case(
        "sweep a.toml", "sise", a_toml="preset = 'quick'\n[axes]\nsise = [1]"
    ),
}

TREES = {
    "tree": case("taxonomy show cifar1000", "cifar1000", "cifar100"),
    "tree file": case("taxonomy show no.csv", "no.csv"),
    "file of another kind": case("taxonomy show a.txt", "a.txt", ".csv", a_txt=TREE),
    "empty tree": case("taxonomy show a.csv", "a.csv is empty", a_csv=""),
    "header alone": case("taxonomy show a.csv", "no rows", a_csv="level1,level2\n"),
    "no level column": case("taxonomy show a.csv", "line 1", "level1", a_csv="a,b\nc,d\n"),
    "missing level column": case("taxonomy show a.csv", "level2", a_csv="level1,level3\na,b\n"),
    "column twice": case("taxonomy show a.csv", "'level1' stands twice", a_csv="level1,level1\na,b\n"),
    "too many cells": case("taxonomy show a.csv", "line 6", "3 cells", a_csv=TREE + "a,b,c\n"),
    "hole in a path": case("taxonomy show a.csv", "line 6", a_csv=TREE + ",mould\n"),
    "leaf twice": case("taxonomy show a.csv", "line 6", "'cat'", a_csv=TREE + "animal,cat\n"),
    "two parents": case("taxonomy show a.csv", "line 6", "two parents", a_csv=TREE + "plant,cat\n"),
    "quotes": case("taxonomy show a.csv", "not valid CSV", a_csv='level1\n"a\n'),
    "not UTF-8": case("taxonomy show a.csv", "line 2", "0xe9", "UTF-8", a_csv=b"level1\ncaf\xe9\n"),
    "cycle": case("taxonomy show a.csv", "cycle", a_csv="parent,child\na,b\nb,a\n"),
    "child without a name": case("taxonomy show a.csv", "line 2", "child", a_csv="parent,child\na,\n"),
    "level of an edge": case("taxonomy show a.csv", "'x'", a_csv="parent,child,level\n,b,x\n"),
    "not JSON": case("taxonomy show a.json", "not valid JSON", a_json="{"),
    "empty JSON": case("taxonomy show a.json", "empty", a_json="{}"),
    "number in JSON": case("taxonomy show a.json", "1.5", a_json='{"a": {"b": 1.5}}'),
    "name twice in JSON": case("taxonomy show a.json", "'a' stands twice", a_json='{"a": 0, "a": 1}'),
    "leaf indices": case("taxonomy show a.json", "0 to 1", a_json='{"a": {"b": 0, "c": 7}}'),
    "endless JSON": case("taxonomy show a.json", "nested too deeply", a_json="[" * 100_000),
    "folder without folders": case("taxonomy show a", "no folders", a__x_png="x"),
}

IMAGES = {
    "path of no dataset": case(f"{OWN} --dataset ./nowhere", "./nowhere"),
    "file of another kind": case(f"{OWN} --dataset a.txt", "a.txt", ".csv", a_txt="x"),
    "empty manifest": case(MANIFEST, "a.csv", a_csv=""),
    "manifest without rows": case(MANIFEST, "a.csv", a_csv="path,label\n"),
    "manifest without a path": case(MANIFEST, "line 1", "path", a_csv="file,label\nx,y\n"),
    "manifest without labels": case(MANIFEST, "line 1", "level1", a_csv="path\nx\n"),
    "missing image": case(MANIFEST, "cat.png", "No such file", a_csv=ROWS, oak_png=png()),
    "text as an image": case(MANIFEST, "cat.png", "not an image", a_csv=ROWS, oak_png=png(), cat_png="x"),
    "empty image": case(MANIFEST, "cat.png", "empty", a_csv=ROWS, oak_png=png(), cat_png=b""),
    "cut image": case(MANIFEST, "cat.png", a_csv=ROWS, oak_png=png(), cat_png=png(64)[:-40]),
    "bomb": case(MANIFEST, "cat.png", "pixels", a_csv=ROWS, oak_png=png(), cat_png=bomb()),
    "empty label": case(MANIFEST, "line 2", "level1", a_csv=ROWS.replace("animal,cat,train", ",cat,train")),
    "unknown split": case(MANIFEST, "trian", a_csv=ROWS.replace("train", "trian", 1)),
    "no training image": case(MANIFEST, "train", a_csv=ROWS.replace("train", "test")),
    "class outside the tree": case(
        f"{OWN} --dataset a.csv --taxonomy t.csv",
        "'oak'",
        t_csv="level1,level2\na,cat\n",
        a_csv=ROWS,
        oak_png=png(),
        cat_png=png(),
    ),
    "no such tree": case(f"{OWN} --dataset a.csv --taxonomy no", "no tree 'no'", a_csv=ROWS),
    "empty folder": case(f"{OWN} --dataset a", "no images", a__x_txt="x"),
    "image outside the classes": case(f"{OWN} --dataset a", "x.png", "class folder", a__x_png=png()),
    "broken parquet": case(f"{OWN} --dataset a.parquet", "a.parquet", a_parquet=b"PAR1 no"),
    "absent files": case(f"{RUN} --dataset cifar100 --data-dir empty", "cifar100", "empty", empty__x="x"),
    "size of a sheet": case("data show garden --size 0", "0"),
}

STREAMS = {
    "stream": case(f"{RUN} --stream no.csv", "no.csv"),
    "empty stream": case(STREAM, "s.csv", s_csv=""),
    "stream without rows": case(STREAM, "no rows", s_csv=COLUMNS),
    "columns": case(STREAM, "line 1", "image,level,label", s_csv="img,level,label\n0,1,0\n"),
    "image beyond the dataset": case(STREAM, "line 2", "4800", s_csv=COLUMNS + "4800,1,0\n"),
    "level 0 in a stream": case(STREAM, "line 2", "level '0'", s_csv=COLUMNS + "0,0,0\n"),
    "level beyond the tree": case(STREAM, "level '5'", s_csv=COLUMNS + "0,5,0\n"),
    "label beyond the tree": case(STREAM, "'cactus'", s_csv=COLUMNS + "0,1,cactus\n"),
    "label of another image": case(STREAM, "labels of the stream", s_csv=COLUMNS + "0,4,47\n"),
    "order of tasks": case(STREAM, "line 2", "tasks", s_csv="image,level,label,task\n0,1,0,1\n0,1,0,0\n"),
    "fraction": case(STREAM, "'1.5'", s_csv=COLUMNS + "1.5,1,0\n"),
    "bytes as a stream": case(SAVED, "s.stream", s_stream=b"\x00" * 64),
    "cut stream": case(SAVED, "s.stream", prepare=saved_stream(lambda b: b[:-9])),
    "stream of another version": case(
        SAVED,
        "format 7",
        "reads 1",
        prepare=saved_stream(lambda b: b.replace(b'\\"version\\": 1', b'\\"version\\": 7')),
    ),
    "stream of another tree": case(
        SAVED,
        "another tree",
        prepare=saved_stream(lambda b: re.sub(rb'(taxonomy\\": \\")....', rb"\1beef", b)),
    ),
}

RUNS = {
    "no folder": case("resume nowhere", "nowhere/config.json", "No such file"),
    "folder without a run": case("resume a", "a/config.json", a__x="x"),
    "config.json that is no JSON": case("resume a", "a/config.json is damaged", a__config_json="{"),
    "config.json that is a list": case("resume a", "a/config.json is damaged", "list", a__config_json="[]"),
    "config.json without anything": case("resume a", "a/config.json", "format None", a__config_json="{}"),
    "config.json without a config": case("resume a", "a/config.json", a__config_json='{"format": 1}'),
    "run of another format": case(
        "resume out --own-code", "format 9", "reads 1", prepare=about(lambda v: v.update(format=9))
    ),
    "run with an unknown field": case(
        "resume out --own-code", "no field 'colour'", prepare=about(lambda v: v["config"].update(colour=1))
    ),
    "run with another field": case(
        "resume out --own-code",
        "memory_size was 30 and is 9",
        prepare=about(lambda v: v["config"].update(memory_size=9)),
    ),
    "run without its circumstances": case(
        "resume out --own-code", "out/config.json", prepare=about(lambda v: v.pop("machine"))
    ),
    "run with strange threads": case(
        "resume out --own-code",
        "threads is 1099511627776",
        prepare=about(lambda v: v["machine"].update(threads=2**40)),
    ),
    "run with threads of another type": case(
        "resume out --own-code", "machine.threads", prepare=about(lambda v: v["machine"].update(threads="x"))
    ),
    "run with a strange interval": case(
        "resume out --own-code",
        "execution.checkpoint_every",
        prepare=about(lambda v: v["execution"].update(checkpoint_every="x")),
    ),
    "run with a strange data folder": case(
        "resume out --own-code",
        "execution.data_dir",
        prepare=about(lambda v: v["execution"].update(data_dir=5)),
    ),
    "no whole checkpoint": case(
        "resume out --own-code", "no checkpoint is whole", "--force", prepare=cut_checkpoints
    ),
    "another config": case(f"{RUN} --resume", "config.memory_size was 30", prepare=unfinished),
    "unfinished run": case(RUN, "unfinished run", "--resume", "--force", prepare=unfinished),
    "finished run": case(RUN, "finished run", "--force", prepare=finished),
    "resume with a strange device": case("resume out --own-code --device tpu", "tpu", prepare=unfinished),
    "resume with no thread": case("resume out --own-code --threads 0", "threads is 0", prepare=unfinished),
    "run that names code": case("resume out", "tiny_runs:network", "--own-code", prepare=unfinished),
    "predict with no model": case("predict nowhere x.png", "nowhere"),
    "predict with a broken model": case("predict a x.png", "a", a__learner_safetensors=b"no", x_png=png()),
    "describe a broken model": case("describe a", "a", a__learner_safetensors=b"no"),
    "learn from nothing": case("learn no.csv --out model", "no.csv"),
    "learn without columns": case("learn a.csv --out model", "a.csv", "path", a_csv="x\ny\n"),
    **{
        f"learn with {setting[:40]}": case(f"{LEARN} --set {setting}", *says, a_csv="path,label,level\n")
        for setting, *says in (
            ("device=5", "--set: no field 'device'"),
            ("taxonomy=5", "--set: no field 'taxonomy'"),
            ("mean=5", "--set: no field 'mean'"),
            ("batch_sise=5", "did you mean 'batch_size'?"),
            ("network=5 --set network.width=1", "network is 5"),
            ("network.width=1 --set network=5", "network is 5"),
            ("lr=" + "[" * 100_000, "lr is '[["),
            ("lr=1" + "0" * 400, "lr is 1000"),
            ("lr=0", "lr is 0"),
        )
    },
    "learn and save before now": case(f"{LEARN} --save-every -1", "--save-every is -1", a_csv="x"),
    "learn and save at no time": case(f"{LEARN} --save-every nan", "--save-every is nan", a_csv="x"),
    "learn by an unknown method": case(
        "learn a.csv --out model --method ear", "ear", a_csv="path,label,level\n"
    ),
}

LONG = "a" * 300  # longer than a name may be
ENVIRONMENT = {
    **{
        f"name too long: {command.split()[0]}": case(f"{command}{LONG}", "File name too long")
        for command in (
            f"{RUN} --out ",
            "describe ",
            "report ",
            "export ",
            "taxonomy show ",
            "data check ",
            "compare --methods er --preset quick --out ",
        )
    },
    "name too long: predict": case(f"predict {LONG} x.png", "File name too long"),
    "folder that is a file": case(RUN, "out cannot be written", "File exists", out="x"),
    "folder below a file": case(RUN.replace("--out out", "--out a/out"), "a/out", "Not a directory", a="x"),
    "no right to make the folder": case(RUN.replace("--out out", "--out /proc/out"), "/proc/out"),
    "data folder that is a file": case(f"{RUN} --dataset cifar100 --data-dir a", "a", a="x"),
    "report into a folder that is a file": case("report out --out a/b.html", "a", a="x", prepare=finished),
}
if not torch.cuda.is_available():
    ENVIRONMENT["no such device"] = case(f"{RUN} --device cuda", "'cuda' is not available", "cpu")

CASES = {
    f"{area}: {name}": found
    for area, table in (
        ("command line", COMMAND_LINES),
        ("config", CONFIGS),
        ("tree", TREES),
        ("images", IMAGES),
        ("stream", STREAMS),
        ("run", RUNS),
        ("environment", ENVIRONMENT),
    )
    for name, found in table.items()
}


def everything(place: Path) -> dict[str, bytes | None]:
    """All folders and files below one, but locks, which say nothing."""
    paths = (path for path in place.rglob("*") if not path.name.startswith(".lock"))
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gives_one_line_and_changes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = CASES[name]
    monkeypatch.chdir(tmp_path)
    for path, text in chosen.files:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    if chosen.prepare is not None:
        chosen.prepare(tmp_path)
    before = everything(tmp_path)
    capsys.readouterr()
    code = main(chosen.argv.split())
    said = capsys.readouterr()
    assert code == 2, said.err
    assert said.err.startswith("ramify: error: ")
    assert said.err.count("\n") == 1, said.err
    assert said.out == ""
    for words in chosen.says:
        assert words in said.err
    assert everything(tmp_path) == before


def test_there_are_at_least_sixty() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", ["command line: method", "run: folder without a run"])
def test_a_process_of_its_own_says_the_same(name: str, tmp_path: Path) -> None:
    for path, text in CASES[name].files:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    command = [sys.executable, "-m", "ramify", *CASES[name].argv.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("ramify: error: ")


def test_a_full_disk_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(tmp_path)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this user cannot mount a file system")
    try:
        assert main(RUN.replace("--out out", f"--out {tmp_path}/out").split()) == 2
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    said = capsys.readouterr().err.splitlines()[-1]
    assert "cannot be written" in said
    assert "No space left on device" in said
