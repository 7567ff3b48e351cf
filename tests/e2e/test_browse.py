"""The corpus browser in real Chromium: from the worst samples of a source to a corpus without them; keyboard, zoom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsing import HOSTILE, browsed_store
from corpusmaker import build_checkpoints, build_corpus, build_source, commit, write_raw
from reviewing import Reviewer, Server, chromium, profile, run_vesper, served

from generators.devices.browser import BrowserMissing, find_chromium
from pipelines.store import Store
from pipelines.training_data.shards import build_shards
from quality.judges.registry import JudgeConfig, build_judge
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter
from quality.review.refusals import find_refused
from trainer.worth import tables as worth

pytestmark = pytest.mark.slow
BROWSE = ("browse",)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of this file, each in a new profile."""
    try:
        find_chromium()
    except BrowserMissing as error:
        pytest.skip(str(error))
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two sources, one episode with a hostile goal."""
    return browsed_store(tmp_path_factory.mktemp("browse") / "home").home


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    """`vesper browse` over it."""
    with served("--home", home, command=BROWSE) as running:
        yield running


class Visitor:
    """Somebody at the page."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page: Page = context.new_page()
        self.url = url
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, view: str = "") -> None:
        self.page.goto(f"{self.url}?{view}")
        self.settle()

    def wait(self, script: str, arg: Any = None) -> None:
        self.page.wait_for_function(script, arg=arg, timeout=60_000)

    def settle(self) -> None:
        """Until list, counts and pictures are there."""
        self.wait("() => !document.querySelector('[aria-busy]') && document.querySelectorAll('#facets details').length")
        self.page.wait_for_load_state("networkidle")

    @property
    def ids(self) -> list[str]:
        """The items that the list shows."""
        found: list[str] = self.page.evaluate("() => [...document.querySelectorAll('#grid li')].map(n => n.dataset.id)")
        return found

    @property
    def chosen(self) -> list[str]:
        found: list[str] = self.page.evaluate(
            "() => [...document.querySelectorAll('#grid li.selected')].map(n => n.dataset.id)"
        )
        return found

    def focused(self) -> str:
        """Id of the item that the keyboard is on."""
        return str(self.page.evaluate("() => document.activeElement.closest('li')?.dataset.id ?? ''"))

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("() => document.documentElement.scrollWidth > innerWidth"))


def shards_of(store: Store) -> set[str]:
    return set(store.require("mid_training/shards").read("index")["sample_id"].to_pylist())


def send_to_review(ann: Visitor, name: str = "") -> None:
    """By keyboard: the item that the keyboard is on, and no other."""
    ann.page.keyboard.press("x")
    assert ann.chosen == [ann.focused()]
    ann.page.keyboard.press("r")
    if name:  # asked for once, then known
        ann.page.fill("#ask-who", name)
    ann.page.keyboard.press("Enter")
    ann.wait("() => document.getElementById('told').open")
    assert ann.page.inner_text("#told-title") == "1 item in the review queue"
    ann.page.keyboard.press("Escape")
    ann.page.keyboard.press("x")


