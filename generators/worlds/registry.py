"""The worlds by name: `initial_state["world"]` of a task is a name in `WORLDS`. Add a world here.

A world is imported only when it is opened, so that one whose packages are missing stands in nobody's way.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from generators.tasks.world_interface import World
from generators.worlds import app_starts
from generators.worlds.app_starts import AppStart
from generators.worlds.care.care_case import Surface
from schemas.settings import nearest


@dataclass(frozen=True)
class WorldKind:
    """`open` gives the open world, in a browser (or a session) of its own; its options are those of that function.
    `start` says how it shows an app that recorded data names."""

    platform: str
    open: Callable[..., AbstractContextManager[World]]
    start: AppStart = app_starts.no_app


def _phone(**options: Any) -> AbstractContextManager[World]:
    from generators.worlds.phone.phone_world import open_phone

    return open_phone(**options)


def _fsm(**options: Any) -> AbstractContextManager[World]:
    from generators.worlds.fsm.fsm_world import open_fsm

    return open_fsm(**options)


def _pages(kind: str) -> Callable[..., AbstractContextManager[World]]:
    def opened(**options: object) -> AbstractContextManager[World]:
        from generators.worlds.pages.pages_world import open_pages_world

        return open_pages_world(kind, **options)

    return opened


def _miniwob(**options: Any) -> AbstractContextManager[World]:
    from generators.worlds.miniwob.miniwob_world import open_miniwob_world

    return open_miniwob_world(**options)


@contextmanager
def _desktop(**options: Any) -> Iterator[World]:
    from generators.worlds.desktop.desktop_world import DesktopWorld

    # Imported here: it needs packages that no other world does.
    from generators.worlds.desktop.session import open_desktop

    with open_desktop(**options) as endpoint, DesktopWorld(endpoint) as world:
        yield world


def _osworld(**options: Any) -> AbstractContextManager[World]:
    from generators.worlds.osworld.osworld_world import open_osworld

    return open_osworld(**options)


def _datasette(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.datasette.datasette_world import open_datasette

    return open_datasette(**options)


def _django_admin(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.django_admin.django_admin_world import open_django_admin

    return open_django_admin(**options)


def _dagster_ui(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.dagster_ui.dagster_ui_world import open_dagster_ui

    return open_dagster_ui(**options)


def _graph(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.graph.graph_world import open_graph

    return open_graph(**options)


def _care(surface: Surface) -> Callable[..., AbstractContextManager[World]]:
    def opened(**options: object) -> AbstractContextManager[World]:
        from generators.worlds.care.care_world import open_care

        return open_care(surface, _desktop if surface == "computer" else None, **options)

    return opened


WORLDS: dict[str, WorldKind] = {
    "phone": WorldKind("mobile", _phone, app_starts.phone_app),
    "fsm": WorldKind("web", _fsm, app_starts.site),
    "pages/phone": WorldKind("mobile", _pages("phone"), app_starts.page_app),
    "pages/desktop": WorldKind("desktop", _pages("desktop"), app_starts.page_app),
    "pages/web": WorldKind("web", _pages("web"), app_starts.page_app),
    "miniwob": WorldKind("web", _miniwob, app_starts.miniwob_task),
    "desktop": WorldKind("desktop", _desktop, app_starts.program),
    "osworld": WorldKind("desktop", _osworld),
    "datasette": WorldKind("web", _datasette, app_starts.web_app("datasette")),
    "django_admin": WorldKind("web", _django_admin, app_starts.web_app("django_admin")),
    "dagster_ui": WorldKind("web", _dagster_ui, app_starts.web_app("dagster_ui")),
    "graph": WorldKind("mobile", _graph),
    "care/phone": WorldKind("mobile", _care("phone")),
    "care/web": WorldKind("web", _care("web")),
    "care/computer": WorldKind("desktop", _care("computer")),
}


def starts_of(app: str, platform: str, seed: int) -> dict[str, dict[str, object]]:
    """World → its start with the app (or site) that recorded data names so, of all worlds of the platform that have
    it, in the registry's order."""
    # The order of `WORLDS` decides ties, the same on every machine.
    found = {name: kind.start(app, seed) for name, kind in WORLDS.items() if kind.platform == platform}
    return {name: {"world": name, **start} for name, start in found.items() if start is not None}


def open_world(name: str, **options: object) -> AbstractContextManager[World]:
    """The world of a name, opened with `with` and closed at its end. Raises `ValueError` for an unknown name."""
    if name not in WORLDS:
        raise ValueError(f"world: unknown name {name!r:.60}; {nearest(name, WORLDS)}")
    return WORLDS[name].open(**options)
