// The list of a view: cards, counts beside the filters, chips, pages, and the selection.
import { ask, badge, byId, complain, drawn, make, say, scoreBadge } from "./common.js";

const FACETS = {
  state: "state", source: "source", objection: "why (objection)", disposition: "disposition", platform: "platform", action: "action",
  objective: "objective", split: "split", judge: "judge", licence: "licence", tag: "tag",
};
const UNITS = { sample: "Samples", step: "Steps", episode: "Episodes", record: "Not mapped" };
const NAMES = { ...FACETS, q: "text", why: "reason", cluster: "duplicates of", min: "score from", max: "score to", scored: "scored" };
const FILTERS = [...Object.keys(FACETS), "q", "why", "cluster", "min", "max", "scored"];

export const selected = new Map(); // id → its card, over all pages
let cards = [];
let place = 0; // the card that the keyboard is on
let anchor = null; // where a range of selected cards begins
let asked = 0; // answers to older questions are dropped
let go = () => {};
let view = new URLSearchParams();
let page = 1; // that is shown: the last, where the address says a later one

export function setUp(navigate) {
  go = navigate;
  byId("units").append(...Object.entries(UNITS).map(([unit, name]) => {
    const button = make("button", name);
    button.type = "button";
    button.dataset.unit = unit;
    button.addEventListener("click", () => change((next) => next.set("unit", unit)));
    return button;
  }));
  ["min", "max"].forEach((name) => {
    byId(name).append(...["", ...Array(11).keys()].map((value) => {
      const option = make("option", value === "" ? "any" : String(value));
      option.value = String(value);
      return option;
    }));
    byId(name).addEventListener("change", () => change((next) => put(next, name, byId(name).value)));
  });
  byId("unscored").addEventListener("change", () => change((next) => put(next, "scored", byId("unscored").checked ? "no" : "")));
  byId("sort").addEventListener("change", () => change((next) => put(next, "sort", byId("sort").value)));
  byId("find").addEventListener("submit", (event) => { event.preventDefault(); change((next) => put(next, "q", byId("q").value)); });
  byId("reasons").addEventListener("submit", (event) => { event.preventDefault(); change((next) => put(next, "why", byId("why").value)); });
  byId("q").addEventListener("search", () => { if (!byId("q").value && view.has("q")) change((next) => next.delete("q")); });
  byId("why").addEventListener("search", () => { if (!byId("why").value && view.has("why")) change((next) => next.delete("why")); });
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  byId("grid").addEventListener("focusin", (event) => {
    const card = event.target.closest("li");
    if (card) setPlace(Number(card.dataset.place), false);
  });
}

function put(params, name, value) { if (value) params.set(name, value); else params.delete(name); }

function change(edit) {
  const next = new URLSearchParams(view);
  next.delete("page");
  edit(next);
  go(next);
}

export function turn(by) {
  if (byId(by > 0 ? "next" : "previous").disabled) return;
  const next = new URLSearchParams(view);
  put(next, "page", page + by > 1 ? String(page + by) : "");
  go(next);
}

export function listing(params) { // the view without what only the page itself knows
  const query = new URLSearchParams(params);
  query.delete("item");
  return query;
}

export async function show(params) {
  const query = listing(params);
  const mine = ++asked;
  view = query;
  byId("q").value = query.get("q") || "";
  byId("why").value = query.get("why") || "";
  byId("min").value = query.get("min") || "";
  byId("max").value = query.get("max") || "";
  byId("sort").value = query.get("sort") || "score";
  byId("unscored").checked = query.get("scored") === "no";
  byId("export-view").href = "export.jsonl?" + query;
  const unit = query.get("unit") || "sample", what = (UNITS[unit] || "items").toLowerCase();
  byId("units").querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.unit === unit)));
  showChips(query);
  byId("grid").setAttribute("aria-busy", "true");
  counts(query, mine);
  try {
    const found = await ask("api/items", query);
    if (mine !== asked) return;
    complain(null);
    showCards(found, what);
  } catch (error) {
    if (mine === asked) { complain(error); showCards({ items: [], total: 0, page: 1, pages: 0 }, what); }
  }
  byId("grid").removeAttribute("aria-busy");
}

