"""MiniWoB++ demonstrations: browser events → gestures → actions, every gesture counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unified import Unified, unify
from webnative import box, demo, key, press, real, write

BUTTON = "click-button_33CUSNVVNO68X37D7FA716UMSP988L_d1.json.gz"
TEXT = "enter-text-dynamic_39N5ACM9HFHTH0P4YOIWNOKN15RP9B_d1.json.gz"
SCROLL = "click-scroll-list_38F5OAUN5O6XQ03N0EC70JRQKOTH7M_d1.json.gz"


def run_demo(tmp_path: Path, record: Any, name: str = "third-turk/task/task_w_d1.json.gz") -> Unified:
    write(tmp_path / "raw" / name, record)
    return unify(tmp_path / "home", "miniwob_demos", tmp_path / "raw")


@pytest.mark.parametrize(
    ("name", "task", "expected", "target"),
    [
        # 84/160 = 525, 62/210 = 295.24; ok: 69.875..99.958 of 160, 52..73.333 of 210
        (BUTTON, "click-button", ["Click(box=(525,295))"], [436.7, 247.6, 624.7, 349.2]),
        # 58/160 = 362.5 → 363, 74/210 = 352.38; Shift + F is "F"; 66/160 = 412.5 → 413, 113/210 = 538.1
        (
            TEXT,
            "enter-text-dynamic",
            ["Click(box=(363,352))", "Type(content='F')", "Click(box=(413,538))"],
            [68.8, 281.0, 843.8, 382.5],
        ),
        # 40/160, 129/210 = 614.29; 48/160, 167/210 = 795.24; Bunny: 3..134 of 160, 126..143 of 210
        (SCROLL, "click-scroll-list", ["Click(box=(250,614))", "Click(box=(300,795))"], [18.8, 600.0, 837.5, 681.0]),
    ],
)
def test_the_real_demonstrations(
    tmp_path: Path, name: str, task: str, expected: list[str], target: list[float]
) -> None:
    run = run_demo(tmp_path, real("miniwob_demos", name).read_bytes(), name)
    assert run.actions == [*expected, "Finished(content='')"]
    assert [round(side, 1) for side in run.steps[0]["target_box"]] == target
    assert run.items == (len(expected), len(expected), 0) and run.reasons == {}
    assert {row["episode_outcome"] for row in run.steps} == {"success"}
    assert {(row["width_px"], row["height_px"], row["app"], row["platform"]) for row in run.steps} == {
        (160, 210, task, "web")
    }
    assert run.provenance(0)["image_missing"] == "image_missing"
    assert run.provenance(len(expected))["rules"] == ["finish_by_reward"]


def test_a_click_below_a_list_hits_the_button_not_the_hidden_option(tmp_path: Path) -> None:
    run = run_demo(tmp_path, real("miniwob_demos", SCROLL).read_bytes(), SCROLL)
    # (48,167) lies in the option "Georgeta" (160..177) that the list's lower edge 147 hides, and in Submit:
    # 2..97.5 of 160, 152..183 of 210
    assert [round(side, 1) for side in run.steps[1]["target_box"]] == [12.5, 723.8, 609.4, 871.4]


def test_gestures(tmp_path: Path) -> None:
    events = [
        *press(16, 21),
        *press(16, 21),
        {"type": "dblclick", "x": 16, "y": 21},  # a double click, of seven events
        *press(16, 21, (80, 105)),  # a drag
        {"type": "keydown", "keyCode": 16, "charCode": 0},
        *key(72, 72),
        {"type": "keyup", "keyCode": 16, "charCode": 0},
        *key(73, 105),
        *key(8),
        *key(9),
        *key(191, 39),
        *key(13, 13),
        {"type": "keydown", "keyCode": 17, "charCode": 0},
        *key(65),
        {"type": "keyup", "keyCode": 17, "charCode": 0},
        *press(17, 21, (18, 22)),  # displaced by less than 3 px: a click
    ]
    run = run_demo(tmp_path, demo(*events))
    assert run.actions == [
        "DoubleClick(box=(100,100))",
        "Drag(start=(100,100), end=(500,500))",  # 16/160, 21/210; 80/160, 105/210
        "Type(content='Hi')",
        "Hotkey(keys=['backspace'])",
        "Hotkey(keys=['tab'])",
        r"Type(content='\'')",
        "PressEnter()",
        "Hotkey(keys=['ctrl','a'])",
        "Click(box=(106,100))",
        "Finished(content='')",  # 17/160 = 106.25
    ]
    assert run.items == (9, 9, 0) and run.reasons == {}


def test_the_echo_of_an_event_is_not_read(tmp_path: Path) -> None:
    twice = [dict(event, timing=timing) for event in press(16, 21) for timing in (1, 3)]
    assert run_demo(tmp_path, demo(*twice)).items == (1, 1, 0)


@pytest.mark.parametrize(("moved", "expected"), [(-30, "down"), (30, "up"), (0, None)])
def test_a_scroll_gets_its_direction_from_what_moved(tmp_path: Path, moved: int, expected: str | None) -> None:
    def tree(top: float) -> dict[str, Any]:
        return box("BODY", 0, 0, 500, 210, box("DIV", 0, 0, 100, 50, box("P", 0, top, 90, 20, ref=2), ref=1), ref=0)

    doms = [tree(0), tree(moved / 2), tree(moved), tree(moved)]
    run = run_demo(tmp_path, demo({"type": "scroll"}, {"type": "scroll"}, *press(16, 21), doms=doms))
    if expected:
        assert run.actions[0] == f"Scroll(direction='{expected}')" and run.items == (2, 2, 0)
        assert run.provenance(0)["lossy"] is True
    else:
        assert run.items == (2, 1, 1) and run.reasons == {"no_counterpart": 1}
        assert run.quarantine[0]["detail"] == "scroll_direction_unknown" and run.provenance(0)["gap_at"] == 0


def test_a_failed_demonstration_has_no_finish(tmp_path: Path) -> None:
    run = run_demo(tmp_path, demo(*press(16, 21), rawReward=-1))
    assert run.actions == ["Click(box=(100,100))"] and run.steps[0]["episode_outcome"] == "failure"


def test_flight_tasks_have_a_frame_of_their_own(tmp_path: Path) -> None:
    run = run_demo(tmp_path, demo(*press(75, 667 / 2)), "2017-12-16_alaska/flight.Alaska/flight.Alaska_w_d1.json")
    assert run.actions[0] == "Click(box=(200,500))"  # 75/375, half of 667
    assert (run.steps[0]["width_px"], run.steps[0]["height_px"], run.steps[0]["app"]) == (375, 667, "flight.Alaska")


def test_a_linked_copy_is_a_duplicate(tmp_path: Path) -> None:
    first = write(tmp_path / "raw/third-turk/task/task_w_d1.json.gz", demo(*press(16, 21)))
    link = tmp_path / "raw/fourth-turk/task/task_w_d1.json.gz"
    link.parent.mkdir(parents=True)
    link.symlink_to(first)
    run = unify(tmp_path / "home", "miniwob_demos", tmp_path / "raw")
    assert run.items == (2, 1, 1) and run.reasons == {"duplicate": 1}


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    events = [
        *press(16, 21),
        *press(16, 300),
        {"type": "pinch"},
        {"type": "mouseup", "x": 1, "y": 1},
        {"type": "mousedown"},
        {"type": "mouseup"},
        *key(250),
        *press(100, 21),
        *press(60, 60),
        *press(1, 1),
        *press(30, 1),
        *press(60, 1),
    ]
    root = tmp_path / "raw/b/task"
    write(root / "task_a_d1.json", demo(*events, colour=1))
    write(root / "task_b_d1.json.gz", b"\x1f\x8b\x08 cut")
    write(root / "task_c_d1.json", "{")
    write(root / "task_d_d1.json", demo(states=[]))
    write(root / "task_e_d1.json", {**demo(*press(16, 21)), "utterance": " "})
    write(root / "task_f_d1.json", json.dumps([1]))
    run = unify(tmp_path / "home", "miniwob_demos", tmp_path / "raw")
    # task_a: 6 clicks, and 5 that can't be: off the screen, pinch, a lone mouseup, a press without a place, key 250
    assert run.items == (12, 6, 6)
    assert run.reasons == {
        "off_screen": 1,
        "unknown_action:pinch": 1,
        "missing_field": 4,
        "bad_value": 1,
        "unknown_field:colour": 1,
        "truncated_record": 1,
        "bad_json": 1,
        "empty_text": 1,
    }
