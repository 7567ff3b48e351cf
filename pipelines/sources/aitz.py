"""Android in the Zoo: a part of AITW, cleaned and with model-written thoughts; one JSON file per episode.

Link: https://github.com/IMNearth/CoAT (arXiv 2403.02713)
Licence: Apache-2.0 (the pictures come from AITW).

A raw row (one step of `train/google_apps/GOOGLE_APPS-523638528775825151/GOOGLE_APPS-523638528775825151.json`):

    {"episode_id": "523638528775825151", "episode_length": 4, "step_id": 2,
     "instruction": "open app \\"Clock\\" (install if not already installed)",
     "ui_positions": "[[34, 236, 16, 5], ...]", "ui_text": "[\\"\\", ...]", "ui_types": "[\\"ICON_...\\", ...]",
     "result_action_type": 4, "result_action_text": "",
     "result_touch_yx": "[0.498, 0.607]", "result_lift_yx": "[0.497, 0.607]",
     "image_path": "google_apps/GOOGLE_APPS-.../GOOGLE_APPS-..._2.png", "image_full_path": "...",
     "coat_screen_desc": "...", "coat_action_think": "...", "coat_action_desc": "...", "coat_action_result": "..."}

| native | unified |
|---|---|
| codes 3, 4, 5, 6, 7, 10, 11 | as in `aitw.py`: the click point is the *touch* point too (CoAT takes the lift point) |
| `coat_action_think` / `coat_action_result` / `coat_action_desc` | thought / conclusion / step_instruction |
| `ui_positions` (y, x, h, w in *pixels* of the shipped picture), `ui_text`, `ui_types` (JSON in strings) | elements |

The words of `coat_action_desc` name the finger's direction ("scroll up" = finger up): the direction of a Scroll is
computed from its points, never from words. Split: the folder, else the path that the row states; test wins.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from typing import Any

from pipelines.adapter import Adapter, Broken, Descriptor, Loss, Mapped, Raw, Record, RecordError, Screen
from pipelines.aitw_codes import GESTURE_LOSSES, gesture, ocr_elements
from pipelines.builders import EpisodeBuilder
from pipelines.mapping import ItemError, is_text, notices, smallest_box, unknown_fields

_KNOWN = frozenset(
    {
        "episode_id", "episode_length", "step_id", "instruction", "ui_positions", "ui_text", "ui_types",
        "result_action_type", "result_action_text", "result_touch_yx", "result_lift_yx", "image_path",
        "image_full_path", "coat_screen_desc", "coat_action_think", "coat_action_desc", "coat_action_result",
    }
)  # fmt: skip
_IN_NATIVE = ("step_id", "result_action_type", "result_action_text", "result_touch_yx", "result_lift_yx",
              "coat_screen_desc", "image_path")  # fmt: skip
_TEXTS = {"thought": "coat_action_think", "conclusion": "coat_action_result", "step_instruction": "coat_action_desc"}

DESCRIPTOR = Descriptor(
    id="aitz",
    title="Android in the Zoo (CoAT)",
    origin="https://github.com/IMNearth/CoAT",
    licence="Apache-2.0",
    platforms=("mobile",),
    language="en",
    objectives=("navigation",),
    size="2,504 episodes, 18,643 steps (train 1,998 / 13,919, test 506 / 4,724)",
    citation="Zhang et al., Android in the Zoo: Chain-of-Action-Thought for GUI Agents, arXiv 2403.02713",
    frame="gestures 0..1, y first; element boxes (y, x, h, w) in pixels of the shipped picture; origin top left",
    record_unit="episode",
    item_unit="action",
    known_problems=(
        "thoughts are written by a model, a few contradict the action",
        "poor OCR text",
        "all episodes come from AITW; Aguvis and GUIAct-smartphone hold copies",
        "the words scroll up/down name the finger's direction, the opposite of SeeClick's AITW",
    ),
    loss=(
        *GESTURE_LOSSES,
        Loss("coat_action_think", "thought", "kept"),
        Loss("coat_action_result", "conclusion", "kept"),
        Loss("coat_action_desc", "step_instruction", "kept", "verbatim: its scroll words name the finger's direction"),
        Loss("coat_screen_desc", "-", "lossy", "no column for it; stays in native_action"),
        Loss("ui_positions, ui_text, ui_types", "screens.elements", "kept", "pixels of the shipped picture → 0..1000"),
    ),
)

_PATHS = ("image_path", "image_full_path")
"""Where a copy of an episode lies says nothing about what it is."""


class AitzAdapter(Adapter):
    """One record per episode file."""

    descriptor = DESCRIPTOR
    version = 1

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per folder of episodes (`train/google_apps`, ...) with its pictures: what changes in one folder
        costs the others nothing."""
        folders: dict[str, list[str]] = {}
        for name in raw.files("**/*"):
            folders.setdefault(posixpath.dirname(posixpath.dirname(name)), []).append(name)
        return [tuple(names) for _, names in sorted(folders.items()) if any(name.endswith(".json") for name in names)]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The file's list of steps. A file that is no such list counts 0 items: how many it held can't be known."""
        for file in (name for name in files if name.endswith(".json")):
            try:
                steps = json.loads(raw.read(file))
            except (ValueError, RecursionError) as error:
                yield Broken(file, "file", "bad_json", str(error), native={"bytes": len(raw.read(file))})
                continue
            if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
                detail = f"expected a list of steps (objects), found {type(steps).__name__}"
                yield Broken(file, "file", "bad_value", detail, native=steps)
                continue
            ids = {step["episode_id"] for step in steps if isinstance(step.get("episode_id"), str)}
            content = [{name: value for name, value in step.items() if name not in _PATHS} for step in steps]
            yield Record(file, "file", steps, ids.pop() if len(ids) == 1 else None, content)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """Steps of one file → rows. Raises `RecordError` if the steps don't name one episode and one instruction."""
        steps: list[dict[str, Any]] = record.payload
        goal = _same(steps, "instruction")
        episode_id = _same(steps, "episode_id")
        builder = EpisodeBuilder(
            self.descriptor, record, episode_id=episode_id, instruction=goal,
            split=_split(record.file, steps), outcome=_outcome(steps),
        )  # fmt: skip
        found: list[tuple[str, str, Any]] = []
        expected, seen = 0, set[int]()
        for step in sorted(steps, key=_step_id):
            number = _step_id(step)
            native = {name: step[name] for name in _IN_NATIVE if name in step}
            if number < 0 or number in seen:
                reason = "duplicate" if number in seen else "missing_field"
                builder.reject(reason, native=native, native_index=number, word="step", detail="step_id")
                continue
            seen.add(number)
            if number > expected:
                builder.gap(f"missing_steps {expected}..{number - 1}")
            expected = number + 1
            _map_step(builder, step, native, number, _Files(raw, record.file), found)
        length = steps[0].get("episode_length")
        if length != len(seen):
            detail = f"{len(seen)} of {length!r:.20} steps are in the file"
            found.append(("missing_steps", detail, {"found": sorted(seen)}))
        for name in sorted({name for step in steps for name in step} - _KNOWN):
            found += unknown_fields({name: [step.get(name) for step in steps]}, _KNOWN)
        return notices(builder.finish(), found)


