import { make, percent } from "./ask.js";

const NS = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [360, 150, 34, 20];

function shape(name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// The share of right answers before learning, by level, over the samples learned.
export function drawLog(place, entries) {
  if (!entries.length) {
    place.replaceChildren(make("p", { class: "faint" }, "Each sample is asked before it is learned. The share of right answers appears here."));
    return;
  }
  const levels = [...new Set(entries.flatMap((entry) => Object.keys(entry.accuracy)))].sort((a, b) => a - b);
  const colour = (level) => `c${((level - 1) % 5) + 1}`;
  const last = (level) => entries.findLast((entry) => level in entry.accuracy).accuracy[level];
  const figures = make("dl", { class: "figures" }, ...levels.map((level) => make("div", {},
    make("dt", {}, make("span", { class: `dot ${colour(level)}` }), `Level ${level}`),
    make("dd", {}, percent(last(level))))));
  const parts = [figures];
  if (entries.length > 1) parts.push(chart(entries, levels, colour));
  place.replaceChildren(...parts);
}

function chart(entries, levels, colour) {
  const [first, end] = [entries[0].samples, entries.at(-1).samples];
  const x = (samples) => LEFT + ((WIDTH - LEFT - 6) * (samples - first)) / Math.max(1, end - first);
  const y = (share) => 6 + (HEIGHT - BOTTOM - 6) * (1 - share);
  const told = levels.map((level) => `level ${level} ${percent(entries.findLast((e) => level in e.accuracy).accuracy[level])}`).join(", ");
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Share of right answers before learning, from ${first} to ${end} samples; now ${told}` });
  for (const share of [0, 0.5, 1]) {
    svg.append(shape("path", { d: `M${LEFT} ${y(share)}H${WIDTH - 6}`, class: "grid" }));
    svg.append(shape("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, 100 * share));
  }
  svg.append(shape("text", { x: LEFT, y: HEIGHT - 3 }, first.toLocaleString("en")));
  svg.append(shape("text", { x: WIDTH - 6, y: HEIGHT - 3, "text-anchor": "end" }, `${end.toLocaleString("en")} samples`));
  for (const level of levels) {
    const points = entries.filter((entry) => level in entry.accuracy).map((entry) => `${x(entry.samples).toFixed(1)} ${y(entry.accuracy[level]).toFixed(1)}`);
    svg.append(shape("path", { d: `M${points.join("L")}`, class: colour(level) }));
    const [cx, cy] = points.at(-1).split(" ");
    svg.append(shape("circle", { cx, cy, r: 3.5, class: `mark ${colour(level)}` }));
  }
  return svg;
}
