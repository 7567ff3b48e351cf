"""Worlds drawn for nano: sizes of pictures and text, the same elements, and hands that still do their tasks."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest

from generators.tasks.world_interface import World
from generators.worlds.registry import open_world
from schemas.actions import Click
from trainer.proving.staircase.choice import attempt, oracle_agent
from trainer.proving.staircase.performing import perform
from trainer.proving.staircase.tasks import Family, episodes, open_nano

LEAST_PX = 16
pytestmark = pytest.mark.usefixtures("has_chromium", "shared_chromium")


FONT_SIZES = """() => {
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    const own = [...node.childNodes].some((kid) => kid.nodeType === 3 && kid.nodeValue.trim());
    const seen = box.width && box.height && box.top < innerHeight && box.bottom > 0 && style.visibility !== 'hidden';
    const told = !['SCRIPT', 'STYLE', 'OPTION'].includes(node.tagName) && !node.closest('#query, #reward-display');
    if (own && seen && told)
      found.push([parseFloat(style.fontSize), node.textContent.trim().slice(0, 30)]);
  }
  return found;
}"""


def small_text(world: Any, scale: float) -> list[str]:
    """Texts below 16 px in the picture."""
    return [text for size, text in world.page.evaluate(FONT_SIZES) if size * scale < LEAST_PX]


def size_of(png: bytes) -> tuple[int, int]:
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def done(world: World, family: str) -> None:
    """The hand does the family's first test episode, and one with slips, of which each is recovered from."""
    for number, contract in islice(episodes(Family(family), "test", world), 1):
        good, found = attempt(world, oracle_agent(contract, world), contract)
        assert good and found is not None, (family, number, contract.instruction)
        moments = perform(world, contract, Random(1), 0.9)
        assert moments is not None and moments[-1].right


def test_miniwob_is_drawn_at_two_pixels_a_css_pixel() -> None:
    start = {"task": "click-checkboxes", "seed": 5}
    with open_world("miniwob") as plain:
        plain.reset(start)
        before = plain.observe()
    with open_nano("miniwob") as world:
        world.reset(start)
        shot = world.observe()
        assert size_of(before.png) == (160, 210) and size_of(shot.png) == world.size_px == (320, 416)
        assert [(p.key, p.name) for p in shot.elements] == [(p.key, p.name) for p in before.elements]
        for task in ("click-checkboxes", "click-link", "social-media", "email-inbox-forward", "phone-book"):
            world.reset({"task": task, "seed": 5})
            assert small_text(world, 2.0) == [], task
        done(world, "miniwob/click-checkboxes")


def test_phone_and_sites_fit_a_small_screen() -> None:
    with open_nano("phone") as world:
        for link in ("vesper://contacts", "vesper://calendar", "vesper://settings", "vesper://shop"):
            world.reset({"seed": 3, "open": link})
            shot = world.observe()
            assert size_of(shot.png) == world.size_px == (320, 448)
            assert small_text(world, 1.0) == [], link
        done(world, "phone/notes.pin")
    with open_nano("fsm") as site:
        for kind in ("shop", "issues", "bank"):
            site.reset({"kind": kind, "seed": 3})
            shot = site.observe()
            assert size_of(shot.png) == site.size_px == (320, 448)
            assert small_text(site, 1.0) == [], kind
            boxes = [p.box for p in shot.elements if p.clickable]
            overlaps = [
                (a, b)
                for n, a in enumerate(boxes)
                for b in boxes[n + 1 :]
                if min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1
            ]
            assert len(boxes) >= 4 and overlaps == []
        site.reset({"kind": "issues", "seed": 3})
        before = site.state()["page"]
        closed = next(element for element in site.observe().elements if element.name == "Closed")
        site.act(Click(closed.centre))  # points are those of the small screen
        assert site.state()["page"] != before
        done(site, "fsm/issues/close")
