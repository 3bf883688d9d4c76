"""Stopping at a good place when a signal comes."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from ramify.runs.checkpoint import Stopped


class Listening:
    """While it lasts, SIGINT and SIGTERM are only noted; a second one interrupts at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def heard(self) -> bool:
        """Whether a signal has come."""
        return self.number is not None

    def refuse(self, message: str) -> None:
        """Raise what tells the shell of the signal, if one has come."""
        if self.number is not None:
            raise Stopped(self.number, message)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            raise Stopped(number, "stopped at once; what was saved last is whole")
        self.number = number

    def __enter__(self) -> Listening:
        if threading.current_thread() is threading.main_thread():
            self._before = {n: signal.signal(n, self._hear) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
