"""`feedback/*`: what comes back to the start of the graph, as promoted manifests and never as edges.

Each is an observable source asset whose data version is the digest that was promoted last. A job promotes; a sensor
starts it when there is something new. Consumers pin the digest.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dagster_project import deployment
from dagster_project.assets import review
from dagster_project.assets.sources import judge_config
from dagster_project.resources import JudgeResource, StoreResource, work

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


def assets() -> Sequence[Any]:
    """The observable source assets."""
    return [human_verdicts, verified]
