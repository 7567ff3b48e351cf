"""A view of the corpus: filters, order and page, as a query string says them, and as SQL.

All of a view stands in the page's address, so that it can be sent, saved, and gone back to. Names are checked here;
SQL is put together from names of this file alone, and values go in as parameters.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY
from quality.browser.corpus import Loaded
from quality.browser.rows import CODED, UNITS
from schemas.ids import GENERATED_SOURCE

PAGE_ITEMS = 60
MOST_TEXT = 200
"""Characters of a search term."""
MOST_VALUES = 200
"""Values of one filter."""
ORDERS = {
    "score": "score ASC NULLS LAST",
    "-score": "score DESC NULLS LAST",
    "id": "",
    "-id": "rowid DESC",
    "source": "source ASC",
    "-source": "source DESC",
    "mixed": "(rowid * 2654435761) % 4294967296",
}
"""Name of an order → SQL; items that it leaves equal come in order of their id, so that pages don't shift. `mixed`
scatters neighbours (Knuth's multiplicative hash), so that the first pages are a fair look at the whole."""
TEXTS = ("q", "why", "cluster", "item")
KNOWN = (*CODED, "unit", "tag", "min", "max", "scored", "sort", "page", *TEXTS)


class ViewError(ValueError):
    """A view that can't be shown; the message says what was expected."""


@dataclass(frozen=True)
class View:
    """Filters (empty: all), order and page of the items of one unit.

    `values`: coded column → the values that it may have. `low`, `high`: the score's range, 0 to 10; `scored` False:
    only items without a score. `words`: free text in instruction and answer; `why`: in the verdict's reason.
    """

    unit: str = "sample"
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    scored: bool | None = None
    words: str = ""
    why: str = ""
    cluster: str = ""
    sort: str = "score"
    page: int = 1

    @classmethod
    def parse(cls, pairs: Iterable[tuple[str, str]]) -> "View":
        """From the pairs of a query string. Raises `ViewError` naming the one that can't be read."""
        given: dict[str, list[str]] = {}
        for name, value in pairs:
            # A misspelt filter would silently show everything.
            if name not in KNOWN:
                raise ViewError(f"{name[:40]!r}: expected one of {', '.join(KNOWN)}")
            given.setdefault(name, []).append(value)
        many = {name: tuple(dict.fromkeys(values)) for name, values in given.items()}
        if long := [name for name, values in many.items() if len(values) > MOST_VALUES]:
            raise ViewError(f"{long[0]}: expected at most {MOST_VALUES} values, found {len(many[long[0]])}")
        # Of what can be said once, the last counts.
        one = {name: values[-1] for name, values in many.items()}
        for name in TEXTS[:2]:
            if len(one.get(name, "")) > MOST_TEXT:
                raise ViewError(f"{name}: expected at most {MOST_TEXT} characters, found {len(one[name])}")
        return cls(
            unit=_choice("unit", one.get("unit", "sample"), UNITS),
            values={name: many[name] for name in CODED if name in many},
            tags=many.get("tag", ()),
            low=_number("min", one.get("min"), 0, 10),
            high=_number("max", one.get("max"), 0, 10),
            scored={"yes": True, "no": False, "": None}[_choice("scored", one.get("scored", ""), ("yes", "no", ""))],
            words=one.get("q", ""),
            why=one.get("why", ""),
            cluster=one.get("cluster", ""),
            sort=_choice("sort", one.get("sort", "score"), ORDERS),
            page=_number("page", one.get("page"), 1, 1_000_000) or 1,
        )

    def where(self, loaded: Loaded, tagged: Collection[str], without: str = "") -> tuple[str, list[object]]:
        """SQL condition and its parameters. `tagged`: ids of the items that have one of `tags`; `without`: a column
        whose own filter is left out, for the counts beside it."""
        parts, given = ["unit = ?"], list[object]([UNITS.index(self.unit)])
        for column, names in self.values.items():
            if column != without:
                codes = loaded.codes(column, names)
                # A value that the corpus doesn't have: nothing matches.
                parts.append(f"{column} IN ({', '.join('?' * len(codes))})" if codes else "false")
                given += codes
        for sql, value in (("score >= ?", self.low), ("score <= ?", self.high)):
            if value is not None:
                parts.append(sql)
                given.append(value)
        if self.scored is not None:
            parts.append("score IS NOT NULL" if self.scored else "score IS NULL")
        if self.words:
            parts.append("contains(search, ?)")
            given.append(self.words.casefold())
        if self.why:
            parts.append("contains(lower(reason), lower(?))")
            given.append(self.why)
        if self.cluster:
            parts.append("cluster = ?")
            given.append(self.cluster)
        if self.tags:
            # As one parameter, however many they are.
            parts.append("item_id IN (SELECT unnest(?::VARCHAR[]))")
            given.append(sorted(tagged))
        return " AND ".join(parts), given

    @property
    def order(self) -> str:
        """SQL of the order, total."""
        first = ORDERS[self.sort]
        return first if first == "rowid DESC" else ", ".join(filter(None, (first, "rowid")))


def _choice(name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise ViewError(f"{name}: expected one of {', '.join(filter(None, known))}, found {value[:40]!r}")
    return value


def _number(name: str, text: str | None, low: int, high: int) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 8 and low <= int(text) <= high):
        raise ViewError(f"{name}: expected a whole number from {low} to {high}, found {text[:40]!r}")
    return int(text)


def query_of(**filters: str | Sequence[str]) -> str:
    """The query string of a view, for links: `query_of(unit="step", source="aitz")`."""
    return urlencode({name: value for name, value in filters.items() if value}, doseq=True)


def view_of_asset(asset: str) -> str | None:
    """The query string of the view that shows what an asset holds; None for an asset without items to look at."""
    group, _, name = asset.partition("/")
    if group in ("raw", "unified", "verdicts", "gold", "cards"):
        return query_of(source=name, state="gold" if group == "gold" else "")
    if group == "generation":
        return query_of(source=GENERATED_SOURCE, unit="episode")
    states = {SAFETY: "unsafe", CONTAMINATION: "contaminated", PEOPLE: "refused", DUPLICATES: "duplicate"}
    if asset in states:
        return query_of(state=states[asset])
    return query_of(state="gold", split="train") if group == "mid_training" else None


def browse_line(asset: str) -> str:
    """The command that opens the corpus browser at what an asset holds, with its newline; empty where it shows
    nothing of it."""
    view = view_of_asset(asset)
    return f"vesper browse --open --view '{view}'\n" if view else ""
