"""Apps by the names that data gives them: in which state a world shows the app (or site) of a recording.

Each function takes (name, seed): a title, a package, a site or the target of one of our own tasks, and which of its
snapshots is meant. It gives the start without its entry "world", or None where the world has no such app. None of them
opens anything; `generators.worlds.registry` says which world has which.
"""

from collections.abc import Callable, Mapping

from generators.worlds.desktop.programs import called
from generators.worlds.fsm.sites import TEMPLATES
from generators.worlds.miniwob.html import page_of
from generators.worlds.pages import page_task
from generators.worlds.phone import snapshot

Start = Mapping[str, object]
AppStart = Callable[[str, int], Start | None]


def no_app(app: str, seed: int) -> Start | None:
    """Of a world that shows nothing that data of others could name."""
    return None


def page_app(app: str, seed: int) -> Start | None:
    """One of our own pages: its title, package, site, or target."""
    for key, title in page_task.TITLES.items():
        # Case doesn't matter: recordings and stores write names differently.
        if app.casefold() in {key, title.casefold(), page_task.PACKAGES[key], page_task.SITES[key], f"pages/{key}"}:
            return {"app": key, "seed": seed, "home": False}
    return None


def phone_app(app: str, seed: int) -> Start | None:
    """An app of the phone, from its home screen on."""
    named = ((title, snapshot.PACKAGES[key], f"phone/{key}") for key, title in snapshot.TITLES.items())
    return {"seed": seed} if any(app.casefold() == name.casefold() for names in named for name in names) else None


def site(app: str, seed: int) -> Start | None:
    """A site made from a spec, by its target: "fsm/shop/3"."""
    world, _, rest = app.partition("/")
    kind, _, number = rest.partition("/")
    found = world == "fsm" and kind in TEMPLATES and number.isdecimal()
    return {"kind": kind, "seed": int(number)} if found else None


def miniwob_task(app: str, seed: int) -> Start | None:
    """A page of MiniWoB++ by the name of its task; None without the package."""
    name = app.removeprefix("miniwob/")
    try:
        page_of(name)
    # RuntimeError: the package of the pages isn't installed.
    except (ValueError, RuntimeError):
        return None
    return {"task": name, "seed": seed}


def program(app: str, seed: int) -> Start | None:
    """A program of the desktop session, by a name that `Launch` takes, or by its target."""
    found = called(app.casefold().removeprefix("desktop/"))
    return {"program": found.name} if found is not None else None


def web_app(name: str) -> AppStart:
    """A web app that goes by one name, from its first page on."""

    def start(app: str, seed: int) -> Start | None:
        return {"page": "/"} if app.casefold() == name else None

    return start
