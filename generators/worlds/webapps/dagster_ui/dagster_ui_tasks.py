"""Ten tasks in the bakery's Dagster: materialise, launch, switch schedules and a sensor, find out what went wrong."""

from collections.abc import Sequence
from typing import Any

from generators.worlds.webapps.dagster_ui.dagster_ui_world import NAME
from generators.worlds.webapps.evaluate import Check, answered, rest, value
from generators.worlds.webapps.web_app_task import AppTask, Intent

ASSET_JOB = "__ASSET_JOB"
"""Dagster's name for runs that materialise assets from the UI."""
DATA: dict[str, Any] = {
    "assets": {
        "daily_report": {"group": "sales", "materializations": 1},
        "flour_prices": {"group": "supplies", "materializations": 1},
        "shopping_list": {"group": "supplies", "materializations": 0},
        "tax_summary": {"group": "sales", "materializations": 0},
        "till_receipts": {"group": "sales", "materializations": 1},
    },
    "runs": {
        "__ephemeral_asset_job__": {"SUCCESS": 1},
        "evening_cakes": {"FAILURE": 1},
        "morning_bread": {"SUCCESS": 2},
    },
    "schedules": {"bread_daily": "STOPPED", "cleaning_weekly": "RUNNING"},
    "sensors": {"delivery_arrived": "STOPPED"},
}
"""The snapshot's truth, as `history.txt` leaves it."""
JOBS: Intent = ("click", "link", "Jobs")
CATALOG: Intent = ("click", "link", "Catalog")
AUTOMATION: Intent = ("click", "link", "Automation")
RUNS: Intent = ("click", "link", "Runs")


def _task(name: str, goal: str, checks: Sequence[Check], plan: Sequence[Intent], *touched: tuple[str, ...]) -> AppTask:
    start = {"world": NAME, "seed": 0, "page": "/overview/runs"}
    return AppTask(name, NAME, goal, start, (*checks, rest(DATA, *touched)), tuple(plan))


def _materialised(asset: str) -> tuple[list[Check], list[tuple[str, ...]]]:
    key = ("assets", asset, "materializations")
    # One more than the snapshot has, and a run of whatever came of it.
    return [value(("data", *key), DATA["assets"][asset]["materializations"] + 1)], [key, ("runs", ASSET_JOB)]


def _switch(name: str, goal: str, kind: str, which: str, status: str) -> AppTask:
    """`which`: the switch among the unnamed check boxes of the list (each row has one to mark it, and one switch)."""
    plan = [AUTOMATION, ("click", "checkbox", "", which)]
    return _task(
        f"{'start' if status == 'RUNNING' else 'stop'}_{name}",
        goal,
        [value(("data", kind, name), status)],
        plan,
        (kind, name),
    )


def _launch(job: str, goal: str, runs: dict[str, int]) -> AppTask:
    """The button is there at once, but works only when the configuration was checked."""
    # The launchpad checks its configuration first; only then the button works.
    plan: list[Intent] = [
        JOBS,
        ("click", "link", job),
        ("click", "tab", "Launchpad"),
        ("wait",),
        ("click", "button", "Launch Run"),
    ]
    return _task(f"launch_{job}", goal, [value(("data", "runs", job), runs)], plan, ("runs", job))


def make_tasks(seed: int = 0) -> tuple[AppTask, ...]:
    """The ten tasks. There is one snapshot, so `seed` must be 0."""
    if seed:
        raise ValueError(f"{NAME}: seed: expected 0, the only snapshot, found {seed!r:.40}")
    tax, tax_paths = _materialised("tax_summary")
    shopping, shopping_paths = _materialised("shopping_list")
    return (
        _switch("bread_daily", "Turn on the schedule bread_daily.", "schedules", "2", "RUNNING"),
        _task(
            "materialise_asset",
            "Materialize the asset tax_summary.",
            tax,
            [CATALOG, ("click", "link", "tax_summary tax_summary"), ("click", "button", "Materialize")],
            *tax_paths,
        ),
        _task(
            "materialise_marked",
            "Mark the asset shopping_list in the catalog and materialize what is marked.",
            shopping,
            [CATALOG, ("click", "checkbox", "", "4"), ("click", "button", "Materialize selected")],
            *shopping_paths,
        ),
        _switch("cleaning_weekly", "Turn off the schedule cleaning_weekly.", "schedules", "4", "STOPPED"),
        _switch("delivery_arrived", "Turn on the sensor delivery_arrived.", "sensors", "6", "RUNNING"),
        _launch("weekly_cleaning", "Launch a run of the job weekly_cleaning.", {"SUCCESS": 1}),
        _launch("evening_cakes", "Try the job evening_cakes once more: launch another run of it.", {"FAILURE": 2}),
        _task(
            "find_failed",
            "A run of one of the jobs failed. Of which job? Tell me its name.",
            [answered("evening_cakes", "evening cakes", refused=["morning_bread", "weekly_cleaning"])],
            [RUNS, ("click", "tab", "Failed"), ("answer", "evening_cakes")],
        ),
        _task(
            "find_reason",
            "Why did the run of evening_cakes fail? Tell me the error message.",
            [answered("gas valve is closed")],
            [RUNS, ("click", "tab", "Failed"), ("click", "link", "View"), ("answer", "The oven's gas valve is closed")],
        ),
        _task(
            "schedule_time",
            "At what time of the day (UTC) does the schedule bread_daily run? Tell me the time.",
            [answered("05:00", "5:00", "5 am", refused=["18:30"])],
            [AUTOMATION, ("answer", "05:00")],
        ),
    )
