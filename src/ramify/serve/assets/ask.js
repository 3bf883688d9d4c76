// Requests to the server: each gives JSON, or throws an error with the server's own words.
async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("No connection to the server.");
  }
  const body = answer.status === 204 ? null : await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body?.error ?? answer.statusText), { status: answer.status });
  return body;
}

const post = (path, body, headers) => request(path, { method: "POST", body, headers });

export const get = (path) => request(path);
export const predict = (blob, keep = true) => post(keep ? "/predict" : "/predict?keep=0", blob);
export const why = (name) => request(`/why?image=${encodeURIComponent(name)}`);
export const undo = () => post("/undo");
export const edit = (what) => post("/edit", JSON.stringify(what), { "Content-Type": "application/json" });

// `labels`: [level, label] pairs. The image is one that was asked about, by its name, or a file.
export function learn(image, labels, grows, corrects) {
  const query = new URLSearchParams();
  for (const [level, label] of labels) {
    query.append("label", label);
    query.append("level", level);
  }
  if (grows) query.append("new", "1");
  if (corrects) query.append("correct", "1"); // trained on until it is answered so
  if (typeof image === "string") query.append("image", image);
  return post(`/learn?${query}`, typeof image === "string" ? undefined : image);
}

export function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const at = (id) => document.getElementById(id);
