"""The doors of a served learner: HTTP requests, who may make them, and their answers."""

from __future__ import annotations

import asyncio
import hmac
import json
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ramify.arrays import Pixels
from ramify.datasets.decode import BrokenImage, TooLarge, decode_image, quiet_pillow
from ramify.errors import RamifyError
from ramify.hierarchy import DECODINGS
from ramify.learner.labels import Label
from ramify.plural import counted
from ramify.reports.live import LOCAL, admits
from ramify.serve.answering import Asking
from ramify.serve.asked import image_name, png
from ramify.serve.commands import Edited, Taught
from ramify.serve.metrics import TYPE
from ramify.serve.openapi import described, parameters
from ramify.serve.pages import PAGES, POLICY, asset, sign_in
from ramify.serve.service import Service, as_json
from ramify.serve.teaching import Full, Receipt, TeachingStopped
from ramify.typed import no_field, shown

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from ramify.reports.live import Endpoint

COOKIE = "ramify_token"
PROBED = ("/health", "/metrics")  # by programs that may add parameters of their own
PATIENCE = 20.0  # seconds that an edit may take before its asker is told to look later
NEXT = 24  # images in the queue to label
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """A request that is not carried out: the status, and one line why."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


def make_app(service: Service, hosts: tuple[str, ...] = LOCAL, token: str | None = None) -> Starlette:
    """The application. Requests under a name that is not in `hosts`, or without `token`, are refused."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise RamifyError("the server needs the extra `serve`: pip install 'ramify[serve]'") from None
    doors = Doors(service)
    made: list[tuple[str, str, Endpoint]] = [
        ("POST", "/predict", doors.predict),
        ("POST", "/learn", doors.learn),
        ("GET", "/tree", doors.tree),
        ("GET", "/labels", doors.labels),
        ("GET", "/health", doors.health),
        ("GET", "/metrics", doors.metrics),
        ("GET", "/status", doors.status),
        ("GET", "/history", doors.history),
        ("POST", "/edit", doors.edit),
        ("POST", "/undo", doors.undo),
        ("GET", "/queue", doors.queue),
        ("GET", "/why", doors.why),
        ("GET", "/images/{name}", doors.image),
        ("DELETE", "/images/{name}", doors.drop),
        ("GET", "/openapi.json", doors.openapi),
        *(("GET", path, page(name)) for path, name in PAGES.items()),
    ]
    gate = Gate(service, hosts, token)
    return Starlette(
        routes=[Route(path, gate(path, one), methods=[how]) for how, path, one in made],
        exception_handlers={404: _no_door, 405: _no_door},
    )


async def _no_door(request: Request, error: Any) -> Response:
    """What is not described: another path, or another method."""
    path, headers = request.url.path, {**HEADERS, **(error.headers or {})}
    if error.status_code == 404:
        return failure(404, f"there is no {shown(path)} here; /api describes what there is", headers)
    allowed = " or ".join(sorted(set(headers["Allow"].split(", ")) - {"HEAD"}))
    return failure(405, f"{path} takes {allowed}, not {request.method}", headers)


class Gate:
    """Who may ask: the right name, the right token, no page of another site, not too often."""

    def __init__(self, service: Service, hosts: tuple[str, ...], token: str | None) -> None:
        self.service, self.hosts, self.token = service, hosts, token

    def __call__(self, path: str, endpoint: Endpoint) -> Endpoint:
        """An endpoint that is asked by those alone; its errors become answers, its times are noted."""
        known = None if path in PROBED else parameters(path)

        async def guarded(request: Request) -> Response:
            start, response = perf_counter(), None
            try:
                response = self.let_in(request) or await endpoint(_spelt(request, known))
            except Refused as error:
                response = failure(error.status, str(error), error.headers)
            except (TeachingStopped, TimeoutError) as error:
                response = failure(
                    503, str(error) or "not done in time; look again later", {"Retry-After": "10"}
                )
            except Full as error:
                response = failure(429, str(error), {"Retry-After": "5"})
            except RamifyError as error:
                response = failure(422, str(error))
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            self.service.requests.add(path, response.status_code, perf_counter() - start)
            return response

        return guarded

    def let_in(self, request: Request) -> Response | None:
        """Refuse, or let in; an answer of its own for those who have just shown their token."""
        host = request.headers.get("host", "")
        if not admits(self.hosts, host):
            raise Refused(403, "this server does not go by that name")
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "pages of other sites may not ask this server")
        asker = request.client.host if request.client else ""
        wait = self.service.rate_limit.wait(asker)
        if wait:
            rate = f"{self.service.limits.rate:g} requests a second are answered"
            raise Refused(429, f"{rate}; wait {wait:.2f} s", Retry_After=str(max(1, round(wait))))
        free = self.token is None or request.url.path.startswith("/assets/")
        return None if free else self._check(request, self.token or "")

    def _healthy(self) -> Response:
        """What anybody may know, for probes have no token: whether all is well, and nothing else."""
        well, facts = self.service.health()
        return _json({"status": facts["status"]}, 200 if well else 503)

    def _check(self, request: Request, token: str) -> Response | None:
        from starlette.responses import HTMLResponse, RedirectResponse

        given = request.query_params.get("token")
        if request.url.path == "/" and given is not None and _same(given, token):
            entered = RedirectResponse("/", 303)
            entered.set_cookie(COOKIE, token, httponly=True, samesite="strict", max_age=365 * 86400)
            return entered
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if _same(bearer, token) or _same(request.cookies.get(COOKIE, ""), token):
            return None
        if request.url.path == "/health":
            return self._healthy()
        if request.url.path == "/":
            return HTMLResponse(sign_in(wrong=given is not None), 401)
        raise Refused(
            401, "a token is needed: send the header Authorization: Bearer …", WWW_Authenticate="Bearer"
        )


