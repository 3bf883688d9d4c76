"""What a training batch is made of."""

from ramify.rehearsal.rehearsals import (
    ArrivalsOnly,
    Flexible,
    HalfAndHalf,
    MemoryOnly,
    Nothing,
    Rehearsal,
    Spread,
    StreamOnly,
)

__all__ = [
    "ArrivalsOnly",
    "Flexible",
    "HalfAndHalf",
    "MemoryOnly",
    "Nothing",
    "Rehearsal",
    "Spread",
    "StreamOnly",
]
