"""A trial of `ramify serve`: killed (SIGKILL) again and again under load, it must lose and repeat nothing.

python tools/serve_kills.py [--kills 200] [--clients 8]

Clients teach samples, each under a key, and send a sample again until it is acknowledged, while the server is
killed at random moments and started again. In the end every sample must have been learned exactly once, in
the order of the journal, and weights, memory and generators must equal, to the bit, those of a learner that
was given the samples in this order and never stopped. Prints JSON; the exit code is 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from http.client import HTTPException
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import ramify
from serving import Process, ask, begun, image, query, reference, same


@dataclass(frozen=True)
class Trial:
    """What a trial has shown."""

    kills: int
    starting: int
    """Kills of a server that did not answer yet."""
    samples: int
    """Acknowledged."""
    sent: int
    """Requests that were made for them; those beyond the samples got no answer."""
    again: int
    """Of these, samples that were on the disk already when they came again."""
    learned: int
    """Samples that the model has learned in the end."""
    saves: int
    """Distinct states that the model was found in after a kill."""
    same: bool
    """Whether the model is equal to the bit to one that never stopped."""
    seconds: float


class Clients:
    """Threads that teach one sample after the other to whatever server there is."""

    def __init__(self, count: int) -> None:
        self.port: int | None = None
        self.numbers: dict[int, int] = {}  # sample -> its place in the journal
        self.sent = self.again = self._next = 0
        self._one, self._ending = threading.Lock(), False
        self._threads = [threading.Thread(target=self._teach, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Let each have its sample acknowledged, and end."""
        self._ending = True
        for thread in self._threads:
            thread.join()

    def _teach(self) -> None:
        while not self._ending:
            with self._one:
                sample, self._next = self._next, self._next + 1
            while (place := self._send(sample)) is None:
                time.sleep(0.01)
            self.numbers[sample] = place

    def _send(self, sample: int) -> int | None:
        port = self.port
        if port is None:
            return None
        with self._one:
            self.sent += 1
        try:
            status, answer = ask(port, "POST", query(sample, f"sample-{sample}"), image(sample))
        except (OSError, HTTPException, ValueError):  # killed on the way
            return None
        if status in (429, 503):
            return None
        assert status == 202, (status, answer)
        with self._one:
            self.again += answer["again"]
        return int(answer["number"])


def trial(folder: Path, kills: int, clients: int, seed: int = 0, longest: float = 1.0) -> Trial:
    """Kill a server so often, and compare."""
    draw, start = random.Random(seed), time.monotonic()
    starting, found = 0, set()
    options = ("--save-every", "0.2", "--idle", "0", "--queue", "64")
    with begun(folder / "model") as model:
        teaching = Clients(clients)
        for _ in range(kills):
            server = Process(model, *options)
            early = draw.random() < 0.1
            if not early:
                assert server.ready(), "the server did not come up"
                teaching.port = server.port
            else:
                starting += 1
            time.sleep(draw.uniform(0, longest))
            server.kill()
            teaching.port = None
            found.add(ramify.Learner.load(model, device="cpu").samples)
        server = Process(model, *options)
        assert server.ready()
        teaching.port = server.port
        teaching.finish()
        while server.ask("GET", "/health")[1]["waiting"]:
            time.sleep(0.05)
        assert server.stop() == 0
        learner = ramify.Learner.load(model, device="cpu")
    order = sorted(teaching.numbers, key=teaching.numbers.__getitem__)
    exact = sorted(teaching.numbers.values()) == list(range(1, len(order) + 1))
    return Trial(
        kills,
        starting,
        len(order),
        teaching.sent,
        teaching.again,
        learner.samples,
        len(found),
        exact and learner.samples == len(order) and same(learner, reference(order)),
        round(time.monotonic() - start, 1),
    )


def main(argv: list[str] | None = None) -> int:
    """Try it, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="sets the moments of the kills")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = trial(Path(folder), args.kills, args.clients, args.seed)
    print(json.dumps(asdict(found), indent=1))
    return 0 if found.same else 1


if __name__ == "__main__":
    sys.exit(main())
