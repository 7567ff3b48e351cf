"""Fingerprints: every native row is an item or has a reason, nothing else is kept, and reruns do nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from suitemaker import SIZE, encode, episode, make_suite, page, sample, suite_row, train_on

from pipelines import prompts
from pipelines.mapping.adapter import Raw
from pipelines.store import Store, StoreError
from quality.contamination.fingerprints import build_fingerprints, subject, suite_names
from quality.contamination.split_fingerprints import build_split_fingerprints
from quality.contamination.text_prints import shingles, text_print, tokens, weight
from schemas.tables import Samples, Steps


def test_a_suite_becomes_fingerprints_and_nothing_that_trains(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    rows = [
        suite_row(1, "Open the “Mail” folder", [54, 96, 108, 192]),
        suite_row(1, "close", instruction_cn="关闭窗口"),
        suite_row(2, "turn to page 2"),
        {"id": "x", "bbox": [1, 2, 3, 4]},
    ]
    pictures = {1: encode(page(1)), 2: b"no picture"}
    manifest = make_suite(store, tmp_path / "raw", rows, pictures)
    assert manifest.checks_passed and manifest.asset == "fingerprints/screenspot_pro"
    items = {row["item_id"]: row for row in manifest.read("items").to_pylist()}
    assert sorted(items) == ["app_os/q1", "app_os/q1#2", "app_os/q1:zh", "app_os/q2"]
    first = items["app_os/q1"]
    assert first["words"] == "open the mail folder" and first["literals"] == ["mail"]
    assert first["box"] == pytest.approx([100, 100, 200, 200]) and first["scope"] == "target"
    assert items["app_os/q1:zh"]["words"] == "关闭窗口" and '"readable":false' in items["app_os/q1:zh"]["meaning"]
    assert items["app_os/q2"]["picture_sha256"] is None and items["app_os/q2"]["notes"] == ["image_unreadable"]
    counts = manifest.counts
    assert (counts["read"], counts["items"], counts["rejected"], counts["pictures"]) == (5, 4, 1, 1)
    assert counts["reasons"] == {"unknown_schema": 1, "image_unreadable": 1}
    [shown] = manifest.read("pictures").to_pylist()
    assert (shown["width_px"], shown["height_px"]) == SIZE
    [thumb] = manifest.read("thumbs").to_pylist()
    assert thumb["sha256"] == shown["sha256"] and max(Image.open(io.BytesIO(thumb["thumb"])).size) <= 480
    for schema in (Samples.schema, Steps.schema):
        assert not any(manifest.read(t).schema.equals(schema) for t in ("items", "pictures", "thumbs", "rejects"))
    assert not (store.home / "screens").exists()  # the pictures themselves are not kept


def test_an_unchanged_folder_does_no_work_and_a_changed_one_does(tmp_path: Path) -> None:
    store, folder = Store(tmp_path / "home"), tmp_path / "raw"
    first = make_suite(store, folder, [suite_row(1, "close the window")], {1: encode(page(1))})
    again = build_fingerprints(store, "screenspot_pro", Raw(folder))
    assert again == first
    other = make_suite(store, folder, [suite_row(1, "open the window")], {})
    assert other.version != first.version and other.data_version != first.data_version


def test_a_folder_of_nothing_but_bad_rows_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    manifest = make_suite(store, tmp_path / "raw", [{"question": "what?"}] * 3, {})
    assert not manifest.checks_passed and store.current("fingerprints/screenspot_pro") is None
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="found none"):
        build_fingerprints(store, "screenspot_pro", Raw(tmp_path / "empty"))
    with pytest.raises(ValueError, match="known are"):
        build_fingerprints(store, "nonesuch", Raw(tmp_path))


def test_a_suite_whose_file_ends_too_early_is_refused_and_the_file_named(tmp_path: Path) -> None:
    store, folder = Store(tmp_path / "home"), tmp_path / "raw"
    good = make_suite(store, folder, [suite_row(number, f"open window {number}") for number in range(6)], {})
    assert good.checks_passed
    path = folder / "annotations/app_os.json"
    path.write_bytes(path.read_bytes()[:-9])
    cut = build_fingerprints(store, "screenspot_pro", Raw(folder))
    failed = {check.name: check.found for check in cut.checks if not check.passed}
    assert failed["every file is read to its end"] == "annotations/app_os.json: truncated_record"
    assert cut.counts["items"] == 5 and store.require("fingerprints/screenspot_pro") == good


def test_the_test_split_of_a_source_is_a_suite(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    held = episode(
        store,
        "t1",
        "Order two tickets for the night train to Vienna",
        [encode(page(n)) for n in (1, 2)],
        split="test",
        source="mind2web",
        app="rail",
    )
    seen = episode(store, "e1", "Buy garden tools", [encode(page(n)) for n in (3, 4)], source="mind2web")
    native = sample(store, 1, encode(page(5)), "the help link", split="test", source="mind2web")
    train_on(store, [native], [*held, *seen], source="mind2web")
    manifest = build_split_fingerprints(store, "mind2web")
    items = {row["item_id"]: row for row in manifest.read("items").to_pylist()}
    assert sorted(items) == [
        "episode:mind2web/t1",
        f"sample:{native['sample_id']}",
        "step:mind2web/t1/0",
        "step:mind2web/t1/1",
    ]
    goal = items["episode:mind2web/t1"]
    assert goal["words"] == "order two tickets for the night train to vienna" and goal["app"] == "rail"
    assert items["step:mind2web/t1/1"]["words"] == "" and items["step:mind2web/t1/1"]["scope"] == "step"
    assert items[f"sample:{native['sample_id']}"]["words"] == "the help link"
    assert manifest.rows("pictures") == 3 and manifest.checks_passed
    assert build_split_fingerprints(store, "mind2web") == manifest
    with pytest.raises(StoreError, match="unified/aitz"):
        build_split_fingerprints(store, "aitz")


def test_all_suites_of_the_method_are_known() -> None:
    assert set(suite_names()) == {
        "screenspot",
        "screenspot_v2",
        "screenspot_pro",
        "osworld_g",
        "ui_vision",
        "venusbench_gd",
        "mmbench_gui_l2",
        "cagui",
        "android_control_test",
        "mind2web_test",
        "multimodal_mind2web_test",
        "gui_odyssey_test",
        "aitz_test",
    }


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (prompts.grounding_text("the red button?"), "the red button?"),
        (prompts.plan_text("Open a"), "Open a"),
        (prompts.navigation_text("Buy {x}\nHistory", None), "Buy {x}\nHistory"),
        (prompts.navigation_text("Open a", [(1, "Click(box=(1,2))")], thinking=True), "Open a"),
        (prompts.navigation_text("Open a", [(1, "Click(box=(1,2))")], version="aguvis"), "Open a"),
        (prompts.LIST_QUESTION, ""),
        (prompts.point_text(3, 4), ""),
        (prompts.region_text((1, 2, 3, 4)), ""),
        (prompts.caption_text(1, 2), ""),
        ("How much is it?", "How much is it?"),
    ],
)
def test_what_a_prompt_is_about(prompt: str, said: str) -> None:
    assert subject(prompts.messages("vqa", prompt)) == said


def test_words_and_their_weight() -> None:
    assert tokens("打开 wifi设置") == ["打", "开", "wifi", "设", "置"]
    assert weight(tokens("打开 wifi设置")) == 3.0
    assert text_print("Click on the button").weight == 0
    assert text_print("Set an alarm for 7:30 in Vienna").literals == {"7 30", "vienna"}
    assert shingles(["w"] * 11) == [] and len(shingles([str(n) for n in range(12)])) == 5
    assert not text_print("打开设置").meaning.readable and text_print("Öffne Café").meaning.readable
