"""The client against a real local server: nothing is lost, nothing asked twice, nobody waits for another."""

from __future__ import annotations

import pytest
from model_asking import SCHEMA, questions

from quality.model_client.client import CheckedAnswer, Request, RequestPicture, Retry

FAULTS = ("429", "500", "503", "hang", "drop", "half", "html", "prose", "extra", "cut", "no_usage")


def test_with_faults_no_question_is_lost_and_none_answered_twice(server, client_of, tmp_path):
    server.latency_s, server.jitter_s = 0.02, 0.01
    server.faults, server.fault_share = FAULTS, 0.1
    # Shorter, and a busy machine would time out where the server had answered.
    retry = Retry(attempts=8, base_s=0.01, cap_s=0.05, timeout_s=2.5, deadline_s=60, breaker_limit=12)
    client = client_of(server, tmp_path, retry=retry, concurrency=16)
    answers = client.ask_all(questions(300))
    assert all(isinstance(answer, CheckedAnswer) and answer.fields["alignment"] == 8 for answer in answers)
    assert sum(server.modes[mode] for mode in FAULTS) > 15, server.modes
    assert set(server.delivered.values()) == {1} and len(server.delivered) == 300
    spent = client.spent()
    assert (spent.requests, spent.answers) == (server.asked.total(), 300) and spent.open_calls == 0
    assert (spent.usage.prompt_tokens, spent.usage.completion_tokens) == server.billed_tokens
    costs = [answer.cost for answer in answers]
    assert sum(cost.prompt_tokens for cost in costs) == server.billed_tokens[0]  # also of garbage, each once
    again = client_of(server, tmp_path)
    assert [a.fields for a in again.ask_all(questions(300))] == [a.fields for a in answers]
    assert again.requests_sent == 0 and again.spent() == spent and server.asked.total() == spent.requests


def test_the_server_is_kept_full(server, client_of):
    server.latency_s = 0.3
    client_of(server, concurrency=8).ask_all(questions(32))
    assert server.most_busy == 8


def test_nobody_waits_for_the_slowest(server, client_of):
    server.script = ["slow"]  # three seconds
    client_of(server, concurrency=2).ask_all(questions(30))
    delivered = list(server.delivered)  # in this order
    assert len(delivered) == 30
    assert delivered.index(list(server.asked)[0]) > 3  # with two places, at most one answer comes before one waited for


def test_a_question_that_waits_to_be_tried_again_holds_no_place(server, client_of):
    server.script = ["500"]
    slow = Retry(attempts=3, base_s=1.5, cap_s=1.5, timeout_s=2, deadline_s=20)
    client = client_of(server, retry=slow, concurrency=1)
    client.ask_all(questions(6))
    order = [body["messages"][1]["content"][0]["text"] for body in server.bodies]
    assert order[0] == "question 0" and order[1] != "question 0" and sorted(set(order)) == sorted(order[1:])


def test_equal_questions_are_asked_once(server, client_of):
    client = client_of(server, concurrency=4)
    answers = client.ask_all([*questions(3), *questions(3), *questions(3)])
    assert server.asked.total() == 3 and [a.cost.cached for a in answers] == [False] * 3 + [True] * 6


def test_a_broken_picture_isn_t_the_endpoint_s_fault_and_nobody_waits_for_ever(server, client_of):
    def broken() -> bytes:
        raise OSError("no such screen")

    bad = Request("t", "s", "text", (RequestPicture("k", broken),), SCHEMA)
    with pytest.raises(OSError, match="no such screen"):
        client_of(server, concurrency=2).ask_all([bad, bad, *questions(2)])
