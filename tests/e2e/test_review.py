"""The review page in real Chromium: two people, 40 trajectories, keyboard only; SIGKILL, other pages, hostile text."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import goldmaker
import pytest
from reviewing import Reviewer, Server, chromium, profile, run_vesper, served

from generators.devices.browser import BrowserMissing, find_chromium
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.unify.unify import unify_source
from quality.judges.rules import RulesJudge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewrite import ProofRewriter
from quality.review.agreement import agreement, cohen_kappa
from quality.review.queue import ASSET
from quality.review.verdict_store import VerdictStore, answers_path
from schemas.ids import digest

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> \"&lt; {{7*7}} ${7*7} "
    "</title><svg onload=window.hacked=1> '); DROP TABLE verdicts; --"
)
KEYS = {"1": "keep", "2": "rewrite", "3": "reconstruct", "4": "discard", "5": "unsure"}


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
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 40 gold trajectories, one with a hostile goal, and their queue."""
    home = tmp_path_factory.mktemp("review") / "home"
    goals = [f"open page {number} and come back" for number in range(39)] + [HOSTILE]
    goldmaker.gold(home, count=40, length=4, instructions=goals)
    made = run_vesper("review", "queue", "--home", home, "--size", 40)
    assert made.returncode == 0 and "queued 40 of 40" in made.stdout, made.stderr
    return home


@pytest.fixture
def home(made_once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_once, tmp_path / "home"))


def decision_of(name: str, item_id: str) -> str:
    """A scripted person's key for an item: mostly keep, and two people differ on some."""
    own, common = int(digest([name, item_id])[:8], 16) % 10, int(digest(item_id)[:8], 16) % 10
    return str(own % 5 + 1) if own < 3 else str(max(1, common % 7 - 2))


def test_two_people_finish_forty_trajectories_by_keyboard(home: Path, browser: Browser) -> None:
    accepted: dict[tuple[str, str], str] = {}

    def work(person: Reviewer, stop_after: int) -> None:
        while stop_after and (item := person.item):
            stop_after -= 1
            key = decision_of(person.name, item)
            for _ in range(2):
                person.press("ArrowRight")
            if key != "1":
                person.press("x")
            person.answer(key)
            accepted[person.name, item] = KEYS[key]

    with profile(browser, 1000, 700) as context:
        ann, bob = Reviewer(context, "ann"), Reviewer(context, "bob")
        with served("--home", home) as server:
            ann.open(server.url)
            work(ann, 25)
            bob.open(server.url)
            work(bob, 11)
            last = bob.item
            ann.page.evaluate("window.before = document.body.dataset.item")
            ann.press("1")  # whether this one is accepted or not, nothing that was is lost
            server.kill()
            bob.press("4")
            bob.wait("() => !document.getElementById('banner').hidden")
            assert "NOT saved" in bob.text("banner") and bob.item == last
        kept = {(one.annotator, one.item_id): one.decision for one in VerdictStore(answers_path(home)).verdicts()}
        assert accepted.items() <= kept.items() and len(kept) - len(accepted) in (0, 1)
        accepted.update(kept)

        with served("--home", home) as server:
            for person in (ann, bob):
                person.open(server.url)
                work(person, 100)
            assert "All done" in ann.page.inner_text("#done") and len(accepted) == 80
            bob.page.reload()
            bob.wait("() => document.getElementById('count').textContent === '40 of 40'")

            answers = VerdictStore(answers_path(home))
            table = {(one.annotator, one.item_id): one for one in answers.verdicts()}
            assert {key: one.decision for key, one in table.items()} == accepted
            assert {one.first_wrong_step for one in table.values() if one.decision != "keep"} == {2}
            items = sorted({item for _, item in table})
            kappa = cohen_kappa([(table["ann", item].decision, table["bob", item].decision) for item in items])
            assert len(items) == 40 and 0.2 < kappa < 0.95
            assert bob.text("agreement") == f"κ {kappa:.3f} on 40 items"
            told = json.loads(run_vesper("review", "status", "--home", home, "--json").stdout)
            assert told["agreement"]["kappa"] == pytest.approx(kappa) and told["finished"] == 40

            differing = [item for item in items if table["ann", item].decision != table["bob", item].decision]
            settle(Reviewer(context, "eve"), server, differing)
            assert agreement(answers.verdicts()).kappa == pytest.approx(kappa)  # a last word isn't a third opinion
            assert {one.item_id for one in answers.verdicts() if one.role == "adjudicator"} == set(differing[:2])
        assert ann.errors == bob.errors == []


