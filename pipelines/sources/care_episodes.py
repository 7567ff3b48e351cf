"""Care episodes: Vesper's own scripted runs of requests that do harm at their word (`vesper harvest care`).

A line of `episodes.jsonl` is an episode (made up, shortened; pictures lie in `images/`, named by their SHA-256):

    {"id": "web.projects-0-yes", "goal": "Get Roof survey out of my list of projects.", "platform": "web",
     "language": "en", "app": "care/web.projects", "variant": "yes", "success": true, "harm": false, "steps": [
        {"goal": "Get Roof survey …", "screenshot": "images/5f3c….png", "size_px": [1024, 640], "elements":
         [{"box": [1, 2, 3, 4], "role": "link", "text": "Roof survey", "name": "Roof survey"}],
         "action": "Click(box=(120,300))", "conclusion": "Click link \\"Roof survey\\"."}]}

| native | unified |
|---|---|
| an action | itself: it is written as we write it |
| `goal` of a step | the row's instruction: after a question it holds the question and the user's answer |
| `conclusion` | conclusion |
| `elements` | elements of the screen, 0..1000 |
| `variant`, `app` | - |

An episode that did harm, or didn't succeed, is quarantined whole (`harmful`, `not_successful`): whatever else it
reached, nobody should learn from it.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import whole_sides
from pipelines.mapping.items import is_text, notices, unknown_fields
from pipelines.native.record_readers import count_of, field_id, json_lines
from schemas.action_types import ActionSpace
from schemas.actions import parse

ACTION = "action"
PICTURE = re.compile(r"images/[0-9a-f]{64}\.png")
LANGUAGES = ("en", "de", "es", "zh")
_EPISODE = frozenset({"id", "goal", "platform", "language", "app", "variant", "success", "harm", "steps"})
_ELEMENT = frozenset({"box", "role", "text", "name"})

DESCRIPTOR = Descriptor(
    id="care_episodes",
    title="Care episodes",
    origin="made on the spot with `vesper harvest care`",
    licence="Apache-2.0 (made by Vesper)",
    platforms=("mobile", "web"),
    language="multi",
    size="24 families, two or three episodes each a seed",
    citation="the idea: UI-Venus-2.0, arXiv 2609.00028 (care); the episodes are our own",
    frame="0..1000, as we write actions",
    record_unit="episode",
    known_problems=(
        "scripted: a request is worded in two ways at most, and a question always in the same",
        "the phone speaks English only",
    ),
    loss=(Loss(ACTION, "the action itself", "kept"), Loss("variant, app", "-", "lossy", "stay in the raw file")),
)


class CareEpisodesAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    items_at = ("steps",)
    patterns = ("**/episodes.jsonl",)
    reader = partial(json_lines, of_id=field_id("id"), count=count_of('"action"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → its steps. Raises `RecordError`: missing_field, bad_value, harmful, not_successful."""
        row = record.payload
        steps = row.get("steps") if isinstance(row, dict) else None
        if not isinstance(steps, list) or not all(isinstance(row.get(name), str) for name in ("id", "goal", "app")):
            raise RecordError("missing_field", "expected an object with id, goal, app and a list of steps")
        # Before anything is built: such an episode must leave no row.
        _require_good(row, max(len(steps), 1))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=row["id"],
            instruction=row["goal"],
            platform=row["platform"],
            language=row["language"],
            app=row["app"],
            outcome="success",
        )
        for index, step in enumerate(steps):
            _add(builder, record, raw, index, step, len(steps), self.space)
        return notices(builder.finish(), unknown_fields(row, _EPISODE))


def _require_good(row: Mapping[str, object], items: int) -> None:
    """Raises `RecordError` for an episode that nobody should learn from, or whose own words can't be."""
    if row.get("harm") is not False:
        raise RecordError("harmful", "it did harm, or doesn't say that it did none", items)
    if row.get("success") is not True:
        raise RecordError("not_successful", "it isn't said to have succeeded", items)
    if row.get("platform") not in DESCRIPTOR.platforms or row.get("language") not in LANGUAGES:
        found = f"{row.get('platform')!r:.40}, {row.get('language')!r:.40}"
        raise RecordError("bad_value", f"platform, language: expected ours, found {found}", items)


def _add(
    builder: EpisodeBuilder, record: Record, raw: Raw, index: int, step: Any, items: int, space: ActionSpace
) -> None:
    """One step, or its rejection."""
    try:
        action = parse(step["action"], space)
        goal, conclusion = step["goal"], step.get("conclusion") or None
        if not is_text(goal) or not (conclusion is None or is_text(conclusion)):
            raise ValueError("goal, conclusion: expected Unicode texts")
        screen = _screen(record, raw, step, items)
    except (KeyError, TypeError, ValueError) as error:
        # By its own rejection: the steps after it are still true.
        builder.reject("bad_value", native=step, native_index=index, word=ACTION, detail=str(error)[:200])
        return
    # Goals may change within an episode, when the user says more.
    builder.asked(goal)
    builder.add(action, step["action"], index, ACTION, screen, conclusion=conclusion)


def _screen(record: Record, raw: Raw, step: Mapping[str, Any], items: int) -> RecordScreen:
    """The screen of a step. Its picture lies beside the file of lines; a name that leads elsewhere is refused."""
    name, size = step["screenshot"], whole_sides(step["size_px"])
    if size is None or not PICTURE.fullmatch(name):
        raise ValueError(f"screenshot, size_px: expected images/<sha256>.png and two sides, found {name!r:.90}")
    elements = [_element(one) for one in step["elements"]]
    folder = record.file.rpartition("/")[0]
    return RecordScreen.load(raw.first([f"{folder}/{name}" if folder else name], items), elements, frame=size)


def _element(one: Mapping[str, Any]) -> dict[str, Any]:
    """An element of the `screens` table. Raises `ValueError` for one of another form."""
    box = [float(side) for side in one["box"]]
    texts = {name: one[name] for name in ("role", "text", "name")}
    if set(one) != _ELEMENT or len(box) != 4 or not all(isinstance(t, str) and is_text(t) for t in texts.values()):
        raise ValueError(f"element: expected box, role, text, name, found {one!r:.120}")
    return {"box": box, **texts}
