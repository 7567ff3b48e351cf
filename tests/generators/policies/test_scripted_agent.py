"""The scripted agent over its three oracles, on sites without a browser and on a phone that is only told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from guided import contract_of, recorded, run_scripted, tasks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.policies.episode import run_episode
from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.policies.oracles.oracle import MOST_STROKES, Search
from generators.policies.oracles.plan_oracles import PhoneOracle, RecordedOracle, RecordedStep, phone_plan
from generators.policies.policy import PastTurn, PolicyView
from generators.policies.scripted_agent import ERRORS, ScriptedAgent
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from generators.worlds.fsm.evaluate import evaluator
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.phone.phone_tasks import make_task
from schemas.action_types import CallUser, Click, Finished, LongPress, PressBack, PressHome, Scroll, Type
from schemas.actions import parse_reply

KINDS = ("bank", "issues", "shop", "tickets", "wiki")
SITE = make_site("bank", 1)


def element(key: str, top: float = 100, role: str = "button", name: str = "") -> ScreenElement:
    return ScreenElement((100, top, 300, top + 40), role, "", name or key, key)


def test_success_falls_with_the_error_rate_and_with_length() -> None:
    contracts = tasks_of(KINDS, 12)
    assert len(contracts) == 60
    oracle, done = FsmOracle(), {}
    for rate in (0.0, 0.05, 0.2):
        runs = [run_scripted(contract, oracle, error_rate=rate) for contract in contracts]
        done[rate] = [reached for _, reached in runs]
        if rate == 0:
            assert all(run.ended == "finished" for run, _ in runs)
            assert all(len(run.steps) - 1 <= contract.expected_steps for (run, _), contract in zip(runs, contracts))
    assert all(done[0.0])
    assert 60 > sum(done[0.05]) > sum(done[0.2]) > 0
    short = [reached for reached, contract in zip(done[0.2], contracts) if contract.expected_steps <= 8]
    assert sum(short) / len(short) > (sum(done[0.2]) - sum(short)) / (60 - len(short))


def test_equal_seeds_give_equal_runs_and_others_dont() -> None:
    [contract] = [c for c in tasks_of(["shop"], 12) if c.expected_steps > 10][:1]
    first, again, other = (run_scripted(contract, None, seed, error_rate=0.3)[0] for seed in (5, 5, 6))
    assert [s.decision for s in first.steps] == [s.decision for s in again.steps]
    assert [s.decision for s in first.steps] != [s.decision for s in other.steps]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rate=st.sampled_from([0.0, 0.1, 0.5, 1.0]), number=st.integers(0, 5))
def test_every_turn_is_a_readable_reply_that_says_what_is_done(seed: int, rate: float, number: int) -> None:
    contract = tasks_of(["bank"], 6)[number]
    run, _ = run_scripted(contract, None, seed, error_rate=rate)
    for step in run.steps:
        reply = parse_reply(step.decision.reply)
        assert reply.tags_ok and reply.action == step.decision.action is not None
        assert reply.conclusion == step.decision.conclusion
        assert not step.error


@pytest.mark.parametrize("kind", ERRORS)
def test_each_kind_of_error_is_made_where_it_is_allowed_alone(kind: str) -> None:
    world = InterpretedWorld(make_site)
    for contract in tasks_of(["bank"], 8):
        agent = ScriptedAgent(FsmOracle(), contract, world.state, error_rate=0.5, errors=[kind])
        run_episode(world, agent, contract.instruction, contract.initial_state, 3, 40)
        assert {made for _, made in agent.made} <= {kind}
        if agent.made:
            break
    else:
        pytest.fail("never made")


def test_every_error_but_stopping_is_recovered_from_where_the_site_lets_it() -> None:
    contracts = [contract for contract in tasks_of(["bank", "issues"], 10) if contract.expected_steps <= 8]
    runs = [run_scripted(contract, error_rate=0.2, errors=ERRORS[:3]) for contract in contracts]
    erred = [
        reached for (run, reached), contract in zip(runs, contracts) if len(run.steps) - 1 > contract.expected_steps
    ]
    assert len(erred) >= 3 and sum(erred) / len(erred) > 0.7


def test_a_goal_out_of_reach_is_told_with_its_reason_after_a_look_around() -> None:
    number = next(v for v in SITE.variables if v.kind == "number")
    rule = evaluator([(number.name, "eq", int(number.values[1]) + 5)])
    contract = TaskSpec(
        f"Open {SITE.menu[1].text}", "web", SITE.target, {"world": "fsm", "kind": "bank", "seed": 1}, rule, 4
    )
    run, reached = run_scripted(contract)
    assert run.ended == "asked" and not reached and len(run.steps) == 4
    assert run.answer.startswith("This can't be done: no way to") and number.name in run.answer
    assert isinstance(run.steps[0].decision.action, Click)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([["nowhere", "eq", "bank/pay Rent"]], "there is no 'bank/pay Rent' on"),
        ([["page", "eq", "no such page"]], "there is no 'no such page' on"),
        ([["page", "eq", page.id] for page in SITE.pages[:2]], "two pages"),
    ],
)
def test_what_a_site_doesnt_have_cant_be_done(conditions: list[list[str]], reason: str) -> None:
    rule = {"rule": "state_conditions", "conditions": conditions}
    contract = TaskSpec("Do it", "web", SITE.target, {"kind": "bank", "seed": 1}, rule, 1)
    run, _ = run_scripted(contract)
    assert run.ended == "asked" and reason in run.answer


def test_contracts_of_other_worlds_are_refused() -> None:
    contract = tasks_of(["bank"], 1)[0]
    with pytest.raises(ValueError, match="phone_state"):
        FsmOracle().begin(replace(contract, evaluator={"rule": "phone_state", "checks": []}))
    with pytest.raises(ValueError, match="kind and seed"):
        FsmOracle().begin(replace(contract, initial_state={"world": "phone"}))
    with pytest.raises(ValueError, match="no family"):
        phone_plan(contract)


def test_a_run_taken_up_again_goes_on_as_it_would_have() -> None:
    contract = next(c for c in tasks_of(["shop"], 12) if c.expected_steps > 10)
    whole = run_scripted(contract, None, 4, error_rate=0.4)[0]
    world = InterpretedWorld(make_site)
    agent = ScriptedAgent(FsmOracle(), contract, world.state, error_rate=0.4)
    agent.begin(contract.instruction, "web", 4)
    world.reset(contract.initial_state)
    past: tuple[PastTurn, ...] = ()
    for number, step in enumerate(whole.steps):
        view = PolicyView(contract.instruction, b"", world.size_px, "web", past, world.observe().elements)
        if number < len(whole.steps) // 2:
            agent.recall(view, step.decision.action)
        else:
            assert agent.decide(view) == step.decision
        assert step.decision.action is not None
        world.act(step.decision.action)
        past = (*past, PastTurn(step.decision.action))


def test_options_out_of_range_are_refused() -> None:
    contract = tasks_of(["bank"], 1)[0]
    with pytest.raises(ValueError, match="error rate"):
        ScriptedAgent(FsmOracle(), contract, dict, error_rate=1.5)
    with pytest.raises(ValueError, match="sleepy"):
        ScriptedAgent(FsmOracle(), contract, dict, errors=["sleepy"])


def test_elements_are_found_by_role_and_name_where_keys_are_unknown() -> None:
    class Keyless(InterpretedWorld):
        def elements(self) -> tuple[ScreenElement, ...]:
            return tuple(replace(element, key="") for element in super().elements())

    for contract in tasks_of(["bank", "shop"], 6):
        world = Keyless(make_site)
        agent = ScriptedAgent(FsmOracle(), contract, world.state)
        run = run_episode(world, agent, contract.instruction, contract.initial_state, 0, 60)
        assert run.ended == "finished"
        oracle = FsmOracle()
        oracle.begin(contract)
        assert oracle.next((), world.state(), None).done


# --- recorded paths
def test_a_recorded_path_is_followed_by_roles_and_names() -> None:
    tasks = list(TaskMaker(make_site("shop", 1)).tasks(10))
    paths = {contract_of(task).task_id: recorded(task) for task in tasks}
    oracle = RecordedOracle(lambda contract: paths[contract.task_id])
    runs = [run_scripted(contract_of(task), oracle) for task in tasks]
    assert all(run.ended == "finished" for run, _ in runs)
    assert sum(reached for _, reached in runs) >= 9  # rows of one name are told apart by nearness alone
    assert any(len(run.steps) > 6 for run, _ in runs)


def test_a_recorded_path_gives_up_on_an_element_that_isnt_there() -> None:
    contract = tasks_of(["bank"], 1)[0]
    gone = [RecordedStep(Click((1, 1)), "button", "No such button"), RecordedStep(Finished())]
    run, reached = run_scripted(contract, RecordedOracle(lambda _: gone), explore_turns=0)
    assert not reached and run.ended == "asked" and "'No such button'" in run.answer
    assert all(isinstance(action, Scroll) for action in run.actions[:-1])
    answer = RecordedOracle(lambda _: [RecordedStep(CallUser("It is 7."))])
    assert run_scripted(contract, answer)[0].answer == "It is 7."


def test_a_left_out_step_isnt_done_later() -> None:
    oracle = RecordedOracle(lambda _: [RecordedStep(Click((0, 0)), "button", key) for key in "abc"])
    oracle.begin(tasks_of(["bank"], 1)[0])
    shown = [element(key, top) for key, top in (("a", 100), ("b", 300), ("c", 500))]
    first = oracle.next(shown, {}, None)
    assert (first.name, first.then) == ("a", Click((200, 320)))
    assert oracle.next(shown, {}, first.then).name == "c"
    assert oracle.next(shown, {}, Click((200, 520))).done


# --- the phone, its screens told
def test_the_phone_plan_of_a_contract_is_found_again() -> None:
    task = next(t for seed in range(9) if (t := make_task("clock.add", seed)) is not None)
    assert phone_plan(task.contract()) == task.plan


def test_the_phone_oracle_begins_again_once_then_steps_back_then_gives_up() -> None:
    plan = [("tap", "a"), ("type", "hi"), ("hold", "b"), ("answer", "7")]
    oracle = PhoneOracle(lambda _: plan)
    oracle.begin(tasks_of(["bank"], 1)[0])
    home, lost = [element("a"), element("x")], [element("x")]
    assert oracle.next(home, {}, None).action == Click((200, 120))
    assert oracle.next(home, {}, None).action == Type("hi")
    told = [oracle.next(lost, {}, None).action for _ in range(3)]
    assert told == [Scroll(direction="down"), Scroll(direction="up"), PressHome()]
    assert [oracle.next(home, {}, None).action for _ in range(2)] == [Click((200, 120)), Type("hi")]
    left = [oracle.next(lost, {}, None).action for _ in range(8)]
    assert left.count(PressBack()) == 2 and PressHome() not in left
    found = oracle.next([element("b")], {}, None)
    assert found.action == LongPress((200, 120))
    answer = oracle.next(lost, {}, None)
    assert answer.done and answer.action == CallUser("7")

    oracle.begin(tasks_of(["bank"], 1)[0])
    advice = [oracle.next(lost, {}, None) for _ in range(20)]
    assert advice[-1].gave_up and "'a'" in advice[-1].reason


def test_a_search_sees_both_ends_and_is_never_endless() -> None:
    search, same = Search(), [element("a")]
    assert [search.step("x", same) for _ in range(3)] == [Scroll(direction="down"), Scroll(direction="up"), None]
    search.forget()
    endless = [search.step("x", [element("a", top)]) for top in range(0, 900, 20)]
    assert endless[-1] is None and sum(step is not None for step in endless) == 2 * MOST_STROKES


def test_a_field_is_typed_into_only_after_a_click_that_was_meant_for_it() -> None:
    """The click before, on another page, may have hit the place where the field stands now."""
    world, typed = InterpretedWorld(make_site), 0
    for contract in tasks_of(["issues"], 12):
        oracle = FsmOracle()
        oracle.begin(contract)
        world.reset(contract.initial_state)
        last, before = None, None
        for _ in range(3 * contract.expected_steps):
            elements = world.observe().elements
            everywhere = [replace(one, box=(0, 0, 1000, 1000)) for one in elements]
            advice = oracle.next(everywhere, world.state(), last)
            if advice.done or isinstance(advice.action, Scroll):
                break
            last = advice.action
            if isinstance(last, Type):
                typed += 1
                assert before == (advice.role, advice.name)
                world.act(last)
            else:
                meant = [one for one in elements if (one.role, one.name) == (advice.role, advice.name)]
                world.act(Click((int(meant[0].centre[0]), int(meant[0].centre[1]))))
            before = (advice.role, advice.name) if isinstance(last, Click) else None
    assert typed > 3
