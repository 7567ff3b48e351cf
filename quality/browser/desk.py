"""What people do with the items that they chose: tag them, send them to review, export them, ask for their takedown."""

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pipelines.store import Store
from pipelines.takedown.withdrawn import MAX_REASON, TakenDown
from pipelines.whole_files import whole_file
from quality.browser.corpus import Loaded
from quality.browser.search import find_all
from quality.browser.view import ViewError
from quality.items.item import Row
from quality.review.marks import MAX_ITEMS, MarkStore, marks_path
from quality.review.verdict_store import check_name

SHOWN = 8
"""Items that a message names."""


@dataclass
class Desk:
    """Everything that writes. `marks` is the file of tags and wishes."""

    store: Store
    marks: MarkStore = field(init=False)
    _tags: tuple[int, dict[str, list[str]]] = (-1, {})

    def __post_init__(self) -> None:
        self.marks = MarkStore(marks_path(self.store.home))

    # --- tags ---------------------------------------------------------------------------------------------------------
    def tagged(self, tags: Sequence[str]) -> list[str]:
        """Ids of the items that have one of some tags."""
        items = self._items_of_tags()
        return sorted({item for tag in tags for item in items.get(tag, ())})

    def tag_counts(self) -> list[tuple[str, int]]:
        """(tag, items that have it), by name."""
        return sorted((tag, len(items)) for tag, items in self._items_of_tags().items())

    def _items_of_tags(self) -> dict[str, list[str]]:
        # Rows are only added, so their number tells whether anything changed.
        if self._tags[0] != (count := self.marks.count()):
            found: dict[str, list[str]] = {}
            for mark in self.marks.tags():
                found.setdefault(mark.name, []).append(mark.item_id)
            self._tags = (count, found)
        return self._tags[1]

    def tag(self, loaded: Loaded, body: object) -> dict[str, object]:
        """Put a tag on items or (`remove`) take it off. Raises `ViewError`, `ReviewError`."""
        ids = item_ids(body)
        # Unknown ids are refused, as a tag on nothing would never be seen.
        _require_items(loaded, ids)
        remove = isinstance(body, dict) and body.get("remove") is True
        done = self.marks.tag(ids, text_of(body, "name"), text_of(body, "who"), remove=remove)
        return {"items": done, "tags": self.tag_counts()}

    # --- review -------------------------------------------------------------------------------------------------------
    def request_review(self, loaded: Loaded, body: object) -> dict[str, object]:
        """Put items in front of the review queue: a step by its episode, which is what people judge. `left_out`: those
        that nobody could judge, for they have no picture. Raises `ViewError`, `ReviewError`."""
        ids, who = item_ids(body), check_name(text_of(body, "who"))
        cards = _require_items(loaded, ids)
        # A dictionary for its order: each episode once, as they were chosen.
        asked: dict[str, None] = {}
        left_out = []
        for item, card in zip(ids, cards, strict=True):
            if card["picture"] is None:
                left_out.append(item)
            elif item.startswith("step:"):
                asked["episode:" + item.removeprefix("step:").rpartition("/")[0]] = None
            else:
                asked[item] = None
        if asked:
            self.marks.request_review(list(asked), who)
        return {"asked": list(asked), "left_out": left_out}

    # --- takedown -----------------------------------------------------------------------------------------------------
    def request_takedown(self, loaded: Loaded, body: object) -> dict[str, object]:
        """File a list for `vesper takedown`, which rewrites every version and can't be undone: a page doesn't start
        that. `confirm` must be the number of items. Raises `ViewError`, `ReviewError`."""
        ids, who, reason = item_ids(body), check_name(text_of(body, "who")), text_of(body, "reason").strip()
        _require_items(loaded, ids)
        if not 1 <= len(reason) <= MAX_REASON:
            raise ViewError(f"reason: expected 1 to {MAX_REASON} characters, found {len(reason)}")
        # The person read how many, and the request says the same number.
        if not isinstance(body, dict) or body.get("confirm") != len(ids):
            raise ViewError(f"confirm: expected {len(ids)}, the number of items that are to go")
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%dT%H%M%S%f")
        path = takedown_folder(self.store.home) / f"{now}.csv"
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow(("id", "reason"))
        # The reason goes into a list that is kept for good, so who said it goes along.
        writer.writerows((item, f"{reason} ({who})"[:MAX_REASON]) for item in ids)
        with whole_file(path, lasting=True) as beside:
            beside.write_text(lines.getvalue(), encoding="utf-8")
        return {"file": str(path), "command": f"vesper takedown {path}", "waiting": self.waiting_takedowns()}

    def waiting_takedowns(self) -> list[str]:
        """Filed lists of which something hasn't been taken down yet."""
        taken, waiting = TakenDown.load(self.store.home), []
        for path in sorted(takedown_folder(self.store.home).glob("*.csv")):
            with path.open(encoding="utf-8", newline="") as stream:
                # A list that was taken down in part still waits.
                if any(row["id"] not in taken.reasons for row in csv.DictReader(stream)):
                    waiting.append(str(path))
        return waiting

    # --- export -------------------------------------------------------------------------------------------------------
    def exported(self, cards: Iterable[Row]) -> Iterator[str]:
        """Cards as lines of JSON, with their tags."""
        tags: dict[str, list[str]] = {}
        for tag, items in self._items_of_tags().items():
            for item in items:
                tags.setdefault(item, []).append(tag)
        for card in cards:
            yield json.dumps({**card, "tags": sorted(tags.get(card["item_id"], []))}, ensure_ascii=False) + "\n"


def takedown_folder(home: Path) -> Path:
    """Where lists for `vesper takedown` are filed."""
    return home / "feedback" / "takedown"


def item_ids(body: object) -> list[str]:
    """The chosen items of a request, each once. Raises `ViewError`."""
    ids = body.get("ids") if isinstance(body, dict) else None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids) or not 1 <= len(ids) <= MAX_ITEMS:
        raise ViewError(f"ids: expected a list of 1 to {MAX_ITEMS} item ids")
    return list(dict.fromkeys(ids))


def text_of(body: object, name: str) -> str:
    """A text of a request. Raises `ViewError`."""
    value = body.get(name) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise ViewError(f"{name}: expected text, found {type(value).__name__}")
    return value


def _require_items(loaded: Loaded, ids: Sequence[str]) -> list[Row]:
    """Cards of items that can be marked. Raises `ViewError` naming those that can't."""
    if records := [one for one in ids if not one.startswith(("sample:", "step:", "episode:"))]:
        raise ViewError(f"ids: expected samples, steps or episodes, found native records: {', '.join(records[:SHOWN])}")
    return find_all(loaded, ids)
