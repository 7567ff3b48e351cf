"""`hygiene/human_verdicts`: what people agreed isn't right as it stands in gold, which then doesn't train.

People speak of what they saw: a decision holds while the item's content is what it was then (`Trajectory.digest`). What
has been repaired since is judged again, and may train. The promoted set is pinned by its digest, which the counts name.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import CheckSpec, Manifest
from pipelines.training_data.removed import PEOPLE
from quality.code_version import code_digest
from quality.items.item import Episode, Item, Sample, base_id
from quality.items.part import load_part
from quality.review.promote import current, human_part, human_set
from quality.review.trajectories import shown
from schemas.ids import digest
from schemas.tables import Column, Table

ASSET = PEOPLE
CODE_VERSION = f"1.{code_digest(('review/refusals', 'review/trajectories'))}"
KEPT = "keep"
NOT_MORE_REFUSED = CheckSpec("no more refused than people said", "More items of gold are held back than people refused")
CHECKS = (NOT_MORE_REFUSED,)


class Quarantine(Table, version=1):
    """An item that people refused: a step, episode or sample by its item id."""

    item_id = Column(pa.string(), "step, episode or sample")
    source = Column(pa.string(), "name of the dataset")
    reason = Column(pa.string(), "people, then what they decided")


Decided = dict[str, tuple[str, str]]
"""Item (without its version) → (decision, digest of what people saw)."""


def find_refused(store: Store, sources: Sequence[str]) -> Manifest:
    """Gold of `sources` against the promoted human verdicts → table `quarantine`; empty while nothing is promoted.

    Counts: items that people settled, those that they refused, those of them that stand in gold as they were seen.
    """
    promoted = current(store)
    pinned = str(promoted["digest"]) if promoted is not None else ""
    decided = decisions_of(store, pinned) if pinned else {}
    # `unsure` and `rewrite` keep an item out as well.
    refused = {item: found for item, found in decided.items() if found[0] != KEPT}
    golds = {name: store.require(f"gold/{name}") for name in sources}
    inputs = {gold.asset: gold.version for gold in golds.values()}
    work: dict[str, tuple[PartSpec, Manifest, Decided]] = {}
    for name, gold in golds.items():
        # Ids of episodes tell their source; those of samples don't, so all sources are asked.
        own = {item: found for item, found in refused.items() if item.partition(":")[2].startswith(f"{name}/")}
        own |= {item: found for item, found in refused.items() if item.startswith("sample:")}
        if own:
            work[name] = PartSpec(name, digest([CODE_VERSION, gold.data_version, sorted(own.items())])), gold, own
    specs = [spec for spec, *_ in work.values()] or [PartSpec("none", CODE_VERSION)]
    with store.build(
        ASSET, code_version=CODE_VERSION, config={"feedback/human_verdicts": pinned}, inputs=inputs, parts=specs
    ) as build:
        counts: Counter[str] = Counter()
        for spec, gold, own in work.values():
            result = build.run_part(spec, lambda out, gold=gold, own=own: _refuse(out, store, gold, own))  # type: ignore[misc]
            counts.update(result.counts)
        if not work:
            # An asset needs a part, even with nothing to say.
            build.run_part(specs[0], lambda out: out.table("quarantine", Quarantine.table([])))
        facts = {
            "settled": len(decided),
            "refused": len(refused),
            "refused in gold": counts["items"],
            "quarantined": counts["rows"],
            "feedback/human_verdicts": pinned,
        }
        return build.commit(
            counts=facts,
            checks=[
                NOT_MORE_REFUSED.check(
                    counts["items"] <= len(refused), counts["items"], f"at most {len(refused)}", limit=len(refused)
                )
            ],
        )


def decisions_of(store: Store, pinned: str) -> Decided:
    """What people settled in a promoted set, and the content that they spoke of."""
    decided = human_set(store, pinned).decisions
    seen = {item.item_id: shown(item).digest for item in human_part(store, pinned).items}
    return {base_id(item): (decision, seen[item]) for item, decision in sorted(decided.items()) if item in seen}


def _refuse(out: PartWriter, store: Store, gold: Manifest, decided: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    rows, items = [], 0
    for key in gold.part_hashes:
        part = load_part(gold, key, store)
        items_here: list[Item] = [*part.episodes, *part.native_samples]
        for item in items_here:
            decision, content = decided.get(base_id(item.item_id), ("", ""))
            # What people saw was another content: since then it may have been repaired.
            if decision and shown(item).digest == content:
                items += 1
                rows += [
                    {"item_id": name, "source": gold.asset.partition("/")[2], "reason": f"people: {decision}"}
                    for name in _ids(item)
                ]
    out.table("quarantine", Quarantine.table(sorted(rows, key=lambda row: str(row["item_id"]))))
    return {"items": items, "rows": len(rows)}


def _ids(item: Item) -> list[str]:
    """An episode goes with its steps: samples name either as their parents."""
    if isinstance(item, Sample):
        return [base_id(item.item_id)]
    assert isinstance(item, Episode)
    return [base_id(item.item_id), *(base_id(step.item_id) for step in item.steps)]
