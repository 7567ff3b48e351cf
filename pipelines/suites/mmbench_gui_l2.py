"""MMBench-GUI L2: each element of six platforms twice, in basic and in advanced wording. Boxes are corner fractions."""

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Form, Row

CARD = SuiteCard(
    id="mmbench_gui_l2",
    title="MMBench-GUI L2 grounding",
    origin="https://github.com/open-compass/MMBench-GUI",
    licence="unconfirmed",
    citation="Wang et al. 2025, MMBench-GUI: Hierarchical Multi-Platform Evaluation Framework",
    size="unconfirmed; part of more than 8,000 tasks",
    frame="corner fractions, origin top left",
    known_problems=("image_path has the platform's folder in one guide and not in the readers",),
)


def _with_platform(row: Row, name: str) -> str:
    """The picture's path with its platform's folder, whether or not the row has it already."""
    platform = row.get("platform")
    if isinstance(platform, str) and platform and not name.startswith(f"{platform}/"):
        return f"{platform}/{name}"
    return name


FORM = Form(lambda row: "fraction", picture_names=_with_platform, patterns=("**/*.json", "**/*.jsonl"))
items = FORM.items
"""Rows of `L2_annotations.json`."""
