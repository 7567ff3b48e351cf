"""What the model can't answer though it answers others is an abstention: its part is written, nothing is paid twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from model_asking import answers_kept

from dagster_project.cli import main
from pipelines.store import PartSpec, Store
from quality.judges.openai_judge import OpenAIJudge
from quality.judges.verdicts import judge_source
from quality.model_client.client import Ceiling, Retry
from quality.model_client.errors import ModelError
from quality.model_client.questions import NoAnswer, VerdictCost
from quality.model_client.spending import AnswerBook
from quality.model_client.unanswered import Unanswerable, UnansweredQuestions
from quality.refinement.gold import build_gold
from quality.refinement.repairs import ItemRewriter
from quality.refinement.rewrite import OpenAIRewriter, ProofRewriter
from schemas.actions import Click, Wait
from schemas.tables import Samples, Screens, Steps
from tests.support.scripted_judge import Question, ScriptedJudge

ATTEMPTS = 3
QUICK = Retry(attempts=ATTEMPTS, base_s=0.001, cap_s=0.002, timeout_s=5, deadline_s=30, breaker_limit=6)
BAD, GARBAGE = "goal 1", {"alignment": 11}
CONTROL = "control question"
EPISODES, QUESTIONS = 3, 9
"""Three episodes of two steps in one part: a question of each step and each episode."""


@pytest.fixture
def server() -> Iterator[ScriptedJudge]:
    with ScriptedJudge() as made:
        yield made


@pytest.fixture
def store(tmp_path: Path, world: Any, buttons: Any) -> Store:
    made = Store(tmp_path)
    page, after = world.page(buttons), world.page(buttons, note="x")
    for data in world.data.values():
        made.put_screen(data)
    rows = []
    for number in range(EPISODES):
        more = {"episode_id": f"e{number}", "instruction": f"goal {number}"}
        rows.append(world.row(0, Click((750, 195)), page, step_instruction="Tap Search", **more))
        rows.append(world.row(1, Wait(), after, **more))
    spec = PartSpec("0", "d")
    with made.build("unified/made", code_version="1", parts=[spec]) as build:

        def run(out: Any) -> None:
            out.table("steps", Steps.table(rows))
            out.table("samples", Samples.schema.empty_table())
            out.table("screens", world.bank()._screens)

        build.run_part(spec, run)
        build.commit()
    return made


def bad_step(said: Any) -> Callable[[Question], Any]:
    """A server that says this whenever it is asked about the first step of the bad episode, and is fine otherwise."""

    def script(question: Question) -> Any:
        first = str(question.blocks.get("action", "")).lower().startswith("click")
        return said if first and question.blocks["goal"] == BAD else None

    return script


def judge_of(server: ScriptedJudge, store: Store, **more: Any) -> OpenAIJudge:
    return OpenAIJudge(server.url, "m", store.home / "cache" / "judge", retry=QUICK, concurrency=1, **more)


@pytest.mark.parametrize(("said", "attempts"), [(400, 1), (GARBAGE, ATTEMPTS)])
def test_one_question_without_an_answer_keeps_nothing_from_being_written(
    server: ScriptedJudge, store: Store, said: Any, attempts: int
) -> None:
    server.script = bad_step(said)
    judge = judge_of(server, store)
    made = judge_source(store, "made", judge)
    rows = {row["item_id"]: row for row in made.read("verdicts").to_pylist()}
    assert len(rows) == QUESTIONS and [name for name, row in rows.items() if row["disposition"] == "review"] == [
        "step:made/e1/0"
    ]
    bad = rows["step:made/e1/0"]
    assert (bad["score"], bad["alignment"], bad["reachability"], bad["confidence"]) == (None, None, None, 0)
    assert bad["reason"].startswith(f"no answer of the model: no valid answer in {attempts} attempts; ")
    assert made.checks_passed and made.counts["unanswered"] == 1 == made.counts["review"]
    [warned] = [check for check in made.checks if not check.passed]
    assert (warned.name, warned.found) == ("the model has answered", "1 verdicts without it")

    # every call is booked once, and no other question was needed to tell whose fault it was
    assert len(server.questions) == QUESTIONS - 1 + attempts == judge.client.requests_sent
    assert not any(CONTROL in question.text for question in server.questions)
    spent = judge.client.spent()
    assert spent.answers == QUESTIONS - 1 and spent.garbage + spent.failed == attempts
    assert spent.usage.prompt_tokens == 100 * (spent.answers + spent.garbage) and spent.unbilled_tokens == 0

    kept = {entry.path: (made.root / entry.path).read_bytes() for entry in made.files}
    # neither a rerun nor a part that is made anew asks again
    server.script, before = None, len(server.questions)
    again = judge_source(store, "made", judge_of(server, store))
    assert again.to_json() == made.to_json()
    other = Store(store.home / "other")
    (other.home / "assets").mkdir(parents=True)
    for name in ("assets/unified", "screens"):
        (other.home / name).symlink_to(store.home / name)
    anew = judge_source(other, "made", judge_of(server, store))
    assert (anew.version, anew.data_version) == (made.version, made.data_version) and len(server.questions) == before

    # people may have it asked once more: it alone, and the version before keeps its files
    mended = judge_source(store, "made", judge_of(server, store, ask_again=1))
    assert len(server.questions) == before + 1 and mended.counts["unanswered"] == 0
    assert mended.read("verdicts").column("score").null_count == 0 and all(check.passed for check in mended.checks)
    assert judge_source(store, "made", judge_of(server, store, ask_again=1)).to_json() == mended.to_json()
    assert len(server.questions) == before + 1 and mended.version != made.version
    assert {path: (made.root / path).read_bytes() for path in kept} == kept


def test_another_try_that_fails_too_is_the_last_one(server: ScriptedJudge, store: Store) -> None:
    server.script = bad_step(400)
    first = judge_source(store, "made", judge_of(server, store))
    second = judge_source(store, "made", judge_of(server, store, ask_again=1))
    assert len(server.questions) == QUESTIONS + 2 and CONTROL in server.questions[-1].text
    assert second.data_version == first.data_version and second.counts["unanswered"] == 1
    judge_source(store, "made", judge_of(server, store, ask_again=1))
    assert len(server.questions) == QUESTIONS + 2


def test_an_endpoint_that_answers_nobody_is_never_an_abstention(server: ScriptedJudge, store: Store) -> None:
    """Set up wrong, it refuses everything: nothing is kept, and once it is mended all is judged."""
    server.script = lambda question: 400
    retry = Retry(attempts=2, base_s=0.001, cap_s=0.002, timeout_s=5, deadline_s=30, breaker_limit=99)
    judge = OpenAIJudge(server.url, "m", store.home / "cache" / "judge", retry=retry)
    with pytest.raises(ModelError, match=f"{QUESTIONS} of {QUESTIONS} requests failed; .*the request was refused"):
        judge_source(store, "made", judge)
    assert [CONTROL in question.text for question in server.questions].count(True) == 1
    assert answers_kept(store.home / "cache" / "judge") == 0
    server.script = None
    assert judge_source(store, "made", judge_of(server, store)).counts["unanswered"] == 0


def test_an_ill_endpoint_that_recovers_too_late_is_no_proof(server: ScriptedJudge, world: Any, tmp_path: Path) -> None:
    """It answers, falls ill for good, and the last question is garbage: the control question tells."""
    item = world.samples(world.grounding("Search", world.page({}), (200, 100, 340, 150)))[0]
    server.script = lambda question: GARBAGE
    judge = OpenAIJudge(server.url, "m", tmp_path, retry=QUICK)
    with pytest.raises(ModelError, match="no valid answer in 3 attempts; invalid answer"):
        judge.judge([item])
    server.script = None
    [verdict] = judge.judge([item])
    assert verdict.score == 8 and not verdict.unanswered


def test_a_question_alone_is_told_from_its_endpoint_by_a_control_question(
    server: ScriptedJudge, world: Any, tmp_path: Path
) -> None:
    item = world.samples(world.grounding("Search", world.page({}), (200, 100, 340, 150)))[0]
    server.script = lambda question: 400 if CONTROL not in question.text else None
    judge = OpenAIJudge(server.url, "m", tmp_path, retry=QUICK)
    [verdict] = judge.judge([item])
    assert verdict.unanswered and verdict.score is None and verdict.disposition == "review"
    assert [question.pictures for question in server.questions] == [1, 0] and judge.client.spent().answers == 1
    later = OpenAIJudge(server.url, "m", tmp_path, retry=QUICK)
    assert later.judge([item])[0].reason == verdict.reason and len(server.questions) == 2
    assert OpenAIJudge(server.url, "other", tmp_path, retry=QUICK).judge([item])[0].unanswered
    assert len(server.questions) == 4, "another model is asked for itself"


def test_where_the_ceiling_leaves_no_room_for_the_control_question_it_waits(
    server: ScriptedJudge, world: Any, tmp_path: Path
) -> None:
    item = world.samples(world.grounding("Search", world.page({}), (200, 100, 340, 150)))[0]
    server.script = lambda question: 400 if CONTROL not in question.text else None
    capped = OpenAIJudge(server.url, "m", tmp_path, retry=QUICK, ceiling=Ceiling(requests=1, night="2026-01-01"))
    assert [verdict.pending for verdict in capped.judge([item])] == [True]
    free = OpenAIJudge(server.url, "m", tmp_path, retry=QUICK, ceiling=Ceiling(night="2026-01-02"))
    assert [verdict.unanswered for verdict in free.judge([item])] == [True]


def test_a_question_that_another_part_gave_up_isn_t_taken_for_proved(tmp_path: Path) -> None:
    """Parts judged side by side may ask the same: each has to see the proof, whoever asked for it first."""
    book, left = AnswerBook(tmp_path), NoAnswer("refused", VerdictCost())
    waiting, found = (
        UnansweredQuestions(book, 0),
        {"k": Unanswerable("refused", left), "other": ModelError("a timeout")},
    )
    waiting.hold("k", left)
    assert waiting.doubtful(found) == {"k": left}
    waiting.drop(["k"])
    waiting.prove()
    assert waiting.doubtful(found) == {"k": left} and answers_kept(tmp_path) == 0
    waiting.hold("k", left)
    waiting.prove()
    assert waiting.doubtful(found) == {} and answers_kept(tmp_path) == 1


def test_the_command_asks_again_when_it_is_told_to(
    server: ScriptedJudge, world: Any, buttons: Any, tmp_path: Path
) -> None:
    page, more = world.page(buttons), {"episode_id": "e1", "instruction": BAD}
    rows = [world.row(0, Click((750, 195)), page, **more), world.row(1, Wait(), world.page(buttons, note="x"), **more)]
    (tmp_path / "in" / "screens").mkdir(parents=True)
    for sha, data in world.data.items():
        (tmp_path / "in" / "screens" / f"{sha}.png").write_bytes(data)
    pq.write_table(Steps.table(rows), tmp_path / "in" / "steps.parquet")
    pq.write_table(Screens.table(world.rows.values()), tmp_path / "in" / "screens.parquet")
    words = [
        "judge",
        str(tmp_path / "in"),
        "--out",
        str(tmp_path / "out"),
        "--judge",
        "openai",
        "--base-url",
        server.url,
        "--model",
        "m",
    ]

    def scores() -> list[int | None]:
        assert main(words) == 0
        found: list[int | None] = pq.read_table(tmp_path / "out" / "verdicts.parquet")["score"].to_pylist()
        return found

    server.script = bad_step(400)
    assert scores() == [8, None, 8]
    server.script, before = None, len(server.questions)
    assert scores() == [8, None, 8] and len(server.questions) == before
    words += ["--ask-again", "1"]
    assert scores() == [8, 8, 8] and len(server.questions) == before + 1


def test_gold_goes_on_where_the_rewriter_has_no_answer(server: ScriptedJudge, store: Store) -> None:
    """A trace that calls for a rewrite the model refuses: it is left as it was, unrepaired, and the rest is gold."""

    def script(question: Question) -> Any:
        if "decision" in question.fields and CONTROL not in question.text:
            return 400
        return {"reachability": 5} if question.kind == "reachability" and question.blocks.get("goal") == BAD else None

    server.script = script
    cache = store.home / "cache" / "judge"
    rewriters: list[ItemRewriter] = [ProofRewriter(), OpenAIRewriter(server.url, "m", cache, retry=QUICK)]
    judge_source(store, "made", judge_of(server, store))
    made = [build_gold(store, "made", judge_of(server, store), rewriter) for rewriter in rewriters]
    assert made[1].checks_passed and made[1].counts["gold"] == made[0].counts["gold"] == 4
    assert made[1].counts["unrepaired"] == 2
    before = len(server.questions)
    assert any("decision" in question.fields for question in server.questions)
    build_gold(store, "made", judge_of(server, store), OpenAIRewriter(server.url, "m", cache, retry=QUICK))
    assert len(server.questions) == before
    server.script = None
    again = OpenAIRewriter(server.url, "m", cache, retry=QUICK, ask_again=1)
    build_gold(store, "made", judge_of(server, store, ask_again=1), again)
    assert again.client.requests_sent == 1 and again.unanswered == 0
