"""A study in one file: JSON Lines, a line for each finished run, read like a folder with a folder for each.

The first line names the study and holds the label trees; a run refers to its tree by a digest. What a folder
holds can be had back to the byte; what was published before stays as it is when more runs are added.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from typing import IO, Any

from ramify.errors import RamifyError
from ramify.files import check_format, fitting, json_text, read_json, write_atomic
from ramify.runs.config import read_config
from ramify.runs.files import RunFiles
from ramify.sweeps.study import StudyRun

FORMAT = 1
MAGIC = '{"ramify":"runs",'  # how the first line begins
_BEGINS = re.compile(rb'\{\s*"ramify"\s*:\s*"runs"\s*,')  # other programs put spaces there
SUFFIX = ".jsonl"
FILES = ("records.jsonl", "result.json", "taxonomy.csv", "config.json")  # a run is there when its config is
_NAME = re.compile(r"[A-Za-z0-9+][A-Za-z0-9.+-]*")
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/:\"]+/)+")  # of an absolute path

RunLine = dict[str, Any]
"""A run: `run` is its name, `tree` the digest of its tree, and `config`, `result`, `records` what its files
hold."""


@dataclass(frozen=True, eq=False)
class Archive:
    """What such a file holds."""

    study: str
    trees: Mapping[str, str]  # digest -> taxonomy.csv
    runs: Mapping[str, RunLine]

    def read(self, name: str, file: str) -> bytes:
        """A file of a run."""
        run = self.runs[name]
        if file == "taxonomy.csv":
            text = self.trees[run["tree"]]
        elif file == "records.jsonl":
            text = "".join(f"{json.dumps(record)}\n" for record in run["records"])
        else:
            text = json_text(run[file.removesuffix(".json")])
        return text.encode()

    def study_json(self) -> str:
        """The study.json of the folder."""
        return json_text({"format": 1, "name": self.study, "runs": list(self.runs)})


@dataclass(frozen=True)
class Packed(Traversable):
    """The archive, a run in it or a file of a run (what is not there, too), where paths are expected."""

    path: Path
    archive: Archive
    parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.parts[-1] if self.parts else self.path.name

    def __str__(self) -> str:
        return str(self.path.joinpath(*self.parts))

    def joinpath(self, *descendants: str | PathLike[str]) -> Packed:
        """A run, or a file of it."""
        return Packed(self.path, self.archive, (*self.parts, *map(str, descendants)))

    def __truediv__(self, child: str | PathLike[str]) -> Packed:
        return self.joinpath(child)

    def iterdir(self) -> Iterator[Packed]:
        """The runs, or the files of one."""
        yield from map(self.joinpath, FILES if self.parts else self.archive.runs)

    def is_dir(self) -> bool:
        """Whether this is the archive or a run in it."""
        return len(self.parts) < 2 and self.archive.runs.keys() >= set(self.parts)

    def is_file(self) -> bool:
        """Whether this is a file of a run that is there."""
        return len(self.parts) == 2 and self.parts[0] in self.archive.runs and self.parts[1] in FILES

    def read_bytes(self) -> bytes:
        """What the file holds."""
        if not self.is_file():
            raise FileNotFoundError(2, "no such file in the archive", str(self))
        return self.archive.read(*self.parts)

    def read_text(self, encoding: str | None = None) -> str:
        """What the file holds, as text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
        """The file, to be read."""
        return io.BytesIO(self.read_bytes()) if "b" in mode else io.StringIO(self.read_text())


def open_runs(path: str | Path) -> Traversable:
    """A folder as it is; a file as the archive that it must be."""
    path = Path(path)
    if not path.is_file():
        return path
    status = path.stat()
    return Packed(path, _read(path, status.st_mtime_ns, status.st_size))


def is_archive(path: Path) -> bool:
    """Whether a file says of itself that it is an archive of runs."""
    try:
        with path.open("rb") as file:
            return _BEGINS.match(file.read(4 * len(MAGIC))) is not None
    except OSError:
        return False


def folder_beside(path: Path) -> Path:
    """Where what is made of runs goes: into their folder, or one with the name of their archive."""
    return path.with_suffix("") if path.is_file() else path


