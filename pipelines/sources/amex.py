"""AMEX: tasks on 110 Android apps, with the elements of many screens annotated beside them.

A raw episode `instruction_anno/<name>.json` (made up, shortened); pictures lie in `screenshot/`, the elements of a
screen in `element_anno/<picture's stem>.json`:

    {"episode_id": "7", "instruction": "Find a tea pot", "steps": [
        {"step_id": 1, "image_path": "2024_0a1b…-1.png", "action": "TAP", "touch_coord": [720, 1500],
         "lift_coord": [720, 1500], "type_text": "", "device_dim": [1440, 3120]}]}

| native | unified |
|---|---|
| TAP | Click(touch) |
| SWIPE | Scroll(touch, lift), direction from the points, which are the finger's |
| TYPE | Type; an empty one is quarantined |
| PRESS_BACK, PRESS_HOME, PRESS_ENTER | PressBack, PressHome, PressEnter |
| TASK_COMPLETE | Finished |
| TASK_IMPOSSIBLE | Finished (lossy: why isn't said); the episode's outcome is infeasible |

Pixels of the screenshot, x first: divided by `device_dim`, else by the picture's own size; a step with a point and
neither is quarantined (`bad_frame`). The episode's id is the 32 hex digits in its file's name, by which its
copies are known.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import sides_of, stated_size
from pipelines.mapping.items import (
    ItemError,
    by_number,
    is_text,
    list_of,
    notices,
    refusing,
    smallest_box,
    text_of,
    unknown_fields,
)
from pipelines.mapping.points import pixel_point, swipe
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, json_document
from schemas.actions import Action, Click, Finished, PressBack, PressEnter, PressHome, Type

BARE: dict[str, Action] = {
    "PRESS_BACK": PressBack(),
    "PRESS_HOME": PressHome(),
    "PRESS_ENTER": PressEnter(),
    "TASK_COMPLETE": Finished(""),
    "TASK_IMPOSSIBLE": Finished(""),
}
FOLDERS = ("screenshot/", "screenshots/")
TREES = ("element_anno/", "element_anno/element_anno/")
_HEX = re.compile(r"[0-9a-f]{32}")
_EPISODE = frozenset({"episode_id", "instruction", "steps"})
_STEP = frozenset(
    {
        "step_id",
        "image_path",
        "action",
        "touch_coord",
        "lift_coord",
        "type_text",
        "device_dim",
        "package_name",
        "need_human_check",
        "interest_region",
    }
)

DESCRIPTOR = Descriptor(
    id="amex",
    title="AMEX (Android Multi-annotation EXpo)",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    size="2,946 instructions, 104,000 screenshots, 1.66 million elements, 110 apps",
    citation="Chai et al., AMEX: Android Multi-annotation Expo Dataset for Mobile GUI Agents, arXiv 2407.17490",
    frame="pixels of the original screenshot, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "picture numbers are not step numbers",
        "most functionality texts are empty",
        "the same episodes in UI-Genie, LearnGUI and Aguvis",
        "a few steps type nothing, and 19 episodes of a re-pack have a gap",
    ),
    loss=(
        Loss("TAP", "Click", "kept"),
        Loss("SWIPE", "Scroll", "kept"),
        Loss("TYPE", "Type", "kept", "an empty text is quarantined"),
        Loss("PRESS_BACK", "PressBack", "kept"),
        Loss("PRESS_HOME", "PressHome", "kept"),
        Loss("PRESS_ENTER", "PressEnter", "kept"),
        Loss("TASK_COMPLETE", "Finished", "kept"),
        Loss("TASK_IMPOSSIBLE", "Finished", "lossy", "why it is impossible isn't said"),
        Loss("?", "-", "dropped", "unknown_action:<word>, or a step without one"),
        Loss("functionality, page_caption", "screens.elements", "lossy", "the caption of a page has no column"),
    ),
    download=Download(
        "Yuxiang007/AMEX", unpack=(("instruction_anno.zip", "."), ("element_anno.zip", "."), ("screenshot.z*", "."))
    ),
)


class AmexAdapter(Adapter):
    """One record per episode file."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("steps",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Episode files by the first digits of their ids."""
        groups: dict[str, list[str]] = {}
        for name in raw.files("**/*.json"):
            if "element_anno/" not in name:
                groups.setdefault((id_of(name) or name)[:2], []).append(name)
        return [tuple(group) for _, group in sorted(groups.items())]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode a file."""
        for file in files:
            identifier = id_of(file)
            yield from json_document(raw, file, of_id=lambda row, name=identifier: name, count=count_of('"action"'))  # type: ignore[misc]

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text."""
        row = record.payload
        steps = list_of(row, "steps")
        with refusing(len(steps)):
            goal = text_of(row, "instruction", "?")
        if record.native_id is None:
            raise RecordError("missing_field", f"no 32 hex digits in {record.file!r:.80}", len(steps))
        # How it ended is said by the last step alone.
        final = by_number(steps, "step_id")[-1].step if steps else None
        last = final.get("action") if isinstance(final, dict) else None
        outcome = {"TASK_COMPLETE": "success", "TASK_IMPOSSIBLE": "infeasible"}.get(str(last))
        builder = EpisodeBuilder(self.descriptor, record, instruction=goal, outcome=outcome)
        found = unknown_fields(row, _EPISODE)
        for place, numbered in builder.numbered(steps, "step_id"):
            step = numbered.step
            _step(builder, raw, record.file, step, place)
            found += unknown_fields(step, _STEP) if isinstance(step, dict) else []
        return notices(builder.finish(), found)


