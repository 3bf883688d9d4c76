"""`ramify learn`: teach a model from a list of labelled images, once each."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ramify.cli.logs import tell
from ramify.cli.parser import Parser, set_values
from ramify.errors import RamifyError
from ramify.plural import counted
from ramify.typed import flat, seconds, shown, to_dict

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.learner.manifest import Lesson

TELL_EVERY = 10.0  # seconds between two lines that say how far it is


def main(argv: list[str]) -> int:
    """Run `ramify learn`."""
    args = _parser().parse_args(argv)

    from ramify.learner.folder import ModelFolder
    from ramify.learner.manifest import Lesson, teach
    from ramify.signals import Listening

    names = ("method", "image_size", "memory_size", "freeze", "seed", "ask")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    given |= settings(args.set, args.network)
    seconds("--save-every", args.save_every)
    if args.images is not None and args.manifest.is_dir():
        raise RamifyError(f"--images goes with a CSV; {args.manifest} is a folder: leave --images out")
    if args.out.resolve() == args.manifest.resolve():
        raise RamifyError(f"--out {args.out} is where the images are; choose another folder for the model")
    folder = ModelFolder(args.out)
    with folder.locked(), Listening(_told) as signals:
        learner = _learner(args, given)
        lesson = Lesson(learner, args.manifest, args.images, args.follow)
        progress = LearnProgress(lesson, args.follow)
        teach(lesson, folder, args.follow, args.save_every, signals.heard, progress.show)
    progress.show_log(lesson)
    where = f"the model is in {args.out}" if learner.samples else "there is no model yet"
    waiting = "" if args.follow else _waiting(lesson)
    tell(f"{counted(learner.samples, 'sample')} learned{waiting}; {where}")
    if not args.follow:
        signals.refuse("stopped")
    return 1 if waiting else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify learn",
        description="Teach a model from a CSV of labelled images (path,label,level), each once, in order, or "
        "from a folder of class folders (nested: level 1, 2, …), each once, in random order. A model that is "
        "in --out already, also a run's, goes on where it is; what it knows is not "
        "learned again. A row whose image is not there yet, or cannot be read, is learned when it can be, "
        "also at a later start; where some still wait at the end, the exit code is 1.",
    )
    parser.add_argument(
        "manifest",
        metavar="CSV|FOLDER",
        type=Path,
        help="columns path, label and level (1: coarsest); or class folders",
    )
    parser.add_argument(
        "--images", metavar="DIR", type=Path, help="where paths begin; default: beside the CSV"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder of the model")
    parser.add_argument(
        "--follow", action="store_true", help="read on as the file or folder grows, until Ctrl-C"
    )
    parser.add_argument("--taxonomy", help="a tree (file or name): labels are checked, level may be left out")
    parser.add_argument("--pad", action="store_true", help="repeat shallow leaves of the tree downwards")
    parser.add_argument("--method", help="default canopy; see `ramify methods`")
    parser.add_argument("--image-size", type=int, help="images are stretched to this side; default 64")
    parser.add_argument("--memory-size", type=int, help="images kept for rehearsal; default 2000")
    parser.add_argument(
        "--network",
        help="resnet18, resnet34, efficientnet-lite0, timm:NAME or package.module:factory; default a narrow "
        "resnet18",
    )
    parser.add_argument(
        "--freeze",
        metavar="all|STAGES",
        help="do not train the network, or its first stages: encode images once",
    )
    parser.add_argument("--seed", type=int, help="default 0")
    parser.add_argument(
        "--ask",
        type=float,
        metavar="SHARE",
        help="of the samples, asked before they are learned; default 1, about 3%% of a network's training",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other setting: augment.flip=false",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    parser.add_argument("--save-every", metavar="SECONDS", type=float, default=60.0, help="default 60")
    parser.add_argument(
        "--own-code", action="store_true", help="let a saved model import your method or network"
    )
    return parser


def _told(what: str) -> str:
    return f"{what}; what was saved is whole, and the same command goes on from there"


def _learner(args: argparse.Namespace, given: dict[str, Any]) -> Learner:
    """The model in the folder, also a run's, or a new one."""
    from ramify.learner import Learner
    from ramify.learner.saving import FILE, RUN_FILE, method_name, saved_with_own_network
    from ramify.taxonomy import read_taxonomy

    out, tree, device, own_code = args.out, args.taxonomy, args.device, args.own_code
    taxonomy = None if tree is None else read_taxonomy(tree, args.pad)
    if not any((out / name).exists() for name in (FILE, RUN_FILE)):
        return Learner(taxonomy=taxonomy, device=device, **given)
    named = given.get("network", {}).get("name")
    own = named if named is not None and saved_with_own_network(out) else None
    learner = Learner.load(out, device=device, network=own, own_code=own_code)
    if own is not None:
        given = {name: value for name, value in given.items() if name != "network"}
    if others := _others(learner, Learner(**(learner.get_params() | given)), given):
        raise RamifyError(
            f"{out} holds a model with other settings: {', '.join(others)}; leave them out, or choose "
            "another --out"
        )
    if taxonomy is not None:
        try:
            learner.taxonomy = taxonomy  # it may have grown
        except RamifyError as error:
            raise RamifyError(f"--taxonomy {tree}: {error} in another --out") from None
    if learner.samples:
        by = method_name(learner.get_params()["method"])
        tell(f"the model in {out} goes on: {by}, {counted(learner.samples, 'sample')} so far")
    return learner


