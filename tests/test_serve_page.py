"""The page of a served model in a real browser: asked, corrected, taught, its labels changed and back."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ramify
from browsers import chromium, looking_at
from ramify.learner.folder import ModelFolder
from ramify.taxonomy import Taxonomy
from serving import free_port

pytest.importorskip("uvicorn", reason="the server needs the extra `serve`")

from ramify.reports.live import make_server
from ramify.serve.app import make_app
from ramify.serve.service import Service

COLOURS = {
    ("fruit", "apple"): (200, 30, 30),
    ("fruit", "lime"): (40, 190, 40),
    ("tool", "saw"): (40, 60, 200),
}
EVIL = "<img src=x onerror=alert(1)>"


def photo(colour: tuple[int, int, int], seed: int = 0, size: int = 48) -> np.ndarray:
    """Something of that colour."""
    noise = np.random.default_rng(seed).integers(-25, 25, (size, size, 3))
    return np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows three things."""
    learner = ramify.Learner(
        "er",
        image_size=16,
        memory_size=60,
        network={"name": "resnet18", "width": 0.1},
        updates_per_sample=8,
        device="cpu",
    )
    images = np.stack([photo(c, seed, 16) for seed in range(7) for c in COLOURS.values()])
    learner.partial_fit(images, [dict(enumerate(path, 1)) for _ in range(7) for path in COLOURS])
    folder = tmp_path_factory.mktemp("model")
    learner.save(folder)
    return folder


@pytest.fixture
def served(toolbox: Path, tmp_path: Path) -> Iterator[tuple[Service, str]]:
    """The model on its own, and the address of its page."""
    with serving(ramify.Learner.load(toolbox, device="cpu"), tmp_path / "toolbox") as found:
        yield found


@contextmanager
def serving(learner: ramify.Learner, path: Path) -> Iterator[tuple[Service, str]]:
    """A learner behind its page."""
    folder = ModelFolder(path)
    with folder.locked():
        service = Service(learner, folder, idle=0.05)
        port = free_port()
        server = make_server(make_app(service), "127.0.0.1", port)
        thread = threading.Thread(target=server.run, daemon=True)
        service.start()
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield service, f"http://127.0.0.1:{port}/"
        finally:  # its threads would keep the process
            server.should_exit = True
            thread.join(20)
            service.close()


FILE = """([name, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
"""
DROP = (
    FILE
    + """
  const about = { dataTransfer: data, bubbles: true, cancelable: true };
  document.getElementById("drop").dispatchEvent(new DragEvent("drop", about));
}"""
)
PASTE = (
    FILE
    + """
  dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
}"""
)


def test_a_photo_is_dropped_answered_corrected_and_the_next_answer_is_another(
    browser: Any, served: tuple[Service, str]
) -> None:
    service, url = served
    violet = [photo((150, 40, 190), seed) for seed in range(8)]
    with looking_at(browser, url) as page:
        page.get_by_role("heading", name="toolbox").wait_for()
        page.evaluate(DROP, ["violet-0.png", list(png(violet[0]))])
        page.get_by_text("Is this right?").wait_for()
        first = page.locator("#path .name").last.inner_text()
        assert first in ("apple", "lime", "saw")
        page.keyboard.press("c")
        page.get_by_label("What is it?").fill("fruit > plum")
        page.get_by_role("option", name="plum").first.wait_for()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Taught as fruit › plum").wait_for()
        page.locator(".tree").get_by_text("plum", exact=True).wait_for()  # the tree has grown
        assert "plum" in service.learner.labels(2)
        for number, pixels in enumerate(violet[1:4], 1):  # search as you type, one key each
            page.evaluate(PASTE, [f"violet-{number}.png", list(png(pixels))])
            page.get_by_text(f"violet-{number}.png").wait_for()
            page.get_by_text("Is this right?").wait_for()
            page.keyboard.press("c")
            page.get_by_label("What is it?").fill("plu")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Taught as fruit › plum").wait_for()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            page.evaluate(PASTE, ["another.png", list(png(violet[7]))])
            page.get_by_text("Is this right?").wait_for()
            page.wait_for_function("document.querySelector('#path .name')")
            if page.locator("#path .name").last.inner_text() == "plum":
                break
        assert page.locator("#path .name").last.inner_text() == "plum"
        page.locator("body").click(position={"x": 2, "y": 300})
        page.keyboard.press("Enter")  # right: taught with one key
        page.get_by_role("heading", name="Taught as fruit › plum").wait_for()
    end = time.monotonic() + 30
    while service.teaching.waiting and time.monotonic() < end:
        time.sleep(0.02)
    assert service.teaching.learner.samples == 21 + 5


