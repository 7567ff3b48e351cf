"""Every member of the family of policies keeps the same contract (a checkpoint's is in `tests/trainer`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from guided import run_scripted, tasks_of
from policy_contract import DrawnSite, check_policy, run
from reply_server import CLICK, ReplyServer, text_of

from generators.generation.task_worlds.registry import open_task_world
from generators.policies import registry
from generators.policies.care_agents import TEMPERS, Temper
from generators.policies.chat_endpoint import ChatEndpoint
from generators.policies.demonstrations import DemonstrationMemory, WithDemonstrations
from generators.policies.episode import run_episode
from generators.policies.oracles.intent_oracle import IntentOracle
from generators.policies.oracles.plan_oracles import RecordedStep
from generators.policies.policy import Decision, PolicyError, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.policies.propose_and_judge import ModelJudge, ProposeAndJudge, RuleJudge
from generators.policies.step_verification import ModelChecker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.tasks.world_interface import ScreenElement
from generators.worlds.care.care_cases import cases
from generators.worlds.care.care_sites import care_site
from generators.worlds.care.care_world import CareWorld
from generators.worlds.fsm.evaluate import holds
from quality.model_client.retry import Retry
from schemas.action_types import Click, Finished, Type
from schemas.actions import Action

SHOP, BANK = tasks_of(["shop"], 3)[2], tasks_of(["bank"], 1)[0]


class Letters:
    """An embedder by counts of letters: quick, and equal texts are nearest."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = [[text.lower().count(letter) + 1e-3 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
        found = np.asarray(rows)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def trajectory(contract: TaskSpec, seed: int = 0, *actions: Action) -> ExecutedTrajectory:
    turns = tuple(
        ExecutedTurn("0" * 64, (1, 1), (), "", action, conclusion=f"step {n}") for n, action in enumerate(actions)
    )
    failed = ExecutedTurn("0" * 64, (1, 1), (), "", Click((999, 999)), error="nothing there")
    return ExecutedTrajectory(contract, "p", "d", seed, (*turns, failed), None, {}, "", "finished")


def memory(*found: ExecutedTrajectory) -> DemonstrationMemory:
    held = DemonstrationMemory(Letters())  # type: ignore[arg-type]
    for one in found:
        held.add(one)
    return held


@pytest.fixture(scope="module")
def server() -> Iterator[ReplyServer]:
    def reply(body: dict[str, Any]) -> str:  # a choice of its own by what it is shown and the seed
        number = len(text_of(body)) + body["seed"]
        return CLICK.replace("10,20", f"{number % 1000},20") if number % 5 else "no idea"

    with ReplyServer(reply, keep_bodies=False) as found:
        yield found


def members(server: ReplyServer) -> dict[str, PolicyMaker]:
    quick = {"base_url": server.url, "model": "venus"}
    shown = memory(trajectory(BANK, 0, Click((5, 5)), Type("{x}")))
    return {
        "scripted": registry.build_policy("scripted", error_rate=0.3),
        "recorded": registry.build_policy(
            "scripted", paths=lambda contract: [RecordedStep(Click((5, 5)), "link", "x")]
        ),
        "explorer": registry.build_policy("explorer", turns=4),
        "surveyor": registry.build_policy("surveyor", turns=4),
        "openai": registry.build_policy("openai", **quick, temperature=1.0),
        "openai-thinking": registry.build_policy(
            "openai", **quick, thinking=True, history="think_action", append_enter_after_type=True
        ),
        "demonstrations": registry.with_demonstrations(registry.build_policy("openai", **quick), shown),
        "proposals": registry.with_proposals(registry.build_policy("scripted", error_rate=0.5), 3),
        "proposals-openai": registry.with_proposals(registry.build_policy("openai", **quick), 3),
        "verification": registry.with_verification(registry.build_policy("scripted", error_rate=0.5), 3),
        "verification-openai": registry.with_verification(
            registry.build_policy("openai", **quick), 3, ModelChecker(ChatEndpoint(server.url, "judge"))
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "scripted",
        "recorded",
        "explorer",
        "surveyor",
        "openai",
        "openai-thinking",
        "demonstrations",
        "proposals",
        "proposals-openai",
        "verification",
        "verification-openai",
    ],
)
def test_every_policy_keeps_the_contract(name: str, server: ReplyServer) -> None:
    maker = members(server)[name]
    check_policy(maker.make, SHOP, BANK)
    assert maker.make(SHOP, DrawnSite()).name == maker.name


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_scripted_agent_of_a_temper_keeps_it_on_care_cases(temper: Temper) -> None:
    first, other = [case.contract() for case in cases(1, 1, ["web.papers"])][1:]
    check_policy(registry.build_policy(temper).make, first, other, lambda: CareWorld(DrawnSite(care_site), "web"))


