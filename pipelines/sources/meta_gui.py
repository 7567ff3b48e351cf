"""META-GUI: dialogues in which a system does what its user asks on an Android phone, turn by turn.

Licence: unknown for the data (the code is MIT).

The raw form is read: `{train,dev}/dialog_<id>/` with `dialog.json` and a folder a turn (made up, shortened):

    dialog.json           [{"isUser": true, "program": "…", "text": "How warm is it?"}, {"isUser": false, "text": "20"}]
    turn_0/actions.json   {"0": "weather|click|300,800", "1": "|swipe|500,1500|500,700", "2": "|input|300,200|Rome"}
    turn_0/0.png, 0.xml   the frames; the last has no action: there the system answers

| native | unified |
|---|---|
| click | Click; at y >= 2392 the navigation bar: its left third PressBack, its middle PressHome, else quarantined |
| swipe | Scroll(start, end), direction from the points, which are the finger's |
| input | Type (the fourth field, whole) |
| enter, back, home | PressEnter, PressBack, PressHome |
| response (the last frame) | Finished(the system's next words) in the last turn, CallUser before |
| clear, read | quarantined: `no_counterpart` |
| None | quarantined: `missing_field` |

An episode is a turn: the instruction is what was said up to it, its history before the first frame is unknown (rule
`turn_continues_dialogue`). Turns belong to the runs of the user's words in order; where the two don't number the same,
the dialogue is quarantined. Pixels of the frame's own picture. The processed `data.json` has lost the axis and the
points of swipes: it is refused (`unknown_schema`). The dev split becomes validation.
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.items import ItemError, is_text, notices, smallest_box
from pipelines.mapping.points import in_frame, swipe
from pipelines.native.android_xml import TreeError, elements, views
from pipelines.native.record_readers import text_of
from schemas.actions import Action, CallUser, Click, Finished, PressBack, PressEnter, PressHome, Type

NAVIGATION_BAR_Y = 2392
"""From here down, in pixels, a click is one on the navigation bar."""
BARE: dict[str, Action] = {"enter": PressEnter(), "back": PressBack(), "home": PressHome()}
WORDS = ("click", "swipe", "input", "clear", "read", *BARE)
_TURN = re.compile(r"turn_(\d{1,6})")
_FRAME = re.compile(r"(\d{1,6})\.png")
_POINT = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")

DESCRIPTOR = Descriptor(
    id="meta_gui",
    title="META-GUI",
    origin="https://github.com/X-LANCE/META-GUI-baseline",
    licence="unknown",
    platforms=("mobile",),
    size="1,125 dialogues, 4,684 turns, 18,337 actions",
    citation="Sun et al., META-GUI: Towards Multi-modal Conversational Agents on Mobile GUI, arXiv 2205.11029",
    frame="pixels of the frame's picture, x first, origin top left",
    record_unit="turn",
    known_problems=(
        "a turn starts where the one before ended, often inside an app",
        "frames whose action isn't used, or whose tree was lost, are missing or have no action",
        "the texts were translated from Chinese",
    ),
    loss=(
        Loss("click", "Click, PressBack, PressHome", "kept", "on the navigation bar: the key that was hit"),
        Loss("swipe", "Scroll", "kept"),
        Loss("input", "Type", "kept", "an empty text is quarantined"),
        Loss("enter", "PressEnter", "kept"),
        Loss("back", "PressBack", "kept"),
        Loss("home", "PressHome", "kept"),
        Loss("response", "CallUser, Finished", "kept", "the system's words after the turn"),
        Loss("clear", "-", "dropped", "no_counterpart: select all and delete"),
        Loss("read", "-", "dropped", "no_counterpart: nothing is done"),
        Loss("None", "-", "dropped", "missing_field"),
        Loss("?", "-", "dropped", "unknown_action:<word>, or a text of another form"),
        Loss("program", "-", "lossy", "the Chinese original of a turn has no column"),
    ),
    download=Download("X-LANCE/META-GUI"),
)


class MetaGuiAdapter(Adapter):
    """One record per turn."""

    descriptor = DESCRIPTOR

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """The turns of a dialogue; each processed file, to be refused."""
        groups: dict[str, list[str]] = {}
        for name in raw.files("**/actions.json"):
            groups.setdefault(str(PurePosixPath(name).parent.parent), []).append(name)
        # Refused in the open rather than passed over: somebody put it there.
        processed = [(name,) for name in raw.files("**/data.json")]
        return [tuple(group) for _, group in sorted(groups.items())] + processed

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One turn each, with the words of its dialogue."""
        if PurePosixPath(files[0]).name == "data.json":
            count = raw.read(files[0]).count(b'"screenshot_history"')
            yield Broken(files[0], "document", "unknown_schema", "the processed form: swipes have no points", count)
            return
        folder = PurePosixPath(files[0]).parent.parent
        said, problem = _dialogue(raw, str(folder))
        # Turns and words are paired by their order, so their numbers must agree.
        order = sorted(files, key=_number)
        if not problem and len(said) != len(order):
            problem = f"{len(order)} turns, but the user speaks {len(said)} times"
        for place, file in enumerate(order):
            text = text_of(raw.read(file))
            try:
                actions = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield Broken(file, "document", "bad_json", str(error), text.count("|") // 2, {"text": text[:2000]})
                continue
            if problem:
                count = len(actions) if isinstance(actions, dict) else 1
                yield Broken(file, "document", "bad_value", problem, count, actions)
                continue
            payload = {"actions": actions, "said": said, "turn": place, "file": file}
            yield Record(file, "document", payload, f"{_split(file)}/{folder.name}/{PurePosixPath(file).parent.name}")

    def count_items(self, record: Record) -> int:
        """Frames that have an action."""
        actions = record.payload.get("actions") if isinstance(record.payload, dict) else None
        return sum(map(_is_frame, actions)) if isinstance(actions, dict) else 1

    def items_held(self, record: Record, raw: Raw) -> int:
        """The same, and the answer that a last frame without an action shows."""
        frames, named = _frames(raw, record)
        return len(named) + bool(frames and frames[-1] not in named)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One turn → step rows. Raises `RecordError`: missing_field, empty_text."""
        actions, said, turn = (record.payload[name] for name in ("actions", "said", "turn"))
        if not isinstance(actions, dict):
            raise RecordError("missing_field", "actions.json: expected an object of frames")
        asked, answer = said[turn]
        if not asked.strip():
            raise RecordError("empty_text", "the user says nothing")
        folder = str(PurePosixPath(record.file).parent)
        category = raw.read_if_there(f"{PurePosixPath(folder).parent}/category.txt")
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            # Words of all turns before it: the user leans on them.
            instruction=_heard(said, turn),
            split="validation" if _split(record.file) == "dev" else "train",
            app=category.decode("utf-8", "replace").strip() or None if category else None,
        )
        # The app is in the state that earlier turns left it in.
        if turn:
            builder.gap("turn_continues_dialogue")
        found = [
            (f"unknown_field:{key[:60]}", "expected the number of a frame", {key: actions[key]})
            for key in actions
            if not _is_frame(key)
        ]
        frames, named = _frames(raw, record)
        for frame in frames:
            screen = _screen(raw, folder, frame)
            if frame in named:
                _add(builder, named[frame], frame, screen)
            elif frame == frames[-1]:
                _answer(builder, answer, frame, screen, last=turn == len(said) - 1)
            else:
                # A screen in between.
                builder.gap("frame_without_action")
        if frames and frames[-1] in named and answer:
            found.append(("missing_field", "no frame shows the system's answer", {"answer": answer}))
        return notices(builder.finish(), found)


def _is_frame(key: str) -> bool:
    return key.isdecimal() and len(key) < 7


def _frames(raw: Raw, record: Record) -> tuple[list[int], dict[int, object]]:
    """(numbers of the frames that have a picture or an action, frame → its action)."""
    listed = raw.listing(str(PurePosixPath(record.file).parent))
    pictures = {int(match[1]) for name in listed if (match := _FRAME.fullmatch(name))}
    named = {int(key): value for key, value in record.payload["actions"].items() if _is_frame(key)}
    return sorted(pictures | set(named)), named


def _dialogue(raw: Raw, folder: str) -> tuple[list[tuple[str, str]], str]:
    """([(the user's words, the system's words after them)], what is wrong)."""
    data = raw.read_if_there(f"{folder}/dialog.json")
    if data is None:
        return [], "there is no dialog.json"
    try:
        lines = [(bool(line["isUser"]), str(line["text"])) for line in json.loads(data)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return [], f"dialog.json: expected a list of isUser and text: {error}"
    if not all(is_text(text) for _, text in lines):
        return [], "dialog.json: not Unicode text"
    runs: list[tuple[bool, str]] = []
    # Several lines in a row are one turn.
    for user, text in lines:
        if runs and runs[-1][0] == user:
            runs[-1] = (user, f"{runs[-1][1]}\n{text}")
        else:
            runs.append((user, text))
    # Whoever speaks last may be the user, to whom nobody answered.
    after = [*runs[1:], (True, "")]
    pairs = [(text, "" if then[0] else then[1]) for (user, text), then in zip(runs, after, strict=True) if user]
    return pairs, ""


def _heard(said: list[tuple[str, str]], turn: int) -> str:
    """What was said up to the user's words of this turn."""
    if not turn:
        return said[0][0].strip()
    lines = []
    for asked, answer in said[:turn]:
        lines += [f"User: {asked.strip()}", *([f"System: {answer.strip()}"] if answer.strip() else [])]
    return "\n".join([*lines, f"User: {said[turn][0].strip()}"])


def _number(file: str) -> tuple[int, str]:
    # Folders in the order of their numbers, not of their names.
    match = _TURN.fullmatch(PurePosixPath(file).parent.name)
    return (int(match[1]) if match else -1), file


def _split(file: str) -> str:
    return "dev" if "dev" in PurePosixPath(file).parts else "train"


def _screen(raw: Raw, folder: str, frame: int) -> RecordScreen:
    screen = RecordScreen.load(raw.read_if_there(f"{folder}/{frame}.png"), normalised=True)
    tree = raw.read_if_there(f"{folder}/{frame}.xml")
    if tree is None or screen.width_px is None or screen.height_px is None:
        return screen
    try:
        listed = elements(views(tree), (screen.width_px, screen.height_px))
    except TreeError:
        return screen
    return RecordScreen(screen.width_px, screen.height_px, screen.data, screen.info, tuple(listed), screen.problem)


def _answer(builder: EpisodeBuilder, answer: str, frame: int, screen: RecordScreen, *, last: bool) -> None:
    native = {"response": answer}
    if not answer.strip():
        detail = "the system says nothing after this turn"
        builder.reject("missing_field", native=native, native_index=frame, word="response", detail=detail)
        return
    # Only the last answer ends the task.
    said: Action = Finished(answer) if last else CallUser(answer)
    builder.add(said, native, frame, "response", screen, rules=["last_frame_answers"])


def _add(builder: EpisodeBuilder, native: object, frame: int, screen: RecordScreen) -> None:
    word = "?"
    try:
        if native is None or native == "None":
            raise ItemError("missing_field", "the action is None", "None")
        # A text may hold the separator itself, so it isn't split further.
        fields = native.split("|", 3) if isinstance(native, str) else []
        if len(fields) < 2:
            raise ItemError("bad_value", f"expected text|type|argument|argument, found {native!r:.60}", word)
        if fields[1] not in WORDS:
            raise ItemError(f"unknown_action:{fields[1][:60]}", f"expected one of {WORDS}", word)
        word = fields[1]
        action, rules = _action(word, [*fields[2:], "", ""], screen)
    except ItemError as error:
        builder.reject(error.reason, native=native, native_index=frame, word=error.word, detail=error.detail)
        return
    builder.add(action, native, frame, word, screen, rules=rules, target_box=smallest_box(screen.elements, action))


def _action(word: str, arguments: list[str], screen: RecordScreen) -> tuple[Action, list[str]]:
    if word in BARE:
        return BARE[word], []
    if word in ("clear", "read"):
        raise ItemError("no_counterpart", f"{word} is none of the actions", word)
    if word == "input":
        if not arguments[1]:
            raise ItemError("empty_text", "the text is empty", word)
        if not is_text(arguments[1]):
            raise ItemError("bad_value", "the text is not Unicode text", word)
        return Type(arguments[1]), []
    size = sides_of(screen, "no usable picture says how large the screen is", word)
    start = _point(arguments[0], size, word)
    if word == "click":
        return _click(arguments[0], start, size)
    end = _point(arguments[1], size, word)
    return swipe(start, end, word), ["direction_from_points"]


def _click(native: str, point: tuple[int, int], size: tuple[int, int]) -> tuple[Action, list[str]]:
    """A click, or the key of the navigation bar that it hits: which key is at the right differs by maker."""
    x_px, y_px = (float(number) for number in native.split(","))
    if y_px < NAVIGATION_BAR_Y:
        return Click(point), []
    if x_px < size[0] / 3:
        return PressBack(), ["navigation_bar"]
    if x_px < size[0] * 2 / 3:
        return PressHome(), ["navigation_bar"]
    raise ItemError(
        "ambiguous_key", f"{native}: the right key of the navigation bar may be back or recent apps", "click"
    )


def _point(text: str, size: tuple[int, int], word: str) -> tuple[int, int]:
    match = _POINT.fullmatch(text)
    if match is None:
        raise ItemError("bad_value", f"expected x,y, found {text!r:.60}", word)
    return in_frame(float(match[1]), float(match[2]), size, word)
