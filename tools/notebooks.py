"""The notebooks of docs/notebooks: run them and keep what they print; show them as pages of the site.

    python tools/notebooks.py docs/notebooks/*.ipynb     # runs each in an empty folder, and writes it

As a hook of mkdocs it makes a page of every notebook: cells become Markdown, so that links are checked,
code is coloured and words are found as on any other page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mkdocs.structure.files import File, Files

Notebook = dict[str, Any]
PLAIN = {"TERM": "dumb", "NO_COLOR": "1", "TTY_COMPATIBLE": "0", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}


# ---- running


def execute(path: Path, short: Mapping[str, str] = MappingProxyType({})) -> Notebook:
    """The notebook with the outputs of a run from its first cell to its last, in an empty folder.

    `short`: words of its code that others take the place of, to make it quick.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    for words, others in short.items():
        cells = [cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source]
        if not cells:
            raise ValueError(f"{path.name} has no {words!r} in its code")
        for cell in cells:
            cell.source = cell.source.replace(words, others)
    searched = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with tempfile.TemporaryDirectory() as desk:
        client = NotebookClient(
            notebook, timeout=600, record_timing=False, resources={"metadata": {"path": desk}}
        )
        client.execute(env={**os.environ, **PLAIN, "PATH": searched})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.clear()
            cell.outputs = joined(cell.outputs)
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata["ramify"] = {"code": digest(notebook)}
    return notebook


def joined(outputs: list[Notebook]) -> list[Notebook]:
    """Texts that were printed one after the other as one, without lines that were printed over; of a value
    its picture or its text, not every form that Jupyter has for it.
    """
    kept: list[Notebook] = []
    for output in outputs:
        if output["output_type"] == "stream" and kept and kept[-1].get("name") == output["name"]:
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    for output in kept:
        if output["output_type"] == "stream":
            output["text"] = re.sub(r"[^\n]*\r(?!\n)", "", output["text"].replace("\r\n", "\n"))
        else:
            form = "image/png" if "image/png" in output["data"] else "text/plain"
            output["data"] = {form: output["data"][form]}
    return kept


def digest(notebook: Mapping[str, Any]) -> str:
    """Of the code alone: outputs that were made by other code are stale."""
    code = [text(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def main() -> None:
    """Run the notebooks and write them."""
    import nbformat

    parser = argparse.ArgumentParser(description="Run notebooks, and keep what they print in them.")
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    for path in parser.parse_args().notebooks:
        began = time.monotonic()
        nbformat.write(execute(path), path)
        print(f"{path}: {time.monotonic() - began:.0f} s, {path.stat().st_size:,} bytes")


# ---- showing


def text(lines: str | list[str]) -> str:
    """A text of a notebook file, which may be cut into lines."""
    return lines if isinstance(lines, str) else "".join(lines)


def page(notebook: Mapping[str, Any]) -> str:
    """The notebook as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(fenced("python", source))
        parts += [shown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def shown(output: Mapping[str, Any]) -> str:
    """What a cell has printed or returned."""
    if output["output_type"] == "stream":
        return fenced("text", text(output["text"]))
    if "image/png" in output["data"]:
        encoded = text(output["data"]["image/png"]).replace("\n", "")
        return f"![What the cell above shows](data:image/png;base64,{encoded})"
    return fenced("text", text(output["data"]["text/plain"]))


def fenced(kind: str, code: str) -> str:
    """A block of code or of output."""
    return f"````{kind}\n{code.rstrip()}\n````"


class NotebookFile(File):
    """A notebook is a page."""

    def is_documentation_page(self) -> bool:
        """Not a file to download."""
        return True

    @property
    def content_string(self) -> str:
        """What mkdocs reads of it."""
        return page(json.loads(Path(self.abs_src_path).read_text("utf-8")))


def on_files(files: Files, config: Any) -> Files:
    """Hook of mkdocs: every .ipynb is a page."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            files.append(
                NotebookFile(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls)
            )
    return files


if __name__ == "__main__":
    main()
