"""What a training batch is made of."""

from ramify.rehearsal.rehearsals import Flexible, HalfAndHalf, MemoryOnly, Nothing, Rehearsal, StreamOnly

__all__ = ["Flexible", "HalfAndHalf", "MemoryOnly", "Nothing", "Rehearsal", "StreamOnly"]
