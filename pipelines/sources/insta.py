"""InSTA: a model's episodes on live sites, as its pipeline writes them: observations, actions, judgments, screenshots.

Link: https://huggingface.co/datasets/data-for-agents/insta-150k (code: https://github.com/data-for-agents/insta)

The files of one episode (each a JSON list with an element per step; judgments an object), and of all tasks:

    observations/<identifier>.json  [{"current_url": "...", "processed_text": "...", "raw_html": "...",
       "screenshot_path": "...", "metadata": {"12": {"backend_node_id": "12", "is_visible": true,
          "bounding_client_rect": {"x": 100, "y": 50, "width": 80, "height": 20, ...}, ...}}}]
    actions/<identifier>.json       [{"function_calls": [{"dotpath": "page.locator.click", "args": "..."}], "response":
       "...", "matched_response":
       "{\\"action_key\\": \\"click\\", \\"action_kwargs\\": {}, \\"target_element_id\\": 12}"}]
    judgments/<identifier>.json     {"success": 1.0, "efficiency": 0.9, "self_correction": 0.8, "response": "..."}
    screenshots/<identifier>/screenshot_00.jpg
    tasks.json                      [{"domain": "example.com", "task": "Find the opening hours"}]

| native (`action_key`) | unified |
|---|---|
| click, hover | `Click`, `Hover` at the centre of the target's rectangle |
| fill {value} | `Click`, `Type(value)`: what the field held is replaced, lossy if it held something |
| select_option {label} | `Click`, `Type(label)`, lossy. Under v2 `SelectOption(label)` |
| set_checked {checked} | `Click`, lossy: whether the box was checked isn't stored |
| scroll {delta_x, delta_y} | `Scroll(direction)`, positive = down, right |
| go_back, goto {url} | `PressBack`, `Launch(url)` |
| stop {answer} | `Finished(answer)` |
| go_forward | rejected (`no_counterpart`) |

The viewport is 1920x1080 CSS px. A rectangle outside it is of an element that wasn't shown (`off_screen`). An
episode's task is the one whose `identifier` (else `domain`) is its identifier: that names agree so is not documented,
and an episode without a task is refused (`missing_field`). The task lists of the hub carry no action, so they make no
rows. Scores of the judge are rules in provenance (no outcome: a model gave them).
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, bad_values, notices, read_once, refusing, unknown_fields
from pipelines.mapping.points import wheel_direction
from pipelines.native.record_readers import count_of, json_document
from schemas.action_types import ActionSpace, speaks
from schemas.actions import Action, Click, Finished, Hover, Launch, PressBack, Scroll, SelectOption, Type
from schemas.coordinates import box_to_unit, to_unit

TASKS = "tasks.json"
FRAME = (1920, 1080)
_KNOWN = frozenset({"function_calls", "response", "matched_response"})
_POINTED = ("click", "hover", "fill", "select_option", "set_checked")
_WORDS = (*_POINTED, "scroll", "go_back", "go_forward", "goto", "stop")
_SCORES = ("success", "efficiency", "self_correction")
_OTHER = "other actions"

DESCRIPTOR = Descriptor(
    id="insta",
    title="InSTA",
    origin="https://huggingface.co/datasets/data-for-agents/insta-150k",
    licence="MIT",
    platforms=("web",),
    size="tasks on 150,000 sites",
    citation="Trabucco et al., InSTA: Towards Internet-Scale Training For Agents, arXiv 2502.06776",
    frame="CSS pixels of the viewport, 1920x1080, x, y, width, height named",
    record_unit="episode",
    known_problems=(
        "success is a model's judgement",
        "rectangles of elements outside the viewport",
        "tasks are filtered for harm by a model",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("hover", "Hover", "kept"),
        Loss("fill", "Click, Type", "kept", "lossy where it replaces a value"),
        Loss("select_option", "Click, Type", "lossy", "the option's place is unknown. v2: SelectOption, kept"),
        Loss("set_checked", "Click", "lossy", "whether it was checked isn't stored"),
        Loss("scroll", "Scroll(direction)", "kept", "lossy if it goes both ways; by nothing: no_counterpart"),
        Loss("go_back", "PressBack", "kept"),
        Loss("goto", "Launch(url)", "kept"),
        Loss("stop", "Finished", "kept"),
        Loss("go_forward", "-", "dropped", "no_counterpart"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<action_key>, or no action that could be read"),
        Loss("processed_text, raw_html", "-", "lossy", "stay in the raw file"),
    ),
)


class InstaAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("actions/*.json",)
    side_lists = (TASKS,)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The actions of an episode, named by their file."""
        for file in files:
            for found in json_document(raw, file, count=count_of('"matched_response"')):
                name = file.rpartition("/")[2].removesuffix(".json")
                yield Record(file, found.locator, found.payload, name) if isinstance(found, Record) else found

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: bad_value, missing_field, empty_text."""
        listed, name = record.payload, str(record.native_id)
        if not isinstance(listed, list):
            raise RecordError("bad_value", f"expected a list of actions, found {type(listed).__name__}")
        with refusing(len(listed)):
            # Tasks lie in one file beside the episodes.
            task = _tasks(raw.path(TASKS)).get(name)
        if task is None:
            raise RecordError("missing_field", f"{TASKS} has no task for {name[:80]!r}", len(listed))
        if not task[0].strip():
            raise RecordError("empty_text", "task", len(listed))
        # The observations say where elements were; without them an id points nowhere.
        observations = _document(raw, f"observations/{name}.json")
        if not isinstance(observations, list):
            raise RecordError("missing_field", "observations: expected a JSON list", len(listed))
        judged = _document(raw, f"judgments/{name}.json")
        # A judge's scores go along as rules, so that rows can be chosen by them.
        scores = [
            f"{score}={judged[score]}"
            for score in _SCORES
            if isinstance(judged, dict) and isinstance(judged.get(score), int | float)
        ]
        builder = EpisodeBuilder(self.descriptor, record, episode_id=name, instruction=task[0], app=task[1])
        found: list[tuple[str, str, Any]] = []
        for place, action in enumerate(listed):
            found += unknown_fields(action, _KNOWN) if isinstance(action, dict) else []
            # Observation k is what action k was taken on.
            seen = observations[place] if place < len(observations) else None
            _step(builder, raw, name, place, action, seen, scores, self.space)
        # One more is the state after the last action.
        if len(observations) not in (len(listed), len(listed) + 1):
            found.append(("misaligned", f"{len(observations)} observations, {len(listed)} actions", name))
        return notices(builder.finish(), found)


def _step(
    builder: EpisodeBuilder,
    raw: Raw,
    name: str,
    place: int,
    action: Any,
    seen: Any,
    scores: list[str],
    space: ActionSpace,
) -> None:
    """Add or reject one action."""
    word = _OTHER
    try:
        matched = _matched(action)
        word = str(matched.get("action_key"))
        if word not in _WORDS:
            named, word = word, _OTHER
            raise ItemError(f"unknown_action:{named[:60]}", f"expected one of {_WORDS}")
        actions, box, lossy, rules = _actions(word, matched, seen, space)
        data = raw.read_if_there(f"screenshots/{name}/screenshot_{place:02d}.jpg")
        screen: RecordScreen = fitting_screen(data, FRAME)
    except (ItemError, RecordError) as error:
        builder.reject(error.reason, native=action, native_index=place, word=word, detail=error.detail)
        return
    said = action.get("response")
    mapped = MappedAction(actions, word, lossy, [*rules, *scores], box)
    builder.take(mapped, action, place, screen, thought=said if isinstance(said, str) and said.strip() else None)


def _matched(action: object) -> dict[str, Any]:
    """The action as the pipeline's parser read it: JSON in a string. Raises `ItemError`: missing_field, bad_value."""
    text = action.get("matched_response") if isinstance(action, dict) else None
    if text is None:
        raise ItemError("missing_field", "matched_response: the reply held no action")
    try:
        matched = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError) as error:
        raise ItemError("bad_value", f"matched_response: {error}") from error
    if not isinstance(matched, dict) or not isinstance(matched.get("action_key"), str):
        raise ItemError("missing_field", "matched_response: expected an object with an action_key")
    return matched


