"""Dagster's UI as `make dev` starts it: no page of elsewhere drives it or reads it, and its own page works."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
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
