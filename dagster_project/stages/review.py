"""`review/queue`: what people are to look at. Their answers return as `feedback/human_verdicts`, never as an edge."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.hygiene import with_gold
from dagster_project.stages.stage import GraphStage
from quality.review import queue
from quality.review import refusals as refused
from quality.review.agreement import consensus
from quality.review.verdict_store import VerdictStore, answers_path
from schemas.ids import digest


def stages(deployment: Deployment, names: Sequence[str]) -> Iterator[GraphStage]:
    """The queue over the gold of `names`."""
    yield GraphStage(
        key=queue.ASSET,
        deps=tuple(f"gold/{name}" for name in names),
        job="build_corpus",
        run=lambda work: queue.build_queue(work.store, with_gold(work, names)),
        kinds=("parquet",),
        code_version=queue.CODE_VERSION,
        table="queue",
        columns=queue.Queue,
        checks=queue.CHECKS,
        owners=deployment.owners,
        description="Items for people to verify, drawn where the judge is least sure and at random, every stratum in "
        "turn. `vesper review serve` shows them; `vesper review promote` makes the answers feedback/human_verdicts.",
    )


def refusals(deployment: Deployment, names: Sequence[str]) -> GraphStage:
    """What people refused of the gold of `names`: it is excluded from the shards."""
    return GraphStage(
        key=refused.ASSET,
        deps=tuple(f"gold/{name}" for name in names),
        job="build_corpus",
        run=lambda work: refused.find_refused(work.store, with_gold(work, names)),
        kinds=("parquet",),
        code_version=refused.CODE_VERSION,
        table="quarantine",
        columns=refused.Quarantine,
        checks=refused.CHECKS,
        owners=deployment.owners,
        description="What people agreed isn't right as it stands (feedback/human_verdicts, pinned by its digest): it "
        "doesn't train until it was repaired.",
    )


def answers_mark(home: Path) -> str:
    """A digest of what people have settled in a store's review; "" if that is nothing yet."""
    path = answers_path(home)
    # A missing file is a review that hasn't begun, and isn't made by looking.
    if not path.is_file():
        return ""
    answers = VerdictStore(path)
    try:
        settled = consensus(answers.verdicts())
    finally:
        answers.close()
    # Sorted, so that the mark follows what was settled and not in which order.
    return digest(sorted(settled.items()))[:16] if settled else ""
