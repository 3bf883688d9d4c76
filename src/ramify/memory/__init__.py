"""One store of images, and the policies that say what to keep."""

from ramify.memory.first_order import FirstOrder
from ramify.memory.importance import Importance, Probe, Sweep
from ramify.memory.importance_policies import LeastImportant, PseudoLabel
from ramify.memory.policies import Balanced, Everything, Examination, Policy, Reservoir, Update
from ramify.memory.store import Memory

__all__ = [
    "Balanced",
    "Everything",
    "Examination",
    "FirstOrder",
    "Importance",
    "LeastImportant",
    "Memory",
    "Policy",
    "Probe",
    "PseudoLabel",
    "Reservoir",
    "Sweep",
    "Update",
]
