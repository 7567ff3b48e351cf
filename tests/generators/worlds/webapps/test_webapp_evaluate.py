"""The rule of web apps: exact values, everything else untouched, answers in whole words."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.worlds.webapps.evaluate import RULE, answered, failed_checks, holds, rest, value

VALUES = st.one_of(
    st.integers(0, 3), st.text(max_size=3), st.booleans(), st.none(), st.lists(st.integers(0, 3), max_size=2)
)
TABLES = st.dictionaries(
    st.sampled_from("abc"),
    st.dictionaries(st.sampled_from("123"), st.dictionaries(st.sampled_from("xy"), VALUES, min_size=1), min_size=1),
    min_size=1,
)


@given(
    TABLES, TABLES, st.tuples(st.sampled_from("abc"), st.sampled_from("123"), st.sampled_from("xy")), st.integers(1, 3)
)
def test_rest_holds_exactly_where_nothing_else_changed(
    before: dict[str, Any], after: dict[str, Any], path: tuple[str, ...], depth: int
) -> None:
    touched = path[:depth]

    def without(data: dict[str, Any]) -> dict[str, Any]:
        data = copy.deepcopy(data)
        inner = data
        for key in touched[:-1]:
            inner = inner.get(key, {})
        inner.pop(touched[-1], None)
        return data

    same = repr(_sorted(without(before))) == repr(_sorted(without(after)))
    assert holds({"rule": RULE, "checks": [rest(before, touched)]}, {"data": after}) == same


def _sorted(data: Any) -> Any:
    return {key: _sorted(data[key]) for key in sorted(data)} if isinstance(data, dict) else data


def test_values_are_exact_and_an_absent_one_is_none() -> None:
    state = {"data": {"t": {"1": {"open": 1, "when": None}}}, "view": {"ids": ["1", "2"]}}
    for path, good, bad in (
        (("data", "t", "1", "open"), 1, True),
        (("data", "t", "2"), None, {}),
        (("view", "ids"), ["1", "2"], ["2", "1"]),
        (("data", "t", "1", "open", "deeper"), None, 1),
    ):
        assert holds({"rule": RULE, "checks": [value(path, good)]}, state)
        assert failed_checks({"rule": RULE, "checks": [value(path, bad)]}, state)


def test_answers_are_whole_words_and_lists_of_everything_fail() -> None:
    rule = {"rule": RULE, "checks": [answered("12", refused=["31", "9"])]}
    assert holds(rule, {}, "There are 12.") and not holds(rule, {}, "112") and not holds(rule, {}, "12, 31 or 9")
    assert not holds(rule, {}, "")


def test_unknown_rules_and_checks_are_refused() -> None:
    for bad in ({"rule": "phone_state", "checks": [{}]}, {"rule": RULE, "checks": []}, {"rule": RULE}):
        with pytest.raises(ValueError, match="expected the rule"):
            holds(bad, {})
    with pytest.raises(ValueError, match="unknown check 'eval'"):
        holds({"rule": RULE, "checks": [{"check": "eval"}]}, {"data": {}})
