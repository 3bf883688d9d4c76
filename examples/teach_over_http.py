"""Teach a model through `ramify serve`, ask it, merge two labels and take that back.

    ramify serve model --new --image-size 32 &
    python teach_over_http.py --url http://127.0.0.1:8080                    # the built-in garden
    python teach_over_http.py --images cars64 --taxonomy stanford-cars --size 64

Each sample has a key, so that one whose answer was lost on the way can be sent again and is learned once.
"""

from __future__ import annotations

import argparse
import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image

import ramify


class Server:
    """The few requests that are needed."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self.headers = url.rstrip("/"), {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str, body: bytes | None = None, **query: Any) -> Any:
        """JSON from a door; patient where the queue is full or the server is being started again."""
        url = f"{self.url}{path}?{urllib.parse.urlencode(query, doseq=True)}"
        for attempt in range(60):
            request = urllib.request.Request(url, body, self.headers)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                told = json.load(error).get("error", error.reason)
                if error.code not in (429, 503):
                    raise SystemExit(f"{path}: {told}") from None
                time.sleep(float(error.headers.get("Retry-After", 1)))
            except urllib.error.URLError as error:
                if attempt > 10:
                    raise SystemExit(f"{self.url} does not answer: {error.reason}") from None
                time.sleep(1)
        raise SystemExit(f"{path}: the server stays busy")


def png(image: np.ndarray) -> bytes:
    """The bytes of an image file."""
    file = io.BytesIO()
    Image.fromarray(image.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


def main() -> None:
    """Teach, ask, merge, undo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--token")
    parser.add_argument("--images", default="garden", help="a dataset's name, or a folder of class folders")
    parser.add_argument("--taxonomy", help="the tree of a flat folder: a file or a name")
    parser.add_argument("--size", type=int, default=32, help="side of the images")
    parser.add_argument("--samples", type=int, default=400)
    options = parser.parse_args()

    dataset = ramify.load_dataset(options.images, image_size=options.size, taxonomy=options.taxonomy)
    server, tree = Server(options.url, options.token), dataset.taxonomy
    order = np.random.default_rng(0).permutation(len(dataset.train))[: options.samples]
    for i in order:
        path = tree.path(int(dataset.train.leaves[i]))
        told = {"label": path, "level": range(1, len(path) + 1)}
        server.ask("/learn", png(dataset.train.images[i]), key=f"train-{i}", **told)
    while waiting := server.ask("/health")["waiting"]:
        print(f"{waiting} samples wait to be learned", flush=True)
        time.sleep(1)
    right = 0
    for i in range(20):
        answer = server.ask("/predict", png(dataset.test.images[i]))
        right += answer["path"][0]["label"] == tree.path(int(dataset.test.leaves[i]))[0]
    print(f"{right} of 20 answers are right at level 1")
    first, second = (node["label"] for node in server.ask("/labels")["1"][:2])
    merging = {"edit": "merge", "level": 1, "labels": [first, second]}
    print("merged:", server.ask("/edit", json.dumps(merging).encode())["edit"], first, second)
    print("level 1 now:", [node["label"] for node in server.ask("/labels")["1"]])
    server.ask("/undo", b"")
    print("level 1 again:", [node["label"] for node in server.ask("/labels")["1"]])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C ends it
        main()
