"""`ramify push`: a model on the Hugging Face hub."""

from __future__ import annotations

import sys
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser, add_own_code
from ramify.plural import counted


def main(argv: list[str]) -> int:
    """Run `ramify push`."""
    parser = Parser(
        prog="ramify push",
        description="Send a model and its card (README.md) to the Hugging Face hub. A model's memory holds "
        "images that it was taught with, and their names: they are left out, with your notes and the history "
        "of edits, unless --with-memory is given. Without them it answers the same; taught on, its memory "
        "begins empty. What was sent once stays in the repository's history.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`, or a run's")
    add("repo", metavar="REPO", help="OWNER/NAME; made if it is not there, private unless --public")
    add(
        "--with-memory", action="store_true", help="send the stored images too: it learns on as it would here"
    )
    add("--public", action="store_true", help="let everyone see a repository that is made now")
    add("--licence", "--license", metavar="NAME", help="for the card: apache-2.0, cc-by-4.0, other, …")
    add_own_code(parser)
    args = parser.parse_args(argv)

    from ramify.learner.hub import push

    done = push(
        args.model,
        args.repo,
        memory=args.with_memory,
        public=args.public,
        licence_name=args.licence,
        network=args.network,
        own_code=args.own_code,
        progress=sys.stderr.isatty(),
    )
    if done.samples:
        held = f"with the {counted(done.samples, 'stored sample')} that it was taught with"
    elif done.left_out:
        held = f"without the {counted(done.left_out, 'stored sample')} (--with-memory sends them too)"
    else:
        held = "no sample is stored in it"
    who = "private" if done.private else "public: everyone can see it"
    tell(f"{done.url} ({who}): {done.size / 1e6:.1f} MB, {held}")
    if done.licence is None:
        tell("its card names no licence; --licence sets one, or write it into README.md")
    return 0
