"""Build the package and check it as a user will meet it: `make dist`.

    python tools/dist.py                   # build, check, install into an empty environment, run the demo
    python tools/dist.py --tag v0.1.0      # the same for a release: the version must be the tag's
    python tools/dist.py --no-demo         # without the demo, which takes a few minutes

Every step is done in an environment of its own below build/; what is left in dist/ can be published.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST = 400_000  # bytes of one file in the wheel
SOURCES = ("README.md", "LICENSE", "pyproject.toml", "src/ramify/__init__.py")


def version(root: Path = ROOT) -> str:
    """The one place that says it."""
    found = re.search(r'^__version__ = "(.+)"$', (root / "src/ramify/__init__.py").read_text("utf-8"), re.M)
    assert found
    return found[1]


def package_files(root: Path = ROOT) -> set[str]:
    """All that belongs into the wheel: whatever lies in the package's folder."""
    source = root / "src"
    return {
        path.relative_to(source).as_posix()
        for path in (source / "ramify").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def wheel_problems(wheel: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with a wheel, a line each."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {item.filename: item.file_size for item in archive.infolist()}
        info = {name.partition("/")[2]: name for name in sizes if ".dist-info/" in name}
        about = message_from_string(archive.read(info["METADATA"]).decode())
        entry = archive.read(info["entry_points.txt"]).decode() if "entry_points.txt" in info else ""
    held, meant = {*sizes} - {*info.values()}, package_files(root)
    found = [f"{name} is missing" for name in sorted(meant - held)]
    found += [f"{name} does not belong there" for name in sorted(held - meant)]
    found += [f"{name} has {size:,} bytes" for name, size in sizes.items() if size > LARGEST]
    if about["Version"] != version(root):
        found.append(f"its version is {about['Version']}, the package says {version(root)}")
    if not any(name.endswith("LICENSE") for name in info):
        found.append("it has no licence")
    if "ramify = ramify.cli:main" not in entry:
        found.append("it has no command `ramify`")
    return found


def sdist_problems(sdist: Path, root: Path = ROOT) -> list[str]:
    """What is wrong with the archive of sources, a line each."""
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    return [f"{name} is missing" for name in SOURCES if name not in held] + [
        f"{name} does not belong there"
        for name in sorted(held)
        if name.startswith(("results/", "build/", ".venv/"))
    ]


def environment(folder: Path, *packages: str) -> Path:
    """An empty environment with these packages; its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(folder), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *packages], check=True)
    return python


def build(out: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """The wheel and the archive of sources, built and checked by twine."""
    shutil.rmtree(out, ignore_errors=True)
    python = environment(root / "build" / "release", "-r", str(root / "release.lock"))
    subprocess.run(
        [str(python), "-m", "build", "--no-isolation", "--outdir", str(out), str(root)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    subprocess.run([str(python), "-m", "twine", "check", "--strict", str(wheel), str(sdist)], check=True)
    return wheel, sdist


def try_out(wheel: Path, demo: bool, root: Path = ROOT) -> None:
    """Install the wheel where nothing is, and use it from an empty folder."""
    python = environment(root / "build" / "clean", str(wheel))
    with tempfile.TemporaryDirectory() as desk:
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        for words in (["--version"], ["data", "check", "garden"], *([["demo"]] if demo else [])):
            subprocess.run([str(python.parent / "ramify"), *words], check=True, cwd=desk, env=clean)


def main() -> None:
    """Build, check, install, run."""
    as_it_is = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_it_is)
    parser.add_argument("--tag", help="the tag of the release, v and the version")
    parser.add_argument("--no-demo", action="store_true", help="leave the demo out")
    options = parser.parse_args()
    if options.tag and options.tag != f"v{version()}":
        sys.exit(f"the tag is {options.tag}, the version {version()}: set __version__, or tag v{version()}")
    wheel, sdist = build(ROOT / "dist")
    problems = [f"{wheel.name}: {line}" for line in wheel_problems(wheel)]
    problems += [f"{sdist.name}: {line}" for line in sdist_problems(sdist)]
    if problems:
        sys.exit("\n".join(problems))
    try_out(wheel, not options.no_demo)
    print(f"dist/{wheel.name} and dist/{sdist.name} can be published")


if __name__ == "__main__":
    main()
