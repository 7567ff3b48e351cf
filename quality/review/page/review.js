// The review page. Addresses are relative: all lies below the token. All text of the data goes through textContent; nothing is ever put in as HTML.
"use strict";

const byId = (id) => document.getElementById(id);
const KEYS = { 1: "keep", 2: "rewrite", 3: "reconstruct", 4: "discard", 5: "unsure" };
const VIEWS = ["start", "item", "differing", "done"];

let annotator = "";
let ahead = []; // the next items, first to last; the first is shown unless one is settled or taken back
let shown = null; // {item, role, place, wrong, since, request, decision}
let epoch = 0; // answers given or taken back: what was asked for before the last one is out of date
let busy = false;
let view = "start";
let rows = []; // the disagreement queue
let chosen = 0;

function make(tag, text, name) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (name) node.className = name;
  return node;
}

function requestName() {
  return "page:" + Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

// --- talking to the server -------------------------------------------------------------------------------------------
async function ask(path, query, body) {
  const url = path + (query ? "?" + new URLSearchParams(query) : "");
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
  throw new Error(why);
}

function complain(what, error) {
  byId("banner").textContent = `${what}: ${error.message}`;
  byId("banner").hidden = false;
}

// --- pictures --------------------------------------------------------------------------------------------------------
function pictureUrl(item, step, size) {
  return "picture?" + new URLSearchParams({ item: item.item_id, step, size });
}

const ready = new Map(); // url → Image, held so that it stays decoded
const wanted = [];
let loading = 0;

function preload() {
  wanted.length = 0;
  const items = shown ? [shown.item, ...ahead.filter((one) => one !== shown.item)] : ahead;
  items.forEach((item, place) => {
    const steps = item.steps.map((_, step) => step).filter((step) => item.steps[step].picture);
    const near = place === 0 ? steps : steps.slice(0, 2);
    near.forEach((step) => wanted.push(pictureUrl(item, step, "full")));
    steps.forEach((step) => wanted.push(pictureUrl(item, step, "thumb")));
  });
  if (ready.size > 600) ready.clear();
  pump();
}

function pump() { // two at a time, so that an answer never waits for a picture
  while (loading < 2 && wanted.length) {
    const url = wanted.shift();
    if (ready.has(url)) continue;
    const image = new Image();
    ready.set(url, image);
    loading += 1;
    image.onload = image.onerror = () => { loading -= 1; pump(); };
    image.src = url;
  }
}

// --- what is on the page ---------------------------------------------------------------------------------------------
function show(name) {
  view = name;
  VIEWS.forEach((one) => { byId(one).hidden = one !== name; });
}

function showState(state) {
  byId("who").textContent = state.annotator;
  byId("bar").max = state.items || 1;
  byId("bar").value = state.done;
  byId("count").textContent = `${state.done} of ${state.items}`;
  const { kappa, alpha, items, annotators } = state.agreement;
  const line = byId("agreement");
  line.replaceChildren(make("b", kappa === null ? "κ –" : `κ ${kappa.toFixed(3)}`));
  if (annotators.length > 2) line.append(alpha === null ? " α –" : ` α ${alpha.toFixed(3)}`);
  line.append(` on ${items} item${items === 1 ? "" : "s"}`);
  byId("differing-count").textContent = state.disagreements;
  const people = Object.entries(state.everybody).map(([name, done]) => `${name} ${done}`).join(", ");
  byId("summary").textContent = `${state.finished} of ${state.items} items have ${state.overlap} answers (${people}). ` +
    `${line.textContent}; ${state.disagreements} to settle, ${state.adjudicated} settled.`;
}

function open(item, role) {
  shown = { item, role, place: 0, wrong: null, since: performance.now(), request: null, decision: null };
  byId("note").value = "";
  byId("goal").textContent = item.goal || "(no goal)";
  byId("meta").replaceChildren(...[item.source, item.platform, item.kind, item.item_id].map((text) => make("span", text)));
  byId("question").textContent = role === "adjudicator" ? "The last word on this item"
    : item.kind === "navigation" ? "Does the trace do what the goal says?" : "Is the answer right?";
  byId("others").hidden = true;
  byId("strip").replaceChildren(...(item.steps.length > 1 ? item.steps.map(thumb) : []));
  document.body.dataset.item = item.item_id;
  show("item");
  showStep();
  preload();
}

function thumb(step, place) {
  const button = make("button");
  button.type = "button";
  if (step.picture) {
    const image = make("img");
    image.alt = "";
    image.src = pictureUrl(shown.item, place, "thumb");
    button.append(image);
  } else {
    button.append(make("div", "", "blank"));
  }
  button.append(make("span", `${place + 1} ${step.says ? step.says.split("(")[0] : "end"}`));
  button.addEventListener("click", () => walkTo(place));
  return button;
}

function showStep() {
  const { item, place, wrong } = shown;
  const step = item.steps[place];
  const last = item.steps.length - 1;
  byId("step-number").textContent = item.kind === "navigation" || last ? `step ${place + 1} of ${last + 1}` : "answer";
  byId("says").textContent = step.says || "the last screen, no action on it";
  const told = [["the step's instruction", step.instruction], ["thought", step.thought], ["conclusion", step.conclusion]];
  byId("told").replaceChildren(...told.filter(([, text]) => text).flatMap(([name, text]) => [make("dt", name), make("dd", text)]));
  byId("gap").hidden = !step.gap;
  byId("wrong-flag").hidden = wrong !== place;
  byId("now").className = wrong === place ? "wrong" : "";
  byId("now").hidden = !step.picture;
  byId("no-picture").hidden = step.picture;
  byId("now-label").textContent = step.says.split("(")[0] || "last screen";
  if (step.picture) byId("picture").src = pictureUrl(item, place, "full");
  byId("after").hidden = !(item.platform === "mobile" && step.picture && place < last && item.steps[place + 1].picture);
  if (!byId("after").hidden) byId("after-picture").src = pictureUrl(item, place + 1, "full");
  [...byId("strip").children].forEach((button, number) => {
    button.className = [number === place ? "current" : "", wrong === number ? "wrong" : "",
      wrong !== null && number > wrong ? "late" : ""].join(" ").trim();
    if (number === place) button.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
}

function walkTo(place) {
  shown.place = Math.max(0, Math.min(shown.item.steps.length - 1, place));
  showStep();
}

function next() {
  if (ahead.length) open(ahead[0], "annotator");
  else { shown = null; document.body.dataset.item = ""; show("done"); }
}

async function refill() {
  const mine = epoch;
  const { items, state } = await ask("api/next", { annotator });
  showState(state);
  if (mine !== epoch) return; // an answer was given meanwhile: another refill is on its way
  ahead = items;
  preload();
}

function refillBehind() { // the next keys never wait for it: `epoch` tells whether what it brings is still true
  refill().catch((error) => complain("No new items", error));
}

// --- answers ---------------------------------------------------------------------------------------------------------
async function decide(decision) {
  if (busy || !shown) return;
  busy = true;
  const now = shown;
  if (now.decision !== decision) { // the same answer sent again keeps its name, so that it counts once
    now.decision = decision;
    now.request = requestName();
  }
  byId("saved").textContent = "saving …";
  byId("decisions").querySelector("." + decision).classList.add("pressed");
  try {
    await ask("api/verdict", null, {
      annotator, item_id: now.item.item_id, role: now.role, decision, first_wrong_step: now.wrong,
      note: byId("note").value, seconds: (performance.now() - now.since) / 1000, request: now.request,
    });
    epoch += 1;
    byId("banner").hidden = true;
    byId("saved").textContent = `saved: ${decision}. u takes it back`;
    if (now.role === "adjudicator") {
      await showDiffering();
      refillBehind();
    } else {
      ahead = ahead.filter((one) => one.item_id !== now.item.item_id);
      if (ahead.length) {
        next();
        refillBehind();
      } else {
        await refill();
        next();
      }
    }
  } catch (error) {
    byId("saved").textContent = "";
    complain("NOT saved, press the key again", error);
  } finally {
    byId("decisions").querySelectorAll("button").forEach((button) => button.classList.remove("pressed"));
    busy = false;
  }
}

async function undo() {
  if (busy) return;
  busy = true;
  try {
    const { undone, item } = await ask("api/undo", null, { annotator, request: requestName() });
    epoch += 1;
    byId("banner").hidden = true;
    if (item) {
      open(item, undone.role);
      shown.wrong = undone.first_wrong_step;
      byId("note").value = undone.note;
      showStep();
    }
    byId("saved").textContent = undone ? `taken back: ${undone.decision}` : "nothing to take back";
    refillBehind();
  } catch (error) {
    complain("Not taken back", error);
  } finally {
    busy = false;
  }
}

// --- where reviewers differ ------------------------------------------------------------------------------------------
async function showDiffering() {
  const answer = await ask("api/disagreements", { annotator });
  rows = answer.items;
  chosen = Math.min(chosen, Math.max(0, rows.length - 1));
  byId("rows").replaceChildren(...rows.map((one, place) => {
    const line = make("tr");
    const said = Object.entries(one.decisions).map(([name, decision]) => `${name}: ${decision}`).join(", ");
    const last = one.final ? `${one.final.decision} (${one.final.annotator})` : "";
    line.append(make("td", one.goal), make("td", one.source), make("td", said), make("td", last));
    line.addEventListener("click", () => { chosen = place; settle(); });
    if (one.final) line.classList.add("settled");
    return line;
  }));
  byId("nothing-differs").hidden = rows.length > 0;
  document.body.dataset.item = "";
  show("differing");
  choose(chosen);
}

function choose(place) {
  chosen = Math.max(0, Math.min(rows.length - 1, place));
  [...byId("rows").children].forEach((line, number) => {
    line.classList.toggle("chosen", number === chosen);
    if (number === chosen) line.scrollIntoView({ block: "nearest" });
  });
}

async function settle() {
  const one = rows[chosen];
  if (!one) return;
  open(await ask("api/item", { id: one.item_id }), "adjudicator");
  const told = one.answers.map((answer) => {
    const step = answer.first_wrong_step === null ? "" : `, first wrong step ${answer.first_wrong_step + 1}`;
    return make("p", `${answer.annotator}: ${answer.decision}${step}${answer.note ? ". " + answer.note : ""}`);
  });
  byId("others").replaceChildren(...told);
  byId("others").hidden = false;
  byId("saved").textContent = "";
}

async function toggleDiffering() {
  if (view === "differing" || (shown && shown.role === "adjudicator" && view === "item")) {
    if (view === "item") return showDiffering();
    await refill();
    return next();
  }
  return showDiffering();
}

// --- keys ------------------------------------------------------------------------------------------------------------
const itemKeys = {
  ArrowRight: () => walkTo(shown.place + 1), ArrowLeft: () => walkTo(shown.place - 1),
  Home: () => walkTo(0), End: () => walkTo(shown.item.steps.length - 1),
  x: () => { shown.wrong = shown.wrong === shown.place ? null : shown.place; showStep(); },
  n: () => byId("note").focus(),
};
const listKeys = { ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen - 1), Enter: () => settle() };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || view === "start" || byId("help").open) return;
  if (event.target === byId("note")) {
    if (event.key === "Escape") { byId("note").blur(); event.preventDefault(); }
    return;
  }
  let action = null;
  if (event.key === "?") action = () => byId("help").showModal();
  else if (event.key === "d" && !busy) action = toggleDiffering;
  else if (event.key === "u" && !event.repeat) action = undo;
  else if (view === "item" && KEYS[event.key] && !event.repeat) action = () => decide(KEYS[event.key]);
  else if (view === "item") action = itemKeys[event.key];
  else if (view === "differing") action = listKeys[event.key];
  if (!action) return;
  event.preventDefault();
  Promise.resolve(action()).catch((error) => complain("That didn't work", error));
});

async function join(name) {
  const joined = await ask("api/join", null, { annotator: name });
  annotator = joined.annotator;
  const url = new URL(location);
  url.searchParams.set("annotator", annotator);
  history.replaceState(null, "", url);
  await refill();
  next();
}

function begin() {
  byId("decisions").replaceChildren(...Object.entries(KEYS).map(([key, decision]) => {
    const button = make("button", "", decision);
    button.type = "button";
    button.append(make("span", decision), make("kbd", key));
    button.addEventListener("click", () => { decide(decision); button.blur(); });
    return button;
  }));
  byId("show-help").addEventListener("click", () => byId("help").showModal());
  byId("show-differing").addEventListener("click", (event) => {
    event.currentTarget.blur();
    if (annotator) toggleDiffering().catch((error) => complain("That didn't work", error));
  });
  byId("join").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("banner").hidden = true;
    join(byId("name").value).catch((error) => complain("Can't start", error));
  });
  const named = new URLSearchParams(location.search).get("annotator");
  show("start");
  byId("name").focus();
  if (named) join(named).catch((error) => complain("Can't start", error));
}

begin();
