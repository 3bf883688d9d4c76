"""How long answers of `ramify serve` take while it learns, beside those at rest.

python tools/serve_load.py [--clients 8] [--seconds 5] [--rounds 5] [--size 64]

Clients in a process of their own ask without pause over loopback; at rest and while samples are learned, by
turns, so that what else the machine does weighs on both alike. Prints p50 and p99 of both, and their ratio.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing as mp
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import ramify
from serving import Process

AHEAD = 30  # samples that wait to be learned, so that learning does not pause


def picture(size: int, seed: int) -> bytes:
    """A JPEG of noise, four times as large as the model's images."""
    pixels = np.random.default_rng(seed).integers(0, 256, (4 * size, 4 * size, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def asking(port: int, clients: int, size: int, orders: Any, times: Any) -> None:
    """Ask for so many seconds whenever told to, and give back how long each answer took."""
    images = [picture(size, seed) for seed in range(clients)]
    found: list[float] = []

    def client(body: bytes, end: float) -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        while (start := time.perf_counter()) < end:
            connection.request("POST", "/predict?keep=0", body)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
            found.append(time.perf_counter() - start)
        connection.close()

    for seconds in iter(orders.get, None):
        found.clear()
        end = time.perf_counter() + seconds
        threads = [threading.Thread(target=client, args=(body, end)) for body in images]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.put(list(found))


def measure(clients: int, seconds: float, rounds: int, size: int) -> dict[str, Any]:
    """Both by turns."""
    images = np.random.default_rng(0).integers(0, 256, (100, 3, size, size), np.uint8)
    context = mp.get_context("spawn")
    orders, times = context.Queue(), context.Queue()
    found: dict[str, list[float]] = {"rest": [], "learning": []}
    learned = 0
    with tempfile.TemporaryDirectory() as folder:
        learner = ramify.Learner("pl-fms", image_size=size, device="cpu")
        learner.partial_fit(images, [{1: f"a{i % 4}", 2: f"b{i % 20}"} for i in range(len(images))])
        learner.save(folder)
        server = Process(Path(folder))
        assert server.ready()
        askers = context.Process(target=asking, args=(server.port, clients, size, orders, times), daemon=True)
        askers.start()
        orders.put(1.0)
        times.get()  # warm
        state = lambda: server.ask("GET", "/health")[1]  # noqa: E731
        for _ in range(rounds):
            while state()["waiting"]:
                time.sleep(0.2)
            time.sleep(1.5)  # the last flush
            orders.put(seconds)
            found["rest"] += times.get()
            before = state()["samples"]
            teach(server, size, AHEAD)
            orders.put(seconds)
            while times.empty():
                teach(server, size, AHEAD - state()["waiting"])
                time.sleep(0.25)
            found["learning"] += times.get()
            learned += state()["samples"] - before
        orders.put(None)
        server.kill()
    table = {name: np.percentile(own, [50, 99]).round(4).tolist() for name, own in found.items()}
    ratio = {f"p{p}": round(table["learning"][k] / table["rest"][k], 2) for k, p in enumerate((50, 99))}
    counts = {name: len(own) for name, own in found.items()}
    return {"seconds at p50, p99": table, "ratio": ratio, "answers": counts, "samples learned": learned}


def teach(server: Process, size: int, count: int) -> None:
    """Send samples to be learned."""
    for i in range(count):
        answer = server.ask(
            "POST", f"/learn?label=a{i % 4}&level=1&label=b{i % 20}&level=2", picture(size, i)
        )
        assert answer[0] == 202, answer


def main(argv: list[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args(argv)
    found = measure(args.clients, args.seconds, args.rounds, args.size)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
