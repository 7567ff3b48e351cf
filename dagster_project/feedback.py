"""`feedback/*`: what comes back to the start of the graph, as frozen manifests and never as edges.

Each is an observable source asset whose data version is the digest that was promoted last. A job promotes; a sensor
starts it when there is something new. Consumers pin the digest.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_project import deployment
from dagster_project.assets import review
from dagster_project.assets.sources import judge_config
from dagster_project.graph import Work
from dagster_project.resources import JudgeResource, StoreResource, work
from pipelines.storage.frozen import read_frozen
from pipelines.store import Store
from quality.review import promote as people

NOTHING = "nothing promoted yet"


@dataclass(frozen=True)
class Promotion:
    """A frozen manifest (`pipelines.storage.frozen`), by its short name."""

    name: str
    description: str
    promote: Callable[[Work], dict[str, Any]]
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

    def asset(self) -> Any:
        """The observable source asset."""

        @dg.observable_source_asset(key=self.key, group_name="feedback", description=self.description)
        def observed(store: StoreResource) -> dg.DataVersion:
            return dg.DataVersion(self.digest(store.open()) or NOTHING)

        return observed

    def job(self) -> dg.JobDefinition:
        """Promotes, and tells the asset's new version with its numbers."""

        @dg.op(name=f"freeze_{self.name}")
        def freeze(context: dg.OpExecutionContext, store: StoreResource, judge: JudgeResource) -> None:
            made = self.promote(work(store, judge))
            context.log_event(
                dg.AssetObservation(self.key, metadata=self.told(made),
                                    tags={"dagster/data_version": str(made["digest"])}, description="promoted")
            )  # fmt: skip

        @dg.job(name=f"promote_{self.name}", description=f"Freeze feedback/{self.name}.")
        def promoting() -> None:
            freeze()

        return promoting


# --- what people agreed on --------------------------------------------------------------------------------------------
def _promote_answers(given: Work) -> dict[str, Any]:
    """The judge in use is asked about them once."""
    from quality.judges.registry import build_judge

    return people.promote(given.store, build_judge(judge_config(given)))


def _agreement(made: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"items settled": made["agreed"], "items drawn": made["items"]}
    facts |= {f"agreement of people: {name}": value for name, value in made["agreement"].items()
              if isinstance(value, int | float)}  # fmt: skip
    judged = made["judge_agreement"]
    return facts | {n: judged[n] for n in ("kappa", "keep_from", "keep_from_in_use") if judged[n] is not None}


HUMAN_VERDICTS = Promotion(
    "human_verdicts",
    "What people agreed on in `vesper review serve`, frozen: the set that every judge is held against before it is "
    "asked. Promoted by the job promote_human_verdicts.",
    _promote_answers, _agreement, people.current,
)  # fmt: skip
promote_human_verdicts = HUMAN_VERDICTS.job()


@dg.sensor(
    job=promote_human_verdicts, minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING,
    description="Promotes people's answers once they have rested for one look and something is settled.",
)  # fmt: skip
def new_human_verdicts(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """The cursor holds the last mark seen and the last one asked for."""
    mark = review.answers_mark(deployment.home())
    seen, _, asked = (context.cursor or "").partition(" ")
    if not mark or mark == asked:
        return dg.SkipReason("no new answers")
    rests = mark == seen
    context.update_cursor(f"{mark} {mark if rests else asked}")
    if not rests:
        return dg.SkipReason("people are still answering")
    return dg.RunRequest(run_key=f"human-verdicts-{mark}")


# --- what rounds verified ---------------------------------------------------------------------------------------------
def _promote_rounds(given: Work) -> dict[str, Any]:
    from generators.generation.feedback import promote

    return promote(given.store)


VERIFIED = Promotion(
    "verified",
    "The rounds of the generation loop that later rounds learn from, pinned by version. Promoted by the job "
    "promote_verified when a round has ended.",
    _promote_rounds, lambda made: {"rounds": len(made["rounds"])},
)  # fmt: skip
promote_verified = VERIFIED.job()


def after_round(generate: Any, collect: Any) -> Any:
    """A round has ended: promote it, and collect what all rounds have verified."""

    @dg.run_status_sensor(
        run_status=dg.DagsterRunStatus.SUCCESS, name="after_round", monitored_jobs=[generate],
        request_jobs=[promote_verified, collect], default_status=dg.DefaultSensorStatus.RUNNING,
        description="Promotes a round that has ended and adds its verified trajectories to the corpus and task pool.",
    )  # fmt: skip
    def sensor(context: dg.RunStatusSensorContext) -> Any:
        for job in (promote_verified.name, collect.name):
            yield dg.RunRequest(run_key=f"{job}-{context.dagster_run.run_id}", job_name=job)

    return sensor


def next_round(generate: Any, rounds: Any) -> Any:
    """Goes on to the next round once all before it are promoted, up to `generation.rounds` of the deployment."""

    @dg.sensor(
        job=generate, name="next_round", minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts the next round of the generation loop, up to generation.rounds of deployment.yaml.",
    )  # fmt: skip
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
        from generators.generation.feedback import promoted
        from generators.generation.loop import round_name

        wanted = deployment.load().rounds
        done = len(promoted(store.open())["rounds"])
        if done >= wanted:
            return dg.SkipReason(f"{done} rounds are promoted, {wanted} are wanted (generation.rounds)")
        name = round_name(done + 1)
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=f"generate-{name}", partition_key=name)],
            dynamic_partitions_requests=[rounds.build_add_request([name])],
        )

    return sensor


# --- what the trainer says --------------------------------------------------------------------------------------------
def _promote_evaluations(given: Work) -> dict[str, Any]:
    from generators.generation.tasks.steering import promote_evaluations

    return promote_evaluations(given.store)


def _evaluations_mark(store: Store) -> str:
    from generators.generation.tasks.steering import evaluations_mark

    return evaluations_mark(store)


def _promote_policy(given: Work) -> dict[str, Any]:
    from generators.generation.tasks.steering import promote_policy

    return promote_policy(given.store)


def _policy_mark(store: Store) -> str:
    from generators.generation.tasks.steering import policy_mark

    return policy_mark(store)


def _numbers(made: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {name: made[name] for name in ("step", "score") if name in made}
    return told | {f"success on {name} tasks": rate for name, rate in made.get("success", {}).items()}


EVALUATIONS = Promotion(
    "evaluations",
    "How often the agent does easy, medium and hard tasks, by its evaluations: what moves the next round's difficulty "
    "(generation.steer of deployment.yaml). Promoted by the job promote_evaluations.",
    _promote_evaluations, _numbers, mark=_evaluations_mark,
)  # fmt: skip
POLICY = Promotion(
    "policy",
    "The agent that acts in the next rounds where generation.policy of deployment.yaml is `checkpoint`. Promoted by "
    "the job promote_policy, unless it does worse than the one before.",
    _promote_policy, _numbers, mark=_policy_mark,
)  # fmt: skip


def _when_new(one: Promotion, job: dg.JobDefinition, waits: str) -> dg.SensorDefinition:
    """Starts a promotion's job when there is something new; `waits` says why there may be nothing to promote."""
    look = one.mark
    assert look is not None, f"feedback/{one.name} has no mark, so nobody can say what is new"

    @dg.sensor(
        job=job, name=f"new_{one.name}", minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Promotes feedback/{one.name} when there is something new.",
    )  # fmt: skip
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
        opened = store.open()
        mark, before = look(opened), one.digest(opened)
        if not mark or mark == before:
            return dg.SkipReason("nothing new" if mark else waits)
        return dg.RunRequest(run_key=f"{one.name}-{mark}-after-{before}")

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
