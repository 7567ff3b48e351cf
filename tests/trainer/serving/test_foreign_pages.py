"""Servers of checkpoints: no page of elsewhere pauses them, changes their weights or has them answer."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from trainer.modeling.checkpoint import Checkpoint
from trainer.serving.rollout_server import RolloutServer
from trainer.serving.serve import serving

pytestmark = pytest.mark.real_parts

JSON = "application/json"
CHANGES = ("/pause?mode=wait", "/resume", "/update_weight_version", "/collective_rpc", "/start_weight_update")
CHAT = json.dumps({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]})


@pytest.fixture
def rollouts(model: Any, processor: Any, tmp_path: Path) -> Iterator[tuple[RolloutServer, str]]:
    made = RolloutServer(Checkpoint(model, processor, {"stage": "tiny"}), name="tiny", weights_root=tmp_path)
    with serving(made) as (url, _):
        yield made, url.removesuffix("/v1")


def ask(url: str, path: str, body: str | None = "{}", method: str = "POST", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


@pytest.mark.parametrize("path", [*CHANGES, "/inference/v1/generate", "/v1/chat/completions"])
def test_what_a_page_can_send_is_refused(rollouts: tuple[RolloutServer, str], path: str) -> None:
    server, url = rollouts
    label = server.weights.label
    cases: list[tuple[int, dict[str, str]]] = [
        (403, {"Content_Type": JSON, "Origin": "http://evil.example"}),
        (403, {"Content_Type": JSON, "Origin": "null"}),
        (403, {"Content_Type": JSON, "Sec_Fetch_Site": "cross-site"}),
        (403, {"Content_Type": JSON, "Host": "evil.example"}),
        (403, {"Origin": "http://evil.example"}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": "text/plain; application/json"}),
        (415, {"Content_Type": "application/x-www-form-urlencoded"}),
    ]
    for status, headers in cases:
        found, told = ask(url, path, CHAT, **headers)
        assert found == status and told["error"]["code"], (headers, found, told)
    assert (server.weights.label, server._paused) == (label, False)


def test_no_page_reads_what_is_served(rollouts: tuple[RolloutServer, str]) -> None:
    _, url = rollouts
    for path in ("/v1/models", "/weight_info", "/health"):
        assert ask(url, path, None, "GET")[0] == 200
        assert ask(url, path, None, "GET", Host="evil.example")[0] == 403
        assert ask(url, path, None, "GET", Origin="http://evil.example")[0] == 403


def test_programs_pause_and_ask_as_before(rollouts: tuple[RolloutServer, str]) -> None:
    server, url = rollouts
    assert ask(url, "/pause?mode=wait", None)[0] == 200 and server._paused
    assert ask(url, "/resume", None)[0] == 200 and not server._paused
    status, told = ask(url, "/v1/chat/completions", CHAT, Content_Type=f"{JSON}; charset=utf-8")
    assert status == 200 and told["choices"]


def test_a_key_is_asked_for_by_all_that_changes(model: Any, processor: Any, tmp_path: Path) -> None:
    made = RolloutServer(Checkpoint(model, processor, {"stage": "tiny"}), name="tiny", key="secret")
    with serving(made) as (url, _):
        for path in CHANGES:
            assert ask(url.removesuffix("/v1"), path, Content_Type=JSON)[0] == 401
        assert not made._paused
