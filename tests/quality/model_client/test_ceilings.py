"""Prices, and a night's ceilings on requests, tokens and money, shared by models and processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from model_asking import PER_ANSWER, questions

from quality.model_client.client import Ceiling, CeilingReached, ModelClient, Prices, Retry
from quality.model_client.errors import ModelError
from quality.model_client.questions import estimate_tokens
from quality.model_client.spending import AnswerBook


def test_prices_of_known_and_unknown_tokens(server, client_of):
    client = client_of(server, prices=Prices(prompt=2.0, completion=10.0))
    [answer] = client.ask_all(questions(1))
    bill = client.bill()
    assert bill["cost"] == pytest.approx((100 * 2 + 10 * 10) / 1e6) and "note" not in bill
    assert client.prices.of(answer.cost.prompt_tokens, answer.cost.completion_tokens) == pytest.approx(bill["cost"])
    unknown = client_of(server, prices=Prices(prompt=2.0))
    unknown.ask_all(questions(1))
    assert unknown.bill()["note"] == "price of completion tokens unknown, counted as 0"
    with pytest.raises(ValueError, match="price per million prompt tokens"):
        Prices(prompt=-1)


def test_a_ceiling_on_requests_over_two_nights(server, client_of, tmp_path):
    first = client_of(server, tmp_path, ceiling=Ceiling(requests=7, night="2026-01-01"))
    answers = first.ask_all(questions(12))
    assert sum(answer is not None for answer in answers) == server.asked.total() == 7
    with pytest.raises(CeilingReached, match="2026-01-01"):
        first.ask(questions(1, first=99)[0])
    same = client_of(server, tmp_path, ceiling=Ceiling(requests=7, night="2026-01-01"))
    assert [a is None for a in same.ask_all(questions(12))] == [a is None for a in answers]
    assert server.asked.total() == 7
    other_model = client_of(server, tmp_path, model="n", ceiling=Ceiling(requests=7, night="2026-01-01"))
    assert other_model.ask_all(questions(1)) == [None]  # models share the night
    second = client_of(server, tmp_path, ceiling=Ceiling(requests=7, night="2026-01-02"))
    assert None not in second.ask_all(questions(12))
    assert server.asked.total() == 12 and set(server.asked.values()) == {1}


def test_a_ceiling_on_tokens_is_used_up_and_not_passed(server, client_of, tmp_path):
    [one] = questions(1)
    estimate = estimate_tokens(one.system + one.text, [], 400)
    ceiling = Ceiling(tokens=10 * PER_ANSWER + estimate, night="2026-01-01")
    client = client_of(server, tmp_path, ceiling=ceiling, concurrency=8)
    answers = client.ask_all(questions(40))
    # The estimate is four times the bill: bills make room again, until not even one more estimate fits.
    assert sum(answer is not None for answer in answers) in (10, 11)
    assert client.spent().tokens <= ceiling.tokens


def test_a_ceiling_on_money_counts_what_was_billed_and_what_may_be(server, client_of, tmp_path):
    [one] = questions(1)
    estimate = estimate_tokens(one.system + one.text, [], 400)
    prices = Prices(prompt=2.0, completion=10.0)
    bill, flying = prices.of(100, 10), prices.at_most(estimate)
    assert flying == pytest.approx(estimate * 10 / 1e6), "nobody knows which kind its tokens will be"
    ceiling = Ceiling(night="2026-01-01", money=5 * bill + flying, prices=prices)
    client = client_of(server, tmp_path, ceiling=ceiling, prices=prices, concurrency=8)
    answers = client.ask_all(questions(40))
    assert sum(answer is not None for answer in answers) in (5, 6)
    assert client.bill()["cost"] <= ceiling.money
    assert [a is None for a in client.ask_all(questions(40))] == [a is None for a in answers], "the rest waits"
    tomorrow = Ceiling(night="2026-01-02", money=5 * bill + flying, prices=prices)
    later = client_of(server, tmp_path, ceiling=tomorrow, prices=prices).ask_all(questions(40))
    assert sum(answer is not None for answer in later) > sum(answer is not None for answer in answers)


def test_retries_count_and_what_they_leave_unanswered_waits(server, client_of, tmp_path):
    server.script = ["500"] * 2
    client = client_of(server, tmp_path, ceiling=Ceiling(requests=2, night="2026-01-01"), concurrency=1)
    assert client.ask_all(questions(2)) == [None, None]
    assert client.spent().requests == 2


def test_a_call_that_cannot_be_booked_flies_no_more(server, client_of, tmp_path):
    client = client_of(server, tmp_path, ceiling=Ceiling(requests=1, night="2026-01-01"))
    client.spent()  # makes the book
    with contextlib.closing(sqlite3.connect(tmp_path / "judge.sqlite")) as base:
        base.execute("CREATE TRIGGER full BEFORE DELETE ON open_calls BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(ModelError, match="disk full"):
        client.ask(questions(1)[0])
    with ThreadPoolExecutor(1) as pool:
        try:
            with pytest.raises(CeilingReached):  # and doesn't wait for ever for it to land
                pool.submit(client.ask, questions(1, first=1)[0]).result(10)
        finally:
            client.stop("the test is over")


def _ask_some(url: str, cache: str, first: int) -> None:
    client = ModelClient(
        url, "m", Path(cache), retry=Retry(timeout_s=60), ceiling=Ceiling(requests=20, night="2026-01-01")
    )
    client.ask_all(questions(15, first=first))


def test_processes_share_the_ceiling(server, tmp_path):
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=_ask_some, args=(server.url, str(tmp_path), 100 * k)) for k in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
        assert process.exitcode == 0
    assert server.asked.total() == 20 == AnswerBook(tmp_path).spent("2026-01-01").requests


@pytest.mark.parametrize(
    "bad",
    [{"requests": -1}, {"tokens": 1.5}, {"night": "tonight"}, {"money": 1.0}, {"money": -1, "prices": Prices(1, 1)}],
)
def test_a_bad_ceiling_is_told(bad):
    with pytest.raises(ValueError, match="expected a"):
        Ceiling(**bad)
