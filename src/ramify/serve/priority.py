"""Threads that let others go first."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress


def step_back(by: int = 10) -> None:
    """Let the system prefer all other threads to this one, where threads have priorities of their own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), by)