def test_every_policy_of_the_registry_is_a_member_above(server: ReplyServer) -> None:
    assert set(registry.POLICIES) <= {*members(server), *TEMPERS}


# --- registry
def test_unknown_names_and_options_are_told() -> None:
    with pytest.raises(ValueError, match="found 'robot'"):
        registry.build_policy("robot")
    with pytest.raises(ValueError, match="it takes error_rate, "):
        registry.build_policy("scripted", speed=1)
    with pytest.raises(ValueError, match="base_url"):
        registry.build_policy("openai", model="x")
    with pytest.raises(ValueError, match="nothing guides"):
        registry.oracle_for(TaskSpec("x", "web", "t", {"world": "pages"}, {"rule": "other"}, 1))
    mine = {**registry.POLICIES, "mine": lambda: registry.build_policy("explorer")}
    assert registry.build_policy("mine", mine).name == "explorer"


def test_a_task_of_an_app_is_guided_by_its_plan() -> None:
    task_world = open_task_world("desktop", 3)
    contract = task_world.contract([next(task_world.ideas(task_world.targets[0], Random(1)))], Random(0))
    assert contract is not None
    oracle = registry.oracle_for(contract)
    assert isinstance(oracle, IntentOracle)
    oracle.begin(contract)
    assert oracle.next((), {}, None).action is not None
    other = replace(contract, instruction="Something else", evaluator={"rule": "files"})
    with pytest.raises(ValueError, match="nothing guides"):
        registry.oracle_for(other)


# --- demonstrations
class Seen:
    """Keeps the views that it is shown."""

    name, needs_tree = "seen", True

    def __init__(self, *actions: Action | None) -> None:
        self.views: list[PolicyView] = []
        self.actions = list(actions) or [Finished()]

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.begun = (goal, platform, seed)

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        return Decision("r", self.actions[min(len(self.views), len(self.actions)) - 1], prompt_tokens=3)


def view(goal: str = "Book a train", elements: tuple[ScreenElement, ...] = ()) -> PolicyView:
    return PolicyView(goal, b"png", (10, 10), "web", (), elements)


def test_an_empty_memory_is_the_identity() -> None:
    for held, k in ((memory(), 2), (memory(trajectory(BANK, 0, Click((1, 1)))), 0)):
        inner = Seen()
        wrapped = WithDemonstrations(inner, held, k, "t")
        wrapped.begin("Book a train", "web", 5)
        given = view(elements=(ScreenElement((0, 0, 1, 1), "b", "", "", ""),))
        assert wrapped.decide(given) == Decision("r", Finished(), prompt_tokens=3)
        assert inner.views[0] is given and wrapped.name == "seen" and inner.begun == ("Book a train", "web", 5)


def test_a_run_keeps_the_memory_it_began_with() -> None:
    held = memory()
    maker = registry.with_demonstrations(registry.build_policy("explorer"), held)
    held.add(trajectory(BANK, 0, Click((1, 1))))
    assert maker.make(SHOP, DrawnSite()).name == maker.name == "explorer"
    assert registry.with_demonstrations(registry.build_policy("explorer"), held).name == "explorer+demonstrations-2"


def test_the_nearest_demonstrations_stand_beside_the_goal() -> None:
    def task(goal: str, platform: str = "web", target: str = "rail") -> TaskSpec:
        return TaskSpec(goal, platform, target, {"world": "x"}, {"rule": "r"}, 2)

    near = trajectory(task("Book a train to {Oslo}"), 1, Click((7, 8)), Type("Oslo\n"))
    phone = trajectory(task("Book a train to {Oslo}", "mobile", "phone"), 1, Click((1, 1)))
    far = trajectory(task("zzzz qqqq", target="zoo"), 1, Click((9, 9)))
    held, inner = memory(far, phone, near), Seen()
    wrapped = WithDemonstrations(inner, held, 1, "rail")
    wrapped.begin("Book a train", "web", 5)
    wrapped.decide(view())
    shown = inner.views[0].goal
    assert shown.startswith("Book a train\n") and "1. Book a train to {Oslo}" in shown
    assert "1) Click(box=(7,8)) – step 0" in shown and "2) Type(content='Oslo ') – step 1" in shown
    assert "999" not in shown and "zzzz" not in shown and wrapped.name == "seen+demonstrations-1"
    assert [d.name for d in memory(near, far, phone).nearest("Book a train", "web", "rail", 3)] == [
        d.name for d in held.nearest("Book a train", "web", "rail", 3)
    ]
    own = held.nearest("Book a train", "web", "rail", 3, without_task=near.contract.task_id)
    assert all(one.task_id != near.contract.task_id for one in own) and own
    assert [d.goal for d in held.nearest("zzzz", "desktop", "", 1)] == ["zzzz qqqq"]


