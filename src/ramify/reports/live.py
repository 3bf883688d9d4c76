"""The live page: the report of runs in progress, served to this machine's browser."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.errors import RamifyError
from ramify.reports.data import RunData, failure_in, find_failed, find_runs, load_run
from ramify.reports.html import content_policy, document, view
from ramify.reports.markup import Markup, el, join
from ramify.reports.series import scenarios
from ramify.sweeps.archive import Packed
from ramify.sweeps.jobs import ERRORS

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Endpoint = Callable[[Request], Awaitable[Response]]

LOOK_EVERY = 1.0  # seconds between looks at the folder
HEARTBEAT = 15.0  # seconds after which a silent stream says that it is still there
TOKEN = re.compile(r"(?<=token=)[^&\s]+", re.I)
LOCAL = ("127.0.0.1", "localhost", "[::1]")
FILES = ("config.json", "records.jsonl", "result.json", "taxonomy.csv", ERRORS)

Stamp = tuple[tuple[str, int, int], ...]


class LiveRuns:
    """All runs below a folder, read again only where something has changed. Nothing outside it is read."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise RamifyError(f"{root} is not a folder: give the folder that runs are written below")
        self.root = root
        self._runs: dict[Path | Packed, tuple[Stamp, RunData | str]] = {}
        self._page: tuple[Stamp, Markup] | None = None
        self._lock = threading.Lock()

    def stamp(self) -> Stamp:
        """Changes when any run does."""
        return tuple(entry for path in (*self._paths(), *find_failed(self.root)) for entry in _stamp(path))

    def view(self) -> Markup:
        """Progress, tables and curves of all runs."""
        with self._lock:
            stamp = self.stamp()
            if self._page is None or self._page[0] != stamp:
                self._page = (stamp, self._render())
            return self._page[1]

    def _paths(self) -> list[Path | Packed]:
        return find_runs([self.root], within=self.root)

    def _render(self) -> Markup:
        found = {path: self._load(path) for path in self._paths()}
        runs = [run for run in found.values() if isinstance(run, RunData)]
        broken = [
            el("p", f"{path.name}: {why}", class_="faint")
            for path, why in found.items()
            if isinstance(why, str)
        ]
        failed = self._failed()
        if not runs:
            text = f"No run below {self.root} has begun yet; this page shows it when one does."
            return el("main", failed, el("p", text), *broken)
        top = None if failed is None else el("header", failed)
        return join([top, view(scenarios(runs), live=True), el("footer", *broken) if broken else None])

    def _failed(self) -> Markup | None:
        """Runs that failed before they had begun: there is nothing else to show of them."""
        found = {path: why for path in find_failed(self.root) if (why := failure_in(path)) is not None}
        if not found:
            return None
        items = [
            el("div", el("b", path.name), el("div", f"failed: {why}", class_="warn"), class_="run")
            for path, why in found.items()
        ]
        return join([el("h3", "Failed before they had begun"), el("div", *items, class_="runs")])

    def _load(self, path: Path | Packed) -> RunData | str:
        stamp = _stamp(path)
        known = self._runs.get(path)
        if known is None or known[0] != stamp:
            try:
                run = load_run(path)
                _ = run.answers  # read now, while what is damaged can still be told
                known = (stamp, run)
            except RamifyError as error:
                known = (stamp, str(error))
            self._runs[path] = known
        return known[1]


def _stamp(path: Path | Packed) -> Stamp:
    entries = []
    for file in (path.path,) if isinstance(path, Packed) else (path / name for name in FILES):
        try:
            state = file.stat()
        except OSError:
            continue
        entries.append((str(file), state.st_mtime_ns, state.st_size))
    return tuple(entries)


def allowed_hosts(host: str) -> tuple[str, ...]:
    """The names under which the page may be asked for: this machine's own, and the one it was told."""
    return () if host in ("0.0.0.0", "::") else (*LOCAL, host.lower())


def admits(hosts: tuple[str, ...], header: str) -> bool:
    """Whether a request's Host header names this server; a page of another site cannot pose as it (DNS)."""
    name, colon, port = header.lower().rpartition(":")
    return not hosts or (name if colon and port.isdecimal() else header.lower()) in hosts


def make_app(root: Path, hosts: tuple[str, ...] = LOCAL) -> Starlette:
    """The application; requests for a host that is not in `hosts` are refused (no hosts: any may ask).

    Its event streams end when `app.state.closing()` says so.
    """
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import HTMLResponse, PlainTextResponse, StreamingResponse
        from starlette.routing import Route
    except ImportError:
        raise RamifyError("the live page needs the extra `watch`: pip install 'ramify[watch]'") from None
    folder = LiveRuns(root)
    headers = {
        "Content-Security-Policy": content_policy(live=True),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }

    async def page(request: Request) -> Response:
        state = el("p", "connecting", id="state", class_="faint", role="status")
        head = el("header", el("h1", f"ramify watch {root}"), state)
        shown = el("div", await run_in_threadpool(folder.view), id="view")
        return HTMLResponse(document("ramify watch", join([head, shown]), live=True), 200, headers)

    async def fragment(request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(folder.view), 200, headers)

    async def events(request: Request) -> Response:
        return StreamingResponse(
            _changes(folder, request.app.state.closing), 200, headers, "text/event-stream"
        )

    def checked(answer: Endpoint) -> Endpoint:
        async def check(request: Request) -> Response:
            if admits(hosts, request.headers.get("host", "")):
                return await answer(request)
            return PlainTextResponse("this page is not served under that name\n", 403, headers)

        return check

    pages = {"/": page, "/view": fragment, "/events": events}
    app = Starlette(routes=[Route(path, checked(answer)) for path, answer in pages.items()])
    app.state.closing = lambda: False
    return app


async def _changes(folder: LiveRuns, closing: Callable[[], bool]) -> AsyncIterator[str]:
    """A message now, and whenever a run has changed."""
    from starlette.concurrency import run_in_threadpool

    last, silent = None, 0.0
    while not closing():
        stamp = await run_in_threadpool(folder.stamp)
        if stamp != last:
            last, silent = stamp, 0.0
            yield "data: changed\n\n"
        elif silent >= HEARTBEAT:
            silent = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(LOOK_EVERY)
        silent += LOOK_EVERY


def serve(root: Path, host: str = "127.0.0.1", port: int = 8765) -> None:
    """Serve the live page until interrupted."""
    app = make_app(root, allowed_hosts(host))
    server = make_server(app, host, port)
    server.run()


def without_token(record: logging.LogRecord) -> bool:
    """Take tokens out of the addresses in a line of the log; every line is written."""
    if isinstance(record.args, tuple):
        record.args = tuple(TOKEN.sub("…", one) if isinstance(one, str) else one for one in record.args)
    return True


def make_server(app: Starlette, host: str, port: int) -> uvicorn.Server:
    """A server that lets its event streams end before it does."""
    import uvicorn

    verbose = logging.getLogger("ramify").isEnabledFor(logging.DEBUG)
    settings = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,  # its lines go where ours go
        log_level="info" if verbose else "warning",
        ws="none",
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    logging.getLogger("uvicorn.access").addFilter(without_token)
    server = uvicorn.Server(settings)
    app.state.closing = lambda: server.should_exit
    return server
