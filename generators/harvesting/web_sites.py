"""Where pages are harvested from: a folder of html files, an address, an app that is a world of its own.

A site shows a page by its name, freshly loaded, as often as it is asked. Each kind is one function here and one branch
in `open_site`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from generators.devices.browser import Viewport, find_chromium, open_browser
from generators.harvesting.outside_proxy import outside_proxy
from generators.tasks.world_interface import WorldError
from generators.worlds.registry import open_world
from generators.worlds.static_pages.static_pages_world import HTML, open_web, pages_of
from generators.worlds.webapps.reading import STILL
from generators.worlds.webapps.server import need
from generators.worlds.webapps.web_app_world import WebAppWorld

if TYPE_CHECKING:
    from playwright.sync_api import Page

APPS: dict[str, list[str]] = json.loads(Path(__file__).with_name("names.json").read_text("utf-8"))["apps"]
"""Apps that can be harvested by name, and their pages."""
PACKAGES = {"datasette": "datasette", "django_admin": "django"}
LOAD_MS, REST_MS = 20_000, 300


@dataclass(frozen=True)
class HarvestSite:
    """`show(page name, width, height)` loads a page afresh at the top and gives it. `pages` = names in a fixed
    order."""

    app: str
    pages: tuple[str, ...]
    show: Callable[[str, int, int], Page]


def check_ready(targets: Iterable[str]) -> None:
    """Raises `BrowserMissing` or `AppMissing`, which say what to install, before anything is started."""
    find_chromium()
    for target in targets:
        if target in PACKAGES:
            need(PACKAGES[target])


def site_pages(target: str) -> tuple[str, ...]:
    """The pages of a target without opening it. Raises `ValueError` for what is no folder, file, address or app."""
    if target in APPS:
        return tuple(APPS[target])
    if urlsplit(target).scheme in ("http", "https"):
        return (target,)
    path = Path(target)
    if path.is_file() and path.suffix.lower() in HTML:
        return (path.name,)
    if path.is_dir():
        return pages_of(path.resolve())
    raise ValueError(
        f"{target[:120]}: expected a folder of html pages, an html file, an http address or one of {', '.join(APPS)}"
    )


@contextmanager
def open_site(target: str, allowed: Collection[str] = ()) -> Iterator[HarvestSite]:
    """The target in a browser of its own. `allowed`: hosts of inner networks that an address may lead to."""
    pages = site_pages(target)
    if target in APPS:
        opened = _open_app(target, pages)
    elif urlsplit(target).scheme in ("http", "https"):
        opened = _open_address(target, pages, allowed)
    else:
        path = Path(target).resolve()
        opened = _open_folder(path if path.is_dir() else path.parent, pages)
    # All kinds look alike from here on.
    with opened as site:
        yield site


@contextmanager
def _open_folder(folder: Path, pages: tuple[str, ...]) -> Iterator[HarvestSite]:
    """Time, chance and motion are held still; nothing outside the folder is shown."""
    with open_web(folder, folder.name) as world:

        def show(name: str, width: int, height: int) -> Page:
            world.page.set_viewport_size({"width": width, "height": height})
            # Reset for every page: scripts and storage of the one before must not show.
            world.reset({"page": name, "seed": 0})
            return world.page

        yield HarvestSite(folder.name, pages, show)


@contextmanager
def _open_app(name: str, pages: tuple[str, ...]) -> Iterator[HarvestSite]:
    with open_world(name) as world:
        if not isinstance(world, WebAppWorld):
            raise ValueError(f"{name}: expected a web app, found {type(world).__name__}")
        app = world

        def show(path: str, width: int, height: int) -> Page:
            app.page.set_viewport_size({"width": width, "height": height})
            app.reset({"seed": 0, "page": path})
            return app.page

        yield HarvestSite(name, pages, show)


@contextmanager
def _open_address(address: str, pages: tuple[str, ...], allowed: Collection[str]) -> Iterator[HarvestSite]:
    """A page that somebody serves. It may load what it needs from anywhere but inner networks, whose hosts must be
    `allowed` by name; motion is stopped, time isn't.

    What is shown is what was requested: an error page, or a redirection to another host, raises `WorldError`.
    """
    from playwright.sync_api import Error

    with outside_proxy(allowed) as (proxy, through), open_browser(Viewport(1280, 800), STILL, through) as context:
        context.set_offline(False)
        page = context.new_page()
        page.on("dialog", lambda dialog: dialog.dismiss())

        def show(name: str, width: int, height: int) -> Page:
            page.set_viewport_size({"width": width, "height": height})
            try:
                # First away: the same address again would not load anything.
                page.goto("about:blank")
                # As the browser reads the address, and not as Python does.
                asked = str(page.evaluate("name => new URL(name).hostname", name))
                answer = page.goto(name, wait_until="load", timeout=LOAD_MS)
                page.wait_for_timeout(REST_MS)
                shown = str(page.evaluate("location.hostname"))
            except Error as error:
                # The proxy knows better why it refused than the browser, which only sees a failure.
                said = proxy.refused.get(urlsplit(name).hostname or "") or str(error).partition("\n")[0][:160]
                raise WorldError(f"{name[:120]}: the page didn't load: {said}") from None
            if why := proxy.refused.get(asked.strip("[]")) or proxy.refused.get(shown.strip("[]")):
                raise WorldError(f"{name[:120]}: {why}")
            if answer is not None and answer.status >= 400:
                raise WorldError(f"{name[:120]}: expected a page, the server answered {answer.status}")
            # "www." alone is the same site.
            if shown.removeprefix("www.") != asked.removeprefix("www."):
                raise WorldError(f"{name[:120]}: led to {shown[:120] or 'no host'}; if that is meant, name its address")
            return page

        yield HarvestSite(urlsplit(address).hostname or "web", pages, show)
