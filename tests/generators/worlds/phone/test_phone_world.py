"""The phone as a world: exact resets, real touches, system keys, deep links, text byte for byte."""

from __future__ import annotations

import pytest

from generators.tasks.world_interface import UnsupportedAction, World, WorldError
from generators.worlds.phone.phone_world import PhoneWorld
from generators.worlds.phone.plan import perform
from generators.worlds.phone.snapshot import APPS, make_snapshot
from schemas import action_types

NASTY = "a'b\"c`$(id);rm -rf / 你好 😀 <b>&amp;\t\\n\n" + "x" * 10_000


def centre(world: PhoneWorld, key: str) -> tuple[int, int]:
    element = next((p for p in world.elements() if p.key == key), None)
    assert element is not None, f"{key} isn't on the screen: {[p.key for p in world.elements()]}"
    return element.centre


def test_it_is_a_world(handset: PhoneWorld) -> None:
    assert isinstance(handset, World) and handset.size_px == (360, 640)


def test_same_seed_same_document_and_pixels_other_seed_others(handset: PhoneWorld) -> None:
    assert make_snapshot(7) == make_snapshot(7) != make_snapshot(8)
    seen = []
    for seed in (5, 6, 5):
        handset.reset({"seed": seed, "open": "vesper://contacts"})
        seen.append(handset.observe())
    assert (seen[0].png, seen[0].state, seen[0].elements) == (seen[2].png, seen[2].state, seen[2].elements)
    assert seen[0].png != seen[1].png


@pytest.mark.parametrize("app", APPS)
def test_a_moment_in_the_middle_comes_back_exactly(handset: PhoneWorld, app: str) -> None:
    handset.reset({"seed": 11, "open": f"vesper://{app}"})
    handset.act(action_types.Scroll(direction="down"))
    for key in ("search", "add", "sort", "more"):
        if any(p.key == key for p in handset.elements()):
            handset.act(action_types.Click(centre(handset, key)))
            handset.act(action_types.Type("a"))
            break
    saved, before = handset.state(), handset.observe()
    handset.act(action_types.PressRecent())
    handset.act(action_types.PressHome())
    assert handset.observe().png != before.png
    handset.reset({"snapshot": saved})
    after = handset.observe()
    assert after.state == before.state and after.png == before.png and after.elements == before.elements


def test_text_arrives_byte_for_byte_and_nowhere_without_a_focus(handset: PhoneWorld) -> None:
    handset.reset({"seed": 1, "open": "vesper://notes/edit"})
    handset.act(action_types.Type("lost"))
    assert handset.state()["ui"]["stacks"]["notes"][-1]["f"]["body"] == ""
    for key, name in (("field:title", "title"), ("field:body", "body")):
        handset.act(action_types.Click(centre(handset, key)))
        handset.act(action_types.Type(NASTY))
        handset.act(action_types.Type("!"))
        assert handset.state()["ui"]["stacks"]["notes"][-1]["f"][name] == NASTY + "!"


def test_a_long_press_on_a_field_selects_what_typing_replaces(handset: PhoneWorld) -> None:
    handset.reset({"seed": 1, "open": "vesper://contacts/edit?first=Old"})
    handset.act(action_types.LongPress(centre(handset, "field:first")))
    handset.act(action_types.Type("New"))
    assert handset.state()["ui"]["stacks"]["contacts"][-1]["f"]["first"] == "New"


def test_back_home_and_recents_keep_each_apps_own_stack(handset: PhoneWorld) -> None:
    handset.reset({"seed": 2})
    handset.act(action_types.Launch(app="Settings"))
    handset.act(action_types.Click(centre(handset, "go:display")))
    handset.act(action_types.PressHome())
    handset.act(action_types.Launch(app="no such app"))
    assert handset.state()["ui"]["front"] == "home"
    handset.act(action_types.Launch(app="clock"))
    handset.act(action_types.PressRecent())
    handset.act(action_types.Click(centre(handset, "recent:settings")))
    assert any(p.key == "set:dark" for p in handset.elements())
    fronts = []
    for _ in range(2):
        handset.act(action_types.PressBack())
        fronts.append(handset.state()["ui"]["front"])
    assert fronts == ["settings", "home"]


