"""UIBert RefExp: forty real expressions verbatim, every answer checked by hand; damage is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tfrecords import png, without, write_examples
from unified import Unified, unify

from pipelines.mapping.items import ItemError
from pipelines.native import rico, tf_example
from pipelines.prompts import prompt_text
from schemas.ids import digest

# Rico id, index of the target, its raw box times 1000, and the answer: the box's centre rounded half up
# (the exact centre stands behind each line).
CHECKED = [
    ("18177", 10, (38.89, 462.50, 961.11, 528.12), "[500,495]"),  # 500.00, 495.31
    ("24028", 12, (10.19, 180.73, 990.74, 522.40), "[500,352]"),  # 500.46, 351.56
    ("27177", 11, (874.07, 804.17, 975.93, 858.33), "[925,831]"),  # 925.00, 831.25
    ("48898", 18, (864.81, 186.46, 961.11, 240.62), "[913,214]"),  # 912.96, 213.54
    ("4456", 15, (514.81, 33.33, 624.07, 101.04), "[569,67]"),  # 569.44, 67.19
    ("30025", 7, (22.22, 122.92, 977.78, 368.75), "[500,246]"),  # 500.00, 245.83
    ("62483", 3, (302.78, 717.19, 419.44, 782.81), "[361,750]"),  # 361.11, 750.00
    ("38412", 29, (919.44, 564.58, 987.96, 602.60), "[954,584]"),  # 953.70, 583.59
    ("19452", 6, (90.74, 209.90, 176.85, 246.35), "[134,228]"),  # 133.80, 228.12
    ("62817", 9, (291.67, 402.08, 975.93, 463.54), "[634,433]"),  # 633.80, 432.81
    ("58406", 8, (512.04, 183.85, 975.93, 401.04), "[744,292]"),  # 743.98, 292.45
    ("50284", 8, (863.89, 32.81, 1000.00, 98.44), "[932,66]"),  # 931.94, 65.63
    ("67631", 0, (19.44, 41.15, 116.67, 95.83), "[68,68]"),  # 68.06, 68.49
    ("64738", 4, (29.63, 555.21, 90.74, 588.02), "[60,572]"),  # 60.19, 571.61
    ("72112", 12, (37.04, 592.71, 159.26, 661.46), "[98,627]"),  # 98.15, 627.08
    ("40594", 4, (331.48, 201.04, 452.78, 269.79), "[392,235]"),  # 392.13, 235.42
    ("4693", 1, (883.33, 38.54, 1000.00, 104.17), "[942,71]"),  # 941.67, 71.35
    ("63891", 7, (800.00, 858.33, 1000.00, 934.37), "[900,896]"),  # 900.00, 896.35
    ("21131", 0, (890.74, 625.00, 1000.00, 686.98), "[945,656]"),  # 945.37, 655.99
    ("42796", 59, (528.70, 732.29, 630.56, 759.37), "[580,746]"),  # 579.63, 745.83
    ("27756", 0, (790.74, 559.37, 903.70, 621.87), "[847,591]"),  # 847.22, 590.62
    ("68178", 9, (883.33, 38.54, 1000.00, 104.17), "[942,71]"),  # 941.67, 71.35
    ("3905", 3, (457.41, 869.79, 541.67, 907.81), "[500,889]"),  # 499.54, 888.80
    ("16416", 5, (98.15, 126.56, 157.41, 157.29), "[128,142]"),  # 127.78, 141.93
    ("5661", 3, (863.89, 32.81, 1000.00, 98.44), "[932,66]"),  # 931.94, 65.63
    ("23129", 0, (41.67, 671.35, 958.33, 934.37), "[500,803]"),  # 500.00, 802.86
    ("3971", 3, (77.78, 443.23, 922.22, 497.40), "[500,470]"),  # 500.00, 470.31
    ("6886", 22, (43.52, 147.92, 85.19, 166.67), "[64,157]"),  # 64.35, 157.29
    ("1263", 12, (336.11, 333.85, 662.96, 497.92), "[500,416]"),  # 499.54, 415.89
    ("32247", 16, (697.22, 161.98, 961.11, 197.40), "[829,180]"),  # 829.17, 179.69
    ("12910", 4, (660.19, 876.04, 975.93, 929.17), "[818,903]"),  # 818.06, 902.60
    ("49371", 1, (839.81, 584.38, 917.59, 628.13), "[879,606]"),  # 878.70, 606.25
    ("51547", 9, (510.19, 463.54, 1000.00, 732.29), "[755,598]"),  # 755.09, 597.92
    ("56155", 0, (907.41, 49.48, 985.19, 93.23), "[946,71]"),  # 946.30, 71.35
    ("58670", 10, (155.56, 693.23, 248.15, 764.06), "[202,729]"),  # 201.85, 728.65
    ("63336", 2, (34.26, 32.81, 95.37, 88.54), "[65,61]"),  # 64.81, 60.68
    ("7967", 13, (4.63, 299.48, 328.70, 481.77), "[167,391]"),  # 166.67, 390.62
    ("2645", 15, (766.67, 38.54, 883.33, 104.17), "[825,71]"),  # 825.00, 71.35
    ("25492", 13, (883.33, 38.54, 1000.00, 104.17), "[942,71]"),  # 941.67, 71.35
    ("34227", 19, (669.44, 857.81, 727.78, 904.17), "[699,881]"),  # 698.61, 880.99
]


def in_file_order(result: Unified) -> list[dict[str, Any]]:
    return sorted(result.samples, key=lambda row: int(json.loads(row["provenance"])["locator"].split()[1]))


def question(row: dict[str, Any]) -> str:
    return prompt_text(row["messages"])


def row(**changes: Any) -> dict[str, list[Any]]:
    """A made-up record with two objects and one view."""
    plain: dict[str, Any] = {
        "image/id": ["12"],
        "image/ref_exp/text": ["click on the bell"],
        "image/ref_exp/label": [1],
        "image/object/num": [2.0],
        "image/object/bbox/xmin": [0.0, 0.25],
        "image/object/bbox/ymin": [0.0, 0.5],
        "image/object/bbox/xmax": [0.5, 0.75],
        "image/object/bbox/ymax": [0.5, 0.75],
        "image/view_hierarchy/bbox/xmin": [0.25],
        "image/view_hierarchy/bbox/ymin": [0.5],
        "image/view_hierarchy/bbox/xmax": [0.75],
        "image/view_hierarchy/bbox/ymax": [0.75],
        "image/view_hierarchy/class/name": ["ICON"],
        "image/view_hierarchy/class/label": [3],
        "image/view_hierarchy/text": [""],
        "image/view_hierarchy/description": ["bell"],
        "image/view_hierarchy/id/name": ["bell_button"],
    }
    return without(plain | {name.replace("__", "/"): value for name, value in changes.items()})


def run(tmp_path: Path, *rows: Any, file: str = "train.tfrecord", **companions: Path) -> Unified:
    write_examples(tmp_path / "raw" / file, rows, compress=False)
    result = unify(tmp_path / "home", "ui_refexp", tmp_path / "raw", **companions)
    assert result.balanced()
    return result


@pytest.fixture(scope="module")
def real(samples_dir, tmp_path_factory) -> Unified:
    result = unify(tmp_path_factory.mktemp("refexp"), "ui_refexp", samples_dir("ui_refexp"))
    assert result.balanced()
    return result


def test_real_answers_are_the_hand_checked_centres(real: Unified) -> None:
    samples = in_file_order(real)
    assert [sample["answer"] for sample in samples] == [answer for *_, answer in CHECKED]
    for sample, (_, _, box, _) in zip(samples, CHECKED, strict=True):
        assert sample["target_boxes"] == [pytest.approx(box, abs=0.006)]


def test_real_questions_leave_the_verb_out_and_keep_the_words_in_provenance(real: Unified) -> None:
    samples = in_file_order(real)
    assert question(samples[0]) == "Where is option below 50?"  # click on option below 50
    assert question(samples[2]) == "Where is the button?"  # click the  button (two blanks)
    assert question(samples[22]) == "Where is pause?"  # pause: no verb to leave out
    assert question(samples[16]) == "Where is icon right to the header text?"
    rules = json.loads(samples[2]["provenance"])["rules"]
    assert rules == ["centre_of_box", "verb left out of: click the  button"]


def test_real_rows_without_the_companion_are_kept_without_picture(real: Unified) -> None:
    counts = real.manifest.counts
    assert (counts["items_in"], counts["items_mapped"], counts["items_quarantined"]) == (40, 40, 0)
    assert counts["images_missing"] == 40 and real.quarantine == []
    assert {json.loads(sample["provenance"])["image_missing"] for sample in real.samples} == {"image_missing"}
    assert {sample["split"] for sample in real.samples} == {"validation"}  # dev_head40
    assert {tuple(sample["images"]) for sample in real.samples} == {()}


def test_the_companion_gives_picture_and_elements(tmp_path: Path) -> None:
    rico = tmp_path / "rico" / "combined"
    rico.mkdir(parents=True)
    (rico / "12.jpg").write_bytes(png(60, 100))
    result = run(tmp_path, row(), row(image__ref_exp__text=["the left bell"]), rico=tmp_path / "rico")
    assert [len(sample["images"]) for sample in result.samples] == [1, 1]
    (screen,) = result.screens  # two expressions, one picture
    assert screen["elements"] == [{"box": [250.0, 500.0, 750.0, 750.0], "role": "ICON", "text": "", "name": "bell"}]
    # centre of (0.25, 0.5, 0.75, 0.75): 500, 625
    assert [sample["answer"] for sample in result.samples] == ["[500,625]", "[500,625]"]


def test_a_companion_picture_that_is_none_is_reported(tmp_path: Path) -> None:
    rico = tmp_path / "rico" / "combined"
    rico.mkdir(parents=True)
    (rico / "12.jpg").write_bytes(b"<html>404</html>")
    result = run(tmp_path, row(), rico=tmp_path / "rico")
    assert len(result.samples) == 1 and result.samples[0]["images"] == []
    assert [(row["unit"], row["reason"], row["items"]) for row in result.quarantine] == [
        ("image", "image_unreadable:web_page", 0)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"image__id": None}, "missing_field"),
        ({"image__ref_exp__text": None}, "missing_field"),
        ({"image__ref_exp__label": None}, "missing_field"),
        ({"image__ref_exp__text": ["  "]}, "empty_text"),
        ({"image__ref_exp__text": [b"\xff"]}, "bad_value"),
        ({"image__ref_exp__label": [2]}, "bad_value"),
        ({"image__ref_exp__label": [-1]}, "bad_value"),
        ({"image__ref_exp__label": [0.5]}, "bad_value"),
        ({"image__object__num": [3.5]}, "bad_value"),
        ({"image__object__bbox__xmin": [0.1]}, "bad_value"),
        ({"image__object__bbox__xmax": [0.5, 0.25]}, "bad_box"),  # no width
        ({"image__object__bbox__xmax": [0.5, 0.2]}, "bad_box"),  # sides swapped
        ({"image__object__bbox__xmin": [0.0, 1.2], "image__object__bbox__xmax": [0.5, 1.4]}, "off_screen"),
        ({"image__object__bbox__xmin": [0.0, float("nan")]}, "bad_box"),
        ({"image__id": ["../../etc/passwd"]}, "unsafe_path"),
    ],
)
def test_a_bad_record_is_quarantined_with_its_words(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    result = run(tmp_path, row(), row(**changes))
    assert len(result.samples) == 1
    (bad,) = result.quarantine
    assert (bad["reason"], bad["items"], bad["unit"], bad["record"]) == (reason, 1, "record", "record 1")
    assert "image/ref_exp" in bad["native"]


def test_a_target_that_hangs_over_a_little_is_cut_off_and_more_is_refused(tmp_path: Path) -> None:
    little, more = ({"image__object__bbox__xmax": [0.5, side]} for side in (1.015625, 1.03125))
    result = run(tmp_path, row(**little), row(**more))
    (sample,) = result.samples
    assert sample["target_boxes"] == [[250, 500, 1000, 750]] and sample["answer"] == "[625,625]"
    assert "cut_at_border" in json.loads(sample["provenance"])["rules"]
    assert [bad["reason"] for bad in result.quarantine] == ["off_screen"]
    assert rico.canvas_box([1430, 0, 1440 + 28, 256], "element") == (1430 / 1.44, 0, 1000, 100)
    with pytest.raises(ItemError, match="hangs over"):
        rico.canvas_box([1430, 0, 1440 + 29, 256], "element")


def test_an_unseen_feature_is_named_and_the_row_kept(tmp_path: Path) -> None:
    result = run(tmp_path, row(image__ref_exp__language=["fr"]))
    assert len(result.samples) == 1 and result.reasons == {"unknown_field:image/ref_exp/language": 1}


def test_broken_view_lists_cost_the_elements_only(tmp_path: Path) -> None:
    result = run(tmp_path, row(image__view_hierarchy__text=["a", "b"]))
    assert len(result.samples) == 1 and result.reasons == {"bad_elements": 1}


def test_the_id_of_a_row_is_the_digest_of_its_features(tmp_path: Path) -> None:
    (sample,) = run(tmp_path, row()).samples
    assert json.loads(sample["provenance"])["record"] == digest(tf_example.parse(tf_example.serialise(row())))


def test_an_exact_repeat_is_a_duplicate(tmp_path: Path) -> None:
    result = run(tmp_path, row(), row())
    assert len(result.samples) == 1 and result.reasons == {"duplicate": 1}


@pytest.mark.parametrize(
    ("file", "split"), [("train.tfrecord", "train"), ("dev.tfrecord", "validation"), ("test.tfrecord", "test")]
)
def test_split_is_the_files_name(tmp_path: Path, file: str, split: str) -> None:
    assert {sample["split"] for sample in run(tmp_path, row(), file=file).samples} == {split}


def test_truncated_real_file_loses_one_record_and_says_which(samples_dir, tmp_path: Path) -> None:
    data = (samples_dir("ui_refexp") / "dev_head40.tfrecord").read_bytes()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "dev.tfrecord").write_bytes(data[:-1])
    result = unify(tmp_path / "home", "ui_refexp", tmp_path / "raw")
    assert result.balanced() and len(result.samples) == 39
    assert [(row["reason"], row["record"], row["items"]) for row in result.quarantine] == [
        ("truncated_record", "record 39", 1)
    ]


def test_bad_checksum_loses_one_record_only(samples_dir, tmp_path: Path) -> None:
    data = bytearray((samples_dir("ui_refexp") / "dev_head40.tfrecord").read_bytes())
    data[200] ^= 0x10  # within record 0
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "dev.tfrecord").write_bytes(data)
    result = unify(tmp_path / "home", "ui_refexp", tmp_path / "raw")
    assert result.balanced() and len(result.samples) == 39
    assert [(row["reason"], row["record"]) for row in result.quarantine] == [("bad_crc", "record 0")]
