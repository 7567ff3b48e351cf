"""Micro-batches of a step of RL: in order, within their bounds, and no smaller than these make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trainer.rl.micro_batches import micro_batches


@dataclass(frozen=True)
class Drawn:
    row: dict[str, Any]
    token_ids: tuple[int, ...]


def tokens_of(part: Any) -> int:
    rows = {id(one.row): one.row["length"] for one in part}
    return sum(rows.values()) + sum(len(one.token_ids) for one in part)


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30)), max_size=40),
    st.integers(1, 9),
    st.integers(0, 120),
)
def test_all_replies_in_order_within_the_bounds(
    prompts: list[int], asked: list[tuple[int, int]], most: int, tokens: int
) -> None:
    rows = [{"length": length} for length in prompts]
    replies = [Drawn(rows[row % len(rows)], (7,) * length) for row, length in asked]
    parts = micro_batches(replies, most, tokens, lambda row: int(row["length"]))
    assert [one for part in parts for one in part] == replies
    assert all(0 < len(part) <= most for part in parts)
    if tokens:
        assert all(tokens_of(part) <= tokens or len(part) == 1 for part in parts)
    for part, following in zip(parts, parts[1:], strict=False):
        fits = len(part) < most and (not tokens or tokens_of([*part, following[0]]) <= tokens)
        assert not fits, "the next reply would have had room"


def test_a_group_pays_for_its_prompt_once() -> None:
    row = {"length": 1000}
    group = [Drawn(row, (7,) * 100) for _ in range(8)]
    assert [len(part) for part in micro_batches(group, 64, 1800, lambda row: int(row["length"]))] == [8]
    apart = [Drawn(dict(row), one.token_ids) for one in group]
    assert [len(part) for part in micro_batches(apart, 64, 1800, lambda row: int(row["length"]))] == [1] * 8
