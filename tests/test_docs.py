"""The documentation: every block of code and every command in it runs; the site is built without a warning.

A comment `<!-- test: … -->` on the line before a block tells this file `replace A with B` (a long block made
short), `given NAMES` (names that the text speaks of), or `skip: REASON`. Commands that take long are made
short by `SHORT`.
"""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ramify
from ramify.cli import COMMANDS, main
from ramify.methods import METHODS
from ramify.methods.checks import Toy, same, taught, weights
from ramify.methods.recipe import as_method

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"(?:<!-- test: (?P<note>[^\n]*?) -->\n)?```(?P<kind>python|sh|console)[^\n]*\n(?P<code>.*?)```", re.S
)
INDENTED = re.compile(r"(?:^    ramify .*\n)+", re.M)

SHORT = {  # command -> what is added to it; None: only its options are checked, against its help
    "run": ["--limit", "48", "--eval-images", "30", "--network.width", "0.1"],
    "compare": ["--plan"],
    "reproduce": ["--plan"],
    **dict.fromkeys(("sweep", "demo", "bench", "watch", "resume", "serve", "push")),
}
COLOURS = {"fruit": {"apple": (200, 20, 20), "pear": (150, 200, 20)}, "tools": {"hammer": (90, 90, 110)}}


@dataclass
class Block:
    kind: str
    code: str
    note: str


