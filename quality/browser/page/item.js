// One item: its picture with overlays, its texts, its verdicts, its whole chain, and what resembles it.
import { ask, badge, byId, complain, drawn, make, pictureUrl, scoreBadge } from "./common.js";
import { cardPicture, cardWords, choose, describe, itemLink, selected } from "./grid.js";

export let current = null; // the card of the item that is shown
let frames = [];
let at = 0;
let asked = 0;
let go = () => {};

export function setUp(navigate) {
  go = navigate;
  ["boxes", "action", "elements"].forEach((name) => byId(`toggle-${name}`).addEventListener("change", showFrame));
  byId("item-pick").addEventListener("change", () => current && choose(current, byId("item-pick").checked));
}

export function showPick() { byId("item-pick").checked = current !== null && selected.has(current.item_id); }

export async function show(id) {
  const mine = ++asked;
  current = null;
  document.title = `${id} – Vesper corpus`;
  byId("about").replaceChildren(make("p", "reading …", "hint"));
  ["picture", "strip", "chain", "similar"].forEach((name) => byId(name).replaceChildren());
  const query = new URLSearchParams({ id });
  try {
    const found = await ask("api/item", query);
    if (mine !== asked) return;
    complain(null);
    current = found.card;
    frames = found.frames;
    at = Math.max(0, frames.findIndex((frame) => frame.here));
    showPick();
    byId("about").replaceChildren(...about(found));
    showStrip();
    showFrame();
  } catch (error) {
    if (mine !== asked) return;
    complain(error);
    byId("about").replaceChildren(make("p", error.message, "hint"));
    return;
  }
  later("chain", "api/chain", query, mine, chainNodes);
  later("similar", "api/similar", query, mine, similarNodes);
}

async function later(place, path, query, mine, nodes) {
  byId(place).replaceChildren(make("span", "reading …", "hint"));
  byId(place).setAttribute("aria-busy", "true");
  let shown;
  try { shown = nodes(await ask(path, query)); } catch (error) { shown = [make("span", error.message, "hint")]; }
  if (mine !== asked) return;
  byId(place).replaceChildren(...shown);
  byId(place).removeAttribute("aria-busy");
}

// --- picture ---------------------------------------------------------------------------------------------------------
const on = (name) => byId(`toggle-${name}`).checked;

function showFrame() {
  const frame = frames[at];
  if (!frame) { byId("picture").replaceChildren(make("span", "This item has no picture", "blank")); return; }
  const marks = {
    boxes: on("boxes") ? frame.boxes : [], point: on("action") ? frame.point : null, path: on("action") ? frame.path : null,
    elements: on("elements") ? frame.elements : [],
  };
  const label = [frame.caption, frame.step_instruction].filter(Boolean).join(" – ");
  const picture = frame.picture ? drawn(frame.picture, "full", marks, label || describe(current)) : make("span", "no picture of this step", "blank");
  byId("picture").replaceChildren(picture, make("p", label, "caption"));
  [...byId("strip").children].forEach((node, number) => node.setAttribute("aria-pressed", String(number === at)));
}

function showStrip() {
  if (frames.length < 2) { byId("strip").replaceChildren(); return; }
  byId("strip").replaceChildren(...frames.map((frame, number) => {
    const button = make("button");
    button.type = "button";
    const words = `${number + 1} ${(frame.caption || "").split("(")[0]}`;
    button.setAttribute("aria-label", `step ${number + 1}: ${frame.caption}`);
    if (frame.here && current.unit === "step") button.classList.add("here");
    if (frame.gold === false) button.classList.add("lost");
    button.append(frame.picture ? drawn(frame.picture, "strip", frame, "") : make("span", "no picture", "blank"));
    const line = make("span", words, "step");
    if (frame.score !== undefined && frame.score !== null) line.prepend(scoreBadge(frame.score), " ");
    button.append(line);
    button.addEventListener("click", () => { at = number; showFrame(); });
    return button;
  }));
}

