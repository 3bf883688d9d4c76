"""`ramify methods`: the table of methods and parts."""

from __future__ import annotations

from ramify.cli.parser import Parser
from ramify.console import screen


def main(argv: list[str]) -> int:
    """Print the table."""
    Parser("ramify methods", description="List the methods and the parts they are made of.").parse_args(argv)
    from rich.table import Table

    from ramify.methods import METHODS, make_settings
    from ramify.randomness import Generators

    table = Table("method", "keep", "rehearse", "minimise", "rate", "task-free", box=None, pad_edge=False)
    for name, method in METHODS.items():
        recipe = method(make_settings(method=method), Generators(0))
        parts = (recipe.keep, recipe.rehearse, recipe.minimise, recipe.rate)
        words = [_words(type(part).__name__) for part in parts]
        if method.closed_form:  # its parts keep the trainer's form; nothing is rehearsed or minimised
            words = ["sums of features", "nothing", "closed form", "none"]
        task_free = "offline" if method.offline else "yes" if method.task_free else "no"
        table.add_row(name, *words, task_free)
    screen().print(table)
    return 0


def _words(name: str) -> str:
    """HalfAndHalf → half and half."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()
