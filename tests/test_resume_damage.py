"""What a run meets in the world: damaged checkpoints, another config, a full disk, a second process."""

from __future__ import annotations

import json
import os
import pkgutil
import random
import resource
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramify.cli import main
from ramify.errors import RamifyError
from ramify.runs import run_config
from ramify.runs.folder import RunFolder
from ramify.runs.run import Run
from soak import differences
from tiny_runs import tiny

CONFIG = tiny()


class Crash(Exception):
    pass


def crash_at(sample: int) -> Callable[[Run], None]:
    def watch(run: Run) -> None:
        if run.position >= sample:
            raise Crash

    return watch


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that was left alone."""
    out = tmp_path_factory.mktemp("alone")
    run_config(CONFIG, out, threads=1)
    return RunFolder(out)


@pytest.fixture(scope="module")
def crashed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("crashed")
    with pytest.raises(Crash):
        run_config(CONFIG, out, threads=1, checkpoint_every=0, watch=crash_at(104))
    return out


@pytest.fixture
def crashed(crashed_once: Path, tmp_path: Path) -> Path:
    """A run that broke off after sample 104, with checkpoints at 88 and 96."""
    return Path(shutil.copytree(crashed_once, tmp_path / "run"))


def checkpoints(out: Path) -> list[Path]:
    return sorted(out.glob("checkpoint-*.safetensors"))


def content(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if not path.name.startswith(".lock")}


def resume(out: Path, **options: Any) -> RunFolder:
    run_config(CONFIG, out, resume=True, threads=1, **options)
    return RunFolder(out)


def resumed_at(out: Path) -> int:
    return int(RunFolder(out).about()["resumed"][-1]["samples"])


# ---- damaged checkpoints


def test_two_generations_are_kept_and_none_after_the_end(crashed: Path, alone: RunFolder) -> None:
    assert len(checkpoints(crashed)) == len(list(crashed.glob("*.sha256"))) == 2
    assert differences(alone, resume(crashed)) == []
    assert resumed_at(crashed) == 96
    assert not list(crashed.glob("checkpoint-*"))


def test_checksums_are_those_of_sha256sum(crashed: Path) -> None:
    lists = [path.name for path in crashed.glob("*.sha256")]
    subprocess.run(["sha256sum", "--check", "--quiet", *lists], cwd=crashed, check=True)


@pytest.mark.parametrize("suffix", [".safetensors", ".sha256"])
@pytest.mark.parametrize("harm", ["truncate", "empty", "flip", "remove", "extend"])
def test_a_damaged_checkpoint_is_found_and_the_one_before_is_used(
    harm: str, suffix: str, crashed: Path, alone: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(harm + suffix)
    path = checkpoints(crashed)[-1].with_suffix(suffix)
    whole = path.read_bytes()
    if harm == "flip":
        bit = draw.randrange(8 * len(whole))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
    elif harm == "remove":
        path.unlink()
    else:
        length = {"truncate": draw.randrange(len(whole)), "empty": 0, "extend": len(whole) + 1}[harm]
        path.write_bytes(whole[:length].ljust(length, b"\n"))
    assert differences(alone, resume(crashed)) == []
    assert resumed_at(crashed) == 88
    assert f"{path.stem}.safetensors" in caplog.text
    assert "continuing from the one before" in caplog.text


@pytest.mark.parametrize("harm", ["truncated", "without checksums"])
def test_without_a_whole_checkpoint_the_loss_is_named(
    harm: str, crashed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in checkpoints(crashed):
        if harm == "truncated":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.with_suffix(".sha256").unlink()
    before = content(crashed)
    assert main(["resume", str(crashed), "--own-code"]) == 2
    said = capsys.readouterr().err
    assert "no checkpoint is whole" in said
    assert all(path.name in said for path in checkpoints(crashed))
    assert "all that was learned is lost" in said
    assert "--force" in said
    assert content(crashed) == before


def test_a_damaged_generation_does_not_push_out_a_whole_one(crashed: Path) -> None:
    old, new = checkpoints(crashed)
    new.write_bytes(b"")
    with pytest.raises(Crash):
        resume(crashed, checkpoint_every=1e9, watch=crash_at(88))
    assert checkpoints(crashed) == [old]


def test_half_written_files_of_a_killed_process_are_removed(crashed: Path) -> None:
    left = crashed / ".checkpoint-000099.safetensors.abc123"
    left.write_bytes(b"half")
    resume(crashed)
    assert not left.exists()


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_without_any_checkpoint_begins_again_and_says_so(
    begun: bool, tmp_path: Path, alone: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Crash):
        run_config(CONFIG, tmp_path, threads=1, watch=crash_at(40))
    assert len(RunFolder(tmp_path).records()) == 1
    if begun:  # killed while it wrote its first checkpoint
        (tmp_path / "checkpoint-000001.safetensors").write_bytes(b"")
    assert differences(alone, resume(tmp_path)) == []
    assert "begins again, without the 1 records so far" in caplog.text
    assert not checkpoints(tmp_path)


def test_checkpoints_that_a_finished_run_could_not_remove_go_when_it_is_resumed(
    crashed: Path, alone: RunFolder
) -> None:
    kept = {path.name: path.read_bytes() for path in crashed.glob("checkpoint-*")}
    resume(crashed)
    for name, data in kept.items():
        (crashed / name).write_bytes(data)
    assert differences(alone, resume(crashed)) == []
    assert not list(crashed.glob("checkpoint-*"))


def test_the_command_that_continues_takes_any_name_of_a_folder(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(crashed.parent)
    crashed.rename("-x y")
    command = shlex.split(RunFolder("-x y").continue_command)
    assert main(command[1:]) == 0


def test_records_are_cut_back_to_those_of_the_checkpoint(crashed: Path, alone: RunFolder) -> None:
    with (crashed / "records.jsonl").open("a") as file:
        file.write('{"samples": 97, "upd')
    assert len(RunFolder(crashed).records()) == 4  # the line that is half-written does not count
    (crashed / "records.jsonl").unlink()
    assert differences(alone, resume(crashed)) == []


# ---- another run


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 1}, "config.seed was 0 and is 1"),
        ({"memory_size": 31}, "config.memory_size was 30 and is 31"),
        ({"method": "mir"}, "config.method was 'er' and is 'mir'"),
    ],
)
def test_another_config_is_refused_field_by_field(changes: dict[str, Any], named: str, crashed: Path) -> None:
    before = content(crashed)
    with pytest.raises(RamifyError) as caught:
        run_config(tiny(**{"method": "er"} | changes), crashed, resume=True)
    assert named in str(caught.value)
    assert content(crashed) == before


@pytest.mark.parametrize("part", ["dataset", "stream"])
def test_another_dataset_or_stream_is_refused(part: str, crashed: Path) -> None:
    about = json.loads((crashed / "config.json").read_text())
    about[part]["fingerprint"] = "0" * 64
    (crashed / "config.json").write_text(json.dumps(about))
    with pytest.raises(RamifyError, match=f"{part}.fingerprint was 000000000000… and is"):
        resume(crashed)


def test_a_checkpoint_of_another_run_is_refused(crashed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(Crash):
        run_config(tiny(seed=5), other, threads=1, checkpoint_every=0, watch=crash_at(104))
    for path in other.glob("checkpoint-*"):
        shutil.copy(path, crashed)
    with pytest.raises(
        RamifyError, match=r"checkpoint-\d+.safetensors belongs to another run: config.seed was 5"
    ):
        resume(crashed)


def test_a_run_of_another_format_is_refused(crashed: Path) -> None:
    about = json.loads((crashed / "config.json").read_text())
    (crashed / "config.json").write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(RamifyError, match="format 99; this ramify reads 1"):
        resume(crashed)


# ---- occupied folders


def test_a_finished_run_is_not_overwritten_unless_forced(alone: RunFolder, tmp_path: Path) -> None:
    out = Path(shutil.copytree(alone.path, tmp_path / "run"))
    before = content(out)
    with pytest.raises(RamifyError, match="finished run; choose another --out, or overwrite it with --force"):
        run_config(CONFIG, out)
    assert run_config(CONFIG, out, resume=True) == alone.result()
    assert content(out) == before
    run_config(tiny(limit=8), out, force=True)
    assert RunFolder(out).result().samples == 8


def test_a_run_that_cannot_be_begun_leaves_the_one_it_would_overwrite(
    alone: RunFolder, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(alone.path, tmp_path / "run"))
    before, limits = content(out), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(
            RamifyError, match=r"cannot be written: .*what was there before is still as it was"
        ):
            run_config(CONFIG, out, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(out) == before


def test_an_unfinished_run_is_continued_only_when_asked(crashed: Path, alone: RunFolder) -> None:
    with pytest.raises(RamifyError, match="unfinished run; continue it with --resume"):
        run_config(CONFIG, crashed)
    with pytest.raises(RamifyError, match="give one of them"):
        run_config(CONFIG, crashed, resume=True, force=True)
    run_config(CONFIG, crashed, force=True, threads=1)
    assert differences(alone, RunFolder(crashed)) == []
    assert RunFolder(crashed).about()["resumed"] == []


def test_a_second_process_is_refused_and_told_who_holds_the_folder(crashed: Path) -> None:
    before = content(crashed)
    with RunFolder(crashed).locked(), pytest.raises(RamifyError, match=f"in use by process {os.getpid()};"):
        resume(crashed)
    assert content(crashed) == before


# ---- the disk


def mount(*arguments: Any) -> None:
    """Call `mount`; skips where this user may not."""
    if subprocess.run(["mount", *map(str, arguments)], capture_output=True).returncode:
        pytest.skip("this user cannot mount a file system")


def test_a_full_disk_stops_the_run_and_spoils_nothing(tmp_path: Path, alone: RunFolder) -> None:
    out, filler = tmp_path / "run", tmp_path / "filler"
    mount("-t", "tmpfs", "-o", "size=700k", "none", tmp_path)
    try:

        def fill(run: Run) -> None:
            if run.position == 96:
                with pytest.raises(OSError, match="No space"):
                    filler.write_bytes(bytes(2**20))

        with pytest.raises(RamifyError, match=r"cannot be written: .*No space left on device"):
            run_config(CONFIG, out, threads=1, checkpoint_every=0, watch=fill)
        assert not list(out.glob(".checkpoint*"))
        mount("-o", "remount,size=8m", tmp_path)
        assert differences(alone, resume(out)) == []
        assert resumed_at(out) == 88
    finally:
        subprocess.run(["umount", tmp_path], capture_output=True)


def test_a_folder_that_becomes_read_only_stops_the_run_and_spoils_nothing(
    tmp_path: Path, alone: RunFolder
) -> None:
    def freeze(run: Run) -> None:
        if run.position == 96:
            mount("--bind", tmp_path, tmp_path)
            mount("-o", "remount,bind,ro", tmp_path)

    try:
        with pytest.raises(RamifyError, match="cannot be written: Read-only file system"):
            run_config(CONFIG, tmp_path, threads=1, checkpoint_every=0, watch=freeze)
    finally:
        subprocess.run(["umount", tmp_path], capture_output=True)
    assert differences(alone, resume(tmp_path)) == []


def test_a_limit_on_file_sizes_stops_the_run_and_spoils_nothing(tmp_path: Path, alone: RunFolder) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def shrink(run: Run) -> None:
        if run.position == 96:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))

    try:
        with pytest.raises(RamifyError, match=r"cannot be written: .*File too large"):
            run_config(CONFIG, tmp_path, threads=1, checkpoint_every=0, watch=shrink)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert differences(alone, resume(tmp_path)) == []


@pytest.mark.parametrize("every", [0.0, 1e9])
def test_a_folder_that_is_deleted_under_the_run_is_named_and_not_made_again(
    every: float, tmp_path: Path
) -> None:
    out = tmp_path / "run"

    def delete(run: Run) -> None:
        if run.position == 48:
            shutil.rmtree(out)

    with pytest.raises(RamifyError, match="was removed or moved while the run was writing to it"):
        run_config(CONFIG, out, threads=1, checkpoint_every=every, watch=delete)
    assert not out.exists()


@pytest.mark.parametrize("moment", ["ramify.runs.run.Run.state", "ramify.runs.checkpoint._checksum_line"])
def test_a_folder_that_is_deleted_under_a_checkpoint_is_not_made_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    whole = pkgutil.resolve_name(moment)

    def delete(*given: Any) -> Any:
        shutil.rmtree(out)
        return whole(*given)

    monkeypatch.setattr(moment, delete)
    with pytest.raises(RamifyError, match="cannot be written: No such file"):
        run_config(CONFIG, out, threads=1, checkpoint_every=0)
    assert not out.exists()


def test_a_folder_that_another_run_has_taken_over_is_left_alone(tmp_path: Path) -> None:
    out, other = tmp_path / "run", tiny(limit=8)

    def take(run: Run) -> None:
        if run.position == 48:
            shutil.rmtree(out)
            run_config(other, out, threads=1)

    with pytest.raises(RamifyError, match="was removed or moved"):
        run_config(CONFIG, out, threads=1, watch=take)
    assert RunFolder(out).result().samples == 8
    assert len(RunFolder(out).records()) == 1
