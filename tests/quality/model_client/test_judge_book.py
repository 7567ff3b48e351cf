"""The judge's book: whatever is killed and whenever, answers and bills agree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from model_asking import answers_kept, questions
from openai_server import COMPLETION_TOKENS, PROMPT_TOKENS

from quality.model_client.client import Ceiling, CheckedAnswer
from quality.model_client.errors import ModelError
from quality.model_client.questions import Usage, read_usage
from quality.model_client.spending import AnswerBook, Spent

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

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
        while server.busy < 8 or answers_kept(tmp_path) != 25:
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
    assert all(isinstance(answer, CheckedAnswer) for answer in answers)
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
        spent = AnswerBook(tmp_path).spent("2026-01-01")
        assert answers_kept(tmp_path) == spent.answers >= kill_at - 8 * kills
        assert spent.usage == Usage(PROMPT_TOKENS * spent.answers, COMPLETION_TOKENS * spent.answers)
    client = client_of(server, tmp_path, ceiling=Ceiling(night="2026-01-01"))
    left = 60 - answers_kept(tmp_path)
    assert None not in client.ask_all(questions(60)) and client.requests_sent == left
    lost = server.delivered.total() - 60  # answers on their way when their reader was killed
    assert 0 <= lost <= client.spent().open_calls <= 3 * 8


def test_a_call_is_booked_and_its_answer_kept_once(tmp_path):
    night = "2026-01-01"
    book = AnswerBook(tmp_path)
    call, lost = (book.open(Ceiling(night=night), "m", 500) for _ in range(2))
    assert book.book(call, "answers", Usage(100, 10), entry=("k", "first"))
    assert not book.book(call, "answers", Usage(100, 10), entry=("k", "second"))
    spent = AnswerBook(tmp_path).spent(night)
    assert (spent.usage, spent.answers, spent.open_calls, spent.open_tokens) == (Usage(100, 10), 1, 1, 500)
    assert AnswerBook(tmp_path).answer("k") == "first"
    assert book.book(lost, "failed", None) and book.spent(night).unbilled_tokens == 500
    assert book.spent(night, "other") == Spent() and book.spent("2026-01-02") == Spent()


def test_a_damaged_book_is_one_clear_line(server, client_of, tmp_path):
    (tmp_path / "judge.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(ModelError, match=r"judge.sqlite: expected the judge's book .* put it aside and rerun"):
        client_of(server, tmp_path).ask_all(questions(1))


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "9"}, {"prompt_tokens": -1, "completion_tokens": 1}])
def test_a_bill_that_makes_no_sense_is_none(usage):
    assert read_usage({"usage": usage}) is None and read_usage([usage]) is None
    assert Spent(usage=Usage(1, 2), unbilled_tokens=3, open_tokens=4).tokens == 10
