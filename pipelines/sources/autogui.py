"""AutoGUI: elements of rendered web pages, each with what it does in words of a model, asked in both directions.

Raw rows (made up): of parquet files, and of the older JSON arrays, whose chat says the same:

    {"image": {"bytes": b"..."}, "image_id": "p1", "instruction": "Where is the element? It opens the cart.",
     "answer": "(83,10)", "unnormalized_box": [1046.0, 66.2, 1086.1, 86.4], "func": "This element opens the cart.",
     "image_size": "…", "device": "…", "source": "…"}
    {"id": "g4", "image_path": "images/p1.png", "unnormalized_box": […], "conversations": [
     {"from": "user", "value": "Picture 1: <img>…</img>\\nWhere is it? …"}, {"from": "assistant", "value": "(83,10)"}]}

| native | unified |
|---|---|
| answer is a point | "Where is <function>?" → the centre of the box |
| the question holds a point, the answer is a text | what the element at the centre of the box is for → the text |
| a point that fits the box in no frame | quarantined: `bad_frame` |
| a point that fits it in several, or in an unknown one | the point itself (lossy: one percent of the screen), no box |

Points are 0..99 of the screen; boxes are CSS pixels, while pictures are rendered at twice (web) or three times (phone)
that size. Which it is follows from the point: of the picture's size by 1, 2, 3 (without a picture: of the two published
viewports) the frame counts in which box and point agree. Rows of the test set (by the path) are split test.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Broken, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_number, text_of
from pipelines.native.chat import exchanges, turns, without_pictures
from pipelines.native.flat_rows import Columns, FlatRowAdapter, Row
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import field_id, json_list, parquet_rows
from pipelines.prompts import caption_text
from schemas.coordinates import centre, centre_in_units

VIEWPORTS = ((1280, 720), (428, 746))
"""CSS pixels of the two published viewports, for rows without a picture."""
SCALES = (1, 2, 3)
NEAR = 1.1
"""How far, of 0..100, a point may lie from the centre of its box: it is rounded, or cut, to whole numbers."""
_POINT = re.compile(r"\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_BEFORE = re.compile(r"\APicture \d+:\s*|.*\(with point\)\?\s*", re.DOTALL)

DESCRIPTOR = Descriptor(
    id="autogui",
    title="AutoGUI",
    licence="CC-BY-4.0",
    platforms=("web",),
    objectives=("grounding", "perception"),
    size="701,864 rows; 2,000 more for tests (FuncPred)",
    citation="Li et al., AutoGUI: Scaling GUI Grounding with Automatic Functionality Annotations from LLMs, "
    "arXiv 2502.01977",
    frame="points 0..99 of the screen, boxes in CSS pixels of a screen rendered at 1, 2 or 3 times that size",
    item_unit="expression",
    known_problems=(
        "functions are written and checked by a model; errors remain",
        "boxes are of another scale than pictures, and no column says surely of which",
        "answers have a resolution of one percent",
    ),
    loss=(
        Loss("point", "grounding sample", "kept", "lossy where the box's frame isn't sure: the point alone"),
        Loss("function", "perception sample", "kept"),
        Loss("row", "-", "dropped", "neither a point nor a function, no usable box"),
    ),
    download=Download("AutoGUI/AutoGUI-v1-702k", files=("*.parquet",)),
)


class AutoguiAdapter(FlatRowAdapter):
    """One record per row, of parquet or of a JSON array."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.parquet", "**/*.json")
    rows_alone = (".parquet",)
    columns = Columns(
        box="unnormalized_box",
        required=("unnormalized_box",),
        rules=("device", "source", "elem_role"),
        unused=("answer", "func", "image_id", "image_size", "image_path", "conversations", "id", "elem_text"),
    )

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time."""
        for file in files:
            yield from (parquet_rows if file.endswith(".parquet") else json_list)(raw, file, of_id=field_id("id"))

    def row(self, record: Record) -> Row:
        """The chat of an older row as instruction and answer. Raises `RecordError`: missing_field, unknown_role."""
        row = super().row(record)
        if "conversations" not in row:
            return row
        pairs = exchanges(turns(row["conversations"]))
        if len(pairs) != 1:
            raise RecordError("missing_field", f"conversations: expected one question, found {len(pairs)}")
        return {**row, "instruction": _BEFORE.sub("", without_pictures(_images(pairs[0][0]))), "answer": pairs[0][1]}

    def split(self, record: Record, raw: Raw) -> str:
        """The test set is a repository of its own, which the path may say."""
        return "test" if "test" in record.file.lower() else "train"

    def screen(self, record: Record, raw: Raw) -> RecordScreen:
        """The picture of the row, or the file that an older row names. Raises `RecordError("unsafe_path")`."""
        data, path = self.encoded(record.payload), record.payload.get("image_path")
        if data is None and isinstance(path, str):
            data = raw.first(dict.fromkeys((posixpath.join(posixpath.dirname(record.file), path), path)))
        return RecordScreen.load(data, normalised=True)

    def samples(self, builder: SampleBuilder, row: Row, screen: RecordScreen) -> None:
        """One question, in its direction. Raises `ItemError`."""
        asked, said = text_of(row, "instruction", self.word), text_of(row, "answer", self.word)
        located, rules = _POINT.fullmatch(said.strip()), self.rules(row)
        point = located or next(reversed(list(_POINT.finditer(asked))), None)
        if point is None:
            raise ItemError("bad_value", "neither question nor answer holds a point", self.word)
        x, y = int(point[1]), int(point[2])
        if max(x, y) > 100:
            raise ItemError("off_screen", f"({x},{y}): expected 0..100", self.word)
        frame = _frame(row, screen, (x, y), self.word)
        box = unit_box(row["unnormalized_box"], frame, self.word) if frame else None
        rules += [f"frame_by_point={frame[0]:g}x{frame[1]:g}"] if frame else ["point_of_one_percent"]
        if located is None:
            at = caption_text(*(centre_in_units(box) if box else (10 * x, 10 * y))).replace("unlabelled ", "")
            builder.sample(
                "perception",
                at,
                said.strip(),
                screen,
                0,
                "function",
                rules=rules,
                lossy=not box,
                target_boxes=[box] if box else [],
            )
            return
        function = row.get("func")
        # "This element opens …" is a sentence, and what is asked for is a thing.
        what = re.sub(
            r"\AThis element ",
            "the element that ",
            function if isinstance(function, str) and function.strip() else asked,
        )
        if box:
            builder.grounding(what.strip().rstrip("."), box, screen, 0, "point", rules=rules)
        else:
            point_at = (10 * x, 10 * y)
            builder.point(what.strip().rstrip("."), point_at, screen, 0, "point", lossy=True, rules=rules)


def _images(text: str) -> str:
    """Without the picture's path between its marks, which `without_pictures` leaves."""
    return re.sub(r"<img>.*?</img>", "", text, flags=re.DOTALL)


def _frame(
    row: Mapping[str, Any], screen: RecordScreen, point: tuple[int, int], word: str
) -> tuple[float, float] | None:
    """The one frame in which the centre of the box lies at the point; None if several do. Raises `ItemError`: bad_box
    for no box, bad_frame if none does."""
    box = row["unnormalized_box"]
    numbers = list(box) if isinstance(box, list | tuple) else []
    if len(numbers) != 4 or not all(map(is_number, numbers)):
        raise ItemError("bad_box", f"expected four numbers, found {box!r:.80}", word)
    x, y = centre(numbers)
    frames: list[tuple[float, float]] = list(VIEWPORTS)
    if screen.width_px and screen.height_px:
        frames = [(screen.width_px / scale, screen.height_px / scale) for scale in SCALES]
    fits = [
        frame for frame in frames if max(abs(100 * x / frame[0] - point[0]), abs(100 * y / frame[1] - point[1])) < NEAR
    ]
    if not fits:
        raise ItemError("bad_frame", f"the box {numbers} lies nowhere at {point} of 100", word)
    return fits[0] if len(fits) == 1 else None
