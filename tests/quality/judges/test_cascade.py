"""What the cascade asks a model about and what not, when it asks twice, and what it makes of two opinions."""

from __future__ import annotations

from pathlib import Path

import pytest

from quality.evidence import episode as evidence_episode
from quality.evidence import samples as evidence_samples
from quality.evidence import steps as evidence
from quality.evidence.steps import Finding
from quality.judges.cascade import JOINT_VETOES, VETOES, CascadeConfig, CascadeJudge, veto
from quality.judges.judge import identity
from quality.judges.rules import RulesJudge
from quality.model_client.client import ModelClient, Retry
from quality.model_client.errors import ModelError
from schemas.actions import Click, Finished, Scroll, Wait
from tests.support.scripted_judge import ScriptedJudge

ON_SETTINGS, ON_SEARCH = Click((250, 195)), Click((750, 195))
SECONDS = "strict reviewer"
QUICK = Retry(attempts=2, base_s=0.01, cap_s=0.02, timeout_s=5, deadline_s=10)


def cascade(server, cache=None, second=None, **config):
    other = ModelClient(server.url, second, cache, retry=QUICK) if second else None
    client = ModelClient(server.url, "m", cache, retry=QUICK)
    return CascadeJudge(RulesJudge(), client, other, CascadeConfig(**config))


@pytest.fixture
def sound(world, buttons):
    """An episode of two steps that nothing speaks against."""
    page, after = world.page(buttons), world.page(buttons, note="found")
    return world.episode((ON_SEARCH, page, "Tap Search"), (Wait(), after))


@pytest.fixture
def flipped(world, scrolled):
    """An episode whose first step scrolls against its word."""
    first, then = world.screen(scrolled(600)), world.screen(scrolled(720))
    return world.episode((Scroll(direction="up"), first), (Wait(), then), episode_id="e2")


def test_a_measured_contradiction_costs_no_call(flipped):
    with ScriptedJudge() as server:
        judge = cascade(server)
        whole, step, wait = judge.judge([flipped])
    assert step.alignment <= 3 and step.cost is None and step.reason.startswith("vetoed by rules: scroll_contradicts")
    assert "scroll_contradicts" in step.kinds
    assert (whole.score, wait.alignment) == (8, 8) and len(server.bodies) == 2
    report = judge.report
    assert (report["calls_without"], report["calls_saved"], report["vetoed"]) == (3, 1, 1)
    assert report["vetoes"] == {"scroll_contradicts": 1} and report["share_saved"] == pytest.approx(1 / 3)


def test_steps_of_a_vetoed_trace_aren_t_asked_about_and_never_kept(world, buttons):
    pages = [world.page(buttons, note=str(k)) for k in range(3)]
    late = world.episode((ON_SEARCH, pages[0]), (Finished(""), pages[1]), (ON_SETTINGS, pages[2]))
    with ScriptedJudge() as server:
        judge = cascade(server)
        whole, *steps = judge.judge([late])
    assert not server.bodies and whole.reachability <= 3 and "steps_after_finish" in whole.kinds
    assert all(step.alignment is None and step.score == whole.score for step in steps)
    assert judge.report["under_vetoed"] == 3 and judge.report["calls_saved"] == 4


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"answer": ""}, "empty_answer"),
        ({"answer": "there"}, "no_point"),
        ({"answer": "[10,900]"}, "answer_outside"),
        ({"target_boxes": [[100.0, 100.0, 101.0, 300.0]], "answer": "[100,200]"}, "thin_box"),
    ],
)
def test_samples_wrong_by_their_own_numbers_cost_no_call(world, buttons, row, kind):
    page = world.page(buttons)
    sound, broken = (
        world.grounding("Search", page, (200, 100, 340, 150)),
        world.grounding("x", page, (20, 100, 160, 150), 1),
    )
    items = world.samples(sound, {**broken, **row})
    with ScriptedJudge() as server:
        judge = cascade(server, second_near=(), settle_objections=False)
        right, wrong = judge.judge(items)
    assert len(server.bodies) == 1 and right.score == 8
    assert wrong.score <= 3 and kind in wrong.kinds and judge.report["vetoes"] == {kind: 1}


def test_doubt_and_words_are_no_veto():
    assert veto([Finding("misses_named", 3, "")]) is None and veto([Finding("blank_point", 2, "")]) is None
    assert veto([Finding("thin_box", 5, "")]) is None and veto([]) is None
    assert veto([Finding("blank_point", 2, ""), Finding("no_effect", 5, "")]) == "blank_point+no_effect"
    assert veto([Finding("blank_point", 4, ""), Finding("no_effect", 5, "")]) is None


def test_every_veto_names_a_kind_that_the_rules_know():
    modules = (evidence, evidence_episode, evidence_samples)
    code = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules)
    for kind in (*VETOES, *(kind for pair in JOINT_VETOES for kind in pair)):
        assert f'"{kind}"' in code


@pytest.mark.parametrize(("first", "asks"), [(s, s in (3, 4, 6, 7)) for s in range(11)])
def test_a_second_opinion_is_asked_near_the_cuts_only(sound, first, asks):
    with ScriptedJudge(lambda q: {q.kind: first}) as server:
        judge = cascade(server)
        verdicts = judge.judge([sound])
    assert len(server.bodies) == (6 if asks else 3) and judge.report["second_opinions"] == (3 if asks else 0)
    assert [v.score for v in verdicts] == [first] * 3


