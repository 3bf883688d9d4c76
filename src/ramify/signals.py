"""Being stopped by a signal: noted until there is a good place to stop, or at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the work before its end; `code` is the exit code that says so."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)  # both, so that it can cross from one process to another
        self.number, self.code = number, 128 + number

    def __str__(self) -> str:
        return str(self.args[1])


@contextmanager
def hearing(hear: Callable[[int], None]) -> Iterator[None]:
    """Call `hear` with SIGINT and SIGTERM, also where a shell made its background jobs deaf to SIGINT.

    Signals come to the main thread; in any other this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        hear(number)

    before = {number: signal.signal(number, handler) for number in NUMBERS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def interrupted() -> AbstractContextManager[None]:
    """While it lasts, SIGINT and SIGTERM raise `Stopped` at once."""

    def stop(number: int) -> None:
        raise Stopped(number, "interrupted")

    return hearing(stop)


class Listening:
    """While it lasts, SIGINT and SIGTERM are only noted; a second one raises `Stopped` at once.

    `words` completes what the user is told: what is left, how to go on.
    """

    def __init__(self, words: Callable[[str], str] = str) -> None:
        self._words = words
        self._number: int | None = None
        self._handlers = ExitStack()

    def heard(self) -> bool:
        """Whether a signal has come."""
        return self._number is not None

    def refuse(self, message: str) -> None:
        """Raise what tells the shell of the signal, if one has come."""
        if self._number is not None:
            raise Stopped(self._number, self._words(message))

    def _hear(self, number: int) -> None:
        self.refuse("stopped at once")
        self._number = number

    def __enter__(self) -> Listening:
        self._handlers.enter_context(hearing(self._hear))
        return self

    def __exit__(self, *why: object) -> None:
        self._handlers.close()
