"""Datasette in real Chromium: ten tasks by their plans, the snapshot, the truth, and a server that dies."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from webapps import check_leaving, check_snapshot, check_tasks, open_or_skip

from generators.tasks.world_interface import WorldError
from generators.worlds.registry import open_world
from generators.worlds.webapps import server as servers
from generators.worlds.webapps.datasette import snapshot
from generators.worlds.webapps.datasette.datasette_tasks import make_tasks
from generators.worlds.webapps.datasette.datasette_world import open_datasette
from generators.worlds.webapps.web_app_world import WebAppWorld
from schemas.actions import Click, Hotkey, Launch, Type

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[WebAppWorld]:
    yield from open_or_skip(open_datasette)


def test_ten_plans_reach_their_goals_and_shortened_ones_do_not(world: WebAppWorld) -> None:
    check_tasks(world, make_tasks(0))


def test_reset_restores_pixels_and_truth(world: WebAppWorld) -> None:
    check_snapshot(world, make_tasks(5)[8])


def test_nothing_leads_out(world: WebAppWorld) -> None:
    check_leaving(world, "/shop/orders")


def test_a_page_reaches_nothing_but_its_app(world: WebAppWorld) -> None:
    world.reset({"page": "/shop"})
    tried = "url => fetch(url, {mode: 'no-cors'}).then(() => 'reached', () => 'refused')"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for host in ("127.0.0.1", "localhost", "[::1]", "127.0.0.2"):
            assert world.page.evaluate(tried, f"http://{host}:{port}/") == "refused", host
        assert world.page.evaluate(tried, f"http://127.0.0.2:{world.server.port}/") == "refused"
        assert world.page.evaluate(tried, "http://example.org/") == "refused"
        assert world.page.evaluate(tried, f"{world.server.origin}/shop") == "reached"
        web = "url => new Promise(done => { const one = new WebSocket(url); one.onopen = () => done('reached');"
        assert world.page.evaluate(f"{web} one.onerror = () => done('refused'); }})", f"ws://127.0.0.1:{port}/") == (
            "refused"
        )
        other.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has even connected
            other.accept()


def test_truth_is_read_behind_the_screen(world: WebAppWorld) -> None:
    world.reset({"page": "/shop/tickets"})
    before = world.observe()
    with sqlite3.connect(world.server.folder / "shop.db") as database:
        database.execute("update tickets set subject = 'Rewritten' where id = 1")
    assert world.state()["data"]["tickets"]["1"]["subject"] == "Rewritten"
    assert world.observe().png == before.png and world.observe().state != before.state
    world.act(Launch(url="/shop/orders?_sort_desc=total&status=paid&_size=3&_next=oops"))
    ids = world.state()["view"]["ids"]
    rows = world.state()["data"]["orders"]
    assert len(ids) > 3 and {rows[i]["status"] for i in ids} == {"paid"}
    assert [rows[i]["total"] for i in ids] == sorted((rows[i]["total"] for i in ids), reverse=True)
    world.act(Launch(url="/shop?sql=select+nonsense"))
    assert world.state()["view"] == {"error": True}


def test_what_datasette_refuses_is_seen_as_a_page_that_says_so(world: WebAppWorld) -> None:
    world.reset({"page": "/shop?sql=select+1"})
    query = next(element for element in world.elements() if element.text == "select")  # a word in the editor
    world.act(Click(query.centre))
    world.act(Hotkey(("ctrl", "a")))
    world.act(Hotkey(("Delete",)))
    run = next(element for element in world.elements() if element.name == "Run SQL")
    world.act(Click(run.centre))
    assert world.path == "/shop?sql=" and world.observe().png and world.state()["view"] == {}
    for path, view in (
        ("/shop?sql=%20", {}),
        ("//[news", {}),
        ("/shop/orders?_sort=foo", {"error": True}),
        ("/shop/orders?_where=foo", {"error": True}),
    ):
        world.act(Launch(url=f"http://localhost{path}"))
        assert world.path == path and world.observe().png and world.state()["view"] == view, path
    assert world.data.truth("/shop/orders?_filter_column=id&_filter_op=gt&_filter_value=3")["view"] == {"error": True}


def test_typed_text_arrives_byte_for_byte(world: WebAppWorld) -> None:
    text = "𝄞 “quotes” ';rm -rf 中文 🙂"
    world.reset({"page": "/shop/add_ticket"})
    field = next(element for element in world.elements() if (element.role, element.name) == ("textbox", "subject"))
    world.act(Click(field.centre))
    world.act(Type(text))
    assert next(element for element in world.elements() if element.key == field.key).text == text
    world.act(Hotkey(("ctrl", "a")))
    world.act(Type("short"))
    assert next(element for element in world.elements() if element.key == field.key).text == "short"


def test_bad_starts_are_named(world: WebAppWorld) -> None:
    for start, said in (
        ({"seed": -1}, "seed"),
        ({"seed": "0; drop table"}, "seed"),
        ({"page": "//example.org/"}, "page"),
        ({"page": "file:///etc/passwd"}, "page"),
        ({"world": "phone"}, "phone"),
        ({"size": 3}, "size"),
    ):
        with pytest.raises(WorldError, match=said):
            world.reset(start)


def test_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(servers.AppMissing, match=r"pip install 'vesper\[webapps\]'"), open_world("datasette"):
        pass


def test_dead_server_is_an_error_that_says_so(world: WebAppWorld) -> None:
    world.reset({})
    world.server.process.kill()
    world.server.process.wait(10)
    with pytest.raises(WorldError, match="ended with -9"):
        world.reset({"page": "/shop/orders"})
    for path in ("/shop/orders", "/shop/orders?_sort=foo"):
        with pytest.raises(WorldError, match="ended with -9"):
            world.data.truth(path)


def test_a_server_that_is_not_well_is_no_refusal(world: WebAppWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(world.server), "call", lambda *given, **more: (500, b"out of order"))
    with pytest.raises(WorldError, match="/-/versions.json was answered with 500"):
        world.data.truth("/shop/orders")


def test_a_server_outlives_no_parent_not_even_a_killed_one(tmp_path: Path) -> None:
    pytest.importorskip("datasette")
    snapshot.build(tmp_path / "shop.db", 0)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom generators.worlds.webapps.server import start_server\n"
        "with start_server('datasette', Path(sys.argv[1]), ready='/-/versions.json') as server:\n"
        "    print(server.port, flush=True)\n    time.sleep(100)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        socket.create_connection(("127.0.0.1", port), 5).close()
        parent.kill()
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            return
        time.sleep(0.1)
    pytest.fail("the server still listens ten seconds after its parent was killed")
