"""A view's pages and counts are what a loop over all rows gives; what can't be read is refused in one line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from browsing import HOSTILE, browsed_store
from hypothesis import given, settings
from hypothesis import strategies as st

from quality.browser import search
from quality.browser.corpus import Corpus, Loaded
from quality.browser.rows import CODED, UNITS
from quality.browser.view import ORDERS, PAGE_ITEMS, View, ViewError, query_of

Rows = list[dict[str, Any]]
TAGGED = {"odd": 1, "third": 2}
"""Tag → it is on the items whose place in the order of ids leaves this remainder of 3."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The corpus of a small store."""
    return Corpus(browsed_store(tmp_path_factory.mktemp("browsed"))).now()


@pytest.fixture(scope="module")
def rows(loaded: Loaded) -> Rows:
    """Every row of the index as a dict, in order of unit and id."""
    cursor = loaded.cursor()
    cursor.execute(f"SELECT {search.COLUMNS}, search FROM items ORDER BY rowid")
    return [{**search.card(loaded, row[:-1]), "search": row[-1]} for row in cursor.fetchall()]


def tagged_of(rows: Rows) -> search.Tagged:
    return lambda tags: [
        row["item_id"] for place, row in enumerate(rows) for tag in tags if place % 3 == TAGGED.get(tag, -1)
    ]


def matches(view: View, row: dict[str, Any], tagged: set[str], without: str = "") -> bool:
    """The filter in plain Python."""
    score = row["score"]
    return (
        row["unit"] == view.unit
        and all(row[name] in wanted for name, wanted in view.values.items() if name != without)
        and (view.low is None or (score is not None and score >= view.low))
        and (view.high is None or (score is not None and score <= view.high))
        and (view.scored is None or view.scored == (score is not None))
        and view.words.casefold() in row["search"]
        and view.why.lower() in row["reason"].lower()
        and view.cluster in ("", row["cluster"])
        and (not view.tags or row["item_id"] in tagged)
    )


def ordered(view: View, found: Rows, rows: Rows) -> Rows:
    """The order in plain Python; `found` comes in order of ids."""
    if view.sort == "mixed":
        return sorted(found, key=lambda row: rows.index(row) * 2654435761 % 2**32)
    name, last_first = view.sort.removeprefix("-"), view.sort.startswith("-")
    if name == "id":
        return found[::-1] if last_first else found
    if name == "source":
        return sorted(found, key=lambda row: row["source"], reverse=last_first)
    scored = [row for row in found if row["score"] is not None]
    scored.sort(key=lambda row: -row["score"] if last_first else row["score"])
    return scored + [row for row in found if row["score"] is None]


VALUES = {
    "source": ["aitz", "toy", "none"],
    "platform": ["web", "mobile", ""],
    "split": ["train", "test"],
    "action": ["Click", "Type", "Finished", ""],
    "objective": ["grounding", "navigation", "vqa", ""],
    "disposition": ["keep", "rewrite", "reconstruct", "review"],
    "objection": ["box_shift", "no_effect", "off_screen", ""],
    "state": ["gold", "rejected", "duplicate", "unsafe", "unmapped"],
    "judge": ["rules", "cleaning"],
}
WORDS = ["", "open", "PAGE 3", "cart", "DROP TABLE", "<", "'", "%", "_", "click(", "ß", "no such words"]


