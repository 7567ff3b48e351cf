"""One Chromium for several browsers: as empty as a new one, the same pixels, and another where it has died."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from generators.devices.browser import DESKTOP, FLAGS, UNWANTED, find_chromium, keep_browser, open_browser
from generators.tasks.world_interface import Observation
from generators.worlds.registry import open_world
from schemas.ids import digest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("has_chromium")]
PAGE = "data:text/html,<title>a page</title>"


def process_of(browser: Any) -> int:
    told = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    return next(int(process["id"]) for process in told["processInfo"] if process["type"] == "browser")


def features_off(process: psutil.Process) -> set[str]:
    """By the flag that counts: the last one."""
    flags = [flag for flag in process.cmdline() if flag.startswith("--disable-features=")]
    return set(flags[-1].partition("=")[2].split(","))


def seen_in(world: str, start: Mapping[str, Any]) -> Observation:
    with open_world(world) as opened:
        opened.reset(start)
        return opened.observe()


def test_browsers_are_of_one_process_and_know_nothing_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<title>a page</title>")
    told = "() => [localStorage.length, Notification.permission]"
    with keep_browser():
        with open_browser(DESKTOP, "window.mine = 1") as one, open_browser(DESKTOP) as other:
            kept = one.browser
            assert kept is not None and other.browser is kept and not one.pages and not other.pages
            page, beside = one.new_page(), other.new_page()
            one.grant_permissions(["notifications"])
            for each in (page, beside):
                each.goto(file.as_uri())
            page.evaluate("localStorage.setItem('name', 'Ada')")
            one.add_cookies([{"name": "a", "value": "b", "url": "https://example.org"}])
            assert page.evaluate(told) == [1, "granted"] and beside.evaluate(told) == [0, "default"]
            assert page.evaluate("window.mine") == 1 and beside.evaluate("window.mine") is None
            assert len(one.cookies()) == 1 and other.cookies() == []
        with keep_browser(), open_browser(DESKTOP) as later:
            assert later.browser is kept and later.cookies() == []
            page = later.new_page()
            page.goto(file.as_uri())
            assert page.evaluate(told) == [0, "default"]
            with pytest.raises(Exception, match="ERR_INTERNET_DISCONNECTED"):
                page.goto("http://127.0.0.1:9/")
        assert kept.is_connected()
    assert not kept.is_connected()
    with open_browser(DESKTOP) as alone:
        assert alone.browser is not kept


def test_no_page_of_chromiums_own_is_drawn_beside_ours() -> None:
    with open_browser(DESKTOP) as opened:
        opened.new_page().goto(PAGE)
        main = psutil.Process(process_of(opened.browser))
        renderers = [each for each in main.children(recursive=True) if "--type=renderer" in each.cmdline()]
        assert renderers and not [each for each in renderers if "--top-chrome-webui" in each.cmdline()]
        assert features_off(main) == set(UNWANTED)


def test_what_playwright_turns_off_stays_off() -> None:
    from playwright.sync_api import sync_playwright

    ours = [flag for flag in FLAGS if not flag.startswith("--disable-features=")]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(headless=True, executable_path=find_chromium(), args=ours)
        theirs = features_off(psutil.Process(process_of(browser)))
        browser.close()
    elsewhere = ("ms", "Tcp")  # Edge's and Windows'
    assert len(theirs) > 5 and {name for name in theirs if not name.startswith(elsewhere)} <= set(UNWANTED)


def test_one_that_has_died_is_launched_anew_whether_anyone_noticed_or_not() -> None:
    from playwright.sync_api import Error

    with keep_browser():
        with open_browser(DESKTOP) as first:
            os.kill(process_of(first.browser), signal.SIGKILL)
            with pytest.raises(Error, match="closed"):
                first.new_page().goto(PAGE)
        with open_browser(DESKTOP) as second:
            page = second.new_page()
            page.goto(PAGE)
            assert page.title() == "a page" and second.browser is not first.browser
        os.kill(process_of(second.browser), signal.SIGKILL)
        with open_browser(DESKTOP) as third:
            page = third.new_page()
            page.goto(PAGE)
            assert page.title() == "a page" and third.browser is not second.browser


def test_worlds_look_the_same_in_a_kept_one_as_in_one_of_their_own() -> None:
    starts: dict[str, dict[str, Any]] = {
        "phone": {"seed": 3, "open": "vesper://calendar"},
        "miniwob": {"task": "click-checkboxes", "seed": 5},
    }
    with keep_browser(), ThreadPoolExecutor(1) as thread:  # a thread has a Chromium of its own
        for world, start in starts.items():
            kept, own = seen_in(world, start), thread.submit(seen_in, world, start).result()
            assert kept.png == own.png and digest(kept.state) == digest(own.state), world
            assert [vars(element) for element in kept.elements] == [vars(element) for element in own.elements], world
