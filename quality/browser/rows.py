"""One part of a source → rows of the browser's index: what is filtered, sorted and shown of each item, and no more.

A row an item: samples, steps, episodes, and native records that couldn't be mapped. Steps and episodes are those of
`unified`; what became gold is shown as gold has it. An item's verdict is its last one; a derived sample has none of its
own and goes by the worst of what it was derived from, an episode by the worst of its own and its steps'.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.prompts import prompt_text
from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest
from quality.items.item import Row, base_id
from quality.review.sampling import ACTIONS
from schemas.ids import item_episode, item_sample, item_step
from schemas.tables import Samples, Steps, Table

VERSION = "1"
"""Of the index: raised by whoever changes what a row holds."""
UNITS = ("sample", "step", "episode", "record")
CODED = ("source", "platform", "split", "action", "objective", "disposition", "objection", "state", "licence", "judge")
"""Columns of few values: each is a filter and has counts beside it."""
SHOWN = 300
"""Characters of a text that a card shows; the item's page has all of it."""
SEARCHED = 2000
"""Characters of instruction and answer together in which free text is looked for."""
INDEX = pa.schema(
    [
        ("unit", pa.string()),
        ("item_id", pa.string()),
        *((name, pa.string()) for name in CODED),
        ("score", pa.int8()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("answer", pa.string()),
        ("search", pa.string()),
        ("drawn", pa.string()),
        ("boxes", pa.list_(pa.float32())),
        ("picture", pa.string()),
        ("phash", pa.uint64()),
        ("part", pa.string()),
        ("names", pa.list_(pa.string())),
    ]
)
"""`drawn`: the action as text, where a picture shows one; `boxes`: four numbers a box; `part`: the key of its part;
`names`: the ids under which stages after gold may speak of the item; `search`: what free text is looked for in, case
folded."""
BOXES_SHOWN = 12
_CODE = re.compile(r"([a-z][a-z0-9_]{2,40}): ")
_UNREAD = ("native_action", "provenance", "thought", "conclusion")
"""Long columns that no row of the index shows."""


TableFiles = Mapping[tuple[str, str], tuple[Manifest, FileEntry]]
"""(group, table) → the file of a part, and the version that names it. Groups are `unified`, `verdicts` and `gold`."""


@dataclass(frozen=True)
class IndexedPart:
    """The tables of one part of a source in all stages that have it. `judged`: whether its gold was built yet."""

    source: str
    key: str
    licence: str
    judged: bool
    files: TableFiles

    def rows(self, group: str, table: str, columns: Sequence[str]) -> list[Row]:
        """Rows of a table; none where there is no such table."""
        path = self.path(group, table)
        return [] if path is None else pq.read_table(path, columns=list(columns)).to_pylist()

    def path(self, group: str, table: str) -> Path | None:
        """The file of a table. Raises `StoreError` if it isn't what was written."""
        found = self.files.get((group, table))
        return found[0].path(found[1]) if found is not None else None


def _read_of(table: type[Table]) -> list[str]:
    return [name for name in table.schema.names if name not in _UNREAD]


LastVerdicts = Mapping[str, Row]
"""Item id without its version → its last verdict, as a row."""


def last_of(rows: Iterable[Row]) -> dict[str, Row]:
    """The last round's verdict on each item, whichever version of it was judged."""
    last: dict[str, Row] = {}
    for row in rows:
        base = base_id(row["item_id"])
        # The last round; of two in one round the later row.
        if base not in last or row["round"] >= last[base]["round"]:
            last[base] = row
    return last


def index_part(part: IndexedPart) -> pa.Table:
    """Rows of all items of a part, in the schema `INDEX`."""
    columns = ["item_id", "round", "score", "disposition", "reason", "judge"]
    judged = last_of(row for group in ("verdicts", "gold") for row in part.rows(group, "verdicts", columns))
    rejects = {base_id(r["item_id"]): r["reason"] for r in part.rows("gold", "rejects", ["item_id", "reason"])}
    pending = {base_id(row["item_id"]) for row in part.rows("verdicts", "pending", ["item_id"])}
    hashes = {
        row["screenshot_sha256"]: row["phash"]
        for group in ("unified", "gold")
        for row in part.rows(group, "screens", ["screenshot_sha256", "phash"])
    }
    steps = _both(part, "steps", _read_of(Steps), lambda row: (row["episode_id"], row["step_index"]))
    samples = _both(part, "samples", _read_of(Samples), lambda row: row["sample_id"])
    rows = [*_steps_of(part, steps, judged), *_samples_of(part, samples, judged, steps), *_records_of(part)]
    for row in rows:
        # Native records that couldn't be mapped have theirs already.
        row.setdefault("state", _state(part, row, pending))
        row["reason"] = row.get("reason") or rejects.get(row["item_id"], "")
        row["phash"] = hashes.get(row["picture"])
        # Folded once here instead of at every search.
        row["search"] = f"{row['text']}\n{row['answer']}"[:SEARCHED].casefold()
        row["part"] = part.key
        row["text"], row["answer"] = row["text"][:SHOWN], row["answer"][:SHOWN]
    table = pa.Table.from_pylist(rows, INDEX)
    for name in CODED:  # what an item doesn't have is an empty value of its own, which can be filtered by
        table = table.set_column(INDEX.get_field_index(name), INDEX.field(name), pc.fill_null(table[name], ""))
    return table


def _both(part: IndexedPart, table: str, columns: Sequence[str], key: Any) -> dict[Any, Row]:
    """Rows of `unified` and of `gold` by key, gold's where both have one; `gold` says which it is."""
    found = {key(row): {**row, "gold": False} for row in part.rows("unified", table, columns)}
    return found | {key(row): {**row, "gold": True} for row in part.rows("gold", table, columns)}


def _judged(row: Row, names: Iterable[str], judged: LastVerdicts) -> Row:
    """The worst verdict on any of `names`, as columns; an abstention is worse than none, better than a score."""
    known = [judged[name] for name in names if name in judged]
    if not known:
        return row
    # (False, score) < (True, None): scores come before abstentions, and low ones first.
    worst = min(known, key=lambda one: (one["score"] is None, one["score"]))
    code = _CODE.match(worst["reason"])
    return {
        **row,
        **{name: worst[name] for name in ("score", "disposition", "reason", "judge")},
        "objection": code[1] if code else "",
    }


def _state(part: IndexedPart, row: Row, pending: set[str]) -> str:
    """How far the item came in its own source; what stages after gold say of it is put over this."""
    if row["gold"]:
        return "gold"
    # Nothing of this source was judged yet.
    if not part.judged:
        return "no gold yet"
    return "pending" if pending.intersection(row["names"]) else "rejected"


def _steps_of(part: IndexedPart, steps: Mapping[tuple[str, int], Row], judged: LastVerdicts) -> Iterator[Row]:
    """Rows of steps, and of their episodes."""
    episodes: dict[str, list[Row]] = {}
    for key in sorted(steps):
        step = steps[key]
        episodes.setdefault(step["episode_id"], []).append(step)
        name = item_step(part.source, step["episode_id"], step["step_index"])
        row = {
            **_common(part, step, "step", name, [name, item_episode(part.source, step["episode_id"])]),
            "action": step["action_type"],
            "text": step["step_instruction"] or step["instruction"],
            "answer": step["action_text"] or "",
            "drawn": step["action_text"],
            "boxes": step["target_box"],
            "picture": step["screenshot_sha256"],
        }
        yield _judged(row, [name], judged)
    for episode, inside in episodes.items():
        name = item_episode(part.source, episode)
        names = [item_step(part.source, episode, step["step_index"]) for step in inside]
        # Some episodes begin without a picture.
        first = next((step for step in inside if step["screenshot_sha256"]), inside[0])
        types = [step["action_type"] for step in inside if step["action_type"]]
        row = {
            **_common(part, first, "episode", name, [name]),
            "gold": any(step["gold"] for step in inside),
            # The rarest action tells most of an episode.
            "action": max(types, key=_rarity, default=""),
            "text": first["instruction"],
            "answer": " → ".join(step["action_text"] for step in inside if step["action_text"]),
            "drawn": first["action_text"],
            "boxes": first["target_box"],
            "picture": first["screenshot_sha256"],
        }
        yield _judged(row, [name, *names], judged)


def _rarity(action: str) -> int:
    return ACTIONS.index(action) if action in ACTIONS else len(ACTIONS)


def _common(part: IndexedPart, row: Row, unit: str, name: str, names: Sequence[str]) -> Row:
    return {
        "unit": unit,
        "item_id": name,
        "source": part.source,
        "platform": row["platform"],
        "split": row["split"],
        "licence": row.get("licence") or part.licence,
        "gold": row["gold"],
        "names": list(names),
    }


def _samples_of(
    part: IndexedPart, samples: Mapping[str, Row], judged: LastVerdicts, steps: Mapping[tuple[str, int], Row]
) -> Iterator[Row]:
    for sample_id in sorted(samples):
        sample = samples[sample_id]
        name = item_sample(sample_id)
        parents = [base_id(parent) for parent in sample["parents"]]
        acted = [steps[key] for parent in parents if (key := _step_key(parent)) in steps]
        episodes = {
            "episode:" + parent.removeprefix("step:").rpartition("/")[0]
            for parent in parents
            if parent.startswith("step:")
        }
        navigates = sample["objective"] == "navigation" and len(acted) == 1
        row = {
            **_common(part, sample, "sample", name, [name, *parents, *sorted(episodes)]),
            "action": acted[0]["action_type"] if navigates else "",
            "objective": sample["objective"],
            "text": _question(sample["messages"]),
            "answer": sample["answer"],
            # A grounding answer is short; of others nothing could be drawn.
            "drawn": acted[0]["action_text"] if navigates else sample["answer"][:20],
            "boxes": [side for box in sample["target_boxes"][:BOXES_SHOWN] for side in box],
            "picture": sample["images"][-1] if sample["images"] else None,
        }
        # Without a verdict of its own, what its parents got.
        yield _judged(row, [name] if name in judged else parents, judged)


def _step_key(item_id: str) -> tuple[str, int]:
    """`step:<source>/<episode>/<number>` → (episode, number); of anything else a key that no step has."""
    episode, _, number = item_id.partition("/")[2].rpartition("/")
    return (episode, int(number)) if item_id.startswith("step:") and number.isdecimal() else ("", -1)


def _question(messages: str) -> str:
    try:
        return prompt_text(messages)
    except ValueError:  # a chat of another form is shown as it is
        return messages


def _records_of(part: IndexedPart) -> Iterator[Row]:
    """Rows of native records that couldn't be mapped."""
    for row in part.rows("unified", "quarantine", ["unit", "reason", "detail", "file", "record", "native"]):
        name = f"{part.source}/{row['file']}#{row['record']}"
        yield {
            "unit": "record",
            "item_id": name,
            "source": part.source,
            "licence": part.licence,
            "state": "unmapped",
            "objection": row["reason"].partition(":")[0],
            "reason": f"{row['reason']}: {row['detail']}",
            "text": row["detail"] or row["reason"],
            "answer": row["native"],
            "picture": None,
            "gold": False,
            "names": [name],
        }
