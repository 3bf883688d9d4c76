"""`ramify edit`: change the labels of a model, and take the change back."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramify.cli.logs import tell
from ramify.cli.parser import Parser, add_own_code
from ramify.errors import RamifyError
from ramify.plural import counted, some

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.history import Entry
    from ramify.learner.samples import Stored


def main(argv: list[str]) -> int:
    """Run `ramify edit`."""
    args = _parser().parse_args(argv)

    from ramify.learner import Learner
    from ramify.learner.folder import ModelFolder
    from ramify.learner.saving import FILE

    if args.verb in ("history", "samples"):
        learner = Learner.load(args.model, device="cpu", network=args.network, own_code=args.own_code)
        _show_history(learner, args.json) if args.verb == "history" else _show_samples(learner, args)
        return 0
    if not (args.model / FILE).is_file():
        Learner.load(args.model, network=args.network, own_code=args.own_code)  # says what is wrong, or
        raise RamifyError(
            f"{args.model} is a run's; teach it on first with `ramify learn … --out {args.model}`"
        )
    with ModelFolder(args.model).locked():
        learner = Learner.load(args.model, device="cpu", network=args.network, own_code=args.own_code)
        entry = learner.edit(args.verb.replace("-", "_"), **_arguments(learner, args))
        learner.save(args.model)
    sys.stdout.write(f"{in_words(entry)}\n")
    if args.verb in ("forget", "forget-samples", "forget-source"):
        sys.stdout.write("what the network's weights have learned from them remains\n")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="ramify edit",
        description="Change the labels of a model, whole or not at all. Each change is noted in its history; "
        "`undo` takes the latest back. A label's level may be left out where it stands at one level only.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`")
    add_own_code(parser)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="EDIT", parser_class=Parser)

    def add(name: str, told: str, *texts: str, level: bool = True) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=told, description=told)
        for text in texts:
            verb.add_argument(text, metavar=text.upper())
        if level:
            verb.add_argument("--level", type=int, help="level of the label, 1: coarsest")
        return verb

    add("rename", "give a label another name", "label", "new")
    merge = add("merge", "make labels of one level one")
    merge.add_argument("labels", metavar="LABEL", nargs="+")
    merge.add_argument("--into", metavar="NAME", help="its name; default the first label")
    split = add("split", "give stored samples of a label new labels", "label")
    split.add_argument(
        "--by",
        metavar="CSV|FOLDER",
        type=Path,
        required=True,
        help="a CSV with columns sample and label, or folders named as the new labels with the images "
        "that `samples --images` wrote",
    )
    add("move", "give a label another parent in the taxonomy", "label", "parent")
    forget = add("forget", "drop labels, and stored samples without another")
    forget.add_argument("labels", metavar="LABEL", nargs="+")
    forget.add_argument("--for-good", action="store_true", help="nothing is kept to take it back")
    relabel = add("relabel", "correct the label of a stored sample", "sample", "label")
    relabel.epilog = "SAMPLE: its path in the manifest, or its number; LABEL may be a path: 'fruit > apple'"
    gone = add("forget-samples", "take stored samples out, for good", level=False)
    gone.add_argument("samples", metavar="SAMPLE", nargs="+")
    add("forget-source", "take all stored samples of one source out, for good", "source", level=False)
    add("undo", "take the latest edit back", level=False)
    history = add("history", "list all edits", level=False)
    history.add_argument("--json", action="store_true", help="one JSON object a line")
    samples = add("samples", "list the stored samples as CSV")
    samples.add_argument("--label", help="only those of this label")
    samples.add_argument("--source", help="only those of this source")
    samples.add_argument("--images", metavar="DIR", type=Path, help="write their images there")
    return parser


def _arguments(learner: Learner, args: argparse.Namespace) -> dict[str, Any]:
    """What the learner's method of that name takes."""
    whole = any(isinstance(label, int) for h in learner.levels for label in learner.labels(h))

    def label(text: str) -> Any:
        return int(text) if whole and text.lstrip("-").isdecimal() else text

    verb: str = args.verb
    if verb == "rename":
        return {"level": args.level, "label": label(args.label), "new": label(args.new)}
    if verb == "merge":
        into = None if args.into is None else label(args.into)
        return {"level": args.level, "labels": list(map(label, args.labels)), "into": into}
    if verb == "split":
        given = _by_folder(args.by) if args.by.is_dir() else _by_csv(args.by)
        parts: dict[Any, list[int | str]] = {}
        for name, sample in given:
            parts.setdefault(label(name), []).append(_sample(sample))
        return {"level": args.level, "label": label(args.label), "into": parts}
    if verb == "move":
        return {"level": args.level, "label": label(args.label), "parent": label(args.parent)}
    if verb == "forget":
        return {"level": args.level, "label": list(map(label, args.labels)), "for_good": args.for_good}
    if verb == "relabel":
        path = [label(name.strip()) for name in args.label.split(" > ")]
        told = path[0] if len(path) == 1 else path
        return {"samples": [_sample(args.sample)], "label": told, "level": args.level}
    if verb == "forget-samples":
        return {"samples": list(map(_sample, args.samples))}
    return {"source": args.source} if verb == "forget-source" else {}