// --- texts -----------------------------------------------------------------------------------------------------------
function terms(pairs) {
  const list = make("dl");
  pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length))
    .forEach(([name, value]) => {
      list.append(make("dt", name));
      const plain = Array.isArray(value) && value.every((one) => typeof one === "string") ? value.join("\n") : value;
      list.append(make("dd", typeof plain === "object" ? JSON.stringify(plain) : String(plain)));
    });
  return list;
}

function about({ card, row, verdicts }) {
  const head = make("div", undefined, "badges");
  head.append(scoreBadge(card.score), badge(card.state, `state ${card.state}`));
  if (card.disposition) head.append(badge(card.disposition));
  ["source", "platform", "split", "action", "objective", "licence"].forEach((name) => { if (card[name]) head.append(badge(card[name])); });
  (card.tags || []).forEach((tag) => head.append(badge(tag, "tag")));
  const title = make("h1", card.text || "(no text)");
  const id = make("p", undefined, "id");
  id.append(make("code", card.item_id));
  const nodes = [head, title, id];
  if (card.answer) nodes.push(make("pre", row.answer || card.answer, "answer"));
  if (card.cluster) {
    const line = make("p", "duplicates: "), link = make("a", "the whole cluster");
    link.href = "?" + new URLSearchParams({ unit: card.unit, cluster: card.cluster, sort: "id" });
    line.append(link);
    nodes.push(line);
  }
  nodes.push(terms(Object.entries(row).filter(([name]) => name !== "answer" && name !== "messages" && name !== "provenance")
    .map(([name, value]) => [name.replaceAll("_", " "), value])));
  nodes.push(make("h2", "Verdicts"));
  if (!verdicts.length) nodes.push(make("p", card.reason || "No judge has seen it.", "hint"));
  verdicts.forEach((one) => nodes.push(verdict(one, card)));
  const more = make("details");
  more.append(make("summary", "Messages and provenance"), make("pre", JSON.stringify({ messages: row.messages, provenance: row.provenance }, null, 1)));
  if (row.messages || row.provenance) nodes.push(more);
  return nodes;
}

function verdict(one, card) {
  const node = make("div", undefined, "verdict");
  const line = make("div", undefined, "badges");
  line.append(scoreBadge(one.score), badge(one.disposition), badge(one.judge), badge(`round ${one.round}`));
  if (one.item_id !== card.item_id) line.append(badge(one.item_id.replace(/^.*\/(\d+(@r\d+)?)$/, "step $1")));
  const parts = ["alignment", "reachability"].filter((name) => one[name] !== null).map((name) => `${name} ${one[name]}`);
  node.append(line, make("p", one.reason), make("p", [...parts, `confidence ${one.confidence.toFixed(2)}`].join(", "), "hint"));
  return node;
}

// --- chain -----------------------------------------------------------------------------------------------------------
function stage(name, lines, more) {
  const node = make("li");
  node.append(make("h3", name));
  (lines.length ? lines : ["nothing"]).slice(0, 12).forEach((text) => node.append(make("p", text, lines.length ? "" : "hint")));
  if (lines.length > 12) node.append(make("p", `and ${lines.length - 12} more`, "hint"));
  if (more !== undefined && more !== null) {
    const box = make("details");
    box.append(make("summary", "all of it"), make("pre", JSON.stringify(more, null, 1)));
    node.append(box);
  }
  return node;
}

const signed = (value) => `${value < 0 ? "" : "+"}${value.toFixed(1)}`;
const points = ({ points: mean, low, high }) => `${signed(mean)}${low === null || high === null ? "" : ` [${signed(low)}, ${signed(high)}]`} points`;

const short = (version) => String(version || "").slice(0, 16);

