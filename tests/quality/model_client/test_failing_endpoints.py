"""Servers that don't answer in time, ask to wait, are dead or talk garbage: what the client bears, and when it ends."""

from __future__ import annotations

import time

import pytest
from model_asking import questions
from openai_server import PROMPT_TOKENS

from quality.model_client.client import Retry
from quality.model_client.errors import ModelError
from quality.model_client.questions import Usage

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", ["trickle", "trickle_head", "hang"])
def test_no_server_outlives_the_deadline(server, client_of, mode):
    retry = Retry(attempts=2, base_s=0.01, cap_s=0.01, timeout_s=1.5, deadline_s=12, breaker_limit=99)
    client = client_of(server, retry=retry)
    client.ask(questions(1)[0])  # loads the SDK
    server.script = [mode] * 50
    began = time.monotonic()
    with pytest.raises(ModelError, match="no complete answer in time"):
        client.ask(questions(1, first=1)[0])
    assert time.monotonic() - began < 12  # the server would go on for minutes
    assert server.modes[mode] == 2


def test_retry_after_is_kept_within_the_deadline(server, client_of):
    server.script = ["429:0.5"]
    client = client_of(server, concurrency=1)
    client.ask_all(questions(3))
    assert server.times[1] - server.times[0] >= 0.5  # the others keep quiet, too
    server.script = ["429:3600"]
    with pytest.raises(ModelError, match="asks to wait 3600 s, longer than the deadline of 20 s") as error:
        client.ask_all(questions(40, first=10))
    assert "\n" not in str(error.value)


def test_backoff_is_full_jitter():
    retry = Retry(base_s=0.5, cap_s=4)
    for attempt, most in enumerate((0.5, 1, 2, 4, 4)):
        pauses = [retry.pause_s(attempt, None) for _ in range(300)]
        assert 0 <= min(pauses) < most * 0.1 and most * 0.9 < max(pauses) <= most
        assert min(retry.pause_s(attempt, 7.0) for _ in range(20)) >= 7


@pytest.mark.parametrize("dead", ["refused", "500", "drop", "half"])
def test_a_dead_endpoint_stops_everything_with_one_line(server, client_of, tmp_path, dead):
    url = server.url
    if dead == "refused":
        server.stop()
    server.script = [dead] * 1000
    client = client_of(url, tmp_path, concurrency=8)
    with pytest.raises(ModelError, match=r"is dead: 6 failures in a row, the last: .*rerun: all answers") as error:
        client.ask_all(questions(500))
    assert "\n" not in str(error.value) and client.requests_sent < 30
    spent = client.spent()
    assert spent.usage == Usage() and spent.answers == 0 and spent.failed == client.requests_sent
    assert (spent.unbilled_tokens > 0) == (
        dead in ("drop", "half")
    )  # only what was sent and never answered may be billed


def test_one_incident_is_one_failure_however_many_calls_it_takes_down(server, client_of):
    server.script = ["drop"] * 16
    assert len(client_of(server, concurrency=16).ask_all(questions(40))) == 40


def test_a_model_that_only_talks_garbage_is_stopped_too(server, client_of):
    server.script = ["prose"] * 10_000
    retry = Retry(attempts=2, base_s=0.001, cap_s=0.002, timeout_s=2, deadline_s=20, breaker_limit=4)
    client = client_of(server, retry=retry, concurrency=2)
    with pytest.raises(ModelError, match="gives no valid answers"):
        client.ask_all(questions(200))
    assert client.requests_sent < 40
    spent = client.spent()
    assert spent.garbage == client.requests_sent and spent.usage.prompt_tokens == PROMPT_TOKENS * spent.garbage
