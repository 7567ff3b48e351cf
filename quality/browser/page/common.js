// What the page's parts share. All text of the data goes through textContent; nothing is ever put in as HTML.
const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function make(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  if (name) node.className = name;
  return node;
}

export async function ask(path, query, body) {
  const url = path + (query ? "?" + query : "");
  let answer;
  try {
    answer = await fetch(url, body === undefined ? { cache: "no-store" } : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
  } catch (error) {
    throw new Error("the server can't be reached. Start it again, open the address it prints");
  }
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  let why = text.trim();
  try { why = JSON.parse(text).error; } catch (error) { /* plain text */ }
  throw new Error(why || `the server answered ${answer.status}`);
}

export function complain(error) {
  byId("banner").textContent = error ? error.message : "";
  byId("banner").hidden = !error;
}

export function say(text) { byId("said").textContent = text; }

export const pictureUrl = (sha, size) => "picture?" + new URLSearchParams({ sha, size });

function svg(tag, attributes, name) {
  const node = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
  node.setAttribute("class", name);
  return node;
}

function line(from, to, name) {
  return svg("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, name);
}

// The frame is 0..1000 on both axes, whatever the picture's size: strokes keep their width while the frame is stretched.
function overlay({ boxes, point, path, elements }) {
  const layer = svg("svg", { viewBox: "0 0 1000 1000", preserveAspectRatio: "none", "aria-hidden": "true" }, "overlay");
  const rect = ([left, top, right, bottom], name) => svg("rect",
    { x: left, y: top, width: Math.max(right - left, 1), height: Math.max(bottom - top, 1) }, name);
  (elements || []).forEach((one) => {
    const shape = rect(one.box, "element");
    const title = document.createElementNS(SVG, "title");
    title.textContent = [one.role, one.name || one.text].filter(Boolean).join(": ");
    shape.append(title);
    layer.append(shape);
  });
  (boxes || []).forEach((box) => layer.append(rect(box, "box under"), rect(box, "box")));
  if (path) {
    layer.append(line(path[0], path[1], "path under"), line(path[0], path[1], "path"));
    layer.append(line(path[1], path[1], "dot rim"), line(path[1], path[1], "dot end"));
  }
  if (point) ["rim", "ring", "hole", "heart"].forEach((name) => layer.append(line(point, point, `dot ${name}`)));
  return layer;
}

// A picture with what is drawn on it. `alt` says what it shows to whoever doesn't see it.
export function drawn(sha, size, marks, alt) {
  const frame = make("span", undefined, "frame");
  const image = make("img");
  image.alt = alt;
  image.loading = size === "full" ? "eager" : "lazy";
  image.decoding = "async";
  image.src = pictureUrl(sha, size);
  image.addEventListener("error", () => frame.replaceChildren(make("span", "this picture can't be read", "blank")));
  frame.append(image, overlay(marks));
  return frame;
}

export function badge(text, kind) { return make("span", text, `badge ${kind || ""}`); }

export function scoreBadge(score) {
  if (score === null || score === undefined) return badge("–", "none");
  const band = score >= 7 ? "keep" : score >= 4 ? "rewrite" : "bad";
  const shown = badge(String(score), `score ${band}`);
  shown.title = `score ${score} of 10`;
  return shown;
}
