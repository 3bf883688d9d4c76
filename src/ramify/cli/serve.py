"""`ramify serve`: a model behind HTTP, with a page to teach it."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ramify.cli.logs import tell, warn, write_as
from ramify.cli.parser import Parser, add_own_code
from ramify.errors import RamifyError
from ramify.plural import counted
from ramify.typed import seconds

if TYPE_CHECKING:
    from ramify.learner import Learner
    from ramify.serve.service import Service

NEW = {"updates_per_sample": 8.0}  # who teaches by hand has few samples, and waits for each


def main(argv: list[str]) -> int:
    """Run `ramify serve`."""
    args = _parser().parse_args(argv)
    write_as(args.log_format)
    if not 0 < args.port < 65536:
        raise RamifyError(f"port {args.port}: expected a number from 1 to 65535")
    for name in ("max_bytes", "max_pixels", "queue", "threads"):
        if getattr(args, name) < 1:
            raise RamifyError(f"--{name.replace('_', '-')} is {getattr(args, name)}; it must be 1 or more")
    if not args.rate >= 0 or not args.idle >= 0 or args.keep < 0:
        raise RamifyError("--rate, --idle and --keep must be 0 or more")
    seconds("--save-every", args.save_every)

    from ramify.cli.watch import check_free
    from ramify.learner.saving import FILE
    from ramify.serve.limits import Limits
    from ramify.serve.server import LOOPBACK, serve

    check_free(args.host, args.port)
    token = args.token or os.environ.get("RAMIFY_TOKEN")
    made_up = token is None and args.host not in LOOPBACK
    if made_up:
        token = secrets.token_urlsafe(18)

    def ready(service: Service) -> None:
        shown = f"http://{args.host}:{args.port}/" + (f"?token={token}" if made_up else "")
        shown += " (with the token that was given)" if token and not made_up else ""
        waits = service.teaching.waiting
        left = f"; first it learns {counted(waits, 'sample')} accepted before" if waits else ""
        say = warn if made_up else tell  # what nobody could know otherwise
        say(f"serving {args.model} on {shown} (Ctrl-C ends it){left}")

    serve(
        lambda: _learner(args),
        args.model,
        host=args.host,
        port=args.port,
        token=token,
        limits=Limits(args.max_bytes, args.max_pixels, args.queue, args.rate),
        save_every=args.save_every,
        keep=args.keep,
        idle=args.idle or None,
        ready=ready,
    )
    saved = (args.model / FILE).exists()
    tell(f"the model is saved in {args.model}" if saved else "nothing was learned; there is no model yet")
    return 0


def _learner(args: argparse.Namespace) -> Learner:
    """The model in the folder, also a run's, or with --new one that knows nothing yet."""
    import torch

    from ramify.cli.learn import settings
    from ramify.learner import Learner
    from ramify.learner.saving import FILE, RUN_FILE

    torch.set_num_threads(args.threads)
    if not any((args.model / name).exists() for name in (FILE, RUN_FILE)):
        if not args.new:
            raise RamifyError(
                f"{args.model} holds no model; give a folder that `ramify learn` or `ramify run` has "
                "written, or --new to begin with a model that knows nothing"
            )
        return Learner(
            args.method or "canopy",
            image_size=args.image_size or 64,
            freeze=args.freeze,
            taxonomy=args.taxonomy,
            device=args.device,
            **{**NEW, **settings(args.set, args.network)},
        )
    for name in ("method", "image_size", "freeze", "taxonomy", "set"):
        if getattr(args, name):
            option = name.replace("_", "-")
            raise RamifyError(f"{args.model} holds a model, and --{option} is for a new one; leave it out")
    return Learner.load(args.model, device=args.device, network=args.network, own_code=args.own_code)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify serve",
        description="Serve a model: a page to ask and to teach it, and the same over HTTP (/api describes "
        "it). It learns what it is sent in the order of its journal, which is on the disk before a sample "
        "is acknowledged, so that nothing is lost or learned twice, however the process ends. Only this "
        "machine can ask, unless --host says otherwise; then a token is needed.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="a folder written by `ramify learn`, or a run's")
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=int, default=8080, help="default: 8080")
    add(
        "--token",
        help="what askers must know; with --host one is made up and printed unless it is given here or in "
        "RAMIFY_TOKEN",
    )
    _add_limits(parser)
    add("--save-every", metavar="SECONDS", type=float, default=60.0, help="default 60")
    add(
        "--keep",
        metavar="N",
        type=int,
        default=500,
        help="images asked about that are kept to be labelled; default 500",
    )
    add(
        "--idle",
        metavar="SECONDS",
        type=float,
        default=1.0,
        help="train on samples that wait for their batch when none has come for so long; 0: never; default 1",
    )
    add(
        "--threads",
        type=int,
        default=max(1, (os.cpu_count() or 2) // 2),
        help="of one pass; default half of the cores",
    )
    add(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="of what goes to stderr; json: an object a line; with -v a line for each request; default text",
    )
    add("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    _add_new(parser)
    add_own_code(parser, "; of a --new model: its network, as in `ramify learn`")
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """What is refused of askers."""
    add = parser.add_argument_group("limits").add_argument
    add(
        "--queue",
        metavar="N",
        type=int,
        default=1000,
        help="samples that may wait to be learned; default 1000",
    )
    add(
        "--rate",
        metavar="N",
        type=float,
        default=100.0,
        help="requests a second from one address; 0: any; default 100",
    )
    add("--max-bytes", metavar="N", type=int, default=20_000_000, help="of one request; default 20,000,000")
    add("--max-pixels", metavar="N", type=int, default=50_000_000, help="of one image; default 50,000,000")


def _add_new(parser: argparse.ArgumentParser) -> None:
    """What a model is like that knows nothing yet."""
    add = parser.add_argument_group("a new model").add_argument
    add("--new", action="store_true", help="begin with a model that knows nothing where MODEL holds none")
    add("--method", help="of a --new model; default canopy")
    add("--image-size", type=int, help="of a --new model; default 64")
    add(
        "--freeze",
        metavar="all|STAGES",
        help="do not train the --network of a --new model, or its first stages",
    )
    add("--taxonomy", help="the tree of a --new model: a file or a name")
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="any other setting of a --new model; updates_per_sample is 8 unless it is set",
    )