function chainNodes(told) {
  const native = (told.native || []).map((one) => `${one.asset}${one.version ? "@" + short(one.version) : ""}: ${one.file}, ${one.place ?? ""}`);
  const rows = (told.row || []).map((row) => row.action_text !== undefined
    ? `step ${row.step_index}: ${row.action_text ?? "last screen"}` : `${row.objective ?? ""}: ${row.answer ?? ""}`);
  const verdicts = (told.verdicts || []).map((one) => `round ${one.round}, ${one.judge}: ${one.score ?? "abstained"} (${one.disposition}) ${one.reason}`);
  const gold = told.gold || {};
  const repairs = [gold.fate, ...(gold.after || []).map((row) => `after repair: ${row.action_text ?? row.answer ?? ""}`),
    ...(gold.rejects || []).map((row) => `${row.item_id} rejected: ${row.reason}`)].filter(Boolean);
  const hygiene = Object.entries(told.hygiene || {}).flatMap(([name, found]) =>
    found.map((row) => `${name.replaceAll("_", " ")}: ${row.reason || row.detail || row.kept || row.suite || row.item_id}`));
  const fates = Object.values(told.fates || {}).reduce((sum, one) => ({ ...sum, [one.meaning]: (sum[one.meaning] || 0) + 1 }), {});
  const samples = [`${told.samples || 0} sample${told.samples === 1 ? "" : "s"}`, ...Object.entries(fates).map(([meaning, count]) => `${count} ${meaning}`)];
  const shards = (told.shards || []).map((one) => `${one.shard}, row ${one.row}${one.repeats === null ? "" : `, ${one.repeats === 1 ? "once" : `${one.repeats} times`} in the mixture`}`);
  const trained = (told.checkpoints || []).map((one) => `${one.asset}@${short(one.version)}${one.current ? " (current)" : ""}`);
  const worth = (told.worth || []).map((one) => `${one.kind}, ${one.subject}: ${points(one)} (${one.says}), ${one.asset}@${short(one.version)}`);
  const nodes = [stage("Native row", native, told.native)];
  if (told.quarantine) nodes.push(stage("Not mapped", told.quarantine.map((one) => `${one.reason}: ${one.detail}`), told.quarantine));
  else nodes.push(stage("Mapped", rows, told.row));
  if (told.trajectory && told.trajectory.length) {
    nodes.push(stage("Trajectory", told.trajectory.map((one) => `task ${one.task_id} by ${one.policy}: ${one.outcome}, ${one.reason}`), told.trajectory));
  }
  nodes.push(stage("Verdicts", verdicts), stage("Repairs and gold", repairs));
  if (hygiene.length) nodes.push(stage("Hygiene", hygiene, told.hygiene));
  nodes.push(stage("Samples", samples), stage("Shards", shards), stage("Checkpoints that trained on it", trained));
  if (told.worth) nodes.push(stage("Worth of its kind", worth.length ? worth : ["not measured yet: vesper worth --what sources"], worth.length ? told.worth : null));
  const line = make("li", undefined, "copy");
  line.append(make("p", "the same in a terminal"), make("code", `vesper explain ${quoted(told.item)}`));
  return [...nodes, line];
}

export const quoted = (text) => (/^[\w:@%+=,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

// --- alike -----------------------------------------------------------------------------------------------------------
function similarNodes(found) {
  return [["The screen looks the same", found.screens], ["The text says the same", found.texts]].flatMap(([title, cards]) => {
    const list = make("ul", undefined, "alike");
    list.setAttribute("aria-label", title);
    list.append(...cards.map((card) => {
      const row = make("li"), link = make("a");
      link.href = itemLink(card.item_id);
      link.append(cardPicture(card), cardWords(card));
      link.addEventListener("click", (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        go(new URLSearchParams(link.getAttribute("href").slice(1)));
      });
      row.append(link);
      return row;
    }));
    return [make("h3", title), cards.length ? list : make("p", "none found", "hint")];
  });
}

export function step(by) {
  if (frames.length < 2) return;
  at = Math.max(0, Math.min(frames.length - 1, at + by));
  showFrame();
  if (frames[at].picture) { const next = frames[at + 1]; if (next && next.picture) new Image().src = pictureUrl(next.picture, "full"); }
}
