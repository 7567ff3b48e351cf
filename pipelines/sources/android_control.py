"""AndroidControl: human demonstrations in 833 apps, one GZIP TFRecord `tf.Example` per *episode*.

A raw row (features of one Example; n actions, n+1 screens, action i belongs to screen i):

    episode_id [0]  goal ["Open the Zoho Meet app , view the scheduled meetings ."]
    screenshots [PNG, PNG, PNG, PNG]  screenshot_widths [1080, ...]  screenshot_heights [2400, ...]
    accessibility_trees [AndroidAccessibilityForest proto, ...]
    actions ['{"action_type":"open_app","app_name":"Zoho Meeting"}', '{"action_type":"wait"}',
             '{"action_type":"click","x":540,"y":390}']
    step_instructions ["Open the Zoho Meet app", "Open the Zoho Meet app", "Go to the Past section"]

| native | unified |
|---|---|
| `click` x, y (pixels of that step's screen) | `Click` |
| `long_press` x, y | `LongPress` |
| `scroll` direction | `Scroll(direction=...)`: the raw word names what the *content* shows, as ours does; no points |
| `open_app` app_name | `Launch(app=...)` |
| `input_text` text | `Type` (no Enter implied) |
| `navigate_home` / `navigate_back` | `PressHome` / `PressBack` |
| `wait` | `Wait` |
| `type` x, y, text (an older form) | `Click`, `Type`, `PressEnter` on one screen (lossy) |
| end of the list | `Finished` on the last screen, made by the rule `finish_synthesised`; not counted as an item |
| any other word | quarantined as `unknown_action:<word>` |

Split: `splits.json` in the raw folder (test ids never train); without it train.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.mapping import items
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.points import in_frame
from pipelines.native import accessibility, tf_example
from pipelines.native.tf_example import one, readable, texts
from pipelines.native.wire import ProtoError
from schemas import action_types
from schemas.action_types import DIRECTIONS

SPLIT_LIST = "splits.json"
_FILE = re.compile(r"(-\d+-of-\d+|\.tfrecords?(\.gz)?)$")
_KNOWN = frozenset(
    {
        "episode_id",
        "goal",
        "screenshots",
        "accessibility_trees",
        "screenshot_widths",
        "screenshot_heights",
        "actions",
        "step_instructions",
    }
)
_BINARY = frozenset({"screenshots", "accessibility_trees"})
_ARGUMENTS = {
    "click": ("x", "y"),
    "long_press": ("x", "y"),
    "scroll": ("direction",),
    "open_app": ("app_name",),
    "input_text": ("text",),
    "navigate_home": (),
    "navigate_back": (),
    "wait": (),
    "type": ("x", "y", "text"),
}
_BARE: dict[str, Callable[[], action_types.Action]] = {
    "navigate_home": action_types.PressHome,
    "navigate_back": action_types.PressBack,
    "wait": action_types.Wait,
}
_ASPECT_TOLERANCE = 0.02
"""Stated size and picture may differ in scale, not in shape: a turned screen would turn every point."""

DESCRIPTOR = Descriptor(
    id="android_control",
    title="AndroidControl",
    origin="https://github.com/google-research/google-research/tree/master/android_control",
    licence="Apache-2.0",
    platforms=("mobile",),
    size="15,283 episodes (13,603 train, 137 validation, 1,543 test), 833 apps",
    citation="Li et al., On the Effects of Data Scale on UI Control Agents, arXiv 2406.03679",
    frame="pixels, x first, origin top left, of that step's own screen (screenshot_widths, screenshot_heights)",
    record_unit="episode",
    known_problems=(
        "wait or back before open_app, repeated attempts to open an app",
        "ambiguous and wrong labels in the test split (AndroidControl-Curated, arXiv 2510.18488)",
        "step instructions that name another action than the recorded one",
        "clicks outside any node of the tree",
        "several re-packs invert the scroll direction; the raw word is the content direction on both axes",
        "episode ids are reused by Aguvis, OS-Atlas, UI-Genie and UI-S1",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("long_press", "LongPress", "kept", "no duration in the source"),
        Loss("scroll", "Scroll", "kept", "direction only: the source has no points, none are invented"),
        Loss("open_app", "Launch", "kept"),
        Loss("input_text", "Type", "kept", "empty text is quarantined"),
        Loss("navigate_home", "PressHome", "kept"),
        Loss("navigate_back", "PressBack", "kept"),
        Loss("wait", "Wait", "kept", "no duration in the source"),
        Loss("type", "Click, Type, PressEnter", "lossy", "older form; the screens in between don't exist"),
        Loss("(end of list)", "Finished", "kept", "synthesised on the last screen (finish_synthesised), not an item"),
        Loss("other words", "-", "dropped", "unknown_action:<word>; an unseen argument is unknown_field:<name>"),
        Loss("screenshots", "screens", "kept", "byte for byte"),
        Loss(
            "accessibility_trees",
            "screens.elements",
            "lossy",
            "visible nodes with a label or a reaction: box, class, text, name; hierarchy, state and ids are left out",
        ),
        Loss("step_instructions", "step_instruction", "kept"),
    ),
    download=Download(url="gs://gresearch/android_control"),
)


class AndroidControlAdapter(Adapter):
    """One record per episode; the last screen gets a synthesised Finished."""

    descriptor = DESCRIPTOR
    items_at = ("actions",)
    side_lists = (SPLIT_LIST,)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per TFRecord file: `android_control-00000-of-00020` or `*.tfrecord`."""
        return [(name,) for name in raw.files("**/*") if _FILE.search(name)]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode at a time. How many actions a damaged one held can't be known: it counts 0 items."""
        for file in files:
            for found in tf_example.examples(raw, file, lost_items=0):
                if isinstance(found, Broken):
                    yield found
                    continue
                number, features = found[0], readable(found[1], _BINARY)
                ids = features.get("episode_id")
                native_id = str(ids[0]) if ids and isinstance(ids[0], int) else None
                yield Record(file, f"record {number}", features, native_id)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → n step rows and the last screen. Raises `RecordError` if its lists don't fit together."""
        features: dict[str, Any] = record.payload
        actions = features.get("actions", [])
        with items.refusing(len(actions)):
            episode_id = str(one(features, "episode_id", int))
            goal = one(features, "goal", str)
            if not goal.strip():
                raise RecordError("empty_text", "the goal is empty")
            instructions = texts(features, "step_instructions")
            _check_lengths(features, len(actions))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=episode_id,
            instruction=goal,
            split=items.split_of(raw, SPLIT_LIST, episode_id) or "train",
        )
        found: list[tuple[str, str, Any]] = []
        # Screen k is what action k was taken on; the one after the last shows the result.
        for index, raw_action in enumerate(actions):
            screen = _screen(features, index, found)
            _add(builder, index, raw_action, screen, instructions[index] if instructions else None)
        # The source has no action that ends an episode.
        builder.terminal(action_types.Finished(), _screen(features, len(actions), found), rules=("finish_synthesised",))
        return items.notices(builder.finish(), found + items.unknown_fields(features, _KNOWN))


