"""Serve predictions over HTTP while the model goes on learning in the same process.

    python serve_while_learning.py                                          # the built-in garden
    python serve_while_learning.py --images cars64 --taxonomy stanford-cars --size 64
    curl --data-binary @photo.jpg http://127.0.0.1:8080/                     # ask at any moment

One thread learns from a stream, others answer: each answer comes from the model before or after an update,
never from the middle of one, and waits for one update at most.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image, UnidentifiedImageError

import ramify
from ramify.datasets import Dataset

LIMIT = 20_000_000  # bytes of one question


def handler(learner: ramify.Learner) -> type[BaseHTTPRequestHandler]:
    """Answers POSTed image files with the best label and its probability at each level, as JSON."""

    class Ask(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "0")
            try:
                if not length.isdecimal() or not 0 < int(length) <= LIMIT:
                    raise ramify.RamifyError(f"the body has {length} bytes; send one image file")
                image = Image.open(io.BytesIO(self.rfile.read(int(length))))
                answer = learner.predict([image], consistent=True)
                found = {
                    "samples": learner.samples,
                    "labels": answer[0],
                    "probabilities": {h: share(p[0]) for h, p in answer.probabilities.items()},
                }
                self.reply(200, found)
            except ramify.RamifyError as error:
                self.reply(400, {"error": str(error)})
            except (UnidentifiedImageError, Image.DecompressionBombError):
                self.reply(400, {"error": "the body is not an image that can be read; send one image file"})

        def reply(self, code: int, content: dict[str, object]) -> None:
            body = json.dumps(content, allow_nan=False).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing for each question."""

    return Ask


def share(probability: float) -> float | None:
    """A probability for JSON, which has no NaN: null where there is no answer at a level."""
    return None if math.isnan(probability) else round(float(probability), 4)


def stream(dataset: Dataset, samples: int) -> Iterator[tuple[np.ndarray, list[str], int]]:
    """(image, label, level) one after the other: a month of each level, coarse to fine."""
    tree, rng = dataset.taxonomy, np.random.default_rng(0)
    chosen = rng.permutation(len(dataset.train))[:samples]
    for level, part in enumerate(np.array_split(chosen, tree.depth), 1):
        for i in part:
            label = tree.names(level)[tree.leaf_to(level)[dataset.train.leaves[i]]]
            yield dataset.train.images[i : i + 1], [label], level


def main() -> None:
    """Serve and learn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", default="garden", help="a dataset's name, or a folder of class folders")
    parser.add_argument("--taxonomy", help="the tree of a flat folder: a file or a name")
    parser.add_argument("--size", type=int, default=32, help="side of the images")
    parser.add_argument("--samples", type=int, default=4800)
    parser.add_argument("--port", type=int, default=8080, help="0: any free one")
    parser.add_argument("--once", action="store_true", help="end when the stream is over")
    options = parser.parse_args()

    dataset = ramify.load_dataset(options.images, image_size=options.size, taxonomy=options.taxonomy)
    learner = ramify.Learner("pl-fms", image_size=options.size, memory_size=500)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler(learner))
    answering = threading.Thread(target=server.serve_forever, daemon=True)
    answering.start()
    print(f"ask at http://127.0.0.1:{server.server_port}/", flush=True)
    for image, label, level in stream(dataset, options.samples):
        learner.partial_fit(image, label, level)
        if learner.samples % 100 == 0:
            print(learner, flush=True)
    if not options.once:
        answering.join()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        main()