def _others(learner: Learner, alike: Learner, given: dict[str, Any]) -> list[str]:
    """What the model has otherwise than it was given."""
    had, got = (
        {name: one.get_params()[name] for name in given if name in _FIXED} | flat(to_dict(one.settings))
        for one in (learner, alike)
    )
    both = [name for name in had if name in got]  # another method has other ones beside
    return [
        f"{name} is {shown(had[name])}, not {shown(got[name])}" for name in both if had[name] != got[name]
    ]


_FIXED = ("method", "image_size", "seed", "ask")  # what is not in the settings


def settings(pairs: list[str], network: str | None) -> dict[str, Any]:
    """`augment.flip=false` → {"augment": {"flip": False}}; only settings, of the types that they have."""
    from ramify.methods.settings import NetworkSettings, Settings
    from ramify.typed import from_dict

    found: dict[str, Any] = {} if network is None else {"network": asdict(NetworkSettings(network))}
    for name, value in set_values(pairs, "NAME=VALUE").items():
        table, _, field = name.rpartition(".")
        fields = found.setdefault(table, {}) if table else found
        if not isinstance(fields, dict):
            raise RamifyError(f"--set {name}: {table} is {shown(fields)}; it must be a table of fields")
        fields[field] = value
    from_dict(Settings, found, "--set")
    return found


def _waiting(lesson: Lesson) -> str:
    return f", {len(lesson.waiting):,} waiting for their image" if lesson.waiting else ""


class LearnProgress:
    """Tells on stderr where it begins, how far it is, and each entry of the accuracy log."""

    def __init__(self, lesson: Lesson, follow: bool) -> None:
        self.follow, self.entries, self.told = follow, len(lesson.notes["log"]), monotonic()
        before = f", {lesson.learned:,} of them learned before" if lesson.learned else ""
        rows = (
            f"{counted(len(lesson.rows), 'row')}{before}{_waiting(lesson)}" if lesson.rows else "nothing new"
        )
        tell(f"{lesson.source.name}: {rows}")

    def show(self, lesson: Lesson) -> None:
        """Tell what is new; how far it is only now and then."""
        self.show_log(lesson)
        waits = self.follow and lesson.learned == len(lesson.rows)
        if waits or monotonic() - self.told >= TELL_EVERY:
            more = "; waiting for more, Ctrl-C ends" if waits else ""
            tell(f"{lesson.learned:,} of {counted(len(lesson.rows), 'row')}{_waiting(lesson)}{more}")
            self.told = monotonic()

    def show_log(self, lesson: Lesson) -> None:
        """Tell the entries of the accuracy log that are new."""
        for entry in lesson.notes["log"][self.entries :]:
            parts = (f"level {level} {100 * value:.1f}%" for level, value in entry["accuracy"].items())
            tell(f"{counted(entry['samples'], 'sample')}  right before learning: {', '.join(parts)}")
        self.entries = len(lesson.notes["log"])