# --- propose and judge
class Picks:
    """A judge that picks by number and keeps what it was shown."""

    name, needs_tree = "picks", False

    def __init__(self, number: int) -> None:
        self.number, self.shown = number, list[Sequence[Decision]]()

    def choose(self, view: PolicyView, proposals: Sequence[Decision]) -> tuple[int, int, int]:
        assert not view.elements
        self.shown.append(proposals)
        return self.number, 10, 1


def test_one_proposal_is_the_identity() -> None:
    inner, judge = Seen(), Picks(0)
    wrapped = ProposeAndJudge([inner], judge)
    wrapped.begin("g", "web", 5)
    given = view()
    assert wrapped.decide(given) == Decision("r", Finished(), prompt_tokens=3)
    assert inner.views[0] is given and inner.begun == ("g", "web", 5) and wrapped.name == "seen" and not judge.shown
    world = DrawnSite()
    plain = registry.build_policy("scripted", error_rate=0.4)
    runs = [run(maker.make(SHOP, world), world, SHOP, 2, 20) for maker in (plain, registry.with_proposals(plain, 1))]
    assert [s.decision for s in runs[0]] == [s.decision for s in runs[1]]


def test_the_judge_is_asked_where_legal_proposals_differ() -> None:
    a, b = Click((1, 1)), Click((9, 9))
    elements = (ScreenElement((0, 0, 1, 1), "b", "", "", ""),)

    def decided(number: int, *actions: Action | None) -> tuple[Decision, Picks]:
        judge = Picks(number)
        wrapped = ProposeAndJudge([Seen(action) for action in actions], judge)
        wrapped.begin("g", "web", 0)
        return wrapped.decide(view(elements=elements)), judge

    found, judge = decided(1, a, None, b)
    assert found.action == b and len(judge.shown[0]) == 2 and found.prompt_tokens == 19
    assert decided(0, a, a, None)[0].action == a and not decided(0, a, a, None)[1].shown
    assert decided(0, None, None)[0].action is None
    with pytest.raises(ValueError, match="at least one"):
        ProposeAndJudge([])


def test_the_rule_judge_takes_the_act_of_the_majority_that_hits_something() -> None:
    elements = (
        ScreenElement((0, 0, 100, 100), "button", "", "a", "a"),
        ScreenElement((200, 0, 300, 100), "button", "", "b", "b"),
    )

    def choice(*actions: Action) -> int:
        return RuleJudge().choose(view(elements=elements), [Decision("", action) for action in actions])[0]

    assert choice(Click((250, 50)), Click((10, 10)), Click((90, 90))) == 1  # two on one element
    assert choice(Click((500, 500)), Click((500, 500)), Click((250, 50))) == 2  # two beside all elements
    assert choice(Click((250, 50)), Click((10, 10))) == 0
    assert choice(Type("x"), Click((10, 10)), Type("x")) == 0


def test_judging_by_majority_lifts_an_agent_that_errs() -> None:
    contracts = tasks_of(["bank", "wiki"], 8)
    plain = [run_scripted(contract, error_rate=0.3)[1] for contract in contracts]
    maker = registry.with_proposals(registry.build_policy("scripted", error_rate=0.3), 5)
    lifted = []
    for contract in contracts:
        world = DrawnSite()
        episode = run_episode(
            world,
            maker.make(contract, world),
            contract.instruction,
            contract.initial_state,
            0,
            2 * contract.expected_steps + 8,
        )
        lifted.append(holds(episode.end_state, contract.evaluator))
    assert sum(lifted) > sum(plain) + 2


@pytest.mark.parametrize(("says", "picked"), [("2", 1), ("I take number 2.", 1), ("neither", 0), ("9", 0), ("0", 0)])
def test_a_model_judges_by_number(says: str, picked: int, make_endpoint: Callable[[str], ChatEndpoint]) -> None:
    with ReplyServer(lambda body: says) as asked:
        judge = ModelJudge(make_endpoint(asked.url))
        proposals = [Decision("", Click((1, 1)), "first {"), Decision("", Type("x"))]
        assert judge.choose(view(), proposals) == (picked, 100, 10)
        text = text_of(asked.bodies[0])
    assert "1. Click(box=(1,1)) first {\n2. Type(content='x')" in text and "Goal: Book a train" in text
    with pytest.raises(PolicyError):
        judge.choose(view(), proposals)


@pytest.fixture
def make_endpoint() -> Iterator[Callable[[str], ChatEndpoint]]:
    made: list[ChatEndpoint] = []

    def make(url: str) -> ChatEndpoint:
        made.append(ChatEndpoint(url, "judge", retry=Retry(attempts=2, base_s=0.01)))
        return made[-1]

    yield make
    for endpoint in made:
        endpoint.close()
