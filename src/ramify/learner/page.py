"""Answers as a page: each image, what was answered, how sure that is, and the stored images most like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ramify.arrays import Pixels
from ramify.learner.asking import FileAnswer
from ramify.learner.why import Reason
from ramify.plural import counted
from ramify.reports.html import document
from ramify.reports.markup import Markup, el, join
from ramify.reports.mistakes import thumbnail


def answers_page(
    answers: Sequence[FileAnswer], levels: Mapping[int, str], title: str = "ramify predict"
) -> str:
    """The whole document; it needs no other file."""
    count = counted(len(answers), "image")
    head = el("header", el("h1", title), el("p", count, class_="faint"))
    return document(title, join([head, el("main", *(_answer(answer, levels) for answer in answers))]))


def _answer(answer: FileAnswer, levels: Mapping[int, str]) -> Markup:
    if answer.error is not None or answer.pixels is None:
        return el(
            "section", el("h2", answer.image), el("p", f"cannot be used: {answer.error}", class_="warn")
        )
    own = [
        _label(answer, level, name)
        for level, name in levels.items()
        if level in answer.levels or level in answer.new
    ]
    told = own or [el("div", "no answer is as sure as was asked")]
    asked = el("li", _picture(answer.pixels, answer.image), el("div", *told))
    why = el("p", "The stored images most like it, and how like they are:", class_="faint")
    nearest = el("ul", *(_reason(reason) for reason in answer.reasons), class_="mistakes")
    parts = [why, nearest] if answer.reasons else []
    return el("section", el("h2", answer.image), el("ul", asked, class_="mistakes"), *parts)


def _label(answer: FileAnswer, level: int, name: str) -> Markup:
    new = el("div", "new? It looks like nothing that was learned at this level.", class_="warn")
    if level not in answer.levels:
        return new
    label, probability = answer.levels[level]
    sure = answer.confidences.get(level)
    raw = f"{probability:.0%} by its head"
    told = f" {raw}" if sure is None else f" such answers were right {int(100 * sure)}% of the time ({raw})"
    line = el("div", el("strong", str(label), title=name), Markup(el("small", told)))
    return join([line, new if level in answer.new else None])


def _reason(reason: Reason) -> Markup:
    labels = " > ".join(str(label) for _, label in sorted(reason.labels.items()))
    told = el("div", f"{labels} {reason.similarity:.2f}", class_=None if reason.agrees else "wrong")
    about = join([told, el("div", reason.name, class_="faint")])
    if reason.image is None:  # features are stored
        return el("li", el("div", about))
    return el("li", _picture(reason.image.transpose(2, 0, 1), labels), el("div", about))


def _picture(image: Pixels, name: str) -> Markup:
    return el("img", src=thumbnail(image), alt=name)
