"""Questions by batch: the answers of the direct form, each paid once, under the ceiling, after a kill at any point."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from batch_server import BatchServer
from model_asking import PER_ANSWER, QUICK, questions

from quality.model_client.batch_form import BatchForm
from quality.model_client.client import Ceiling, CheckedAnswer, ModelClient, Prices
from quality.model_client.errors import ModelError
from quality.model_client.questions import estimate_tokens

QUICKLY = BatchForm(poll_s=0.01, least=5)
NIGHT = "2026-01-01"


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as made:
        yield made


def fields(answers) -> list[object]:
    return [answer.fields if isinstance(answer, CheckedAnswer) else answer for answer in answers]


def test_answers_are_those_of_the_direct_form_and_a_rerun_sends_nothing(server, client_of, tmp_path):
    direct = client_of(server, tmp_path / "direct")
    expected = fields(direct.ask_all(questions(30)))
    calls = server.asked.total()
    batched = client_of(server, tmp_path / "batched", batch=BatchForm(poll_s=0.01, most_questions=12, least=5))
    assert fields(batched.ask_all(questions(30))) == expected
    assert server.asked.total() == calls and batched.requests_sent == 30
    # 12, 12 and 6.
    assert len(server.batches) == 3 and set(server.asked_in_batches.values()) == {1}
    assert (batched.spent().answers, batched.spent().usage) == (direct.spent().answers, direct.spent().usage)
    assert batched.spent().open_tokens == batched.spent().unbilled_tokens == 0
    again = client_of(server, tmp_path / "batched", batch=QUICKLY)
    assert fields(again.ask_all(questions(30))) == expected and again.requests_sent == 0


def test_bad_lines_are_asked_directly_and_undone_ones_wait_for_another_night(client_of, tmp_path):
    modes = ("prose", "500", "undone", "eleven", "right", "undone")
    with BatchServer(line_script=modes) as server:
        first = client_of(server, tmp_path, batch=QUICKLY, ceiling=Ceiling(night=NIGHT))
        answers = first.ask_all(questions(10))
        assert [answer is None for answer in answers] == [place in (2, 5) for place in range(10)]
        assert server.asked.total() == 3
        spent = first.spent()
        assert (spent.answers, spent.garbage, spent.failed) == (8, 2, 3)
        assert spent.tokens == 10 * PER_ANSWER, "garbage is paid for, what was never asked isn't"
        second = client_of(server, tmp_path, batch=QUICKLY, ceiling=Ceiling(night="2026-01-02"))
        assert None not in second.ask_all(questions(10)) and second.requests_sent == 2


def test_a_ceiling_stops_before_it_is_passed(server, client_of, tmp_path):
    prices = Prices(prompt=1.0, completion=1.0)
    [one] = questions(1)
    estimate = estimate_tokens(one.system + one.text, [], 400)
    ceiling = Ceiling(money=12 * estimate / 1e6, night=NIGHT, prices=prices)
    client = client_of(server, tmp_path, batch=QUICKLY, ceiling=ceiling, prices=prices)
    answers = client.ask_all(questions(200))
    answered = sum(answer is not None for answer in answers)
    # Bills are smaller than estimates, so that later batches find room again.
    assert 12 < answered < 200 and server.asked_in_batches.total() + server.asked.total() == answered
    spent = client.spent()
    assert spent.cost(prices) == pytest.approx(answered * PER_ANSWER / 1e6) and spent.cost(prices) <= ceiling.money


@pytest.mark.parametrize("place", ["batches.create", "put_batch", "_ended", "_book_line", "_drop"])
def test_killed_anywhere_the_next_run_takes_up_the_batch(server, client_of, tmp_path, monkeypatch, place):
    class KilledError(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if place == "batches.create":
            server.lose_created = True  # created, and nobody was told its id
        elif place == "put_batch":
            patch.setattr("quality.model_client.batches.BatchAsker._known", killed)
        else:
            patch.setattr(f"quality.model_client.batches.BatchAsker.{place}", killed)
        with pytest.raises((KilledError, ModelError)):
            client_of(server, tmp_path, batch=QUICKLY).ask_all(questions(8))
    assert len(server.batches) == 1
    after = client_of(server, tmp_path, batch=QUICKLY)
    assert None not in after.ask_all(questions(8))
    assert len(server.batches) == 1 and server.asked.total() == 0, "asked and paid once"
    spent = after.spent()
    assert (spent.answers, spent.tokens, spent.open_calls) == (8, 8 * PER_ANSWER, 0)


def test_a_file_that_never_left_is_sent_again(server, client_of, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(BatchServer, "_put_file", lambda *_: (_ for _ in ()).throw(ConnectionError()))
        with pytest.raises(ModelError, match="batch: POST /files"):
            client_of(server, tmp_path, batch=QUICKLY).ask_all(questions(8))
    after = client_of(server, tmp_path, batch=QUICKLY)
    assert None not in after.ask_all(questions(8)) and after.spent().tokens == 8 * PER_ANSWER


def test_a_refused_batch_is_told_in_one_line_and_costs_nothing(client_of, tmp_path):
    with BatchServer(refuse="model m\nis unknown") as server:
        client = client_of(server, tmp_path, batch=QUICKLY)
        with pytest.raises(ModelError, match=r"the batch was refused: model m is unknown$"):
            client.ask_all(questions(8))
        assert client.spent().tokens == 0


def test_equal_questions_of_parts_side_by_side_are_asked_once_and_few_ones_directly(server, client_of, tmp_path):
    client = client_of(server, tmp_path, batch=QUICKLY)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda first: client.ask_all(questions(20, first)), [0, 10, 0, 10]))
    assert all(None not in answers for answers in found)
    assert set(server.asked_in_batches.values()) == {1} and server.asked_in_batches.total() == 30
    assert client.ask_all(questions(4, first=99)) and server.asked.total() == 4


def test_a_batch_needs_a_cache_and_sane_settings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch: expected a folder for the cache"):
        ModelClient("http://127.0.0.1:1/v1", "m", None, batch=True, retry=QUICK)
    with pytest.raises(ValueError, match="batch least: expected more than 0, found 0"):
        BatchForm(least=0)
