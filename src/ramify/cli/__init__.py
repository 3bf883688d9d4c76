"""The command `ramify`. Each sub-command lives in a module of its own, imported only when it is called."""

from __future__ import annotations

import difflib
import importlib
import logging
import sys
import traceback

from ramify.cli.logs import on_stderr, take_level
from ramify.cli.parser import numbers_alike
from ramify.errors import RamifyError

COMMANDS = {
    "demo": ("ramify.cli.demo", "learn the built-in images with three methods and compare them"),
    "data": ("ramify.cli.data", "list, get, check and show datasets"),
    "taxonomy": ("ramify.cli.taxonomy", "show a label tree"),
    "stream": ("ramify.cli.stream", "show which classes arrive when"),
    "methods": ("ramify.cli.methods", "list the methods and the parts they are made of"),
    "run": ("ramify.cli.run", "run one method on one stream"),
    "compare": ("ramify.cli.compare", "run several methods over seeds and print their table"),
    "reproduce": ("ramify.cli.reproduce", "a table or figure of the paper, its figures beside ours"),
    "report": ("ramify.cli.report", "make one HTML file of runs: tables, curves, mistakes"),
    "leaderboard": ("ramify.cli.leaderboard", "one page of published runs, or a check of new ones"),
    "watch": ("ramify.cli.watch", "a live page of runs in progress"),
    "export": ("ramify.cli.export", "records and results as CSV or Parquet"),
    "publish": ("ramify.cli.publish", "add finished runs to an archive, one file that is read like a folder"),
    "import": ("ramify.cli.bring", "labels from Label Studio or FiftyOne, or an archive of runs as folders"),
    "resume": ("ramify.cli.resume", "continue a run that was stopped"),
    "sweep": ("ramify.cli.sweep", "do all runs of a study"),
    "learn": ("ramify.cli.learn", "teach a model from your own list of labelled images"),
    "predict": ("ramify.cli.predict", "ask a model about images"),
    "edit": ("ramify.cli.edit", "rename, merge, split, move or forget a model's labels, or take that back"),
    "describe": ("ramify.cli.describe", "say what a model knows"),
    "push": ("ramify.cli.push", "share a model on the Hugging Face hub, without the images in it"),
    "serve": ("ramify.cli.serve", "answer and learn over HTTP, with a page to teach"),
    "bench": ("ramify.cli.bench", "measure what the methods cost on this machine"),
}


def usage() -> str:
    """The text of `ramify --help`."""
    lines = "\n".join(f"  {name:<12}{summary}" for name, (_, summary) in COMMANDS.items())
    return (
        "usage: ramify COMMAND ...\n\n"
        "Online continual learning while the labels keep branching into finer ones.\n\n"
        f"commands:\n{lines}\n\n"
        "`ramify COMMAND --help` says more; `ramify --version` prints the version. Every command takes\n"
        "-q (its result, warnings and errors alone) and -v (also what helps to find a mistake).\n"
    )


def dispatch(argv: list[str]) -> int:
    """Run one sub-command and return its exit code."""
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(usage())
        return 0
    if argv[0] == "--version":
        from ramify import __version__

        sys.stdout.write(f"ramify {__version__}\n")
        return 0
    if argv[0] not in COMMANDS:
        near = difflib.get_close_matches(argv[0], COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see `ramify --help`"
        raise RamifyError(f"no command {argv[0]!r}; {hint}")
    sys.path.append("")  # `--method mine:method` may lie where the user is
    module = importlib.import_module(COMMANDS[argv[0]][0])
    code: int = module.main(numbers_alike(argv[1:]))
    return code


def main(argv: list[str] | None = None) -> int:
    """Entry point: mistakes become one line on stderr and exit code 2."""
    words, level = take_level(sys.argv[1:] if argv is None else argv)
    try:
        with on_stderr(level):
            return dispatch(words)
    except RamifyError as error:
        if level <= logging.DEBUG:
            traceback.print_exc()
        sys.stderr.write(f"ramify: error: {' '.join(str(error).split())}\n")
        return 2
    except KeyboardInterrupt as stop:  # a run that was stopped says how to continue, and its exit code
        sys.stderr.write(f"ramify: {str(stop) or 'interrupted'}\n")
        return getattr(stop, "code", 130)
    except BrokenPipeError:  # `ramify ... | head`
        sys.stderr.close()
        return 141
    except OSError as error:  # no permission, a name too long, no space for what is printed
        told = str(error.strerror or error)
        if error.filename is not None:
            told = f"{error.filename} cannot be used: {told}; give another path, or mend this one"
        sys.stderr.write(f"ramify: error: {told}\n")
        return 2
