"""ScreenSpot: 1,272 short instructions on mobile, web and desktop screens.

Three conventions exist for the same rows: the original JSON has x, y, width, height in pixels, the hub's parquet has
corner fractions, and a converted form, which names the picture's size, has corner pixels.
"""

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Convention, Form, Row

CARD = SuiteCard(
    id="screenspot",
    title="ScreenSpot",
    origin="https://github.com/njucckevin/SeeClick",
    licence="Apache-2.0",
    citation="Cheng et al. 2024, SeeClick: Harnessing GUI Grounding for Advanced Visual GUI Agents",
    size="1,272 instructions",
    frame="JSON: pixels x, y, width, height; parquet: corner fractions; origin top left",
    known_problems=("some labels are wrong or ambiguous: V2 corrects them", "copied into groundui_18k and waveui_25k"),
)


def convention(row: Row) -> Convention:
    """What `bbox` means in this row."""
    if "img_size" in row:
        return "xyxy"
    box = row.get("bbox")
    small = isinstance(box, list | tuple) and all(isinstance(v, int | float) and 0 <= v <= 1 for v in box)
    return "fraction" if small else "xywh"


FORM = Form(
    convention,
    wordings=(
        ("", ("instruction", "prompt_to_evaluate", "task"), "en"),
        (":action", ("action",), "en"),
        (":description", ("description", "decription"), "en"),
    ),
)
items = FORM.items
"""Rows of `screenspot_*.json` and their copies as JSON lines or parquet; `action` and `description`, where a variant
has them, are further wordings of the item."""
