"""The answers of `ramify predict` as lines, tables and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.errors import RamifyError

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.asking import FileAnswer, Told

KINDS = (".csv", ".json", ".jsonl", ".parquet", ".html")


def check_kind(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is asked."""
    if path.suffix.lower() not in KINDS:
        raise RamifyError(f"--to {path} ends in none of {', '.join(KINDS)}; choose one of them")


def run_levels(model: Path) -> str:
    """How the run whose network this is counts the levels of its tree; empty where it is as the tree does."""
    from contextlib import suppress

    from ramify.files import read_json
    from ramify.streams import told_levels

    if (model / "config.json").is_file():
        with suppress(RamifyError, TypeError, ValueError):
            return told_levels(read_json(model / "config.json"))
    return ""


def level_names(learner: Learner, levels: Sequence[int]) -> dict[int, str]:
    """What levels are called; of a run on some levels of a deeper tree also by their numbers there."""
    tree = learner.taxonomy
    return {h: f"level {h}" if tree is None or h > tree.depth else tree.level_name(h) for h in levels}


def line(answer: FileAnswer, levels: Mapping[int, str], one_path: bool) -> str:
    """An answer in one line; labels are joined by `>` only where they are one path through the tree."""
    if answer.error is not None:
        return f"{answer.image}: cannot be used: {answer.error}"
    told = {
        h: answer.top.get(h) or [(answer.levels[h][0], answer.share(h))]
        for h in levels
        if h in answer.levels or h in answer.top
    }
    words = {h: ", ".join(f"{label} {value:.2f}" for label, value in best) for h, best in told.items()}
    new = next((h for h in levels if h in answer.new), None)  # what looks new there, does below as well
    if new is not None:
        words[new] = f"{words[new]} new?" if new in words else "new?"
    if not words:
        return f"{answer.image}: no answer at level {', '.join(map(str, levels))}"
    if (one_path and not answer.top) or len(levels) == 1:
        text = " > ".join(words.values())
    else:
        text = " | ".join(f"{levels[h]}: {text}" for h, text in sorted(words.items()))
    return f"{answer.image}: {text}{_why(answer)}"


def figures(learner: Learner, levels: Sequence[int], top: bool) -> str:
    """What the figure after a label is: a share of right answers where the log knows it."""
    from ramify.learner.prequential import LEAST

    known = learner._trainer.log.fitted(learner._trainer.classes)[0]
    sure, raw = [h for h in levels if h in known], [h for h in levels if h not in known]
    if top or not sure:
        about = "" if top else f": no level has {LEAST} answers in its log, to tell how often such are right"
        return f"the figures are the heads' own probabilities, not calibrated{about}"
    rest = f"; of level {', '.join(map(str, raw))} the head's own probability" if raw else ""
    return f"the figures are the share of such answers that was right before learning{rest}"


def _why(answer: FileAnswer) -> str:
    """A line for each stored image that is like it."""
    found = (" > ".join(str(label) for _, label in sorted(r.labels.items())) for r in answer.reasons)
    return "".join(
        f"\n    like {reason.name}: {label} ({reason.similarity:.2f})"
        for label, reason in zip(found, answer.reasons, strict=True)
    )


def tree_levels_of(learner: Learner) -> dict[str, int]:
    """By level its number in the deeper tree that a run used some levels of; empty where it is the same."""
    from ramify.taxonomy.levels import tree_levels

    return {} if learner.taxonomy is None else tree_levels(learner.taxonomy.level_numbers)


def as_dict(answer: FileAnswer, levels: Sequence[int], deeper: Mapping[str, int]) -> dict[str, Any]:
    """An answer as JSON has it; `deeper` as `tree_levels_of` gives it."""
    if answer.error is not None:
        return {"image": answer.image, "error": answer.error}
    found: dict[str, Any] = {}
    for h in levels:
        entry: dict[str, Any] = dict(_told(answer.levels[h])) if h in answer.levels else {}
        if h in answer.confidences:
            entry["confidence"] = round(answer.confidences[h], 4)
        if h in answer.top:
            entry["top"] = [_told(told) for told in answer.top[h]]
        if entry and str(h) in deeper:
            entry["tree_level"] = deeper[str(h)]
        if entry:
            found[str(h)] = entry
    about: dict[str, Any] = {"image": answer.image, "levels": found}
    if answer.new:
        about["new"] = list(answer.new)
    if answer.reasons:
        about["why"] = [
            {
                "sample": reason.number,
                "id": reason.id,
                "labels": reason.labels,
                "similarity": round(reason.similarity, 4),
                "agrees": reason.agrees,
            }
            for reason in answer.reasons
        ]
    return about


def as_row(answer: FileAnswer, levels: Sequence[int], top: int, deeper: Mapping[str, int]) -> dict[str, Any]:
    """An answer as one row of a table; all rows have the same columns."""
    row: dict[str, Any] = {"image": answer.image}
    for h in levels:
        row[f"level{h}"], row[f"probability{h}"] = _cells(answer.levels.get(h))
        if str(h) in deeper:
            row[f"tree_level{h}"] = deeper[str(h)]
        sure = answer.confidences.get(h)
        row[f"confidence{h}"] = None if sure is None else round(sure, 4)
        best = answer.top.get(h, [])
        for k in range(1, top + 1):
            told = best[k - 1] if k <= len(best) else None
            row[f"level{h}.top{k}"], row[f"probability{h}.top{k}"] = _cells(told)
    return row | {"new": " ".join(map(str, answer.new)) or None, "error": answer.error}


def write(
    answers: Sequence[FileAnswer], levels: Sequence[int], top: int, path: Path, learner: Learner
) -> None:
    """Write all answers to a file of the kind that its name says."""
    from ramify.files import json_text, write_atomic
    from ramify.learner.page import answers_page
    from ramify.reports.export import csv_text, write_parquet

    kind, deeper = path.suffix.lower(), tree_levels_of(learner)
    if kind == ".csv":
        write_atomic(path, csv_text([as_row(answer, levels, top, deeper) for answer in answers]))
    elif kind == ".parquet":
        write_parquet([as_row(answer, levels, top, deeper) for answer in answers], path)
    elif kind == ".html":
        write_atomic(path, answers_page(answers, level_names(learner, levels)))
    elif kind == ".json":
        write_atomic(path, json_text([as_dict(answer, levels, deeper) for answer in answers]))
    else:
        write_atomic(path, "".join(json.dumps(as_dict(answer, levels, deeper)) + "\n" for answer in answers))


def _told(told: Told) -> dict[str, Any]:
    return {"label": told[0], "probability": round(told[1], 4)}


def _cells(told: Told | None) -> tuple[Any, float | None]:
    return (None, None) if told is None else (told[0], round(told[1], 4))
