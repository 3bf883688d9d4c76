"""Metrics as pure functions, and any-time evaluation."""

from ramify.evaluation.hierarchical import BUILT_IN

__all__ = ["BUILT_IN"]
