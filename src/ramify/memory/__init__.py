"""One store of images, and the policies that say what to keep."""

from ramify.memory.importance import Importance
from ramify.memory.importance_policies import LeastImportant, PseudoLabel
from ramify.memory.policies import Balanced, Everything, Examination, Policy, Reservoir, Update
from ramify.memory.store import Memory

__all__ = [
    "Balanced",
    "Everything",
    "Examination",
    "Importance",
    "LeastImportant",
    "Memory",
    "Policy",
    "PseudoLabel",
    "Reservoir",
    "Update",
]
