"""What a training batch is made of."""

from ramify.rehearsal.batch import Arrival, Batch, arrived, stored
from ramify.rehearsal.rehearsals import (
    Flexible,
    HalfAndHalf,
    Learning,
    MemoryOnly,
    MostInterfered,
    Nothing,
    Rehearsal,
    StreamOnly,
)

__all__ = [
    "Arrival",
    "Batch",
    "Flexible",
    "HalfAndHalf",
    "Learning",
    "MemoryOnly",
    "MostInterfered",
    "Nothing",
    "Rehearsal",
    "StreamOnly",
    "arrived",
    "stored",
]