function showChips(query) {
  const chips = [...query].filter(([name]) => FILTERS.includes(name)).map(([name, value]) => {
    const chip = make("button", `${NAMES[name]}: ${name === "scored" ? "no score" : value || "(empty)"} ×`, "chip");
    chip.type = "button";
    chip.setAttribute("aria-label", `remove the filter ${NAMES[name]}: ${value}`);
    chip.addEventListener("click", () => change((next) => next.delete(name, value)));
    return chip;
  });
  if (chips.length > 1) {
    const clear = make("button", "Clear all", "chip");
    clear.type = "button";
    clear.addEventListener("click", () => change((next) => FILTERS.forEach((name) => next.delete(name))));
    chips.push(clear);
  }
  byId("chips").replaceChildren(...chips);
}

function showCards(found, what) {
  const held = byId("grid").contains(document.activeElement), before = cards[place]?.item_id;
  cards = found.items;
  page = found.page;
  place = 0;
  anchor = null;
  const text = `${found.total.toLocaleString("en")} ${what}`;
  byId("total").textContent = text + (found.busy ? ", a newer version is being read" : "");
  say(text);
  byId("nothing").hidden = found.total > 0;
  byId("grid").replaceChildren(...cards.map(cardNode));
  byId("pages").hidden = found.pages < 2;
  byId("page-number").textContent = `page ${found.page.toLocaleString("en")} of ${found.pages.toLocaleString("en")}`;
  byId("previous").disabled = found.page <= 1;
  byId("next").disabled = found.page >= found.pages;
  if (cards.length) setPlace(cards.findIndex((card) => card.item_id === before), held);
  byId("results").dataset.version = found.version || "";
}

export function describe(card) {
  return [card.text, card.answer, card.score === null ? "no score" : `score ${card.score}`, card.state].filter(Boolean).join(", ");
}

export function itemLink(id) {
  const next = new URLSearchParams(location.search);
  next.set("item", id);
  return "?" + next;
}

function cardNode(card, number) {
  const node = make("li");
  node.dataset.place = number;
  node.dataset.id = card.item_id;
  const link = make("a");
  link.href = itemLink(card.item_id);
  link.tabIndex = -1;
  link.append(cardPicture(card), cardWords(card));
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    if (event.shiftKey) { range(number); return; }
    go(new URLSearchParams(link.getAttribute("href").slice(1)));
  });
  const pick = make("input", undefined, "pick");
  pick.type = "checkbox";
  pick.tabIndex = -1;
  pick.setAttribute("aria-label", `select ${card.text.slice(0, 60) || card.item_id}`);
  pick.checked = selected.has(card.item_id);
  node.classList.toggle("selected", pick.checked);
  pick.addEventListener("click", (event) => {
    if (event.shiftKey) range(number); else { choose(card, pick.checked); anchor = number; }
  });
  node.append(pick, link);
  return node;
}

export function cardPicture(card) {
  const shown = make("span", undefined, "shown");
  shown.append(card.picture ? drawn(card.picture, "card", card, "") : make("span", card.unit === "record" ? "not mapped" : "no picture", "blank"));
  return shown;
}

export function cardWords(card) {
  const words = make("span", undefined, "words");
  const line = make("span", undefined, "badges");
  line.append(scoreBadge(card.score), badge(card.state, `state ${card.state}`), badge(card.source));
  if (card.action || card.objective) line.append(badge(card.action || card.objective));
  words.append(line, make("span", card.text, "text"), make("span", card.answer, "answer"));
  if (card.likeness) words.append(make("span", card.likeness, "likeness"));
  if (card.reason && (card.objection || card.score === null)) words.append(make("span", card.reason, "reason"));
  const tags = (card.tags || []).map((tag) => badge(tag, "tag"));
  if (tags.length) { const row = make("span", undefined, "badges"); row.append(...tags); words.append(row); }
  return words;
}

