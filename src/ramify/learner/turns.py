"""Turns between the thread that learns and those that ask."""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """A lock in order of arrival, whose holder can let those who wait go first and then go on.

    A plain lock that is released and taken again at once is hardly ever obtained by another thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the first has the turn

    def __enter__(self) -> None:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            try:
                self._changed.wait_for(lambda: self._queue[0] is ticket)
            except BaseException:  # interrupted while it waited: nobody may wait for it
                self._queue.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()

    def give_way(self) -> None:
        """Let each of those who wait now have one turn; call it only while holding the turn."""
        if len(self._queue) > 1:
            self.__exit__()
            try:
                self.__enter__()
            except BaseException:  # the caller still believes that it has the turn
                self.__enter__()
                raise
