"""A folder of four small html pages, and a hand that works them in the world of static pages."""

from __future__ import annotations

from pathlib import Path

from generators.worlds.static_pages.static_pages_world import WebWorld
from schemas.action_types import Click

# ruff: noqa: E501  (the pages below)
HEAD = """<!doctype html><html><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 16px sans-serif; margin: 0 }} nav, main {{ padding: 12px }} nav a {{ margin-right: 24px }} label {{ display: block; margin: 14px 0 }}
.pulse {{ width: 40px; height: 40px; background: red; animation: pulse .3s infinite alternate }} @keyframes pulse {{ to {{ margin-left: 300px }} }}
.menu {{ display: none }} .menu.show {{ display: block }} .far {{ margin-top: 1500px }} button {{ margin: 8px; padding: 8px }}
</style></head><body><nav><a href="index.html">Home</a><a href="form-plain.html">Plain form</a><a href="./lists.html">Lists</a>
<a href="sub/deep.html">Deep page</a><a href="../secret.html">Way out</a><a href="https://example.org/">Far away</a></nav><main>"""
INDEX = """<h1>Start</h1><p id="when"></p><p id="chance"></p><div class="pulse"></div>
<button aria-expanded="false" data-bs-toggle="collapse" data-bs-target="#more" onclick="flip(this, 'more')">More about us</button>
<div id="more" class="collapse menu">We sell lamps.</div>
<button aria-expanded="false" data-bs-toggle="collapse" data-bs-target="#less" onclick="flip(this, 'less')">Opening hours</button>
<div id="less" class="collapse menu">From nine to five.</div>
<div role="tablist"><button role="tab" class="tab active" onclick="tab(this)">Overview</button>
<button role="tab" class="tab" onclick="tab(this)">Details</button><button role="tab" class="tab" onclick="tab(this)">Reviews</button></div>
<p><button title="Delete it" id="icon"><svg width="16" height="16"><circle cx="8" cy="8" r="7"/></svg></button></p>
<p class="far"><label><input type="checkbox"> Keep me posted</label></p>
<script>
function flip(b, id) { b.setAttribute('aria-expanded', document.getElementById(id).classList.toggle('show')); }
function tab(b) { document.querySelectorAll('.tab').forEach((x) => x.classList.toggle('active', x === b)); }
document.getElementById('when').textContent = 'It is ' + new Date().toString();
document.getElementById('chance').textContent = 'Number ' + Math.random();
let n = 0; setInterval(() => { document.querySelector('h1').textContent = 'Start ' + n++; }, 70);
localStorage.seen = 1 + Number(localStorage.seen || 0); document.documentElement.dataset.seen = localStorage.seen;
</script></main></body></html>"""
FORM = """<h1>Your order</h1><form action="lists.html"><label>Full name <input name="a" type="text"></label>
<label>City <input name="b" value="Nowhere"></label><label>Amount <input type="number" name="c"></label>
<label><input type="checkbox" name="d"> Gift wrap</label><label><input type="checkbox" checked> Newsletter</label>
<label><input type="radio" name="s" checked> By train</label><label><input type="radio" name="s"> By ship</label>
<button type="submit">Send order</button></form></main></body></html>"""
LISTS = """<h1>Lists</h1><table><tr><td>Apples</td><td><button>Remove</button></td></tr><tr><td>Pears</td><td><button>Remove</button></td></tr>
<tr><td>Plums</td><td><button>Remove</button></td></tr></table><a href="form-plain.html">A card <button>Inner button</button></a>
<input type="search" placeholder="Find fruit"></main></body></html>"""


def write_pages(folder: Path) -> Path:
    """Four small pages, and beside the folder one that no link may reach."""
    pages = folder / "pages"
    (pages / "sub").mkdir(parents=True)
    for name, body in (("index", INDEX), ("form-plain", FORM), ("lists", LISTS)):
        (pages / f"{name}.html").write_text(HEAD.format(title=name) + body, encoding="utf-8")
    (pages / "sub" / "deep.html").write_text('<h1>Deep</h1><a href="..">Up</a>', encoding="utf-8")
    (folder / "secret.html").write_text("<h1>Secret</h1>", encoding="utf-8")
    return pages


def press(world: WebWorld, name: str) -> None:
    """Click the control of this name."""
    seen = next(seen for seen in world.see() if name in (seen.name, seen.label) and seen.clickable)
    place = world.element(seen)
    assert place is not None
    world.act(Click(place.centre))


def begin(world: WebWorld, page: str = "index.html") -> None:
    world.reset({"page": page, "seed": 0})
