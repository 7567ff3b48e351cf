"""What starts at its time of the day: the nightly refresh, the hourly look for new revisions, and, where somebody
switched it on, the measurement of worth."""

from typing import Any

import dagster as dg

from dagster_project.settings.environment import Environment


def nightly(refresh: Any) -> dg.ScheduleDefinition:
    """The refresh, by default at two in the morning ($VESPER_NIGHTLY_CRON)."""
    return _schedule("nightly_refresh", refresh, Environment.read().nightly_cron, "All sources, native files to gold.")


def hourly(observe: Any) -> dg.ScheduleDefinition:
    """Looks for new revisions, by default at every full hour ($VESPER_UPSTREAM_CRON)."""
    about = "New revisions of the sources: what they make stale shows in the UI, the next refresh takes them."
    return _schedule("look_upstream", observe, Environment.read().upstream_cron, about)


def worth(measure: Any) -> dg.ScheduleDefinition:
    """What data is worth, in the morning after the refresh: off until it is switched on, as it trains for an hour."""
    about = "What sources, rules and mixtures are worth; what hasn't changed is not trained again."
    return _schedule("nightly_worth", measure, "0 5 * * *", about, dg.DefaultScheduleStatus.STOPPED)


def _schedule(
    name: str, job: Any, cron: str, about: str, status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.RUNNING
) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(name=name, job=job, cron_schedule=cron, default_status=status, description=about)