def _check_lengths(features: dict[str, Any], actions: int) -> None:
    """n actions, n+1 screens (or none of a kind): otherwise an action's screen would be a guess."""
    if not actions:
        raise RecordError("missing_field", "expected a feature 'actions'")
    for name, expected in (
        ("screenshots", actions + 1),
        ("screenshot_widths", actions + 1),
        ("screenshot_heights", actions + 1),
        ("accessibility_trees", actions + 1),
        ("step_instructions", actions),
    ):
        if len(features.get(name, [])) not in (0, expected):
            raise RecordError("bad_value", f"{len(features[name])} {name} for {actions} actions: expected {expected}")
    for name in sorted(_BINARY):
        if not all(isinstance(value, bytes) for value in features.get(name, [])):
            raise RecordError("bad_value", f"{name}: expected a bytes list")


def _screen(features: dict[str, Any], index: int, found: list[tuple[str, str, Any]]) -> RecordScreen:
    """Screen `index`: its PNG, its stated size (else that of the picture), the elements of its tree."""
    widths, heights = features.get("screenshot_widths", []), features.get("screenshot_heights", [])
    stated = (widths[index], heights[index]) if widths and heights else None
    # A stated size of 0 is none.
    size = stated if stated and all(isinstance(side, int) and side > 0 for side in stated) else None
    data = features["screenshots"][index] if features.get("screenshots") else None
    bare = RecordScreen.load(data or None, (), size, normalised=True)
    trees = features.get("accessibility_trees")
    if not trees or not trees[index] or bare.width_px is None or bare.height_px is None:
        return bare
    try:
        elements = accessibility.elements(accessibility.decode(trees[index]), (bare.width_px, bare.height_px))
    except ProtoError as error:
        found.append(("bad_tree", f"screen {index}: {error}", {"screen": index, "tree": trees[index]}))
        return bare
    return RecordScreen(bare.width_px, bare.height_px, bare.data, bare.info, tuple(elements), bare.problem)


