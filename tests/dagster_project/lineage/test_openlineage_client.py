"""Events go out when a version is committed, by the official client, to a real server on the loopback or a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from goldmaker import gold

from dagster_project.lineage.openlineage_client import configured, follow
from pipelines.store import Store
from pipelines.store import store as stores

pytest.importorskip("openlineage.client", reason="openlineage-python isn't installed")


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[Any]]]:
    """A catalogue's URL, and the events that it got."""
    got: list[Any] = []

    class Catalogue(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Catalogue)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setattr(stores, "on_commit", listening := [])
    monkeypatch.setattr("dagster_project.lineage.openlineage_client.on_commit", listening)
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_commit_is_an_event_at_the_catalogue_and_a_rerun_none(
    catalogue: tuple[str, list[Any]], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, got = catalogue
    monkeypatch.setenv("OPENLINEAGE_URL", url)
    follow()
    follow()
    gold(store, count=3)
    events = {event["job"]["name"]: event for _, event in got}
    assert {path for path, _ in got} == {"/api/v1/lineage"} and len(got) == len(events) == 2
    made = events["gold/toy"]
    manifest = store.require("gold/toy")
    assert (
        made["eventType"] == "COMPLETE"
        and made["outputs"][0]["facets"]["version"]["datasetVersion"] == manifest.version
    )
    assert made["run"]["facets"]["vesper_manifest"]["dataVersion"] == manifest.data_version
    gold(store, count=3)
    assert len(got) == 2


def test_a_catalogue_that_doesn_t_answer_costs_a_warning(
    catalogue: tuple[str, list[Any]],
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # As by $OPENLINEAGE_URL, but without the client's nine seconds of pauses before each event is given up.
    once = "{total: 1, connect: 1, backoff_factor: 0}"
    (tmp_path / "openlineage.yml").write_text(f'transport: {{type: http, url: "http://127.0.0.1:9", retry: {once}}}\n')
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    caplog.set_level(
        "WARNING", logger="dagster_project.lineage.openlineage_client"
    )  # others may have hushed the root's
    follow()
    assert gold(store, count=3).require("gold/toy")
    assert "OpenLineage: gold/toy" in caplog.text


def test_the_file_transport_is_the_client_s_own(
    catalogue: tuple[str, list[Any]], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: {tmp_path}/events.ndjson, append: true}}\n"
    )
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    follow()
    gold(store, count=3)
    lines = (tmp_path / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["job"]["name"] for line in lines] == ["unified/toy", "gold/toy"]


def test_nothing_is_sent_unless_somebody_says_where() -> None:
    assert not configured({}) and configured({"OPENLINEAGE__TRANSPORT__TYPE": "console"})
