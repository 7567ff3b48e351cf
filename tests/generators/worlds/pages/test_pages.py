"""Our own pages: seeded, deterministic, readable, hit-tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from generators.devices.browser import MAC_CHROME, NAMES, BrowserMissing, find_chromium
from generators.worlds.pages.own_pages import APPS, OwnPages


def test_a_chromium_that_is_named_but_absent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_BROWSER", "/nowhere/chromium")
    with pytest.raises(BrowserMissing, match="VESPER_BROWSER.*nowhere"):
        find_chromium()


def test_the_set_up_script_finds_the_same_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = Path(__file__).parents[4] / "deploy" / "get_browser.sh"
    text = script.read_text()
    assert " ".join(NAMES) in text and f'"{MAC_CHROME}"' in text
    named = tmp_path / "my-browser"
    named.write_text("#!/bin/sh\n")
    named.chmod(0o755)
    monkeypatch.setenv("VESPER_BROWSER", str(named))
    done = subprocess.run(["bash", str(script), sys.executable], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == find_chromium() == str(named)


def test_without_any_chromium_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VESPER_BROWSER", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/nowhere")
    with pytest.raises(BrowserMissing, match="playwright install chromium"):
        find_chromium()


@pytest.mark.parametrize("app", APPS)
def test_the_same_seed_gives_the_same_pixels_and_another_seed_others(phone: OwnPages, app: str) -> None:
    pictures = []
    for seed in (5, 6, 5):
        phone.start(app, seed)
        pictures.append(phone.screenshot())
    assert pictures[0] == pictures[2]
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize("app", APPS)
def test_every_read_element_can_be_hit_inside_the_screen(phone: OwnPages, app: str) -> None:
    phone.start(app, 11)
    elements = phone.elements()
    assert len(elements) > 8
    for e in elements:
        left, top, right, bottom = e.box
        assert 0 <= left < right <= phone.viewport.width and 0 <= top < bottom <= phone.viewport.height, e
        if e.key:
            hit = phone.page.evaluate(
                "([x, y]) => document.elementFromPoint(x, y).closest('[data-k]')?.dataset.k", list(e.centre)
            )
            assert hit == e.key


def test_an_element_under_a_dialog_is_not_read(phone: OwnPages) -> None:
    phone.start("mail", 3)
    phone.page.evaluate("V.go('message', {id: 0})")
    phone.page.evaluate("vesperTick()")
    before = {e.key for e in phone.elements()}
    phone.page.evaluate("V.ask('Delete this message?', () => {}, 'Delete')")
    after = {e.key for e in phone.elements()}
    assert "msg:delete" in before and "msg:delete" not in after
    assert {"dlg:yes", "dlg:no"} <= after


def test_the_place_of_a_name_varies_over_seeds(phone: OwnPages) -> None:
    """Or a table of names would ground as well as a model that looks."""
    places = []
    for seed in range(12):
        phone.start("settings", seed, home=True)
        box = next(e.box for e in phone.elements() if e.key == "app:shop")
        places.append((round(box[0]), round(box[1])))
    assert len(set(places)) >= 8


def test_text_is_legible(phone: OwnPages) -> None:
    for app in APPS:
        phone.start(app, 21)
        small = phone.page.evaluate(
            "[...document.querySelectorAll('#root *')].filter(n => "
            "[...n.childNodes].some(c => c.nodeType === 3 && c.nodeValue.trim())"
            " && parseFloat(getComputedStyle(n).fontSize) < 16).map(n => n.textContent)"
        )
        icons = phone.page.evaluate(
            "[...document.querySelectorAll('svg')].filter(n => n.getAttribute('width') < 22).length"
        )
        assert (small, icons) == ([], 0), app


def test_a_finger_moves_the_screen_by_its_path(phone: OwnPages) -> None:
    phone.start("contacts", 8)
    moved = phone.page.evaluate("vesperSwipe(180, 500, 180, 440)")
    back = phone.page.evaluate("vesperSwipe(180, 440, 180, 500)")
    assert (moved, back) == (60, -60)
