"""A model's card: README.md in its folder, which says what the model knows and how to load it."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from ramify import __version__
from ramify.errors import RamifyError
from ramify.files import write_atomic
from ramify.learner.relabel import remembers, stores
from ramify.learner.trust import trust
from ramify.named import is_own
from ramify.networks.build import LITE
from ramify.networks.resnet import BLOCKS
from ramify.plural import counted
from ramify.taxonomy import Taxonomy

if TYPE_CHECKING:
    from ramify.learner.learner import Learner

CARD = "README.md"
BEGIN = "<!-- ramify: written at each save; what you write above and below stays -->"
END = "<!-- ramify: end -->"
LICENCE = re.compile(r"^license:.*$", re.M)
WIDTH = 110  # of the tree

# The fields that the Hugging Face hub reads: https://huggingface.co/docs/hub/model-cards
FRONT = """\
---
library_name: ramify
license: unknown
{pipeline}tags:
- ramify
- continual-learning
- hierarchical-classification
---

# {title}

"""


def write_card(learner: Learner, folder: Path, repo: str | None = None) -> None:
    """Write the card of a learner; a card that is somebody's own, without the marks, is left alone.

    `repo` is where others find the model, `owner/name`.
    """
    path = folder / CARD
    told = f"{BEGIN}\n{_told(learner, folder.name, repo)}{END}"
    front = FRONT.format(title=(repo or folder.resolve().name).split("/")[-1], pipeline=_pipeline(learner))
    before, after = front, "\n"
    if path.is_file():
        text = path.read_text(encoding="utf-8", errors="replace")
        before, begun, rest = text.partition(BEGIN)
        _, ended, after = rest.partition(END)
        if not begun or not ended:
            return
    if not path.is_file() or before + told + after != text:
        write_atomic(path, before + told + after)


def licence(text: str) -> str | None:
    """What the card names as licence; None where it names none."""
    found = LICENCE.search(_front(text))
    name = found.group().partition(":")[2].strip() if found else ""
    return None if name in ("", "unknown") else name


def with_licence(text: str, name: str) -> str:
    """The card with another licence, one of the hub's short names."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name):
        raise RamifyError(f"licence {name!r}: expected one of the hub's short names, such as apache-2.0")
    front = _front(text)
    if not front:
        return f"---\nlicense: {name}\n---\n\n{text}"
    line = f"license: {name}"
    changed = LICENCE.sub(line, front, count=1) if LICENCE.search(front) else f"---\n{line}{front[3:]}"
    return changed + text[len(front) :]


def _front(text: str) -> str:
    """The fields at the top of a card, between their lines of dashes."""
    found = re.match(r"---\n.*?\n---\n", text, re.S)
    return found.group() if found else ""


def _pipeline(learner: Learner) -> str:
    return "" if learner.get_params()["features"] is not None else "pipeline_tag: image-classification\n"


