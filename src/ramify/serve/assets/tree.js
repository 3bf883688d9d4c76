import { at, edit, get, make, undo } from "./ask.js";

// The label tree, the dialog that changes it, and the history of changes.
const opened = new Set();
let known = null;
let labels = [];
let chosen = null;

const key = (node) => `${node.level}\u001f${node.label}`;

export const allLabels = () => labels;

export async function loadTree(editable) {
  const [tree, flat] = await Promise.all([get("/tree"), get("/labels")]);
  labels = Object.values(flat).flat();
  const now = new Set(labels.map(key));
  const fresh = known === null ? new Set() : new Set([...now].filter((name) => !known.has(name)));
  known = now;
  const place = at("tree");
  at("tree-told").textContent = labels.length ? `${labels.length} in ${Object.keys(flat).length} level${Object.keys(flat).length === 1 ? "" : "s"}` : "";
  if (!labels.length) {
    place.replaceChildren(make("p", { class: "faint" }, "No label yet. Drop a photo and say what it is."));
    return;
  }
  const focused = document.activeElement?.dataset?.key;
  place.replaceChildren(branch(tree.children, fresh, editable));
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function branch(nodes, fresh, editable) {
  return make("ul", {}, ...nodes.map((node) => make("li", {}, node.children.length ? folder(node, fresh, editable) : line(node, fresh, editable))));
}

function line(node, fresh, editable, twig = "") {
  const seen = node.seen ? `${node.seen.toLocaleString("en")} learned` : "not taught";
  return make("div", { class: `node${fresh.has(key(node)) ? " grown" : ""}${node.seen ? "" : " untaught"}` },
    make("span", { class: "twig", "aria-hidden": "true" }, twig),
    make("span", { class: "name" }, String(node.label)),
    make("span", { class: "seen" }, seen),
    editable ? make("button", { type: "button", "data-key": key(node), "aria-label": `Change ${node.label}`, title: "Change", onclick: (event) => { event.preventDefault(); openDialog(node); } }, "⋯") : null);
}

function folder(node, fresh, editable) {
  const name = key(node);
  const below = (list) => list.some((child) => fresh.has(key(child)) || below(child.children));
  if (below(node.children)) opened.add(name);
  const part = make("details", { open: opened.has(name) }, make("summary", {}, line(node, fresh, editable, "▸")));
  const fill = () => { if (part.children.length === 1) part.append(branch(node.children, fresh, editable)); };
  if (part.open) fill();
  part.addEventListener("toggle", () => {
    if (part.open) { opened.add(name); fill(); } else opened.delete(name);
  });
  return part;
}

function openDialog(node) {
  chosen = labels.find((label) => key(label) === key(node)) ?? node;
  at("edit-head").textContent = chosen.label;
  const above = (chosen.path ?? []).slice(0, -1).map(([, label]) => label).join(" › ");
  at("edit-about").textContent = `Level ${chosen.level}${above ? `, under ${above}` : ""}: ${chosen.seen.toLocaleString("en")} learned, ${chosen.stored.toLocaleString("en")} stored`;
  at("edit-problem").textContent = "";
  const fill = (id, level) => at(id).replaceChildren(...labels.filter((l) => l.level === level && l.label !== chosen.label).map((l) => make("option", { value: l.label })));
  fill("same-level", chosen.level);
  fill("level-above", chosen.level - 1);
  for (const form of at("edit").querySelectorAll("form[data-edit]")) form.reset();
  at("edit").querySelector("[data-edit=move]").hidden = chosen.level === 1;
  at("edit").showModal();
  at("edit-rename").focus();
}

const typed = (text) => (typeof chosen.label === "number" ? Number(text) : text.trim());
const EDITS = {
  rename: () => ({ label: chosen.label, new: typed(at("edit-rename").value) }),
  merge: () => ({ labels: [typed(at("edit-merge").value), chosen.label], into: typed(at("edit-merge").value) }),
  move: () => ({ label: chosen.label, parent: typed(at("edit-move").value) }),
  forget: () => ({ label: chosen.label }),
};

export function listen(changed) {
  for (const form of at("edit").querySelectorAll("form[data-edit]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const what = form.dataset.edit;
      for (const button of at("edit").querySelectorAll("button")) button.disabled = true;
      try {
        await edit({ edit: what, level: chosen.level, ...EDITS[what]() });
        at("edit").close();
        changed();
      } catch (error) {
        at("edit-problem").textContent = error.message;
      } finally {
        for (const button of at("edit").querySelectorAll("button")) button.disabled = false;
      }
    });
  }
  at("undo").addEventListener("click", async () => {
    try {
      await undo();
      changed();
    } catch (error) {
      at("history").prepend(make("li", { class: "problem", role: "alert" }, error.message));
    }
  });
}

function told(entry) {
  if (entry.edit === "relabel") return `relabelled ${entry.stored === 1 ? "a sample" : `${entry.stored} samples`} as ${Object.values(entry.labels).join(" › ")}`;
  const names = [entry.labels ?? entry.label ?? []].flat().join(", ");
  if (entry.edit === "rename") return `renamed ${names} to ${entry.new}`;
  if (entry.edit === "merge") return `merged ${names} into ${entry.into}`;
  if (entry.edit === "move") return `moved ${names} under ${entry.parent}`;
  if (entry.edit === "undo") return `took back edit ${entry.of}`;
  return `${entry.edit.replace("_", " ")} ${names || entry.source || ""}`;
}

export async function loadHistory() {
  const entries = await get("/history");
  const undone = new Set(entries.filter((entry) => entry.edit === "undo").map((entry) => entry.of));
  const open = entries.filter((entry) => entry.edit !== "undo" && !undone.has(entry.number) && !entry.for_good);
  at("undo").disabled = !open.length;
  at("history").replaceChildren(...(entries.length
    ? entries.slice(-8).reverse().map((entry) => make("li", {},
      make("span", { class: undone.has(entry.number) ? "undone" : "" }, told(entry)),
      make("time", { datetime: entry.when }, new Date(entry.when).toLocaleString([], { dateStyle: "short", timeStyle: "short" }))))
    : [make("li", { class: "faint" }, "None yet. ⋯ beside a label changes it.")]));
}
