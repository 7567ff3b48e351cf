"""Requests and tokens per minute, by one client and by all that share a folder."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from model_asking import PER_ANSWER, questions

from quality.model_client.client import RateLimits
from quality.model_client.rate_limit import Level, RateLimiter, take
from quality.model_client.spending import AnswerBook


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
    per_minute=st.floats(1, 1000),
    burst=st.floats(0, 10),
    calls=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 200)), min_size=1, max_size=40),
)
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
    one, two = (RateLimiter(limits, AnswerBook(tmp_path), "e", lambda: now[0]) for _ in range(2))
    assert [one.take(1), two.take(1), one.take(1)] == [0.0, 1.0, 2.0]
    two.correct(0, 0, requests=1)  # not sent after all
    assert two.take(1) == 2.0
    assert take(Level(0.0, 50.0), 1, 40.0, 1.0, 1.0)[1] == 1.0  # a clock set back adds nothing
