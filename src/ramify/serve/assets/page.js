import { at, get, learn, make, percent, predict, why } from "./ask.js";
import { drawLog } from "./log.js";
import { allLabels, listen, loadHistory, loadTree } from "./tree.js";

const LOOK_EVERY = 1500; // milliseconds between two looks at the server
const AT_ONCE = 3; // photos on their way
const photos = []; // of this page: { url, blob, name, file, answer, before, taught, problem }
let queue = []; // what the server would like to have labelled
let current = null;
let showing = "mine";
let status = { samples: -1, levels: {} };

// ---- asking

async function ask(photo, keep = true) {
  try {
    const answer = await predict(photo.blob, keep);
    if (photo.answer) photo.before = photo.answer;
    Object.assign(photo, { answer, image: answer.image, problem: null });
  } catch (error) {
    if (error.status === 409) Object.assign(photo, { answer: { path: [], top: {}, margin: 0, samples: 0 }, problem: null });
    else photo.problem = error.message;
  }
}

async function take(files) {
  const fresh = [...files].filter((file) => file.type.startsWith("image/") || /\.(heic|heif|avif)$/i.test(file.name));
  if (!fresh.length) return;
  const added = fresh.map((file) => ({ url: URL.createObjectURL(file), blob: file, file: file.name }));
  photos.unshift(...added);
  show("mine");
  select(added[0]);
  const waiting = [...added];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let photo = waiting.shift(); photo; photo = waiting.shift()) {
      await ask(photo);
      if (photo === current) drawCard();
      drawStrip();
    }
  }));
}

// Answers of an earlier model are asked for again: the one in sight, then those in the strip.
let asking = false;
async function renew() {
  if (asking) return;
  asking = true;
  try {
    const shown = [current, ...photos.slice(0, 24)].filter((photo) => photo?.answer && photo.blob && photo.answer.samples < status.samples);
    for (const photo of new Set(shown)) {
      await ask(photo, !photo.taught);
      if (photo === current) drawCard();
    }
    if (shown.length) drawStrip();
  } finally {
    asking = false;
  }
}

// ---- the card

function select(photo) {
  current = photo;
  for (const id of ["correct", "reasons"]) close(id);
  say("");
  drawCard();
  drawStrip();
}

function close(id) {
  at(id).hidden = true;
  at(id === "correct" ? "wrong" : "why").setAttribute("aria-expanded", "false");
}

function say(text, problem = false) {
  at("told").textContent = text;
  at("told").classList.toggle("problem", problem);
}

function drawCard() {
  at("card").hidden = !current;
  if (!current) return;
  const { answer, problem, taught } = current;
  if (at("photo").src !== current.url) at("photo").src = current.url;
  at("photo").alt = current.file ? `Photo ${current.file}` : "Photo";
  at("caption").textContent = current.file ?? "from the queue, as the model sees it";
  const path = answer?.path ?? [];
  at("question").textContent = problem ? "This file cannot be used" : !answer ? "Looking…" : taught ? `Taught as ${taught}` : path.length ? "Is this right?" : "What is it?";
  if (answer?.new?.includes(path.at(-1)?.level) && !taught) at("question").append(" ", make("span", { class: "badge warn" }, "new?"));
  at("path").replaceChildren(...path.map((step) => bar(step)));
  const raw = path.filter((step) => step.confidence == null).map((step) => step.level);
  at("meaning").textContent = !path.length ? "" : !raw.length ? "How often such answers were right, each asked before learning."
    : raw.length === path.length ? "Its own probabilities: too few answers so far to tell how often they are right."
      : `How often such answers were right; at level ${raw.join(", ")} its own probability.`;
  const finest = path.at(-1);
  const others = finest && !taught ? (answer.top[finest.level] ?? []).filter((other) => other.label !== finest.label).slice(0, 3) : [];
  at("others").replaceChildren(...(others.length ? ["or", ...others.map((other) => make("button", { type: "button", title: `its head's own probability: ${percent(other.probability)}`, onclick: () => teachLabel(other.level, other.label) }, String(other.label)))] : []));
  at("right").disabled = !path.length || Boolean(taught);
  at("wrong").disabled = at("skip").disabled = !answer;
  at("why").disabled = !path.length;
  if (problem) say(problem, true);
  if (answer && !path.length && at("correct").hidden && !taught && !problem) openCorrect();
}