def _actions(
    word: str, matched: Mapping[str, object], seen: object, space: ActionSpace
) -> tuple[list[Action], list[float] | None, bool, list[str]]:
    kwargs = matched.get("action_kwargs")
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    with bad_values("?"):
        if word in _POINTED:
            return _pointed(word, kwargs, matched.get("target_element_id"), seen, space)
        if word == "scroll":
            x, y = _number(kwargs, "delta_x"), _number(kwargs, "delta_y")
            if not (x or y):
                raise ItemError("no_counterpart", "a scroll by nothing")
            return [Scroll(direction=wheel_direction(x, y))], None, bool(x and y), ["direction_from_amount"]
        if word == "go_forward":
            raise ItemError("no_counterpart", word)
        if word == "go_back":
            return [PressBack()], None, False, []
        if word == "goto":
            return [Launch(url=_text(kwargs, "url"))], None, False, []
        answer = kwargs.get("answer")
        return [Finished(answer if isinstance(answer, str) else "")], None, False, []


def _pointed(
    word: str, kwargs: Mapping[str, object], target: object, seen: object, space: ActionSpace
) -> tuple[list[Action], list[float] | None, bool, list[str]]:
    metadata = seen.get("metadata") if isinstance(seen, dict) else None
    element = metadata.get(str(target)) if isinstance(metadata, dict) else None
    if not isinstance(element, dict):
        raise ItemError("no_target", f"{word}: element {str(target)[:40]!r} is not in the observation")
    rect = element.get("bounding_client_rect")
    if not isinstance(rect, dict):
        raise ItemError("no_coordinates", f"{word}: the element has no rectangle")
    x, y, width, height = (_number(rect, side) for side in ("x", "y", "width", "height"))
    # What has no area can't be clicked.
    if not (width > 0 and height > 0):
        raise ItemError("bad_box", f"{word}: the rectangle has no area")
    point = to_unit(x + width / 2, FRAME[0]), to_unit(y + height / 2, FRAME[1])
    box, rules = box_to_unit((x, y, x + width, y + height), FRAME), ["centre_of_target"]
    if word == "hover":
        return [Hover(point)], box, False, rules
    if word == "fill":
        # What stood in the field before is replaced, and `Type` only adds.
        return [Click(point), Type(_text(kwargs, "value"))], box, bool(element.get("editable_value")), rules
    if word == "select_option" and speaks(space, SelectOption):
        return [SelectOption(point, _text(kwargs, "label"))], box, False, rules
    if word == "select_option":
        # Without the action of v2, choosing is clicking and typing.
        return [Click(point), Type(_text(kwargs, "label"))], box, True, rules
    return [Click(point)], box, word == "set_checked", rules


def _number(holder: Mapping[str, object], name: str) -> float:
    value = holder.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ItemError("missing_field", f"{name}: expected a number, found {value!r:.60}")
    return float(value)


def _text(holder: Mapping[str, object], name: str) -> str:
    value = holder.get(name)
    if not isinstance(value, str):
        raise ItemError("missing_field", f"{name}: expected a text, found {value!r:.60}")
    if not value:
        raise ItemError("empty_text", name)
    return value


def _document(raw: Raw, file: str) -> Any:
    """A file as JSON; None if it isn't there or can't be read."""
    data = raw.read_if_there(file)
    try:
        return json.loads(data) if data is not None else None
    except (ValueError, RecursionError):
        return None


@read_once(2, dict)
def _tasks(path: Path) -> dict[str, tuple[str, str]]:
    """identifier (else domain) → task and domain; rows without both are passed over."""
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_json", f"{path.name}: {error}") from error
    found: dict[str, tuple[str, str]] = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("task"), str) and isinstance(row.get("domain"), str):
            found.setdefault(str(row.get("identifier") or row["domain"]), (row["task"], row["domain"]))
    return found