// --- counts ----------------------------------------------------------------------------------------------------------
async function counts(query, mine) {
  try {
    const found = await ask("api/counts", query);
    if (mine !== asked) return;
    showHistogram(found.columns.score);
    const nodes = Object.entries(FACETS).map(([name, label]) => facet(name, label, name === "tag" ? found.tags : found.columns[name], query));
    const open = new Map([...byId("facets").children].map((one) => [one.dataset.name, one.open]));
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
    nodes.filter(Boolean).forEach((node) => { if (open.has(node.dataset.name)) node.open = open.get(node.dataset.name); });
    byId("facets").replaceChildren(...nodes.filter(Boolean));
    if (focused) byId("facets").querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus(); // filters are set by keyboard, too
  } catch (error) { /* the list says what is wrong */ }
}

function showHistogram(scores) {
  const most = Math.max(1, ...scores.map(([, count]) => count));
  const byScore = Object.fromEntries(scores);
  byId("histogram").replaceChildren(...[...Array(11).keys()].map((score) => {
    const bar = make("span", undefined, score >= 7 ? "keep" : score >= 4 ? "rewrite" : "bad");
    bar.style.height = `${Math.round(100 * Math.sqrt((byScore[score] || 0) / most))}%`;
    bar.title = `score ${score}: ${byScore[score] || 0}`;
    return bar;
  }));
}

function facet(name, label, values, query) {
  const chosen = query.getAll(name);
  const known = new Map(values);
  chosen.filter((one) => !known.has(one)).forEach((one) => known.set(one, 0));
  if (!known.size) return null;
  const node = make("details");
  node.dataset.name = name;
  node.open = chosen.length > 0 || ["state", "source", "objection", "objective"].includes(name);
  const list = make("ul");
  list.append(...[...known].map(([value, count]) => {
    const row = make("li"), line = make("label"), box = make("input");
    box.type = "checkbox";
    box.checked = chosen.includes(value);
    box.dataset.key = `${name}=${value}`;
    box.addEventListener("change", () => change((next) => (box.checked ? next.append(name, value) : next.delete(name, value))));
    line.append(box, make("span", value, "value"), make("span", count.toLocaleString("en"), "count"));
    row.append(line);
    return row;
  }));
  node.append(make("summary", label), list);
  return node;
}

// --- walking and choosing --------------------------------------------------------------------------------------------
const nodeAt = (number) => byId("grid").children[number];

function setPlace(number, focus = true) {
  const before = nodeAt(place);
  if (before) before.querySelector("a").tabIndex = -1;
  place = Math.max(0, Math.min(cards.length - 1, number));
  const node = nodeAt(place);
  if (!node) return;
  node.querySelector("a").tabIndex = 0;
  if (focus) node.querySelector("a").focus();
}

export function walk(key, choosing) {
  if (!cards.length) return;
  const top = nodeAt(0).offsetTop;
  let columns = [...byId("grid").children].findIndex((node) => node.offsetTop > top);
  if (columns < 1) columns = cards.length;
  const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -place, End: cards.length }[key];
  if (choosing && anchor === null) { anchor = place; choose(cards[place], true); }
  const onGrid = byId("grid").contains(document.activeElement);
  setPlace(onGrid ? place + by : place);
  if (choosing) range(place); else anchor = null;
}

export function toggle() { const card = cards[place]; if (card) { choose(card, !selected.has(card.item_id)); anchor = place; } }

export function togglePage() {
  const all = cards.every((card) => selected.has(card.item_id));
  cards.forEach((card) => choose(card, !all));
}

function range(to) {
  const from = anchor === null ? to : anchor;
  for (let number = Math.min(from, to); number <= Math.max(from, to); number += 1) choose(cards[number], true);
  anchor = from;
}

export function choose(card, on) {
  if (on) selected.set(card.item_id, card); else selected.delete(card.item_id);
  [...byId("grid").children].filter((node) => node.dataset.id === card.item_id).forEach((node) => {
    node.classList.toggle("selected", on);
    node.querySelector(".pick").checked = on;
  });
  showBar();
}

export function clear() { [...selected.values()].forEach((card) => choose(card, false)); }

export function showBar() {
  byId("bar").hidden = selected.size === 0;
  byId("selected").textContent = `${selected.size.toLocaleString("en")} selected`;
}

export function neighbour(id, by) {
  const at = cards.findIndex((card) => card.item_id === id);
  return at < 0 ? null : cards[at + by] || null;
}

export function focusOn(id) {
  const at = cards.findIndex((card) => card.item_id === id);
  if (at >= 0) setPlace(at);
}
