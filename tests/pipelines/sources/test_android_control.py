"""AndroidControl: real episodes written back into GZIP TFRecord, every action checked by hand; damage is named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tfrecords import android_control_features, png, small_episode, write_examples
from unified import Unified, unify

from pipelines.sources.android_control import DESCRIPTOR

FILE = "android_control-00000-of-00020"


def run(tmp_path: Path, *episodes: Any) -> Unified:
    write_examples(tmp_path / "raw" / FILE, episodes)
    result = unify(tmp_path / "home", "android_control", tmp_path / "raw")
    assert result.balanced()
    return result


@pytest.fixture(scope="module")
def real(samples_dir, tmp_path_factory) -> Unified:
    """Episode 0 with its trees, episodes 20 and 40 without."""
    folder = samples_dir("android_control")
    with_trees = json.loads((folder / "adp_sample_raw_ep0.json").read_text())
    without_trees = json.loads((folder / "adp_sample_raw_all_without_trees.json").read_text())
    assert without_trees[0]["episode_id"] == with_trees[0]["episode_id"] == 0
    episodes = [*with_trees, *without_trees[1:]]
    return run(tmp_path_factory.mktemp("ac"), *(android_control_features(episode) for episode in episodes))


@pytest.mark.slow
def test_real_episodes_map_to_hand_checked_actions(real: Unified) -> None:
    # all screens are 1080x2400, so x / 1.08 and y / 2.4, rounded half up:
    #   (540, 390) -> 500.00, 162.50 -> (500, 163)
    #   (110, 506) -> 101.85, 210.83 -> (102, 211)
    #   (978, 411) -> 905.56, 171.25 -> (906, 171)
    # raw scroll "down" names the content, as ours does: no inversion, and no points
    rows: dict[str, list[str]] = {}
    for row in real.steps:
        rows.setdefault(row["episode_id"], []).append(row["action_text"])
    finish = "Finished(content='')"
    assert rows == {
        "0": ["Launch(app='Zoho Meeting')", "Wait()", "Click(box=(500,163))", finish],
        "20": ["PressBack()", "Click(box=(102,211))", "Click(box=(906,171))", "Scroll(direction='down')", finish],
        "40": ["Scroll(direction='down')", finish],
    }
    assert real.manifest.counts["items_in"] == 3 + 4 + 1  # the synthesised Finished is no native item
    assert real.quarantine == []


def test_real_step_instructions_and_native_actions_are_kept(real: Unified) -> None:
    steps = [row for row in real.steps if row["episode_id"] == "0"]
    assert [row["step_instruction"] for row in steps] == [
        "Open the Zoho Meet app",
        "Open the Zoho Meet app",
        "Go to the Past section",
        None,
    ]
    assert json.loads(steps[2]["native_action"]) == {"action_type": "click", "x": 540, "y": 390}
    assert steps[3]["native_action"] == "null"
    assert json.loads(steps[3]["provenance"])["rules"] == ["finish_synthesised"]
    assert {row["instruction"] for row in steps} == {"Open the Zoho Meet app , view the scheduled meetings ."}


def test_real_tree_gives_elements_and_the_smallest_one_is_the_target(real: Unified) -> None:
    click = [row for row in real.steps if row["episode_id"] == "0"][2]
    # (540, 390) px lies in the tab "Past" (360,317)-(720,464) and in its text (494,365)-(586,416), the smaller:
    #   494/1.08 = 457.41, 365/2.4 = 152.08, 586/1.08 = 542.59, 416/2.4 = 173.33
    assert click["target_box"] == pytest.approx([457.41, 152.08, 542.59, 173.33], abs=0.01)
    elements = {row["screenshot_sha256"]: row["elements"] for row in real.screens}[click["screenshot_sha256"]]
    assert len(elements) == 18  # of 18 decoded nodes, all visible and labelled
    past = [element for element in elements if element["name"] == "Past"]
    assert [(element["role"], element["text"]) for element in past] == [("LinearLayout", "")]
    # 360/1.08 = 333.33, 317/2.4 = 132.08, 720/1.08 = 666.67, 464/2.4 = 193.33
    assert past[0]["box"] == pytest.approx([333.33, 132.08, 666.67, 193.33], abs=0.01)
    upcoming = [element for element in elements if element["name"] == "Cerebra Research"]
    assert upcoming[0]["text"] == "Cerebra Research"


# UI-R1's rows in their order: x / 1.08 and y / 2.4, rounded half up. The file states no sizes; 1080x2400 is this
# test's assumption for writing the rows back (the usual size; no coordinate exceeds it).
UI_R1 = {
    140: [
        "Launch(app='PocketBook')",
        "Click(box=(951,87))",  # 1027 -> 950.93, 209 -> 87.08
        "Click(box=(781,96))",  # 843 -> 780.56, 231 -> 96.25
        "Click(box=(722,359))",  # 780 -> 722.22, 861 -> 358.75
        "Click(box=(698,359))",  # 754 -> 698.15, 861 -> 358.75
        "Click(box=(50,219))",  # 54 -> 50.00, 525 -> 218.75
        "Type(content='natalie.larson1998@gmail.com')",
        "Click(box=(824,91))",  # 890 -> 824.07, 218 -> 90.83
    ],
    662: [
        "Launch(app='Artsy')",
        "Click(box=(309,945))",  # 334 -> 309.26, 2268 -> 945.00
        r"Type(content='Leonardo Da Vinci Mona lisa\'s painting')",
        "Click(box=(920,904))",  # 994 -> 920.37, 2169 -> 903.75
        "Click(box=(560,322))",  # 605 -> 560.19, 772 -> 321.67
    ],
    803: [
        "Click(box=(107,91))",  # 116 -> 107.41, 219 -> 91.25
        "Click(box=(191,273))",  # 206 -> 190.74, 655 -> 272.92
        "Click(box=(915,867))",  # 988 -> 914.81, 2080 -> 866.67
        "Click(box=(557,822))",  # 602 -> 557.41, 1972 -> 821.67
    ],
    943: [
        "Launch(app='Etsy')",
        "Click(box=(578,83))",  # 624 -> 577.78, 200 -> 83.33
        "Click(box=(519,254))",  # 561 -> 519.44, 609 -> 253.75
    ],
    1364: ["PressBack()"],
    1464: ["Launch(app='CNN')", *["Scroll(direction='down')"] * 6],
    1624: ["Launch(app='Amazon')", "Type(content='Sofa')"],
    2405: ["Type(content='Travel Africa')"],
    3128: ["Type(content='Amazon Sale')"],
    3770: ["PressBack()", "PressBack()"],
}


def test_real_ui_r1_rows_map_to_hand_checked_actions(samples_dir, tmp_path: Path) -> None:
    rows = json.loads((samples_dir("android_control") / "ui_r1_ac_test_subset.json").read_text())
    assert len(rows) == sum(len(actions) for actions in UI_R1.values()) == 34
    grouped: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(int(re.match(r"episode_(\d+)-", row["image"])[1]), []).append(row)  # type: ignore[index]
    episodes = [
        {
            "episode_id": [episode],
            "goal": ["(not in the file)"],
            "actions": [json.dumps(row["gt"]) for row in listed],
            "step_instructions": [row["task"] for row in listed],
            "screenshot_widths": [1080] * (len(listed) + 1),
            "screenshot_heights": [2400] * (len(listed) + 1),
        }
        for episode, listed in grouped.items()
    ]
    result = run(tmp_path, *episodes)
    found: dict[int, list[str]] = {}
    for step in result.steps:
        if json.loads(step["provenance"]).get("rules") != ["finish_synthesised"]:
            found.setdefault(int(step["episode_id"]), []).append(step["action_text"])
    assert found == UI_R1
    assert result.manifest.counts["items_in"] == result.manifest.counts["items_mapped"] == 34
    assert result.manifest.counts["images_missing"] == 34 + len(UI_R1)  # the pictures aren't in the file


def test_real_split_list_keeps_test_episodes_from_training(samples_dir, tmp_path: Path) -> None:
    splits = (samples_dir("android_control") / "splits.head50.json").read_text()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "splits.json").write_text(splits)
    lists = json.loads(splits)
    expected = {str(lists[name][0]): name for name in ("train", "validation", "test")}
    result = run(tmp_path, *(small_episode([{"action_type": "wait"}], episode_id=[int(name)]) for name in expected))
    assert {row["episode_id"]: row["split"] for row in result.steps} == expected


@pytest.mark.parametrize(
    ("native", "expected"),
    [
        # screens of 100x200 px: x * 10, y * 5
        ({"action_type": "long_press", "x": 33, "y": 77}, ["LongPress(box=(330,385))"]),
        ({"action_type": "click", "x": 100, "y": 200}, ["Click(box=(1000,1000))"]),
        ({"action_type": "click", "x": -0.05, "y": 0}, ["Click(box=(0,0))"]),  # half a unit outside: clamped
        ({"action_type": "scroll", "direction": "left"}, ["Scroll(direction='left')"]),
        ({"action_type": "scroll", "direction": "right"}, ["Scroll(direction='right')"]),
        ({"action_type": "scroll", "direction": "up"}, ["Scroll(direction='up')"]),
        ({"action_type": "navigate_home"}, ["PressHome()"]),
        ({"action_type": "input_text", "text": "日本\n"}, [r"Type(content='日本\n')"]),
        (
            {"action_type": "type", "x": 50, "y": 50, "text": "hi"},
            ["Click(box=(500,250))", "Type(content='hi')", "PressEnter()"],
        ),
    ],
)
def test_every_word_maps(tmp_path: Path, native: dict[str, Any], expected: list[str]) -> None:
    result = run(tmp_path, small_episode([native]))
    assert result.actions == [*expected, "Finished(content='')"]
    assert result.manifest.counts["items_in"] == 1


def test_the_older_type_form_is_reported_as_lossy(tmp_path: Path) -> None:
    result = run(tmp_path, small_episode([{"action_type": "type", "x": 50, "y": 50, "text": "hi"}]))
    assert result.manifest.counts["losses"] == {"type": {"lossy": 1}}
    assert "older_type_form" in json.loads(result.steps[0]["provenance"])["rules"]
    assert len({row["screenshot_sha256"] for row in result.steps[:3]}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ({"action_type": "double_tap", "x": 1, "y": 1}, "unknown_action:double_tap"),
        ({"action_type": "w" * 90}, "unknown_action:" + "w" * 60),
        ({"action_type": "click", "x": 5, "y": 5, "button": "right"}, "unknown_field:button"),
        ({"x": 5, "y": 5}, "missing_field"),
        ({"action_type": "click", "x": 5}, "missing_field"),
        ({"action_type": "click", "x": 101, "y": 5}, "off_screen"),
        ({"action_type": "click", "x": "5", "y": 5}, "bad_value"),
        ({"action_type": "click", "x": True, "y": 5}, "bad_value"),
        ({"action_type": "scroll", "direction": "forward"}, "bad_value"),
        ({"action_type": "scroll", "direction": ["up"]}, "bad_value"),
        ({"action_type": "input_text", "text": ""}, "empty_text"),
        ({"action_type": "input_text", "text": "\ud800"}, "bad_value"),
        ({"action_type": "open_app", "app_name": ""}, "empty_text"),
        (b'{"action_type": "wait"', "bad_json"),
        (b"\xff\xfe", "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b"[]", "bad_value"),
    ],
)
def test_a_bad_action_is_quarantined_alone_and_leaves_a_gap(tmp_path: Path, native: Any, reason: str) -> None:
    result = run(tmp_path, small_episode([{"action_type": "wait"}, native, {"action_type": "navigate_back"}]))
    assert result.actions == ["Wait()", "PressBack()", "Finished(content='')"]
    assert [json.loads(row["provenance"]).get("gap_at") for row in result.steps] == [None, 1, None]
    (row,) = result.quarantine
    assert (row["reason"], row["items"], row["unit"]) == (reason, 1, "item")
    assert json.loads(row["native"])["native_index"] == 1


def test_a_broken_picture_is_reported_and_its_row_kept(tmp_path: Path) -> None:
    pictures = [b"not a picture", png(100, 200)[:-60], b""]
    actions = [{"action_type": "click", "x": 50, "y": 50}, {"action_type": "wait"}]
    result = run(tmp_path, small_episode(actions, screenshots=pictures))
    assert result.actions == ["Click(box=(500,250))", "Wait()", "Finished(content='')"]
    assert [row["screenshot_sha256"] for row in result.steps] == [None] * 3
    assert [(row["width_px"], row["height_px"]) for row in result.steps] == [(100, 200)] * 3
    assert sorted((row["unit"], row["reason"], row["items"]) for row in result.quarantine) == [
        ("image", "image_truncated", 0),
        ("image", "image_unreadable", 0),
    ]
    assert json.loads(result.steps[2]["provenance"])["image_missing"] == "image_missing"


def test_pixels_without_a_frame_are_quarantined(tmp_path: Path) -> None:
    bare = small_episode(
        [{"action_type": "click", "x": 50, "y": 50}, {"action_type": "wait"}],
        screenshots=None,
        screenshot_widths=None,
        screenshot_heights=None,
    )
    result = run(tmp_path, bare)
    assert result.actions == ["Wait()", "Finished(content='')"]
    assert result.reasons == {"bad_frame": 1}


def test_the_pictures_own_size_serves_where_none_is_stated(tmp_path: Path) -> None:
    episode = small_episode(
        [{"action_type": "click", "x": 50, "y": 50}], screenshot_widths=None, screenshot_heights=None
    )
    assert run(tmp_path, episode).actions[0] == "Click(box=(500,250))"


def test_a_turned_picture_is_a_bad_frame(tmp_path: Path) -> None:
    actions = [{"action_type": "click", "x": 50, "y": 50}, {"action_type": "wait"}]
    result = run(tmp_path, small_episode(actions, screenshots=[png(200, 100), png(100, 200), png(100, 200)]))
    assert result.actions == ["Wait()", "Finished(content='')"]
    assert [row["reason"] for row in result.quarantine] == ["bad_frame"]
    assert "stated 100x200 px, picture 200x100" in result.quarantine[0]["detail"]


def test_lists_that_do_not_fit_quarantine_the_episode_whole(tmp_path: Path) -> None:
    actions = [{"action_type": "wait"}] * 3
    good = small_episode([{"action_type": "wait"}], episode_id=[8])
    result = run(tmp_path, small_episode(actions, screenshots=[png(100, 200)] * 3), good)
    assert [(row["reason"], row["items"], row["unit"]) for row in result.quarantine] == [("bad_value", 3, "record")]
    assert "3 screenshots for 3 actions: expected 4" in result.quarantine[0]["detail"]
    assert result.manifest.counts["items_in"] == 4


@pytest.mark.parametrize("name", ["goal", "episode_id", "actions"])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    good = small_episode([{"action_type": "wait"}] * 3, episode_id=[8])
    result = run(tmp_path, small_episode([{"action_type": "wait"}] * 2, **{name: None}), good)
    (row,) = result.quarantine
    assert row["reason"] == "missing_field" and repr(name) in row["detail"]
    assert row["items"] == (0 if name == "actions" else 2)


def test_a_broken_tree_costs_the_elements_only(tmp_path: Path) -> None:
    episode = small_episode([{"action_type": "click", "x": 50, "y": 50}], accessibility_trees=[b"\x0a\x05abc", b""])
    result = run(tmp_path, episode)
    assert result.actions[0] == "Click(box=(500,250))" and result.steps[0]["target_box"] is None
    assert result.reasons == {"bad_tree": 1}


def test_an_unseen_feature_is_named_and_its_episode_kept(tmp_path: Path) -> None:
    result = run(tmp_path, small_episode([{"action_type": "wait"}], app_version=[3]))
    assert len(result.steps) == 2 and result.reasons == {"unknown_field:app_version": 1}


def test_truncated_file_and_bad_checksum_cost_only_their_episodes(tmp_path: Path) -> None:
    episodes = [small_episode([{"action_type": "wait"}], episode_id=[k]) for k in range(3)]
    path = write_examples(tmp_path / "raw" / FILE, episodes, compress=False)
    data = bytearray(path.read_bytes())
    size = len(data) // 3
    data[size // 2] ^= 1  # in the first episode's payload
    path.write_bytes(data[:-5])  # the third episode's end is gone
    result = unify(tmp_path / "home", "android_control", tmp_path / "raw")
    assert result.balanced()
    assert {row["episode_id"] for row in result.steps} == {"1"}
    assert [(row["reason"], row["record"]) for row in result.quarantine] == [
        ("bad_crc", "record 0"),
        ("truncated_record", "record 2"),
    ]
    assert result.manifest.counts["records_in"] == 3 and result.manifest.counts["records_quarantined"] == 2


def test_a_repeated_episode_id_with_other_content_gets_its_own_id(tmp_path: Path) -> None:
    once, other = small_episode([{"action_type": "wait"}]), small_episode([{"action_type": "navigate_home"}])
    result = run(tmp_path, once, other, once)
    ids = {row["episode_id"] for row in result.steps}
    assert len(ids) == 2 and "7" in ids and any(re.fullmatch(r"7#[0-9a-f]{8}", name) for name in ids)
    assert [row["reason"] for row in result.quarantine] == ["duplicate"]


def test_loss_table_names_every_counted_word(real: Unified) -> None:
    assert set(real.manifest.counts["losses"]) <= {loss.native for loss in DESCRIPTOR.loss}
