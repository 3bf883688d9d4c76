"""The files of the page, as they lie in the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from ramify.reports.markup import el

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGES = {
    "/": "page.html",
    "/api": "api.html",
    **{
        f"/assets/{name}": name
        for name in ("page.css", "page.js", "tree.js", "log.js", "ask.js", "api.js", "icon.svg")
    },
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@cache
def asset(name: str) -> tuple[bytes, str]:
    """A file and its kind."""
    content = (resources.files("ramify.serve") / "assets" / name).read_bytes()
    return content, KINDS[name.rpartition(".")[2]]


def sign_in(wrong: bool) -> str:
    """A page that asks for the token."""
    told = el("p", "This is not the token.", class_="problem", role="alert") if wrong else None
    field = el(
        "input", id="token", name="token", type="password", autocomplete="current-password", required=""
    )
    form = el(
        "form", el("label", "Token", for_="token"), field, el("button", "Open", class_="primary"), action="/"
    )
    where = el("p", "It was printed when the server was started.", class_="faint")
    main = el("main", el("h1", "ramify"), form, told, where, class_="signin")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", "ramify"),
        el("link", rel="stylesheet", href="/assets/page.css"),
    )
    return f"<!doctype html>\n{el('html', head, el('body', main), lang='en')}\n"
