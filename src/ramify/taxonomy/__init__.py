"""The label tree: levels, parents, children, paths, common ancestors; reading, checking and writing it."""

from ramify.taxonomy.nested import from_nested, read_folders
from ramify.taxonomy.read import builtin_trees, read_taxonomy
from ramify.taxonomy.tree import Taxonomy
from ramify.taxonomy.write import to_csv, to_edges, to_nested, write_folders, write_taxonomy

__all__ = [
    "Taxonomy",
    "builtin_trees",
    "from_nested",
    "read_folders",
    "read_taxonomy",
    "to_csv",
    "to_edges",
    "to_nested",
    "write_folders",
    "write_taxonomy",
]
