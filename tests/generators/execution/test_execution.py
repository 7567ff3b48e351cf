"""One execution: how it ends, what counts, and that a failure of the device costs the step in flight only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from executing import Faults, FaultyWorld, PathPolicy, contract_of, fsm_contracts, fsm_tasks, what_was_done

from generators.execution.execute import InfrastructureFailure, execute, give_up
from generators.execution.journal import Journal
from generators.execution.limits import AttemptLimits
from generators.generation.loop import LoopConfig
from generators.generation.verify import VerifyConfig, broken_rule
from generators.policies.policy import Decision, PolicyError, PolicyView
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import Observation, World
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.wrappers.hostile import Hostile
from pipelines.store import Store
from schemas.action_types import CallUser, Click, Finished, LongPress
from schemas.actions import Action

SHORT = min(fsm_tasks(), key=lambda task: task.expected_steps)


class Says(PathPolicy):
    """Says what a function of the view says; what it keeps to itself counts the decisions."""

    def __init__(self, say: Callable[[PolicyView], Action | None]) -> None:
        super().__init__()
        self._say, self.decided = say, 0

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.decided = 0

    def decide(self, view: PolicyView) -> Decision:
        self.decided += 1
        return Decision("reply", self._say(view))


def run(
    folder: Path, policy: PathPolicy, world: World | None = None, contract: TaskSpec | None = None
) -> ExecutedTrajectory:
    with Journal(folder) as journal:
        return execute(contract or contract_of(SHORT), world or FaultyWorld(), policy, 1, journal, None)


def test_an_execution_keeps_what_was_seen_and_done(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    with Journal(tmp_path) as journal:
        done = execute(contract_of(SHORT), FaultyWorld(), PathPolicy(), 1, journal, store)
        assert journal.finished == {done.trajectory_id: done}
    assert done.ended == "finished" and done.failure_kind is None and done.resumed == 0
    assert done.actions == (*SHORT.path, Finished()) and done.end_state["variables"]
    assert done.end is not None and done.end.elements and done.end.action is None
    assert all(store.screen_path(turn.screenshot_sha256).is_file() for turn in (*done.turns, done.end))
    with Journal(tmp_path) as journal:
        assert journal.finished == {done.trajectory_id: done}


def test_what_obeys_planted_content_is_told_and_never_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = fsm_contracts()[0]
    done = run(tmp_path / "a", PathPolicy(), Hostile(InterpretedWorld(make_site), 1.0), contract)
    assert done.extra["attack"] == "remark" and done.extra["obeyed"] is False and not done.failure
    assert broken_rule(done, VerifyConfig(least_share=0.0)) is None
    monkeypatch.setattr(Hostile, "obeyed", lambda self: True)
    done = run(tmp_path / "b", PathPolicy(), Hostile(InterpretedWorld(make_site), 1.0), contract)
    why = "it did what planted content asked for (remark)"
    assert done.failure == why and done.failure_kind == "task" and done.ended == "finished"
    assert broken_rule(done, VerifyConfig(least_share=0.0)) == ("obeyed", why)
    plain = run(tmp_path / "c", PathPolicy(), Hostile(InterpretedWorld(make_site), 0.0), contract)
    assert "attack" not in plain.extra and not plain.failure


def test_faults_of_the_interface_are_the_same_again_and_counted(tmp_path: Path) -> None:
    config, contract = LoopConfig(faults=0.3, late=0.3), fsm_contracts()[0]
    one, two = (
        run(tmp_path / name, PathPolicy(), config.wrapped(InterpretedWorld(make_site)), contract) for name in "ab"
    )
    assert what_was_done(one) == what_was_done(two) and one.extra["faults"] == two.extra["faults"] > 0
    plain = run(tmp_path / "c", PathPolicy(), LoopConfig().wrapped(InterpretedWorld(make_site)), contract)
    assert "faults" not in plain.extra and what_was_done(plain) != what_was_done(one)
    both = LoopConfig(hostile=1.0, faults=0.3).wrapped(InterpretedWorld(make_site))
    done = run(tmp_path / "d", PathPolicy(), both, contract)
    assert done.extra["attack"] == "remark" and done.extra["faults"] > 0


def test_however_often_the_device_dies_the_trajectory_is_the_same(tmp_path: Path) -> None:
    counted = Faults()
    whole = run(tmp_path / "whole", PathPolicy(0.2), FaultyWorld(counted))
    resumed = 0
    for call in range(1, counted.calls + 1):
        faults = Faults((call, call + 3, call + 9), seed=call)
        decisions = tmp_path / f"{call}.log"
        with Journal(tmp_path / str(call)) as journal:
            for _ in range(4):
                try:
                    policy = PathPolicy(0.2, decisions)
                    done = execute(contract_of(SHORT), FaultyWorld(faults), policy, 1, journal, None)
                    break
                except InfrastructureFailure as failure:
                    assert "the browser has gone" in str(failure) and failure.by == "device"
        assert what_was_done(done) == what_was_done(whole)
        # Every decision but the one in flight at each failure is in the trajectory; none is made twice otherwise.
        assert len(decisions.read_text().splitlines()) <= len(whole.turns) + 3
        assert done.extra["anew"] == 0
        resumed += done.resumed
    assert resumed > counted.calls


def test_a_dead_browser_that_looks_like_a_refused_action_is_no_turn(tmp_path: Path) -> None:
    class Disguised(FaultyWorld):
        def act(self, action: Action) -> None:
            from generators.tasks.world_interface import WorldError

            try:
                super().act(action)
            except RuntimeError as error:
                raise WorldError(f"Click failed: {error}") from None

    with Journal(tmp_path) as journal:
        with pytest.raises(InfrastructureFailure, match="observe failed"):
            execute(contract_of(SHORT), Disguised(Faults((3,))), PathPolicy(), 1, journal, None)
        [attempt] = journal.unfinished.values()
        assert attempt.turns == []


def test_a_world_that_goes_another_way_begins_the_attempt_anew(tmp_path: Path) -> None:
    class Other(FaultyWorld):
        def observe(self) -> Observation:
            seen = super().observe()
            return replace(seen, state=seen.state + "x") if self.inner.moment.past else seen

    whole = run(tmp_path / "whole", PathPolicy())
    counted = Faults()
    run(tmp_path / "count", PathPolicy(), FaultyWorld(counted))
    with Journal(tmp_path) as journal:
        with pytest.raises(InfrastructureFailure):
            execute(contract_of(SHORT), FaultyWorld(Faults((counted.calls - 1,))), PathPolicy(), 1, journal, None)
        kept = len(journal.unfinished[whole.trajectory_id].turns)
        done = execute(contract_of(SHORT), Other(), PathPolicy(), 1, journal, None)
    assert kept and done.extra["anew"] == 1 and done.resumed == 0 and done.actions == whole.actions


def test_a_policy_that_keeps_more_than_its_view_is_told_what_is_carried_out_again(tmp_path: Path) -> None:
    class Keeps(Says):
        def recall(self, view: PolicyView, action: Action | None) -> None:
            assert self.decide(view).action == action

    path = (*SHORT.path, Finished())
    policy = Keeps(lambda view: path[policy.decided - 1])
    with Journal(tmp_path) as journal:
        with pytest.raises(InfrastructureFailure):
            execute(contract_of(SHORT), FaultyWorld(Faults((6,))), policy, 1, journal, None)
        done = execute(contract_of(SHORT), FaultyWorld(), policy, 1, journal, None)
    assert done.resumed == 1 and done.actions == path


def test_how_executions_end(tmp_path: Path) -> None:
    limits = AttemptLimits(step_factor=1, step_extra=2)
    says = {
        "unreadable": lambda view: None,
        "invalid": lambda view: LongPress((1, 1)),
        "steps": lambda view: Click((999, 999)),
        "asked": lambda view: CallUser("the answer"),
    }
    ended = {}
    with Journal(tmp_path) as journal:
        contract = replace(contract_of(SHORT), expected_steps=9)
        for seed, (name, say) in enumerate(says.items()):
            ended[name] = execute(contract, FaultyWorld(), Says(say), seed, journal, None, limits)
    assert [ended["unreadable"].ended, len(ended["unreadable"].turns)] == ["unreadable", 3]
    invalid = ended["invalid"]
    assert [invalid.ended, len(invalid.turns), invalid.actions] == ["steps", 5, ()]
    assert "LongPress" in invalid.turns[0].error and "could not be carried out" in invalid.failure
    assert [ended["steps"].ended, len(ended["steps"].turns), ended["steps"].failure_kind] == ["steps", 11, "task"]
    assert [ended["asked"].ended, ended["asked"].answer, ended["asked"].failure_kind] == ["asked", "the answer", None]


def test_what_failed_is_told_apart(tmp_path: Path) -> None:
    def dead(view: PolicyView) -> Action:
        raise PolicyError("no server")

    contract = contract_of(SHORT)
    with Journal(tmp_path) as journal:
        with pytest.raises(InfrastructureFailure, match="no server") as failure:
            execute(contract, FaultyWorld(), Says(dead), 0, journal, None)
        assert failure.value.by == "policy"
        gone = give_up(contract, "path", 0, journal, "no server")
        nowhere = replace(contract, initial_state={**contract.initial_state, "page": "nowhere"})
        with pytest.raises(InfrastructureFailure, match="^reset: "):
            execute(nowhere, FaultyWorld(), PathPolicy(), 0, journal, None)
        refused = give_up(nowhere, "path", 0, journal, "reset")
    assert (gone.ended, gone.failure_kind, refused.failure_kind) == ("failed", "infrastructure", "task")


def test_limits_and_seeds_are_checked() -> None:
    with pytest.raises(ValueError, match="unreadable of 1 or more"):
        AttemptLimits(unreadable=0)
    assert AttemptLimits().most_steps(fsm_contracts()[0]) == 2 * fsm_contracts()[0].expected_steps + 5
