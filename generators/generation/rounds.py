"""A round of the generation loop over a store: catalogue → task bank → trajectories → verified. Rounds are partitions.

    generation/catalogue/<round>      what is known before the round, from `feedback/verified`
    generation/task_bank/<round>      the round's new tasks, where they came from, and what was refused
    generation/trajectories/<round>   what the policy made of them
    generation/verified/<round>       verdicts, and the rows of `steps` and `screens`

A round learns from promoted rounds before it and from nothing else, and records which. The world's truth enters counts
(feasible, false positives) and never a proposal.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from generators.execution.device_pool import WrappedPool
from generators.execution.journal import Journal
from generators.execution.scheduling import RunStatistics, run_all
from generators.generation import round_checks
from generators.generation.feedback import known_before, promote
from generators.generation.learned import learned, read_proposals
from generators.generation.loop import LoopConfig, LoopParts, embedded_annotators, embedded_policies
from generators.generation.process_annotator import ProcessAnnotator
from generators.generation.proposing.proposers import arms
from generators.generation.proposing.task_bank import Proposed, TaskBank, propose
from generators.generation.records import read_lines, write_lines
from generators.generation.round_figures import figures
from generators.generation.round_names import BANK, CATALOGUE, TRAJECTORIES, VERIFIED, round_name
from generators.generation.round_tables import CatalogueRows, Proposals, Refused
from generators.generation.steering import EVALUATIONS
from generators.generation.tables import run_row, trajectory_tables
from generators.generation.verify import Verifier
from generators.tasks.strata import STRATA
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.files import StoreError
from pipelines.store.frozen import frozen_inputs
from pipelines.store.manifest import Manifest
from quality.evidence.embedding import Embedder
from schemas.ids import digest
from schemas.tables import Tasks, TrajectoryRuns

CODE_VERSION = "1"
BANK_VERSION = "4"
"""Of the bank; 2: `closest` is about the round's own tasks; 4: `coverage` keeps what it drew for its next proposal."""
REOPENINGS = 5
"""How often an execution that was lost to infrastructure is started again by another call."""
FALSE_POSITIVES = 0.02
"""Share of verified trajectories that the world's truth may contradict."""