def settle(eve: Reviewer, server: Server, differing: list[str]) -> None:
    """A third person gives two last words, with the keyboard."""
    eve.open(server.url)
    assert eve.item == "" and eve.text("differing-count") == str(len(differing))
    for place, item in enumerate(differing[:2]):
        if eve.page.is_hidden("#differing"):
            eve.press("d")
        eve.wait("() => !document.getElementById('differing').hidden")
        assert eve.page.locator("#rows tr").count() == len(differing)
        eve.press("Home")
        for _ in range(5):
            eve.press("ArrowUp")
        eve.press("Enter")
        eve.wait("item => document.body.dataset.item === item", item)
        assert "ann: " in eve.text("others") and "first wrong step" in eve.text("others")
        eve.answer("2")
        eve.wait(
            "left => document.getElementById('differing-count').textContent === left", str(len(differing) - place - 1)
        )


def test_undo_notes_and_help(home: Path, browser: Browser) -> None:
    with served("--home", home) as server, profile(browser, 1000, 700) as context:
        ann = Reviewer(context, "ann")
        ann.open(server.url)
        first = ann.item
        ann.press("n")
        ann.page.keyboard.type("1 2 x d u: no key while a note is written")
        ann.press("Escape")
        ann.press("End")
        ann.press("x")
        assert ann.page.is_visible("#wrong-flag")
        ann.answer("4")
        assert ann.text("saved").startswith("saved: discard")
        ann.press("u")
        ann.wait("first => document.body.dataset.item === first", first)
        assert ann.page.input_value("#note") == "1 2 x d u: no key while a note is written"
        ann.press("?")
        assert ann.page.is_visible("#help")
        ann.press("1")  # no answer while the help is open
        ann.press("Escape")
        ann.wait("() => !document.getElementById('help').open")
        assert ann.item == first
        ann.answer("1")
        [verdict] = VerdictStore(answers_path(home)).verdicts()
        assert (verdict.decision, verdict.first_wrong_step, verdict.note[:3]) == ("keep", 3, "1 2")
        assert [undone for _, undone in VerdictStore(answers_path(home)).history(first)] == [True, False]
        scrolls = (
            "document.documentElement.scrollWidth > innerWidth || document.documentElement.scrollHeight > innerHeight"
        )
        assert not ann.page.evaluate(scrolls)
        ann.wait("() => document.getElementById('picture').naturalWidth > 0")


def test_no_key_is_lost_while_the_next_items_are_on_their_way(home: Path, browser: Browser) -> None:
    """The list of next items is slow after each answer: the item on the page takes an answer all the same."""
    with served("--home", home) as server, profile(browser) as context:
        ann = Reviewer(context, "ann")
        ann.open(server.url)
        first = ann.item
        ann.answer("1")
        held: list[Route] = []
        context.route("**/api/next*", lambda route: held.append(route))  # from here on asked for, never answered
        ann.press("u")
        ann.wait("first => document.body.dataset.item === first", first)
        ann.answer("4")
        ann.answer("1")
        assert len(held) >= 2
        said = {one.item_id: one.decision for one in VerdictStore(answers_path(home)).verdicts()}
        assert (said.pop(first), list(said.values())) == ("discard", ["keep"])


def test_text_of_the_data_never_runs(home: Path, browser: Browser) -> None:
    store = Store(home)
    rows = store.require(ASSET).read("queue").to_pylist()
    hostile = next(row["item_id"] for row in rows if row["item_id"].endswith("e0039"))
    others = [row["item_id"] for row in rows if row["item_id"] != hostile]
    with served("--home", home) as server, profile(browser) as context:
        good = {"Origin": f"http://127.0.0.1:{server.port}", "Content_Type": "application/json"}
        for number, item in enumerate(others[1:]):  # the page moves on to the hostile one from another
            said = {"annotator": "ann", "item_id": item, "decision": "keep", "request": f"request-{number}"}
            assert server.request("POST", "/api/verdict", json.dumps(said), **good)[0] == 200
        ann = Reviewer(context, "ann")
        ann.open(server.url)
        while ann.item != hostile:
            ann.answer("1")
        assert ann.page.inner_text("#goal") == HOSTILE
        ann.page.wait_for_load_state("networkidle")
        assert ann.page.evaluate("typeof window.hacked") == "undefined"
        ann.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 2';"
            "document.body.append(s); }"
        )
        ann.page.evaluate(
            "() => { document.getElementById('goal').innerHTML = '<img src=/none onerror=\"window.hacked = 3\">'; }"
        )
        ann.page.wait_for_timeout(200)
        assert ann.page.evaluate("typeof window.hacked") == "undefined"  # even if some text got in, it can't run


