"""Tables as text, Markdown, LaTeX (booktabs) and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from ramify.reports.statistics import Figure
from ramify.reports.tables import BELOW, Cell, Heading, Table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text

LEGEND = (
    "* best, ' second of each column; below: the paper's figure, and the difference in standard deviations"
)


def three_digits(value: float) -> str:
    """Three digits, as in the paper: 37.8, 4.01; whole numbers from 1000 on."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def figure(value: Figure | None, plus_minus: str = "±") -> str:
    """37.8±2.06; a dash for nothing."""
    if value is None:
        return "–"
    return three_digits(value.mean) + ("" if value.std is None else f"{plus_minus}{_spread(value.std)}")


def sigmas(cell: Cell) -> str:
    """+1.3σ; nothing where it is unknown."""
    return "" if cell.sigmas is None else f"{cell.sigmas:+.1f}σ".replace("-", "−")


def _spread(std: float) -> str:
    return f"{std:.2f}" if std < 10 else three_digits(std)


def to_text(table: Table, width: int | None = None) -> str:
    """Plain text without colours, for files and pipes."""
    from rich.console import Console

    console = Console(
        width=width or 200, no_color=True, file=io.StringIO(), force_terminal=False, force_jupyter=False
    )
    print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def print_table(table: Table, console: object) -> None:
    """Print to a rich console; column groups that do not fit beside each other follow one another."""
    from rich.console import Console

    assert isinstance(console, Console)
    styled = console.is_terminal
    console.print(table.title, style="bold", markup=False, highlight=False)
    for part in _fitting(table, console.width, styled):
        console.print(_rich(part, styled))
    for note in (
        table.caption,
        "" if styled else LEGEND if table.has_paper else LEGEND.split(";")[0],
        *table.notes,
    ):
        if note:
            console.print(note, markup=False, highlight=False)


def _fitting(table: Table, width: int, styled: bool) -> list[Table]:
    from rich.measure import Measurement

    groups = [len(list(g)) for _, g in groupby(table.columns, key=lambda c: c[:-1])]
    parts: list[tuple[int, int]] = []
    start = 0
    from rich.console import Console

    measuring = Console(width=10_000)
    for size in groups:
        end = start + size
        if parts:
            first, _ = parts[-1]
            joined = _columns(table, first, end)
            if Measurement.get(measuring, measuring.options, _rich(joined, styled)).maximum <= width:
                parts[-1] = (first, end)
                start = end
                continue
        parts.append((start, end))
        start = end
    return [_columns(table, first, last) for first, last in parts]


def _columns(table: Table, first: int, last: int) -> Table:
    rows = tuple(replace(row, cells=row.cells[first:last]) for row in table.rows)
    return replace(table, columns=table.columns[first:last], rows=rows)


def _rich(table: Table, styled: bool) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    rich.add_column("")
    previous: tuple[str, ...] = ()
    for column in table.columns:
        outer = "\n".join("" if column[:-1] == previous else word for word in column[:-1])
        previous = column[:-1]
        rich.add_column(Text("\n".join(filter(None, (outer or " " * bool(previous), column[-1])))))
    for row in table.rows:
        label = row.label + ("\n  paper\n  difference" if table.has_paper else "")
        cells: list[RenderableType] = [
            Text(label),
            *(_cell(cell, table.has_paper, styled) for cell in row.cells),
        ]
        rich.add_row(*cells)
    return rich


def _cell(cell: Cell, paper: bool, styled: bool) -> Text:
    from rich.text import Text

    style = {1: "bold", 2: "underline"}.get(cell.place, "") if styled else ""
    mark = "" if styled else {1: "*", 2: "'"}.get(cell.place, "")
    text = Text(figure(cell.ours) + mark + BELOW * cell.below, style=style)
    if not paper:
        return text
    below = f"\n{figure(cell.paper) if cell.paper else ''}\n{sigmas(cell)}"
    return Text.assemble(text, Text(below, style="dim not bold not underline"))