// How often such an answer has been right, where that is known; otherwise its head's own probability.
const share = (step) => step.confidence ?? step.probability;

function bar(step) {
  const fill = make("div", { class: "fill" });
  fill.style.width = `${100 * share(step)}%`;
  const before = current.before?.path.find((earlier) => earlier.level === step.level);
  const was = before && before.label !== step.label ? make("span", { class: "was" }, `before: ${before.label} ${percent(share(before))}`) : null;
  const raw = `its head's own probability: ${percent(step.probability)}`;
  const title = step.confidence == null ? raw : `such answers were right ${percent(step.confidence)} of the time; ${raw}`;
  return make("li", { class: share(step) < 0.5 ? "low" : "" },
    make("span", { class: "name" }, String(step.label)),
    make("span", { class: "share", title }, percent(share(step))),
    make("div", { class: "track", "aria-hidden": "true" }, fill), was);
}

function next() {
  const list = showing === "mine" ? photos : queue;
  const left = list.filter((photo) => photo !== current && !photo.taught && photo.answer && !photo.skipped);
  left.sort((a, b) => a.answer.margin - b.answer.margin);
  if (left.length) select(left[0]);
  else drawStrip();
}

async function teach(labels, grows = false) {
  const photo = current;
  const words = labels.map(([, label]) => label).join(" › ");
  const said = new Map((photo.answer?.path ?? []).map((step) => [step.level, String(step.label)]));
  const corrects = labels.some(([level, label]) => said.get(level) !== String(label));
  try {
    if (!photo.blob) { // it leaves the server's queue
      photo.blob = await (await fetch(photo.url)).blob();
      photo.url = URL.createObjectURL(photo.blob);
    }
    let receipt;
    try {
      receipt = await learn(photo.image ?? photo.blob, labels, grows, corrects);
    } catch (error) {
      if (error.status !== 404) throw error;
      receipt = await learn(photo.blob, labels, grows, corrects); // the server keeps only the last ones
    }
    photo.taught = words;
    if (!photos.includes(photo)) photos.unshift(photo);
    queue = queue.filter((other) => other !== photo);
    close("correct");
    say(`Taught as ${words}${receipt.ahead ? `; ${receipt.ahead} to learn before it` : ""}.`);
    drawCard();
    drawStrip();
    look();
  } catch (error) {
    say(error.message, true);
  }
}

const pathOf = (level, label) => allLabels().find((known) => known.level === level && known.label === label)?.path ?? [[level, label]];
const teachLabel = (level, label) => teach(pathOf(level, label));
const accept = () => teach(current.answer.path.map((step) => [step.level, step.label]));

// ---- correcting: search as you type

let options = [];
let active = 0;

function openCorrect() {
  at("correct").hidden = false;
  at("wrong").setAttribute("aria-expanded", "true");
  at("search").value = "";
  search();
  if (matchMedia("(hover: hover)").matches) at("search").focus();
}

const fold = (text) => String(text).toLocaleLowerCase().normalize("NFD").replace(/\p{M}/gu, "");

function matches(text) {
  const wanted = fold(text.trim());
  const rank = (label) => {
    const name = fold(label.label);
    if (name === wanted) return 0;
    if (name.startsWith(wanted)) return 1;
    if (name.split(/[\s_-]+/).some((word) => word.startsWith(wanted))) return 2;
    return name.includes(wanted) ? 3 : fold(label.path.map(([, part]) => part).join(" ")).includes(wanted) ? 4 : 9;
  };
  return allLabels().map((label) => [rank(label), label]).filter(([order]) => order < 9)
    .sort((a, b) => a[0] - b[0] || b[1].level - a[1].level || b[1].seen - a[1].seen).map(([, label]) => label);
}

function search() {
  const text = at("search").value.trim();
  const [above, name] = text.includes(">") ? [text.slice(0, text.lastIndexOf(">")).split(">").at(-1).trim(), text.slice(text.lastIndexOf(">") + 1).trim()] : [null, text];
  const found = matches(above === null ? text : name || above).slice(0, 30);
  options = found.map((label) => ({ labels: label.path, name: label.label, above: label.path.slice(0, -1).map(([, part]) => part).join(" › "), level: label.level }));
  if (name && !found.some((label) => fold(label.label) === fold(name) && above === null)) options.push(...additions(name, above));
  active = 0;
  drawOptions();
}

