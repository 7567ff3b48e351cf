"""Android in the Wild: human traces on Android, one GZIP TFRecord `tf.Example` per *step*.

Link: https://github.com/google-research/google-research/tree/master/android_in_the_wild (arXiv 2307.10088)
Licence: code Apache-2.0; data CC BY 4.0 (unconfirmed).

A raw row (features of one Example, lists shortened):

    episode_id ["12172380859428428757"]  step_id [0]  episode_length [9]  goal_info ["Open a new Chrome private window"]
    android_api_level [31]  current_activity ["com.android.chrome/..."]  device_type ["PIXEL_3"]
    image/encoded [540·1080·3 raw bytes]  image/height [1080]  image/width [540]  image/channels [3]
    image/ui_annotations_positions [y, x, h, w, y, x, ...]  image/ui_annotations_text ["Fri,", ""]
    image/ui_annotations_ui_types ["TEXT", "ICON_PLAY"]
    results/action_type [4]  results/type_action [""]  results/yx_touch [0.776, 0.709]  results/yx_lift [0.776, 0.709]

| native | unified |
|---|---|
| 4, touch and lift ≤ 0.04 apart | `Click` at the touch point |
| 4, farther apart | `Scroll(touch, lift)`, direction from the points (finger up = down) |
| 3 | `Type` (empty text: quarantined) |
| 5 / 6 / 7 | `PressBack` / `PressHome` / `PressEnter` |
| 10 | `Finished`, episode_outcome success |
| 11 | `Finished`, episode_outcome infeasible (lossy) |
| any other code | quarantined as `unknown_action:<code>` |

Steps are grouped by `episode_id`, sorted by `step_id` and checked against `episode_length`; a hole is marked `gap_at`.
Split: `splits/standard.json` in the raw folder if it is there, else train.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from pipelines import tf_example, tfrecord
from pipelines.adapter import Adapter, Broken, Descriptor, Loss, Mapped, Raw, Record, RecordError, Screen
from pipelines.aitw_codes import GESTURE_LOSSES, gesture, ocr_elements
from pipelines.builders import EpisodeBuilder
from pipelines.images import encode_png
from pipelines.mapping import ItemError, notices, smallest_box, split_of, unknown_fields
from pipelines.tf_example import one, readable, texts
from pipelines.wire import ProtoError

SPLIT_LIST = "splits/standard.json"
MAX_OPEN_EPISODES = 16
"""Episodes held while a file is read. Their steps stand together in the official files, so one would do."""

_KNOWN = frozenset(
    {
        "episode_id", "step_id", "episode_length", "goal_info", "android_api_level", "current_activity",
        "device_type", "image/encoded", "image/height", "image/width", "image/channels",
        "image/ui_annotations_positions", "image/ui_annotations_text", "image/ui_annotations_ui_types",
        "results/action_type", "results/type_action", "results/yx_touch", "results/yx_lift",
    }
)  # fmt: skip
_IN_NATIVE = ("step_id", "results/action_type", "results/type_action", "results/yx_touch", "results/yx_lift",
              "current_activity", "device_type", "android_api_level")  # fmt: skip
_BINARY = frozenset({"image/encoded"})
_Numbered = list[tuple[int, dict[str, Any]]]
"""(number of the record in the file, features of the step)"""
_FILE = re.compile(r"(-\d+-of-\d+|\.tfrecords?(\.gz)?)$")

DESCRIPTOR = Descriptor(
    id="aitw",
    title="Android in the Wild",
    origin="https://github.com/google-research/google-research/tree/master/android_in_the_wild",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    language="en",
    objectives=("navigation",),
    size="715,142 episodes, 5,689,993 steps, 30,378 prompts",
    citation="Rawles et al., Android in the Wild, arXiv 2307.10088",
    frame="0..1, y first, origin top left, of the stored picture",
    record_unit="episode",
    item_unit="action",
    known_problems=(
        "repeated gestures and detours of human annotators",
        "TYPE steps with empty text",
        "GoogleApps is 86 % of the steps for 306 prompts",
        "a long press can't be told from a tap: there is no duration",
        "episodes are reused by AITZ, GUIAct-smartphone, Aguvis and LlamaTouch",
    ),
    loss=(
        *GESTURE_LOSSES,
        Loss("image/encoded", "PNG screen", "kept", "raw pixels, losslessly; a wrong byte count: row without picture"),
        Loss("image/ui_annotations_*", "screens.elements", "kept", "OCR text and icon kinds; y, x, h, w → box"),
        Loss("device_type, android_api_level", "-", "lossy", "stays in native_action"),
        Loss("current_activity", "app", "lossy", "package name if it is the same in all steps; stays in native_action"),
    ),
)


class AitwAdapter(Adapter):
    """Groups steps to episodes and maps the gesture codes."""

    descriptor = DESCRIPTOR
    version = 1

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per TFRecord file: `<subset>-00000-of-00321` or `*.tfrecord`."""
        return [(name,) for name in raw.files("**/*") if _FILE.search(name)]

    def side_files(self, raw: Raw) -> list[str]:
        """The split list."""
        return [SPLIT_LIST] if raw.path(SPLIT_LIST).is_file() else []

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Episodes in the order in which they are complete (or given up: the file ends, or too many stand open)."""
        for file in files:
            yield from _episodes(raw, file)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """Steps of one episode → rows. Raises `RecordError` if it has no goal."""
        steps: list[dict[str, Any]] = record.payload["steps"]
        try:
            goal = one(steps[0], "goal_info", str)
            length = one(steps[0], "episode_length", int)
        except RecordError as error:
            raise RecordError(error.reason, error.detail, items=len(steps)) from error
        if not goal.strip():
            raise RecordError("empty_text", "the goal is empty", items=len(steps))
        episode_id = str(record.native_id)
        builder = EpisodeBuilder(
            self.descriptor, record, episode_id=episode_id, instruction=goal, app=_app(steps), outcome=_outcome(steps),
            split=split_of(raw, SPLIT_LIST, episode_id) or "train",
        )  # fmt: skip
        found: list[tuple[str, str, Any]] = []
        _map_steps(builder, steps, goal, length, found)
        for name in sorted({name for step in steps for name in step} - _KNOWN):
            found += unknown_fields({name: [step.get(name) for step in steps]}, _KNOWN)
        return notices(builder.finish(), found)


def _episodes(raw: Raw, file: str) -> Iterator[Record | Broken]:
    """Stream a file. A finished episode leaves when a step of another one arrives, so a repeated last step is seen
    with its episode; beyond `MAX_OPEN_EPISODES` the oldest leaves as it is (its rest becomes a record of its own)."""
    open_steps: dict[str, _Numbered] = {}

    def leave(episode_id: str) -> Iterator[Record]:
        for take in _takes(open_steps.pop(episode_id)):
            yield Record(file, f"record {take[0][0]}", {"steps": [step for _, step in take]}, episode_id)

    for frame in tfrecord.scan(raw.path(file)):
        locator = f"record {frame.index}"
        if frame.data is None:
            native = {"offset": frame.offset}
            yield Broken(file, locator, str(frame.reason), frame.detail, items=int(frame.partial), native=native)
            continue
        try:
            step = readable(tf_example.parse(frame.data), _BINARY)
            episode_id = one(step, "episode_id", str)
        except ProtoError as error:
            yield Broken(file, locator, "bad_proto", str(error), items=1, native={"bytes": len(frame.data)})
            continue
        except RecordError as error:
            yield Broken(file, locator, error.reason, error.detail, items=1, native=step)
            continue
        for other in [name for name, steps in open_steps.items() if name != episode_id and _is_complete(steps)]:
            yield from leave(other)
        open_steps.setdefault(episode_id, []).append((frame.index, step))
        if len(open_steps) > MAX_OPEN_EPISODES:
            yield from leave(next(iter(open_steps)))
    for episode_id in list(open_steps):
        yield from leave(episode_id)


def _takes(numbered: _Numbered) -> list[_Numbered]:
    """An episode that stands in the file twice is two records; single steps that stand twice stay with theirs."""
    ids = [tuple(step.get("step_id", ())) for _, step in numbered]
    length = len(set(ids))
    if len(ids) % length or not _is_complete(numbered[:length]):
        return [numbered]
    takes = [numbered[at : at + length] for at in range(0, len(ids), length)]
    return takes if all(_is_complete(take) for take in takes) else [numbered]


def _is_complete(numbered: _Numbered) -> bool:
    ids = {tuple(step.get("step_id", ())) for _, step in numbered}
    return [len(ids)] == numbered[0][1].get("episode_length")


def _map_steps(
    builder: EpisodeBuilder, steps: list[dict[str, Any]], goal: str, length: int, found: list[tuple[str, str, Any]]
) -> None:
    """Add the steps in the order of their ids; mark holes; reject repeats and steps with no id of the episode."""
    expected = 0
    seen: dict[int, dict[str, Any]] = {}
    placeless: list[tuple[str, str, int, Any]] = []
    for number, step in sorted(((_step_id(step), step) for step in steps), key=lambda pair: pair[0]):
        native = {name: _bare(step[name]) for name in _IN_NATIVE if name in step}
        if not 0 <= number < length:
            detail = f"step_id {step.get('step_id')} in an episode of {length} steps"
            placeless.append(("bad_value", detail, number, native))
            continue
        if number in seen and seen[number] == step:
            placeless.append(("duplicate", f"an exact repeat of step_id {number}", number, native))
            continue
        if number in seen:
            detail = f"step_id {number} stands twice, with other content"
            builder.reject("duplicate", native=native, native_index=number, word="step", detail=detail)
            continue
        seen[number] = step
        if number > expected:
            builder.gap(f"missing_steps {expected}..{number - 1}")
        expected = number + 1
        _map_step(builder, step, native, number, goal, found)
    for reason, detail, number, native in placeless:  # last: there is no place where they would leave a gap
        builder.reject(reason, native=native, native_index=number, word="step", detail=detail)
    if len(seen) < length:
        lost = [number for number in range(min(length, 1000)) if number not in seen]
        found.append(("missing_steps", f"{len(seen)} of {length} steps are in the file", {"missing": lost}))


def _bare(values: list[Any]) -> Any:
    """A list of one as its value: how the source's own page writes it."""
    return values[0] if len(values) == 1 else values


