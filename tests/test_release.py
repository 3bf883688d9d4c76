"""What is released: one version, a wheel with all that belongs into it, workflows that are in order."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import dist
import ramify

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_version_is_said_in_one_place() -> None:
    version = ramify.__version__
    assert dist.version() == version
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "ramify.__version__"}
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert f"version = {{{version}}}" in text("README.md")
    latest = re.search(r"^## \[?(\d[\w.]*)\]? \((\d{4}-\d\d-\d\d)\)$", text("CHANGELOG.md"), re.M)
    assert latest
    assert latest[1] == version


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make dist` does, but with the setuptools that is here."""
    out, bare = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (bare / name).write_bytes((ROOT / name).read_bytes())
    for name in dist.package_files():
        (bare / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (bare / "src" / name).write_bytes((ROOT / "src" / name).read_bytes())
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=bare, check=True, capture_output=True)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_has_all_that_belongs_into_it(wheel: Path) -> None:
    assert dist.wheel_problems(wheel) == []


def test_what_is_wrong_with_a_wheel_is_found(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as good, zipfile.ZipFile(other, "w") as bad:
        for item in good.infolist():
            content = good.read(item)
            if item.filename.endswith("entry_points.txt") or item.filename == "ramify/py.typed":
                continue
            if item.filename.endswith("METADATA"):
                content = re.sub(rb"(?m)^Version: .*$", b"Version: 9.9", content)
            bad.writestr(item.filename, content)
        bad.writestr("tests/test_release.py", "")
        bad.writestr("ramify/errors.py.bak", "x" * (dist.LARGEST + 1))
    assert dist.wheel_problems(other) == [
        "ramify/py.typed is missing",
        "ramify/errors.py.bak does not belong there",
        "tests/test_release.py does not belong there",
        f"ramify/errors.py.bak has {dist.LARGEST + 1:,} bytes",
        f"its version is 9.9, the package says {ramify.__version__}",
        "it has no command `ramify`",
    ]


def test_a_tag_of_another_version_is_refused() -> None:
    command = [sys.executable, str(ROOT / "tools" / "dist.py"), "--tag", "v9.9"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"the tag is v9.9, the version {ramify.__version__}")


def test_workflows_are_as_their_schema_says() -> None:
    pytest.importorskip("check_jsonschema", reason="no check-jsonschema: workflows are not checked")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tests_run_on_every_system_and_python_that_is_promised() -> None:
    yaml = pytest.importorskip("yaml")
    matrix = yaml.safe_load(text(".github/workflows/test.yml"))["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"os": ["ubuntu-latest", "macos-latest", "windows-latest"], "python": PYTHONS}
    promised = [
        name.rpartition(" ")[2] for name in PROJECT["project"]["classifiers"] if "Python :: 3." in name
    ]
    assert promised == PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def test_only_the_publishing_job_may_publish() -> None:
    yaml = pytest.importorskip("yaml")
    for path in WORKFLOWS:
        whole = yaml.safe_load(path.read_text("utf-8"))
        assert whole["permissions"] == {"contents": "read"}, path.name
        may = {name for name, job in whole["jobs"].items() if "id-token" in job.get("permissions", {})}
        assert may == ({"publish"} if path.stem == "release" else set())


@pytest.mark.parametrize("name", ["requirements.lock", "release.lock"])
def test_locks_pin_every_package_once(name: str) -> None:
    lines = [line for line in text(name).splitlines() if line and line[0] != "#"]
    assert [
        line for line in lines if not re.fullmatch(r"[\w.\-]+==[\w.+]+(; [\w_]+ \S+ \"[\w.]+\")?", line)
    ] == []
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(names) == len(set(names))


def test_the_image_runs_the_demo_and_copies_what_is_there() -> None:
    told = text("Dockerfile")
    assert told.rstrip().endswith('CMD ["ramify", "demo"]')
    let_in = {line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--)(.*) \S+$", told, re.M) for name in line.split()}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
    extras = re.search(r"\[(\S+)\]\" \\", told)
    assert extras
    assert {*extras[1].split(",")} <= {*PROJECT["project"]["optional-dependencies"]}


def test_the_devcontainer_is_json_and_makes_the_environment() -> None:
    assert "make .venv/ready" in json.loads(text(".devcontainer/devcontainer.json"))["postCreateCommand"]
