"""Success of checkpoints on whole episodes in real worlds, decided by each task's own rule, with intervals.

A policy never judges itself: an attempt succeeds if the world's last state (and the answer given) fulfils the
contract's evaluator and the attempt wasn't ended by unreadable replies; `finished` says whether the policy also ended
it by itself. What a device, a browser or a model server did wrong is left out of the count and named in the report.
Everything is resumable: attempts stand in a journal, and the same call with the same folder goes on.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.execution.device_pool import DevicePool
from generators.execution.journal import Journal
from generators.execution.limits import AttemptLimits
from generators.execution.scheduling import RunStatistics, run_all
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.worlds.care.care_case import outcome_of
from generators.worlds.evaluators import holds
from generators.worlds.osworld.evaluation import score_column
from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS
from schemas.ids import digest
from trainer.modeling.tensors import parameters_digest
from trainer.runtime.tracking import OnEvent
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.statistics import crossed_interval, mean_or_none, pass_at_k
from trainer.suites.answering import checkpoint_name
from trainer.suites.batched_worlds import fits, run_batched, why_lost
from trainer.suites.care import care_columns

if TYPE_CHECKING:
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.online.rollouts import Rollout, RolloutJob

Record = dict[str, Any]
ATTEMPTS = 1000
"""Most attempts with one seed: attempt a with seed s is drawn with the seed s · 1000 + a."""


def task_cluster(contract: TaskSpec) -> str:
    """What counts as one task in the bootstrap: a MiniWoB++ page with all its episode seeds, else the contract."""
    page = contract.initial_state.get("task")
    return f"{contract.world}/{page}" if isinstance(page, str) and page else contract.task_id


def world_success(
    checkpoint: object,
    contracts: Sequence[TaskSpec],
    pool: DevicePool,
    *,
    seeds: Sequence[int] = (0,),
    attempts: int = 1,
    temperature: float = 0.0,
    limits: AttemptLimits | None = None,
    workers: int = 1,
    folder: str | Path | None = None,
    cluster: Callable[[TaskSpec], str] = task_cluster,
    max_new_tokens: int | None = None,
    thinking: bool | None = None,
    batched: bool | None = None,
    on_event: OnEvent | None = None,
) -> dict[str, Any]:
    """Try every contract `attempts` times with every seed → `{"summary", "records", "config"}` (see `summarise`).

    `checkpoint` is a loaded `Checkpoint`, its folder, or a `PolicyMaker` (a served model, a scripted agent); or a list
    of them: training seeds of one recipe, which then enter the intervals. `temperature` 0 is greedy, where a second
    attempt would be the first again; above it replies are drawn by (seed, attempt, turn). `folder` keeps what has
    ended, so that a run that was killed goes on. Episode seeds of a world are in its contracts' initial state. A
    checkpoint is asked for thoughts, and may write as many tokens, as its preset says unless that is given here.

    `batched`: replies of episodes that run side by side are made together (`batched_worlds`): much cheaper, and then
    they depend on `workers` too. By default where a checkpoint is small and `workers` are 2 or more.

    Raises `ValueError` for no contracts, one that is there twice, attempts out of range, or a contract that no device
    of the pool can run.
    """
    tested = list(checkpoint) if isinstance(checkpoint, list | tuple) else [checkpoint]
    _check(tested, contracts, seeds, attempts, temperature)
    limits = limits or AttemptLimits()
    # one number for both, so that attempts of two seeds never share their draws
    drawn = [seed * ATTEMPTS + attempt for seed in seeds for attempt in range(attempts)]
    config = {
        "temperature": temperature,
        "seeds": list(seeds),
        "attempts": attempts,
        "thinking": bool(thinking),
        "max_new_tokens": max_new_tokens,
        "limits": asdict(limits),
        "contracts": digest(sorted(contract.task_id for contract in contracts)),
    }
    records: list[Record] = []
    per_run = len(contracts) * len(drawn)

    def recorded(record: Record, count: int) -> None:
        if on_event:
            place = {"done": record["run"] * per_run + count, "of": len(tested) * per_run}
            what = {name: record[name] for name in ("policy", "success", "why")}
            on_event({"kind": "world_success", **place, "task": record["task_id"], **what})

    with ExitStack() as stack:
        home = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="world-success-")))
        home.mkdir(parents=True, exist_ok=True)
        attempted = _Attempts(contracts, pool, drawn, temperature, limits, workers, cluster, recorded)
        for run, one in enumerate(tested):
            subject = _Subject.of(one, temperature, thinking, max_new_tokens)
            asked = {"thinking": subject.thinking, "max_new_tokens": subject.max_new_tokens or max_new_tokens}
            config |= asked
            # replies depend on the weights and on how they are drawn: another of either never goes on with this one's
            key = digest([subject.identity, run, temperature, *asked.values(), asdict(limits)])[:16]
            if subject.checkpoint is not None and _batched(batched, subject.checkpoint, workers):
                file = home / f"episodes-{digest([key, workers, config])[:16]}.jsonl"
                records += attempted.in_batches(subject, subject.checkpoint, run, file)
            else:
                records += attempted.one_by_one(subject, run, Journal(home, f"episodes-{key}"))
    return {"summary": summarise(records), "records": records, "config": config}


def _batched(wanted: bool | None, checkpoint: Checkpoint, workers: int) -> bool:
    return workers > 1 and fits(checkpoint) if wanted is None else wanted


def _check(
    tested: Sequence[object], contracts: Sequence[TaskSpec], seeds: Sequence[int], attempts: int, temperature: float
) -> None:
    if not tested or not contracts or not seeds:
        raise ValueError(
            f"world success: expected a checkpoint, contracts and seeds, found {len(tested)}, "
            f"{len(contracts)} and {len(seeds)}"
        )
    if not 1 <= attempts <= ATTEMPTS:
        raise ValueError(f"world success: expected 1 to {ATTEMPTS} attempts with a seed, found {attempts}")
    if temperature < 0:
        raise ValueError(f"world success: expected a temperature of at least 0, found {temperature}")
    # scripted policies have errors of their own and may differ at temperature 0
    if temperature == 0 and attempts * len(set(seeds)) > 1 and not all(isinstance(one, PolicyMaker) for one in tested):
        raise ValueError(
            "world success: greedy attempts are all the same: expected one seed and one attempt at "
            f"temperature 0, found {len(seeds)} and {attempts}"
        )


@dataclass(frozen=True)
class _Subject:
    """What is tried: policies, what distinguishes them (for a checkpoint the digest of its weights, and the form of its
    histories where that isn't actions alone), how it is asked, and the checkpoint, if it is one."""

    maker: PolicyMaker
    identity: str
    thinking: bool
    max_new_tokens: int = 0
    checkpoint: Checkpoint | None = None

    @classmethod
    def of(cls, tested: Any, temperature: float, thinking: bool | None, max_new_tokens: int | None) -> _Subject:
        if isinstance(tested, PolicyMaker):  # which knows how it asks
            return cls(tested, tested.name, bool(thinking))
        import threading

        from trainer.modeling.checkpoint import load_checkpoint

        loaded = load_checkpoint(tested) if isinstance(tested, str | Path) else tested
        identity, lock, preset = parameters_digest(loaded.model), threading.Lock(), loaded.processor.preset
        most, thinks = max_new_tokens or preset.max_answer_tokens, preset.thinking if thinking is None else thinking
        name = checkpoint_name(loaded, identity)

        def make(contract: TaskSpec, world: Any) -> CheckpointPolicy:
            return CheckpointPolicy(
                loaded, temperature=temperature, thinking=thinks, lock=lock, name=name, max_new_tokens=most
            )

        # weights that are asked otherwise are another policy
        named = identity if preset.history == "action" else f"{identity}-{preset.history}"
        named += "" if preset.history_steps == HISTORY_STEPS else f"-{preset.history_steps}"
        named += "" if preset.prompt_version == PROMPT_VERSIONS[0] else f"-{preset.prompt_version}"
        return cls(PolicyMaker(name, make), named, thinks, most, loaded)


@dataclass(frozen=True)
class _Attempts:
    """What everyone who is tried attempts, and how; `recorded` hears of each attempt as it ends, and how many there
    are."""

    contracts: Sequence[TaskSpec]
    pool: DevicePool
    drawn: Sequence[int]
    temperature: float
    limits: AttemptLimits
    workers: int
    cluster: Callable[[TaskSpec], str]
    recorded: Callable[[Record, int], None]

    def in_batches(self, subject: _Subject, checkpoint: Checkpoint, run: int, file: Path) -> list[Record]:
        """Replies of episodes that run side by side are made together; `file` holds what has ended."""
        return run_batched(
            checkpoint,
            self.contracts,
            self.drawn,
            self.pool,
            file,
            temperature=self.temperature,
            limits=self.limits,
            workers=self.workers,
            thinking=subject.thinking,
            max_new_tokens=subject.max_new_tokens,
            on_record=self.recorded,
            record=partial(record_of_rollout, policy=subject.maker.name, run=run, cluster=self.cluster),
        )

    def one_by_one(self, subject: _Subject, run: int, journal: Journal) -> list[Record]:
        """Each episode asks for its own replies; the journal holds what has ended."""
        plain = partial(record_of, policy=subject.maker.name, run=run, cluster=self.cluster)
        with journal:
            found = run_all(
                self.contracts,
                self.pool,
                subject.maker,
                journal,
                workers=self.workers,
                seeds=self.drawn,
                limits=self.limits,
                progress=lambda done, count, of: self.recorded(plain(done), count),
                statistics=RunStatistics(),
            )
        return [plain(done) for done in found]


def outcome(done: ExecutedTrajectory) -> tuple[bool | None, str]:
    """(whether an attempt succeeded, why not counted): None and a reason where nothing can be said about the policy."""
    if done.failure_kind == "infrastructure":
        return None, f"infrastructure: {done.failure}"
    if done.ended == "failed":
        return None, f"refused start: {done.failure}"
    # a rule that can't read the state says nothing of the policy
    try:
        held = holds(done.contract.evaluator, done.end_state, done.answer)
    except ValueError as error:
        return None, f"undecided: {error}"
    # a state that holds by chance under unreadable replies is no success
    return held and done.ended != "unreadable", ""


def record_of(
    done: ExecutedTrajectory, policy: str, run: int = 0, cluster: Callable[[TaskSpec], str] = task_cluster
) -> Record:
    """One attempt as a plain record. `success` is 0 or 1, None for what isn't counted (`why`); `finished` is 1 if the
    policy succeeded *and* ended the episode by itself; `run` is the checkpoint's place in the list (training seed)."""
    success, why = outcome(done)
    steps = (len(done.turns), sum(turn.action is None for turn in done.turns))
    plain = _record(done.contract, done.seed, success, why, done.ended, steps, policy, run, cluster)
    return plain | care_columns(outcome_of(done.end_state)) | score_column(done.end_state)


def record_of_rollout(
    job: RolloutJob, rollout: Rollout, policy: str, run: int = 0, cluster: Callable[[TaskSpec], str] = task_cluster
) -> Record:
    """The same of a batched episode."""
    why = why_lost(rollout.failure) if rollout.success is None else ""
    steps = (rollout.steps, rollout.unparsable)
    plain = _record(job.contract, job.seed, rollout.success, why, rollout.ended, steps, policy, run, cluster)
    return plain | care_columns(rollout.care)


def _record(
    contract: TaskSpec,
    drawn: int,
    success: bool | None,
    why: str,
    ended: str,
    steps: tuple[int, int],
    policy: str,
    run: int,
    cluster: Callable[[TaskSpec], str],
) -> Record:
    seed, attempt = divmod(drawn, ATTEMPTS)
    by_itself = ended in ("finished", "asked")
    return {
        "task_id": contract.task_id,
        "cluster": cluster(contract),
        "world": contract.world,
        "target": contract.target,
        "platform": contract.platform,
        "stratum": contract.stratum,
        "policy": policy,
        "run": run,
        "seed": seed,
        "attempt": attempt,
        "success": None if success is None else float(success),
        "finished": None if success is None else float(success and by_itself),
        "claimed": float(by_itself),
        "ended": ended,
        "steps": steps[0],
        "unreadable": steps[1],
        "expected_steps": contract.expected_steps,
        "why": why[:300],
    }


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Intervals over attempts that count: `success`, `finished`, `pass_at_k` by k, success by world, stratum and
    platform; means by task; what policies did wrong; and what isn't counted, by reason.

    pass@k is the mean over contracts of the unbiased estimator, each contract with all its attempts (all seeds) of one
    checkpoint; `contracts_short` have fewer than k of them and are left out of that k.
    """
    counted = [record for record in records if record["success"] is not None]
    lost = [record for record in records if record["success"] is None]
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for record in counted:
        groups.setdefault((record["run"], record["task_id"]), []).append(record)
    most = max((len(group) for group in groups.values()), default=0)
    turns = sum(record["steps"] for record in counted)
    return {
        "success": _over(counted, "success"),
        "finished": _over(counted, "finished"),
        "claimed": _over(counted, "claimed"),
        # k = 1 is the mean; the most says how far repeated attempts go
        "pass_at_k": {str(k): _pass(list(groups.values()), k) for k in sorted({1, most} - {0})},
        **{
            f"by_{name}": {
                value: _over([r for r in counted if r[name] == value], "success")
                for value in sorted({r[name] for r in counted})
            }
            for name in ("world", "stratum", "platform")
        },
        "by_task": {
            name: mean_or_none([r["success"] for r in counted if r["cluster"] == name])
            for name in sorted({r["cluster"] for r in counted})
        },
        "steps": mean_or_none([r["steps"] for r in counted]),
        "unreadable_share": sum(r["unreadable"] for r in counted) / turns if turns else None,
        "attempts": len(counted),
        "tasks": len({r["cluster"] for r in counted}),
        "runs": len({r["run"] for r in records}),
        "not_counted": {"attempts": len(lost), **Counter(r["why"].partition(":")[0] for r in lost)},
        "not_counted_why": dict(sorted(Counter(r["why"] for r in lost).items())),
    }


def _over(records: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    clusters, runs = [r["cluster"] for r in records], [str(r["run"]) for r in records]
    return crossed_interval([r[name] for r in records], clusters, runs).plain()


def _pass(groups: Sequence[Sequence[Mapping[str, Any]]], k: int) -> dict[str, Any]:
    enough = [group for group in groups if len(group) >= k]
    values = [pass_at_k(len(group), int(sum(r["success"] for r in group)), k) for group in enough]
    found = crossed_interval(values, [g[0]["cluster"] for g in enough], [str(g[0]["run"]) for g in enough])
    return {**found.plain(), "contracts_short": len(groups) - len(enough)}
