"""A served learner for tests and for tools/serve_kills.py: its process, its samples, its reference."""

from __future__ import annotations

import http.client
import io
import json
import multiprocessing as mp
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import ramify
from ramify.cli import main
from ramify.learner.images import image_tensor

SIZE = 8
SMALL: dict[str, Any] = {
    "image_size": SIZE,
    "memory_size": 40,
    "network": {"name": "resnet18", "width": 0.05},
}
WORDS = {1: ("fruit", "tool"), 2: ("apple", "pear", "saw", "hammer")}


def image(number: int) -> bytes:
    """A little image of its own."""
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def labels(number: int) -> dict[int, str]:
    """One label or a whole path."""
    kind = number % 4
    path = {1: WORDS[1][kind // 2], 2: WORDS[2][kind]}
    return path if number % 3 == 0 else {1 + number % 2: path[1 + number % 2]}


def query(number: int, key: str | None = None) -> str:
    """The request that teaches a sample."""
    told = "&".join(f"label={label}&level={level}" for level, label in labels(number).items())
    return f"/learn?{told}" + (f"&key={key}" if key else "")


def reference(order: list[int]) -> ramify.Learner:
    """A learner that was taught the samples in this order, and never stopped."""
    torch.set_num_threads(1)  # as `Process` does: sums of two threads differ in their last bits
    learner = ramify.Learner("pl-fms", device="cpu", **SMALL)
    for number in order:
        picture = Image.open(io.BytesIO(image(number)))
        learner.partial_fit(image_tensor([picture], SIZE), [labels(number)])
    return learner


def same(one: ramify.Learner, other: ramify.Learner) -> bool:
    """Whether everything that the next update depends on is equal to the bit."""
    return _equal(*({**learner._trainer.state(), "cost": None} for learner in (one, other)))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if hasattr(one, "shape"):
        a, b = np.asarray(one), np.asarray(other)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(one == other)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Process:
    """`ramify serve` in a process of its own, on a port of its own; `log`: the file for what it says."""

    def __init__(self, model: Path, *options: str, log: Path | None = None) -> None:
        self.port = free_port()
        context = mp.get_context("forkserver")
        # What all of them need is imported once, in the process that they are forked from.
        context.set_forkserver_preload(["ramify.serve.server", "ramify.cli.serve", "scipy.stats"])
        command = ["serve", str(model), "--port", str(self.port), "--threads", "1", "--rate", "0", *options]
        self.process = context.Process(target=_serve, args=(command, log), daemon=True)
        self.process.start()

    def ready(self, seconds: float = 240.0) -> bool:
        """Wait until it answers, or has ended."""
        end = time.monotonic() + seconds
        while self.process.is_alive() and time.monotonic() < end:
            try:
                return self.ask("GET", "/health")[0] == 200
            except OSError:
                time.sleep(0.02)
        return False

    def ask(self, how: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """One request; status and JSON."""
        return ask(self.port, how, path, body, **headers)

    def kill(self) -> None:
        """As the kernel does when memory runs out."""
        self.process.kill()
        self.process.join()

    def stop(self, number: int = signal.SIGTERM) -> int | None:
        """Ask it to end; its exit code."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        self.process.join(240)
        return self.process.exitcode


def _serve(command: list[str], log: Path | None) -> None:
    if log is not None:
        with log.open("w") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
    os.fsync = os.fstat  # type: ignore[assignment]  # it is killed, the machine is not
    sys.exit(main(command))


def ask(
    port: int, how: str, path: str, body: bytes | None = None, raw: bool = False, **headers: str
) -> tuple[int, Any]:
    """One request to a port of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(how, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    return answer.status, content if raw or not content else json.loads(content)


@contextmanager
def begun(folder: Path) -> Iterator[Path]:
    """The folder of a model that knows nothing yet."""
    ramify.Learner("pl-fms", device="cpu", **SMALL).save(folder)
    yield folder