def publish(runs: Path, to: Path) -> tuple[int, int]:
    """Add the finished runs of a folder to an archive, or begin one; how many are new, how many replaced.

    Weights, answers and the folders of this machine stay behind. A run has the name that follows from its
    config, and the place that it has in its study.
    """
    results = [runs / "result.json"] if (runs / "config.json").is_file() else runs.glob("*/result.json")
    finished = sorted(path.parent for path in results if path.is_file())
    if not finished:
        raise RamifyError(f"no finished run in {runs}: give the folder of a run, or that of a study")
    listed = runs / "study.json"
    study = read_json(listed) if listed.is_file() else {"name": to.stem, "runs": []}
    with fitting(listed):
        name, order = str(study["name"]), list(map(str, study["runs"]))
    before = _opened(to) if to.exists() else Archive(name, {}, {})
    trees, lines = dict(before.trees), dict(before.runs)
    for run in finished:
        line, tree = _line(run)
        trees[line["tree"]] = tree
        lines[line["run"]] = line
    names = [*(n for n in lines if n not in order), *(n for n in order if n in lines)]
    used = {digest: trees[digest] for digest in sorted({line["tree"] for line in lines.values()})}
    _write(to, Archive(before.study, used, {n: lines[n] for n in names}))
    new = lines.keys() - before.runs.keys()
    return len(new), sum(lines[n] != line for n, line in before.runs.items())


def unpack(archive: Path, out: Path) -> tuple[int, int]:
    """Write the runs of an archive as folders; how many were written, and how many were there already."""
    packed = _opened(archive)
    written = 0
    for name in packed.runs:
        if not (out / name / "config.json").exists():
            for file in FILES:
                write_atomic(out / name / file, packed.read(name, file))
            written += 1
    if not (out / "study.json").exists():
        write_atomic(out / "study.json", packed.study_json())
    return written, len(packed.runs) - written


def _line(folder: Path) -> tuple[RunLine, str]:
    """A run as a line, and its tree."""
    run = RunFiles(folder)
    about, _, _ = read_json(folder / "config.json"), run.records(), run.result()  # what is damaged is refused
    name = _name(about, str(folder / "config.json"))
    with fitting(folder):
        tree = (folder / "taxonomy.csv").read_bytes().decode()
        line = {
            "run": name,
            "tree": _digest(tree),
            "config": json.loads(_FOLDERS.sub("", json.dumps(about))),
            "result": read_json(folder / "result.json"),
            "records": list(map(json.loads, (folder / "records.jsonl").read_bytes().splitlines())),
        }
    return line, tree


def _write(path: Path, archive: Archive) -> None:
    head = {"ramify": "runs", "format": FORMAT, "study": archive.study, "trees": dict(archive.trees)}
    lines: Iterable[Mapping[str, Any]] = (head, *archive.runs.values())
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    assert text.startswith(MAGIC)
    write_atomic(path, text)


def _opened(path: Path) -> Archive:
    packed = open_runs(path)
    if not isinstance(packed, Packed):
        raise RamifyError(f"{path} is not a file: give an archive of runs, as `ramify publish` writes it")
    lines = [line | {"run": _name(line["config"], str(path))} for line in packed.archive.runs.values()]
    return replace(packed.archive, runs={line["run"]: line for line in lines})


def _name(about: RunLine, where: str) -> str:
    """The name that follows from a run's config today: it may have been given when other defaults held."""
    return StudyRun(read_config(about.get("config"), where)).name


@functools.lru_cache(maxsize=8)
def _read(path: Path, _changed: int, _size: int) -> Archive:
    if not is_archive(path):
        raise RamifyError(f"{path} is not an archive of runs: give one, or the folder of a run or of several")
    head, *lines = [_parsed(line, path, n) for n, line in enumerate(path.read_bytes().splitlines(), 1)]
    check_format(head.get("format"), path, FORMAT)
    trees, runs = head.get("trees"), dict[str, RunLine]()
    if not isinstance(head.get("study"), str) or not isinstance(trees, dict):
        raise RamifyError(f"{path} line 1 is damaged: it must have the study's name and the trees")
    for digest, tree in trees.items():
        if not isinstance(tree, str) or _digest(tree) != digest:
            raise RamifyError(f"{path} line 1 is damaged: the tree {digest:.20} is not what it was")
    kinds = {"run": str, "tree": str, "config": dict, "result": dict, "records": list}
    for number, line in enumerate(lines, 2):
        strange = [key for key, kind in kinds.items() if not isinstance(line.get(key), kind)]
        if strange or not _NAME.fullmatch(line["run"]) or line["tree"] not in trees or line["run"] in runs:
            what = strange[0] if strange else "tree" if line["tree"] not in trees else "run"
            raise RamifyError(f"{path} line {number} is damaged: no usable {what!r}; take it out")
        runs[line["run"]] = line
    return Archive(head["study"], trees, runs)


def _parsed(line: bytes, path: Path, number: int) -> RunLine:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RamifyError(f"{path} line {number} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise RamifyError(f"{path} line {number} is damaged: it holds no table")
    return values


def _digest(tree: str) -> str:
    return hashlib.sha256(tree.encode()).hexdigest()[:12]