// A new label can go below each label of the answer, below one that is typed before ">", or stand at the top.
function additions(name, above) {
  const steps = current.answer?.path ?? [];
  const parents = above ? matches(above).slice(0, 5).map((label) => label.path)
    : steps.map((_, depth) => steps.slice(0, depth + 1).map((step) => [step.level, step.label])).reverse();
  const below = parents.map((path) => ({ labels: [...path, [path.at(-1)[0] + 1, name]], name, above: `new, under ${path.map(([, part]) => part).join(" › ")}`, grows: true }));
  return above ? below : [...below, { labels: [[1, name]], name, above: "new, at the top", grows: true }];
}

function drawOptions() {
  at("found").replaceChildren(...options.map((option, index) => make("li", { id: `option-${index}`, role: "option", "aria-selected": String(index === active), onclick: () => pick(index) },
    option.grows ? make("span", { class: "plus", "aria-hidden": "true" }, "+") : null, make("span", {}, String(option.name)), make("span", { class: "above" }, option.above))));
  at("search").setAttribute("aria-expanded", String(options.length > 0));
  at("search").setAttribute("aria-activedescendant", options.length ? `option-${active}` : "");
  at("found").children[active]?.scrollIntoView({ block: "nearest" });
}

const pick = (index) => { if (options[index]) teach(options[index].labels, Boolean(options[index].grows)); };

at("search").addEventListener("input", search);
at("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    active = (active + (event.key === "ArrowDown" ? 1 : options.length - 1)) % Math.max(1, options.length);
    drawOptions();
  } else if (event.key === "Enter") pick(active);
  else if (event.key === "Escape") { close("correct"); at("wrong").focus(); } else return;
  event.preventDefault();
});

// ---- why

async function explain() {
  const place = at("reasons");
  if (!place.hidden) return close("reasons");
  place.hidden = false;
  at("why").setAttribute("aria-expanded", "true");
  place.replaceChildren(make("p", { class: "faint" }, "Looking through the memory…"));
  try {
    const photo = current;
    if (!photo.image || photo.taught) await ask(photo);
    const found = await why(photo.image);
    place.replaceChildren(make("p", { class: "faint" }, found.length ? "The stored images that are most like it:" : status.stores ? "Nothing like it is stored." : `${status.method} stores no images, so there are none to show.`),
      make("ul", { class: "reasons" }, ...found.map((reason) => {
        const names = Object.values(reason.labels).join(" › ");
        const picture = reason.image ? [make("img", { src: reason.image, alt: `Stored image of ${names}` })] : []; // a frozen network keeps features
        return make("li", { class: reason.agrees ? "for" : "against" }, ...picture, make("div", {}, names), make("div", { class: "faint" }, reason.id ?? `sample ${reason.sample}`), make("div", { class: "faint" }, `${percent(reason.similarity)} alike${reason.agrees ? "" : ", speaks against"}`));
      })));
  } catch (error) {
    place.replaceChildren(make("p", { class: "problem" }, error.message));
  }
  return undefined;
}

// ---- the strip

function show(which) {
  showing = which;
  at("mine").setAttribute("aria-pressed", String(which === "mine"));
  at("unsure").setAttribute("aria-pressed", String(which === "queue"));
  at("strip-told").textContent = which === "queue" ? "Photos that were asked about, also by other programs, whose answers are least sure and unlike each other." : "";
  drawStrip();
}

async function loadQueue() {
  const found = await get("/queue");
  const had = new Map(queue.map((photo) => [photo.image, photo]));
  const mine = new Map(photos.filter((photo) => !photo.taught).map((photo) => [photo.image, photo]));
  queue = found.map((answer) => {
    const photo = mine.get(answer.image) ?? had.get(answer.image) ?? { url: `/images/${answer.image}`, image: answer.image };
    return Object.assign(photo, { answer });
  });
  drawStrip();
}