def to_markdown(table: Table) -> str:
    """A pipe table; best bold, second underlined."""
    heads = ["", *(" ".join(column) for column in table.columns)]
    lines = [
        f"**{escaped(table.title)}**",
        "",
        pipe([escaped(h) for h in heads]),
        pipe(["---"] + ["---:"] * len(table.columns)),
    ]
    for row in table.rows:
        lines.append(pipe([escaped(row.label), *(_emphasis(e, "**{}**", "<u>{}</u>") for e in row.cells)]))
        if table.has_paper:
            lines.append(pipe(["*paper*", *(figure(e.paper) if e.paper else "" for e in row.cells)]))
            lines.append(pipe(["*difference*", *(sigmas(e) for e in row.cells)]))
    notes = [f"- {escaped(note)}" for note in table.notes]
    return (
        "\n".join([*lines, "", *([escaped(table.caption), ""] if table.caption else []), *notes]).rstrip()
        + "\n"
    )


def pipe(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """As text: neither Markdown nor HTML."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text.replace("\n", " "))


def _emphasis(cell: Cell, best: str, second: str, show: Callable[[Figure | None], str] = figure) -> str:
    marked = show(cell.ours) + BELOW * cell.below
    return {1: best, 2: second}.get(cell.place, "{}").replace("{}", marked, 1)


def to_latex(table: Table) -> str:
    """A `tabular` with booktabs rules; best bold, second underlined."""
    columns = len(table.columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'r' * columns}}}",
        r"\toprule",
        *_latex_heads(table.columns),
        r"\midrule",
    ]
    for row in table.rows:
        cells = [
            _emphasis(e, r"\textbf{{}}", r"\underline{{}}", _latex_figure).replace(BELOW, TEX[BELOW])
            for e in row.cells
        ]
        lines.append(_latex_row([_tex(row.label), *cells]))
        if table.has_paper:
            theirs = [rf"\textit{{{_latex_figure(e.paper)}}}" if e.paper else "" for e in row.cells]
            lines.append(_latex_row([r"\quad\textit{paper}", *theirs]))
            apart = [f"${e.sigmas:+.1f}\\sigma$" if e.sigmas is not None else "" for e in row.cells]
            lines.append(_latex_row([r"\quad\textit{difference}", *apart]))
    text = f"{table.title}. {table.caption}".strip()
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex(text)}}}", r"\end{table}"]
    lines += [f"% {' '.join(note.split())}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _latex_figure(value: Figure | None) -> str:
    return figure(value, r"$\pm$").replace("–", "--")


def _latex_heads(columns: tuple[Heading, ...]) -> list[str]:
    """One row for each depth of heading; equal neighbours of the outer ones are joined."""
    lines = []
    depth = len(columns[0])
    for d in range(depth):
        cells, rules, at = [""], [], 2
        for heading, group in groupby(columns, key=lambda c: c[: d + 1]):
            size = len(list(group))
            text = _tex(heading[-1])
            cells.append(text if d == depth - 1 else rf"\multicolumn{{{size}}}{{c}}{{{text}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + size - 1}}}")
            at += size
        lines.append(_latex_row(cells) + ("" if d == depth - 1 else " " + " ".join(rules)))
    return lines


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    "σ": r"$\sigma$",
    "↓": r"$\downarrow$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _tex(text: str) -> str:
    """As text in LaTeX."""
    return "".join(TEX.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in text.replace("\n", " "))


def to_csv(table: Table) -> str:
    """One line a cell, with full precision and the value of each seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("table", "row", "column", "mean", "std", "seeds", "place", "paper", "paper_std", "sigmas")
    )
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            ours, paper = cell.ours, cell.paper
            writer.writerow(
                (
                    table.title,
                    row.label,
                    " / ".join(column),
                    *(("", "") if ours is None else (ours.mean, _blank(ours.std))),
                    " ".join(f"{seed}:{value:.6g}" for seed, value in ((ours and ours.seeds) or {}).items()),
                    cell.place or "",
                    *(("", "") if paper is None else (paper.mean, _blank(paper.std))),
                    _blank(cell.sigmas),
                )
            )
    return text.getvalue()


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": to_text,
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}
