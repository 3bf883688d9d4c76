"""A stand-in of the Hugging Face hub: what its own client needs of its HTTP API to make a repository, commit
files to it (small ones in the commit, large ones as LFS objects) and fetch them again."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_of_the_tests"
COMMIT = "c" * 40


class Hub:
    """Repositories by name: their files, and whether they are private."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.commits: list[dict[str, Any]] = []
        self.objects: dict[str, bytes] = {}
        self.refuse: int | None = None  # with this status
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, value: Any = None, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value or {}).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def allowed(self) -> bool:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer({"error": "Invalid credentials"}, 401)
            return False
        if self.hub.refuse:
            self.answer({"error": "Forbidden"}, self.hub.refuse)
            return False
        return True

    def do_POST(self) -> None:
        hub, data = self.hub, self.body()
        if not self.allowed():
            return
        if self.path == "/api/repos/create":
            asked = json.loads(data)
            name = f"{asked['organization']}/{asked['name']}"
            if name in hub.files:
                self.answer({"error": "exists", "url": f"{hub.url}/{name}"}, 409)
                return
            hub.files[name] = {}
            hub.private[name] = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.answer({"url": f"{hub.url}/{name}", "name": name})
        elif self.path == "/api/validate-yaml":
            self.answer({"warnings": [], "errors": []})
        elif re.search("/preupload/main$", self.path):
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(data)["files"]
            ]
            self.answer({"files": modes})
        elif self.path.endswith(".git/info/lfs/objects/batch"):
            objects = [
                {**asked, "actions": {"upload": {"href": f"{hub.url}/lfs/{asked['oid']}", "header": {}}}}
                for asked in json.loads(data)["objects"]
            ]
            self.answer({"transfer": "basic", "objects": objects})
        elif found := re.fullmatch(r"/api/models/(.+)/commit/main", self.path):
            lines = [json.loads(line) for line in data.splitlines()]
            hub.commits.append(lines[0]["value"])
            for line in lines[1:]:
                value = line["value"]
                stored = (
                    hub.objects[value["oid"]]
                    if line["key"] == "lfsFile"
                    else base64.b64decode(value["content"])
                )
                hub.files[found[1]][value["path"]] = stored
            self.answer({"commitUrl": f"{hub.url}/{found[1]}/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.answer({"error": f"not in the stand-in: {self.path}"}, 404)

    def do_PUT(self) -> None:
        data, oid = self.body(), self.path.rpartition("/")[2]
        assert hashlib.sha256(data).hexdigest() == oid
        self.hub.objects[oid] = data
        self.answer()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if not self.allowed():
            return
        hub, path = self.hub, self.path.partition("?")[0]
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+", path):
            files = hub.files[found[1]].items()
            self.answer([{"type": "file", "path": n, "size": len(d), "oid": COMMIT} for n, d in files])
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
            name = found[1]
            siblings = [{"rfilename": file} for file in hub.files[name]]
            about = {"_id": "1", "id": name, "modelId": name, "private": hub.private[name], "sha": COMMIT}
            self.answer({**about, "siblings": siblings, "tags": [], "downloads": 0})
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            data = hub.files[found[1]][found[2]]
            tag = hashlib.sha256(data).hexdigest()
            self.answer(data, headers={"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT})
        else:
            self.answer({"error": f"not in the stand-in: {path}"}, 404)


@contextmanager
def running() -> Iterator[Hub]:
    """The stand-in, on a port of its own."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
