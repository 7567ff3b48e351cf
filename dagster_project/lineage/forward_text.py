"""Forward answers as text for a terminal, and as a picture."""

from collections.abc import Iterator

from dagster_project.lineage.manifests import Manifests, name_of
from dagster_project.lineage.picture import Box, draw
from dagster_project.lineage.rebuild import RebuildPlan
from dagster_project.lineage.subjects import LineageSubject
from dagster_project.lineage.tables import clean, table
from dagster_project.lineage.touched import Forward, Touch

COLUMNS = ("mixture", "shards", "tasks", "held_out")


def forward_lines(found: Forward) -> Iterator[str]:
    """What holds it, which checkpoints it touches and how, what it doesn't touch though it lies below."""
    yield f"{found.kind} {clean(found.name)}"
    yield f"held by {len(found.holders)}: {_some(found.holders)}"
    if found.samples is not None:
        yield f"samples: {found.samples}; tasks of the pool: {len(found.tasks)}"
    yield f"below it in the graph: {len(found.descendants)} versions"
    yield ""
    yield f"checkpoints that it touches: {len(found.checkpoints)}"
    yield from _touches(found.checkpoints)
    if found.validated:
        yield f"only validated on it: {_some([t.asset for t in found.validated])}"
    if found.evaluations:
        yield f"evaluations: {_some([t.asset for t in found.evaluations], 12)}"
    if found.without_rows:
        yield f"below it, but no row of it reached them: {_some(found.without_rows, 12)}"


def _touches(touches: list[Touch]) -> Iterator[str]:
    if not touches:
        return
    rows = []
    for touch in touches:
        name = touch.asset + ("" if touch.current else " (not current)")
        counts = [touch.rows.get(column) if column in touch.rows else None for column in COLUMNS]
        parents = ", ".join(parent.partition("@")[0] for parent in touch.parents)
        rows.append([name, touch.version, *counts, parents or "-"])
    yield from table(("checkpoint", "version", *(f"rows: {name}" for name in COLUMNS), "from touched"), rows, 90)


def plan_lines(plan: RebuildPlan) -> Iterator[str]:
    """What is stale without it, and what to build again, in order."""
    yield f"without it {len(plan.stale)} current assets are stale, {len(plan.fresh)} stay as they are"
    if plan.gone:
        yield f"nothing is left to make these from: {_some(plan.gone, 12)}"
    for note in plan.notes:
        yield f"note: {note}"
    yield f"build again, in this order ({len(plan.steps)}):"
    rows = [
        [step.number, step.asset, step.job or "(no such stage)", _some(list(step.because), 3)] for step in plan.steps
    ]
    yield from table(("", "asset", "job", "reads"), rows, 90)
    if plan.old:
        yield f"older versions that hold it too: {_some(plan.old)}"


def _some(names: list[str], limit: int = 6) -> str:
    shown = ", ".join(clean(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "") if names else "none"


def forward_picture(manifests: Manifests, subject: LineageSubject, plan: RebuildPlan | None) -> str:
    """The current versions below it; with a plan, what goes is dashed and what is built again has a red border."""
    # Only current versions: with all that ever were, nobody would find the one that matters.
    nodes = [n for n in {*manifests.downstream(subject.holders), *subject.holders} if manifests.is_current(n)]
    gone = set(plan.gone) if plan else set()
    stale = set(plan.stale) if plan else set()
    boxes, edges = [], {}
    for node in nodes:
        manifest = manifests.find(node)
        mark = (
            # What goes altogether is shown as such, even where it is also what was asked about.
            "gone" if node[0] in gone else "start" if node in subject.holders else "stale" if node[0] in stale else ""
        )
        boxes.append(Box(name_of(node), node[1], name_of(node), mark))
        edges[name_of(node)] = [name_of(parent) for parent in (manifest.inputs.items() if manifest else ())]
    return draw(f"{'Stale without' if plan else 'Below'} {subject.name}", boxes, edges)
