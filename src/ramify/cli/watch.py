"""`ramify watch`: the report of runs in progress, in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.errors import RamifyError


def main(argv: list[str]) -> int:
    """Run `ramify watch`."""
    args = _parser().parse_args(argv)
    if not 0 < args.port < 65536:
        raise RamifyError(f"port {args.port}: expected a number from 1 to 65535")

    from ramify.reports.live import make_app, serve

    make_app(args.folder)
    check_free(args.host, args.port)
    tell(f"watching {args.folder} on http://{args.host}:{args.port}/ (Ctrl-C ends it)")
    serve(args.folder, args.host, args.port)
    return 0


def check_free(host: str, port: int) -> None:
    """Refuse a port on which something listens already."""
    import socket

    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        raise RamifyError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ramify watch",
        description="Serve a page with the progress, tables and curves of all runs below a folder. It "
        "updates by itself. Only this machine can ask for it, unless --host says otherwise.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder that runs are written below")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8765, help="default: 8765")
    return parser
