"""`sweep`: the one door through which many runs go."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from ramify.errors import RamifyError
from ramify.locks import hold_folder
from ramify.plural import some
from ramify.runs.result import Result
from ramify.sweeps.cost import Costing, Totals
from ramify.sweeps.engines import Engine, drive
from ramify.sweeps.folder import StudyFolder
from ramify.sweeps.jobs import How, jobs_for
from ramify.sweeps.local import Local
from ramify.sweeps.store import Store
from ramify.sweeps.study import Study, StudyRun
from ramify.sweeps.table import RunTable
from ramify.sweeps.words import duration

log = logging.getLogger("ramify")


def sweep(
    study: Study,
    out: str | Path,
    engine: Engine | None = None,
    how: How | None = None,
    *,
    retries: int = 1,
    shared: bool = False,
    quiet: bool = False,
    rerun: Literal["changed"] | None = None,
) -> dict[str, Result]:
    """Do the runs of a study that are not finished in `out`, and return the results of all by name.

    Unfinished runs continue from their checkpoint; a run that fails is tried again up to `retries` times
    while the others go on, and one that fails for good makes the sweep raise `RamifyError` at its end.
    Ctrl-C lets every run write a checkpoint. A `shared` folder holds the runs of several studies. A finished
    run whose code has changed since is named, and run again only with `rerun="changed"`. How far the runs are
    is shown on stderr where ramify's log is (`logging`, level INFO), unless `quiet`.
    """
    quiet = quiet or not log.isEnabledFor(logging.INFO)
    how = how or How()
    engine = engine or Local(threads=how.threads)
    folder = StudyFolder(out)
    if retries < 0:
        raise RamifyError(f"retries is {retries}; it must be 0 or more")
    if not shared:
        folder.check(study)
    _fetch(study, folder, how)
    results = folder.results(study)
    changed = folder.changed(study)
    anew = set(changed) if rerun == "changed" else set()
    if changed and not anew:
        _say_changed(changed)
    if begun := folder.changed(study, finished=False):
        log.warning("begun with other code than they go on with: %s", some(begun))
    missing = [run for run in study if run.name not in results or run.name in anew]
    if missing:
        path = folder.writable()
        prepare_datasets(missing, how)
        with hold_folder(path), RunTable(study, folder, quiet) as table:
            if not shared:
                folder.write(study)
            jobs = [
                job
                for run in missing
                for job in jobs_for(run, folder.of(run), how, engine.places, run.name in anew)
            ]
            done = drive(engine, jobs, table, retries)
        _fetch(study, folder, how)
        errors = {run.name: done[run.name].error for run in missing if done[run.name].error is not None}
        if errors:
            name, error = next(iter(errors.items()))
            raise RamifyError(
                f"{len(errors)} of {len(study)} failed, {name} first: {error} (see {folder.path / name}); "
                "the same command tries again"
            )
        results = folder.results(study)
        for run in study:
            if run.name not in results:
                raise RamifyError(
                    f"{folder.of(run)} was removed while the sweep was at work; repeat the command"
                )
        folder.write_totals(results, _paper_seconds(study, results, how))
    if not quiet:
        _say_totals(results, folder.paper_seconds(results))
    return results


def _fetch(study: Study, folder: StudyFolder, how: How) -> None:
    """Bring the finished runs of the store, where there is one, to the study's folder."""
    if how.store is not None:
        for run in study:
            store = Store(how.store, run.name)
            if folder.result(run) is None and store.finished():
                store.pull(folder.of(run))


def prepare_datasets(runs: list[StudyRun], how: How) -> None:
    """Decode each dataset once, before workers ask for it; a dataset that is not there is an error here."""
    costing = Costing(how.data_dir)
    for run in runs:
        costing.dataset(run.config)


def _paper_seconds(study: Study, results: dict[str, Result], how: How) -> float | None:
    """What the study would take with the paper's settings, at the speed that it had here."""
    costing = Costing(how.data_dir)
    try:
        return sum(results[run.name].seconds * costing.paper_ratio(run.config) for run in study)
    except RamifyError:  # the images of a run that was finished elsewhere are not here
        return None


def _say_changed(changed: dict[str, list[str]]) -> None:
    modules = ", ".join(sorted({name for names in changed.values() for name in names}))
    count = "1 finished run is" if len(changed) == 1 else f"{len(changed)} finished runs are"
    log.warning(
        "%s of other code than there is now (%s changed): %s; --rerun changed runs them again",
        count,
        modules,
        some(changed),
    )


def _say_totals(results: dict[str, Result], paper: float | None) -> None:
    log.info("%s", Totals.of(results.values()))
    if paper is not None:
        log.info("with the paper's settings, by multiply-adds: about %s of computing", duration(paper))
