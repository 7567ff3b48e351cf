"""The rule that decides a site's tasks: conditions on `World.state`, plain data, no code.

An evaluator is {"rule": "state_conditions", "conditions": [[path, operator, operand], ...]}; a path is dotted, e.g.
"variables.cart" or "page"; operators are those of the spec.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from generators.worlds.fsm.machine import true
from generators.worlds.fsm.spec import OPERATORS, Atom, SiteSpec

RULE = "state_conditions"


def evaluator(atoms: Sequence[Atom], page: str = "") -> dict[str, Any]:
    """Evaluator of conditions on a site's variables, and on the page where one is given."""
    conditions = [[f"variables.{name}", operator, operand] for name, operator, operand in atoms]
    return {"rule": RULE, "conditions": [*([["page", "eq", page]] if page else []), *conditions]}


def holds(state: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a state meets an evaluator. Raises `ValueError` for another rule or operator, and for no conditions."""
    conditions = rule.get("conditions")
    if rule.get("rule") != RULE or not conditions:
        raise ValueError(f"evaluator: expected the rule {RULE!r} with conditions, found {rule.get('rule')!r:.60}")
    return all(_meets(state, *condition) for condition in conditions)


def _meets(state: Mapping[str, Any], path: str, operator: str, operand: Any) -> bool:
    if operator not in OPERATORS:
        raise ValueError(f"evaluator: unknown operator {operator!r:.60}; known are {', '.join(OPERATORS)}")
    value: Any = state
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    # Comparing a missing number with a bound must not raise, and doesn't hold.
    if operator in ("ge", "le") and type(value) is not int:
        return False
    return (
        # Type first: True == 1 in Python, and "1" isn't 1.
        type(value) is type(operand) and true(value, operator, operand)
        if operator in ("eq", "ne")
        else true(value, operator, operand)
    )


def passes(site: SiteSpec) -> Callable[[str], bool]:
    """For `reverse_tasks`: paths of a site's state that pass by themselves (history, variables of one page's visit)."""
    # Page variables vanish when one leaves, so no task can ask for them.
    local = {f"variables.{v.name}" for v in site.variables if v.scope == "page"}
    return lambda path: path == "history" or path in local
