"""The desktop harvester: expressions fit one element, and what a press doesn't reach is dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.devices.desktop import accessibility_tree as tree
from generators.harvesting import desktop
from generators.harvesting.desktop_elements import DesktopElement, elements_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.session import DesktopMissing, open_desktop

SIZE = (400, 300)
HIDDEN = -(1 << 31)


def item(path: str, role: str, name: str, box: list[int], **more: Any) -> dict[str, Any]:
    return {
        "path": path,
        "role": role,
        "name": name,
        "text": "",
        "box": box,
        "states": ["SENSITIVE"],
        "actions": 1,
        "label": "",
        **more,
    }


def raw(*items: dict[str, Any], role: str = "frame") -> dict[str, Any]:
    top = item("p:0", role, "Options", [0, 0, 400, 300])
    return {"windows": [{"app": "p", "title": "Options", "active": True, "items": [top, *items]}]}


def said(*items: dict[str, Any], role: str = "frame") -> dict[str, tuple[str, ...]]:
    return {element.key: element.expressions for element in elements_of(raw(*items, role=role), SIZE)}


def test_expressions_name_an_element_its_role_and_where_it_is() -> None:
    found = said(
        item("p:0.0", "page tab", "Fonts", [0, 0, 50, 20]),
        item("p:0.0.0", "push button", "Size", [0, 30, 50, 20]),
        item("p:0.1", "push button", "Size ", [0, 60, 50, 20]),
        item("p:0.2", "label", "Size", [0, 90, 50, 20]),
        item("p:0.3", "spin button", "", [60, 90, 50, 20], label="Zoom:"),
        role="dialog",
    )
    assert found["p:0.0.0"] == ('the "Size" button on the "Fonts" tab',)
    assert "p:0.1" not in found or not set(found["p:0.1"]) & {"Size", 'the "Size" button'}
    assert found["p:0.2"][0] == 'the "Size" label'
    assert found["p:0.3"][0] == 'the number field labelled "Zoom"'


def test_what_an_open_menu_half_covers_is_left_out() -> None:
    menu = [item("p:0.0", "menu", "File", [0, 0, 40, 20]), item("p:0.0.0", "menu item", "Open", [0, 20, 100, 20])]
    beside = [
        item("p:0.1", "push button", "Half", [60, 20, 80, 20]),
        item("p:0.2", "push button", "Edge", [90, 20, 80, 20]),
    ]
    assert set(said(*menu, *beside)) == {"p:0.0", "p:0.0.0", "p:0.2"}
    assert "p:0.1" in said(menu[0], *beside)


def test_hidden_tiny_and_unspeakable_items_are_left_out() -> None:
    assert not said(
        item("p:0.0", "push button", "A", [HIDDEN, HIDDEN, 40, 20]),
        item("p:0.1", "push button", "B", [0, 0, 3, 20]),
        item("p:0.2", "panel", "C", [0, 0, 90, 20]),
        item("p:0.3", "push button", "D" * 200, [0, 0, 90, 20]),
        item("p:0.4", "push button", "", [0, 0, 90, 20]),
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["push button", "label", "menu item"]), st.sampled_from("ABC"), st.integers(0, 9)),
        max_size=12,
    )
)
def test_no_expression_fits_two_elements(drawn: list[tuple[str, str, int]]) -> None:
    found = said(
        *(item(f"p:0.{i}", role, name, [30 * row, 20 * i, 20, 15]) for i, (role, name, row) in enumerate(drawn))
    )
    every = [phrase.casefold() for phrases in found.values() for phrase in phrases]
    assert len(every) == len(set(every)) and all(found.values())


def test_a_press_confirms_only_what_it_reached() -> None:
    one = DesktopElement("p:0.1", (0, 0, 9, 9), "push button", "A", "A", "w")
    focused = "object:state-changed:focused"

    def found(hit: str, *events: list[str], same: bool = True) -> str:
        return desktop.verdict(one, {"hit": hit, "events": list(events), "same_window": same, "how": "press"})

    assert found("p:0.1", [focused, "p:0.1"]) == found("", [focused, "p:0.1.0"]) == "focus"
    assert found("p:0.1") == found("p:0.1.4") == found("p:0.1", [focused, "p:0"]) == "hit"
    assert found("p:0.11") == found("p:0") == found("p:0.1", [focused, "p:0.2"]) == found("p:0.1", same=False) == ""


def test_only_what_opens_something_is_clicked() -> None:
    names = [
        ("menu", "File"),
        ("menu item", "Open..."),
        ("menu item", "Quit"),
        ("push button", "Delete"),
        ("page tab", "Fonts"),
        ("menu item", "Delete All"),
        ("menu", ""),
    ]
    elements = [DesktopElement(f"p:{i}", (0, 0, 9, 9), role, name, name, "w") for i, (role, name) in enumerate(names)]
    assert desktop.openers(elements, ()) == [("menu", "File"), ("menu item", "Open..."), ("page tab", "Fonts")]
    assert desktop.openers(elements, (("menu", "File"),)) == [("menu item", "Open...")]


def test_what_a_screen_is_said_not_to_have_is_nowhere_on_it() -> None:
    rows = [{"elements": [{"role": "push button", "name": name} for name in ("Save as", "Print...", "Copy")]}]
    assert sorted(desktop.absent_names(rows, ["please PRINT", "x"], 9)) == ["Copy", "Save as"]


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(ValueError, match="expected an empty folder"):
        desktop.harvest_desktop(tmp_path)
    with pytest.raises(ValueError, match=r"unknown programs \['doom'\]; known are calculator"):
        desktop.harvest_desktop(tmp_path, ["doom"])


@pytest.fixture(scope="module")
def world() -> Iterator[DesktopWorld]:
    try:
        with open_desktop((1024, 768)) as endpoint, DesktopWorld(endpoint) as opened:
            yield opened
    except DesktopMissing as missing:
        pytest.skip(str(missing))


def test_a_real_program_is_harvested_and_every_element_confirmed(world: DesktopWorld, tmp_path: Path) -> None:
    harvester = desktop.DesktopHarvester(world, tmp_path)
    assert harvester.harvest("calculator", desktop.PROGRAMS["calculator"], max_screens=2) == 2
    report = harvester.report
    assert report.distinct >= 30 and report.by_focus >= 20 and report.confirmed_share >= 0.98
    rows = [json.loads(line) for line in (tmp_path / "screens.jsonl").read_text().splitlines()]
    assert rows[1]["route"] == [["menu", "File"]] and all((tmp_path / row["screenshot"]).exists() for row in rows)
    assert 'the "Quit" menu item in the "File" menu' in rows[1]["elements"][1]["expressions"]


def test_an_element_that_is_said_to_be_elsewhere_is_not_confirmed(world: DesktopWorld) -> None:
    world.reset(desktop.PROGRAMS["calculator"])
    elements = elements_of(world.script(tree.SCRIPT), world.size_px)
    seven, two = (next(e for e in elements if e.name == name) for name in "72")
    points = [{"path": seven.key, "x": at.centre[0], "y": at.centre[1], "how": "press"} for at in (two, seven)]
    points.append({"path": "gone:0.0", "x": 5, "y": 5, "how": "press"})
    found = world.script(desktop.CHECK, {"points": points, "away": [1022, 766]})["found"]
    assert [desktop.verdict(seven, one) for one in found] == ["", "focus", ""]
