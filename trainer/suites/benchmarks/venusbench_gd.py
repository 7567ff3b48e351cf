"""VenusBench-GD: six tasks on web, mobile and desktop, the sixth of which is to refuse.

English is asked; `VENUSBENCH_GD_ZH` asks the Chinese instruction of the same rows. The total counts refusals;
`present` and `absent` stand beside it, since many report them apart.
"""

from dataclasses import replace

from pipelines.suites.venusbench_gd import FORM, SIDE_FILES
from trainer.suites.reading import Benchmark, Row, stem, text

PLATFORMS = ("web", "mobile", "desktop")


def labels(row: Row, file: str, side: object) -> dict[str, str | tuple[str, ...]]:
    """task (the file's name), platform, application, type."""
    path = text(row, *FORM.picture).replace("\\", "/").split("/")
    platform = text(row, "platform")
    # By the row's word if it is one of the three, else by a folder of the picture's path.
    named = platform if platform in PLATFORMS else next((part for part in path if part in PLATFORMS), platform)
    return {
        "platform": named,
        "task": stem(file),
        "application": text(row, "application"),
        "type": text(row, "ui_type"),
    }


def refuses(row: Row, file: str) -> bool:
    """Rows of the refusal task, or marked as negative, or with [-1,-1] for a box."""
    return "refusal" in stem(file) or row.get("gt_type") == "negative" or row.get("bbox") == [-1, -1]


VENUSBENCH_GD = Benchmark(
    "venusbench_gd",
    "VenusBench-GD",
    FORM,
    labels,
    (("task",), ("task", "platform"), ("platform",), ("application",), ("type",)),
    asks=lambda file: stem(file) not in SIDE_FILES,
    refuses=refuses,
)
VENUSBENCH_GD_ZH = replace(VENUSBENCH_GD, name="venusbench_gd_zh", title="VenusBench-GD (Chinese)", wordings=(":zh",))