def _add(builder: EpisodeBuilder, index: int, raw_action: Any, screen: RecordScreen, instruction: str | None) -> None:
    word, native = "?", raw_action
    try:
        try:
            native = json.loads(raw_action)
        except (ValueError, TypeError, RecursionError) as error:
            raise items.ItemError("bad_json", str(error)) from error
        word = native["action_type"] if isinstance(native, dict) and isinstance(native.get("action_type"), str) else "?"
        actions = to_actions(native, screen)
    except items.ItemError as error:
        counted = word if word in _ARGUMENTS else "other words"
        builder.reject(error.reason, native=native, native_index=index, word=counted, detail=error.detail)
        return
    pointed = word in ("click", "long_press", "type")
    # The older `type` names a point as well, and ends with Enter.
    mapped = MappedAction(
        actions,
        word,
        word == "type",
        {"type": ("older_type_form",), "scroll": ("content_direction",)}.get(word, ()),
        items.smallest_box(screen.elements, actions[0]) if pointed else None,
    )
    builder.take(mapped, native, index, screen, step_instruction=instruction)


def to_actions(native: object, screen: RecordScreen) -> list[action_types.Action]:
    """One native action (parsed JSON) on its screen → our actions (more than one only for the older `type`).

    Raises `ItemError`: missing_field, unknown_action, unknown_field, bad_value, bad_frame, off_screen, empty_text.
    """
    if not isinstance(native, dict):
        raise items.ItemError("bad_value", f"expected an object, found {type(native).__name__}")
    word = native.get("action_type")
    if not isinstance(word, str):
        raise items.ItemError("missing_field", "expected a text 'action_type'")
    if word not in _ARGUMENTS:
        raise items.ItemError(f"unknown_action:{word[:60]}", f"expected one of {', '.join(_ARGUMENTS)}")
    for name in _ARGUMENTS[word]:
        if name not in native:
            raise items.ItemError("missing_field", f"{word}: expected {name!r}")
    # What we don't know could change the meaning, so it isn't guessed.
    for name in sorted(set(native) - {"action_type", *_ARGUMENTS[word]}):
        raise items.ItemError(f"unknown_field:{name[:60]}", f"{word} with an argument that may change its meaning")
    if word in ("click", "long_press", "type"):
        point = _point(native, screen)
        if word == "type":
            return [action_types.Click(point), action_types.Type(_words(native, "text")), action_types.PressEnter()]
        return [action_types.Click(point) if word == "click" else action_types.LongPress(point)]
    if word == "scroll":
        if native["direction"] not in DIRECTIONS:
            found = str(native["direction"])[:40]
            raise items.ItemError("bad_value", f"direction: expected one of {DIRECTIONS}, found {found!r}")
        return [action_types.Scroll(direction=native["direction"])]
    if word == "open_app":
        return [action_types.Launch(app=_words(native, "app_name"))]
    if word == "input_text":
        return [action_types.Type(_words(native, "text"))]
    return [_BARE[word]()]


def _words(native: dict[str, Any], name: str) -> str:
    value = native[name]
    if not isinstance(value, str):
        raise items.ItemError("bad_value", f"{name}: expected text, found {value!r:.60}")
    if not value:
        raise items.ItemError("empty_text", f"{native['action_type']} with an empty {name}")
    if not items.is_text(value):
        raise items.ItemError("bad_value", f"{name}: holds a lone surrogate, which is no Unicode text")
    return value


def _point(native: dict[str, Any], screen: RecordScreen) -> tuple[int, int]:
    x_px, y_px = native["x"], native["y"]
    for name, value in (("x", x_px), ("y", y_px)):
        if not items.is_number(value):
            raise items.ItemError("bad_value", f"{name}: expected pixels, found {value!r:.60}")
    size = sides_of(screen, "pixels, but neither a size nor a readable picture of the screen", "?")
    # Pixels are of the stated size, which must have the picture's shape to mean anything.
    if screen.info is not None:
        stated, real = size[0] * screen.info.height_px, size[1] * screen.info.width_px
        if abs(stated - real) > _ASPECT_TOLERANCE * real:
            picture = f"{screen.info.width_px}x{screen.info.height_px}"
            raise items.ItemError("bad_frame", f"stated {size[0]}x{size[1]} px, picture {picture}")
    return in_frame(x_px, y_px, size)
