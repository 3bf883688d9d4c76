"""`ramify run`: one method on one stream."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ramify.cli.logs import tell
from ramify.cli.parser import Parser
from ramify.cli.progress import RunProgress
from ramify.datasets.features import feature_file
from ramify.errors import RamifyError
from ramify.methods.settings import with_groups
from ramify.reports.write import report_run
from ramify.runs.checkpoint import EVERY
from ramify.runs.config import Config, PlainConfig, config_type, tables_of
from ramify.runs.execute import run_config
from ramify.runs.presets import resolve
from ramify.runs.result import Result
from ramify.runs.run import Run
from ramify.runs.track import Tracking
from ramify.streams import SETUPS

OFF = (0, False, "none")  # augmentation that does nothing
SETUP_HELP = f"Which classes arrive when: {', '.join(SETUPS)}, or package.module:name for your own."


@dataclass(frozen=True)
class RunCommand(PlainConfig):
    """Run one method on one stream.

    A preset gives the settings that suit the dataset, the setup and the method; anything on the command line
    goes before it. Progress goes to stderr; the folder --out receives the records and the result.
    """

    setup: Annotated[str, tyro.conf.arg(help=SETUP_HELP)] = Config.setup
    preset: str = "quick"
    """paper, small, study, quick, pretrained, or the path of a TOML file."""
    out: str | None = None
    """Folder for the results; default runs/DATASET-SETUP-METHOD-PRESET-SEED."""
    resume: bool = False
    """Continue the unfinished run in the folder, if there is one."""
    force: bool = False
    """Overwrite a run that is in the folder already."""
    checkpoint_every: float = EVERY
    """Seconds between checkpoints; one is also written at each task's end and when the run is stopped."""
    data_dir: str | None = None
    """Where datasets live; default $RAMIFY_DATA or the user's cache folder."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    threads: int | None = None
    """CPU threads of one run; default: all cores."""
    track: Literal["tensorboard", "wandb", "mlflow", "trackio"] | None = None
    """Send the records to a tracker, too (needs the extra of that name)."""
    json: bool = False
    """Print result.json last on stdout."""

    def config(self) -> Config:
        """Only what the result depends on."""
        kind = config_type(self.method, self.setup)
        return kind(**{field.name: getattr(self, field.name) for field in fields(kind)})


def parse(argv: list[str]) -> RunCommand:
    """The command line over the preset that it names."""
    first = Parser(prog="ramify run", add_help=False, allow_abbrev=False)
    for name in ("preset", "method", "dataset", "setup"):
        first.add_argument(f"--{name}", default=getattr(RunCommand, name))
    chosen = vars(first.parse_known_args(argv)[0])
    base = resolve(**chosen)
    kind = with_groups(RunCommand, tables_of(base.method, base.setup))
    values = {field.name: getattr(base, field.name) for field in fields(base)}
    command = _tyro(argv, kind(**values, preset=chosen["preset"]))
    _refuse_pixels(command, base)
    return command


def _refuse_pixels(command: RunCommand, base: Config) -> None:
    """Refuse an augmentation that was asked for where there are no images to apply it to.

    That of a preset is left out instead: nobody asked for it.
    """
    asked, preset = command.augment, base.augment
    told = [f.name for f in fields(asked) if getattr(asked, f.name) not in (getattr(preset, f.name), *OFF)]
    features = feature_file(Path(command.dataset).expanduser())
    made = command.feature_views and told != ["cutmix"]  # by augmented views
    if told and (features or (command.network.encodes and not made)):
        raise RamifyError(
            f"augment.{told[0]} needs pixels, and learning sees features alone: leave it out, encode "
            "augmented views (--feature-views 4), or keep images (--network.no-encode)"
        )


def _tyro(argv: list[str], default: RunCommand) -> RunCommand:
    """Parse with tyro, with the tables of the method's own settings; its boxed messages become one line."""
    caught = io.StringIO()
    whose = (
        f"preset {default.preset}, method {default.method}, dataset {default.dataset}, setup {default.setup}"
    )
    about = f"{inspect.cleandoc(RunCommand.__doc__ or '')}\n\nThe defaults below are those of {whose}."
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(type(default), args=argv, default=default, prog="ramify run", description=about)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise RamifyError(_one_line(caught.getvalue())) from None


def _one_line(boxed: str) -> str:
    """What tyro says in a box, without the frame, its title and the pointer to the help text."""
    lines = [line.strip("│─ ") for line in boxed.splitlines() if not line.startswith(("╭", "╰", "├"))]
    return re.split(r"Argument helptext|For full helptext|Full helptext", " ".join(filter(None, lines)))[
        0
    ].strip()


def execute(command: RunCommand) -> Result:
    """Run what the command says."""
    config = command.config()
    name = f"{config.dataset}-{config.setup}-{config.method}-{command.preset}-{config.seed}"
    out = command.out or "runs/" + re.sub(r"[^\w.-]+", "-", name)
    with RunProgress() as progress, Tracking(command.track, config, Path(out)) as tracking:

        def watch(run: Run) -> None:
            progress.show(run)
            tracking.show(run)

        result = run_config(
            config,
            out,
            resume=command.resume,
            force=command.force,
            device=command.device,
            threads=command.threads,
            data_dir=command.data_dir,
            checkpoint_every=command.checkpoint_every,
            watch=watch,
            preset=command.preset,
        )
    report_run(Path(out), command.data_dir)
    tell(f"results are in {out}, with report.html to look at")
    return result


def main(argv: list[str]) -> int:
    """Entry point."""
    command = parse(argv)
    result = execute(command)
    if command.json:
        sys.stdout.write(json.dumps(result.to_dict()) + "\n")
    return 0
