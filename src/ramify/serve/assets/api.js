import { at, get, make } from "./ask.js";

// The server's description of itself, for people.
const EXAMPLES = {
  "/predict": "curl --data-binary @photo.jpg 'ORIGIN/predict'",
  "/learn": "curl --data-binary @photo.jpg 'ORIGIN/learn?label=fruit&level=1&label=apple&level=2'",
  "/edit": "curl -H 'Content-Type: application/json' -d '{\"edit\": \"merge\", \"level\": 2, \"labels\": [\"apple\", \"apples\"]}' 'ORIGIN/edit'",
  "/undo": "curl -X POST 'ORIGIN/undo'",
};

function operation(path, verb, about) {
  const rows = (about.parameters ?? []).map((parameter) => make("tr", {}, make("td", {}, make("code", {}, parameter.name)), make("td", {}, parameter.description + (parameter.required ? " (needed)" : ""))));
  const answers = Object.entries(about.responses).map(([status, answer]) => make("tr", {}, make("td", {}, make("code", {}, status)), make("td", {}, answer.description)));
  const example = (EXAMPLES[path] ?? (verb === "get" ? "curl 'ORIGINPATH'".replace("PATH", path) : "")).replace("ORIGIN", location.origin);
  return make("article", {},
    make("h2", {}, make("span", { class: "verb" }, verb.toUpperCase()), " ", make("code", {}, path)),
    make("p", {}, about.summary), rows.length ? make("table", {}, ...rows) : null,
    example ? make("pre", { tabindex: "0" }, example) : null,
    make("details", {}, make("summary", {}, "Answers"), make("table", {}, ...answers)));
}

const described = await get("/openapi.json");
at("state").textContent = `version ${described.info.version}`;
at("operations").append(make("p", {}, described.info.description),
  ...Object.entries(described.paths).flatMap(([path, verbs]) => Object.entries(verbs).map(([verb, about]) => operation(path, verb, about))));
