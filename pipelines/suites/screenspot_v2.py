"""ScreenSpot-V2: the screens of ScreenSpot with corrected labels. The pictures come as one zip file, which is read as
it is. Rows that name the picture's size are the converted copy with corner pixels; the original has width, height."""

from pipelines.suites import SuiteCard
from pipelines.suites.screenspot import FORM

CARD = SuiteCard(
    id="screenspot_v2",
    title="ScreenSpot-V2",
    origin="https://huggingface.co/datasets/OS-Copilot/ScreenSpot-v2",
    licence="unconfirmed",
    citation="Wu et al. 2024, OS-ATLAS: A Foundation Action Model for Generalist GUI Agents",
    size="1,272 instructions",
    frame="pixels x, y, width, height; the converted copy: corners; origin top left",
    known_problems=("shares its pictures with ScreenSpot", "converted copies don't say which convention they follow"),
)
items = FORM.items
"""Rows of `screenspot_{desktop,mobile,web}_v2.json` and of copies as JSON lines or parquet."""
