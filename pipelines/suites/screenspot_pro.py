"""ScreenSpot-Pro: small targets on high-resolution screens of professional programs, in English and Chinese.

A picture's file name holds only the time it was taken, so its folder (`<app>_<os>`) belongs to its name. Model logs
that repeat the ground truth (`img_path`, `prompt_to_evaluate`) are read too.
"""

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Form

CARD = SuiteCard(
    id="screenspot_pro",
    title="ScreenSpot-Pro",
    origin="https://github.com/likaixin2000/ScreenSpot-Pro-GUI-Grounding",
    licence="MIT (unconfirmed)",
    citation="Li et al. 2025, ScreenSpot-Pro: GUI Grounding for Professional High-Resolution Computer Use",
    size="1,581 instructions",
    frame="corner pixels, origin top left",
    known_problems=("file names repeat across folders",),
)
FORM = Form(
    lambda row: "xyxy",
    wordings=(("", ("instruction", "prompt_to_evaluate"), "en"), (":zh", ("instruction_cn",), "zh")),
    identity=("id", "index", "idx"),
)
items = FORM.items
"""Rows of `annotations/<app>_<os>.json`; the Chinese instruction is an item of its own."""
