"""Code of one's own that ramify was told to import: a digest of its source, read and never run."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")


def source_digest(module: str) -> str | None:
    """A digest of a module's file and of what it imports from beside it; None where it has no file.

    Beside it is what lies below the folder that its outermost package or itself lies in; of an installed
    package that is the package alone.
    """
    file = _file(module)
    if file is None:
        return None
    names = module.split(".") if module != "__main__" else [file.stem]
    above = len(names) - (file.stem != "__init__")
    root = file.parents[above] if above < len(file.parents) else file.parent
    top = names[0] if any(part in INSTALLED for part in root.parts) else None
    digest = hashlib.sha256()
    for name, path in sorted(_reached(root, ".".join(names), file, top).items()):
        text = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def _file(module: str) -> Path | None:
    """The source file of a module, imported already or not."""
    there = getattr(sys.modules.get(module), "__file__", None)
    if there is None and module not in sys.modules:
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
        there = None if spec is None else spec.origin
    path = None if there is None else Path(there).resolve()
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _reached(root: Path, module: str, file: Path, top: str | None) -> dict[str, Path]:
    """The files below `root` that a module is made of, by their modules' names."""
    found, waiting = {module: file}, [module]
    while waiting:
        name = waiting.pop()
        for wanted in _imports(found[name], name):
            if wanted in found or wanted.split(".")[0] == "ramify" or top not in (None, wanted.split(".")[0]):
                continue
            path = _below(root, wanted)
            if path is not None:
                found[wanted] = path
                waiting.append(wanted)
    return found


def _below(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split("."))
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file() and not any(part in INSTALLED for part in file.relative_to(root).parts):
            return file
    return None


def _imports(file: Path, module: str) -> Iterator[str]:
    """Every module that a file may import, with the packages above each."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # the digest of its text is all that can be said
        return
    package = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            outer = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*outer, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
        for name in filter(None, names):
            parts = name.split(".")
            yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))
