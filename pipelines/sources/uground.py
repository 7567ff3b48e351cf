"""UGround: descriptions of elements on rendered web pages, with a point or a box each, many a screenshot.

Link: https://huggingface.co/datasets/osunlp/UGround-V1-Data (points) and UGround-V1-Data-Box (boxes)

A raw row of `shard_*.parquet` (made up); `image` holds the encoded picture, `conversations` is JSON in a text:

    {"image": b"...", "width": 1280, "height": 720, "conversations": "[
      {\\"from\\": \\"human\\", \\"value\\": \\"<image> Description: the sign-in link Answer:\\"},
      {\\"from\\": \\"gpt\\", \\"value\\": \\"(410, 178)\\"}]"}

| native | unified |
|---|---|
| pair with a point "(x, y)" | "Where is <description>?" → the point |
| pair with a box "(x1, y1, x2, y2)" | "Where is <description>?" → the box's centre, with its box |
| description with marks of a template or picture in it | quarantined: `bad_value` |

Numbers are integers of 0..999 whatever the picture's size: they stay as they are, not stretched to 1000. One over
999 is quarantined (`off_screen`): it would be a pixel.
"""

import json
import re
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, picture_bytes, unknown_fields
from pipelines.native.chat import exchanges, said_by, turns, without_pictures
from pipelines.native.record_readers import parquet_rows

GRID_MAX = 999
WORD = "pair"
_KNOWN = frozenset({"image", "conversations", "width", "height", "id"})
_NUMBERS = re.compile(r"\(\s*(\d{1,5})\s*,\s*(\d{1,5})\s*(?:,\s*(\d{1,5})\s*,\s*(\d{1,5})\s*)?\)")
_DESCRIBED = re.compile(r"Description:(?P<what>.*?)(?:\n[^\S\n]*Answer:?\s*)?\Z", re.DOTALL)
_QUOTED = re.compile(r"[\"“](?P<what>[^\"”]{1,500})[\"”]\s*(?:[.?]\s*)?\Z")
_MARK = re.compile(r"</?(?:img|box|ref|image|point|quad)>|<\|", re.IGNORECASE)

DESCRIPTOR = Descriptor(
    id="uground",
    title="UGround (Web-Hybrid)",
    licence="CC-BY-NC-SA-4.0",
    platforms=("web",),
    objectives=("grounding",),
    size="some 8 million elements on 775,000 screenshots",
    citation="Gou et al., Navigating the Digital World as Humans Do: Universal Visual Grounding, arXiv 2410.05243",
    frame="a grid of 0..999 on both axes, x first",
    record_unit="screen",
    item_unit="expression",
    known_problems=(
        "referring expressions are synthesised from page attributes",
        "numbers look like pixels and are not",
        "some descriptions hold marks of templates",
    ),
    loss=(Loss(WORD, "grounding sample", "kept", "dropped without a description, or with another form of answer"),),
    download=Download("osunlp/UGround-V1-Data", files=("*.parquet",)),
)


class UgroundAdapter(Adapter):
    """One record per screenshot."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.parquet",)
    reader = parquet_rows
    rows_alone = (".parquet",)
    """One row at a time; rows have no id that a page confirms."""

    def count_items(self, record: Record) -> int:
        """Questions with their answers, each a turn of the human and one of the model."""
        try:
            return max(said_by(json.loads(record.payload["conversations"]), "gpt", "assistant"), 1)
        except (ValueError, TypeError, KeyError, RecursionError):
            return 1

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screenshot → a grounding sample a pair. Raises `RecordError`: missing_field, bad_json."""
        row: dict[str, Any] = record.payload
        try:
            listed = json.loads(row["conversations"])
        except (ValueError, TypeError, RecursionError) as error:
            raise RecordError("bad_json", f"conversations: {str(error)[:100]}") from error
        pairs = exchanges(turns(listed))
        if not pairs:
            raise RecordError("missing_field", "expected questions with their answers")
        screen = RecordScreen.load(picture_bytes(row.get("image")), normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=f"{record.file}#{record.locator}")
        for place, (asked, said) in enumerate(pairs):
            try:
                _pair(builder, place, asked, said, screen)
            except ItemError as error:
                builder.reject(error.reason, native=[asked, said], native_index=place, word=WORD, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _pair(builder: SampleBuilder, place: int, asked: str, said: str, screen: RecordScreen) -> None:
    what = _description(without_pictures(asked))
    match = _NUMBERS.fullmatch(said.strip())
    if match is None:
        raise ItemError("bad_value", f"expected a point or a box in round brackets, found {said[:60]!r}", WORD)
    numbers = [int(number) for number in match.groups() if number is not None]
    # A grid of 0..999 is within our 0..1000; the rule says so.
    if max(numbers) > GRID_MAX:
        raise ItemError("off_screen", f"{numbers}: expected 0..{GRID_MAX}", WORD)
    if len(numbers) == 4:
        builder.grounding(what, [float(number) for number in numbers], screen, place, WORD, rules=["grid_of_999"])
        return
    at = (numbers[0], numbers[1])
    builder.point(what, at, screen, place, WORD, rules=["grid_of_999", "point_without_box"])


def _description(asked: str) -> str:
    """The element's description: after `Description:`, else what is quoted at the end, else the whole. Raises
    `ItemError`."""
    named = _DESCRIBED.search(asked) or _QUOTED.search(asked)
    what = (named["what"] if named else asked).strip()
    if not what:
        raise ItemError("empty_text", "the description is empty", WORD)
    if _MARK.search(what) or not is_text(what):
        raise ItemError("bad_value", f"marks within the description: {what[:80]!r}", WORD)
    return what
