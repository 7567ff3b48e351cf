"""`feedback/*`: what comes back to the start of the graph, as frozen manifests and never as edges.

Each is an observable source asset whose data version is the digest that was promoted last. A job promotes; a sensor
starts it when there is something new. Consumers pin the digest.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_project.assets.resources import JudgeResource, StoreResource, work
from dagster_project.automation.requested_runs import ask, read_cursor, read_request
from dagster_project.settings import deployment
from dagster_project.stages import review
from dagster_project.stages.generation import GOLD
from dagster_project.stages.sources import FUNCTIONS
from dagster_project.stages.stage import NamedFunction, StageWork
from generators.generation.feedback import promote, promoted, rounds_to_make, verified_mark, verified_rounds
from generators.generation.round_names import round_name
from generators.generation.steering import evaluations_mark, policy_mark, promote_evaluations, promote_policy
from generators.tasks.task_pool import GENERATED
from pipelines.store import Store
from pipelines.store.frozen import read_frozen
from quality.model_client.spending import today
from quality.review import promote as people
from schemas.ids import digest

NOTHING = "nothing promoted yet"


@dataclass(frozen=True)
class Promotion:
    """A frozen manifest (`pipelines.store.frozen`), by its short name."""

    name: str
    description: str
    promote: Callable[[StageWork], dict[str, Any]]
    """Writes the manifest and makes it the current one."""
    told: Callable[[dict[str, Any]], dict[str, Any]]
    """What of a manifest the asset's new version shows."""
    current: Callable[[Store], dict[str, Any] | None] | None = None
    """Reads the current manifest, where files beside it are to be verified too."""
    mark: Callable[[Store], str] | None = None
    """The digest that `promote` would promote now, "" for nothing; what `_when_new` looks at."""

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(["feedback", self.name])

    def digest(self, store: Store) -> str:
        """What was promoted last; "" before the first."""
        read = self.current or (lambda store: read_frozen(store.home, f"feedback/{self.name}"))
        return str((read(store) or {}).get("digest", ""))

    def event(self, store: Store, mark: str) -> str:
        """What promoting the digest `mark` would change, as a word; "" for nothing."""
        before = self.digest(store)
        # With what it follows: the same digest may be promoted again after another one.
        return f"{mark}-after-{before}" if mark and mark != before else ""

    def asset(self) -> object:
        """The observable source asset."""

        @dg.observable_source_asset(key=self.key, group_name="feedback", description=self.description)
        def observed(store: StoreResource) -> dg.DataVersion:
            return dg.DataVersion(self.digest(store.open()) or NOTHING)

        return observed

    def job(self) -> dg.JobDefinition:
        """Promotes, and tells the asset's new version with its numbers."""

        @dg.op(name=f"freeze_{self.name}")
        def freeze(context: dg.OpExecutionContext, store: StoreResource, judge: JudgeResource) -> None:
            built = self.promote(work(store, judge))
            context.log_event(
                dg.AssetObservation(
                    self.key,
                    metadata=self.told(built),
                    tags={"dagster/data_version": str(built["digest"])},
                    description="promoted",
                )
            )

        @dg.job(name=f"promote_{self.name}", description=f"Freeze feedback/{self.name}.")
        def promoting() -> None:
            freeze()

        return promoting


# --- what people agreed on --------------------------------------------------------------------------------------------
def _agreement(built: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"items settled": built["agreed"], "items drawn": built["items"]}
    facts |= {
        f"agreement of people: {name}": value
        for name, value in built["agreement"].items()
        if isinstance(value, int | float)
    }
    judged = built["judge_agreement"]
    return facts | {n: judged[n] for n in ("kappa", "keep_from", "keep_from_in_use") if judged[n] is not None}


HUMAN_VERDICTS = Promotion(
    "human_verdicts",
    "What people agreed on in `vesper review serve`, frozen: the set that every judge is held against before it is "
    "asked. Promoted by the job promote_human_verdicts.",
    NamedFunction(f"{FUNCTIONS}:promote_answers"),
    _agreement,
    people.current,
)
promote_human_verdicts = HUMAN_VERDICTS.job()


