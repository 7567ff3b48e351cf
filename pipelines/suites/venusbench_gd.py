"""VenusBench-GD: element, spatial, visual, reasoning, functional and refusal grounding in English and Chinese."""

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Box, Form, Row, thousandths

CARD = SuiteCard(
    id="venusbench_gd",
    title="VenusBench-GD",
    origin="https://huggingface.co/datasets/inclusionAI/VenusBench-GD",
    licence="MIT (unconfirmed)",
    citation="VenusBench-GD: A Comprehensive Multi-Platform GUI Benchmark for Grounding",
    size="6,166 instructions",
    frame="corner pixels, origin top left; refusals have no box",
)
SIDE_FILES = ("meta",)


def target(row: Row, size: tuple[int, int] | None) -> tuple[Box | None, tuple[tuple[float, float], ...]]:
    """Box of a row in 0..1000; None for a refusal."""
    if row.get("gt_type") == "negative" or row.get("bbox") is None or list(row["bbox"]) == [-1, -1]:
        return None, ()
    return thousandths(row["bbox"], "xyxy", size), ()


FORM = Form(
    lambda row: "xyxy",
    box_of=target,
    beside=("meta.json", "*/meta.json"),
    wordings=(("", ("instruction", "prompt_to_evaluate"), "en"), (":zh", ("instruction_zh",), "zh")),
)
items = FORM.items
"""Rows of `instruction/*.json`; the Chinese instruction is an item of its own. `meta.json` is passed over."""
