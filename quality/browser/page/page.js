// The corpus browser. Addresses are relative: all lies below the token. The whole view stands in the address.
import { ask, byId, complain, say } from "./common.js";
import * as grid from "./grid.js";
import * as item from "./item.js";

let params = new URLSearchParams(location.search);
let listed = null; // the view that the list shows
let scrolled = 0;

function navigate(next) {
  if (next.has("item") && !params.has("item")) scrolled = scrollY;
  history.pushState(null, "", "?" + next);
  render();
}

function render() {
  const before = params.get("item");
  params = new URLSearchParams(location.search);
  const id = params.get("item");
  const query = String(grid.listing(params));
  byId("browse").hidden = id !== null;
  byId("item").hidden = id === null;
  if (query !== listed) {
    listed = query;
    grid.show(params).then(neighbours);
  }
  if (id !== null) {
    item.show(id).then(neighbours);
    scrollTo(0, 0);
    byId("item").focus({ preventScroll: true });
  } else {
    document.title = "Vesper corpus";
    if (before) { grid.focusOn(before); scrollTo(0, scrolled); }
  }
}

// --- the item's place in the list ------------------------------------------------------------------------------------
function neighbours() {
  const id = params.get("item");
  byId("item-previous").disabled = !grid.neighbour(id, -1);
  byId("item-next").disabled = !grid.neighbour(id, 1);
}

function beside(by) {
  const card = grid.neighbour(params.get("item"), by);
  if (!card) return;
  const next = new URLSearchParams(params);
  next.set("item", card.item_id);
  navigate(next);
}

function leave() {
  const next = new URLSearchParams(params);
  next.delete("item");
  navigate(next);
}

// --- what is done with the selection ---------------------------------------------------------------------------------
const ids = () => (grid.selected.size ? [...grid.selected.keys()] : item.current && params.has("item") ? [item.current.item_id] : []);

function plural(count, one) { return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`; }

// Ask for a name and one more text; `send` may refuse, then the dialog stays open and says why. What it gives back is
// done once the dialog is closed, so that the keyboard is where it was.
function question({ title, text, label, known, confirm, yes, other, send }) {
  const dialog = byId("ask");
  byId("ask-title").textContent = title;
  byId("ask-text").textContent = text;
  byId("ask-error").textContent = "";
  byId("ask-who").value = localStorage.getItem("vesper-who") || "";
  byId("ask-value-line").hidden = !label;
  byId("ask-label").textContent = label || "";
  byId("ask-value").value = "";
  byId("ask-known").replaceChildren(...(known || []).map((value) => { const one = document.createElement("option"); one.value = value; return one; }));
  byId("ask-confirm-line").hidden = !confirm;
  byId("ask-confirm-label").textContent = confirm || "";
  byId("ask-confirm").value = "";
  byId("ask-yes").textContent = yes;
  byId("ask-other").hidden = !other;
  byId("ask-other").textContent = other || "";
  const act = async (which) => {
    const who = byId("ask-who").value.trim();
    try {
      const then = await send({ who, value: byId("ask-value").value, confirm: byId("ask-confirm").value, other: which });
      localStorage.setItem("vesper-who", who);
      dialog.close();
      then();
    } catch (error) {
      byId("ask-error").textContent = error.message;
    }
  };
  byId("ask-form").onsubmit = (event) => { event.preventDefault(); act(false); };
  byId("ask-other").onclick = () => act(true);
  dialog.showModal();
  (byId("ask-who").value && label ? byId("ask-value") : byId("ask-who")).focus();
}

function tell(title, text, lines) {
  byId("told-title").textContent = title;
  byId("told-text").textContent = text;
  byId("told-lines").textContent = lines || "";
  byId("told-lines").hidden = !lines;
  byId("told").showModal();
}

function again() { listed = null; render(); }

const ACTS = {
  async tag(chosen) {
    const { tags } = await ask("api/counts", grid.listing(params));
    question({
      title: `Tag ${plural(chosen.length, "item")}`, text: "A tag is a name of your own. The list can be filtered by it.",
      label: "Tag", known: tags.map(([name]) => name), yes: "Tag", other: "Take this tag off",
      send: async ({ who, value, other }) => {
        const done = await ask("api/tag", null, { ids: chosen, name: value, who, remove: other });
        return () => { say(`${plural(done.items, "item")} tagged`); again(); };
      },
    });
  },
  review(chosen) {
    question({
      title: `Send ${plural(chosen.length, "item")} to review`,
      text: "They come first on the review page; a step by its episode. What people agree on there counts in the next corpus.", yes: "Send",
      send: async ({ who }) => {
        const done = await ask("api/review", null, { ids: chosen, who });
        const left = done.left_out.length ? ` ${plural(done.left_out.length, "item")} without a picture can't be judged and stayed out.` : "";
        return () => tell(`${plural(done.asked.length, "item")} in the review queue`, `Open the review page to answer.${left}`,
          "vesper review serve\nvesper review promote\n");
      },
    });
  },
  async export(chosen) {
    const { lines } = await ask("api/export", null, { ids: chosen });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines], { type: "application/x-ndjson" }));
    link.download = "items.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    tell(`${plural(chosen.length, "item")} in items.jsonl`, "One line of JSON an item, with its id, verdict, texts, boxes and tags. In a terminal:",
      chosen.slice(0, 20).map((id) => `vesper explain ${item.quoted(id)}\n`).join(""));
  },
  takedown(chosen) {
    question({
      title: `Take down ${plural(chosen.length, "item")}`,
      text: "The whole native records go: out of every version, picture and raw file, and they can't be brought back. The page files the list; the command does it.",
      label: "Reason", confirm: `Type ${chosen.length} to confirm`, yes: "File the list",
      send: async ({ who, value, confirm }) => {
        const done = await ask("api/takedown", null, { ids: chosen, who, reason: value, confirm: /^\d+$/.test(confirm) ? Number(confirm) : null });
        return () => tell("The list is filed", "Nothing is gone yet. Run this where the store is; it prints what went and proves that nothing is left:", `${done.command}\n`);
      },
    });
  },
  clear() { grid.clear(); item.showPick(); },
};

