"""`unified/<source>` + `verdicts/<source>` → `gold/<source>`: what was kept, rewritten or reconstructed, and what not.

Tables: `steps` (gold steps; the provenance of a repaired one names parent, repairs and round), `samples` (kept native
samples, then those derived from gold steps and their screens), `verdicts` (rounds 1 and later), `rejects`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines import sources
from pipelines.derivers.base import DeriveConfig
from pipelines.derivers.derive import DERIVE_VERSION, derive_samples
from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.prompts.history import USUAL_HISTORY, HistoryConfig
from pipelines.store import PartResult, PartSpec, PartWriter, Store
from pipelines.store.files import StoreError
from pipelines.store.manifest import Check, CheckSpec, Manifest
from quality.code_version import code_digest
from quality.items.item import Row, provenance
from quality.items.part import SourcePart, load_part, rows_by_part
from quality.judges.judge import Judge, Verdict, identity
from quality.judges.nightly import Nightly, PartWork, ask_again_of, ceiling_of
from quality.judges.registry import JudgeConfig, asks_a_model, judge_of
from quality.judges.rules import RUBRIC_VERSION
from quality.judges.verdicts import read_pending, require_judge, write_verdicts
from quality.model_client.client import ModelClient
from quality.refinement.refine import Refined, refine_part
from quality.refinement.repairs import ItemRewriter
from quality.refinement.rewriters import build_rewriter
from quality.refinement.taught_thoughts import VERSION as THOUGHTS_VERSION
from quality.refinement.taught_thoughts import teach_thoughts
from quality.review.people_decisions import KeepDecision, against, people_decisions
from schemas.ids import digest
from schemas.tables import Column, Samples, Steps, Table, Verdicts

_CODE = (
    "refinement/refine",
    "refinement/reconstruct",
    "refinement/repairs",
    "refinement/rewrite",
    "refinement/gold",
    "review/people_decisions",
    "judges/cleaning",
    "judges/answers",
    "safety/credentials",
    "safety/personal_numbers",
)
CODE_VERSION = f"1.{DERIVE_VERSION}.{code_digest(_CODE)}.{RUBRIC_VERSION}"
"""With the rules' version: what they find proves every repair, whichever judge scores it."""
ITEMS_A_SECOND = 250
"""Steps and samples that are refined on one core, roughly."""
ENDED_ONCE = CheckSpec("every item is gold or rejected, once", "Refinement lost or doubled an item")
NOT_EMPTY = CheckSpec("gold isn't empty", "Everything was rejected")
CHECKS = (ENDED_ONCE, NOT_EMPTY)


class Rejects(Table, version=1):
    """An item that didn't become gold."""

    item_id = Column(pa.string(), "the step or sample")
    reason = Column(pa.string(), "discarded, unrepaired, review or dropped by whom, then the judge's words")
    score = Column(pa.int8(), "the last one, 0 to 10", null=True)
    row = Column(pa.string(), "the row as it was last, canonical JSON")


@dataclass(frozen=True)
class GoldPart:
    """All a worker needs to refine a part: plain data."""

    home: str
    unified: tuple[str, str]
    verdicts: tuple[str, str]
    """Assets and versions that are read."""
    asset: Nightly
    version: str
    spec: PartSpec
    judge: JudgeConfig
    rules: "GoldRules"
    overruled: Mapping[str, KeepDecision]


@dataclass(frozen=True)
class GoldRules:
    """How parts are refined: `max_rounds` of repairs, derivers of others, how prompts show the steps before, and the
    licence of what comes of it."""

    max_rounds: int
    licence: str
    derivers: tuple[str, ...]
    history: HistoryConfig = USUAL_HISTORY


