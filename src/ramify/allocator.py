"""What glibc's malloc does with freed buffers: keep them for the next training step.

By default it hands a large buffer back to the system as soon as it is freed, and the next step gets a new
one, which the kernel must map and fill with zeros page by page. From 64×64 pixels on that is a good part of
a step's time (`ramify bench` shows the kernel's share), and it buys nothing: every step needs the same
buffers again.

Buffers above `KEPT` still go back at once: they are those of large evaluations, and keeping them as well
would raise the peak by a fifth and more, for holes between them cannot be filled.
"""

from __future__ import annotations

import ctypes
import os

KEPT = 32 * 2**20  # bytes; older versions of glibc refuse more
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
NEVER = -1
TUNED = ("trim_threshold", "top_pad", "mmap_threshold", "mmap_max")  # to set one changes how all work


def keep_buffers() -> bool:
    """Let this process keep what it frees; True where that was possible.

    Nothing is done where the C library is not glibc, or where the user has set malloc's thresholds in the
    environment, as MALLOC_TRIM_THRESHOLD_ and so on or in GLIBC_TUNABLES. It may be called again.
    """
    if not is_glibc() or chosen_by_user():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a process without a dynamic C library
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, KEPT)) and bool(mallopt(M_TRIM_THRESHOLD, NEVER))


def is_glibc() -> bool:
    """Whether this process uses the GNU C library (not musl, macOS or Windows)."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False


def chosen_by_user() -> bool:
    """Whether the environment says what malloc is to do."""
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return any(
        f"MALLOC_{name.upper()}_" in os.environ or f"glibc.malloc.{name}=" in tunables for name in TUNED
    )
