"""Tasks of real user interfaces (Datasette, Django admin, Dagster's own UI, desktop programs) and plans that do them.

Each comes from a family with a plan over roles and names that was carried out, and is found again by its id.
"""

import importlib
from dataclasses import dataclass
from functools import lru_cache

from generators.tasks.task_spec import TaskSpec
from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task
from generators.worlds.desktop.documented_tasks import plan_of

APPS = ("datasette", "django_admin", "dagster_ui", "desktop")
SEEDS = 40
"""Snapshots of each app that tasks are made on; one that has a single snapshot gives as many as it has."""


@dataclass(frozen=True)
class AppWork:
    """A task of an app: what the loop executes, and the plan that does it."""

    family: str
    contract: TaskSpec
    plan: tuple[tuple[str, ...], ...]


def works(app: str, seed: int) -> tuple[AppWork, ...]:
    """One task of every family of an app on the snapshot of a seed; () for a seed that it has no snapshot of."""
    return desktop_works(tuple(FAMILIES), seed) if app == "desktop" else _web_works(app, seed)


@lru_cache(maxsize=512)
def desktop_works(families: tuple[str, ...], seed: int) -> tuple[AppWork, ...]:
    """One task of these families of the desktop."""
    made = [(name, make_task(name, seed)) for name in families]
    return tuple(AppWork(f"desktop/{name}", task.contract(), task.plan) for name, task in made)


@lru_cache(maxsize=512)
def _web_works(app: str, seed: int) -> tuple[AppWork, ...]:
    module = importlib.import_module(f"generators.worlds.webapps.{app}.{app}_tasks")
    # One snapshot only: other seeds would repeat its tasks under new ids.
    if seed and snapshots(app) == 1:
        return ()
    return tuple(AppWork(f"{app}/{task.name}", task.contract(), task.plan) for task in module.make_tasks(seed))


def snapshots(app: str) -> int:
    """Of how many snapshots an app has tasks."""
    return 1 if app == "dagster_ui" else SEEDS


@lru_cache(maxsize=512)
def _by_id(app: str, seed: int, families: tuple[str, ...]) -> dict[str, AppWork]:
    """The works of an app by the ids of their tasks, hashes over the whole task; `families` are the desktop's now."""
    return {work.contract.task_id: work for work in (desktop_works(families, seed) if families else works(app, seed))}


def work_of(contract: TaskSpec) -> AppWork | None:
    """The task whose contract it is, made again; None for one that no family of these apps, and no man page, gave."""
    app = contract.target.partition("/")[0]
    if app not in APPS:
        return None
    known = contract.initial_state.get("seed")
    # The seed stands in the start; the desktop's snapshots don't say theirs, so all are tried.
    seeds = [known] if isinstance(known, int) and app != "desktop" else range(snapshots(app))
    # A program of one's own may have been entered since the last call.
    families = tuple(FAMILIES) if app == "desktop" else ()
    task_id = contract.task_id
    if found := next((work for seed in seeds if (work := _by_id(app, seed, families).get(task_id))), None):
        return found
    # Proposed from a document: its page gives the plan again; what it had to print, a desktop said.
    family = next(iter(contract.capabilities), "")
    plan = plan_of(family, contract.initial_state, SEEDS) if app == "desktop" else ()
    return AppWork(family, contract, plan) if plan else None
