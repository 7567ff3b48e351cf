"""OmniACT: scripts over one screenshot, in pixels of that screenshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unified import unify
from webnative import png, real, write


def row(root: Path, script: str, *, split: str = "train", image: bytes | None = None, **changes: Any) -> Path:
    """One made-up row on a 200x100 screen."""
    write(root / "data/desktop/app/task_1.txt", f"Task: Do it\nOutput Script:\n{script}")
    if image is not None:
        write(root / "data/desktop/app/screen1.png", image)
    paths = {name: f"data/desktop/app/{name}_1.json" for name in ("ocr", "color", "icon", "box")}
    native = {"task": "data/desktop/app/task_1.txt", "image": "data/desktop/app/screen1.png", **paths, **changes}
    write(root / f"{split}.json", {"0": native})
    return root


def test_the_real_rows(tmp_path: Path) -> None:
    extracted = json.loads(real("omniact", "sample_raw.json").read_text())
    root, native = tmp_path / "raw", {}
    for number, record in enumerate(extracted):
        box = record["box"]
        boxes = {
            label: {"top_left": tl, "bottom_right": br, "label": label, "valid": 1}
            for tl, br, label in zip(box["top_left"], box["bottom_right"], box["label"], strict=True)
        }
        boxes["gone"] = {"top_left": [1280, 110], "bottom_right": [1290, 120], "label": "gone", "valid": 0}
        write(root / f"data/data/web/asics/task_{number}.txt", record["task"])
        write(root / "data/data/web/asics/boxes1.json", boxes)
        # the rows say screen_1, the file is screen1
        native[record["id"].removeprefix("train_")] = {
            "task": f"data/web/asics/task_{number}.txt",
            "image": "data/web/asics/screen_1.png",
            "box": "data/web/asics/boxes_1.json",
            "ocr": "ocr.json",
            "color": "color.json",
            "icon": "icon.json",
        }
    write(root / "data/data/web/asics/screen1.png", png(1440, 900))
    write(root / "train.json", native)
    run = unify(tmp_path / "home", "omniact", root)
    # 1288.5 / 1440 · 1000 = 894.79 → 895; 116 / 900 · 1000 = 128.89 → 129 (others truncate to 894, 128)
    assert run.actions == ["Click(box=(895,129))"] * 3
    assert [row["instruction"] for row in run.steps] == [
        r["task"].split("\n")[0].removeprefix("Task: ") for r in extracted
    ]
    assert [row["episode_id"] for row in run.steps] == ["train_0", "train_1", "train_2"]
    assert {row["platform"] for row in run.steps} == {"web"}
    # shopping_cart_button: 1277..1300 of 1440 → 886.8..902.8, 106..126 of 900 → 117.8..140
    assert [round(side, 1) for side in run.steps[0]["target_box"]] == [886.8, 117.8, 902.8, 140.0]
    assert len(run.screens) == 1 and len(run.screens[0]["elements"]) == 38
    assert "shopping cart button" in {element["name"] for element in run.screens[0]["elements"]}
    assert run.items == (3, 3, 0)


def test_a_script_of_many_lines_shares_its_screen(tmp_path: Path) -> None:
    script = (
        "pyautogui.moveTo(20, 10)\npyautogui.dragTo(100,50)\npyautogui.scroll(-10)\n"
        "pyautogui.rightClick(20,10)\npyautogui.press('enter')\npyautogui.hotkey('ctrl','s')"
    )
    run = unify(tmp_path / "home", "omniact", row(tmp_path / "raw", script, split="test", image=png(200, 100)))
    assert run.actions == [
        "Drag(start=(100,100), end=(500,500))",  # 20/200, 10/100; 100/200, 50/100
        "Scroll(direction='down')",
        "PressEnter()",
        "Hotkey(keys=['ctrl','s'])",
    ]
    assert {row["split"] for row in run.steps} == {"test"} and {row["platform"] for row in run.steps} == {"desktop"}
    assert len({row["screenshot_sha256"] for row in run.steps}) == 1
    assert "shared_screenshot" not in run.provenance(0).get("rules", [])
    assert "shared_screenshot" in run.provenance(1)["rules"]
    assert run.provenance(2)["gap_at"] == 2
    assert run.items == (5, 4, 1) and run.reasons == {"no_counterpart": 1}


def test_without_the_picture_the_frame_is_unknown(tmp_path: Path) -> None:
    script = "pyautogui.click(20, 10)\npyautogui.press('a')"
    for name, image in (("none", None), ("bad", b"no picture")):
        root = row(tmp_path / name, script, image=image)
        root = _with_good_row(root)
        run = unify(tmp_path / f"home-{name}", "omniact", root)
        assert run.items == (5, 3, 2) and run.reasons == {"bad_frame": 2}


def _with_good_row(root: Path) -> Path:
    """A second row with three actions, so that the asset isn't all quarantine."""
    rows = json.loads((root / "train.json").read_text())
    write(
        root / "good.txt", "Task: Go\nOutput Script:\npyautogui.press('a')\npyautogui.press('b')\npyautogui.press('c')"
    )
    write(root / "good.png", png(20, 10))
    write(root / "train.json", {**rows, "1": {**rows["0"], "task": "good.txt", "image": "good.png"}})
    return root


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    script = (
        "pyautogui.click(20, 10)\npyautogui.click(20, 300)\npyautogui.click()\npyautogui.dragTo(1, 1)\n"
        "pyautogui.locate('x')\npyautogui.click(1\n pyautogui.click(40, 20)\npyautogui.press('a')\n"
        "pyautogui.press('b')\npyautogui.press('c')\npyautogui.write('x')"
    )
    root = row(tmp_path / "raw", script, image=png(200, 100), colour="x")
    write(root / "data/desktop/app/box_1.json", '{"a": {"top_left": [1, 2]}}')
    run = unify(tmp_path / "home", "omniact", root)
    assert run.items == (11, 6, 5)
    assert run.reasons == {
        "off_screen": 1,
        "missing_field": 2,
        "unknown_action:pyautogui.locate": 1,
        "bad_value": 1,
        "unknown_field:colour": 1,
        "bad_elements": 1,
    }
    assert run.actions[:2] == ["Click(box=(100,100))", "Click(box=(200,200))"]


def test_whole_rows_that_cannot_be_read(tmp_path: Path) -> None:
    root = _with_good_row(row(tmp_path / "raw", "pyautogui.press('a')", image=png(200, 100)))
    good = json.loads((root / "train.json").read_text())["1"]
    write(root / "noscript.txt", "Task: Go nowhere")
    write(
        root / "train.json",
        {
            "1": good,
            "2": {**good, "task": "noscript.txt"},
            "3": {**good, "image": "../../out.png"},
            "4": {name: good[name] for name in good if name != "task"},
        },
    )
    write(tmp_path / "out.png", png(20, 10))
    write(root / "val.json", "{broken")
    run = unify(tmp_path / "home", "omniact", root)
    assert run.reasons == {"bad_value": 1, "unsafe_path": 3, "missing_field": 1, "bad_json": 1}
    assert run.items == (8, 3, 5)  # the row with the unsafe image takes its 3 actions along
