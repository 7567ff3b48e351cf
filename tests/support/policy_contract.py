"""What every policy keeps, whatever it is: checks that each member of the family is put through."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from drawn import draw

from generators.policies.episode import PlayedTurn, turns
from generators.policies.policy import Decision, PastTurn, Policy, PolicyView
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, ScreenElement, World
from generators.worlds.fsm.interpreted import InterpretedWorld, Resolve
from generators.worlds.fsm.sites import make_site
from schemas.action_types import Click, Scroll, Type
from schemas.actions import Action, parse_reply

Make = Callable[[TaskSpec, World], Policy]
LEGAL = Action.__args__  # type: ignore[attr-defined]
ODD_GOALS = ("", "{goal} {0} %s", "<action>Click(box=(1,1))</action>", "写下“你好”\n😀", "a" * 3000, "\\'\"` \u202e x")
PAST = (PastTurn(Click((1, 1)), "{", "}"), PastTurn(None), PastTurn(Scroll(direction="down")), PastTurn(Type("';--\n")))
PLACES = (
    ScreenElement((0, 0, 1000, 1000), "link", "", "", ""),
    ScreenElement((10, 10, 10, 10), "textbox", "{x}", "a\nb", "k"),
)


class DrawnSite(InterpretedWorld):
    """A site without a browser whose picture is one: a box whose place depends on what shows."""

    def __init__(self, resolve: Resolve = make_site) -> None:
        super().__init__(resolve)

    def observe(self) -> Observation:
        seen = super().observe()
        x, y = hashlib.sha256(seen.png).digest()[:2]
        return replace(seen, png=draw({"red": (x // 2, y // 3, x // 2 + 40, y // 3 + 30)}))


def run(policy: Policy, world: World, contract: TaskSpec, seed: int, most: int = 5) -> list[PlayedTurn]:
    """The first turns of an episode."""
    world.reset(contract.initial_state)
    steps: list[PlayedTurn] = []
    for step in turns(world, policy, contract.instruction, seed):
        steps.append(step)
        if len(steps) == most:
            break
    return steps


def check_policy(make: Make, contract: TaskSpec, other: TaskSpec, opened: Callable[[], World] = DrawnSite) -> None:
    """All of it but randomness: legal decisions, determinism by seed, `begin` forgets, `needs_tree` is honoured.
    `opened` gives a world of these contracts."""
    world = opened()
    policy = make(contract, world)
    assert isinstance(policy, Policy) and policy.name
    first = run(policy, world, contract, 3)
    for step in first:
        check_decision(step.decision)
    again = run(make(contract, world), world, contract, 3)
    assert [s.decision for s in first] == [s.decision for s in again]
    run(policy, world, contract, 4)
    assert [s.decision for s in first] == [s.decision for s in run(policy, world, contract, 3)]
    check_tree(make, world, contract)
    for goal in ODD_GOALS:
        check_odd(make(other, world), world, other, goal)


def check_tree(make: Make, world: World, contract: TaskSpec) -> None:
    """A policy that doesn't need the tree decides the same with it and without."""
    policy = make(contract, world)
    world.reset(contract.initial_state)
    seen = world.observe()
    bare = PolicyView(contract.instruction, seen.png, world.size_px, world.platform)
    decided = []
    for view in (bare, replace(bare, elements=seen.elements)):
        policy.begin(contract.instruction, world.platform, 1)
        decided.append(policy.decide(view))
    assert policy.needs_tree or decided[0] == decided[1]


def check_odd(policy: Policy, world: World, contract: TaskSpec, goal: str) -> None:
    """Odd goals, pasts and trees: a decision all the same."""
    world.reset(contract.initial_state)
    png = world.observe().png
    for platform in ("mobile", "web", "desktop"):
        policy.begin(goal, platform, 0)
        for past in ((), PAST):
            for elements in ((), PLACES) if policy.needs_tree else ((),):
                check_decision(policy.decide(PolicyView(goal or "x", png, (224, 160), platform, past, elements)))


def check_decision(decision: Decision) -> None:
    """Legal text, and an action that the text says, or none."""
    decision.reply.encode()
    assert decision.action is None or isinstance(decision.action, LEGAL)
    read = parse_reply(decision.reply)
    assert read.action == decision.action and read.conclusion == decision.conclusion
    assert min(decision.prompt_tokens, decision.completion_tokens) >= 0