def _same(steps: list[dict[str, Any]], name: str) -> str:
    """The text that all steps share under `name`."""
    values = {json.dumps(step.get(name)) for step in steps}
    value = steps[0].get(name)
    if None in (step.get(name) for step in steps):
        raise RecordError("missing_field", f"expected {name!r} in every step", items=len(steps))
    if len(values) != 1 or not isinstance(value, str) or not is_text(value):
        raise RecordError("bad_value", f"{name}: expected one text for all steps", items=len(steps))
    if not value.strip():
        raise RecordError("empty_text", f"{name} is empty", items=len(steps))
    return value


def _split(file: str, steps: list[dict[str, Any]]) -> str:
    """train or test, from the folder or from the path that the rows state; test wins, so no test step trains."""
    stated = {file.partition("/")[0]}
    for step in steps:
        path = step.get("image_full_path")
        stated.add(str(path).rpartition("aitw_with_gpt/")[2].partition("/")[0])
    return "test" if "test" in stated else "train"


def _outcome(steps: list[dict[str, Any]]) -> str | None:
    codes = [step.get("result_action_type") for step in steps]
    return "infeasible" if 11 in codes else "success" if 10 in codes else None


def _step_id(step: dict[str, Any]) -> int:
    """-1 stands for an absent or unusable one."""
    value = step.get("step_id")
    return value if type(value) is int and value >= 0 else -1


