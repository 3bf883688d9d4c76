"""Edge lists: `parent,child`, with an optional column `level` (of the child)."""

from __future__ import annotations

from ramify.errors import RamifyError
from ramify.taxonomy.tree import Taxonomy

LevelName = tuple[int, str]  # (level, name); level 0 where the edge list does not say


def parse_edges(header: list[str], rows: list[list[str]], lines: list[int], name: str, pad: bool) -> Taxonomy:
    """The tree of an edge list.

    A class of level 1 has an empty parent, or occurs only as a parent. Without the column `level` a word
    names one node only; with it, the same word may stand at two levels. Leaves are numbered as they come.
    """
    column = {key: header.index(key) for key in header}
    parents: dict[LevelName, LevelName | None] = {}
    line_of: dict[LevelName, int] = {}
    for row, line in zip(rows, lines, strict=True):
        level = _level(row[column["level"]], name, line) if "level" in column else 0
        child, above = (level, row[column["child"]]), row[column["parent"]]
        if not child[1]:
            raise RamifyError(f"{name} line {line}: the child has no name: fill in the column `child`")
        if "level" in column and bool(above) == (level == 1):
            problem = (
                "a class of level 1 has no parent" if above else f"a class of level {level} needs a parent"
            )
            raise RamifyError(f"{name} line {line}: {problem}: mend the column `parent` or `level`")
        parent = (max(level - 1, 0), above) if above else None
        if child in parents:
            known = parents[child]
            problem = (
                "this edge is already there"
                if known == parent
                else f"{child[1]!r} has two parents, {known and known[1]!r} and {above!r}"
            )
            raise RamifyError(
                f"{name} line {line}: {problem} (see line {line_of[child]}): remove one of the two"
            )
        parents[child], line_of[child] = parent, line
    if not parents:
        raise RamifyError(f"{name} has no edges: the tree is empty, expected rows parent,child")
    inner = set(parents.values())
    for child, parent in parents.items():
        if parent is not None and parent not in parents and "level" in column:
            raise RamifyError(
                f"{name} line {line_of[child]}: add a row for {parent[1]!r} at level {parent[0]}"
            )
    _refuse_cycles(parents, line_of, name)
    leaves = [node for node in parents if node not in inner]
    paths = [[step[1] for step in reversed(_climb(leaf, parents))] for leaf in leaves]
    return Taxonomy.from_rows(paths, pad=pad, where=lambda i: f"{name} line {line_of[leaves[i]]}")


def _level(text: str, name: str, line: int) -> int:
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= 999:
        raise RamifyError(f"{name} line {line}: level {text!r} is not a number from 1")
    return int(text)


def _climb(node: LevelName, parents: dict[LevelName, LevelName | None]) -> list[LevelName]:
    path = [node]
    while (above := parents.get(path[-1])) is not None:
        path.append(above)
    return path


def _refuse_cycles(
    parents: dict[LevelName, LevelName | None], line_of: dict[LevelName, int], name: str
) -> None:
    safe: set[LevelName] = set()
    for start in parents:
        trail: dict[LevelName, None] = {}
        node: LevelName | None = start
        while node is not None and node not in safe:
            if node in trail:
                loop = list(trail)[list(trail).index(node) :]
                raise RamifyError(
                    f"{name} line {max(line_of[step] for step in loop)} closes a cycle "
                    f"({' < '.join(step[1] for step in (*loop, node))}): remove one of these edges, or add a "
                    "column `level` if two levels share a name"
                )
            trail[node] = None
            node = parents.get(node)
        safe.update(trail)
