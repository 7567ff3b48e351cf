"""The rules that decide tasks, by name: whether a state of the world, and the answer given, meet an evaluator.

An evaluator is plain JSON data with the name of its rule: {"rule": "phone_state", ...}. Add a rule here.
"""

from collections.abc import Callable, Mapping
from typing import Any

from generators.worlds.care.care_case import succeeded
from generators.worlds.desktop.desktop_task import failed_checks
from generators.worlds.fsm.evaluate import holds as conditions_hold
from generators.worlds.graph.graph_tasks import RULE as GRAPH_SCREEN
from generators.worlds.graph.graph_tasks import is_open
from generators.worlds.pages.page_task import holds as values_hold
from generators.worlds.phone.phone_task import evaluate
from generators.worlds.webapps.evaluate import holds as checks_hold

Evaluator = Mapping[str, Any]
State = Mapping[str, Any]


def _phone_state(evaluator: Evaluator, state: State, answer: str) -> bool:
    return evaluate(evaluator, dict(state), answer)


def _state_conditions(evaluator: Evaluator, state: State, answer: str) -> bool:
    return conditions_hold(state, evaluator)


def _page_state(evaluator: Evaluator, state: State, answer: str) -> bool:
    """{"checks": [[dotted path, value], ...]}"""
    checks = tuple((path, value) for path, value in evaluator["checks"])
    return bool(checks) and values_hold(dict(state), checks)


def _miniwob_raw_reward(evaluator: Evaluator, state: State, answer: str) -> bool:
    """{"at_least": reward}; an episode that still runs has none."""
    reward = state["reward"]
    return reward is not None and reward >= evaluator["at_least"]


def _desktop_state(evaluator: Evaluator, state: State, answer: str) -> bool:
    return not failed_checks(evaluator, state, answer)


def _webapp_state(evaluator: Evaluator, state: State, answer: str) -> bool:
    return checks_hold(evaluator, state, answer)


def _osworld(evaluator: Evaluator, state: State, answer: str) -> bool:
    """The whole score, as its task file's own evaluator gave it (`osworld.evaluation`)."""
    if state["undecided"]:
        raise ValueError(f"osworld: {state['undecided']}")
    return float(state["score"]) > 1 - 1e-9


def _care(evaluator: Evaluator, state: State, answer: str) -> bool:
    return succeeded(evaluator, state)


RULES: dict[str, Callable[[Evaluator, State, str], bool]] = {
    "phone_state": _phone_state,
    "state_conditions": _state_conditions,
    "page_state": _page_state,
    "miniwob_raw_reward": _miniwob_raw_reward,
    "desktop_state": _desktop_state,
    "webapp_state": _webapp_state,
    "care": _care,
    "osworld": _osworld,
    GRAPH_SCREEN: is_open,
}


def holds(evaluator: Evaluator, state: State, answer: str = "") -> bool:
    """Whether `World.state` and the last CallUser's text fulfil a task. Raises `ValueError` for an unknown rule, and
    for an evaluator or a state that lacks what the rule reads."""
    rule = evaluator.get("rule")
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"evaluator: unknown rule {rule!r:.60}; known are {', '.join(RULES)}")
    try:
        return RULES[rule](evaluator, state, answer)
    except (KeyError, TypeError) as error:
        raise ValueError(f"evaluator: the rule {rule} can't read this evaluator or state: {error!r:.120}") from error