def _told(learner: Learner, name: str, repo: str | None) -> str:
    parts = [_what(learner), _knows(learner), _trusted(learner), _holds(learner), _use(learner, name, repo)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _what(learner: Learner) -> str:
    params, network = learner.get_params(), learner.settings.network
    own = isinstance(params["network"], nn.Module)
    named = "a network of its maker's own" if own else network.name
    width = f" × {network.width:g}" if network.name in BLOCKS and network.width != 1 else ""
    if params["features"] is not None:
        takes = f"features of {params['features']:,} values"
    else:
        frozen = "" if learner._taking.encoder is None else ", frozen"
        takes = f"images of {learner.image_size} × {learner.image_size} pixels ({named}{width}{frozen})"
    method = learner._trainer.method.name
    if learner.samples:
        how = f"**{method}** on {takes}. It has taken {counted(learner.samples, 'labelled sample')}, each "
        how += f"once, in {counted(learner.updates, 'update')}, and answers at every level below."
    else:
        how = f"a network on {takes}, as a run has trained it; taught on, it learns by {method}."
    return f"A model for labels that keep branching, made with ramify {__version__}: {how}"


def _knows(learner: Learner) -> str:
    classes = learner._trainer.classes
    if not classes.levels:
        return "## What it knows\n\nNothing yet."
    rows = []
    for level in classes.levels:
        own = classes.of_level(level)
        seen = classes.seen[own]
        counts = f"{seen.sum():,} | {seen.min():,} – {seen.max():,}" if learner.samples else "– | –"
        rows.append(f"| {level} | {len(own):,} | {counts} |")
    table = ["| level | labels | samples | of one label |", "|---|---|---|---|", *rows]
    return "## What it knows\n\n" + "\n".join(table) + "\n\n" + _tree(learner)


def _tree(learner: Learner) -> str:
    tree, whose = learner.taxonomy, "The tree that it was given"
    found = learner._trainer.known_ties()
    if tree is None and found is not None:
        tree, whose = found.taxonomy(), "The tree that it has found in its own answers"
    if tree is None:
        return "It was given no tree; `ramify describe` shows the one that its answers make."
    return f"```text\n{_drawn(tree, whose)}\n```"


def _drawn(tree: Taxonomy, title: str) -> str:
    from rich.console import Console

    from ramify.taxonomy.show import render

    console = Console(
        file=io.StringIO(), width=WIDTH, color_system=None, legacy_windows=False, force_jupyter=False
    )
    with console.capture() as captured:
        console.print(render(tree, title))
    return "\n".join(line.rstrip() for line in captured.get().replace("```", "'''").splitlines())


def _trusted(learner: Learner) -> str:
    levels = {h: told for h, told in trust(learner._trainer).items() if told.answers}
    if not levels:
        return ""
    rows = [
        f"| {level} | {told.answers:,} | {_percent(told.accuracy)} | {_percent(told.ece)} |"
        for level, told in levels.items()
    ]
    return "\n".join(
        [
            "## How far to trust it",
            "",
            "Of its latest answers, each given about a sample before that was learned:",
            "",
            "| level | answers | right, % | calibration error (ECE), % |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _holds(learner: Learner) -> str:
    trainer = learner._trainer
    count = sum(memory.size for memory in stores(trainer)) + len(trainer.waiting)
    what = "image" if trainer.memory["inputs"].ndim == 4 else "feature of an image"
    many = "images" if trainer.memory["inputs"].ndim == 4 else "features of images"
    if count:
        why = "for rehearsal" if remembers(trainer) else "the latest, which wait for their batch"
        held = (
            f"**It holds {counted(count, what, many)} that it was taught with**, {why}, and their names; "
            "whoever has `learner.safetensors` has them. `ramify push` and `save(…, memory=False)` leave "
            "them out."
        )
    elif remembers(trainer):
        held = "It holds none of the samples that it was taught with; taught on, its memory begins empty."
    else:
        held = f"It holds none of the samples that it was taught with: {trainer.method.name} stores none."
    return f"## What is in it\n\n{held}"


def _use(learner: Learner, name: str, repo: str | None) -> str:
    install, given = _needs(learner)
    lines = ["import ramify", ""]
    if repo is not None:
        install += " huggingface_hub"
        lines = ["import huggingface_hub", *lines, f'folder = huggingface_hub.snapshot_download("{repo}")']
    where = f'"{name}"' if repo is None else "folder"
    lines.append(f"learner = ramify.Learner.load({', '.join([where, *given])})")
    if learner.get_params()["features"] is not None:
        lines.append('learner.predict(features=features, decode="path").labels  # floats [n, size]')
    else:
        lines.append('learner.predict(["photo.jpg"], decode="path").labels  # by level')
    weights = learner.settings.network.weights
    beside = f"\n\nIt needs the file `{Path(weights).name}`, which is not part of it." if weights else ""
    return "\n".join(["## To use it", "", "```sh", install, "```", "", "```python", *lines, "```"]) + beside


def _needs(learner: Learner) -> tuple[str, list[str]]:
    """What to install, and what `load` must be given beside the folder."""
    params, network = learner.get_params(), learner.settings.network.name
    extra = "[efficientnet]" if network == LITE else "[timm]" if network.startswith("timm:") else ""
    given = []
    if not isinstance(params["method"], str):
        given.append("method=…")
    if isinstance(params["network"], nn.Module):
        given.append("network=…")
    if any(isinstance(name, str) and is_own(name) for name in (params["method"], network)):
        given.append("own_code=True")
    return f"pip install 'ramify{extra}'" if extra else "pip install ramify", given