def test_the_worst_samples_go_to_review_and_change_the_next_corpus(tmp_path: Path, browser: Browser) -> None:
    store = Store(tmp_path / "home")
    write_raw(tmp_path / "raw", questions=14)
    build_source(store, tmp_path / "raw", "screenqa")
    build_corpus(store, ["screenqa"])
    build_checkpoints(store)
    empty = dict.fromkeys(worth.Worth.schema.names, 0) | {"treatment": "with", "control": "without"}
    said = {"kind": worth.LEFT_OUT, "subject": "screenqa", "points": 1.5, "low": -0.5, "high": 3.0}
    measured = empty | said | dict.fromkeys(("says", "loss_says"), "says nothing")
    commit(store, worth.SOURCES, {}, {"worth": worth.Worth.table([measured])})
    packed = shards_of(store)
    with served("--home", store.home, command=BROWSE) as server, profile(browser) as context:
        ann = Visitor(context, server.url)
        ann.open("source=screenqa&sort=score")
        worst, scores = ann.ids[:10], ann.page.locator("#grid .badge.score").all_inner_texts()[:10]
        reasons = ann.page.locator("#grid .reason").all_inner_texts()[:10]
        assert [int(one) for one in scores] == [2] * 10 and all("blank_box" in reason for reason in reasons)
        ann.page.locator("#grid a").first.focus()
        rejected = ann.focused()
        assert rejected == worst[0] and rejected.removeprefix("sample:") not in packed
        send_to_review(ann, "ann")

        with served("--home", store.home, "--annotators", 1) as review:
            bob = Reviewer(context, "bob")
            bob.open(review.url)
            assert bob.item == rejected
            bob.answer("1")
            ann.page.bring_to_front()
            ann.open("source=screenqa&state=gold&split=train&sort=score")
            ann.page.locator("#grid a").first.focus()
            gold = ann.focused()
            assert gold.removeprefix("sample:") in packed
            ann.page.keyboard.press("Enter")  # where it came from, and where it went
            ann.wait("() => document.querySelectorAll('#chain h3').length > 5")
            chain = ann.page.inner_text("#chain")
            stages = ("raw/screenqa", "in the mixture", "mid_training/shards/", "checkpoints/unified@", "+1.5 [-0.5")
            places = [chain.find(name) for name in stages]
            assert places == sorted(places) and min(places) >= 0, chain
            assert ann.page.inner_text("#about .verdict") and ann.page.locator("#picture img").count() == 1
            ann.page.keyboard.press("Escape")
            ann.wait("id => document.activeElement.closest('li')?.dataset.id === id", gold)
            send_to_review(ann)
            bob.open(review.url)  # the page that was running has it, too
            assert bob.item == gold
            bob.answer("4")
        promoted = run_vesper("review", "promote", "--home", store.home, "--annotators", 1)
        assert promoted.returncode == 0 and "2 settled" in promoted.stdout, promoted.stderr
        config = JudgeConfig()
        build_gold(store, "screenqa", build_judge(config), build_rewriter(config))
        find_refused(store, ["screenqa"])
        build_shards(store, ["screenqa"])
        after = shards_of(store)
        assert gold.removeprefix("sample:") not in after and rejected.removeprefix("sample:") in after
        ann.page.bring_to_front()
        for _ in range(100):
            ann.open("source=screenqa&state=refused")
            if ann.ids:
                break
            ann.page.wait_for_timeout(200)
        assert ann.ids == [gold] and ann.errors == []


def test_everything_can_be_done_by_keyboard_and_lies_in_the_address(server: Server, browser: Browser) -> None:
    with profile(browser) as context:
        ann = Visitor(context, server.url)
        ann.open("unit=step&sort=id")
        ids = ann.ids
        for _ in range(200):  # from the top of the page to the first item, as Tab leads there
            if ann.focused():
                break
            ann.page.keyboard.press("Tab")
            outline = "() => getComputedStyle(document.activeElement).outlineStyle"
            assert ann.page.evaluate(outline) != "none", ann.page.evaluate("() => document.activeElement.outerHTML")
        assert ann.focused() == ids[0]
        ann.page.keyboard.press("ArrowRight")
        ann.page.keyboard.press("Shift+ArrowRight")
        ann.page.keyboard.press("Shift+ArrowRight")
        assert ann.focused() == ids[3] and ann.chosen == ids[1:4]
        ann.page.keyboard.press("x")
        assert ann.chosen == ids[1:3] and ann.page.inner_text("#selected") == "2 selected"
        ann.page.keyboard.press("ArrowDown")
        below = ids.index(ann.focused())
        assert below > 3

        ann.page.keyboard.press("t")
        ann.page.fill("#ask-who", "ann")
        ann.page.fill("#ask-value", "odd")
        ann.page.keyboard.press("Enter")
        ann.wait("() => !document.getElementById('ask').open && document.querySelectorAll('.badge.tag').length === 2")
        ann.settle()

        ann.page.keyboard.press("/")
        ann.page.keyboard.type("open page 3")
        ann.page.keyboard.press("Enter")
        ann.wait("() => location.search.includes('q=open+page+3')")
        ann.settle()
        assert 0 < len(ann.ids) < len(ids)
        box = ann.page.locator("#facets [data-key='source=aitz']")
        box.focus()
        ann.page.keyboard.press("Space")
        ann.wait("() => location.search.includes('source=aitz')")
        ann.settle()
        assert ann.page.evaluate("() => document.activeElement.dataset.key") == "source=aitz"
        narrow = ann.ids
        assert narrow and all("/aitz/" in f"/{one.removeprefix('step:')}" for one in narrow)

        address = ann.page.url
        ann.page.locator("#grid a").first.focus()
        ann.page.keyboard.press("Enter")
        ann.wait("() => location.search.includes('item=') && document.querySelectorAll('#strip button').length === 3")
        ann.page.keyboard.press("ArrowRight")
        assert ann.page.locator("#strip button[aria-pressed=true]").inner_text().strip()
        shared = ann.page.url
        ann.page.go_back()
        ann.wait("() => !location.search.includes('item=')")
        assert ann.page.url == address and ann.ids == narrow
        ann.page.go_back()
        ann.settle()
        assert "source=aitz" not in ann.page.url and len(ann.ids) > len(narrow)
        bob = Visitor(context, server.url)
        bob.page.goto(shared)  # the same item to whoever is given the address
        bob.wait("() => document.querySelectorAll('#chain h3').length > 3")
        bob.open("unit=step&tag=odd&sort=id")
        assert bob.ids == ids[1:3] and ann.errors == bob.errors == []