function drawStrip() {
  const list = showing === "mine" ? photos : queue;
  at("gallery").hidden = !photos.length && !queue.length && !status.asked;
  at("drop").classList.toggle("first", at("gallery").hidden && !current);
  const focused = document.activeElement?.dataset?.url;
  at("strip").replaceChildren(...list.map((photo) => {
    const finest = photo.answer?.path.at(-1);
    const text = photo.problem ? "cannot be used" : photo.taught ?? (finest ? String(finest.label) : photo.answer ? "?" : "…");
    const sure = photo.problem || !finest ? "" : photo.taught ? `now ${finest.label} ${percent(share(finest))}` : percent(share(finest));
    return make("li", { class: photo.taught ? "taught" : "" }, make("button", { type: "button", "data-url": photo.url, "aria-current": String(photo === current), onclick: () => { select(photo); if (innerWidth < 1000) at("card").scrollIntoView({ block: "start" }); } },
      make("img", { src: photo.url, alt: "", loading: "lazy" }), make("span", { class: `label${photo.problem ? " bad" : ""}` }, text), make("span", { class: "meta" }, sure)));
  }));
  if (focused) at("strip").querySelector(`[data-url="${CSS.escape(focused)}"]`)?.focus();
  at("unsure-count").textContent = status.asked ? String(status.asked) : "";
  if (showing === "queue" && !list.length) at("strip").append(make("li", { class: "faint" }, "Nothing waits."));
}

// ---- what the server says

let seen = "";
async function look() {
  try {
    const now = await get("/status");
    const changed = now.revision !== status.revision;
    const learned = now.samples !== status.samples;
    status = now;
    at("model").textContent = now.model;
    document.title = `${now.model} · ramify`;
    const waits = now.waiting ? ` · ${now.waiting.toLocaleString("en")} waiting` : "";
    const problem = now.failed ?? now.save_error;
    at("state").textContent = problem ?? `${now.samples.toLocaleString("en")} learned${waits}`;
    at("state").classList.toggle("problem", Boolean(problem));
    at("unsure-count").textContent = now.asked || "";
    if (changed) {
      const log = JSON.stringify(now.log);
      if (log !== seen) drawLog(at("log"), now.log);
      seen = log;
      await Promise.all([loadTree(true), loadHistory()]);
      if (learned) await renew();
      if (showing === "queue") await loadQueue();
    }
    if (at("gallery").hidden && now.asked) drawStrip();
  } catch (error) {
    at("state").textContent = error.message;
    at("state").classList.add("problem");
  }
}

async function edited() {
  await look();
  for (const photo of photos) if (photo.answer) photo.answer.samples = -1;
  await renew();
}

// ---- hands on

for (const id of ["files", "camera"]) at(id).addEventListener("change", (event) => { take(event.target.files); event.target.value = ""; });
addEventListener("paste", (event) => take(event.clipboardData?.files ?? []));
addEventListener("dragover", (event) => { event.preventDefault(); at("drop").classList.add("over"); });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) at("drop").classList.remove("over"); });
addEventListener("drop", (event) => { event.preventDefault(); at("drop").classList.remove("over"); take(event.dataTransfer.files); });
at("right").addEventListener("click", accept);
at("wrong").addEventListener("click", () => (at("correct").hidden ? openCorrect() : close("correct")));
at("why").addEventListener("click", explain);
at("skip").addEventListener("click", skip);
at("mine").addEventListener("click", () => show("mine"));
at("unsure").addEventListener("click", async () => { show("queue"); await loadQueue(); next(); });

function skip() {
  current.skipped = true;
  next();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || at("edit").open || !current?.answer) return;
  if (event.target.matches("input, select, textarea")) return;
  const onButton = event.target.closest("button, a, summary");
  const key = event.key.toLowerCase();
  if (key === "enter" && !onButton) { if (current.taught) next(); else if (!at("right").disabled) accept(); }
  else if (key === "c" || key === "/") openCorrect();
  else if (key === "s" || key === "arrowright") skip();
  else if (key === "w" && !at("why").disabled) explain();
  else return;
  event.preventDefault();
});

listen(edited);
drawStrip();
look();
setInterval(() => { if (!document.hidden) look(); }, LOOK_EVERY);
