"""`feedback/*`: what comes back to the start of the graph, as promoted manifests and never as edges.

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
from dagster_project.resources import JudgeResource, StoreResource, work
from pipelines.store import Store

HUMAN_VERDICTS = dg.AssetKey(["feedback", "human_verdicts"])
NOTHING = "nothing promoted yet"


@dg.observable_source_asset(
    key=HUMAN_VERDICTS,
    group_name="feedback",
    description="What people agreed on in `vesper review serve`, frozen: the set that every judge is held against "
    "before it is asked. Promoted by the job promote_human_verdicts.",
)
def human_verdicts(store: StoreResource) -> dg.DataVersion:
    """The digest that was promoted last."""
    return dg.DataVersion(review.observed(store.open()) or NOTHING)


@dg.op(description="People's answers become feedback/human_verdicts; the judge in use is asked about them once.")
def promote(context: dg.OpExecutionContext, store: StoreResource, judge: JudgeResource) -> None:
    """Promote and tell the asset's new version."""
    from quality.judges.registry import build_judge

    given = work(store, judge)
    made = review.promote(given.store, build_judge(judge_config(given)))
    facts: dict[str, Any] = {"items settled": made["agreed"], "items drawn": made["items"]}
    facts |= {f"agreement of people: {name}": value for name, value in made["agreement"].items()
              if isinstance(value, int | float)}  # fmt: skip
    judged = made["judge_agreement"]
    facts |= {name: judged[name] for name in ("kappa", "keep_from", "keep_from_in_use") if judged[name] is not None}
    context.log_event(
        dg.AssetObservation(
            HUMAN_VERDICTS, metadata=facts, tags={"dagster/data_version": str(made["digest"])},
            description="promoted",
        )
    )  # fmt: skip


@dg.job(description="Freeze what people agreed on as feedback/human_verdicts.")
def promote_human_verdicts() -> None:
    """One step: promote."""
    promote()


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


VERIFIED = dg.AssetKey(["feedback", "verified"])


@dg.observable_source_asset(
    key=VERIFIED, group_name="feedback",
    description="The rounds of the generation loop that later rounds learn from, pinned by version. Promoted by the "
    "job promote_verified when a round has ended.",
)  # fmt: skip
def verified(store: StoreResource) -> dg.DataVersion:
    """The digest that was promoted last."""
    from generators.generation.feedback import promoted

    return dg.DataVersion(promoted(store.open())["digest"] or NOTHING)


@dg.op(description="Rounds whose verdicts passed their checks become feedback/verified.")
def promote_rounds(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Promote and tell the asset's new version."""
    from generators.generation import feedback as rounds

    made = rounds.promote(store.open())
    context.log_event(
        dg.AssetObservation(
            VERIFIED, metadata={"rounds": len(made["rounds"])}, tags={"dagster/data_version": str(made["digest"])},
            description="promoted",
        )
    )  # fmt: skip


@dg.job(description="Freeze the verified rounds as feedback/verified.")
def promote_verified() -> None:
    """One step: promote."""
    promote_rounds()


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
@dataclass(frozen=True)
class Promotion:
    """A manifest of the trainer's that comes back to the loop (`generators.generation.steering`), by its short name."""

    name: str
    description: str
    waits: str
    """Why there may be nothing to promote."""
    mark: Callable[[Store], str]
    """Digest that would be promoted now; "" for none."""
    promote: Callable[[Store], dict[str, Any]]

    @property
    def key(self) -> dg.AssetKey:
        return dg.AssetKey(["feedback", self.name])

    def asset(self) -> Any:
        """The observable source asset."""

        @dg.observable_source_asset(key=self.key, group_name="feedback", description=self.description)
        def observed(store: StoreResource) -> dg.DataVersion:
            from generators.generation.steering import promoted

            return dg.DataVersion(str(promoted(store.open(), f"feedback/{self.name}").get("digest") or NOTHING))

        return observed

    def job(self) -> dg.JobDefinition:
        """Promotes, and tells the asset's new version with its numbers."""

        @dg.op(name=f"freeze_{self.name}")
        def freeze(context: dg.OpExecutionContext, store: StoreResource) -> None:
            made = self.promote(store.open())
            told: dict[str, Any] = {name: made[name] for name in ("step", "score") if name in made}
            told |= {f"success on {name} tasks": rate for name, rate in made.get("success", {}).items()}
            context.log_event(
                dg.AssetObservation(self.key, metadata=told, tags={"dagster/data_version": str(made["digest"])},
                                    description="promoted")
            )  # fmt: skip

        @dg.job(name=f"promote_{self.name}", description=f"Freeze feedback/{self.name}.")
        def promoting() -> None:
            freeze()

        return promoting

    def sensor(self, job: dg.JobDefinition) -> dg.SensorDefinition:
        """Starts the job when there is something new."""

        @dg.sensor(
            job=job, name=f"new_{self.name}", minimum_interval_seconds=60,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=f"Promotes feedback/{self.name} when there is something new.",
        )  # fmt: skip
        def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
            from generators.generation.steering import promoted

            opened = store.open()
            mark, before = self.mark(opened), promoted(opened, f"feedback/{self.name}").get("digest", "")
            if not mark or mark == before:
                return dg.SkipReason("nothing new" if mark else self.waits)
            return dg.RunRequest(run_key=f"{self.name}-{mark}-after-{before}")

        return sensor


def _steering(name: str) -> Callable[[Store], Any]:
    """A function of `steering`, imported when it is called."""

    def call(store: Store) -> Any:
        from generators.generation import steering

        return getattr(steering, name)(store)

    return call


EVALUATIONS = Promotion(
    "evaluations",
    "How often the agent does easy, medium and hard tasks, by its evaluations: what moves the next round's difficulty "
    "(generation.steer of deployment.yaml). Promoted by the job promote_evaluations.",
    "the current agent isn't evaluated yet", _steering("evaluations_mark"), _steering("promote_evaluations"),
)  # fmt: skip
POLICY = Promotion(
    "policy",
    "The agent that acts in the next rounds where generation.policy of deployment.yaml is `checkpoint`. Promoted by "
    "the job promote_policy, unless it does worse than the one before.",
    "the current agent isn't evaluated yet, or does worse than the promoted one",
    _steering("policy_mark"), _steering("promote_policy"),
)  # fmt: skip


def trainers() -> tuple[list[dg.JobDefinition], list[dg.SensorDefinition]]:
    """(jobs, sensors) that promote what the trainer says."""
    jobs = {one: one.job() for one in (EVALUATIONS, POLICY)}
    return list(jobs.values()), [one.sensor(job) for one, job in jobs.items()]


def assets() -> Sequence[Any]:
    """The observable source assets."""
    return [human_verdicts, verified, EVALUATIONS.asset(), POLICY.asset()]
