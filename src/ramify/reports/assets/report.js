"use strict";
// Method switches, values under the pointer, one method in detail. Everything shown is put in as text.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const hidden = new Set();
  let detail = {};
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function applySwitches() {
    for (const box of all("input[data-toggle]")) box.checked = !hidden.has(box.dataset.toggle);
    for (const part of all("[data-series]")) part.classList.toggle("off", hidden.has(part.dataset.series));
  }

  async function unpack(part) {
    const bytes = Uint8Array.from(atob(part.dataset.packed), (c) => c.charCodeAt(0));
    delete part.dataset.packed;
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const view = new DOMParser().parseFromString(await new Response(plain).text(), "text/html");
    part.replaceChildren(...view.body.childNodes);
    refresh();
  }

  function applyDetails() {
    for (const chooser of all("select[data-choose]")) {
      const wanted = detail[chooser.dataset.choose];
      if ([...chooser.options].some((option) => option.value === wanted)) chooser.value = wanted;
      for (const part of all(`[data-group="${chooser.dataset.choose}"]`)) {
        part.hidden = part.dataset.detail !== chooser.value;
        if (!part.hidden && part.dataset.packed) unpack(part);
      }
    }
  }

  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  function hide() {
    tip.hidden = true;
    for (const line of all(".cursor")) line.remove();
  }

  const toPanel = (svg, x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
  const toScreen = (svg, x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
  const nearest = (points, x) => points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best));
  const round = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toFixed(2)));

  // Lines: the values of all visible methods at the evaluation nearest to x (in units of the data).
  function lineTip(svg, x) {
    const data = svg.dataset;
    const lines = all("[data-points]", svg).filter((g) => !g.classList.contains("off"));
    if (!lines.length) return null;
    const points = lines.map((g) => JSON.parse(g.dataset.points));
    const at = nearest(points.map((p) => nearest(p, x)), x)[0];
    const rows = lines.flatMap((g, i) => {
      const found = points[i].find((p) => p[0] === at);
      if (!found) return [];
      const spread = found[2] === null ? "" : ` ± ${round(found[2])}`;
      return [`${g.dataset.label}: ${round(found[1])}${spread}${data.unit ? ` ${data.unit}` : " %"}`];
    });
    const scale = (at - data.x0) / (data.x1 - data.x0);
    const px = +data.left + scale * (data.right - data.left);
    all(".cursor", svg).forEach((line) => line.remove());
    const cursor = document.createElementNS(NS, "path");
    cursor.setAttribute("class", "cursor");
    cursor.setAttribute("d", `M${px} ${data.top}V${data.bottom}`);
    svg.append(cursor);
    return { at, px, text: [`${at.toLocaleString("en")} samples`, ...rows].join("\n") };
  }

  // Heat maps: opacity is the square root of the value; read it back from the image.
  const pixels = new WeakMap();
  function opacity(image, column, row) {
    if (!pixels.has(image)) {
      const picture = new Image();
      picture.src = image.getAttribute("href");
      pixels.set(image, null);
      picture.decode().then(() => {
        const canvas = document.createElement("canvas");
        canvas.width = picture.width;
        canvas.height = picture.height;
        const context = canvas.getContext("2d", { willReadFrequently: true });
        context.drawImage(picture, 0, 0);
        pixels.set(image, context.getImageData(0, 0, canvas.width, canvas.height));
      });
    }
    const data = pixels.get(image);
    return data ? data.data[4 * (row * data.width + column) + 3] / 255 : null;
  }

  function heatTip(svg, x, y) {
    const data = svg.dataset;
    const columns = JSON.parse(data.columns);
    const index = JSON.parse(data.blocks).findIndex(([top, bottom]) => y >= top && y < bottom);
    const column = Math.floor(((x - data.left) / (data.right - data.left)) * columns.length);
    if (index < 0 || column < 0 || column >= columns.length) return null;
    const [top, bottom, first, size] = JSON.parse(data.blocks)[index];
    const row = Math.min(size - 1, Math.floor(((y - top) / (bottom - top)) * size));
    const share = opacity(all("image", svg)[index], column, row);
    const value = share === null ? "…" : round(+(share * share * data.scale).toFixed(1));
    return `${JSON.parse(data.rows)[first + row]} → ${columns[column]}: ${value} ${data.unit}`;
  }

  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg.panel");
    if (!svg) return hide();
    const point = toPanel(svg, event.clientX, event.clientY);
    let text = event.target.closest("[data-tip]")?.dataset.tip ?? null;
    if (svg.dataset.kind === "lines") {
      const share = (point.x - svg.dataset.left) / (svg.dataset.right - svg.dataset.left);
      text = lineTip(svg, +svg.dataset.x0 + share * (svg.dataset.x1 - svg.dataset.x0))?.text ?? null;
    } else if (svg.dataset.kind === "heat") {
      text = heatTip(svg, point.x, point.y);
    }
    if (text) show(text, event.clientX, event.clientY);
    else hide();
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });

  // Keyboard: a focused panel is walked with the arrow keys.
  const walked = new WeakMap();
  function walk(svg, step) {
    if (svg.dataset.kind === "lines") {
      const lines = all("[data-points]", svg).filter((g) => !g.classList.contains("off"));
      const xs = [...new Set(lines.flatMap((g) => JSON.parse(g.dataset.points).map((p) => p[0])))].sort((a, b) => a - b);
      if (!xs.length) return;
      const next = Math.min(xs.length - 1, Math.max(0, (walked.get(svg) ?? (step > 0 ? -1 : xs.length)) + step));
      walked.set(svg, next);
      const found = lineTip(svg, xs[next]);
      const place = toScreen(svg, found.px, +svg.dataset.top);
      show(found.text, place.x, place.y);
    } else if (svg.dataset.kind === "tips") {
      const parts = all("[data-tip]", svg).filter((part) => !part.classList.contains("off"));
      if (!parts.length) return;
      const next = (((walked.get(svg) ?? (step > 0 ? -1 : 0)) + step) % parts.length + parts.length) % parts.length;
      walked.set(svg, next);
      const box = parts[next].getBoundingClientRect();
      show(parts[next].dataset.tip, box.left + box.width / 2, box.top + box.height / 2);
    }
  }
  document.addEventListener("keydown", (event) => {
    const svg = event.target.closest?.("svg.panel");
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!svg || !step) return;
    event.preventDefault();
    walk(svg, step);
  });
  document.addEventListener("focusout", hide);

  document.addEventListener("change", (event) => {
    const { toggle, choose } = event.target.dataset;
    if (toggle !== undefined) {
      if (event.target.checked) hidden.delete(toggle);
      else hidden.add(toggle);
      applySwitches();
    }
    if (choose !== undefined) {
      detail[choose] = event.target.value;
      applyDetails();
      markMore();
    }
  });

  // What is wider than the page fades out on the side where there is more of it.
  function markMore() {
    for (const part of all(".scroll")) {
      part.classList.toggle("more", part.scrollLeft + part.clientWidth < part.scrollWidth - 2);
      part.classList.toggle("scrolled", part.scrollWidth > part.clientWidth + 2);
    }
  }
  document.addEventListener("scroll", markMore, { passive: true, capture: true });
  document.addEventListener("toggle", markMore, true);
  addEventListener("resize", markMore);

  function refresh() {
    for (const svg of all("svg.panel[data-kind]")) svg.tabIndex = 0;
    applySwitches();
    applyDetails();
    markMore();
  }
  refresh();

  // The live page: fetch the view again when the server says that records have arrived.
  if (document.body.dataset.live !== undefined) {
    const state = document.getElementById("state");
    const update = async () => {
      const answer = await fetch("view");
      if (!answer.ok) return;
      const view = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement?.id;
      const open = new Set(all("details[open][id]").map((part) => part.id));
      document.getElementById("view").replaceChildren(...view.body.childNodes);
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      refresh();
      if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    };
    const events = new EventSource("events");
    events.onmessage = update;
    events.onopen = () => { state.textContent = "live"; };
    events.onerror = () => { state.textContent = "no connection to ramify watch; trying again"; };
  }
})();
