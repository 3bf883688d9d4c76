"""The command `ramify data`."""

import subprocess
import sys

import pytest
from PIL import Image

from ramify.cli import main
from ramify.datasets import SOURCES


def test_list_says_what_is_present(tmp_path, capsys):
    assert main(["data", "list", "--data-dir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:-2]}
    assert set(lines) == set(SOURCES)
    assert len(lines) == 10
    assert "present" in lines["garden"]
    assert "absent" in lines["cifar100"]


def test_get_and_check_garden(capsys):
    assert main(["data", "get", "garden"]) == 0
    assert "4,800 train and 1,200 test images of 32×32" in capsys.readouterr().out
    assert main(["data", "check", "garden"]) == 0
    out = capsys.readouterr().out
    assert "2 / 4 / 12 / 48" in out
    assert "checksums right" in out


def test_show_writes_a_sheet_with_a_row_a_leaf(tmp_path, capsys):
    out = tmp_path / "sheet.png"
    assert main(["data", "show", "garden", "--out", str(out)]) == 0
    with Image.open(out) as sheet:
        assert sheet.width * sheet.height > 48 * 66 * 8 * 66
        assert len(sheet.convert("RGB").getcolors(10**7)) > 1000
    assert str(out) in capsys.readouterr().out


def test_show_of_your_own_with_long_names_and_one_level(paint, tmp_path):
    for part in ("train", "test"):
        for name in ("a", "an unusually long name for a class of images that goes on", "x" * 80):
            paint(tmp_path / "own" / part / name / "1.png")
    arguments = ["data", "show", str(tmp_path / "own"), "--size", "8", "--data-dir", str(tmp_path)]
    assert main([*arguments, "--out", str(tmp_path / "s.png")]) == 0


def test_broken_images_are_skipped_by_the_flag(paint, tmp_path, capsys):
    for name in ("train/a/1", "train/a/2", "test/a/1"):
        paint(tmp_path / "own" / f"{name}.png")
    (tmp_path / "own/train/a/2.png").write_bytes(b"")
    arguments = ["data", "get", str(tmp_path / "own"), "--size", "8", "--data-dir", str(tmp_path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "train/a/2.png (it is empty)" in error
    assert error.count("\n") == 1
    assert main([*arguments, "--skip-broken"]) == 0
    assert "1 train and 1 test" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "gardenn"], "did you mean 'garden'?"),
        (["check", "garden", "--size", "0"], "image_size is 0"),
        (["show", "garden", "--taxonomy", "nothing.csv"], "no tree"),
        (["show", "garden", "--taxonomy", "cifar100"], "'moon daisy'"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main(["data", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_help_imports_nothing_heavy():
    code = "import sys; from ramify.cli import main\ntry: main(['data', '--help'])\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'scipy', 'numpy', 'PIL', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_datasets_need_no_torch():
    code = "import sys, ramify.datasets; assert not {'torch', 'scipy', 'pyarrow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
