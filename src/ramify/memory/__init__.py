"""A store of declared columns, the policies that say what to keep, and the workbench that all parts share."""

from ramify.memory.batch import Batch, Sample, arrived
from ramify.memory.first_order import FirstOrder
from ramify.memory.importance import Importance, Probe, Sweep
from ramify.memory.importance_policies import LeastImportant, PseudoLabel
from ramify.memory.policies import Balanced, Everything, Nowhere, Policy, Reservoir, StoreFirst
from ramify.memory.store import Column, Memory
from ramify.memory.workbench import Forward, Workbench

__all__ = [
    "Balanced",
    "Batch",
    "Column",
    "Everything",
    "FirstOrder",
    "Forward",
    "Importance",
    "LeastImportant",
    "Memory",
    "Nowhere",
    "Policy",
    "Probe",
    "PseudoLabel",
    "Reservoir",
    "Sample",
    "StoreFirst",
    "Sweep",
    "Workbench",
    "arrived",
]