def _step_id(step: dict[str, Any]) -> int:
    """-1 stands for an absent or unusable one."""
    try:
        return int(one(step, "step_id", int))
    except RecordError:
        return -1


def _map_step(
    builder: EpisodeBuilder, step: dict[str, Any], native: dict[str, Any], number: int, goal: str,
    found: list[tuple[str, str, Any]],
) -> None:  # fmt: skip
    word = "?"
    try:
        code = one(step, "results/action_type", int)
        word = str(code)
        if one(step, "goal_info", str) != goal:
            raise ItemError("bad_value", "the goal differs from that of the episode's first step", word)
        typed = "".join(texts(step, "results/type_action"))
        action, word, rules = gesture(code, step.get("results/yx_touch", ()), step.get("results/yx_lift", ()), typed)
    except (ItemError, RecordError) as error:
        word = error.word if isinstance(error, ItemError) else word
        builder.reject(error.reason, native=native, native_index=number, word=word, detail=error.detail)
        return
    screen = _screen(step, number, found)
    builder.add(
        action, native=native, native_index=number, word=word, screen=screen, rules=rules,
        status="lossy" if word == "STATUS_TASK_IMPOSSIBLE" else "kept",
        target_box=smallest_box(screen.elements, action),
    )  # fmt: skip


def _screen(step: dict[str, Any], number: int, found: list[tuple[str, str, Any]]) -> Screen:
    """The stored pixels as PNG. Coordinates are 0..1, so a row lives on without its picture (`bad_frame`)."""
    try:
        elements = _elements(step)
    except (ValueError, RecordError) as error:
        elements = []
        found.append(("bad_elements", f"step {number}: {error}", {"step_id": number}))
    pixels = step.get("image/encoded", [])
    try:
        height, width, channels = (one(step, f"image/{name}", int) for name in ("height", "width", "channels"))
        if channels != 3 or height < 1 or width < 1:
            raise RecordError("bad_frame", f"{height}x{width}x{channels}")
        if len(pixels) != 1 or not isinstance(pixels[0], bytes) or not pixels[0]:
            return Screen.load(None, elements, (width, height))
        if len(pixels[0]) != height * width * channels:
            raise RecordError("bad_frame", f"{len(pixels[0])} bytes for {height}x{width}x{channels}")
    except RecordError:
        # The size itself is in doubt, so none is written.
        return Screen(None, None, None, None, tuple(elements), "bad_frame")
    array = np.frombuffer(pixels[0], np.uint8).reshape(height, width, channels)
    return Screen.load(encode_png(array), elements, (width, height))


def _elements(step: dict[str, Any]) -> list[dict[str, Any]]:
    flat = step.get("image/ui_annotations_positions", [])
    if len(flat) % 4:
        raise ValueError(f"{len(flat)} numbers in ui_annotations_positions: expected a multiple of 4")
    boxes = [flat[at : at + 4] for at in range(0, len(flat), 4)]
    words, types = (texts(step, f"image/ui_annotations_{name}") for name in ("text", "ui_types"))
    return ocr_elements(boxes, words, types, (1.0, 1.0))


def _app(steps: list[dict[str, Any]]) -> str | None:
    """Package name, if all steps name the same one."""
    packages = {str(step.get("current_activity", [""])[0]).partition("/")[0] for step in steps}
    return packages.pop() or None if len(packages) == 1 else None


def _outcome(steps: list[dict[str, Any]]) -> str | None:
    """What the annotator said at the end: code 10 success, 11 infeasible, else unknown."""
    codes = {tuple(step.get("results/action_type", ())) for step in steps}
    if (11,) in codes:
        return "infeasible"
    return "success" if (10,) in codes else None