def build_catalogue(store: Store, number: int, config: LoopConfig) -> Manifest:
    """`generation/catalogue/<round>`: table `catalogue`, a row a target and function."""
    # Without feedback the rounds are an ablation: each proposes as if it were the first.
    known = known_before(store, number) if config.feedback else {}
    inputs = {manifest.asset: manifest.version for manifest in known.values()}
    # By data version: rounds built again with the same rows leave the catalogue as it was.
    plain = {"loop": config.plain, "feedback": {name: m.data_version for name, m in known.items()}}
    spec = PartSpec("all", digest([CODE_VERSION, plain]))

    def make(out: PartWriter) -> dict[str, Any]:
        catalogue = learned(store, list(known.values()))
        rows = catalogue.as_rows(config.task_world)
        out.table("catalogue", CatalogueRows.table(rows))
        return {
            "functions": len(rows),
            "shown": sum(row["shown"] for row in rows),
            "coverage": round(catalogue.coverage(config.task_world), 6),
            "targets seen": len(catalogue.names),
            **{f"yield of {arm}": round(tally.mean(0.5), 4) for arm, tally in sorted(catalogue.arms.items())},
            **config.pins,
        }

    asset = f"{CATALOGUE}/{round_name(number)}"
    with store.build(asset, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        counts = build.run_part(spec, make).counts
        before = store.current(f"{CATALOGUE}/{round_name(number - 1)}") if number > 1 else None
        # What is known can only grow with promoted rounds; less means that a round was lost or relabelled.
        least = before.counts["coverage"] if before is not None and config.feedback else 0.0
        checks = [
            round_checks.HAS_FUNCTIONS.check(counts["functions"] > 0, counts["functions"], "at least 1", limit=1),
            round_checks.COVERAGE_HELD.check(
                counts["coverage"] >= least, counts["coverage"], f"at least {least}", limit=least
            ),
        ]
        return build.commit(counts=counts, checks=checks)


def build_bank(store: Store, number: int, config: LoopConfig, parts: LoopParts | None = None) -> Manifest:
    """`generation/task_bank/<round>`: tables `tasks`, `proposals`, `refused`. Raises `StoreError` without the round's
    catalogue or an earlier round's bank."""
    parts = parts or LoopParts()
    name = round_name(number)
    catalogue_asset = store.require(f"{CATALOGUE}/{name}")
    # All earlier banks, promoted or not: a task that was proposed before isn't new, however it fared.
    earlier = [store.require(f"{BANK}/{round_name(n)}") for n in range(1, number)]
    pool = store.current("task_pool/static")
    # What the catalogue was made from, whatever was promoted since.
    pinned = [store.version(asset, version) for asset, version in sorted(catalogue_asset.inputs.items())]
    rests = [catalogue_asset, *earlier, *([pool] if pool is not None else [])]
    inputs = {manifest.asset: manifest.version for manifest in rests}
    # Similarity depends on the model, so its identity is part of the hash below.
    embedder = Embedder(config.model, cache=store.home / "cache" / "embeddings")
    inputs |= frozen_inputs(store.home, EVALUATIONS, config.evaluations)
    data = {manifest.asset: manifest.data_version for manifest in [*rests, *pinned]}
    plain = {
        "loop": config.plain,
        "data": data,
        "model": embedder.identity,
        "proposers": "embedded" if parts.proposers is None else "given",
    }
    spec = PartSpec("all", digest([BANK_VERSION, plain]))

    def make(out: PartWriter) -> dict[str, Any]:
        # from the rounds that the catalogue was made from: a round that is built again must propose what it proposed
        catalogue = learned(store, pinned)
        known = _instructions(pool) if pool is not None else []
        bank = TaskBank(embedder, config.epsilon, [*known, *(text for m in earlier for text in _instructions(m))])
        # Texts before this index are known already; closeness is measured from there on (see below).
        before = len(bank.texts)
        named = parts.proposers or partial(arms, names=config.proposers)
        proposers = named(config.task_world, catalogue)
        # 1009: a prime larger than any number of rounds, so that two seeds never share the stream of a round.
        found = propose(config.task_world, catalogue, bank, config.quotas, config.seed * 1009 + number, proposers)
        out.table("tasks", Tasks.table(sorted((p.contract.as_row() for p in found.proposals), key=_task_id)))
        out.table("proposals", Proposals.table(sorted((p.as_row() for p in found.proposals), key=_task_id)))
        out.table("refused", Refused.table(asdict(rejected) for rejected in found.rejected))
        # Only what this round admits was held against all others: tasks of the pool may well be like one another, and
        # today's pool, or today's epsilon, isn't the one that earlier rounds were held against.
        closest = round(bank.closest_pair(before), 6)
        return {**_proposal_counts(found), "closest": closest, "bank": len(bank.texts), **config.pins}

    with store.build(f"{BANK}/{name}", code_version=BANK_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        counts = build.run_part(spec, make).counts
        checks = [
            # The bank promises it by its own rule; checked again from the finished set.
            round_checks.NO_TWO_ALIKE.check(
                counts["closest"] < config.epsilon, counts["closest"], f"below {config.epsilon}", limit=config.epsilon
            ),
            round_checks.HAS_TASKS.check(counts["tasks"] > 0, counts["tasks"], "at least 1", limit=1),
            round_checks.STRATA_FILLED.check(not counts["short"], counts["short"], 0),
        ]
        return build.commit(counts=counts, checks=checks)


def _instructions(manifest: Manifest) -> list[str]:
    found: list[str] = manifest.read("tasks", Tasks.schema, ["instruction"])["instruction"].to_pylist()
    return found


def _task_id(row: Mapping[str, object]) -> str:
    return str(row["task_id"])


def _proposal_counts(found: Proposed) -> dict[str, Any]:
    by_arm = Counter(f"of {proposal.arm}" for proposal in found.proposals)
    strata = Counter(proposal.contract.stratum for proposal in found.proposals)
    why = Counter(f"refused: {rejected.reason.partition(':')[0]}" for rejected in found.rejected)
    return {
        "tasks": len(found.proposals),
        "refused": len(found.rejected),
        "short": sum(found.short.values()),
        **{name: strata[name] for name in STRATA},
        **dict(sorted(by_arm.items())),
        **dict(sorted(why.items())),
    }


def build_trajectories(store: Store, number: int, config: LoopConfig, parts: LoopParts | None = None) -> Manifest:
    """`generation/trajectories/<round>`: `trajectories.jsonl` (hashed), table `trajectory_runs` beside it.

    A journal under `generation/journals` holds every step; a killed run goes on from it. Raises `StoreError` where more
    than half was lost to infrastructure: nothing is committed then, and the next call executes again what was lost
    (each attempt `REOPENINGS` times) and nothing else."""
    parts = parts or LoopParts()
    name = round_name(number)
    bank = store.require(f"{BANK}/{name}")
    make_policy = parts.policies or embedded_policies
    policies = make_policy(config)
    inputs = {bank.asset: bank.version, **policies.inputs}
    # `limits` and the policy's wording change what is done; the number of workers and the devices don't.
    plain = {
        "policy": policies.name,
        "seed": config.seed,
        "error_rate": config.error_rate,
        "limits": [parts.limits.step_factor, parts.limits.step_extra],
        # Wrapped worlds are other worlds: what was executed in them is hashed apart.
        **config.wrappers,
        **({"wording": policies.wording} if policies.wording else {}),
    }
    pool = WrappedPool(parts.pool, config.wrapped) if config.wrappers else parts.pool
    spec = PartSpec("all", digest([CODE_VERSION, plain, bank.data_version]))

    def make(out: PartWriter) -> dict[str, Any]:
        contracts = [TaskSpec.from_row(row) for row in bank.read("tasks", Tasks.schema).to_pylist()]
        survived = RunStatistics()
        # One journal per hash of inputs: other settings never go on from this one's half-done work.
        folder = store.home / "generation" / "journals"
        with Journal(folder, f"{name}-{spec.inputs_digest[:12]}") as journal:
            # what was done is replayed from the journal; only what was lost is tried again
            journal.reopen_lost(REOPENINGS)
            done = run_all(
                contracts,
                pool,
                policies,
                journal,
                store=store,
                workers=parts.workers,
                seeds=(config.seed,),
                limits=parts.limits,
                progress=parts.progress,
                statistics=survived,
            )
        # Infrastructure failures are rows, too, so that every task of the bank has a trajectory.
        lost = [one for one in done if one.failure_kind == "infrastructure"]
        # most of its tasks were never really tried; the journal keeps what was done for the next call
        if not _held(len(lost), len(done)):
            raise StoreError(_outage(f"{TRAJECTORIES}/{name}", lost, len(done), journal))
        write_lines(out.path("trajectories.jsonl"), done)
        # Not hashed: seconds, devices and tokens differ between runs that did the same.
        out.table("trajectory_runs", TrajectoryRuns.table(run_row(one) for one in done), hashed=False)
        return _trajectory_counts(done, len(lost), config)

    with store.build(
        f"{TRAJECTORIES}/{name}", code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]
    ) as build:
        counts = build.run_part(spec, make).counts
        lost, whole = counts["infrastructure failures"], counts["trajectories"]
        checks = [
            round_checks.ALL_EXECUTED.check(whole == bank.counts["tasks"], whole, bank.counts["tasks"]),
            round_checks.INFRASTRUCTURE_HELD.check(
                _held(lost, whole), f"{lost} of {whole} lost", "at most half", lost, whole / 2
            ),
        ]
        return build.commit(counts=counts, checks=checks)


def _trajectory_counts(done: Sequence[ExecutedTrajectory], lost: int, config: LoopConfig) -> dict[str, Any]:
    ended = Counter(f"ended: {one.ended}" for one in done)
    counts: dict[str, Any] = {
        "trajectories": len(done),
        "infrastructure failures": lost,
        "turns": sum(len(t.turns) for t in done),
        "device hours": round(sum(one.seconds for one in done) / 3600, 4),
        **dict(sorted(ended.items())),
    }
    # Only where it was done to them: an older round keeps its counts.
    if config.hostile:
        counts["hostile: planted"] = sum("attack" in one.extra for one in done)
        counts["hostile: obeyed"] = sum(bool(one.extra.get("obeyed")) for one in done)
    if config.faults:
        counts["faults"] = sum(one.extra.get("faults", 0) for one in done)
    return counts


def _held(lost: int, whole: int) -> bool:
    return 2 * lost <= whole


def _outage(asset: str, lost: Sequence[ExecutedTrajectory], whole: int, journal: Journal) -> str:
    """What to say where a round's executions were lost."""
    failure, count = Counter(one.failure for one in lost).most_common(1)[0]
    attempts = journal.attempts
    spent = sum(attempts[one.trajectory_id].reopened >= REOPENINGS for one in lost)
    todo = "and run it again: what was lost is executed anew, the rest isn't"
    # Where attempts are used up, calling again can't help; only then is throwing the journal away the advice.
    if not _held(spent, whole):
        todo = (
            f"then delete {journal.path} and run it again, which executes the whole round: {spent} were begun anew "
            f"{REOPENINGS} times and won't be again"
        )
    return (
        f"{asset}: expected at most half of the executions lost to infrastructure, found {len(lost)} of {whole}, "
        f"{count} of them by {failure[:200]!r}; nothing was committed. Put the devices or the policy's server "
        f"right, {todo}"
    )


def build_verified(store: Store, number: int, config: LoopConfig, parts: LoopParts | None = None) -> Manifest:
    """`generation/verified/<round>`: tables `steps`, `screens`, `trajectories` of what was executed."""
    parts = parts or LoopParts()
    name = round_name(number)
    bank, runs = store.require(f"{BANK}/{name}"), store.require(f"{TRAJECTORIES}/{name}")
    annotators = list((parts.annotators or embedded_annotators)(store))
    if config.process:
        annotators.append(ProcessAnnotator(store))
    # Names of the annotators, since their votes are the data; two that share a name must judge alike.
    plain = {"verify": asdict(config.verify), "annotators": [one.name for one in annotators]}
    spec = PartSpec("all", digest([CODE_VERSION, plain, runs.data_version, bank.data_version]))

    def make(out: PartWriter) -> dict[str, Any]:
        trajectories = read_lines(runs.file("trajectories.jsonl"))
        verifier = Verifier(annotators, config.verify)
        # In this process: verdicts need no device, and rules of the world read the recorded end state.
        verdicts = [verifier.verify(done) for done in trajectories]
        tables = trajectory_tables(trajectories, verdicts, store)
        for table in ("steps", "screens", "trajectories"):
            out.table(table, tables[table])
        proposals = {proposal.contract.task_id: proposal for proposal in read_proposals(bank)}
        # The truth of the world is measured here and nowhere fed back.
        return figures(config.task_world, proposals, trajectories, verdicts) | {
            "device hours": runs.counts["device hours"]
        }

    inputs = {bank.asset: bank.version, runs.asset: runs.version}
    with store.build(
        f"{VERIFIED}/{name}", code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]
    ) as build:
        counts = build.run_part(spec, make).counts
        once, wrong = counts["trajectories"] == counts["different trajectories"], counts["false positives"]
        checked = counts.get("verified with a rule", counts["verified"])  # older rounds: every task had one
        checks = [
            round_checks.EACH_ONCE.check(once, counts["different trajectories"], counts["trajectories"]),
            round_checks.FEW_UNTRUE.check(
                wrong <= FALSE_POSITIVES * checked,
                f"{wrong} of {checked}",
                f"at most {FALSE_POSITIVES:.0%}",
                wrong,
                FALSE_POSITIVES * checked,
            ),
        ]
        return build.commit(counts=counts, checks=checks)


def run_round(store: Store, number: int, config: LoopConfig, parts: LoopParts | None = None) -> Manifest:
    """All stages of a round, then `promote`; returns `generation/verified/<round>`."""
    build_catalogue(store, number, config)
    build_bank(store, number, config, parts)
    build_trajectories(store, number, config, parts)
    made = build_verified(store, number, config, parts)
    # Only after the checks of all stages: what is promoted is what the next round learns from.
    promote(store)
    return made
