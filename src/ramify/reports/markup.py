"""Markup is made here and nowhere else, so that class names, paths and commands stay text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is markup already. Any other string is escaped when it is put into an element."""

    __slots__ = ()


Child = str | Markup
VOID = frozenset(("br", "img", "input", "meta", "link", "hr"))
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
SVG_EMPTY = frozenset(("rect", "path", "line", "circle", "image", "polygon", "polyline"))


def el(name: str, /, *children: Child | None, **attributes: object) -> Markup:
    """An element. `class_` stands for class, `data_x` for data-x; None and False leave an attribute out."""
    text = "".join(f" {_name(key)}{_value(value)}" for key, value in attributes.items() if _given(value))
    if name in SVG_EMPTY and not any(children):
        return Markup(f"<{name}{text}/>")
    if name in VOID:
        return Markup(f"<{name}{text}>")
    return Markup(f"<{name}{text}>{join(children)}</{name}>")


def join(children: Iterable[Child | None]) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(_child(child) for child in children if child is not None))


def number(value: float) -> str:
    """A coordinate with at most one decimal; quarter pixels are not seen, and files stay small."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _child(child: Child) -> str:
    return child if isinstance(child, Markup) else escape(clean(child), quote=False)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _given(value: object) -> bool:
    return value is not None and value is not False


def _value(value: object) -> str:
    text = "" if value is True else number(value) if isinstance(value, float) else str(value)
    return f'="{escape(clean(text))}"'


def clean(text: str) -> str:
    """Without the characters that neither HTML nor XML can hold."""
    return FORBIDDEN.sub("\ufffd", text)
