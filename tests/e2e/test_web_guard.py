"""Dagster's UI as `make dev` starts it: no page of elsewhere drives it or reads it, and its own page works."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from dagster_dev import graphql, page_of, running

PAUSE = "mutation{setAutoMaterializePaused(paused:true)}"
PAUSED = "{instance{autoMaterializePaused}}"
JSON = "application/json"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("home")) as url:
        yield url


def ask(address: str, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read().decode("utf-8", "replace")
    finally:
        connection.close()


def is_paused(address: str) -> bool:
    status, text = ask(address, "POST", "/graphql", json.dumps({"query": PAUSED}), Content_Type=JSON)
    assert status == 200, text
    return bool(json.loads(text)["data"]["instance"]["autoMaterializePaused"])


@pytest.mark.timeout(300)
def test_no_foreign_page_changes_or_reads_anything(address: str, tmp_path: Path) -> None:
    asked = f"/graphql?query={quote(PAUSE)}"
    body = json.dumps({"query": PAUSE})
    before = is_paused(address)
    tries = [
        ask(address, "GET", asked),
        ask(address, "GET", asked, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="image", Sec_Fetch_Mode="no-cors"),
        ask(address, "GET", asked, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document", Accept="text/html"),
        ask(address, "HEAD", asked),
        ask(address, "POST", asked),
        ask(address, "POST", "/graphql", f"query={quote(PAUSE)}", Content_Type="application/x-www-form-urlencoded"),
        ask(address, "POST", "/graphql", body, Content_Type="text/plain; application/json"),
        ask(address, "POST", "/graphql", PAUSE, Content_Type="application/graphql"),
        ask(address, "POST", "/graphql", body, Content_Type=JSON, Origin="http://evil.example"),
        ask(address, "POST", "/graphql", body, Content_Type=JSON, Origin="null"),
        ask(address, "POST", "/graphql", body, Content_Type=JSON, Host="evil.example"),
        ask(address, "GET", "/server_info", Host="evil.example"),
        ask(address, "GET", "/logs/x", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document"),
    ]
    assert [status for status, _ in tries if status < 400] == []
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    key = {"Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    assert ask(address, "GET", "/graphql", **upgrade, **key, Origin="http://evil.example")[0] == 403
    assert is_paused(address) == before


LAUNCH = (
    'mutation{launchRun(executionParams:{selector:{jobName:"promote_verified",repositoryName:"__repository__",'
    'repositoryLocationName:"vesper"},mode:"default",runConfigData:"{}"}){__typename}}'
)
WIPE = 'mutation{wipeAssets(assetPartitionRanges:[{assetKey:{path:["gold","aitw"]}}]){__typename}}'
FOREIGN = """<!doctype html><title>any page on the web</title>
%(images)s
<iframe src="%(graphql)s?query=%(pause)s"></iframe>
<iframe name="frame"></iframe>
<form method="post" target="frame" enctype="text/plain" action="%(graphql)s">
<input name='{"query":"' value='%(mutation)s"}'></form>
<script>
  document.forms[0].submit()
  const body = JSON.stringify({query: "%(mutation)s"})
  for (const type of ["text/plain", "application/json"])
    fetch("%(graphql)s", {method: "POST", mode: "no-cors", headers: {"Content-Type": type}, body}).catch(() => 0)
  fetch("%(graphql)s", {method: "POST", headers: {"Content-Type": "application/json"}, body}).catch(() => 0)
  navigator.sendBeacon("%(graphql)s", new Blob([body], {type: "text/plain"}))
</script>"""
"""What a page can do to a server that it may not read: images, a frame, a form, requests, a beacon."""


@contextmanager
def serving_page(text: str) -> Iterator[str]:
    """The address of a server that answers everything with one page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *said: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_foreign_page_in_a_real_browser_changes_nothing(address: str, name: str) -> None:
    before, runs = is_paused(address), "{runsOrError{... on Runs{results{runId}}}}"
    told = json.loads(ask(address, "POST", "/graphql", json.dumps({"query": runs}), Content_Type=JSON)[1])
    asked = f"http://{name}:{urlsplit(address).port}/graphql"
    mutation = f"mutation{{setAutoMaterializePaused(paused:{str(not before).lower()})}}"
    words = {"graphql": asked, "pause": quote(mutation), "mutation": mutation}
    words["images"] = "".join(f'<img src="{asked}?query={quote(said)}">' for said in (mutation, LAUNCH, WIPE))
    answers: list[tuple[str, int]] = []
    # Of another port, so of another origin; of another name, too, where the server is called localhost.
    with serving_page(FOREIGN % words) as foreign, page_of(address) as page:
        page.unroute_all()
        page.on("response", lambda reply: answers.append((reply.url.partition("?")[0], reply.status)))
        page.goto(foreign)
        page.wait_for_load_state("networkidle")
    # The browser itself stops or hides some; what reached the server, it refused.
    assert [one for one in answers if one[0] == asked and one[1] < 400] == []
    assert any(where == asked for where, _ in answers), answers
    assert is_paused(address) == before
    after = json.loads(ask(address, "POST", "/graphql", json.dumps({"query": runs}), Content_Type=JSON)[1])
    assert after == told, "no run was launched"


@pytest.mark.timeout(300)
def test_its_own_page_and_programs_may(address: str) -> None:
    before = is_paused(address)
    with page_of(address) as page:
        sockets: list[str] = []
        page.on("websocket", lambda opened: sockets.append(opened.url))
        page.goto(f"{address}/locations", wait_until="domcontentloaded")
        page.wait_for_selector("text=vesper", timeout=60_000)
        graphql(page, f"mutation{{setAutoMaterializePaused(paused:{str(not before).lower()})}}")
    assert is_paused(address) is not before
    assert any(url.endswith("/graphql") for url in sockets), "subscriptions work"
