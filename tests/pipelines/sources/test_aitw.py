"""Android in the Wild: real steps written back into GZIP TFRecord, every action checked by hand; damage is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tfrecords import aitw_features, gradient, small_aitw, without, write_examples
from unified import Unified, unify

from pipelines.mapping.items import SplitListError
from pipelines.native import aitw_native, aitw_parquet, tf_example, tfrecord
from pipelines.sources.aitw import DESCRIPTOR
from pipelines.store import Store
from pipelines.store.images import encode_png

FILE = "general/general-00000-of-00001"


def run(tmp_path: Path, *steps: Any, compress: bool = True) -> Unified:
    write_examples(tmp_path / "raw" / FILE, steps, compress=compress)
    result = unify(tmp_path / "home", "aitw", tmp_path / "raw")
    assert result.balanced()
    return result


@pytest.fixture(scope="module")
def real(samples_dir, tmp_path_factory) -> Unified:
    steps = json.loads((samples_dir("aitw") / "adp_sample_raw.json").read_text())
    return run(tmp_path_factory.mktemp("aitw"), *(aitw_features(step) for step in steps))


def test_real_steps_map_to_hand_checked_actions(real: Unified) -> None:
    # touch == lift in all three, so distance 0 <= 0.04: taps. (y, x) of the raw rows, swapped and times 1000:
    #   step 0: (0.77614707, 0.70892334) -> x 708.92 -> 709, y 776.15 -> 776
    #   step 1: (0.71909881, 0.41538757) -> x 415.39 -> 415, y 719.10 -> 719
    #   step 2: (0.71837747, 0.77883685) -> x 778.84 -> 779, y 718.38 -> 718
    assert real.actions == ["Click(box=(709,776))", "Click(box=(415,719))", "Click(box=(779,718))"]
    assert {row["episode_id"] for row in real.steps} == {"12172380859428428757"}
    assert {row["instruction"] for row in real.steps} == {"Open a new Chrome private window"}
    assert {row["app"] for row in real.steps} == {"com.android.chrome"}
    assert {(row["width_px"], row["height_px"]) for row in real.steps} == {(540, 1080)}
    assert {row["episode_outcome"] for row in real.steps} == {None}  # the end of the episode isn't in the sample


def test_real_target_box_is_the_smallest_element_under_the_point(real: Unified) -> None:
    # step 1 hits "Accept & continue": y 0.71296, x 0.39630, h 0.01204, w 0.20741
    #   -> left 396.30, top 712.96, right 396.30 + 207.41 = 603.70, bottom 712.96 + 12.04 = 725.00
    # step 0 lies between the dock icons; step 2 lies 1 unit above "Yes," (top 719.44): no element holds the point.
    assert real.steps[0]["target_box"] is None and real.steps[2]["target_box"] is None
    assert real.steps[1]["target_box"] == pytest.approx([396.30, 712.96, 603.70, 725.00], abs=0.01)


def test_real_elements_and_pixels_are_kept(real: Unified) -> None:
    assert sorted(len(screen["elements"]) for screen in real.screens) == [11, 21, 29]
    expected = encode_png(gradient(540, 1080, 0))  # what stands in for the redacted pixels of step 0
    first = {screen["screenshot_sha256"]: screen for screen in real.screens}[real.steps[0]["screenshot_sha256"]]
    assert Store(home_of(real)).screen_bytes(first["screenshot_sha256"]) == expected
    # fourth element: y 0.75463, x 0.09815, h 0.03611, w 0.04259 -> bottom 790.74, right 140.74
    assert first["elements"][3]["box"] == pytest.approx([98.15, 754.63, 140.74, 790.74], abs=0.01)
    named = [(element["role"], element["text"], element["name"]) for element in first["elements"][1:4]]
    assert named == [("text", "Fri,", "Fri,"), ("icon", "", "play icon"), ("icon", "", "call icon")]


def home_of(result: Unified) -> Path:
    return next(parent for parent in result.manifest.directory.parents if parent.name == "home")


def test_real_missing_steps_are_said(real: Unified) -> None:
    # the sample holds steps 0, 1, 2 of 9
    (row,) = real.quarantine
    assert (row["reason"], row["items"]) == ("missing_steps", 0)
    assert json.loads(row["native"]) == {"missing": [3, 4, 5, 6, 7, 8]}
    assert real.manifest.counts["items_in"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "changes", "expected"),
    [
        (3, {"results__type_action": ["it's\n5"]}, r"Type(content='it\'s\n5')"),
        (5, {}, "PressBack()"),
        (6, {}, "PressHome()"),
        (7, {}, "PressEnter()"),
        (10, {}, "Finished(content='')"),
        (11, {}, "Finished(content='')"),
        # 0.04 apart on one axis is still a tap (distance <= 0.04, up to float32: 0.53999996 - 0.5)
        (4, {"results__yx_touch": [0.5, 0.25], "results__yx_lift": [0.53999996, 0.25]}, "Click(box=(250,500))"),
        # sqrt(0.03^2 + 0.03^2) = 0.0424 > 0.04: a swipe; equal axes count as vertical, finger down = content up
        (
            4,
            {"results__yx_touch": [0.5, 0.25], "results__yx_lift": [0.53, 0.28]},
            "Scroll(start=(250,500), end=(280,530), direction='up')",
        ),
        # finger up = down
        (
            4,
            {"results__yx_touch": [0.8, 0.5], "results__yx_lift": [0.2, 0.5]},
            "Scroll(start=(500,800), end=(500,200), direction='down')",
        ),
        # finger left = right
        (
            4,
            {"results__yx_touch": [0.5, 0.9], "results__yx_lift": [0.5, 0.1]},
            "Scroll(start=(900,500), end=(100,500), direction='right')",
        ),
        # half a unit outside is rounding of the source and is clamped
        (4, {"results__yx_touch": [1.0005, 0.5], "results__yx_lift": [1.0005, 0.5]}, "Click(box=(500,1000))"),
    ],
)
def test_every_code_maps(tmp_path: Path, code: int, changes: dict[str, Any], expected: str) -> None:
    assert run(tmp_path, small_aitw(code=code, **changes)).actions == [expected]


@pytest.mark.parametrize(
    ("activities", "app"),
    [
        (["com.a/.x", "com.a/.y"], "com.a"),
        (["com.google.android.apps.nexuslauncher/.Home", "com.a/.x"], "com.a"),
        (["com.a/.x", "com.b"], None),
        (["com.android.launcher3/.Home", ""], None),
    ],
)
def test_the_app_is_that_of_all_steps_off_the_launcher(tmp_path: Path, activities: list[str], app: str | None) -> None:
    result = run(tmp_path, *(small_aitw(n, 2, current_activity=[said]) for n, said in enumerate(activities)))
    assert [row["app"] for row in result.steps] == [app, app]


def test_outcome_follows_the_status_codes(tmp_path: Path) -> None:
    result = run(
        tmp_path, small_aitw(code=10), small_aitw(code=11, episode_id=["78"]), small_aitw(code=6, episode_id=["79"])
    )
    assert [row["episode_outcome"] for row in result.steps] == ["success", "infeasible", None]
    assert json.loads(result.steps[1]["provenance"])["lossy"] is True
    assert result.manifest.counts["losses"]["STATUS_TASK_IMPOSSIBLE"] == {"lossy": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"code": 9}, "unknown_action:9"),
        ({"code": 3}, "empty_text"),
        ({"code": 4}, "off_screen"),  # touch and lift are (-1, -1)
        ({"code": 4, "results__yx_touch": [0.5, 1.002], "results__yx_lift": [0.5, 0.9]}, "off_screen"),
        ({"code": 4, "results__yx_touch": [0.5, float("nan")], "results__yx_lift": [0.5, 0.9]}, "off_screen"),
        ({"code": 4, "results__yx_touch": [0.5]}, "bad_value"),
        ({"results__action_type": None}, "missing_field"),
        ({"results__action_type": ["4"]}, "bad_value"),
        ({"code": 3, "results__type_action": [b"\xff\xfe"]}, "bad_value"),
        ({"goal_info": ["Something else"]}, "bad_value"),
        ({"step_id": [2]}, "duplicate"),  # of step 2, with another code
        ({"step_id": None}, "bad_value"),
        ({"step_id": [99]}, "bad_value"),
    ],
)
def test_a_bad_step_is_quarantined_alone_and_leaves_a_gap(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    named = {name: value for name, value in changes.items() if name != "step_id"}
    step = small_aitw(1, 3, **named)
    step = without(step | {"step_id": changes.get("step_id", [1])})
    result = run(tmp_path, small_aitw(0, 3), small_aitw(2, 3, code=10), step)
    assert result.actions == ["PressHome()", "Finished(content='')"]
    (row,) = [row for row in result.quarantine if row["items"]]
    assert row["reason"] == reason and row["unit"] == "item" and result.reasons[reason] == 1
    gaps = [json.loads(step["provenance"]).get("gap_at") for step in result.steps]
    assert gaps == [None, 1]  # step 1 is lost, whatever the reason


def test_steps_are_sorted_and_a_hole_is_a_named_gap(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(3, 4, code=10), small_aitw(0, 4, code=5))
    assert result.actions == ["PressBack()", "Finished(content='')"]
    first, second = (json.loads(row["provenance"]) for row in result.steps)
    assert "gap_at" not in first
    assert second["gap_at"] == 1 and second["rules"] == ["missing_steps 1..2"]
    assert result.reasons == {"missing_steps": 1}


def test_interleaved_episodes_are_told_apart(tmp_path: Path) -> None:
    a, b = {"episode_id": ["1"]}, {"episode_id": ["2"]}
    result = run(
        tmp_path,
        small_aitw(0, 2, **a),
        small_aitw(0, 2, **b),
        small_aitw(1, 2, code=10, **b),
        small_aitw(1, 2, code=10, **a),
    )
    assert [(row["episode_id"], row["step_index"], row["action_type"]) for row in result.steps] == [
        ("1", 0, "PressHome"),
        ("1", 1, "Finished"),
        ("2", 0, "PressHome"),
        ("2", 1, "Finished"),
    ]
    assert result.quarantine == []


def test_an_episode_that_stands_twice_is_a_duplicate(tmp_path: Path) -> None:
    once = [small_aitw(0, 2), small_aitw(1, 2, code=10)]
    other = [small_aitw(episode_id=["5"])]
    result = run(tmp_path, *once, *other, *once)
    assert len(result.steps) == 3
    assert [(row["reason"], row["items"]) for row in result.quarantine] == [("duplicate", 2)]


def test_an_episode_that_follows_its_own_copy_is_a_duplicate_too(tmp_path: Path) -> None:
    once = [small_aitw(0, 2), small_aitw(1, 2, code=10)]
    result = run(tmp_path, *once, *once)
    assert [(row["reason"], row["items"], row["unit"]) for row in result.quarantine] == [("duplicate", 2, "record")]
    assert len(result.steps) == 2


def test_a_step_that_stands_twice_is_a_duplicate_without_a_gap(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(0, 2), small_aitw(0, 2), small_aitw(1, 2, code=10))
    assert result.actions == ["PressHome()", "Finished(content='')"]
    assert [(row["reason"], row["items"], row["unit"]) for row in result.quarantine] == [("duplicate", 1, "item")]
    assert all("gap_at" not in json.loads(row["provenance"]) for row in result.steps)


def test_pixels_of_the_wrong_number_cost_the_picture_not_the_step(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(image__encoded=[b"abc"]), small_aitw(episode_id=["78"], image__encoded=None))
    assert result.actions == ["PressHome()", "PressHome()"]
    assert [row["screenshot_sha256"] for row in result.steps] == [None, None]
    assert [json.loads(row["provenance"])["image_missing"] for row in result.steps] == ["bad_frame", "image_missing"]
    assert [(row["width_px"], row["height_px"]) for row in result.steps] == [(None, None), (20, 40)]
    assert [(row["unit"], row["reason"], row["items"]) for row in result.quarantine] == [("image", "bad_frame", 0)]


def test_an_unseen_feature_is_named_and_its_step_kept(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(results__duration_ms=[250]))
    assert result.actions == ["PressHome()"]
    (row,) = result.quarantine
    assert (row["reason"], row["items"]) == ("unknown_field:results/duration_ms", 0)
    assert json.loads(row["native"]) == {"results/duration_ms": [[250]]}


def test_broken_annotations_cost_the_elements_only(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(image__ui_annotations_text=["a", "b"]))
    assert result.actions == ["PressHome()"] and result.screens[0]["elements"] == []
    assert result.reasons == {"bad_elements": 1}


def test_an_episode_without_goal_is_quarantined_with_all_its_steps(tmp_path: Path) -> None:
    result = run(tmp_path, *(small_aitw(k, 3, goal_info=None) for k in range(3)), small_aitw(episode_id=["78"]))
    assert [(row["reason"], row["items"]) for row in result.quarantine] == [("missing_field", 3)]
    assert result.manifest.counts["items_in"] == 4


def test_truncated_gzip_is_reported_and_what_was_whole_is_kept(tmp_path: Path) -> None:
    steps = [small_aitw(episode_id=[str(k)], image__encoded=[gradient(20, 40, k).tobytes()]) for k in range(4)]
    path = write_examples(tmp_path / "raw" / FILE, steps)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    result = unify(tmp_path / "home", "aitw", tmp_path / "raw")
    assert result.balanced()
    assert 1 <= len(result.steps) < 4
    (row,) = result.quarantine
    assert (row["reason"], row["items"], row["record"]) == ("truncated_record", 1, f"record {len(result.steps)}")
    assert "GZIP stream ends early" in row["detail"]


def test_bad_checksum_costs_one_step_and_the_gap_is_seen(tmp_path: Path) -> None:
    payloads = [tf_example.serialise(small_aitw(k, 3, code=(6, 5, 10)[k])) for k in range(3)]
    plain = bytearray(tfrecord.dumps(payloads, compress=False))
    plain[16 + len(payloads[0]) + 12 + 100] ^= 1
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "x.tfrecord").write_bytes(plain)
    result = unify(tmp_path / "home", "aitw", tmp_path / "raw")
    assert result.balanced() and result.manifest.counts["items_in"] == 3
    assert result.actions == ["PressHome()", "Finished(content='')"]
    assert json.loads(result.steps[1]["provenance"])["gap_at"] == 1
    assert result.reasons == {"bad_crc": 1, "missing_steps": 1}


def test_a_payload_that_is_no_example_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, small_aitw(), b"\x0a\x05abc", small_aitw(episode_id=None))
    assert result.reasons == {"bad_proto": 1, "missing_field": 1} and len(result.steps) == 1


def test_test_episodes_never_train(tmp_path: Path) -> None:
    lists = tmp_path / "raw" / "splits"
    lists.mkdir(parents=True)
    (lists / "standard.json").write_text(json.dumps({"train": ["1", "3"], "validation": ["2"], "test": ["3"]}))
    result = run(tmp_path, *(small_aitw(episode_id=[name]) for name in "1234"))
    assert {row["episode_id"]: row["split"] for row in result.steps} == {
        "1": "train",
        "2": "validation",
        "3": "test",
        "4": "train",
    }


def test_a_split_list_that_is_none_stops_the_run(tmp_path: Path) -> None:
    lists = tmp_path / "raw" / "splits"
    lists.mkdir(parents=True)
    (lists / "standard.json").write_text('{"tests": "1"}')
    with pytest.raises(SplitListError, match="found none of them"):
        run(tmp_path, small_aitw())


def test_loss_table_names_every_counted_word(real: Unified) -> None:
    assert set(real.manifest.counts["losses"]) <= {loss.native for loss in DESCRIPTOR.loss}


def test_a_second_run_does_no_work(tmp_path: Path) -> None:
    first = run(tmp_path, small_aitw())
    second = unify(tmp_path / "home", "aitw", tmp_path / "raw")
    assert second.manifest.data_version == first.manifest.data_version


@pytest.mark.slow
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("group_rows", [3, 100])
def test_a_parquet_re_pack_gives_the_rows_of_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: bool, group_rows: int
) -> None:
    monkeypatch.setattr(aitw_parquet, "BATCH_ROWS", 5)
    monkeypatch.setattr(aitw_parquet, "LARGE_GROUP", 2)
    kept = {"image/ui_annotations_positions", *aitw_native.WORDS, *aitw_native.POINTS}
    dual = {"results__yx_touch": [0.5, 0.25], "results__yx_lift": [0.5, 0.75]}
    steps = [
        *(small_aitw(k, 4, code, episode_id=["a"], **dual) for k, code in enumerate((4, 4, 6, 10))),
        *(small_aitw(k, 3, code, episode_id=["b"]) for k, code in enumerate((5, 9, 11))),  # an unknown code
        small_aitw(1, 2, 3, episode_id=["c"], results__type_action=["x"]),  # a hole before it
        *(small_aitw(k, 2, episode_id=["d"], goal_info=None) for k in range(2)),  # no goal
        small_aitw(episode_id=["e"], image__ui_annotations_text=["one", "too many"]),
        small_aitw(episode_id=["f"], image__encoded=None),
        *(small_aitw(k, 4, code, episode_id=["a"], **dual) for k, code in enumerate((4, 4, 6, 10))),  # again
    ]
    names = sorted(aitw_native.KNOWN)

    def cell(name: str, values: Any) -> Any:
        return values if lists or name in kept or values is None else values[0]

    rows = [{name: cell(name, step.get(name)) for name in names} for step in steps]
    (tmp_path / "pq").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pq/x.parquet", row_group_size=group_rows)
    write_examples(tmp_path / "tf/x.tfrecord", steps)
    found = [unify(tmp_path / f"home{name}", "aitw", tmp_path / name) for name in ("tf", "pq")]
    for result in found:
        assert result.balanced()
        for row in result.steps:
            row["provenance"] = {k: v for k, v in json.loads(row["provenance"]).items() if k not in ("file", "locator")}
    assert found[0].steps == found[1].steps and found[0].reasons == found[1].reasons
    assert found[0].items == found[1].items == (16, 9, 7)
    shown = [[screen["screenshot_sha256"] for screen in result.screens] for result in found]
    assert shown[0] == shown[1] and len(shown[0]) == 4  # one a step number: made-up pixels depend on nothing else


def test_a_parquet_file_that_is_cut_or_is_no_aitw_is_named(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table({"prompt": ["a", "b"]}), tmp_path / "raw/other.parquet")
    pq.write_table(pa.table({"episode_id": [1, 2]}), tmp_path / "raw/numbers.parquet")
    (tmp_path / "raw/cut.parquet").write_bytes(b"PAR1 and no more")
    result = unify(tmp_path / "home", "aitw", tmp_path / "raw")
    assert result.balanced() and result.steps == []
    assert result.reasons == {"unknown_schema": 2, "bad_value": 2, "truncated_record": 1}