@dg.sensor(
    job=promote_human_verdicts,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Promotes people's answers once they have rested for one look and something is settled.",
)
def new_human_verdicts(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """The cursor holds the last mark seen and what was requested: the digest of a promoted set says nothing of answers
    that are settled now. What failed is requested again each night, when the judge may answer again that the ceiling
    had stopped."""
    job, mark, retained = (
        promote_human_verdicts.name,
        review.answers_mark(deployment.home()),
        read_cursor(context.cursor),
    )
    # A night is part of the event, so the same answers are asked for once a night at most.
    asked_for = read_request(retained, job).event.partition("@")[0]
    if not mark or (mark == asked_for and not _failed(context.instance, job)):
        return dg.SensorResult(skip_reason="no new answers", cursor=json.dumps(retained))
    # Different since the last look: somebody is at work, so wait for the next one.
    if mark != retained.get("seen"):
        retained, _, _ = ask(
            context.instance, job, "", retained, time.time()
        )  # answers may come back to what was asked for
        return dg.SensorResult(skip_reason="people are still answering", cursor=json.dumps({"seen": mark, **retained}))
    retained, request, why = ask(context.instance, job, f"{mark}@{today()}", retained, time.time())
    return _asking([request], [why], {"seen": mark, **retained})


def _failed(instance: dg.DagsterInstance, job: str) -> bool:
    """Whether the newest run of a job failed or was canceled."""
    newest = instance.get_runs(dg.RunsFilter(job_name=job), limit=1)
    return bool(newest) and newest[0].status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def _asking(
    requests: Sequence[dg.RunRequest | None], why: Sequence[str], retained: Mapping[str, object]
) -> dg.SensorResult:
    """What a sensor says: its requests, else why there are none."""
    built = [request for request in requests if request is not None]
    return dg.SensorResult(built, None if built else "; ".join(filter(None, why)), json.dumps(retained, sort_keys=True))


# --- what rounds verified ---------------------------------------------------------------------------------------------
VERIFIED = Promotion(
    "verified",
    "The rounds of the generation loop that later rounds learn from, pinned by version. Promoted by the job "
    "promote_verified when a round has ended.",
    lambda given: promote(given.store),
    lambda made: {"rounds": len(made["rounds"])},
)
promote_verified = VERIFIED.job()


def after_round(collect: Any) -> dg.SensorDefinition:
    """A round has ended: promote it, and collect what all rounds have verified.

    What lies in the store is compared, and not runs: a round may also be made by a backfill of assets, repaired from an
    asset's page, or come from `vesper generate`, and none of these is a run of the job `generate_round`.
    """

    @dg.sensor(
        name="after_round",
        jobs=[promote_verified, collect],
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Promotes a round that has ended and adds its verified trajectories to the corpus and task pool.",
    )
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        opened, retained = store.open(), read_cursor(context.cursor)
        new = VERIFIED.event(opened, verified_mark(opened))
        promoting, promotion, first = ask(context.instance, promote_verified.name, new, retained, time.time())
        collecting, collection, second = ask(
            context.instance, collect.name, _uncollected(opened), retained, time.time()
        )
        return _asking([promotion, collection], [first, second], {**promoting, **collecting})

    return sensor


def _uncollected(store: Store) -> str:
    """A digest of the verified rounds that `gold/generated` and `task_pool/generated` should be built from; "" if they
    are built from just these, or there are none."""
    rounds = {found.asset: found.version for found in verified_rounds(store).values()}
    built = [store.current(asset) for asset in (GOLD, GENERATED)]
    # Both are built from exactly these rounds, or are to be built.
    return "" if all(one is not None and one.inputs == rounds for one in built) or not rounds else digest(rounds)[:16]


def next_round(generate: Any, rounds: Any) -> Any:
    """Makes the first round without verdicts once all before it are promoted, up to `generation.rounds` of the
    deployment."""

    @dg.sensor(
        job=generate,
        name="next_round",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts the next round of the generation loop, up to generation.rounds of deployment.yaml.",
    )
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
        wanted, opened = deployment.load().generation.rounds, store.open()
        # The first round without verdicts, so a gap is filled before new ones are begun.
        number = next(rounds_to_make(opened))
        if number > wanted:
            return dg.SkipReason(f"{number - 1} rounds are made, {wanted} are wanted (generation.rounds)")
        known = promoted(opened)["rounds"]
        # A round learns from all before it, which have to be promoted first.
        if waiting := [name for name in map(round_name, range(1, number)) if name not in known]:
            return dg.SkipReason(f"{waiting[0]} is verified and not promoted yet; promote_verified does that")
        name = round_name(number)
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=f"generate-{name}", partition_key=name)],
            dynamic_partitions_requests=[rounds.build_add_request([name])],
        )

    return sensor


# --- what the trainer says --------------------------------------------------------------------------------------------
def _numbers(built: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {name: built[name] for name in ("step", "score") if name in built}
    return facts | {f"success on {name} tasks": rate for name, rate in built.get("success", {}).items()}


EVALUATIONS = Promotion(
    "evaluations",
    "How often the agent does easy, medium and hard tasks, by its evaluations: what moves the next round's difficulty "
    "(generation.steer of deployment.yaml). Promoted by the job promote_evaluations.",
    lambda given: promote_evaluations(given.store),
    _numbers,
    mark=evaluations_mark,
)
POLICY = Promotion(
    "policy",
    "The agent that acts in the next rounds where generation.policy of deployment.yaml is `checkpoint`. Promoted by "
    "the job promote_policy, unless it does worse than the one before.",
    lambda given: promote_policy(given.store),
    _numbers,
    mark=policy_mark,
)


def _when_new(one: Promotion, job: dg.JobDefinition, waits: str) -> dg.SensorDefinition:
    """Starts a promotion's job when there is something new; `waits` says why there may be nothing to promote."""
    look = one.mark
    assert look is not None, f"feedback/{one.name} has no mark, so nobody can say what is new"

    @dg.sensor(
        job=job,
        name=f"new_{one.name}",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Promotes feedback/{one.name} when there is something new.",
    )
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        opened = store.open()
        mark, before = look(opened), read_cursor(context.cursor)
        retained, request, why = ask(context.instance, job.name, one.event(opened, mark), before, time.time())
        return _asking([request], [why if mark else waits], retained)

    return sensor


def trainers() -> tuple[list[dg.JobDefinition], list[dg.SensorDefinition]]:
    """(jobs, sensors) that promote what the trainer says."""
    evaluations, policy = EVALUATIONS.job(), POLICY.job()
    return [evaluations, policy], [
        _when_new(EVALUATIONS, evaluations, "the current agent isn't evaluated yet"),
        _when_new(POLICY, policy, "the current agent isn't evaluated yet, or does worse than the promoted one"),
    ]


def assets() -> Sequence[Any]:
    """The observable source assets."""
    return [one.asset() for one in (HUMAN_VERDICTS, VERIFIED, EVALUATIONS, POLICY)]
