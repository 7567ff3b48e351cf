"""Android Instruct (AndroidLab): steps on phones as chats, with the screen as compressed XML or with painted marks.

Link: https://github.com/THUDM/Android-Lab (docs/instruction_tuning.md)

A raw element of a JSON array (made up; which keys the files have isn't confirmed, so a chat under `messages` or
`conversations` is read, and anything else refused):

    {"messages": [{"role": "user", "content": "Task: open the clock\\n…"},
                  {"role": "assistant", "content": "Action: tap(40, 80, 120, 160)  # the icon"}], "images": ["7.png"]}

| native | unified |
|---|---|
| tap, long_press, do("Tap" or "Long Press") of a box | Click, LongPress at its centre |
| swipe of a box by pixels, a direction | Scroll from the centre, cut at the border; direction is the finger's |
| tap, long_press, swipe of an index | quarantined, `no_coordinates`: where the painted mark lies isn't said |
| text; do("Type") | Type and PressEnter, which the executor presses after `text`; Type |
| back, home, wait, finish(ed); do("Enter", "Launch") | PressBack, PressHome, Wait, Finished; PressEnter, Launch |
| do("Call_API") | quarantined, `no_counterpart` |

Boxes are pixels of the device, whose size no row says: with a picture its size is the frame, without one the action is
quarantined (`bad_frame`), as all of the XML mode are. A row is an episode: what came before it isn't known.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.mapping.points import in_frame, swipe
from pipelines.native.chat import said_by, turns, without_pictures
from pipelines.native.pyautogui import OTHER, parse_script
from pipelines.native.record_readers import count_of, json_list
from schemas.actions import Action, Click, Finished, Launch, LongPress, PressBack, PressEnter, PressHome, Type, Wait
from schemas.coordinates import centre
from schemas.ids import digest

POINTED: Mapping[str, type[Click | LongPress]] = {"tap": Click, "long_press": LongPress}
BARE: Mapping[str, Action] = {"back": PressBack(), "home": PressHome(), "wait": Wait(), "enter": PressEnter()}
TEXTED: Mapping[str, type[Type | Finished]] = {"text": Type, "type": Type, "finish": Finished}
WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_ACTION = re.compile(r".*\bAction:\s*", re.DOTALL)
_KNOWN = frozenset({"messages", "conversations", "images", "image", "id", "system"})

DESCRIPTOR = Descriptor(
    id="android_instruct",
    title="Android Instruct (AndroidLab)",
    origin="https://github.com/THUDM/Android-Lab",
    licence="not stated for the data (UNCONFIRMED; code MIT)",
    platforms=("mobile",),
    size="6,208 steps in XML mode, 6,053 with marks",
    citation="Xu et al., AndroidLab: Training and Systematic Benchmarking of Android Agents, arXiv 2410.24024",
    frame="pixels of the device, left, top, right, bottom; its size isn't in the row",
    known_problems=(
        "the apps are those of the AndroidLab benchmark",
        "the keys of the rows and the actions' form are those of the prompts, not confirmed by data",
        "rows of the XML mode have no picture, marks no boxes: most touches can't be placed",
    ),
    loss=(
        *(
            Loss(word, made.__name__, "kept", "dropped without a frame, or of an index")
            for word, made in POINTED.items()
        ),
        Loss("swipe", "Scroll", "kept", "cut at the border; dropped without a frame, or of an index"),
        Loss("text", "Type, PressEnter", "kept"),
        Loss("type", "Type", "kept"),
        *(Loss(word, type(made).__name__, "kept") for word, made in BARE.items() if word != "wait"),
        Loss("wait", "Wait", "lossy", "how long"),
        Loss("finish", "Finished", "kept"),
        Loss("launch", "Launch", "kept"),
        Loss(OTHER, "-", "dropped", "no_counterpart (Call_API), unknown_action:<name>, no single call"),
    ),
)


class AndroidInstructAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.json",)
    reader = partial(json_list, count=count_of('"assistant"'))

    def count_items(self, record: Record) -> int:
        """As many as the chat has turns of the model."""
        return max(said_by(_chat(record.payload), "gpt", "assistant"), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode. Raises `RecordError`: missing_field, unknown_role, unsafe_path."""
        row, items = record.payload, self.count_items(record)
        chat = turns(_chat(row), items)
        goal = next((without_pictures(turn.text) for turn in chat if turn.role == "user"), "")
        acts = [turn.text for turn in chat if turn.role == "assistant"]
        if not goal or not acts or not is_text(goal):
            raise RecordError("missing_field", "expected a user's task and an action of the model", items)
        names = row.get("images") or row.get("image") or []
        names = [names] if isinstance(names, str) else names
        builder = EpisodeBuilder(self.descriptor, record, episode_id=f"row-{digest(row)}", instruction=goal)
        builder.gap("steps_before_are_rows_of_their_own")
        for place, said in enumerate(acts):
            name = names[place] if isinstance(names, list) and place < len(names) else None
            folder = posixpath.dirname(record.file)
            data = raw.first((posixpath.join(folder, name), name), items) if isinstance(name, str) and name else None
            screen = RecordScreen.load(data, normalised=True)
            try:
                word, actions = _read(said, screen)
            except ItemError as error:
                builder.reject(error.reason, native=said, native_index=place, word=error.word, detail=error.detail)
                continue
            builder.add(actions, said, place, word, screen, lossy=word == "wait")
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _chat(row: object) -> object:
    return row.get("messages", row.get("conversations")) if isinstance(row, Mapping) else None


