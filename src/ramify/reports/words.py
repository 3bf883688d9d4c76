"""Short sentences about runs: their scale, their progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ramify.networks.resnet import BLOCKS
from ramify.networks.settings import FEATURES, NetworkSettings
from ramify.plural import counted, some
from ramify.reports.data import RunData
from ramify.runs.code import changed_code, codes_in
from ramify.streams import told_levels


def scale(runs: Sequence[RunData]) -> str:
    """Preset and scale of runs, so that nobody takes a small run for the paper's."""
    presets = sorted({str(run.facts.get("preset")) for run in runs if run.facts.get("preset")})
    parts = [
        f"preset {' and '.join(presets)}" if presets else "",
        _all(_network(run.config.network) for run in runs),
        _all(f"{u:g} update{'s' * (u != 1)} a sample" for u in (r.config.updates_per_sample for r in runs)),
        _all(f"memory of {run.config.memory_size:,}" for run in runs),
        _all(counted(run.samples, "sample") for run in runs),
        f"seeds {', '.join(map(str, sorted({run.config.seed for run in runs})))}",
    ]
    known = [p for p in presets if p != "paper"]
    smaller = "; not the paper's scale" if known or not presets else ""
    cut = any(run.config.limit or run.config.per_class or run.config.imbalance for run in runs)
    size = f"Scale: {', '.join(filter(None, parts))}{smaller or ('; not the whole stream' if cut else '')}."
    levels = _all(filter(None, (told_levels(run.facts) for run in runs)))  # runs of before have not told it
    return f"{size} {levels[0].upper()}{levels[1:]}." if levels else size


def mixed_code(runs: Sequence[RunData]) -> str | None:
    """One line that names the runs whose code is not that of the newest run; None where all agree.

    Only what runs recorded is compared, module by module; older runs recorded nothing.
    """
    newest: dict[str, str] = {}
    for run in sorted(runs, key=lambda run: str(run.facts.get("started", ""))):
        for code in codes_in(run.facts):
            newest |= code
    apart = {run.path.name: other for run in runs if (other := changed_code(run.facts, newest))}
    if not apart:
        return None
    modules = ", ".join(sorted({name for names in apart.values() for name in names}))
    return f"Not all runs are of one code ({modules} differs); of older code: {some(sorted(apart))}."


def _network(settings: NetworkSettings) -> str:
    """Its name, the width of a ResNet, and what of it is frozen."""
    width = f" × {settings.width:g}" if settings.name in BLOCKS else ""
    frozen = {"none": "", "all": " (frozen)"}.get(settings.freeze, f" (frozen to stage {settings.freeze})")
    return f"{settings.name}{width}{frozen if settings.name != FEATURES else ''}"


def _all(texts: object) -> str:
    found = list(dict.fromkeys(texts))  # type: ignore[call-overload]
    return found[0] if len(found) == 1 else ""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    done: int
    total: int
    speed: float | None  # samples a second over the latest stretch
    left: float | None  # seconds

    @classmethod
    def of(cls, run: RunData) -> Progress:
        """From the records: time spent on training and evaluation since the last but three."""
        records = run.records
        if not records:
            return cls(0, run.samples, None, None)
        last, first = records[-1], records[-4] if len(records) > 3 else None
        spent = last.train_seconds - (first.train_seconds if first else 0)
        spent += sum(r.eval_seconds for r in records[-3:])
        samples = last.samples - (first.samples if first else 0)
        speed = samples / spent if spent > 0 and samples > 0 else None
        left = (run.samples - last.samples) / speed if speed else None
        return cls(last.samples, run.samples, speed, left)