@contextlib.contextmanager
def foreign_site(html: str) -> Iterator[str]:
    """Another page on this machine, whose scripts may do what they like."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}/"
        site.shutdown()


def test_other_pages_can_neither_post_nor_read(home: Path, browser: Browser) -> None:
    item = Store(home).require(ASSET).read("queue").to_pylist()[0]["item_id"]
    body = json.dumps({"annotator": "mallory", "item_id": item, "decision": "keep", "request": "request-1"})
    page = """<form id=f method=post enctype=text/plain action="%(at)sapi/verdict" target=t>
    <input name='%(body)s'></form><iframe name=t></iframe><img id=i src="%(at)spicture?item=x&step=0"><script>
    window.tried = Promise.allSettled([
      fetch("%(at)sapi/verdict", {method: "POST", mode: "no-cors", credentials: "include", body: %(json)s}),
      fetch("%(at)sapi/verdict", {method: "POST", credentials: "include", body: %(json)s,
                                  headers: {"Content-Type": "application/json"}}).then(r => r.text()),
      fetch("%(at)sapi/state?annotator=ann", {credentials: "include"}).then(r => r.text()),
    ]).then(all => { f.submit(); return all.map(one => one.status); });
    </script>"""
    with served("--home", home) as server, profile(browser) as context:
        ann = Reviewer(context, "ann")
        ann.open(server.url)
        at = server.url  # the other page may even know the token
        with foreign_site(page % {"at": at, "body": body.replace('"', "&quot;"), "json": json.dumps(body)}) as url:
            evil = context.new_page()
            evil.goto(url)
            assert evil.evaluate("window.tried")[1:] == ["rejected", "rejected"]
            evil.wait_for_timeout(300)
            assert evil.evaluate("document.getElementById('i').naturalWidth") == 0
        assert [one.annotator for one in VerdictStore(answers_path(home)).verdicts()] == []

        ours = f"http://127.0.0.1:{server.port}"
        good = {"Origin": ours, "Content_Type": "application/json"}
        tries = [
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": ""}, 403),
            ({"Origin": f"http://localhost:{server.port}"}, 403),
            ({"Content_Type": "text/plain"}, 415),
            ({"Host": f"evil.example:{server.port}"}, 421),
            ({"Host": "127.0.0.1"}, 421),
            ({"Sec_Fetch_Site": "cross-site"}, 403),
            ({"Sec_Fetch_Site": "same-site"}, 403),
        ]
        for changed, status in tries:
            found = server.request("POST", "/api/verdict", body, **{**good, **changed})
            assert found[0] == status, (changed, found)
        for path in ("/api/verdict", "/wrong/api/verdict", f"/{server.token[:-1]}/api/verdict", "//api/verdict"):
            assert server.request("POST", path, body, token=False, **good)[0] == 403, path
        for path in ("/", "/wrong/", f"/?token={server.token}", f"/{server.token}", "/review.js"):
            assert server.request("GET", path, token=False)[0] == 403, path
        assert server.request("GET", "/picture?item=x&step=0", Sec_Fetch_Site="same-site")[0] == 403
        assert server.request("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")[0] == 200  # a link
        assert server.request("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="iframe")[0] == 403
        assert VerdictStore(answers_path(home)).verdicts() == []
        assert server.request("POST", "/api/verdict", body, **good)[0] == 200  # the same one, from the page itself
        assert [one.annotator for one in VerdictStore(answers_path(home)).verdicts()] == ["mallory"]


def test_bad_requests_get_one_line_and_pictures_have_no_paths(home: Path) -> None:
    item = Store(home).require(ASSET).read("queue").to_pylist()[0]["item_id"]
    with served("--home", home) as server:
        good = {"Origin": f"http://127.0.0.1:{server.port}", "Content_Type": "application/json"}
        plain = {"annotator": "ann", "item_id": item, "decision": "keep", "request": "request-1"}
        bad: list[object] = [
            {**plain, "decision": "maybe"},
            {**plain, "item_id": "episode:toy/none"},
            {**plain, "item_id": 5},
            {**plain, "annotator": "<b>"},
            {**plain, "first_wrong_step": 99},
            {**plain, "first_wrong_step": "1"},
            {**plain, "seconds": "long"},
            {**plain, "seconds": -1},
            {**plain, "role": "adjudicator"},
            {**plain, "note": 7},
            {**plain, "request": "a"},
            [],
            "text",
            5,
            None,
        ]
        for body in bad:
            status, _, text = server.request("POST", "/api/verdict", json.dumps(body), **good)
            assert status == 400 and "\n" not in json.loads(text)["error"], (body, text)
        for raw in (
            "{",
            "[" * 50_000,
            '{"seconds": NaN}',
            '{"seconds": 1e999}',
            "\ud83d".encode("utf-16", "surrogatepass").hex(),
        ):
            assert server.request("POST", "/api/verdict", raw, **good)[0] == 400
        assert server.request("POST", "/api/verdict", "x" * 70_000, **good)[0] == 413
        for query, status in {
            "item=../../../etc/passwd&step=0": 404,
            "item=/etc/passwd&step=0": 404,
            f"item={item}&step=-1": 400,
            f"item={item}&step=99": 404,
            f"item={item}&step=0/../1": 400,
            "": 400,
            f"item={item}&step=1": 200,
            f"item={item}&step=1&size=thumb": 200,
        }.items():
            assert server.request("GET", f"/picture?{query}")[0] == status, query
        for path in ("/../server.py", "/page/../../items.py", "/%2e%2e/server.py", "/review.sqlite"):
            assert server.request("GET", path)[0] == 404, path
        assert server.request("DELETE", "/api/verdict")[0] == 405
        headers = server.request("GET", "/")[1]
        assert "'unsafe-inline'" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and "server" not in headers
        assert VerdictStore(answers_path(home)).verdicts() == []


def test_the_real_stages_end_at_the_page(tiny_home: Callable[..., Path], tmp_path: Path, browser: Browser) -> None:
    """Embedded episodes through unify, judge and gold: the queue holds them, and their pictures are shown."""
    home = Path(shutil.copytree(tiny_home("aitz"), tmp_path / "home"))
    store = Store(home)
    unify_source(store, "aitz", Raw(home / "raw" / "aitz"))
    judge_source(store, "aitz", RulesJudge())
    build_gold(store, "aitz", RulesJudge(), ProofRewriter())
    assert run_vesper("review", "queue", "--home", home).returncode == 0
    rows = store.require(ASSET).read("queue").to_pylist()
    assert {row["origin"] for row in rows} >= {"gold"} and all(row["confidence"] is not None for row in rows)
    with served("--home", home) as server, profile(browser) as context:
        ann = Reviewer(context, "ann")
        ann.open(server.url)
        assert ann.item == rows[0]["item_id"]
        ann.wait("() => document.getElementById('picture').naturalWidth > 100")
        ann.press("ArrowRight")
        ann.wait("() => document.getElementById('step-number').textContent.startsWith('step 2')")
        ann.answer("1")
    made = run_vesper("review", "export", "--home", home, tmp_path / "tasks.json", "--pictures", "none", "--answers")
    assert made.returncode == 0 and "1 annotations" in made.stdout
    read = run_vesper("review", "import", "--home", home, tmp_path / "tasks.json")
    assert read.returncode == 0 and "answers 1" in read.stdout, read.stderr
    refused = run_vesper("review", "promote", "--home", home)
    assert refused.returncode == 2 and "no item has 2 equal answers" in refused.stderr
    promoted = run_vesper("review", "promote", "--home", home, "--annotators", 1)
    assert promoted.returncode == 0 and "1 settled" in promoted.stdout, promoted.stderr


def test_a_service_waits_for_the_first_queue(made_once: Path, tmp_path: Path) -> None:
    home, ready = tmp_path / "home", tmp_path / "ready"
    shutil.copytree(made_once, ready)

    def build(line: str) -> None:
        if line.startswith("nothing"):
            ready.rename(home)

    with served("--home", home, "--wait", on_line=build) as server:
        assert server.lines[0] == f"nothing is queued in {home} yet: waiting for {ASSET}\n"
        assert server.lines[1].startswith("40 items")
        assert server.request("GET", "/api/next?annotator=ann")[0] == 200