def _read(said: str, screen: RecordScreen) -> tuple[str, list[Action]]:
    """Native word and actions of one turn. Raises `ItemError`."""
    calls = parse_script(_ACTION.sub("", said).strip())
    if len(calls) != 1 or calls[0].error is not None or not is_text(said):
        raise ItemError("bad_value", f"expected one call of literals, found {said[:80]!r}", OTHER)
    call = calls[0]
    values: list[Any] = list(call.args) or list(call.kwargs.values())
    word = {"finished": "finish"}.get(call.name, call.name)
    # The second form of the prompts: do(action="Tap", element=[…], argument=…).
    if word == "do":
        word = str(call.kwargs.get("action", "")).lower().replace(" ", "_")
        values = [*_list(call.kwargs.get("element")), *_list(call.kwargs.get("argument"))]
    if word in BARE:
        return word, [BARE[word]]
    if word in TEXTED or word == "launch":
        text = next((value for value in values if isinstance(value, str)), "")
        if not text and word != "finish":
            raise ItemError("empty_text", f"{word}: expected a text", word)
        made: Action = Launch(app=text) if word == "launch" else TEXTED[word](text)
        return word, [made, PressEnter()] if word == "text" else [made]
    if word in POINTED or word == "swipe":
        box, size = _placed(values, screen, word)
        at = in_frame(*centre(box), size, word)
        return word, [POINTED[word](at) if word in POINTED else _swipe(centre(box), values[4:], size, word)]
    reason = "no_counterpart" if word == "call_api" else f"unknown_action:{word[:60]}"
    raise ItemError(reason, call.text[:80], OTHER)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _placed(values: Sequence[Any], screen: RecordScreen, word: str) -> tuple[Sequence[float], tuple[int, int]]:
    """The box of a touch, and the frame of its pixels. Raises `ItemError`: no_coordinates, bad_frame."""
    box = [value for value in values[:4] if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(box) != 4:
        raise ItemError("no_coordinates", f"{word} of the mark {values[:1]}: no row says where it lies", word)
    if screen.info is None:
        raise ItemError("bad_frame", "pixels of a device whose size isn't told, and no picture", word)
    return box, (screen.info.width_px, screen.info.height_px)


def _swipe(start: tuple[float, float], values: Sequence[object], size: tuple[int, int], word: str) -> Action:
    """A finger's way of so many pixels, to the border at most. Raises `ItemError`: bad_value."""
    way, length = (*values, None, None)[:2]
    if way not in WAYS or not isinstance(length, int | float) or isinstance(length, bool) or not length > 0:
        raise ItemError("bad_value", f"swipe: expected a direction and pixels, found {way!r:.20}, {length!r:.20}", word)
    ends = [min(max(at + step * length, 0), side) for at, step, side in zip(start, WAYS[str(way)], size, strict=True)]
    return swipe(in_frame(*start, size, word), in_frame(ends[0], ends[1], size, word), word, size)
