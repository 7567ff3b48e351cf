"""The answer of `vesper diff` as Markdown, for a run's page and an asset's."""

from collections.abc import Iterator

from dagster_project.lineage.diff import CHANGED, ENTERED, LEFT, Diff
from pipelines.markdown_text import markdown_text

MOST = 60
"""Groups that a page shows; `vesper diff --items` writes every item."""


def diff_page(found: Diff) -> str:
    """Counts, then what left, entered and changed by reason; then what lies above and isn't the same. Text of data is
    escaped."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Diff) -> Iterator[str]:
    plain, groups = found.plain(), found.groups()
    sides = (", ".join(map(markdown_text, side)) for side in (found.before, found.after))
    yield f"**{' → '.join(sides)}**: {plain[LEFT]} left, {plain[ENTERED]} entered, {plain[CHANGED]} changed"
    if groups:
        yield "\n| | items | source | why | for example |\n|---|---:|---|---|---|"
    for group in groups[:MOST]:
        why = ": ".join(filter(None, (str(group["reason"]), str(group["words"]))))
        examples = group["examples"]
        example = examples[0] if isinstance(examples, list) and examples else ""
        cells = (group["direction"], group["items"], group["source"], why, example)
        yield f"| {' | '.join(markdown_text(str(cell), 120) for cell in cells)} |"
    if len(groups) > MOST:
        yield f"\nand {len(groups) - MOST} more groups; `vesper diff A B --items changes.ndjson` writes all of it"
    if found.inputs:
        yield "\n| input | before | after |\n|---|---|---|"
    for asset, (before, after) in found.inputs.items():
        yield f"| {markdown_text(asset)} | {before or 'none'} | {after or 'none'} |"
    if found.settings:
        yield "\n| trained with | before | after |\n|---|---|---|"
    for name, pair in found.settings.items():
        yield f"| {' | '.join(markdown_text(cell, 120) for cell in (name, *pair))} |"