@pytest.mark.parametrize(
    ("first", "second", "score"), [(7, 7, 7), (7, 6, 6), (6, 9, 7), (4, 3, 3), (3, 8, 5), (7, 1, None), (4, 10, None)]
)
def test_two_opinions_give_their_mean_rounded_down_or_go_to_people(sound, first, second, score):
    def script(question):
        return (
            {question.kind: second if SECONDS in question.system else first} if question.kind == "alignment" else None
        )

    with ScriptedJudge(script) as server:
        judge = cascade(server)
        whole, step, _ = judge.judge([sound])
    assert step.alignment == score and whole.reachability == 8
    assert f"second opinion {second} after {first}" in step.reason
    assert step.disposition == ("review" if score is None else step.disposition)
    assert judge.report["second_abstained"] == (2 if score is None else 0)
    assert step.cost.prompt_tokens == 200


def test_an_item_whose_second_opinion_cannot_be_had_is_left_to_people(sound):
    with ScriptedJudge(lambda q: 400 if SECONDS in q.system else {q.kind: 6 if q.kind == "alignment" else 9}) as server:
        judge = cascade(server)
        whole, *steps = judge.judge([sound])
    assert whole.score == 9 and not whole.unanswered
    for step in steps:
        assert step.unanswered and step.disposition == "review" and "request was refused" in step.reason
        assert step.cost.prompt_tokens == 100


def test_a_second_model_gives_the_second_opinion_on_the_same_question(sound):
    with ScriptedJudge(lambda q: {q.kind: 7 if q.model == "m" else 9}) as server:
        judge = cascade(server, second="other")
        verdicts = judge.judge([sound])
    assert [v.score for v in verdicts] == [8, 8, 8] and judge.model == "m+other"
    by_model = [{q.text for q in server.questions if q.model == model} for model in ("m", "other")]
    assert by_model[0] == by_model[1] and len({q.system for q in server.questions}) == 2


def test_an_objection_that_the_model_contradicts_is_settled_by_three(world, buttons):
    page, after = world.page(buttons), world.page(buttons, note="x")
    miss = world.episode((ON_SETTINGS, page, "Tap the Search button"), (Wait(), after))
    objection = next(v for v in RulesJudge().judge([miss]) if "misses_named" in v.kinds).alignment

    def script(question):
        strict = SECONDS in question.system
        return {"alignment": 5 if strict else 9} if question.kind == "alignment" else None

    with ScriptedJudge(script) as server:
        step = cascade(server).judge([miss])[1]
        alone = cascade(server, settle_objections=False).judge([miss])[1]
    assert step.alignment == sorted([9, 5, objection])[1] and "rules: misses_named" in step.reason
    assert alone.alignment == 9


def test_confirmed_items_are_accepted_only_if_configured(sound):
    with ScriptedJudge() as server:
        assert cascade(server).report["accepted"] == 0
        judge = cascade(server, accept_from=2)
        step = judge.judge([sound])[1]
    assert step.alignment >= 9 and step.reason.startswith("confirmed by rules") and step.cost is None
    assert judge.report["accepted"] >= 1 and len(server.bodies) < 3


def test_a_rerun_asks_nothing_and_says_the_same(sound, flipped, tmp_path):
    with ScriptedJudge(lambda q: {q.kind: 7}) as server:
        first = cascade(server, tmp_path)
        verdicts = first.judge([sound, flipped])
        asked = len(server.bodies)
        again = cascade(server, tmp_path)
        assert [v.as_row() for v in again.judge([sound, flipped])] == [v.as_row() for v in verdicts]
        assert len(server.bodies) == asked == first.requests_sent and again.requests_sent == 0
        assert again.report == first.report


def test_a_failing_model_is_an_error_never_a_score(sound):
    with ScriptedJudge(lambda q: 500) as server, pytest.raises(ModelError):
        cascade(server).judge([sound])


def test_an_answer_left_for_another_night_is_pending(sound, flipped):
    class Capped(ModelClient):
        """Leaves what asks for a whole trace for another night."""

        def ask_all(self, requests):
            kept = [request for request in requests if "reachability" not in request.schema]
            answers = iter(super().ask_all(kept))
            return [None if "reachability" in request.schema else next(answers) for request in requests]

    with ScriptedJudge() as server:
        judge = CascadeJudge(RulesJudge(), Capped(server.url, "m", None, retry=QUICK))
        verdicts = judge.judge([sound, flipped])
    assert all(v.pending and v.score is None for v in verdicts)


def test_identity_changes_with_rubrics_models_and_settings():
    def made(second=None, **config):
        other = ModelClient("http://127.0.0.1:9/v1", second, None) if second else None
        return CascadeJudge(
            RulesJudge(), ModelClient("http://127.0.0.1:9/v1", "m", None), other, CascadeConfig(**config)
        )

    judges = [
        made(),
        made("m"),
        made("n"),
        made(apart=4),
        made(accept_from=3),
        made(second_near=(6, 7)),
        made(settle_objections=False),
    ]
    assert len({tuple(identity(judge).values()) for judge in judges}) == len(judges)


@pytest.mark.parametrize("bad", [{"second_near": (11,)}, {"apart": 0}, {"accept_from": 0}])
def test_settings_that_can_t_work_are_refused(bad):
    with pytest.raises(ValueError, match=f"cascade: {next(iter(bad))}"):
        CascadeConfig(**bad)
