"""Questions to the index: a page of a view, the counts beside it, and what resembles an item."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.store import Store
from pipelines.training_data.mixture import DUPLICATES
from quality.browser.corpus import Loaded
from quality.browser.rows import CODED, UNITS
from quality.browser.view import PAGE_ITEMS, View, ViewError
from quality.items.drawing import Gesture, gesture_of
from quality.items.item import Row
from schemas.action_types import Click
from schemas.actions import parse

if TYPE_CHECKING:
    import duckdb

PLAIN = ("item_id", "score", "reason", "text", "answer", "drawn", "boxes", "picture", "cluster", "part")
"""Columns of a card that aren't coded."""
COLUMNS = ", ".join(("unit", *CODED, *PLAIN))
MOST_COUNTS = 40
"""Values of a column that are counted beside a page, the commonest first."""
NEAR_BITS = 6
"""Bits in which perceptual hashes of alike screens differ at most: what `quality.duplicates` calls near."""
ALIKE = 24
"""Similar items that are shown of each kind."""
COMPARED = 4000
"""Items whose words are compared with an item's: those that hold its two rarest-looking words."""
LEAST_SHARED = 0.5
"""Share of words that two texts have in common (Jaccard) from which they count as alike."""
_POINT = re.compile(r"\[(\d{1,4}),(\d{1,4})\]")
Tagged = Callable[[Sequence[str]], list[str]]
"""Tags → ids of the items that have one of them."""


