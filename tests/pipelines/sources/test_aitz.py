"""Android in the Zoo: the real episode verbatim, every action checked by hand; broken JSON is named."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from tfrecords import png
from unified import Unified, unify

from pipelines.sources.aitz import DESCRIPTOR

EPISODE = "train/general/GENERAL-77/GENERAL-77.json"


def step(number: int = 0, length: int = 1, code: int = 6, **changes: Any) -> dict[str, Any]:
    """A made-up step whose picture is 20×40 px."""
    plain = {
        "episode_id": "77",
        "episode_length": length,
        "step_id": number,
        "instruction": "Open the clock",
        "ui_positions": "[[4, 2, 8, 10]]",
        "ui_text": '["Clock"]',
        "ui_types": '["TEXT"]',
        "result_action_type": code,
        "result_action_text": "",
        "result_touch_yx": "[-1.0, -1.0]",
        "result_lift_yx": "[-1.0, -1.0]",
        "image_path": f"general/GENERAL-77/GENERAL-77_{number}.png",
        "image_full_path": f"android-in-the-wild/aitw_with_gpt/train/general/GENERAL-77/GENERAL-77_{number}.png",
        "coat_screen_desc": "A screen.",
        "coat_action_think": "Think.",
        "coat_action_desc": "press home",
        "coat_action_result": "Done.",
    }
    return {name: value for name, value in (plain | changes).items() if value is not None}


def run(tmp_path: Path, steps: Any, file: str = EPISODE) -> Unified:
    path = tmp_path / "raw" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(steps if isinstance(steps, str) else json.dumps(steps))
    for number in range(4):
        (path.parent / f"{path.stem}_{number}.png").write_bytes(png(20, 40, number))
    result = unify(tmp_path / "home", "aitz", tmp_path / "raw")
    assert result.balanced()
    return result


@pytest.fixture(scope="module")
def real(samples_dir, tmp_path_factory) -> Unified:
    result = unify(tmp_path_factory.mktemp("aitz"), "aitz", samples_dir("aitz"))
    assert result.balanced()
    return result


def test_real_steps_map_to_hand_checked_actions(real: Unified) -> None:
    # step 0: code 6. step 1: code 4, (y, x) touch (0.541064, 0.507375), lift (0.001116, 0.578854):
    #   distance sqrt(0.539948^2 + 0.071479^2) = 0.5447 > 0.04: a swipe; x 507.37 -> 507, y 541.06 -> 541;
    #   lift x 578.85 -> 579, y 1.12 -> 1; the finger goes up by 540 units, so the view goes down
    # step 2: code 4, touch (0.498362, 0.606977), lift (0.496698, 0.606977): distance 0.0017, a tap;
    #   x 606.98 -> 607, y 498.36 -> 498. step 3: code 10
    assert math.dist((0.541064, 0.507375), (0.001116, 0.578854)) == pytest.approx(0.5447, abs=1e-4)
    assert real.actions == [
        "PressHome()",
        "Scroll(start=(507,541), end=(579,1), direction='down')",
        "Click(box=(607,498))",
        "Finished(content='')",
    ]
    assert {row["episode_id"] for row in real.steps} == {"523638528775825151"}
    assert {row["instruction"] for row in real.steps} == {'open app "Clock" (install if not already installed)'}
    assert {(row["width_px"], row["height_px"]) for row in real.steps} == {(270, 600)}
    assert {row["episode_outcome"] for row in real.steps} == {"success"}
    assert {row["split"] for row in real.steps} == {"train"}  # from image_full_path: the sample has no folders
    assert real.quarantine == [] and real.manifest.counts["items_in"] == 4


def test_real_words_are_kept_verbatim_even_where_they_name_the_finger(real: Unified) -> None:
    swipe = real.steps[1]
    assert swipe["step_instruction"] == "scroll up"  # the finger's way; the action says down
    assert swipe["thought"].startswith('Since the "Clock" app is not among the visible icons')
    assert swipe["conclusion"].startswith("By doing so, the screen now displays a list of applications")
    assert "coat_screen_desc" in json.loads(swipe["native_action"])


def test_real_nested_strings_become_elements(real: Unified) -> None:
    counts = {screen["screenshot_sha256"]: len(screen["elements"]) for screen in real.screens}
    assert [counts[row["screenshot_sha256"]] for row in real.steps] == [15, 14, 42, 11]  # boxes in each step's list
    by_sha = {screen["screenshot_sha256"]: screen for screen in real.screens}
    first = by_sha[real.steps[0]["screenshot_sha256"]]["elements"]
    # third of step 0: [y 82, x 37, h 10, w 46] px of 270x600 -> left 37/0.27 = 137.04, top 82/0.6 = 136.67,
    #   right 83/0.27 = 307.41, bottom 92/0.6 = 153.33
    assert (first[2]["role"], first[2]["text"]) == ("text", "up email")
    assert first[2]["box"] == pytest.approx([137.04, 136.67, 307.41, 153.33], abs=0.01)
    assert first[3]["name"] == "google icon"


def test_real_click_hits_no_annotated_element(real: Unified) -> None:
    # (607, 498) is (163.9, 299.0) px; the nearest, [283, 218, 20, 10], starts at x = 218: nothing is invented
    assert real.steps[2]["target_box"] is None


def test_the_smallest_element_under_the_point_is_the_target(tmp_path: Path) -> None:
    boxes = "[[0, 0, 40, 20], [4, 2, 8, 10], [30, 2, 8, 10]]"
    tap = step(
        code=4,
        result_touch_yx="[0.2, 0.3]",
        result_lift_yx="[0.2, 0.3]",
        ui_positions=boxes,
        ui_text='["", "Clock", "x"]',
        ui_types='["TEXT", "TEXT", "TEXT"]',
    )
    result = run(tmp_path, [tap])
    assert result.actions == ["Click(box=(300,200))"]
    # y 4..12 of 40, x 2..12 of 20
    assert result.steps[0]["target_box"] == pytest.approx([100, 100, 600, 300])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": 8}, "unknown_action:8"),
        ({"code": 3}, "empty_text"),
        ({"code": 3, "result_action_text": "\ud800"}, "bad_value"),
        ({"code": 4}, "off_screen"),
        ({"code": 4, "result_touch_yx": "[1.2, 0.5]", "result_lift_yx": "[0.2, 0.5]"}, "off_screen"),
        ({"code": 4, "result_touch_yx": "0.5, 0.5"}, "bad_value"),
        ({"result_touch_yx": [0.5, 0.5]}, "bad_value"),
        ({"result_action_type": None}, "missing_field"),
        ({"result_touch_yx": None}, "missing_field"),
        ({"result_action_text": None}, "missing_field"),
        ({"result_action_type": "6"}, "bad_value"),
        ({"step_id": None}, "missing_field"),
        ({"step_id": 0}, "duplicate"),
        ({"coat_action_think": ["a"]}, "bad_value"),
        ({"image_path": "../../../../../etc/passwd"}, "unsafe_path"),
    ],
)
def test_a_bad_step_is_quarantined_alone(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    code = changes.get("code", 6)
    bad = step(1, 3, code, **{name: value for name, value in changes.items() if name != "code"})
    result = run(tmp_path, [step(0, 3), bad, step(2, 3, 10)])
    assert result.actions == ["PressHome()", "Finished(content='')"]
    (row,) = [row for row in result.quarantine if row["items"]]
    assert (row["unit"], row["items"], row["reason"]) == ("item", 1, reason)
    assert result.manifest.counts["items_in"] == 3
    assert json.loads(result.steps[1]["provenance"])["gap_at"] == 1 or "step_id" in changes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('[{"episode_id": "77", ', "bad_json"),
        ("[" * 100_000, "bad_json"),
        ('{"episode_id": "77"}', "bad_value"),
        ("[]", "bad_value"),
        ("[1]", "bad_value"),
    ],
)
def test_a_file_that_is_no_list_of_steps_is_quarantined(tmp_path: Path, content: str, reason: str) -> None:
    run(tmp_path, [step()], file="train/general/GENERAL-1/GENERAL-1.json")
    result = run(tmp_path, content)
    assert [(row["reason"], row["file"]) for row in result.quarantine] == [(reason, EPISODE)]
    assert len(result.steps) == 1


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([step(0, 2), step(1, 2, instruction=None)], "missing_field"),
        ([step(0, 2), step(1, 2, instruction="Another")], "bad_value"),
        ([step(0, 2, instruction=" "), step(1, 2, instruction=" ")], "empty_text"),
        ([step(0, 2), step(1, 2, episode_id="78")], "bad_value"),
    ],
)
def test_steps_of_no_one_episode_are_quarantined_together(tmp_path: Path, steps: list, reason: str) -> None:
    result = run(tmp_path, steps)
    assert [(row["reason"], row["items"]) for row in result.quarantine] == [(reason, 2)]


def test_a_bad_or_missing_picture_costs_the_picture_only(tmp_path: Path) -> None:
    first = run(tmp_path, [step(0, 3), step(1, 3), step(2, 3, 10)])
    folder = (tmp_path / "raw" / EPISODE).parent
    (folder / "GENERAL-77_0.png").write_bytes(b"GIF89a but not really")
    (folder / "GENERAL-77_1.png").unlink()
    result = unify(tmp_path / "home", "aitz", tmp_path / "raw")
    assert result.balanced() and result.actions == first.actions
    assert [row["screenshot_sha256"] is None for row in result.steps] == [True, True, False]
    assert [(row["unit"], row["reason"]) for row in result.quarantine] == [("image", "image_unreadable")]
    assert json.loads(result.steps[1]["provenance"])["image_missing"] == "image_missing"


def test_broken_nested_strings_cost_the_elements_only(tmp_path: Path) -> None:
    result = run(tmp_path, [step(0, 2, ui_text="[not json"), step(1, 2, 10, ui_positions="[[1, 2, 3]]")])
    assert result.reasons == {"bad_elements": 2}
    assert len(result.steps) == 2 and all(screen["elements"] == [] for screen in result.screens)


def test_missing_steps_are_a_named_gap(tmp_path: Path) -> None:
    result = run(tmp_path, [step(2, 3, 10), step(0, 3)])
    assert result.actions == ["PressHome()", "Finished(content='')"]
    provenance = json.loads(result.steps[1]["provenance"])
    assert provenance["gap_at"] == 1 and provenance["rules"] == ["missing_steps 1..1"]
    assert result.reasons == {"missing_steps": 1}


def test_an_unseen_field_is_named_and_the_step_kept(tmp_path: Path) -> None:
    result = run(tmp_path, [step(result_duration=3)])
    assert result.actions == ["PressHome()"] and result.reasons == {"unknown_field:result_duration": 1}


@pytest.mark.parametrize(
    ("folder", "stated", "split"),
    [("train", "train", "train"), ("test", "test", "test"), ("train", "test", "test"), ("test", "train", "test")],
)
def test_split_is_test_if_folder_or_path_says_so(tmp_path: Path, folder: str, stated: str, split: str) -> None:
    row = step(image_full_path=f"android-in-the-wild/aitw_with_gpt/{stated}/general/x.png")
    result = run(tmp_path, [row], file=EPISODE.replace("train", folder))
    assert {row["split"] for row in result.steps} == {split}


def test_pictures_are_found_in_the_official_layout_too(samples_dir, tmp_path: Path) -> None:
    source = samples_dir("aitz")
    folder = tmp_path / "raw/test/google_apps/GOOGLE_APPS-523638528775825151"
    shutil.copytree(source, folder)
    result = unify(tmp_path / "home", "aitz", tmp_path / "raw")
    assert result.manifest.counts["images"] == 4 and {row["split"] for row in result.steps} == {"test"}


def test_loss_table_names_every_counted_word(real: Unified) -> None:
    assert set(real.manifest.counts["losses"]) <= {loss.native for loss in DESCRIPTOR.loss}
