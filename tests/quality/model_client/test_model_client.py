"""The client against a real local server: faults, kill -9, limits, ceilings, prices, the breaker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import COMPLETION_TOKENS, PROMPT_TOKENS, OpenAIServer

from quality.judges.judge import JudgeError
from quality.judges.questions import Usage, estimate_tokens, read_usage
from quality.model_client.client import (
    Answer,
    Ceiling,
    CeilingReached,
    ModelClient,
    Picture,
    Prices,
    RateLimits,
    Request,
    Retry,
)
from quality.model_client.rate_limit import Level, RateLimiter, take
from quality.model_client.spending import JudgeBook, Spent

ROOT = Path(__file__).parents[3]
QUICK = Retry(attempts=6, base_s=0.01, cap_s=0.05, timeout_s=10, deadline_s=20, breaker_limit=6)
SCHEMA = {"alignment": int, "reason": str}
FAULTS = ("429", "500", "503", "hang", "drop", "half", "html", "prose", "extra", "cut", "no_usage")
PER_ANSWER = PROMPT_TOKENS + COMPLETION_TOKENS


def questions(count: int, first: int = 0) -> list[Request]:
    return [Request("t", "system", f"question {k}", (), SCHEMA) for k in range(first, first + count)]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(latency_s=0.005) as made:
        yield made


@pytest.fixture
def clients() -> Iterator[list[ModelClient]]:
    made: list[ModelClient] = []
    yield made
    for client in made:
        client.close()


@pytest.fixture
def client_of(clients: list[ModelClient]):
    def make(server: OpenAIServer | str, cache: Path | None = None, **more) -> ModelClient:
        url = server if isinstance(server, str) else server.url
        clients.append(ModelClient(url, more.pop("model", "m"), cache, **{"retry": QUICK, **more}))
        return clients[-1]

    return make


def test_with_faults_no_question_is_lost_and_none_answered_twice(server, client_of, tmp_path):
    server.latency_s, server.jitter_s = 0.02, 0.01
    server.faults, server.fault_share = FAULTS, 0.1
    # Shorter, and a busy machine would time out where the server had answered.
    retry = Retry(attempts=8, base_s=0.01, cap_s=0.05, timeout_s=2.5, deadline_s=60, breaker_limit=12)
    client = client_of(server, tmp_path, retry=retry, concurrency=16)
    answers = client.ask_all(questions(300))
    assert all(isinstance(answer, Answer) and answer.fields["alignment"] == 8 for answer in answers)
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

    bad = Request("t", "s", "text", (Picture("k", broken),), SCHEMA)
    with pytest.raises(OSError, match="no such screen"):
        client_of(server, concurrency=2).ask_all([bad, bad, *questions(2)])


@pytest.mark.parametrize("mode", ["trickle", "trickle_head", "hang"])
def test_no_server_outlives_the_deadline(server, client_of, mode):
    retry = Retry(attempts=2, base_s=0.01, cap_s=0.01, timeout_s=0.8, deadline_s=6, breaker_limit=99)
    client = client_of(server, retry=retry)
    client.ask(questions(1)[0])  # loads the SDK
    server.script = [mode] * 50
    began = time.monotonic()
    with pytest.raises(JudgeError, match="no complete answer in time"):
        client.ask(questions(1, first=1)[0])
    assert time.monotonic() - began < 6  # the server would go on for minutes
    assert server.modes[mode] == 2


def test_retry_after_is_kept_within_the_deadline(server, client_of):
    server.script = ["429:0.5"]
    client = client_of(server, concurrency=1)
    client.ask_all(questions(3))
    assert server.times[1] - server.times[0] >= 0.5  # the others keep quiet, too
    server.script = ["429:3600"]
    with pytest.raises(JudgeError, match="asks to wait 3600 s, longer than the deadline of 20 s") as error:
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
    with pytest.raises(JudgeError, match=r"is dead: 6 failures in a row, the last: .*rerun: all answers") as error:
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
    with pytest.raises(JudgeError, match="gives no valid answers"):
        client.ask_all(questions(200))
    assert client.requests_sent < 40
    spent = client.spent()
    assert spent.garbage == client.requests_sent and spent.usage.prompt_tokens == PROMPT_TOKENS * spent.garbage


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
    assert server.asked.total() == 20 == JudgeBook(tmp_path).spent("2026-01-01").requests


@pytest.mark.parametrize(
    "bad",
    [{"requests": -1}, {"tokens": 1.5}, {"night": "tonight"}, {"money": 1.0}, {"money": -1, "prices": Prices(1, 1)}],
)
def test_a_bad_ceiling_is_told(bad):
    with pytest.raises(ValueError, match="expected a"):
        Ceiling(**bad)


def test_requests_and_tokens_per_minute_hold(server, client_of, tmp_path):
    limits = RateLimits(requests_per_minute=1200, burst_s=0.1)  # 20 a second
    client_of(server, tmp_path, limits=limits, concurrency=8).ask_all(questions(30))
    assert server.times[-1] - server.times[0] >= 0.85 * (30 - 2) / 20  # the first one opens a connection
    server.times.clear()
    tokens = RateLimits(tokens_per_minute=PER_ANSWER * 60 * 30, burst_s=0.1)  # 30 answers a second
    client_of(server, limits=tokens, concurrency=2).ask_all(questions(30, first=50))
    took = server.times[-1] - server.times[0]
    assert 27 / 30 <= took < 4  # by estimates alone, four times too high, it would take as much longer


@settings(max_examples=60, deadline=None)
@given(
    per_minute=st.floats(1, 1000), burst=st.floats(0, 10),
    calls=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 200)), min_size=1, max_size=40),
)  # fmt: skip
def test_no_span_of_time_starts_more_than_its_share(per_minute, burst, calls):
    per_s, now, level, sent = per_minute / 60, 0.0, None, []
    capacity = max(per_s * burst, 1.0)
    for pause, amount in calls:
        now += pause
        level, wait = take(level, amount, now, per_s, capacity)
        sent.append((now + wait, amount))
    assert [at for at, _ in sent] == sorted(at for at, _ in sent)
    for first, (began, _) in enumerate(sent):
        for last in range(first, len(sent)):
            span = sent[last][0] - began
            total = sum(amount for _, amount in sent[first + 1 : last + 1])  # and one call more
            assert total <= per_s * span + capacity + 1e-6 * (1 + total)


def test_limits_are_shared_by_processes_that_share_the_folder(tmp_path):
    now = [1000.0]
    limits = RateLimits(requests_per_minute=60, burst_s=1)
    one, two = (RateLimiter(limits, JudgeBook(tmp_path), "e", lambda: now[0]) for _ in range(2))
    assert [one.take(1), two.take(1), one.take(1)] == [0.0, 1.0, 2.0]
    two.correct(0, 0, requests=1)  # not sent after all
    assert two.take(1) == 2.0
    assert take(Level(0.0, 50.0), 1, 40.0, 1.0, 1.0)[1] == 1.0  # a clock set back adds nothing


CHILD = """
import sys
from pathlib import Path
from quality.model_client.client import Ceiling, ModelClient, Request, Retry
schema = {"alignment": int, "reason": str}
asked = [Request("t", "system", f"question {k}", (), schema) for k in range(60)]
retry = Retry(timeout_s=30)
ModelClient(sys.argv[1], "m", Path(sys.argv[2]), retry=retry, concurrency=8,
            ceiling=Ceiling(night="2026-01-01")).ask_all(asked)