def test_a_frozen_network_says_why_and_a_given_tree_holds_parents_that_were_not_taught(
    browser: Any, tmp_path: Path
) -> None:
    learner = ramify.Learner(
        "er",
        image_size=16,
        memory_size=60,
        network={"name": "resnet18", "width": 0.1},
        freeze="all",
        taxonomy=Taxonomy.from_rows(list(COLOURS)),
        device="cpu",
    )
    images = np.stack([photo(c, seed, 16) for seed in range(3) for c in COLOURS.values()])
    fine = [label for _ in range(3) for _, label in COLOURS]
    learner.partial_fit(images, fine, ids=[f"{label}/{n}.png" for n, label in enumerate(fine)])
    learner.relabel("apple/0.png", "lime")
    with serving(learner, tmp_path / "frozen") as (_, url), looking_at(browser, url) as page:
        page.locator(".tree summary", has_text="fruit").click()
        page.locator(".tree details", has_text="fruit").get_by_text("lime", exact=True).wait_for()
        page.get_by_text("relabelled a sample as lime", exact=True).wait_for()
        page.evaluate(DROP, ["lime.png", list(png(photo(COLOURS["fruit", "lime"], 9)))])
        page.get_by_text("Is this right?").wait_for()
        page.keyboard.press("w")
        page.get_by_text("The stored images that are most like it:").wait_for()
        told = page.locator(".reasons li").all_inner_texts()
        assert len(told) == 8
        assert {text.split("\n")[0] for text in told} == {"apple", "lime", "saw"}
        assert page.locator(".reasons img").count() == 0  # features are stored, no images
        assert all(text.split("\n")[1].endswith(".png") for text in told)  # their names say which


def test_a_label_is_merged_and_that_is_taken_back(browser: Any, served: tuple[Service, str]) -> None:
    service, url = served
    with looking_at(browser, url) as page:
        page.locator(".tree summary", has_text="fruit").click()
        page.get_by_role("button", name="Change lime").click()
        page.get_by_label("Merge into").fill("apple")
        page.get_by_role("button", name="Merge").click()
        page.get_by_text("merged apple, lime into apple").wait_for()
        page.locator(".tree").get_by_text("lime", exact=True).wait_for(state="detached")
        assert set(service.learner.labels(2)) == {"apple", "saw"}
        page.get_by_role("button", name="Undo").click()
        page.locator(".tree").get_by_text("lime", exact=True).wait_for()
        assert set(service.learner.labels(2)) == {"apple", "lime", "saw"}
        page.get_by_text("took back edit 1").wait_for()
        page.get_by_role("button", name="Change lime").click()
        page.get_by_label("Rename to").fill(EVIL)
        page.get_by_role("button", name="Rename", exact=True).click()
        page.locator(".tree").get_by_text(EVIL).wait_for()  # text, never markup


def test_what_other_programs_asked_waits_to_be_labelled(browser: Any, served: tuple[Service, str]) -> None:
    from serving import ask

    url = served[1]
    port = int(url.rstrip("/").rpartition(":")[2])
    for seed in range(3):
        ask(port, "POST", "/predict", png(photo((120, 120, 120), seed)))
    with looking_at(browser, url) as page:
        page.get_by_role("button", name="Label next").click()
        page.get_by_text("from the queue").wait_for()
        assert page.locator("#strip button").count() == 3
        page.keyboard.press("w")
        page.locator("#reasons img").first.wait_for()
        page.locator("body").click(position={"x": 2, "y": 300})
        page.keyboard.press("Enter")
        page.get_by_text("Taught as").first.wait_for()
        page.locator("#strip button").nth(2).wait_for(state="detached")
        assert page.locator("#strip button").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_can_be_read(
    browser: Any, served: tuple[Service, str], scheme: str
) -> None:
    _, url = served
    phone = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with looking_at(browser, url, **phone) as page:
        page.set_input_files(
            "#files", [{"name": "a.png", "mimeType": "image/png", "buffer": png(photo((9, 9, 9)))}]
        )
        page.get_by_text("Is this right?").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        contrast = page.evaluate(CONTRAST)
        assert contrast
        assert min(contrast.values()) >= 4.5, contrast
        unnamed = page.evaluate(UNNAMED)
        assert unnamed == 0


UNNAMED = """() => [...document.querySelectorAll("button, input")].filter(
  (part) => !(part.textContent.trim() || part.ariaLabel || part.labels?.length)).length"""
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const found = {};
  for (const node of document.querySelectorAll("h1, h2, p, span, button, label, dt, dd, figcaption, a")) {
    if (!node.textContent.trim() || !node.offsetParent || node.disabled || node.children.length) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    const name = `${node.tagName} ${node.className} ${node.textContent.trim().slice(0, 20)}`;
    found[name] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }
  return found;
}"""
