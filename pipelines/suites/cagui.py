"""CAGUI: Chinese Android apps. An agent part in the form of AITZ (y before x, fractions) and a grounding part.

The agent part is `**/<episode>/<episode>.json`, a list of steps; each step's screen is an item whose instruction is the
episode's goal. The grounding part is `cap.jsonl` and `ocr.jsonl`; the folder in their `image` field isn't on disk, so a
picture is looked for under `images/<cap|ocr>/`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from pipelines.mapping.adapter import Raw, Record
from pipelines.mapping.items import is_text
from pipelines.suites import BadRow, SuiteCard, SuiteItem
from pipelines.suites._rows import Box, Form, RawPictures, Row, first, records, thousandths
from pipelines.suites._rows import items as rows

CARD = SuiteCard(
    id="cagui",
    title="CAGUI",
    origin="https://huggingface.co/datasets/openbmb/CAGUI",
    licence="CC-BY-NC-4.0",
    citation="Zhang et al. 2025, AgentCPM-GUI: Building Mobile-Use Agents with Reinforcement Fine-Tuning",
    size="600 episodes, 3,000 grounding rows",
    frame="agent: fractions, y before x; grounding: corner fractions; origin top left",
    known_problems=("one grounding row has no text", "some pairs of box and text repeat, a few of them misplaced"),
)


def _box(row: Row, size: tuple[int, int] | None) -> tuple[Box | None, tuple[tuple[float, float], ...]]:
    """`rel_position`, "<x1, y1, x2, y2>" in fractions."""
    text = row.get("rel_position")
    if not isinstance(text, str):
        raise ValueError(f"expected rel_position as a text, found {text!r:.60}")
    return thousandths([float(part) for part in text.strip("<> ").split(",")], "fraction", size), ()


def _grounding_picture(row: Row, name: str) -> str:
    kind = "cap" if row.get("task") == "bbox2function" else "ocr"
    return f"images/{kind}/{PurePosixPath(name).name}"


GROUNDING = Form(
    lambda row: "fraction",
    wordings=(("", ("text",), "zh"),),
    picture=("image",),
    identity=(),
    box_of=_box,
    picture_names=_grounding_picture,
)


def items(raw: Raw) -> Iterator[SuiteItem | BadRow]:
    """Steps of the agent part, then rows of the grounding part."""
    agent, grounding = raw.files("**/*.json"), raw.files("**/*.jsonl")
    if agent:
        pictures = RawPictures(raw)
        for record in records(raw, ("**/*.json",)):
            yield record if isinstance(record, BadRow) else _step(record, pictures)
    if grounding or not agent:
        yield from rows(raw, GROUNDING, ("**/*.jsonl",))


def _step(record: Record, pictures: RawPictures) -> SuiteItem | BadRow:
    row = record.payload
    text = first(row, ("instruction",)) if isinstance(row, Mapping) else None
    if text is None or not is_text(text) or "episode_id" not in row:
        return BadRow(record.file, record.locator, "unknown_schema", f"expected a step, found {row!r:.120}")
    name, data, wrong = None, None, "picture_missing"
    if (named := first(row, ("image_path",))) is not None:
        name, data, wrong = pictures.find(named)  # type: ignore[assignment]
    notes = [wrong] if wrong else []
    try:
        points = _touch(row)
    except ValueError:
        points = ()
        notes.append("bad_point")
    return SuiteItem(
        f"{row['episode_id']}/{row.get('step_id', record.locator)}",
        text,
        "zh",
        None,
        points,
        name,
        data,
        scope="goal",
        notes=tuple(notes),
    )


def _touch(row: Row) -> tuple[tuple[float, float], ...]:
    """Where a step touches, from "[y, x]" in fractions; nothing for [-1, -1]."""
    text = row.get("result_touch_yx")
    if text is None:
        return ()
    found = json.loads(text) if isinstance(text, str) else text
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(v, int | float) for v in found):
        raise ValueError(f"expected [y, x], found {text!r:.60}")
    y, x = found
    if (y, x) == (-1, -1):
        return ()
    if not (0 <= y <= 1 and 0 <= x <= 1):
        raise ValueError(f"expected fractions, found {text!r:.60}")
    return ((x * 1000.0, y * 1000.0),)
