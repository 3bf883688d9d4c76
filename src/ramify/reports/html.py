"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources

from ramify import __version__
from ramify.plural import counted
from ramify.reports import sections
from ramify.reports.data import RunData
from ramify.reports.figures.theme import stylesheet
from ramify.reports.markup import Markup, el, join
from ramify.reports.series import Scenario, scenarios


def report_html(
    runs: Sequence[RunData], title: str = "ramify report", datasets: sections.Datasets | None = None
) -> str:
    """The whole document. `datasets` finds the images of a run, for its worst mistakes."""
    parts = scenarios(runs)
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, ramify {__version__}"
    head = el("header", el("h1", title), el("p", _about(parts), class_="faint"))
    foot = el(
        "footer", f"Made {made}. One file, no network; every figure comes from the folders named above."
    )
    return document(title, join([head, view(parts, datasets), foot]))


def view(parts: Sequence[Scenario], datasets: sections.Datasets | None = None, live: bool = False) -> Markup:
    """Switches and sections: what the report and the live page share."""
    names = dict.fromkeys((s.key, s.label, s.style) for scenario in parts for s in scenario.series)
    switches = sections.switches(list(names)) if len(names) > 1 else None
    body = [sections.scenario(scenario, i, datasets, live) for i, scenario in enumerate(parts)]
    return join([switches, el("main", *body)])


def document(title: str, body: Markup, live: bool = False) -> str:
    """A page whose content policy admits its own script and style and no other."""
    style, script = _style(), asset("report.js")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=content_policy(live)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", Markup(style)),
    )
    page = el("body", body, el("script", Markup(script)), data_live=live or None)
    return f"<!doctype html>\n{el('html', head, page, lang='en')}\n"


def content_policy(live: bool = False) -> str:
    """The Content-Security-Policy of a page."""
    rules = (
        f"default-src 'none'; script-src {_hash(asset('report.js'))}; style-src {_hash(_style())}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"{rules}; connect-src 'self'" if live else rules


@cache
def asset(name: str) -> str:
    """A file of the package's assets."""
    return (resources.files("ramify.reports") / "assets" / name).read_text("utf-8")


def _style() -> str:
    dark = f"@media (prefers-color-scheme: dark){{{stylesheet(dark=True)}}}"
    return asset("report.css") + stylesheet() + dark


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _about(parts: Sequence[Scenario]) -> str:
    runs = [run for scenario in parts for run in scenario.runs]
    done = sum(run.result is not None for run in runs)
    state = f"{done} finished" if done < len(runs) else "all finished"
    titles = ": " + "; ".join(part.title for part in parts) if len(parts) > 1 else ""  # one heads the page
    return f"{counted(len(runs), 'run')}, {state}{titles}."
