"""What a training batch is made of."""

from ramify.rehearsal.batch import Batch, stored
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
    "Batch",
    "Flexible",
    "HalfAndHalf",
    "Learning",
    "MemoryOnly",
    "MostInterfered",
    "Nothing",
    "Rehearsal",
    "StreamOnly",
    "stored",
]