def build_gold(
    store: Store,
    source: str,
    judge: Judge,
    rewriter: ItemRewriter,
    max_rounds: int = 3,
    derivers: tuple[str, ...] = (),
    *,
    history: HistoryConfig = USUAL_HISTORY,
    judge_config: JudgeConfig | None = None,
    execution: Execution | None = None,
    licence: str = "",
    teachers: tuple[ModelClient, ModelClient] | None = None,
) -> Manifest:
    """Run the recursion over a source and derive samples from what is gold. What people kept (the promoted set of
    feedback/human_verdicts, pinned by its digest) is gold though the judge rejected it. `derivers`, `history`: see
    `DeriveConfig`. `judge_config` is what judge and rewriter were built from: if they ask no model, workers build them
    again, and `execution` says where they are. `licence` of the samples: by default what the source's descriptor says.
    `teachers` (who writes, who reads again) write thoughts for gold steps that have none, before samples are derived.

    Raises `StoreError` if the verdicts are missing or of another version of the source than the current one,
    `ModelError` if a model can't work. A rerun with equal inputs does nothing.
    """
    unified, verdicts = store.require(f"unified/{source}"), store.require(f"verdicts/{source}")
    rules = GoldRules(max_rounds, licence or licence_of(source), derivers, history)
    config: dict[str, Any] = {
        **identity(judge),
        "rewriter": [rewriter.name, rewriter.model, rewriter.version],
        "max_rounds": max_rounds,
        "licence": rules.licence,
        # without any, the digest of before there were any
        **({"derivers": list(derivers)} if derivers else {}),
        **history.said(),
        **({"teachers": [*(one.model for one in teachers), THOUGHTS_VERSION]} if teachers else {}),
    }
    judged = verdicts.part_hashes
    parts = unified.part_hashes
    # Verdicts on an older version would judge rows that are different now.
    if missing := sorted(set(parts) - set(judged)):
        raise StoreError(
            f"verdicts/{source} lacks part {missing[0]}; materialise it again for the current unified/{source}"
        )
    retained = people_decisions(store)
    overruled = {key: against(read_rows(verdicts, key), retained) if retained else {} for key in parts}
    # A part of which people kept nothing has the digest that it had before they could.
    specs = [
        PartSpec(key, digest([CODE_VERSION, config, files, judged[key], *_plain(overruled[key])]))
        for key, files in parts.items()
    ]
    used = sorted({one.promoted for some in overruled.values() for one in some.values()})  # one, or none
    pinned = {"feedback/human_verdicts": used[0]} if used else {}
    config |= pinned
    inputs = {unified.asset: unified.version, verdicts.asset: verdicts.version}
    asset = Nightly(f"gold/{source}", CODE_VERSION, config, inputs, specs, ceiling_of(judge), ask_again_of(judge))

    # Calls are plain data, so that any engine's workers can run them.
    def part(spec: PartSpec, version: str) -> GoldPart:
        read = (unified.asset, unified.version), (verdicts.asset, verdicts.version)
        chosen = judge_config or JudgeConfig()
        small, kept = asset.without_parts(), overruled[spec.key]
        return GoldPart(str(store.home), *read, small, version, spec, chosen, rules, kept)

    def run(version: str) -> list[PartResult]:
        # Judges that ask a model stay in this process: one ceiling, one cache, and they wait more than they
        # compute.
        if judge_config is not None and not asks_a_model(judge_config) and teachers is None:
            rows = rows_by_part(unified)
            calls = [
                PartCall(part(spec, version), asset.receipts(spec), rows[spec.key] / ITEMS_A_SECOND, rows[spec.key])
                for spec in specs
            ]
            return run_parts(store, asset.asset, run_gold_part, calls, execution)
        return [_run(store, part(spec, version), unified, verdicts, judge, rewriter, teachers) for spec in specs]

    return asset.build(store, run, lambda totals: {**summary(totals), **pinned}, _checks)


def run_gold_part(item: GoldPart) -> PartResult:
    """Refine one part; called by an engine's workers. Raises `ValueError` where they build another judge."""
    store, judge = Store(item.home), judge_of(item.judge)
    require_judge(judge, item.asset)
    read = store.version(*item.unified), store.version(*item.verdicts)
    return _run(store, item, *read, judge, build_rewriter(item.judge))


def _run(
    store: Store,
    item: GoldPart,
    unified: Manifest,
    verdicts: Manifest,
    judge: Judge,
    rewriter: ItemRewriter,
    teachers: tuple[ModelClient, ModelClient] | None = None,
) -> PartResult:
    key, rules = item.spec.key, item.rules

    def work() -> PartWork:
        part = load_part(unified, key, store)
        first, waiting = read_verdicts(verdicts, key), read_pending(verdicts, key)
        # Counted before and after, as one rewriter serves all parts.
        before = getattr(rewriter, "unanswered", 0)
        refined = refine_part(part, first, judge, rewriter, rules.max_rounds, waiting, item.overruled)

        # Figures first: the part's items are let go before its samples are derived, which needs the memory.
        counts, screens = {**count(part, refined), "first_keep": first_keep(first)}, part.screens
        if teachers is not None:
            taught = teach_thoughts(refined.steps, part.bank, *teachers)
            refined.steps = taught.rows
            counts |= taught.counts

        def write(out: PartWriter) -> dict[str, int]:  # when this is called, the part's items are gone
            return {**counts, "samples": _write(out, screens, refined, rules)}

        # What round 0 left waiting comes with new verdicts, and so with another digest: only later rounds wait here.
        declined = getattr(rewriter, "unanswered", 0) - before
        unanswered = declined + sum(verdict.unanswered for verdict in refined.verdicts)
        return PartWork(len(refined.pending) if not waiting else 0, write, unanswered)

    return item.asset.run_part(store.root(item.asset.asset), item.version, item.spec, work)


def _plain(overruled: Mapping[str, KeepDecision]) -> list[Any]:
    return [[[item, one.plain()] for item, one in sorted(overruled.items())]] if overruled else []


def first_keep(verdicts: Sequence[Verdict]) -> int:
    """Items (not episodes) that round 0 keeps."""
    return sum(v.disposition == "keep" and not v.item_id.startswith("episode:") for v in verdicts)


def licence_of(source: str) -> str:
    """Licence of a source by its descriptor; `unknown` for one that has no adapter here."""

    adapter = sources.registry().get(source)
    return adapter.descriptor.licence if adapter else "unknown"


