"""What starts at its time of the day: the nightly refresh, the hourly look for new revisions, and, where somebody
switched it on, the measurement of worth."""

from typing import Any

import dagster as dg

from dagster_project.settings.environment import Environment


def nightly(refresh: Any) -> dg.ScheduleDefinition:
    """The refresh, by default at two in the morning ($VESPER_NIGHTLY_CRON)."""
    return dg.ScheduleDefinition(
        name="nightly_refresh",
        job=refresh,
        cron_schedule=Environment.read().nightly_cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="All sources from native files to gold.",
    )


def hourly(observe: Any) -> dg.ScheduleDefinition:
    """Looks for new revisions, by default at every full hour ($VESPER_UPSTREAM_CRON)."""
    return dg.ScheduleDefinition(
        name="look_upstream",
        job=observe,
        cron_schedule=Environment.read().upstream_cron,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="New revisions of the sources: what they make stale shows in the UI, the next refresh takes them.",
    )


def worth(measure: Any) -> dg.ScheduleDefinition:
    """What data is worth, in the morning after the refresh: off until it is switched on, as it trains for an hour."""
    return dg.ScheduleDefinition(
        name="nightly_worth",
        job=measure,
        cron_schedule="0 5 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="What sources, rules and mixtures are worth; what hasn't changed is not trained again.",
    )