def test_back_closes_a_dialog_before_it_leaves_the_page(handset: PhoneWorld) -> None:
    handset.reset({"seed": 2, "open": "vesper://contacts"})
    handset.act(action_types.Click(centre(handset, "sort")))
    keys = {p.key for p in handset.elements()}
    assert "opt:First name" in keys and "add" not in keys  # what lies under a dialog can't be touched
    handset.act(action_types.PressBack())
    assert handset.state()["ui"]["dialog"] is None and handset.state()["ui"]["front"] == "contacts"


def test_gestures_open_the_drawer_and_quick_settings_and_move_a_slider(handset: PhoneWorld) -> None:
    handset.reset({"seed": 3})
    handset.act(action_types.Scroll((500, 700), (500, 300)))
    assert handset.state()["ui"]["front"] == "drawer"
    handset.act(action_types.Drag((500, 10), (500, 600)))
    bluetooth = handset.state()["data"]["settings"]["values"]["bluetooth"]
    handset.act(action_types.Click(centre(handset, "shade:bluetooth")))
    assert handset.state()["data"]["settings"]["values"]["bluetooth"] is not bluetooth
    handset.reset({"seed": 3, "open": "vesper://settings/display"})
    perform(handset, [("slide", "set:brightness", 20)])
    assert handset.state()["data"]["settings"]["values"]["brightness"] == 20


def test_enter_sends_a_message_and_waiting_lets_the_timer_run(handset: PhoneWorld) -> None:
    thread = make_snapshot(4)["data"]["messages"]["threads"][0]["id"]
    handset.reset({"seed": 4, "open": f"vesper://messages/thread?id={thread}"})
    handset.act(action_types.Click(centre(handset, "field:text")))
    handset.act(action_types.Type("hello"))
    handset.act(action_types.PressEnter())
    assert handset.state()["data"]["messages"]["texts"][-1]["text"] == "hello"
    handset.act(action_types.Launch(url="vesper://clock"))
    perform(handset, [("tap", "tab:timer"), ("tap", "timer:+60"), ("tap", "timer:start")])
    handset.act(action_types.Wait())
    assert handset.state()["data"]["clock"]["timer"] == {"total": 60, "left": 58, "running": True}


def test_what_a_phone_has_not_is_refused_by_name(handset: PhoneWorld) -> None:
    for action in (
        action_types.Hover((1, 1)),
        action_types.DoubleClick((1, 1)),
        action_types.Hotkey(("a",)),
        action_types.Launch(url="https://example.org"),
    ):
        with pytest.raises(UnsupportedAction, match="Hover|DoubleClick|Hotkey|example.org"):
            handset.act(action)
    before = handset.state()
    handset.act(action_types.Finished("done"))
    handset.act(action_types.CallUser("the answer"))
    assert handset.state() == before and handset.answer == "the answer"


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ({}, "expected a start"),
        ({"seed": -1}, "seed of 0 or more"),
        ({"seed": 0, "nonsense": 1}, "nonsense"),
        ({"snapshot": {"data": {}}}, "ui is missing"),
        ({"seed": 0, "open": "vesper://bank"}, "no app"),
        ({"seed": 0, "open": "vesper://shop/product?id=p0"}, "no product p0"),
        ({"seed": 0, "extras": [["contacts.nobody", {}]]}, "contacts.nobody"),
    ],
)
def test_a_bad_start_says_what_is_wrong(handset: PhoneWorld, start: dict[str, object], says: str) -> None:
    with pytest.raises(WorldError, match=says):
        handset.reset(start)


def test_every_element_has_a_key_and_what_is_clickable_can_be_hit(handset: PhoneWorld) -> None:
    for app in APPS:
        handset.reset({"seed": 9, "open": f"vesper://{app}"})
        elements = handset.elements()
        keys = [p.key for p in elements]
        assert all(keys) and len(keys) == len(set(keys)) > 5
        for element in elements:
            if element.clickable:
                assert element.name, element
                hit = handset.page.evaluate(
                    "([x, y]) => document.elementFromPoint(x, y).closest('[data-k]').dataset.k",
                    list(handset.pixel(element.centre)),
                )
                assert hit == element.key