def _spelt(request: Request, known: set[str] | None) -> Request:
    """The request, if all its parameters are known; a misspelt one would be passed over in silence."""
    if known is None:
        return request
    for name in request.query_params.keys() - known:
        raise Refused(400, str(no_field(f"{request.method} {request.url.path}", name, known, "parameter")))
    return request


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def failure(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    """One line of JSON that says what is wrong."""
    from starlette.responses import JSONResponse

    return JSONResponse({"error": " ".join(why.split())}, status, headers)


def page(name: str) -> Endpoint:
    """A file of the page."""
    from starlette.responses import Response

    async def endpoint(request: Request) -> Response:
        content, kind = asset(name)
        return Response(content, 200, media_type=kind)

    return endpoint


class Doors:
    """What each door does."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def predict(self, request: Request) -> Response:
        """The answer to one image."""
        way = _one(request, "decode") or "path"
        if way not in DECODINGS:
            raise Refused(400, f"decode is {way!r}; use one of {', '.join(DECODINGS)}")
        if not self.service.learner.samples and not self.service.learner.levels:
            raise Refused(409, "the model has learned nothing yet; teach it first: POST /learn")
        pixels = await self._pixels(request)
        asking = Asking(pixels, way, self._confidence(request))  # type: ignore[arg-type]
        answer = await asyncio.wrap_future(self.service.answering.ask(asking))
        if _one(request, "keep") != "0":
            self.service.asked.add(pixels, answer)
        return _json({"image": image_name(pixels)} | as_json(answer))

    def _confidence(self, request: Request) -> float | None:
        text = _one(request, "confidence")
        try:
            return None if text is None else float(text)
        except ValueError:
            raise Refused(400, f"confidence is {text!r:.20}; it is a number such as 0.9") from None

    async def learn(self, request: Request) -> Response:
        """Take an image with its labels; it is on the disk when this is answered."""
        labels = self._labels(request)
        pixels = await self._pixels(request)
        grows, corrects = (_one(request, name) in ("1", "true", "yes") for name in ("new", "correct"))
        what = Taught(pixels, labels, _one(request, "key"), grows, _one(request, "source"), corrects)
        receipt: Receipt = await asyncio.wrap_future(self.service.teaching.accept(what)[0])
        self.service.asked.drop(image_name(pixels))
        found = {"number": receipt.number, "ahead": receipt.ahead, "again": receipt.again}
        return _json(found | {"labels": {str(level): label for level, label in labels}}, 202)

    def _labels(self, request: Request) -> tuple[tuple[int, Label], ...]:
        names, levels = request.query_params.getlist("label"), request.query_params.getlist("level")
        if not names:
            raise Refused(400, "no label was given; say ?label=apple&level=2, or several of both")
        if levels and len(levels) != len(names):
            raise Refused(
                400, f"{counted(len(levels), 'level')} for {counted(len(names), 'label')}; give one each"
            )
        if any(not level.isdecimal() for level in levels):
            raise Refused(400, "a level is not a whole number; levels count from 1, the coarsest")
        return self.service.pairs(names, [int(level[:9]) for level in levels])

    async def _pixels(self, request: Request) -> Pixels:
        """The image of a request: its body, or one that was asked about before."""
        from starlette.concurrency import run_in_threadpool

        name = _one(request, "image")
        if name is not None:
            question = self.service.asked.find(name)
            if question is None:
                raise Refused(404, f"no image {name!r:.40} is kept any more; send the file")
            return question.pixels
        body = await self._body(request, "an image file")
        if request.headers.get("content-type", "").startswith("multipart/"):
            raise Refused(415, "the body is a form; send the file alone: curl --data-binary @photo.jpg")
        return await run_in_threadpool(self._decoded, body)

    async def _body(self, request: Request, wanted: str) -> bytes:
        most, parts, size = self.service.limits.bytes, [], 0
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise Refused(
                413, f"the body has {int(length):,} bytes; at most {most:,} are read", Connection="close"
            )
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise Refused(413, f"the body has more than {most:,} bytes", Connection="close")
            parts.append(part)
        if not size:
            raise Refused(400, f"the body is empty; send {wanted} in it")
        return b"".join(parts)

    def _decoded(self, body: bytes) -> Pixels:
        try:
            with quiet_pillow():
                return decode_image(body, self.service.learner.image_size, most=self.service.limits.pixels)
        except TooLarge as reason:
            raise Refused(413, f"the image has {reason}") from None
        except BrokenImage as reason:
            raise Refused(415, f"the body is no image that can be used: {reason}") from None

    async def tree(self, request: Request) -> Response:
        """The labels as a tree."""
        return _json(self.service.tree())

    async def labels(self, request: Request) -> Response:
        """The labels of each level."""
        return _json(self.service.labels())

    async def health(self, request: Request) -> Response:
        """Whether all is well."""
        well, facts = self.service.health()
        return _json(facts, 200 if well else 503)

    async def status(self, request: Request) -> Response:
        """What the page shows."""
        return _json(self.service.status())

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        from starlette.responses import Response

        return Response("\n".join(self.service.metrics()) + "\n", 200, media_type=TYPE)

    async def history(self, request: Request) -> Response:
        """The edits so far."""
        return _json(list(self.service.teaching.learner.history))

    async def edit(self, request: Request) -> Response:
        """A change of labels, when its turn in the journal has come."""
        try:
            what = json.loads(await self._body(request, "a table with edit, level, label, …"))
        except (ValueError, RecursionError):
            raise Refused(400, "the body is no JSON; send a table with edit, level, label, …") from None
        if not isinstance(what, dict):
            raise Refused(400, f"the body is {shown(what)}; send a table with edit, level, label, …")
        return await self._in_turn(what)

    async def undo(self, request: Request) -> Response:
        """The last edit taken back."""
        return await self._in_turn({"edit": "undo"})

    async def _in_turn(self, what: dict[str, Any]) -> Response:
        receipt, done = self.service.teaching.accept(Edited(what))
        number = (await asyncio.wrap_future(receipt)).number
        finished = asyncio.wrap_future(done)
        await asyncio.wait([finished], timeout=PATIENCE)
        if not finished.done():
            return _json({"number": number, "waits": True}, 202)
        return _json({"number": number} | finished.result())

    async def why(self, request: Request) -> Response:
        """The stored images that speak for the answer to one that was asked about."""
        from starlette.concurrency import run_in_threadpool

        if _one(request, "image") is None:
            raise Refused(400, "no image was named; ask about it first: POST /predict gives its name")
        pixels = await self._pixels(request)
        return _json(await run_in_threadpool(self.service.why, pixels))

    async def queue(self, request: Request) -> Response:
        """The images to label next."""
        from starlette.concurrency import run_in_threadpool

        await run_in_threadpool(self.service.renew)
        chosen = await run_in_threadpool(self.service.asked.next_to_label, NEXT)
        return _json([{"image": q.name} | as_json(q.answer) for q in chosen])

    async def image(self, request: Request) -> Response:
        """An image that was asked about, as the model sees it."""
        from starlette.responses import Response

        question = self.service.asked.find(request.path_params["name"])
        if question is None:
            raise Refused(404, "no such image is kept")
        return Response(png(question.pixels), 200, media_type="image/png")

    async def drop(self, request: Request) -> Response:
        """An image is not to be labelled."""
        from starlette.responses import Response

        self.service.asked.drop(request.path_params["name"])
        return Response(None, 204)

    async def openapi(self, request: Request) -> Response:
        """What this server understands."""
        return _json(described(self.service.limits))


def _one(request: Request, name: str) -> str | None:
    found = request.query_params.getlist(name)
    if len(found) > 1:
        raise Refused(400, f"{name} was given {len(found)} times; give it once")
    return found[0] if found else None


def _json(value: Any, status: int = 200) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(value, status)
