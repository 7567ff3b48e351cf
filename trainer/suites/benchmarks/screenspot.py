"""ScreenSpot and ScreenSpot-V2: mobile, desktop and web, text and icon.

The platform stands in the picture's name (`mobile_`, `pc_`, `web_`), since the original rows name it in their file
only, and converted copies put the data source (`gitlab`) into `platform`.
"""

from pipelines.suites.screenspot import FORM
from trainer.suites.reading import Benchmark, Row, stem, text

PLATFORMS = {"mobile": "mobile", "pc": "desktop", "web": "web", "desktop": "desktop"}


def platform(row: Row, file: str) -> str:
    """mobile, desktop or web; by the picture's name, else by the file's or the row's word."""
    picture = stem(text(row, *FORM.picture)).partition("_")[0]
    words = (picture, *stem(file).split("_"), text(row, "group"), text(row, "platform"))
    return next((PLATFORMS[word] for word in words if word in PLATFORMS), "unknown")


def labels(row: Row, file: str, side: object) -> dict[str, str | tuple[str, ...]]:
    """platform, type (text or icon), and the data source."""
    source = text(row, "data_source") if "data_source" in row else text(row, "application", "platform")
    return {"platform": platform(row, file), "type": text(row, "data_type", "ui_type"), "source": source}


BREAKDOWNS = (("platform", "type"), ("platform",), ("type",), ("source",))
SCREENSPOT = Benchmark("screenspot", "ScreenSpot", FORM, labels, BREAKDOWNS)
SCREENSPOT_V2 = Benchmark("screenspot_v2", "ScreenSpot-V2", FORM, labels, BREAKDOWNS)