"""


def test_after_kill_9_nothing_answered_is_asked_again_or_billed_twice(server, client_of, tmp_path):
    server.hold_after = 25
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        limit = time.monotonic() + 60
        while server.busy < 8 or _answers(tmp_path) != 25:
            assert child.poll() is None and time.monotonic() < limit
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
    answered = set(server.delivered)
    in_flight = server.busy
    assert len(answered) == 25 and 8 <= in_flight <= 8
    server.hold_after = None
    client = client_of(server, tmp_path, ceiling=Ceiling(night="2026-01-01"))
    left = client.spent()
    assert (left.answers, left.open_calls, left.usage) == (25, 8, Usage(2500, 250))
    answers = client.ask_all(questions(60))
    assert all(isinstance(answer, Answer) for answer in answers)
    assert all(server.asked[question] == 1 for question in answered)
    assert server.asked.total() == 60 + in_flight and client.requests_sent == 35
    spent = client.spent()
    assert spent.usage == Usage(6000, 600) and spent.answers == 60 and spent.requests == 68
    assert spent.open_calls == 8 and spent.open_tokens > 0  # the killed calls may have been billed


def test_at_whatever_moment_it_is_killed_answers_and_bills_agree(server, client_of, tmp_path):
    server.latency_s, server.jitter_s = 0.03, 0.02
    for kills, kill_at in enumerate((9, 23, 41), start=1):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, server.url, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        limit = time.monotonic() + 60
        while server.delivered.total() < kill_at and time.monotonic() < limit:
            time.sleep(0.001)
        child.kill()
        child.wait(10)
        spent = JudgeBook(tmp_path).spent("2026-01-01")
        assert _answers(tmp_path) == spent.answers >= kill_at - 8 * kills
        assert spent.usage == Usage(PROMPT_TOKENS * spent.answers, COMPLETION_TOKENS * spent.answers)
    client = client_of(server, tmp_path, ceiling=Ceiling(night="2026-01-01"))
    left = 60 - _answers(tmp_path)
    assert None not in client.ask_all(questions(60)) and client.requests_sent == left
    lost = server.delivered.total() - 60  # answers on their way when their reader was killed
    assert 0 <= lost <= client.spent().open_calls <= 3 * 8


def _answers(folder: Path) -> int:
    return JudgeBook(folder).count_answers() if (folder / "judge.sqlite").exists() else 0


def test_a_call_is_booked_and_its_answer_kept_once(tmp_path):
    night = "2026-01-01"
    book = JudgeBook(tmp_path)
    call, lost = (book.open(Ceiling(night=night), "m", 500) for _ in range(2))
    assert book.book(call, "answers", Usage(100, 10), entry=("k", "first"))
    assert not book.book(call, "answers", Usage(100, 10), entry=("k", "second"))
    spent = JudgeBook(tmp_path).spent(night)
    assert (spent.usage, spent.answers, spent.open_calls, spent.open_tokens) == (Usage(100, 10), 1, 1, 500)
    assert JudgeBook(tmp_path).answer("k") == "first"
    assert book.book(lost, "failed", None) and book.spent(night).unbilled_tokens == 500
    assert book.spent(night, "other") == Spent() and book.spent("2026-01-02") == Spent()


def test_a_damaged_book_is_one_clear_line(server, client_of, tmp_path):
    (tmp_path / "judge.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(JudgeError, match=r"judge.sqlite: expected the judge's book .* put it aside and rerun"):
        client_of(server, tmp_path).ask_all(questions(1))


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "9"}, {"prompt_tokens": -1, "completion_tokens": 1}])
def test_a_bill_that_makes_no_sense_is_none(usage):
    assert read_usage({"usage": usage}) is None and read_usage([usage]) is None
    assert Spent(usage=Usage(1, 2), unbilled_tokens=3, open_tokens=4).tokens == 10
