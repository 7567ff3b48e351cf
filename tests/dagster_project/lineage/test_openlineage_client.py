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

from dagster_project.lineage import openlineage_client
from dagster_project.lineage.openlineage_client import configured, follow, queue_of
from pipelines.store import Store
from pipelines.store import store as stores

pytest.importorskip("openlineage.client", reason="openlineage-python isn't installed")


class Catalogue:
    """A real server on the loopback, what it got, and with which status it answers."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.status = 201
        asked = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if asked.status == 201:
                    asked.got.append((self.path, event))
                self.send_response(asked.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalogue]:
    made = Catalogue()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setattr(stores, "on_commit", listening := [])
    monkeypatch.setattr("dagster_project.lineage.openlineage_client.on_commit", listening)
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def waiting(store: Store, kind: str = "json") -> list[str]:
    """Names of the assets whose events wait, in order, once the thread has done what it could."""
    folder = store.home / "tracking" / "openlineage"
    assert queue_of(folder).wait(60)
    return [json.loads(path.read_text())["job"]["name"] for path in sorted(folder.glob(f"*.{kind}"))]


def test_a_commit_is_an_event_at_the_catalogue_and_a_rerun_none(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = catalogue.got
    monkeypatch.setenv("OPENLINEAGE_URL", catalogue.url)
    follow()
    follow()
    gold(store, count=3)
    assert waiting(store) == []
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
    assert waiting(store) == [] and len(got) == 2


def test_what_a_catalogue_missed_goes_out_once_it_is_back_and_nobody_waits_for_it(
    catalogue: Catalogue,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The client's own pauses between tries are nine seconds: here they would only make the test slow.
    once = "{total: 0, connect: 0, backoff_factor: 0}"
    config = tmp_path / "openlineage.yml"
    config.write_text(f'transport: {{type: http, url: "http://127.0.0.1:9", retry: {once}}}\n')
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    caplog.set_level("WARNING", logger=openlineage_client.__name__)  # others may have hushed the root's
    follow()
    gold(store, count=3)
    assert waiting(store) == ["unified/toy", "gold/toy"]
    assert caplog.text.count("OpenLineage: events that wait") == 1, "of two commits only one asked the dead one"
    config.write_text(f'transport: {{type: http, url: "{catalogue.url}", retry: {once}}}\n')
    gold(store, count=4)
    assert len(waiting(store)) == 4, "the pause isn't over"
    monkeypatch.setattr(openlineage_client, "PAUSE_S", 0.0)
    gold(store, count=5)
    assert waiting(store) == []
    assert [event["job"]["name"] for _, event in catalogue.got] == ["unified/toy", "gold/toy"] * 3


def test_a_hanging_catalogue_holds_no_commit_up(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending, sent = threading.Event(), threading.Event()

    class Hanging:
        def emit(self, _: object) -> None:
            sending.set()
            assert sent.wait(60)

    monkeypatch.setattr("openlineage.client.OpenLineageClient", Hanging)
    monkeypatch.setenv("OPENLINEAGE_URL", catalogue.url)
    follow()
    assert gold(store, count=3).require("gold/toy"), "committed while the client still hangs"
    assert sending.wait(60) and not queue_of(store.home / "tracking" / "openlineage").wait(0)
    sent.set()
    assert waiting(store) == []


def test_an_event_that_is_refused_is_set_aside(
    catalogue: Catalogue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue.status = 422
    monkeypatch.setenv("OPENLINEAGE_URL", catalogue.url)
    follow()
    gold(store, count=3)
    assert (waiting(store), waiting(store, "refused")) == ([], ["unified/toy", "gold/toy"])


def test_the_file_transport_is_the_client_s_own(
    catalogue: Catalogue, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: {tmp_path}/events.ndjson, append: true}}\n"
    )
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    follow()
    gold(store, count=3)
    assert waiting(store) == []
    lines = (tmp_path / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["job"]["name"] for line in lines] == ["unified/toy", "gold/toy"]


def test_nothing_is_sent_unless_somebody_says_where() -> None:
    assert not configured({}) and configured({"OPENLINEAGE__TRANSPORT__TYPE": "console"})
