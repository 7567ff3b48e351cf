"""Harvesting real pages in real Chromium: hidden things stay out, clicks confirm, a page that hangs costs itself."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import json
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dagster_project.cli import main
from generators.devices.browser import BrowserMissing, find_chromium
from generators.harvesting.web import confirm, keep, read_windows
from generators.harvesting.web_run import WebHarvest, harvest_web, spread
from generators.harvesting.web_sites import open_site, site_pages
from generators.harvesting.web_worker import harvest_page
from generators.tasks.world_interface import WorldError
from generators.worlds.webapps.server import AppMissing
from pipelines.mapping.adapter import Raw
from pipelines.prompts import prompt_text
from pipelines.store import Store
from pipelines.unify.unify import unify_source

pytestmark = pytest.mark.slow

STYLE = "<style>body{font:16px sans-serif;margin:0}td,li{padding:8px}button{padding:6px}.tall{height:900px}</style>"
SHOP = f"""<!doctype html><title>Shop</title>{STYLE}<h1>Orders of today</h1>
<table><tr><td>Ada Lovelace</td><td><button>Delete</button></td></tr>
<tr><td>Alan Turing</td><td><button>Delete</button></td></tr></table>
<p><label>Voucher <input type="text" name="v"></label> <button disabled>Redeem</button></p>
<button aria-label="Open menu" style="width:40px;height:40px"></button>
<div style="position:relative"><button id="covered">Covered one</button>
<div style="position:absolute;left:0;top:0;width:200px;height:40px;background:#eee"></div></div>
<button style="visibility:hidden">Invisible one</button><a href="other.html">Somewhere else</a>
<p onclick="document.title='clicked'" id="trap"><button onclick="location='other.html'">Leave the page</button></p>
<div class="tall"></div><a href="other.html" style="position:absolute;top:1000px;left:20px">Imprint far below</a>"""
OTHER = f"<!doctype html><title>Other</title>{STYLE}<h1>Delivery terms</h1><button>Accept the terms</button>"
HANGS = f"<!doctype html><title>Hangs</title>{STYLE}<button>Never read</button><script>for(;;);</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    found = tmp_path_factory.mktemp("pages")
    for name, text in (("a-other.html", OTHER), ("b-hangs.html", HANGS), ("shop.html", SHOP)):
        (found / name).write_text(text, "utf-8")
    return found


@pytest.fixture(scope="module")
def harvested(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("harvest") / "out"
    report = harvest_web([str(folder)], out, WebHarvest(page_s=12.0))
    return out, report, [json.loads(line) for line in (out / "screens.jsonl").read_text("utf-8").splitlines()]


def test_elements_are_visible_named_and_confirmed(harvested: tuple[Path, Any, list[dict[str, Any]]]) -> None:
    out, report, rows = harvested
    first, below = [row for row in rows if row["page"] == "shop.html"]
    named = {element["name"]: element for element in first["elements"]}
    assert {"Orders of today", "Voucher", "Redeem", "Open menu", "Somewhere else", "Leave the page"} <= set(named)
    assert not {"Covered one", "Invisible one", "Imprint far below"} & set(named)
    deletes = [element["expressions"] for element in first["elements"] if element["name"] == "Delete"]
    assert [said[0] for said in deletes] == [
        f'the button "Delete" in the row of "{who}"' for who in ("Ada Lovelace", "Alan Turing")
    ]
    assert (below["scroll_px"] > 0) and "Imprint far below" in {element["name"] for element in below["elements"]}
    for row in rows:
        picture = (out / row["screenshot"]).read_bytes()
        assert row["screenshot"] == f"images/{hashlib.sha256(picture).hexdigest()}.png"
        for element in row["elements"]:
            left, top, right, bottom = element["box_px"]
            assert 0 <= left < right <= 1280 and 0 <= top < bottom <= 800
    assert report.confirmed == report.checked == sum(report.verdicts.values()) > 10
    assert report.verdicts["focus"] == report.verdicts["hit"] == 1, "a field took the focus, a disabled button none"


def test_a_page_that_hangs_is_counted_and_costs_only_itself(harvested: tuple[Path, Any, list[dict[str, Any]]]) -> None:
    _, report, rows = harvested
    assert {row["page"] for row in rows} == {"a-other.html", "shop.html"} and report.pages == 2
    [(page, why)] = report.failed.items()
    assert "b-hangs.html 1280x800" in page and "longer than 12 s" in why


def test_a_harvest_is_a_source_like_any_other(
    harvested: tuple[Path, Any, list[dict[str, Any]]], tmp_path: Path
) -> None:
    out, report, rows = harvested
    manifest = unify_source(Store(tmp_path / "store"), "harvested", Raw(out))
    samples, screens = manifest.read("samples").to_pylist(), manifest.read("screens").to_pylist()
    assert manifest.counts["items_quarantined"] == 0 and len(screens) == len(rows) == report.screens
    asked = [(prompt_text(row["messages"]), row["answer"]) for row in samples]
    assert sum(text.startswith("Where is") and answer != "[-1,-1]" for text, answer in asked) == report.expressions
    assert "Open menu" in dict(asked).values(), "what shows no text is captioned"
    refused = {text for text, answer in asked if answer == "[-1,-1]"}
    assert refused == {"Where is Delivery terms?", "Where is Accept the terms?"}, "names of the page before"
    assert sum(len(row["elements"]) for row in screens) == report.elements


def test_what_moved_is_not_confirmed_and_the_page_sees_no_click(
    folder: Path, harvested: tuple[Path, Any, list[dict[str, Any]]]
) -> None:
    with open_site(str(folder)) as site:
        [screen] = read_windows(site.show("shop.html", 1280, 800), "shop.html", 1)
        row = next(row for row in harvested[2] if row["page"] == "shop.html")
        assert {**screen.as_row("web", row["app"]), "absent": row["absent"]} == row, "the same page, the same bytes"
        page = site.show("shop.html", 1280, 800)
        verdicts = confirm(page, screen)
        assert set(verdicts) == {"event", "focus", "hit"} and page.title() == "Shop" and page.url.endswith("shop.html")
        page = site.show("shop.html", 1280, 800)
        page.evaluate("document.querySelector('table').style.marginTop = '300px'")
        moved = Counter(confirm(page, screen))
        left = keep(screen, confirm(page, screen))
    assert sum(moved[how] for how in ("event", "focus", "hit")) < len(screen.elements) / 2
    assert "Orders of today" in {element.name for element in left.elements}
    assert "Ada Lovelace" not in {element.name for element in left.elements}


def test_a_second_window_is_confirmed_by_its_own_clicks(folder: Path, tmp_path: Path) -> None:
    rows = "".join(
        f'<tr><td style="height:40px;padding:0"><a href="#">Item number {n}</a></td></tr>' for n in range(60)
    )
    page = f'<!doctype html><body style="margin:0"><table style="border-spacing:0">{rows}</table></body>'
    (tmp_path / "long.html").write_text(page, "utf-8")
    with open_site(str(tmp_path)) as site:  # the rows of both windows stand at the same heights
        screens, verdicts = harvest_page(site, "long.html", (1280, 800), 2, True)
    assert [len(screen.elements) for screen in screens] == [20, 20] and verdicts == {"event": 40}


def test_html_files_are_pages_whatever_their_ending(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "title.js").write_text("document.title = 'ran'")
    for name in ("a.html", "b.htm", "C.HTM", "d.Html"):
        (tmp_path / name).write_text('<script src="title.js" integrity="sha256-x"></script><a href="#">Hi</a>')
    assert site_pages(str(tmp_path)) == ("C.HTM", "a.html", "b.htm", "d.Html")
    with open_site(str(tmp_path / "b.htm")) as site:
        assert [site.show(name, 800, 600).title() for name in ("b.htm", "C.HTM")] == ["ran", "ran"]


class Server(http.server.SimpleHTTPRequestHandler):
    """The folder's files; `/to/<host>` leads to that host's page."""

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", f"http://{self.path[4:]}:{self.server.server_address[1]}/a-other.html")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *args: Any) -> None:
        """Nothing is said of requests."""


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    handler = partial(Server, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_command_harvests_an_address_in_two_viewports(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    sizes = ["--size", "1280x800", "--size", "390x844"]
    assert main(["harvest", "web", f"{address}/a-other.html", "--allow-host", "127.0.0.1", *sizes, "--out", out]) == 0
    assert "100.00% of 4 confirmed by a click" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "out/screens.jsonl").read_text().splitlines()]
    assert [row["size_px"] for row in rows] == [[1280, 800], [390, 844]] and {row["app"] for row in rows} == {
        "127.0.0.1"
    }
    assert main(["harvest", "web", f"{address}/a-other.html", "--out", out]) == 2
    assert "expected an empty folder" in capsys.readouterr().err


def test_an_address_that_shows_something_else_is_not_harvested(address: str) -> None:
    local = address.replace("127.0.0.1", "localhost")
    with open_site(address, ("127.0.0.1", "localhost", "www.localhost")) as site:
        for good in (f"{address}/a-other.html", f"{address}/to/127.0.0.1", f"{local}/to/www.localhost"):
            assert site.show(good, 800, 600).title() == "Other"
        with pytest.raises(WorldError, match="missing.html: expected a page, the server answered 404"):
            site.show(f"{address}/missing.html", 800, 600)
        with pytest.raises(WorldError, match="to/localhost: led to localhost; if that is meant, name its address"):
            site.show(f"{address}/to/localhost", 800, 600)


def test_bad_input_is_named(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="nowhere: expected a folder of html pages"):
        site_pages("nowhere")
    for wrong in ({"windows": 0}, {"sizes": ((10, 800),)}, {"page_s": 0}):
        with pytest.raises(ValueError, match="harvest web"):
            WebHarvest(**wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AppMissing, match="pip install"):
        harvest_web(["datasette"], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert spread(["a", "b", "c", "d", "e"], 2) == ["a", "c"] and spread(["a", "b"], 0) == ["a", "b"]
