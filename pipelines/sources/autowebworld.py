"""AutoWebWorld: steps on synthetic web sites that were generated from finite-state machines.

A raw element of the training array (made up); the picture lies beside the file or in `images/`:

    {"img_filename": "shop/12.png", "instruction": "Buy a tea pot", "history": "1. click search", "action": "click",
     "bbox": [100, 200, 160, 240]}

| native | unified |
|---|---|
| click, hover | Click, Hover at the centre of `bbox`, which is the step's target |
| drag | Drag between the centres of two boxes; with one box alone quarantined (`missing_field`) |
| press_enter | PressEnter |
| scroll up, scroll down | Scroll(direction) |
| type_text, answer | Type, Finished; quarantined (`missing_field`) where the label names the action alone |

Boxes are pixels of the screenshot: without the picture a pointed step is quarantined (`bad_frame`). Rows have no
episode: each is an episode of one step. The sites' own machines (`fsm.json`) hold no recordings and are refused
(`unknown_schema`).
"""

import posixpath
from collections.abc import Iterator
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import json_list
from schemas.actions import Action, Click, Drag, Finished, Hover, PressEnter, Scroll, Type
from schemas.coordinates import centre_in_units
from schemas.ids import digest

Box = tuple[float, float, float, float]
WORDS = ("click", "hover", "drag", "type_text", "press_enter", "scroll", "answer")
_KNOWN = frozenset({"img_filename", "instruction", "history", "action", "bbox", "text", "value"})

DESCRIPTOR = Descriptor(
    id="autowebworld",
    title="AutoWebWorld",
    origin="https://github.com/Evanwu1125/AutoWebWorld",
    licence="MIT",
    platforms=("web",),
    size="11,663 trajectories on 29 sites, some 16,000 steps for training (by the paper)",
    citation="Wu et al., AutoWebWorld, arXiv 2602.14296",
    frame="pixels of the screenshot, left, top, right, bottom",
    known_problems=(
        "published labels of type_text and answer lack their text",
        "the trajectory files are not in the repository",
        "synthetic sites of uniform layout",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("hover", "Hover", "kept"),
        Loss("drag", "Drag", "kept", "needs two boxes"),
        Loss("press_enter", "PressEnter", "kept"),
        Loss("scroll", "Scroll", "kept", "direction only"),
        Loss("type_text", "Type", "kept", "missing_field where the label lacks the text"),
        Loss("answer", "Finished", "kept", "missing_field where the label lacks the text"),
        Loss("?", "-", "dropped", "unknown_action:<word>"),
    ),
)


class AutowebworldAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.json",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time; a site's machine is refused."""
        for file in files:
            if posixpath.basename(file) == "fsm.json" or posixpath.basename(file).startswith("macro_"):
                yield Broken(file, "document", "unknown_schema", "a site's machine, not a recording", 0)
            else:
                yield from json_list(raw, file)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode of one step. Raises `RecordError`: missing_field, empty_text, unsafe_path."""
        row = record.payload
        goal = row.get("instruction") if isinstance(row, dict) else None
        if not isinstance(goal, str) or not is_text(goal) or not isinstance(row.get("img_filename"), str):
            raise RecordError("missing_field", "expected img_filename and instruction")
        if not goal.strip():
            raise RecordError("empty_text", "the instruction is empty")
        # By its content: rows have no id.
        builder = EpisodeBuilder(self.descriptor, record, episode_id=digest(row)[:32], instruction=goal)
        history = row.get("history")
        # "None" stands for no history.
        if isinstance(history, str) and history.strip() and history.strip().lower() != "none":
            builder.gap("steps_before_are_rows_of_their_own")
        screen = RecordScreen.load(_picture(raw, record.file, row["img_filename"]), normalised=True)
        word = "?"
        try:
            said = str(row.get("action")).split(" ")
            if said[0] not in WORDS:
                raise ItemError(f"unknown_action:{said[0][:60]}", f"action: expected one of {WORDS}", word)
            word = said[0]
            boxes = _boxes(row, word, screen) if word in ("click", "hover", "drag") else []
            action = _action(row, word, said[1:], boxes)
        except ItemError as error:
            builder.reject(error.reason, native=row, native_index=0, word=word, detail=error.detail)
        else:
            mapped = MappedAction(
                [action], word, rules=["centre_of_box"] if boxes else [], box=boxes[0] if boxes else None
            )
            builder.take(mapped, row, 0, screen)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _picture(raw: Raw, file: str, name: str) -> bytes | None:
    folder = posixpath.dirname(file)
    return raw.first(posixpath.join(folder, place, name) for place in ("", "images"))


def _boxes(row: dict[str, Any], word: str, screen: RecordScreen) -> list[Box]:
    size = sides_of(screen, f"no usable picture ({screen.problem}), so no size of the screen", word)
    value = row.get("bbox")
    # One box, or a list of them for a drag.
    listed = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    return [unit_box(box, size, word) for box in listed]


def _action(row: dict[str, Any], word: str, more: list[str], boxes: list[Box]) -> Action:
    """Raises `ItemError`."""
    points = [centre_in_units(box) for box in boxes]
    if word == "click":
        return Click(points[0])
    if word == "hover":
        return Hover(points[0])
    if word == "drag":
        if len(points) != 2:
            raise ItemError("missing_field", f"drag: expected two boxes, found {len(points)}", word)
        return Drag(points[0], points[1])
    if word == "press_enter":
        return PressEnter()
    if word == "scroll":
        direction = str(row.get("value") or " ".join(more)).strip().lower()
        if direction not in ("up", "down"):
            raise ItemError("bad_value", f"scroll: expected up or down, found {direction[:40]!r}", word)
        return Scroll(direction=direction)
    text = row.get("text")
    if not isinstance(text, str) or not text or not is_text(text):
        raise ItemError("missing_field", f"{word}: the label lacks its text", word)
    return Type(text) if word == "type_text" else Finished(text)