async function act(name) {
  const chosen = ids();
  if (!chosen.length && name !== "clear") { say("nothing is selected"); return; }
  try { await ACTS[name](chosen); } catch (error) { complain(error); }
}

// --- keys ------------------------------------------------------------------------------------------------------------
const KEYS = { t: "tag", r: "review", e: "export" };

function onKey(event) {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (typing) {
    if (event.key === "Escape") byId("results").focus();
    return;
  }
  const shown = params.has("item");
  const key = event.key;
  const walks = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key);
  if (walks && !shown && (byId("grid").contains(event.target) || event.target === document.body || event.target === byId("results"))) grid.walk(key, event.shiftKey);
  else if (walks && shown && (key === "ArrowLeft" || key === "ArrowRight") && event.target.type !== "checkbox") item.step(key === "ArrowLeft" ? -1 : 1);
  else if (key === "x" && shown && item.current) { grid.choose(item.current, !grid.selected.has(item.current.item_id)); item.showPick(); }
  else if (key === "x") grid.toggle();
  else if (key === "a" && !shown) grid.togglePage();
  else if (key === "Escape" && shown) leave();
  else if (key === "j" || key === "k") { if (shown) beside(key === "j" ? 1 : -1); else grid.turn(key === "j" ? 1 : -1); }
  else if (key === "/" && !shown) byId("q").focus();
  else if (key === "?") byId("help").showModal();
  else if (KEYS[key]) act(KEYS[key]);
  else return;
  event.preventDefault();
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("link copied");
    byId("copy-link").textContent = "Copied";
    setTimeout(() => { byId("copy-link").textContent = "Copy link"; }, 1500);
  } catch (error) { tell("The address of this view", "The browser doesn't let the page write to the clipboard.", location.href); }
}

grid.setUp(navigate);
item.setUp(navigate);
byId("filters").open = matchMedia("(min-width: 800px)").matches;
byId("back").addEventListener("click", leave);
byId("item-previous").addEventListener("click", () => beside(-1));
byId("item-next").addEventListener("click", () => beside(1));
byId("copy-link").addEventListener("click", copyLink);
byId("show-help").addEventListener("click", () => byId("help").showModal());
byId("bar").addEventListener("click", (event) => { const name = event.target.closest("button")?.dataset.act; if (name) act(name); });
[["ask-no", "ask"], ["told-close", "told"], ["help-close", "help"]].forEach(([button, dialog]) => byId(button).addEventListener("click", () => byId(dialog).close()));
addEventListener("keydown", onKey);
addEventListener("popstate", render);
render();
