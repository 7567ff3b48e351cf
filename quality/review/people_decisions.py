"""What people said is right though the judge rejected it: it becomes gold as they saw it.

The positive side of `refusals`. Of the promoted set (feedback/human_verdicts) the decisions `keep` count, and each only
while the item's content is what people saw (`Trajectory.digest`). What cleaning took out (unreadable items,
passwords) isn't shown to people as theirs to keep, and stays out.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow.parquet as pq

from pipelines.store import Store
from quality.items.item import Episode, Item, Row, Sample, base_id, provenance
from quality.judges.judge import Verdict
from quality.review.promote import KEY, current, human_set
from quality.review.refusals import KEPT, decisions_of
from quality.review.trajectories import shown
from schemas.ids import canonical_json

JUDGE, RUBRIC_VERSION = "people", "people-1"
"""How their word stands among the verdicts; its `model` names the promoted set."""


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """A decision to keep an item. `content`: digest of what was seen; `by`: who said so; `when`: the last answer, in
    UTC; `promoted`: digest of the set."""

    content: str
    by: tuple[str, ...]
    when: str
    promoted: str

    def plain(self) -> list[object]:
        """For the digest of a part."""
        return [self.content, list(self.by), self.when, self.promoted]


def people_decisions(store: Store) -> dict[str, KeepDecision]:
    """Item (without its version) → the decision of the promoted set to keep it; empty while nothing is promoted.
    Raises `StoreError` if the set's files aren't those it names."""
    promoted = current(store)
    if promoted is None:
        return {}
    pinned = str(promoted["digest"])
    # Those that people refused are a matter of `refusals`.
    contents = {item: seen for item, (decision, seen) in decisions_of(store, pinned).items() if decision == KEPT}
    folder, settled = store.home / KEY / pinned, human_set(store, pinned).decisions
    rows = [
        row
        for row in pq.read_table(folder / "verdicts.parquet").to_pylist()
        if row["decision"] == KEPT and row["item_id"] in settled
    ]
    times = {
        (row["item_id"], row["annotator"]): row["created"]
        for row in pq.read_table(folder / "times.parquet").to_pylist()
    }
    found = {}
    for item, content in contents.items():
        said = [row for row in rows if base_id(row["item_id"]) == item]
        # The decision is as old as its last answer.
        at = max((times.get((row["item_id"], row["annotator"]), 0.0) for row in said), default=0.0)
        when = datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(timespec="seconds")
        found[item] = KeepDecision(content, tuple(sorted({row["annotator"] for row in said})), when, pinned)
    return found


def against(verdicts: Iterable[Row], kept: Mapping[str, KeepDecision]) -> dict[str, KeepDecision]:
    """Those of `kept` that a judge doesn't keep whole, by rows of `verdicts`: an episode stands for its steps."""
    owners = {_owner(row["item_id"]) for row in verdicts if row["disposition"] != "keep"} if kept else set()
    return {item: kept[item] for item in sorted(owners & kept.keys())}


def _owner(item_id: str) -> str:
    name = base_id(item_id)
    return "episode:" + name.removeprefix("step:").rpartition("/")[0] if name.startswith("step:") else name


def holds(item: Item, kept: Mapping[str, KeepDecision]) -> KeepDecision | None:
    """The decision to keep an item as it is; None if there is none or people saw something else."""
    found = kept.get(base_id(item.item_id))
    # Of another content they never spoke.
    return found if found is not None and shown(item).digest == found.content else None


def people_verdicts(item: Item, found: KeepDecision, overruled: Mapping[str, Verdict], number: int) -> list[Verdict]:
    """Their word as verdicts on an item (and an episode's steps), after those that it overrules."""
    names = [item.item_id, *(step.item_id for step in item.actions)] if isinstance(item, Episode) else [item.item_id]
    built = []
    for name in names:
        # What it overrules stays readable in the reason.
        before = overruled[name]
        said = f"{before.judge} had {before.score if before.score is not None else 'abstained'}: {before.reason}"
        reason = f"kept by {', '.join(found.by)} ({found.when}); {said}"
        # People judge an episode as a whole; alignment belongs to its steps.
        alignment = None if name.startswith("episode:") else 10
        reachability = None if isinstance(item, Sample) else 10
        model = found.promoted[:16]
        built.append(Verdict(name, alignment, reachability, reason, 1.0, JUDGE, model, RUBRIC_VERSION, number))
    return built


def as_decided(row: Row, found: KeepDecision) -> Row:
    """A row that says in its provenance which promoted set kept it; names stand in the verdicts alone."""
    facts = {"decision": KEPT, "feedback/human_verdicts": found.promoted}
    return {**row, "provenance": canonical_json({**provenance(row), "people": facts})}
