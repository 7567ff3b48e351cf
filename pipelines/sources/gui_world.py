"""GUI-World: screen recordings of phones, desktops, web pages and headsets, with captions and questions.

A raw record, a line of `Annotation/{train,benchmark}/<kind>.jsonl` (made up, shortened):

    {"video_path": "software/1.mp4", "system": "Windows", "app": ["Paint"], "goal": "Draw", "keyframes": [
        {"frame": 30, "sub_goal": "Open the menu", "mouse": "click", "keyboard": "none", "keyboardOperation": ""}],
     "Caption": "...", "Description1": "...", "Description2": ["..."],
     "static QA": {"Question": "...", "Answer": "..."},
     "MCQA": {"Question": "...", "Options": {"A": "...", "B": "..."}, "Correct Answer": "B"}, "Sequential-QA": {...},
     "Prediction": {...}, "Reasoning": {...}}

| native | unified |
|---|---|
| keyframe | perception on the frame: what is done here → sub_goal; lossy: mouse and keyboard name no place |
| Caption, Description1, Description2 | perception on all key frames |
| static QA, Sequential-QA, Prediction, Reasoning, MCQA | vqa on all key frames; options stand below the question |

Pictures of key frames are looked for beside the video as `<video>/<frame>.png` or `<video>_<frame>.png` (or jpg), the
video without its ending: the frames (30 a second) must be taken out of it beforehand. A sample on all key frames has
pictures only if every frame has one (else rule `frames_missing`). IOS and android are mobile, website is web,
software and multi are desktop; XR is none of these and is refused (`no_platform`). Benchmark files are test.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, plain_number, unknown_fields, whole_number
from pipelines.native.record_readers import json_lines
from pipelines.prompts import messages
from pipelines.prompts.tokens import count_tokens
from schemas.ids import digest

PLATFORMS = {"ios": "mobile", "android": "mobile", "website": "web", "software": "desktop", "multi": "desktop"}
ASKED = {
    "Caption": "What happens in these key frames of a screen recording?",
    "Description1": "Describe these key frames of a screen recording in detail.",
    "Description2": "Describe these key frames of a screen recording in detail.",
}
STEP_ASKED = "What is the user doing at this moment?"
_QUESTIONS = ("static QA", "MCQA", "Sequential-QA", "Prediction", "Reasoning")
_PLAIN = frozenset({"video_path", "system", "app", "goal", "keyframes"})
_KNOWN = _PLAIN | frozenset(ASKED) | frozenset(_QUESTIONS)
_FRAME = frozenset({"frame", "sub_goal", "mouse", "keyboard", "keyboardOperation"})
_LETTERED = re.compile(r"\s*[\[(]?[A-Z][\])]?[.:)\]]\s*")

DESCRIPTOR = Descriptor(
    id="gui_world",
    title="GUI-World",
    licence="CC-BY-4.0 or not stated",
    platforms=("mobile", "web", "desktop"),
    objectives=("perception", "vqa"),
    size="12,379 videos (94 GB), about 100,000 questions",
    citation="Chen et al., GUI-World: A Video Benchmark and Dataset for Multimodal GUI-oriented Understanding, "
    "arXiv 2406.10819",
    frame="none: no coordinates; frame numbers at 30 a second",
    record_unit="video",
    item_unit="annotation",
    known_problems=(
        "key frames must be taken out of the videos",
        "texts are written by a model and revised by people",
        "which frame a static question is about isn't said",
    ),
    loss=(
        Loss("keyframe", "perception", "lossy", "mouse and keyboard name no place"),
        *(Loss(name, "perception", "kept") for name in ASKED),
        *(Loss(name, "vqa", "kept") for name in _QUESTIONS),
    ),
    download=Download("shuaishuaicdp/GUI-World", files=("*.jsonl",)),
)


class GuiWorldAdapter(Adapter):
    """One record per video."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.jsonl", "**/*.json", "**/*.parquet")
    rows_alone = (".jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One video at a time."""
        for file in files:
            if file.endswith(".jsonl"):
                yield from json_lines(raw, file, of_id=_id)
            else:
                yield Broken(file, "file", "unknown_schema", "expected Annotation/{train,benchmark}/<kind>.jsonl")

    def count_items(self, record: Record) -> int:
        """Key frames, and what is said or asked of the whole video."""
        return _items(record.payload) if isinstance(record.payload, dict) else 1

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One video → samples. Raises `RecordError`: bad_value, no_platform."""
        row = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        frames = row.get("keyframes") or []
        if not isinstance(frames, list):
            raise RecordError("bad_value", f"keyframes: expected a list, found {frames!r:.60}", _items(row))
        kind = record.file.rpartition("/")[2].partition(".")[0]
        if kind.lower() not in PLATFORMS:
            raise RecordError("no_platform", f"{kind[:40]!r} is neither mobile, web nor desktop", _items(row))
        builder = SampleBuilder(
            self.descriptor,
            record,
            record_id=record.native_id or f"row-{digest(row)}",
            platform=PLATFORMS[kind.lower()],
            # Whatever isn't said to be for training isn't trained on.
            split="train" if "train" in record.file.split("/")[:-1] else "test",
        )
        screens = [_screen(raw, record.file, row, frame) for frame in frames]
        found = unknown_fields(row, _KNOWN)
        for place, (frame, screen) in enumerate(zip(frames, screens, strict=True)):
            found += unknown_fields(frame, _FRAME) if isinstance(frame, Mapping) else []
            try:
                said = _text(frame.get("sub_goal") if isinstance(frame, Mapping) else None, "keyframe")
                builder.sample("perception", STEP_ASKED, said, screen, place, "keyframe", lossy=True)
            except ItemError as error:
                builder.reject(error.reason, native=frame, native_index=place, word="keyframe", detail=error.detail)
        _whole(builder, row, screens)
        return notices(builder.finish(), found)


def _id(row: object) -> str | None:
    path = row.get("video_path") if isinstance(row, Mapping) else None
    return path if isinstance(path, str) and path and is_text(path) else None


def _items(row: Mapping[str, object]) -> int:
    frames = row.get("keyframes")
    return (len(frames) if isinstance(frames, list) else 0) + sum(1 for _ in _annotations(row)) or 1


def _annotations(row: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """(native word, value) of what is said of the whole video, in the order of the table; absent ones are none."""
    for name in (*ASKED, *_QUESTIONS):
        value = row.get(name)
        if name in _QUESTIONS and isinstance(value, list):
            yield from ((name, one) for one in value)
        elif name in row:
            yield name, value


def _text(value: object, word: str) -> str:
    if not isinstance(value, str) or not is_text(value):
        raise ItemError("missing_field", f"expected a text, found {value!r:.60}", word)
    if not value.strip():
        raise ItemError("empty_text", "nothing is said", word)
    return value.strip()


def _screen(raw: Raw, file: str, row: Mapping[str, object], frame: object) -> RecordScreen:
    """The picture of a key frame. Raises `RecordError` unsafe_path for a path that leads out of the folder."""
    number = whole_number(plain_number(frame.get("frame"))) if isinstance(frame, Mapping) else None
    video = row.get("video_path")
    if not isinstance(video, str) or number is None or number < 0:
        return RecordScreen.load(None, normalised=True)
    # Frames lie in a folder of their video or beside it.
    stem = video.rpartition(".")[0] or video
    bases = dict.fromkeys(("", file.rpartition("Annotation/")[0]))
    tries = (f"{base}{stem}{sign}{number}.{kind}" for base in bases for sign in "/_" for kind in ("png", "jpg"))
    return RecordScreen.load(raw.first(tries), normalised=True)


def _whole(builder: SampleBuilder, row: Mapping[str, object], screens: list[RecordScreen]) -> None:
    """Samples on all key frames: they have all their pictures or none."""
    # A question about a video can't be answered from a part of it.
    complete = bool(screens) and all(screen.sha256 for screen in screens)
    first = screens[0] if complete else RecordScreen.load(None, normalised=True)
    shift = len(screens)
    for place, (word, value) in enumerate(_annotations(row)):
        try:
            asked, answer, rules = _exchange(word, value)
        except ItemError as error:
            builder.reject(error.reason, native=value, native_index=shift + place, word=word, detail=error.detail)
            continue
        builder.sample(
            "perception" if word in ASKED else "vqa",
            asked,
            answer,
            first,
            shift + place,
            word,
            rules=[*rules, "all_key_frames" if complete else "frames_missing"],
        )
        # The sample that was just built.
        if complete:
            _show(builder.finish().samples[-1], asked, screens)


def _show(sample: dict[str, Any], asked: str, screens: list[RecordScreen]) -> None:
    """Put all frames under a sample; the builder knows one picture a sample."""
    sizes = [(info.width_px, info.height_px) for screen in screens if (info := screen.info)]
    sample["images"] = [screen.sha256 for screen in screens]
    sample["messages"] = messages(sample["objective"], asked, images=len(sizes))
    sample["tokens"] = count_tokens(sample["messages"], sample["answer"], sizes)


def _exchange(word: str, value: object) -> tuple[str, str, list[str]]:
    """Question, answer and rules. Raises `ItemError`: missing_field, empty_text, bad_value."""
    if word in ASKED:
        parts = value if isinstance(value, list) else [value]
        return ASKED[word], "\n".join(_text(part, word) for part in parts) or _text("", word), []
    if not isinstance(value, Mapping):
        raise ItemError("bad_value", f"expected Question and Answer, found {value!r:.60}", word)
    known = {"Question", "Options", "Correct Answer"} if "Options" in value else {"Question", "Answer"}
    if set(value) - known:
        raise ItemError(f"unknown_field:{min(map(str, set(value) - known))[:60]}", f"expected {sorted(known)}", word)
    asked = _text(value.get("Question"), word)
    if "Options" not in value:
        return asked, _text(value.get("Answer"), word), []
    answer = _text(value.get("Correct Answer"), word)
    options = value["Options"]
    rules: list[str] = []
    if isinstance(options, Mapping):
        # By their letters, as the order of keys is no property of the data.
        lines, rules = [f"{key}. {_text(options[key], word)}" for key in sorted(options)], []
    elif isinstance(options, list):
        lines, rules = [_text(text, word) for text in options], []
        # Answers name letters, so options need them.
        if len(lines) <= 26 and not all(_LETTERED.match(line) for line in lines):
            lines, rules = [f"{chr(65 + place)}. {line}" for place, line in enumerate(lines)], ["options_lettered"]
    else:
        raise ItemError("bad_value", f"Options: expected a list or an object, found {options!r:.60}", word)
    if len(lines) < 2:
        raise ItemError("bad_value", f"Options: expected two or more, found {len(lines)}", word)
    return "\n".join([asked, *lines]), answer, rules
