"""The worlds by name: `initial_state["world"]` of a task is a name in `WORLDS`. Add a world here.

A world is imported only when it is opened, so that one whose packages are missing stands in nobody's way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from generators.tasks.world_interface import World
from schemas.settings import nearest


@dataclass(frozen=True)
class WorldKind:
    """`open` gives the open world, in a browser (or a session) of its own; its options are those of that function."""

    platform: str
    open: Callable[..., AbstractContextManager[World]]


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
    from generators.worlds.desktop.session import open_desktop

    with open_desktop(**options) as endpoint, DesktopWorld(endpoint) as world:
        yield world


def _datasette(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.datasette.datasette_world import open_datasette

    return open_datasette(**options)


def _django_admin(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.django_admin.django_admin_world import open_django_admin

    return open_django_admin(**options)


def _dagster_ui(**options: object) -> AbstractContextManager[World]:
    from generators.worlds.webapps.dagster_ui.dagster_ui_world import open_dagster_ui

    return open_dagster_ui(**options)


WORLDS: dict[str, WorldKind] = {
    "phone": WorldKind("mobile", _phone),
    "fsm": WorldKind("web", _fsm),
    "pages/phone": WorldKind("mobile", _pages("phone")),
    "pages/desktop": WorldKind("desktop", _pages("desktop")),
    "miniwob": WorldKind("web", _miniwob),
    "desktop": WorldKind("desktop", _desktop),
    "datasette": WorldKind("web", _datasette),
    "django_admin": WorldKind("web", _django_admin),
    "dagster_ui": WorldKind("web", _dagster_ui),
}


def open_world(name: str, **options: object) -> AbstractContextManager[World]:
    """The world of a name, opened with `with` and closed at its end. Raises `ValueError` for an unknown name."""
    if name not in WORLDS:
        raise ValueError(f"world: unknown name {name!r:.60}; {nearest(name, WORLDS)}")
    return WORLDS[name].open(**options)
