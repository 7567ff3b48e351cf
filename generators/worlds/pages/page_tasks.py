"""All families of tasks on our own pages, and making one on a screen."""

from random import Random

from generators.worlds.pages import tasks_forms, tasks_lists
from generators.worlds.pages.page_task import TITLES, Intent, Maker, PageTask, State, holds, lookup

__all__ = ["FAMILIES", "TITLES", "Intent", "Maker", "PageTask", "State", "app_of", "holds", "lookup", "make_task"]

FAMILIES: dict[str, Maker] = {
    **{f"mail.{k}": tasks_lists.mail(k) for k in ("star", "delete", "archive", "search", "reply")},
    **{f"todo.{k}": tasks_lists.todo(k) for k in ("add", "tick", "delete", "filter")},
    **{f"news.{k}": tasks_lists.news(k) for k in ("save", "two")},
    **{f"contacts.{k}": tasks_lists.contacts(k) for k in ("call", "favourite")},
    **{f"settings.{k}": tasks_forms.settings(k) for k in ("switch", "two", "slider", "choice")},
    "profile.fill": tasks_forms.profile,
    **{f"shop.{k}": tasks_forms.shop(k) for k in ("add", "search", "checkout", "count", "compare")},
}


def app_of(family: str) -> str:
    return family.split(".")[0]


def make_task(family: str, state: State, rng: Random) -> PageTask | None:
    """A task of this family on the screen whose `vesperState()` is given; None if the screen can't carry one."""
    return FAMILIES[family](state, rng)
