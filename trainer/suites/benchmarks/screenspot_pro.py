"""ScreenSpot-Pro: groups of professional programs, each with text and icon targets; by program and system as well.

The English instruction is asked; `SCREENSPOT_PRO_CN` asks the Chinese one of the same rows.
"""

from dataclasses import replace

from pipelines.suites.screenspot_pro import FORM
from trainer.suites.reading import Benchmark, Row, text


def labels(row: Row, file: str, side: object) -> dict[str, str | tuple[str, ...]]:
    """group (CAD, Dev, …), application, system, type."""
    return {
        "platform": "desktop",
        "group": text(row, "group"),
        "application": text(row, "application"),
        "system": text(row, "platform"),
        "type": text(row, "ui_type"),
    }


def refuses(row: Row, file: str) -> bool:
    """Rows of the negative kind, which variants of the files have."""
    return row.get("gt_type") == "negative"


SCREENSPOT_PRO = Benchmark(
    "screenspot_pro",
    "ScreenSpot-Pro",
    FORM,
    labels,
    (("group", "type"), ("group",), ("application",), ("system",), ("type",)),
    refuses=refuses,
)
SCREENSPOT_PRO_CN = replace(
    SCREENSPOT_PRO, name="screenspot_pro_cn", title="ScreenSpot-Pro (Chinese)", wordings=(":zh",)
)
