"""One item in full: its row, its pictures with what is drawn on them, all verdicts, and its episode as a film strip."""

import json
from collections.abc import Iterable, Mapping, Sequence

from quality.browser.corpus import Loaded
from quality.browser.rows import IndexedPart
from quality.browser.search import find, plain_gesture
from quality.items.item import Row, base_id
from quality.review.requested import rows_where

MOST_ELEMENTS = 400
"""Elements of a screen that are drawn over it."""


def details(loaded: Loaded, item_id: str) -> Row:
    """All that is known of an item without its history: `card`; `row`; `frames` (pictures in order, each with boxes,
    gesture and texts; `here` marks those of the item itself); `verdicts`, first round first. Raises `ViewError`."""
    card = find(loaded, item_id)
    part = loaded.parts[str(card["source"]), str(card["part"])]
    unit, found = str(card["unit"]), Row()
    if unit == "sample":
        found = _sample(part, item_id.partition(":")[2])
    elif unit in ("step", "episode"):
        found = _episode(part, item_id)
    frames = found.get("frames", [])
    _add_elements(part, frames)
    own = found.get("names", [item_id])
    # Steps of an episode have verdicts of their own.
    judged = _verdicts(part, [*own, *(frame["id"] for frame in frames)])
    # Rows come first round first, so the last one stays.
    last = {base_id(row["item_id"]): row["score"] for row in judged}
    for frame in frames:
        frame["score"] = last.get(frame["id"])
    verdicts = [row for row in judged if base_id(row["item_id"]) in own]
    return {"card": card, "row": found.get("row", {}), "frames": frames, "verdicts": verdicts}


def _read(part: IndexedPart, group: str, table: str, column: str, values: Sequence[str]) -> list[Row]:
    """Rows of a table of the item's part: whatever an item was derived from lies in the same one."""
    path = part.path(group, table)
    return rows_where([path] if path is not None else [], column, values)


def _sample(part: IndexedPart, sample_id: str) -> Row:
    found = [row for group in ("gold", "unified") for row in _read(part, group, "samples", "sample_id", [sample_id])]
    if not found:
        return {}
    # Gold's where it has one.
    row, images = found[0], found[0]["images"]
    names = [f"sample:{sample_id}", *(base_id(parent) for parent in row["parents"])]
    frames = [
        {
            "id": names[0],
            "picture": sha,
            "here": True,
            # The answer is about the last picture.
            "boxes": row["target_boxes"] if place + 1 == len(images) else [],
            **plain_gesture(row["answer"] if place + 1 == len(images) else None),
            "caption": f"picture {place + 1} of {len(images)}" if len(images) > 1 else "",
        }
        for place, sha in enumerate(images)
    ]
    shown = {
        "messages": _plain(row["messages"]),
        "answer": row["answer"],
        "parents": row["parents"],
        "tokens": row["tokens"],
        "synthetic": row["synthetic"],
        "provenance": _plain(row["provenance"]),
    }
    acted = [_episode(part, name) for name in names[1:] if name.startswith("step:")]
    if row["objective"] == "navigation" and len(acted) == 1 and acted[0] and frames:
        # A navigation answer writes its action between tags: the step that it came from has the same one to draw.
        here = next((frame for frame in acted[0]["frames"] if frame["here"]), None)
        frames[-1] |= {name: here[name] for name in ("point", "path")} if here else {}
    return {"row": shown, "frames": frames, "names": names}


def _episode(part: IndexedPart, item_id: str) -> Row:
    """An episode's frames; of a step those of its episode, with its own marked."""
    rest = item_id.partition(":")[2].partition("/")[2]
    episode = rest.rpartition("/")[0] if item_id.startswith("step:") else rest
    steps = {row["step_index"]: row for row in _read(part, "unified", "steps", "episode_id", [episode])}
    gold = {row["step_index"]: row for row in _read(part, "gold", "steps", "episode_id", [episode])}
    frames = []
    for index in sorted({*steps, *gold}):
        # As it is in the corpus now; what it was before stands beside it.
        row = gold.get(index) or steps[index]
        name = f"step:{row['source']}/{episode}/{index}"
        frames.append(
            {
                "id": name,
                "picture": row["screenshot_sha256"],
                "here": name == item_id or item_id.startswith("episode:"),
                "gold": index in gold,
                "boxes": [row["target_box"]] if row["target_box"] else [],
                **plain_gesture(row["action_text"]),
                "caption": row["action_text"] or "last screen",
                "before": steps[index]["action_text"] if index in steps else None,
                **{key: row[key] for key in ("step_instruction", "thought", "conclusion")},
            }
        )
    rows = [gold.get(index) or steps[index] for index in sorted({*steps, *gold})]
    if not rows:
        return {}
    first = rows[0]
    shown = {key: first[key] for key in ("instruction", "app", "language", "episode_outcome", "width_px", "height_px")}
    own = [frame["id"] for frame in frames if frame["here"]]
    return {"row": shown, "frames": frames, "names": [f"episode:{first['source']}/{episode}", *own]}


def _add_elements(part: IndexedPart, frames: Iterable[Row]) -> None:
    """What the sources know to be on the item's own screens."""
    shown = [frame for frame in frames if frame["here"] and frame["picture"]]
    shas = sorted({frame["picture"] for frame in shown})
    rows = {
        row["screenshot_sha256"]: row
        for group in ("gold", "unified")
        for row in _read(part, group, "screens", "screenshot_sha256", shas)
    }
    for frame in shown:
        row: Mapping[str, object] = rows.get(frame["picture"], {})
        elements = row.get("elements") or []
        assert isinstance(elements, list)
        # A screen of thousands would make the page slow.
        frame["elements"] = [one for one in elements if one["box"]][:MOST_ELEMENTS]


def _verdicts(part: IndexedPart, names: Sequence[str]) -> list[Row]:
    # Rounds of repair are part of an id.
    wanted = [f"{name}{round_}" for name in names for round_ in ("", *(f"@r{number}" for number in range(1, 10)))]
    rows = [row for group in ("verdicts", "gold") for row in _read(part, group, "verdicts", "item_id", wanted)]
    return sorted(rows, key=lambda row: (row["round"], row["item_id"]))


def _plain(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