class _Files:
    """Where the pictures of an episode lie."""

    def __init__(self, raw: Raw, file: str) -> None:
        self._raw = raw
        self._folder = posixpath.dirname(file)
        self._top = file.partition("/")[0] if "/" in file else ""

    def picture(self, step: dict[str, Any]) -> bytes | None:
        """Beside the JSON file, else at `image_path` below train or test. Raises `RecordError("unsafe_path")`."""
        name = step.get("image_path")
        if not isinstance(name, str) or not name:
            return None
        whole = posixpath.join(self._top, name)
        self._raw.path(whole)  # a path that leads out of the folder is refused, even if its last part would be found
        beside = posixpath.join(self._folder, posixpath.basename(name))
        return self._raw.read_if_there(beside) or self._raw.read_if_there(whole)


def _map_step(
    builder: EpisodeBuilder, step: dict[str, Any], native: dict[str, Any], number: int, files: _Files,
    found: list[tuple[str, str, Any]],
) -> None:  # fmt: skip
    word = "?"
    try:
        code = _field(step, "result_action_type", int)
        word = str(code)
        touch, lift = (_pair(step, name) for name in ("result_touch_yx", "result_lift_yx"))
        action, word, rules = gesture(code, touch, lift, _field(step, "result_action_text", str))
        data = files.picture(step)
        words = {place: _optional(step, name) for place, name in _TEXTS.items()}
    except (ItemError, RecordError) as error:
        word = error.word if isinstance(error, ItemError) and error.word != "?" else word
        builder.reject(error.reason, native=native, native_index=number, word=word, detail=error.detail)
        return
    screen = Screen.load(data, normalised=True)
    if screen.info is not None:
        try:
            elements = _elements(step, (screen.info.width_px, screen.info.height_px))
            screen = Screen(screen.width_px, screen.height_px, screen.data, screen.info, tuple(elements), None)
        except (ValueError, TypeError, RecursionError) as error:
            broken = {name: step.get(name) for name in ("ui_positions", "ui_text", "ui_types")}
            found.append(("bad_elements", f"step {number}: {error}", broken))
    builder.add(
        action, native=native, native_index=number, word=word, screen=screen, rules=rules,
        status="lossy" if word == "STATUS_TASK_IMPOSSIBLE" else "kept",
        target_box=smallest_box(screen.elements, action), **words,
    )  # fmt: skip


def _field(step: dict[str, Any], name: str, kind: type) -> Any:
    if name not in step:
        raise ItemError("missing_field", f"expected {name!r}")
    if type(step[name]) is not kind:
        raise ItemError("bad_value", f"{name}: expected {kind.__name__}, found {step[name]!r:.60}")
    return step[name]


def _optional(step: dict[str, Any], name: str) -> str | None:
    value = step.get(name)
    if value is not None and (not isinstance(value, str) or not is_text(value)):
        raise ItemError("bad_value", f"{name}: expected text, found {value!r:.60}")
    return value or None


def _pair(step: dict[str, Any], name: str) -> tuple[float, float]:
    """A JSON string `[y, x]` (parsed a second time)."""
    try:
        y, x = json.loads(_field(step, name, str))
        return float(y), float(x)
    except ItemError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise ItemError("bad_value", f"{name}: expected a JSON pair, found {step[name]!r:.60}") from error


def _elements(step: dict[str, Any], size_px: tuple[int, int]) -> list[dict[str, Any]]:
    """The nested JSON strings, parsed a second time. Raises `ValueError` or `TypeError` if they are something else."""
    boxes, texts, types = (json.loads(step.get(name, "[]")) for name in ("ui_positions", "ui_text", "ui_types"))
    if not all(isinstance(value, str) and is_text(value) for value in (*texts, *types)):
        raise ValueError("ui_text and ui_types: expected lists of text")
    return ocr_elements(boxes, texts, types, size_px)