def page_of(loaded: Loaded, view: View, tagged: Tagged) -> dict[str, object]:
    """`items`: the cards of the view's page, or of the last where it has fewer; `page`: which that is; `total`: how
    many items the view has; `pages`."""
    cursor = loaded.cursor()
    where, given = view.where(loaded, tagged(view.tags) if view.tags else ())
    # The row numbers first: the wide columns are then read for one page's rows alone, however deep it lies. What is
    # found is kept for the count, so that a text is looked for once.
    found = cursor.execute(
        f"WITH hits AS MATERIALIZED (SELECT rowid, score, source FROM items WHERE {where}) "
        f"SELECT rowid, (SELECT count(*) FROM hits) FROM hits ORDER BY {view.order} LIMIT {PAGE_ITEMS} OFFSET ?",
        [*given, (view.page - 1) * PAGE_ITEMS],
    ).fetchall()
    total = found[0][1] if found else 0
    if not found and view.page > 1:  # behind the last one, as a saved view is once items have left
        [(total,)] = cursor.execute(f"SELECT count(*) FROM items WHERE {where}", given).fetchall()
        return page_of(loaded, replace(view, page=max(1, -(-total // PAGE_ITEMS))), tagged)
    cards = cards_at(loaded, cursor, [number for number, _ in found])
    return {"items": cards, "total": total, "page": view.page, "pages": -(-total // PAGE_ITEMS), "version": loaded.name}


def cards_at(loaded: Loaded, cursor: duckdb.DuckDBPyConnection, numbers: Sequence[int]) -> list[Row]:
    """Cards of rows by their numbers, in this order."""
    if not numbers:
        return []
    # A join, not IN: of a list of numbers DuckDB looks only where they are.
    found = cursor.execute(
        f"SELECT items.rowid, {COLUMNS} FROM items JOIN (SELECT unnest(?::BIGINT[]) AS place) ON items.rowid = place",
        [list(numbers)],
    ).fetchall()
    cards = {row[0]: card(loaded, row[1:]) for row in found}
    # SQL returns them in any order.
    return [cards[number] for number in numbers]


def card(loaded: Loaded, row: Sequence[object]) -> Row:
    """A row of `COLUMNS` → what the page shows of it."""
    plain = dict(zip(("unit", *CODED, *PLAIN), row, strict=True))
    coded = {name: loaded.values[name][int(str(plain[name]))] for name in CODED}
    drawn, sides = plain.pop("drawn"), plain.pop("boxes") or []
    assert isinstance(sides, list)
    # Four numbers a box, flat in the table.
    boxes = [[round(side, 1) for side in sides[at : at + 4]] for at in range(0, len(sides), 4)]
    return {**plain, **coded, "unit": UNITS[int(str(plain["unit"]))], "boxes": boxes, **plain_gesture(drawn)}


def plain_gesture(drawn: object) -> dict[str, object]:
    """The text of an action, or a grounding answer → `point` and `path` in 0..1000, as far as it has any."""
    gesture = Gesture()
    if isinstance(drawn, str):
        found = _POINT.fullmatch(drawn)
        try:
            gesture = gesture_of(Click((int(found[1]), int(found[2]))) if found else parse(drawn))
        except ValueError:  # a text that is no action: there is nothing to draw
            pass
    return {"point": gesture.point, "path": gesture.path}


def counts_of(loaded: Loaded, view: View, tagged: Tagged) -> dict[str, list[tuple[str, int]]]:
    """Coded column → (value, items that the view would have with it), most first; scores likewise by number. A column's
    own filter is left out, so that one sees what else could be chosen."""
    cursor = loaded.cursor()
    ids = tagged(view.tags) if view.tags else ()
    # Their own filter left out, each needs a query of its own below.
    plain = [name for name in (*CODED, "score") if name not in view.values]
    where, given = view.where(loaded, ids)
    sets = ", ".join(f"({name})" for name in plain)
    masks = ", ".join(f"grouping({name})" for name in plain)
    # All other columns in one pass over the rows.
    rows = cursor.execute(
        f"SELECT {', '.join(plain)}, {masks}, count(*) FROM items WHERE {where} GROUP BY GROUPING SETS ({sets})", given
    ).fetchall()
    found: dict[str, list[tuple[object, int]]] = {name: [] for name in (*CODED, "score")}
    for row in rows:
        # `grouping` is 0 for the one column that a row counts; a null score is told from a column left out by it.
        at = row[len(plain) : -1].index(0)
        found[plain[at]].append((row[at], row[-1]))
    for name in view.values:
        where, given = view.where(loaded, ids, without=name)
        found[name] = cursor.execute(f"SELECT {name}, count(*) FROM items WHERE {where} GROUP BY 1", given).fetchall()
    return {name: _named(loaded, name, pairs) for name, pairs in found.items()}


def _named(loaded: Loaded, name: str, pairs: Sequence[tuple[object, int]]) -> list[tuple[str, int]]:
    if name == "score":
        return [
            (str(value), count)
            for value, count in sorted((p for p in pairs if p[0] is not None), key=lambda one: int(str(one[0])))
        ]
    named = [(loaded.values[name][int(str(code))], count) for code, count in pairs]
    return sorted(((value, count) for value, count in named if value), key=lambda one: (-one[1], one[0]))[:MOST_COUNTS]


def find(loaded: Loaded, item_id: str) -> Row:
    """The card of an item. Raises `ViewError` if the corpus has none of that id."""
    return find_all(loaded, [item_id])[0]


def find_all(loaded: Loaded, ids: Sequence[str]) -> list[Row]:
    """The cards of items, in this order. Raises `ViewError` naming the first that the corpus doesn't have."""
    # The unit first, as rows lie in its order and statistics skip the others.
    units = sorted({_unit_of(one) for one in ids})
    rows = loaded.cursor().execute(
        f"SELECT {COLUMNS} FROM items WHERE unit IN ({', '.join('?' * len(units))}) "
        "AND item_id IN (SELECT unnest(?::VARCHAR[]))",
        [*units, list(ids)],
    )
    cards = {one["item_id"]: one for one in (card(loaded, row) for row in rows.fetchall())}
    if missing := [one for one in ids if one not in cards]:
        raise ViewError(f"id: no such item in the current versions: {missing[0][:120]!r}")
    return [cards[one] for one in ids]


def _unit_of(item_id: str) -> int:
    """Where the unit of an id stands in `UNITS`: rows come in this order, so that few are looked at."""
    unit = item_id.partition(":")[0]
    return UNITS.index(unit if unit in UNITS else "record")


def every(loaded: Loaded, view: View, tagged: Tagged) -> Iterator[Row]:
    """All cards of a view in its order, read as they are asked for."""
    where, given = view.where(loaded, tagged(view.tags) if view.tags else ())
    cursor = loaded.cursor()
    cursor.execute(f"SELECT {COLUMNS} FROM items WHERE {where} ORDER BY {view.order}", given)
    # As they are read: an export may be larger than memory.
    while rows := cursor.fetchmany(1000):
        yield from (card(loaded, row) for row in rows)


# --- what is alike ----------------------------------------------------------------------------------------------------
def similar(loaded: Loaded, store: Store, item_id: str) -> dict[str, list[Row]]:
    """`screens`: items of the same unit whose screen differs by few bits; `texts`: those whose text says the same, by
    the corpus' own pairs of duplicates (embeddings), else by the words. Each card with its `likeness`."""
    return {"screens": _alike_screens(loaded, item_id), "texts": _alike_texts(loaded, store, item_id)}


def _alike_screens(loaded: Loaded, item_id: str) -> list[Row]:
    unit = UNITS.index(str(find(loaded, item_id)["unit"]))
    cursor = loaded.cursor()
    [(phash,)] = cursor.execute(
        "SELECT any_value(phash) FROM items WHERE unit = ? AND item_id = ?", [unit, item_id]
    ).fetchall()
    if phash is None:
        return []
    distance = "bit_count(xor(phash, ?::UBIGINT))"
    rows = cursor.execute(
        f"SELECT rowid, {distance} AS bits FROM items WHERE unit = ? AND item_id <> ? AND {distance} <= {NEAR_BITS} "
        f"ORDER BY bits, rowid LIMIT {ALIKE}",
        [phash, unit, item_id, phash],
    ).fetchall()
    cards = cards_at(loaded, cursor, [number for number, _ in rows])
    return [{**one, "likeness": f"{bits} of 64 bits differ"} for one, (_, bits) in zip(cards, rows, strict=True)]


def _alike_texts(loaded: Loaded, store: Store, item_id: str) -> list[Row]:
    cursor = loaded.cursor()
    mine = find(loaded, item_id)
    unit = UNITS.index(str(mine["unit"]))
    reasons = {other: f"cosine {cosine:.2f}" for other, cosine in _embedded(store, item_id)}
    near = cursor.execute(
        "SELECT rowid, item_id FROM items WHERE unit = ? AND item_id IN (SELECT unnest(?::VARCHAR[])) LIMIT ?",
        [unit, list(reasons), ALIKE],
    ).fetchall()
    found = {number: reasons[name] for number, name in near}
    words = _words(str(mine["text"]))
    # Two long words leave few rows to compare; short ones are in every text.
    telling = sorted(words, key=lambda word: (-len(word), word))[:2]
    if telling and len(found) < ALIKE:
        holds = " AND ".join(["contains(search, ?)"] * len(telling))
        rows = cursor.execute(
            f"SELECT rowid, text FROM items WHERE unit = ? AND item_id <> ? AND {holds} LIMIT {COMPARED}",
            [unit, item_id, *telling],
        ).fetchall()
        # By number where shares are equal, so that the answer is the same each time.
        shares = sorted(((_shared(words, _words(text)), number) for number, text in rows), key=lambda p: (-p[0], p[1]))
        for share, number in shares[:ALIKE]:
            if share >= LEAST_SHARED and number not in found:
                found[number] = "the same words" if share == 1 else f"{share:.0%} of the words"
    cards = cards_at(loaded, cursor, list(found)[:ALIKE])
    return [{**one, "likeness": said} for one, said in zip(cards, found.values(), strict=False)]


def _embedded(store: Store, item_id: str) -> list[tuple[str, float]]:
    """(other item, cosine) of the pairs that `hygiene/duplicates` holds, the nearest first. Equal items are paired with
    the one that stands for them all, so whatever is paired with that is near to this one, too."""
    import pyarrow.compute as pc

    manifest = store.current(DUPLICATES)
    if manifest is None or not manifest.paths("pairs"):
        return []
    pairs = manifest.read("pairs", columns=["left", "right", "similarity"])

    def of(name: str) -> dict[str, float]:
        mine = pairs.filter(pc.or_(pc.equal(pairs["left"], name), pc.equal(pairs["right"], name))).to_pylist()
        return {p["right"] if p["left"] == name else p["left"]: p["similarity"] for p in mine}

    near = of(item_id)
    # Equal ones are paired with one of them only; its neighbours are this one's.
    for owner in [other for other, value in near.items() if value == 1][:1]:
        near = of(owner) | near
    others = [(other, value) for other, value in near.items() if other != item_id]
    return sorted(others, key=lambda one: (-one[1], one[0]))[:ALIKE]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


def _shared(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left | right else 0.0
