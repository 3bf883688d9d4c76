"""What the command says on stderr: how much of it, and in which form."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

LOGGERS = ("ramify", "uvicorn")
LEVELS = {
    **dict.fromkeys(("-v", "--verbose"), logging.DEBUG),
    **dict.fromkeys(("-q", "--quiet"), logging.WARNING),
}


def take_level(argv: list[str]) -> tuple[list[str], int]:
    """The arguments without -v and -q, wherever they stand, and the level that the last of them asks for.

    >>> take_level(["run", "-q", "--method", "er"])
    (['run', '--method', 'er'], 30)
    """
    given = [LEVELS[word] for word in argv if word in LEVELS]
    return [word for word in argv if word not in LEVELS], given[-1] if given else logging.INFO


def tell(text: str) -> None:
    """What a command says beside its result: a line on stderr, none with -q."""
    logging.getLogger("ramify.cli").info("%s", text)


def warn(text: str) -> None:
    """What must be said, with -q, too."""
    logging.getLogger("ramify.cli").warning("%s", text)


class JsonLines(logging.Formatter):
    """One JSON object a line, for programs that gather logs."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message, and the trace of an error."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


class _Stderr(logging.Handler):
    """Lines on whatever stderr is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


@contextmanager
def on_stderr(level: int) -> Iterator[None]:
    """The library logs and prints nothing; the command shows what it logs."""
    handler, logs = _Stderr(), [logging.getLogger(name) for name in LOGGERS]
    before = [log.level for log in logs]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(level)
    try:
        yield
    finally:
        for log, old in zip(logs, before, strict=True):
            log.removeHandler(handler)
            log.setLevel(old)


def write_as(form: Literal["text", "json"]) -> None:
    """The form of all further lines of this command."""
    for handler in logging.getLogger(LOGGERS[0]).handlers:
        if isinstance(handler, _Stderr):
            handler.setFormatter(JsonLines() if form == "json" else None)
