"""A process that serves one model until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ramify.errors import RamifyError
from ramify.learner import Learner
from ramify.learner.folder import ModelFolder
from ramify.reports.live import allowed_hosts, make_server
from ramify.serve.app import make_app
from ramify.serve.limits import Limits
from ramify.serve.service import Service
from ramify.signals import Listening

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    load: Callable[[], Learner],
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    limits: Limits | None = None,
    save_every: float = 60.0,
    keep: int = 500,
    idle: float | None = 1.0,
    ready: Callable[[Service], None] = lambda service: None,
) -> None:
    """Serve the model of a folder until SIGINT or SIGTERM; it is saved each `save_every` seconds and then.

    `load` is called when the folder is locked. Beyond this machine a token is needed.
    """
    if host not in LOOPBACK and not token:
        raise RamifyError(
            f"--host {host} opens the server to others, who could teach the model: give a --token"
        )
    folder = ModelFolder(model)
    with folder.locked(), Listening():  # uvicorn ends at a signal, then hands it on
        folder.clean()
        service = Service(load(), folder, limits, save_every, keep, idle)
        server = make_server(make_app(service, allowed_hosts(host), token), host, port)
        service.start()
        try:
            ready(service)
            server.run()
        finally:
            service.close()