def _sample(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 19 else text


def _by_csv(path: Path) -> Iterable[tuple[str, str]]:
    """New label and sample of each row."""
    from ramify.taxonomy.read import read_table, read_text

    header, rows, _ = read_table(read_text(path), path.name)
    missing = [column for column in ("sample", "label") if column not in header]
    if missing:
        raise RamifyError(f"{path.name} line 1: no column {missing[0]}; the columns are sample and label")
    sample, label = header.index("sample"), header.index("label")
    return [(row[label], row[sample]) for row in rows]


def _by_folder(path: Path) -> Iterable[tuple[str, str]]:
    """Images `NUMBER.png` in folders named as their new labels."""
    found = [(file.parent.name, file.stem) for file in sorted(path.glob("*/*.png"))]
    if not found:
        raise RamifyError(
            f"{path} holds no folders with images in them; write the images with `samples --images` and sort "
            "them into folders named as the new labels"
        )
    return found


def _show_samples(learner: Learner, args: argparse.Namespace) -> None:
    import csv

    found = [
        sample
        for sample in learner.stored(args.level, None, args.source)
        if args.label is None
        or args.label in [str(v) for h, v in sample.labels.items() if args.level in (None, h)]
    ]
    if args.images is not None:
        _write_images(learner, found, args.images)
    writer = csv.writer(sys.stdout)
    writer.writerow(("sample", "id", "source", *(f"level{h}" for h in learner.levels)))
    for sample in found:
        labels = (sample.labels.get(h, "") for h in learner.levels)
        writer.writerow((sample.number, sample.id or "", sample.source or "", *labels))


def _write_images(learner: Learner, samples: list[Stored], folder: Path) -> None:
    from PIL import Image

    from ramify.files import beside

    for sample in samples:
        with beside(folder / f"{sample.number}.png") as temporary:
            Image.fromarray(learner.stored_image(sample.number)).save(temporary, "png")


def _show_history(learner: Learner, as_json: bool) -> None:
    for entry in learner.history:
        line = json.dumps(entry, ensure_ascii=False) if as_json else f"{entry['when']}  {in_words(entry)}"
        sys.stdout.write(f"{line}\n")
    if not learner.history:
        tell("no label of this model has been changed")


def in_words(entry: Entry) -> str:
    """An entry of the history in words."""
    what, level = entry["edit"], entry.get("level")
    at = "" if level is None else f" (level {level})"
    words = {
        "rename": lambda: f"renamed {entry['label']} to {entry['new']}{at}",
        "merge": lambda: f"merged {', '.join(map(str, entry['labels']))} into {entry['into']}{at}",
        "split": lambda: (
            f"split {entry['label']}{at}: "
            + ", ".join(f"{name} {count}" for name, count in entry["into"].items())
            + ("" if entry["ends"] else "; the others keep it")
        ),
        "move": lambda: f"moved {entry['label']}{at} from {entry['from']} to {entry['parent']}",
        "forget": lambda: f"forgot {', '.join(map(str, entry['label']))}{at}",
        "relabel": lambda: (
            f"relabelled sample{'s' * (len(entry['numbers']) > 1)} {some(entry['numbers'])} as "
            + " > ".join(map(str, entry["labels"].values()))
        ),
        "forget_samples": lambda: f"forgot samples {some(entry['numbers'])}",
        "forget_source": lambda: f"forgot the samples of {entry['source']}",
        "undo": lambda: f"took edit {entry['of']} back{'' if entry['exactly'] else ', as far as it goes'}",
    }[what]()
    stored = f"; {counted(entry['stored'], 'stored sample')}" if entry.get("stored") else ""
    return f"edit {entry['number']}: {words}{stored}"