def test_at_400_percent_nothing_scrolls_sideways(server: Server, browser: Browser) -> None:
    """1280 px at 400 % are 320 CSS pixels (WCAG 2.2, 1.4.10)."""
    with profile(browser, 320, 256) as context:
        ann = Visitor(context, server.url)
        ann.open("unit=step&source=aitz&why=box")
        assert not ann.scrolls_sideways() and not ann.page.evaluate("() => document.getElementById('filters').open")
        ann.page.locator("#filters > summary").click()
        assert not ann.scrolls_sideways()
        ann.page.locator("#grid a").first.click()
        ann.wait("() => document.querySelectorAll('#chain h3').length > 3")
        assert not ann.scrolls_sideways()
        ann.page.keyboard.press("x")
        ann.page.keyboard.press("r")
        assert not ann.scrolls_sideways()
        inside = (
            "() => { const b = document.getElementById('ask').getBoundingClientRect(); return b.width <= innerWidth; }"
        )
        assert ann.page.evaluate(inside)
        paper = "() => getComputedStyle(document.body).backgroundColor"
        light = ann.page.evaluate(paper)
        ann.page.emulate_media(color_scheme="dark")
        assert ann.page.evaluate(paper) != light


def test_every_control_has_a_name(server: Server, browser: Browser) -> None:
    with profile(browser) as context:
        ann = Visitor(context, server.url)
        ann.open("unit=step&source=aitz")
        unnamed = """() => [...document.querySelectorAll('button, input, select, a')].filter(n => !n.closest('dialog'))
            .filter(n => !(n.innerText || '').trim() && !n.getAttribute('aria-label') && !(n.labels && n.labels.length))
            .map(n => n.outerHTML.slice(0, 120))"""
        assert ann.page.evaluate(unnamed) == []
        assert ann.page.evaluate("() => document.documentElement.lang") == "en"
        ann.page.goto(f"{server.url}?unit=rows")  # an address that somebody wrote by hand
        ann.wait("() => !document.querySelector('[aria-busy]') && document.getElementById('banner').innerText")
        assert "unit: expected one of sample, step" in ann.page.inner_text("#banner")
        assert ann.page.inner_text("#total") == "0 items" and ann.errors == []


def test_text_of_the_data_never_runs(server: Server, browser: Browser) -> None:
    with profile(browser) as context:
        ann = Visitor(context, server.url)
        ann.open("unit=episode&source=aitz&sort=id")
        assert HOSTILE in ann.page.locator("#grid .text").all_inner_texts()
        ann.page.locator("#grid a", has_text="window.hacked").first.click()
        ann.wait("() => document.querySelectorAll('#chain h3').length > 3")
        assert ann.page.inner_text("#about h1") == HOSTILE
        ann.page.evaluate(
            "() => { document.getElementById('about').innerHTML = '<img src=x onerror=\"window.hacked=2\">'; }"
        )
        ann.page.wait_for_timeout(200)
        assert ann.page.evaluate("() => typeof window.hacked") == "undefined"


