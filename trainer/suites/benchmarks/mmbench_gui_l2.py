"""MMBench-GUI L2: basic and advanced wordings on six platforms; the headline is the mean of the two levels."""

from pipelines.suites.mmbench_gui_l2 import FORM
from trainer.suites.reading import Benchmark, Row, text

SYSTEMS = {"ios": "mobile", "android": "mobile", "web": "web"}


def labels(row: Row, file: str, side: object) -> dict[str, str | tuple[str, ...]]:
    """level (basic, advanced), system, type, application."""
    # "os_mac", "os_windows" and so on in some copies, bare names in others.
    system = text(row, "platform").removeprefix("os_").lower()
    return {
        "platform": SYSTEMS.get(system, "desktop"),
        "level": text(row, "grounding_type"),
        "system": system,
        "type": text(row, "data_type"),
        "application": text(row, "app_name"),
    }


MMBENCH_GUI_L2 = Benchmark(
    "mmbench_gui_l2",
    "MMBench-GUI L2",
    FORM,
    labels,
    (("level", "system"), ("level", "system", "type"), ("level",), ("system",), ("type",)),
    headline="level",
)