def id_of(file: str) -> str | None:
    """The 32 hex digits in a file's name, by which copies of an episode are known."""
    match = _HEX.search(posixpath.basename(file).lower())
    return match[0] if match else None


def _step(builder: EpisodeBuilder, raw: Raw, file: str, step: object, place: int) -> None:
    word = "?"
    try:
        if not isinstance(step, dict):
            raise ItemError("bad_value", f"expected an object, found {type(step).__name__}", word)
        known = ("TAP", "SWIPE", "TYPE", *BARE)
        said = str(step.get("action"))
        if said not in known:
            raise ItemError(f"unknown_action:{said[:60]}", f"action: expected one of {known}", word)
        word = said
        size = stated_size(step.get("device_dim"), "device_dim", word)
        screen = screen_of(raw, file.rpartition("instruction_anno/")[0], step.get("image_path"), size)
        action, rules = _action(step, word, screen)
    except (ItemError, RecordError) as error:
        builder.reject(error.reason, native=step, native_index=place, word=word, detail=error.detail)
        return
    mapped = MappedAction([action], word, word == "TASK_IMPOSSIBLE", rules, smallest_box(screen.elements, action))
    builder.take(mapped, step, place, screen)


def screen_of(raw: Raw, base: str, name: object, size: tuple[int, int] | None) -> RecordScreen:
    """A step's screen with its elements; its frame is `size`, else the picture's size, else unknown. `base` is the
    folder that holds the pictures' folder and `element_anno/`, `name` the picture's native name."""
    data = raw.first(f"{base}{folder}{name}" for folder in FOLDERS) if isinstance(name, str) else None
    screen = RecordScreen.load(data, (), size, normalised=True)
    if screen.width_px is None or screen.height_px is None or not isinstance(name, str):
        return screen
    # The annotation of a screen has the picture's name.
    tree = raw.first(f"{base}{folder}{posixpath.splitext(name)[0]}.json" for folder in TREES)
    elements = _elements(tree, (screen.width_px, screen.height_px)) if tree else []
    return RecordScreen.load(data, elements, (screen.width_px, screen.height_px))


def _elements(data: bytes, size: tuple[int, int]) -> list[dict[str, Any]]:
    """Annotated elements with a usable box; what a tree that can't be read holds is passed over."""
    try:
        listed = json.loads(data)["clickable_elements"]
    except (ValueError, KeyError, TypeError):
        return []
    elements = []
    for element in listed if isinstance(listed, list) else []:
        try:
            box = list(unit_box(element["bbox"], size, "?"))
        except (ItemError, KeyError, TypeError):
            continue
        words = [text for text in element.get("xml_desc") or [] if isinstance(text, str)]
        said = element.get("functionality")
        # What it does tells more than the words that stand on it.
        name = said if isinstance(said, str) and said.strip() else " ".join(words)
        if is_text(name):
            elements.append({"box": box, "role": "", "text": "", "name": name.strip()})
    return elements


def _action(step: dict[str, Any], word: str, screen: RecordScreen) -> tuple[Action, list[str]]:
    if word in BARE:
        return BARE[word], []
    if word == "TYPE":
        text = step.get("type_text")
        if not isinstance(text, str) or not is_text(text):
            raise ItemError("missing_field", f"type_text: expected a text, found {text!r:.60}", word)
        if not text:
            raise ItemError("empty_text", "type_text is empty", word)
        return Type(text), []
    # Pixels of the device where its size is told, else of the picture.
    size = sides_of(screen, "neither device_dim nor a picture says how large the screen is", word)
    start = pixel_point(step.get("touch_coord"), size, word)
    if word == "TAP":
        return Click(start), []
    end = pixel_point(step.get("lift_coord"), size, word)
    return swipe(start, end, word), ["direction_from_points"]