def test_only_the_page_itself_may_ask(server: Server, home: Path) -> None:
    ours = f"http://127.0.0.1:{server.port}"
    good = {"Origin": ours, "Content_Type": "application/json"}
    body = json.dumps({"ids": ["step:toy/e0000/0"], "name": "mallory", "who": "mallory"})
    for changed, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": ""}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Host": f"evil.example:{server.port}"}, 421),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
    ):
        for path in ("/api/tag", "/api/review", "/api/takedown", "/api/export"):
            assert server.request("POST", path, body, **{**good, **changed})[0] == status, (path, changed)
    assert server.request("POST", "/api/tag", body, token=False, **good)[0] == 403
    assert server.request("GET", "/api/items", token=False)[0] == 403
    assert server.request("GET", "/api/items", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")[0] == 403
    assert server.request("GET", "/?unit=step", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")[0] == 200
    assert server.request("POST", "/api/tag", "x" * (3 << 20), **good)[0] == 413
    assert server.request("POST", "/api/tag", "[" * 50_000, **good)[0] == 400
    status, headers, _ = server.request("GET", "/")
    assert status == 200 and "'unsafe-inline'" not in headers["content-security-policy"]
    for query in ("unit=rows", "source=" + "x" * 9, "min=x", "nothing=1"):
        status, _, text = server.request("GET", f"/api/items?{query}")
        assert status == (200 if query.startswith("source") else 400) and "\n" not in json.loads(text).get("error", "")
    for path in ("/picture?sha=../../etc/passwd", "/picture?sha=", "/picture?sha=" + "0" * 64 + "&size=big"):
        assert server.request("GET", path)[0] == 400
    assert server.request("GET", "/picture?sha=" + "0" * 64)[0] == 404
    assert server.request("GET", "/../server.py")[0] == 404
    assert server.request("GET", "/api/item?id=step:toy/none/0")[0] == 400
    status, headers, text = server.request("GET", "/export.jsonl?unit=episode&source=toy&sort=id")
    rows = [json.loads(line) for line in text.splitlines()]
    assert status == 200 and [row["item_id"] for row in rows] == [f"episode:toy/e{n:04d}" for n in range(8)]
    assert "attachment" in headers["content-disposition"]


def test_a_filed_list_is_what_the_command_takes_down(tmp_path: Path, browser: Browser) -> None:
    home = browsed_store(tmp_path / "home").home
    with served("--home", home, command=BROWSE) as server, profile(browser) as context:
        ann = Visitor(context, server.url)
        ann.open("unit=episode&source=toy&sort=id")
        ann.page.locator("#grid .pick").first.click()
        gone = ann.chosen
        ann.page.locator("#bar [data-act=takedown]").click()
        ann.page.fill("#ask-who", "ann")
        ann.page.fill("#ask-value", "the owner asked")
        ann.page.click("#ask-yes")
        ann.wait("() => document.getElementById('ask-error').textContent.startsWith('confirm')")
        ann.page.fill("#ask-confirm", "1")
        ann.page.click("#ask-yes")
        ann.wait("() => document.getElementById('told').open")
        command = ann.page.inner_text("#told-lines").split()
        assert command[:2] == ["vesper", "takedown"]
        done = run_vesper(*command[1:], "--home", home)
        assert done.returncode == 0 and "nothing of it is left" in done.stdout, done.stdout + done.stderr
        assert gone[0] not in {f"episode:toy/{e}" for e in Store(home).require("gold/toy").read("steps")["episode_id"]}
    with served("--home", home, command=BROWSE) as server:
        rows = json.loads(server.request("GET", "/api/items?unit=episode&source=toy")[2])
        assert rows["total"] == 7 and gone[0] not in [card["item_id"] for card in rows["items"]]


def test_bad_options_are_refused_in_one_line(home: Path, tmp_path: Path) -> None:
    for words, said in (
        (("--host", "0.0.0.0"), "expected 127.0.0.1 or localhost"),
        (("--port", "70000"), "--port: expected 0 to 65535"),
        (("--view", "unit=rows"), "unit: expected one of sample"),
    ):
        refused = run_vesper("browse", "--home", home, *words)
        assert refused.returncode == 2 and said in refused.stderr and len(refused.stderr.splitlines()) == 1
    refused = run_vesper("browse", "--store", tmp_path / "none")
    assert refused.returncode == 2 and "expected a store" in refused.stderr
