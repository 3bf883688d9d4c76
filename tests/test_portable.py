"""What the package may import: nothing that only some systems have, and no room knows a later one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import ramify

SOURCE = Path(ramify.__file__).parent
HOUSE = SOURCE.parents[1] / "CONTRIBUTING.md"
POSIX_ONLY = set(
    "crypt curses fcntl grp nis ossaudiodev posix pty pwd readline resource spwd syslog termios tty".split()  # noqa: SIM905
)


def imports(tree: ast.AST, late: bool) -> Iterator[str]:
    """The modules that are imported with the module; with `late`, also those within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif late or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports(node, late)


def modules() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text("utf-8"))


def test_no_module_needs_posix_to_be_imported() -> None:
    met = {str(path): {name.partition(".")[0] for name in imports(tree, False)} for path, tree in modules()}
    assert len(met) > 100
    assert {path: names & POSIX_ONLY for path, names in met.items() if names & POSIX_ONLY} == {}


def test_the_walk_sees_whatever_is_imported_with_the_module() -> None:
    code = """
import fcntl
try:
    from termios import TCSANOW
except ImportError:
    pass
class A:
    if True:
        import pwd
def later():
    import resource
"""
    first, all_of_them = ({*imports(ast.parse(code), late)} for late in (False, True))
    assert first & POSIX_ONLY == {"fcntl", "termios", "pwd"}
    assert all_of_them & POSIX_ONLY == {"fcntl", "termios", "pwd", "resource"}


@pytest.mark.skipif(not HOUSE.exists(), reason="not in the project's own folder")
def test_no_import_runs_backwards() -> None:
    """In the order of the table in CONTRIBUTING.md; what lies outside of all rooms may be used by each."""
    rooms = [
        line.split("`")[1].rstrip("/") for line in HOUSE.read_text("utf-8").splitlines() if line[:3] == "| `"
    ]
    assert {*rooms} == {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    backwards = {}
    for path, tree in modules():
        if path.parts[0] in rooms:
            known = rooms[: rooms.index(path.parts[0]) + 1]
        else:  # a module that all share knows no room; the door of the package knows all
            known = rooms if path.name in ("__init__.py", "__main__.py") else []
        met = {name.split(".")[1] for name in imports(tree, late=True) if name.startswith("ramify.")}
        if met & {*rooms} - {*known}:
            backwards[str(path)] = met & {*rooms} - {*known}
    assert backwards == {}


def test_a_name_is_of_one_thing() -> None:
    """Classes and kinds of values: whoever reads one of their names knows which is meant."""
    homes: dict[str, set[str]] = {}
    for path, tree in modules():
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(str(path))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper():  # Pair = tuple[int, Any]
                    homes.setdefault(name, set()).add(str(path))
    assert len(homes) > 200
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
