"""The tree found in the model's own answers, and the ways to read an answer through a tree."""

from ramify.hierarchy.decode import DECODINGS, decode
from ramify.hierarchy.ties import Ties, ancestors_in, found_tree

__all__ = ["DECODINGS", "Ties", "ancestors_in", "decode", "found_tree"]