def blocks(page: Path) -> list[Block]:
    """Fenced blocks of Python and of commands, and indented commands, in order."""
    text = page.read_text("utf-8")
    found = [(m.start(), Block(m["kind"], m["code"], m["note"] or "")) for m in FENCE.finditer(text)]
    covered = [(m.start(), m.end()) for m in re.finditer(r"```.*?```", text, re.S)]
    for m in INDENTED.finditer(text):
        if not any(start <= m.start() < end for start, end in covered):
            found.append((m.start(), Block("sh", m.group(), "")))
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Where a reader may sit: a folder of photos, a tree, a manifest."""
    rows = ["path,label,level"]
    for parent, leaves in COLOURS.items():
        for leaf, colour in leaves.items():
            for i in range(10):
                path = tmp_path / "photos" / leaf / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                shade = tuple(min(255, part + 4 * i) for part in colour)
                Image.new("RGB", (20, 16), shade).save(path)
                rows.append(f"{leaf}/{i}.png,{parent if i < 5 else leaf},{1 if i < 5 else 2}")
    (tmp_path / "stream.csv").write_text("\n".join(rows) + "\n")
    tree = [f"{parent},{leaf}" for parent, leaves in COLOURS.items() for leaf in leaves]
    (tmp_path / "tree.csv").write_text("\n".join(["level1,level2", *tree]) + "\n")
    leaf = np.arange(60) % 3
    features = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32) + leaf[:, None]
    names = {
        "level1": np.array(["fruit", "fruit", "tools"])[leaf],
        "level2": np.array(["apple", "pear", "hammer"])[leaf],
    }
    np.savez(tmp_path / "features.npz", features=features, **names)
    for name in ("own_method", "own_setup"):
        (tmp_path / f"{name}.py").write_text((ROOT / "examples" / f"{name}.py").read_text())
        sys.modules.pop(name, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def given() -> dict[str, object]:
    photos = {leaf: [f"photos/{leaf}/{i}.png" for i in range(10)] for leaf in ("apple", "pear", "hammer")}
    images = [path for leaf in photos for path in photos[leaf][:5]]
    return {
        "images": images,
        "labels": ["fruit"] * 10 + ["tools"] * 5,
        "new_images": images,
        "new_labels": [leaf for leaf in photos for _ in range(5)],
        "photo": Image.new("RGB", (20, 16), (210, 30, 30)),
    }


def run_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line, comments=True)
    assert words[0] == "ramify"
    command, rest = words[1], words[2:]
    assert command in COMMANDS
    if command in SHORT and SHORT[command] is None:
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0
        told = capsys.readouterr().out
        assert all(word.split("=")[0] in told for word in rest if word.startswith("--")), line
        return
    assert main([command, *rest, *(SHORT.get(command) or [])]) == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_and_command_runs(page, desk, hasty, capsys):
    names: dict[str, object] = {}
    for block in blocks(page):
        code = block.code
        if block.note.startswith("skip: "):
            continue
        if block.note.startswith("replace "):
            for pair in block.note.removeprefix("replace ").split("; "):
                old, new = pair.split(" with ")
                assert old in code
                code = code.replace(old, new)
        elif block.note.startswith("given "):
            names |= {name: given()[name] for name in block.note.removeprefix("given ").split(", ")}
        else:
            assert not block.note, f"unknown note {block.note!r}"
        if block.kind == "python":
            if "--8<--" not in code:
                exec(compile(code, f"{page.name}", "exec"), names)
            continue
        for line in code.replace("\\\n", " ").splitlines():
            words = line.strip().removeprefix("$ ")
            if words.startswith("ramify "):
                run_command(words, capsys)
    capsys.readouterr()


def test_the_docs_write_out_the_pl_fms_that_is_registered():
    (code,) = (block.code for block in blocks(ROOT / "docs" / "own-method.md") if "def pl_fms(" in block.code)
    names: dict[str, object] = {}
    exec(compile(code, "own-method.md", "exec"), names)
    toy = Toy.stream(48)
    for own in ({}, {"fms": {"T": 3.0, "unit": "batches"}, "pl": {"exact": True, "but": "newcomer"}}):
        shown, registered = (taught(as_method(m), toy, **own) for m in (names["pl_fms"], METHODS["pl-fms"]))
        assert same(weights(shown), weights(registered))
    assert names["pl_fms"].__doc__ == METHODS["pl-fms"].build.__doc__


def test_pages_name_only_modules_and_names_that_exist():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for name in re.findall(r"(?:`|::: )(ramify(?:\.\w+)+)", page.read_text("utf-8")):
            found = pkgutil.resolve_name(name)
            assert found is not None, f"{page.name}: {name}"


def public_names() -> dict[str, object]:
    """All that `ramify` and the packages below it offer, but for modules, by name."""
    found: dict[str, object] = {}
    rooms = [f"ramify.{room.name}" for room in pkgutil.iter_modules(ramify.__path__) if room.ispkg]
    for name in ("ramify", *rooms):
        module = pkgutil.resolve_name(name)
        for one in getattr(module, "__all__", ()):
            found[f"{name}.{one}"] = getattr(module, one)
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def test_the_reference_shows_every_public_name_and_uses_it_in_an_example():
    pages = [page for page in PAGES if page.stem.startswith("reference")]
    text = "".join(page.read_text("utf-8") for page in pages)
    code = "".join(block.code for page in pages for block in blocks(page) if block.kind == "python")
    shown = {id(pkgutil.resolve_name(name)) for name in re.findall(r"^::: (\S+)", text, re.M)}
    names = public_names()
    assert len(names) > 100
    assert [name for name, value in names.items() if id(value) not in shown and name not in text] == []
    unused = [name for name in names if not re.search(rf"\b{name.rpartition('.')[2]}\b", code)]
    assert unused == []


def test_pages_name_only_commands_that_exist():
    for page in PAGES:
        for command in re.findall(r"`ramify ([a-z]+)", page.read_text("utf-8")):
            assert command in COMMANDS, f"{page.name}: ramify {command}"


def test_the_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) < 150
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_pages_name_only_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for page in (*PAGES, ROOT / "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:`|^ {4})make ([a-z]+)", page.read_text("utf-8"), re.M))
        assert named <= targets, page.name


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert "partial_fit" in (site / "reference" / "index.html").read_text("utf-8")
    notebook = (site / "notebooks" / "tutorial" / "index.html").read_text("utf-8")
    assert "data:image/png" in notebook
    assert 'href="../own-images/"' in notebook  # links between notebooks lead to pages
    words = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    assert any("LevelBalanced" in page["text"] for page in words if "notebooks/" in page["location"])