@st.composite
def queries(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Pairs of a query string."""
    pairs = [("unit", draw(st.sampled_from(UNITS))), ("sort", draw(st.sampled_from(sorted(ORDERS))))]
    for name in draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=3)):
        pairs += [(name, value) for value in draw(st.sets(st.sampled_from(VALUES[name]), min_size=1, max_size=3))]
    for name, choices in (
        ("min", ["", "0", "4", "10"]),
        ("max", ["", "3", "7", "10"]),
        ("scored", ["", "", "yes", "no"]),
        ("q", WORDS),
        ("why", ["", "", "box", "LOOKS", "<b>", "%"]),
    ):
        pairs.append((name, draw(st.sampled_from(choices))))
    pairs += [("tag", tag) for tag in draw(st.sets(st.sampled_from([*TAGGED, "unknown"]), max_size=2))]
    return pairs


def test_a_page_behind_the_last_is_the_last(loaded: Loaded) -> None:
    last = search.page_of(loaded, View.parse([("page", "999")]), lambda tags: [])
    assert last["page"] == last["pages"] > 1 and last["items"]
    assert last == search.page_of(loaded, View.parse([("page", str(last["pages"]))]), lambda tags: [])
    none = search.page_of(loaded, View.parse([("page", "3"), ("source", "nothing")]), lambda tags: [])
    assert (none["items"], none["total"], none["page"], none["pages"]) == ([], 0, 1, 0)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(pairs=queries())
def test_pages_and_counts_equal_a_loop_over_all_rows(pairs: list[tuple[str, str]], loaded: Loaded, rows: Rows) -> None:
    view, tagged = View.parse(pairs), tagged_of(rows)
    marked = set(tagged(view.tags))
    wanted = ordered(view, [row for row in rows if matches(view, row, marked)], rows)
    shown: list[str] = []
    for number in range(1, -(-len(wanted) // PAGE_ITEMS) + 1):
        page = search.page_of(loaded, View.parse([*pairs, ("page", str(number))]), tagged)
        assert page["total"] == len(wanted)
        shown += [card["item_id"] for card in page["items"]]  # type: ignore[attr-defined]
    assert shown == [row["item_id"] for row in wanted]

    counts = search.counts_of(loaded, view, tagged)
    for name in CODED:
        beside = [row for row in rows if matches(view, row, marked, without=name)]
        assert dict(counts[name]) == Counter(row[name] for row in beside if row[name]), name
    assert dict(counts["score"]) == Counter(str(row["score"]) for row in wanted if row["score"] is not None)
    assert [card["item_id"] for card in search.every(loaded, view, tagged)] == shown


def test_the_hostile_text_is_data(loaded: Loaded) -> None:
    found = search.page_of(loaded, View.parse([("unit", "episode"), ("q", HOSTILE[:60])]), lambda tags: [])
    assert [card["text"] for card in found["items"]] == [HOSTILE]  # type: ignore[attr-defined]
    evil = View.parse([("source", "aitz') OR 1=1 --"), ("cluster", "'; DROP TABLE items; --")])
    assert search.page_of(loaded, evil, lambda tags: [])["total"] == 0
    assert search.page_of(loaded, View(), lambda tags: [])["total"] != 0


@pytest.mark.parametrize(
    "query, said",
    [
        ("unit=rows", "unit: expected one of sample, step, episode, record, found 'rows'"),
        ("min=-1", "min: expected a whole number from 0 to 10"),
        ("max=11", "max: expected a whole number from 0 to 10"),
        ("page=0", "page: expected a whole number from 1"),
        ("page=%D9%A1", "page: expected a whole number"),
        ("sort=text", "sort: expected one of score, -score"),
        ("order=1", "'order': expected one of source, platform"),
        ("q=" + "x" * 201, "q: expected at most 200 characters, found 201"),
        ("&".join(f"source=s{n}" for n in range(201)), "source: expected at most 200 values, found 201"),
    ],
)
def test_a_view_that_cant_be_read_is_refused_in_one_line(query: str, said: str) -> None:
    with pytest.raises(ViewError) as refused:
        View.parse(parse_qsl(query, keep_blank_values=True))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_link_says_a_view() -> None:
    link = query_of(unit="step", source=["aitz", "a&b"], why="")
    assert link == "unit=step&source=aitz&source=a%26b"
    view = View.parse(parse_qsl(link))
    assert view.unit == "step" and view.values == {"source": ("aitz", "a&b")}


def test_similar_items_are_near_and_say_why(loaded: Loaded, tmp_path: Path) -> None:
    store = browsed_store(tmp_path)
    one = search.page_of(loaded, View.parse([("unit", "step"), ("source", "toy")]), lambda tags: [])["items"][0]  # type: ignore[index]
    found = search.similar(loaded, store, one["item_id"])
    assert one["item_id"] not in [card["item_id"] for card in found["screens"] + found["texts"]]
    sample = search.page_of(loaded, View.parse([("objective", "grounding")]), lambda tags: [])["items"][0]  # type: ignore[index]
    alike = search.similar(loaded, store, sample["item_id"])["screens"]
    assert alike and all(card["picture"] == sample["picture"] for card in alike if card["likeness"].startswith("0 of"))