def read_verdicts(manifest: Manifest, key: str) -> list[Verdict]:
    """Round-0 verdicts of one part."""
    return [verdict_of(row) for row in read_rows(manifest, key)]


def read_rows(manifest: Manifest, key: str) -> list[Row]:
    """Rows of `verdicts` of one part."""
    return manifest.read_part(key, "verdicts", Verdicts.schema).to_pylist()  # type: ignore[no-any-return]


def verdict_of(row: Row) -> Verdict:
    """A row of `verdicts` → `Verdict`."""
    return Verdict(
        row["item_id"],
        row["alignment"],
        row["reachability"],
        row["reason"],
        row["confidence"],
        row["judge"],
        row["model"],
        row["rubric_version"],
        row["round"],
    )


def _write(out: PartWriter, screens: pa.Table, refined: Refined, rules: GoldRules) -> int:
    """Write the tables of a part; how many samples there are."""
    steps, samples = gold_tables(screens, refined, rules.licence, rules.derivers, rules.history)
    out.table("steps", steps)
    out.table("samples", samples)
    write_verdicts(out, refined.verdicts)
    out.table("rejects", Rejects.table(reject.as_row() for reject in refined.rejects))
    return samples.num_rows


def gold_tables(
    screens: pa.Table,
    refined: Refined,
    licence: str,
    derivers: tuple[str, ...] = (),
    history: HistoryConfig = USUAL_HISTORY,
) -> tuple[pa.Table, pa.Table]:
    """Gold `steps` and `samples` of a part, whose `screens` these are: derived samples come from gold rows only."""
    steps = Steps.table(refined.steps)
    native = Samples.table(refined.samples)
    config = DeriveConfig(derivers=derivers, history=history)
    derived = derive_samples(steps, screens, licence=licence, samples=native, config=config)
    return steps, pa.concat_tables([native, derived])


def count(part: SourcePart, refined: Refined) -> Counter[str]:
    """Items and what became of them; every item is in exactly one of kept, rewritten, reconstructed, discarded,
    unrepaired, dropped, review."""
    counts: Counter[str] = Counter()
    counts["items"] = sum(len(episode.actions) for episode in part.episodes) + len(part.native_samples)
    # Each answer adds a step that the recorded episode didn't have.
    counts["items"] += refined.answered
    counts["answered"] = refined.answered
    counts["episodes"] = len(part.episodes)
    gold = [row for row in refined.steps if row["action_text"] is not None] + refined.samples
    counts["gold"] = len(gold)
    for row in gold:
        repairs = provenance(row).get("repairs", [])
        counts[f"repair:{repairs[-1]}" if repairs else "repair:none"] += 1
        counts[_became(repairs)] += 1
    # The first word of the reason is what became of the item; the rest is the judge's.
    for reject in refined.rejects:
        word = reject.reason.partition(":")[0].partition(" ")[0]
        counts[word] += 1
    counts["pending"] = len(refined.pending)
    counts["overruled"] = refined.overruled
    return counts


def _became(repairs: list[str]) -> str:
    if not repairs:
        return "kept"
    return "rewritten" if repairs[-1].startswith("rewrite") else "reconstructed"


_ENDS = ("kept", "rewritten", "reconstructed", "discarded", "unrepaired", "dropped", "review", "pending")


def summary(totals: Counter[str]) -> dict[str, Any]:
    """Totals and shares.

    `share_before` = items kept as they were ÷ items. `share_after` = gold ÷ what the pool still holds (items less
    those discarded or dropped); unrepaired and undecided items stay in the pool and count against it. `yield` = gold
    ÷ items. Pending items are in none of these. `overruled`: items kept by people against the judge. `answered`:
    questions that were given the answer which their last screen shows, a step more each.
    """
    items = totals["items"] - totals["pending"]
    # What still waits for an answer is in no share: it isn't known yet.
    pool = items - totals["discarded"] - totals["dropped"]
    plain: dict[str, Any] = {
        name: totals[name] for name in ("items", "episodes", "gold", *_ENDS, "samples", "overruled", "answered")
    }
    plain["share_before"] = totals["first_keep"] / items if items else 0.0
    plain["share_after"] = totals["gold"] / pool if pool else 0.0
    plain["yield"] = totals["gold"] / items if items else 0.0
    plain["repairs"] = _named("repair:", totals)
    if "thought:written" in totals:
        declined = _named("thought:declined:", totals)
        plain["thoughts"] = {"written": totals["thought:written"], "declined": declined, "prompts": THOUGHTS_VERSION}
    return plain


def _named(start: str, totals: Counter[str]) -> dict[str, int]:
    return {name.removeprefix(start): number for name, number in sorted(totals.items()) if name.startswith(start)}


def _checks(totals: Counter[str]) -> list[Check]:
    ended = sum(totals[name] for name in _ENDS)
    return [
        ENDED_ONCE.check(ended == totals["items"], ended, totals["items"]),
        NOT_EMPTY.check(
            totals["items"] == totals["pending"] or totals["gold"] > 0, totals["gold"], "more than 0", limit=0
        ),
    ]
