"""Verdicts: rules, then votes; the policy's claim and infrastructure failures count for nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executing import FaultyWorld, PathPolicy, fsm_contracts, path_policies, pool

from generators.execution.execute import execute
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.annotators import JudgeAnnotator, Outcome, OutcomeVote, TreeEvidence, WorldRule
from generators.generation.verify import Verifier, VerifyConfig, decide
from generators.tasks.trajectory import ExecutedTrajectory
from generators.worlds.fsm.evaluate import holds
from pipelines.store import Store
from quality.judges.registry import JudgeConfig, build_judge
from schemas.action_types import CallUser, Click, Finished, LongPress


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def right(store: Store, tmp_path_factory: pytest.TempPathFactory) -> list[ExecutedTrajectory]:
    with Journal(tmp_path_factory.mktemp("right")) as journal:
        return run_all(fsm_contracts()[-5:], pool(), path_policies(), journal, store=store)


@pytest.fixture(scope="module")
def wrong(store: Store, tmp_path_factory: pytest.TempPathFactory) -> list[ExecutedTrajectory]:
    """Each stops one action early and says that it has finished."""

    class Early(PathPolicy):
        def __init__(self) -> None:
            super().__init__()
            self._paths = {goal: (*path[:-2], Finished()) for goal, path in self._paths.items()}

    with Journal(tmp_path_factory.mktemp("wrong")) as journal:
        return [execute(contract, FaultyWorld(), Early(), 0, journal, store) for contract in fsm_contracts()[-5:]]


def test_what_the_world_confirms_is_verified(
    store: Store, right: list[ExecutedTrajectory], wrong: list[ExecutedTrajectory]
) -> None:
    verifier = Verifier([WorldRule(), JudgeAnnotator(build_judge(JudgeConfig()), store), TreeEvidence(store)])
    for done in right:
        assert holds(done.end_state, done.contract.evaluator)
        verdict = verifier.verify(done)
        assert len(verdict.votes) == 3
        assert verdict.verified == (verdict.outcome == "completed") == (verdict.failure_kind is None), verdict
    verified = [verifier.verify(done).verified for done in right]
    assert sum(verified) >= 0.8 * len(right)
    for done in wrong:
        verdict = verifier.verify(done)
        assert not verdict.verified and verdict.outcome == "failed" and verdict.failure_kind == "task"
        assert verdict.reason.startswith(("world: ", "rules/short: ", "rules/unchanged: ", "votes: "))


def test_a_hidden_world_has_no_word(
    store: Store, right: list[ExecutedTrajectory], wrong: list[ExecutedTrajectory]
) -> None:
    hidden = VerifyConfig(world="hidden")
    for done in (right[0], wrong[0]):
        plain = Verifier([WorldRule(), TreeEvidence(store)], hidden).verify(done)
        assert [vote.annotator for vote in plain.votes] == ["tree"]
        assert plain == Verifier([TreeEvidence(store)], hidden).verify(done)


def test_what_the_goal_names_must_be_met(store: Store, right: list[ExecutedTrajectory]) -> None:
    done = next(one for one in right if '"A new idea"' in one.contract.instruction)
    tree = TreeEvidence(store)
    assert (tree.vote(done).outcome, tree.vote(done).confidence) == ("completed", 0.9)

    def voted(goal: str) -> Outcome | None:
        return tree.vote(replace(done, contract=replace(done.contract, instruction=goal))).outcome

    assert voted('Open a thread called "Zebra lamps"') == "failed"
    assert voted('Open a thread called "A new idea" under "Zebra lamps"') == "partial"
    assert voted("Using the Common Room website, open a thread") is None  # its name is on every screen
    blind = replace(done, turns=tuple(replace(turn, elements=()) for turn in done.turns))
    assert tree.vote(blind).outcome is None


def test_rules_come_first_and_name_themselves(right: list[ExecutedTrajectory]) -> None:
    done = max(right, key=lambda one: len(one.turns))
    blind = Verifier([WorldRule()])

    def reason(**changed: object) -> str:
        verdict = blind.verify(replace(done, **changed))  # type: ignore[arg-type]
        assert not verdict.verified
        return verdict.reason.partition(":")[0]

    last = done.turns[-1]
    refused = replace(last, action=LongPress((1, 1)), error="no such action")
    click = replace(last, action=Click((1, 1)))
    same = tuple(replace(turn, screenshot_sha256="0") for turn in done.turns)
    assert blind.verify(done).verified
    assert reason(turns=done.turns[-2:]) == "rules/short"
    assert reason(turns=(*done.turns[:-1], refused, refused, refused, last)) == "rules/invalid"
    assert reason(turns=(*done.turns[:-1], click, click, click, last)) == "rules/loop"
    assert reason(turns=same, end=same[0]) in ("rules/unchanged", "rules/loop")
    assert reason(ended="steps", failure="too many") == "rules/steps"
    assert reason(ended="failed", failure_kind="infrastructure", failure="gone") == "infrastructure"
    lost = blind.verify(replace(done, ended="failed", failure_kind="infrastructure"))
    assert lost.outcome is None and lost.votes == () and not lost.decided
    untold = blind.verify(replace(done, end_state={}))
    assert (untold.verified, untold.outcome, untold.failure_kind) == (False, None, None)
    assert "the device tells no state" in untold.reason


def test_a_claim_that_it_cant_be_done_counts_only_if_the_world_says_so(right: list[ExecutedTrajectory]) -> None:
    done = right[0]
    says = replace(done.turns[-1], action=CallUser("This can't be done."))
    claims = replace(done, turns=(*done.turns[:-2], says), ended="asked", end_state={"page": "", "variables": {}})
    assert Verifier([WorldRule()]).verify(claims).outcome == "failed"


def test_how_votes_add_up() -> None:
    def says(*given: tuple[str, Outcome | None, float], config: VerifyConfig | None = None) -> tuple[object, bool]:
        votes = [OutcomeVote(name, outcome, "", confidence) for name, outcome, confidence in given]
        return decide(votes, config or VerifyConfig())[:2]

    def world(outcome: Outcome | None) -> tuple[str, Outcome | None, float]:
        return "world", outcome, 1.0

    no: tuple[str, Outcome | None, float] = ("a", "failed", 0.9)
    weak: tuple[str, Outcome | None, float] = ("b", "failed", 0.2)
    yes: tuple[str, Outcome | None, float] = ("c", "completed", 0.9)
    assert says(world("completed")) == ("completed", True)
    assert says(world("infeasible")) == ("infeasible", True)
    assert says(world("failed"), yes) == ("failed", False)
    assert says(world("completed"), no) == ("failed", False)
    assert says(world("completed"), weak) == ("completed", True)
    assert says(world("completed"), no, yes) == ("completed", True)
    assert says(world(None), yes) == ("completed", True)
    assert says(no, yes) == ("failed", False)
    assert says(("a", None, 0.0)) == (None, False)
    counts = VerifyConfig(world="counts", least_votes=2)
    assert says(world("failed"), yes, ("d", "completed", 0.9), config=counts) == ("completed", True)
    assert says(yes, config=counts) == (None, False)


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="must, counts or hidden"):
        VerifyConfig(world="maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="each annotator once"):
        Verifier([WorldRule(), WorldRule()])
