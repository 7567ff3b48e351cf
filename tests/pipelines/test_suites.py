"""Evaluation suites: every native form of the pages is read, boxes land where they should, bad rows are named."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import webnative

from pipelines import sources, suites
from pipelines.mapping.adapter import Raw
from pipelines.suites import BadRow, SuiteItem
from pipelines.suites._rows import thousandths

PNG = webnative.png(200, 100)


def read(root: Path, suite: str) -> tuple[dict[str, SuiteItem], list[BadRow]]:
    found = list(suites.get(suite).items(Raw(root)))
    items = {item.id: item for item in found if isinstance(item, SuiteItem)}
    bad = [row for row in found if isinstance(row, BadRow)]
    assert len(items) + len(bad) == len(found), "ids repeat"
    return items, bad


def write(root: Path, name: str, rows: Any) -> None:
    text = "\n".join(json.dumps(row) for row in rows) if name.endswith("l") else json.dumps(rows)
    webnative.write(root / name, text)


def test_the_registry_holds_the_suites_of_the_method_and_none_of_them_trains() -> None:
    known = suites.registry()
    assert list(known) == [
        "cagui",
        "mmbench_gui_l2",
        "osworld_g",
        "screenspot",
        "screenspot_pro",
        "screenspot_v2",
        "ui_vision",
        "venusbench_gd",
    ]
    assert not set(known) & set(sources.registry())
    for card in (suite.card for suite in known.values()):
        assert all((card.title, card.origin.startswith("https://"), card.licence, card.citation, card.size, card.frame))
    with pytest.raises(ValueError, match="known are cagui"):
        suites.get("nonesuch")


def test_screenspot_in_its_three_conventions(tmp_path: Path) -> None:
    row = {"img_filename": "pc_1.png", "instruction": "close", "data_type": "icon", "data_source": "windows"}
    write(tmp_path, "screenspot_desktop.json", [{**row, "bbox": [20, 10, 40, 30]}])
    more = {"img_size": [200, 100], "action": "Click the X.", "decription": "a cross"}
    write(tmp_path, "converted.json", [{**row, "bbox": [20, 10, 60, 40], **more}])
    table = pa.table(
        {
            "file_name": ["pc_1.png"],
            "bbox": [[0.1, 0.1, 0.3, 0.4]],
            "instruction": ["close"],
            "image": [{"bytes": PNG, "path": "pc_1.png"}],
        }
    )
    pq.write_table(table, tmp_path / "hub.parquet")
    # as `datasets` writes a picture that stayed a file
    names = table.set_column(3, "image", pa.array([{"bytes": None, "path": "pc_1.png"}]))
    pq.write_table(names, tmp_path / "names.parquet")
    webnative.write(tmp_path / "images/pc_1.png", PNG)
    items, bad = read(tmp_path, "screenspot")
    assert not bad and sorted(items) == [
        "converted/row-0",
        "converted/row-0:action",
        "converted/row-0:description",
        "hub/row-0",
        "names/row-0",
        "screenspot_desktop/row-0",
    ]
    for item in items.values():
        assert item.box == pytest.approx((100, 100, 300, 400)) and item.data == PNG and item.notes == ()
    assert items["converted/row-0:description"].instruction == "a cross"


def test_screenspot_v2_reads_its_pictures_from_the_zip(tmp_path: Path) -> None:
    write(
        tmp_path,
        "screenspot_web_v2.json",
        [
            {"img_filename": "web_1.png", "bbox": [0, 0, 20, 10], "instruction": "go"},
            {"img_filename": "web_2.png", "bbox": [0, 0, 9, 9], "instruction": "no"},
        ],
    )
    with zipfile.ZipFile(tmp_path / "screenspotv2_image.zip", "w") as archive:
        archive.writestr("screenspotv2_image/web_1.png", PNG)
    (tmp_path / "broken.zip").write_bytes(b"PK no zip")
    items, _ = read(tmp_path, "screenspot_v2")
    assert items["screenspot_web_v2/row-0"].data == PNG
    assert items["screenspot_web_v2/row-0"].box == pytest.approx((0, 0, 100, 100))
    missing = items["screenspot_web_v2/row-1"]
    assert (missing.data, missing.box, missing.notes) == (None, None, ("picture_missing",))


def test_screenspot_pro_tells_equal_file_names_apart_by_their_folder(tmp_path: Path) -> None:
    row = {"bbox": [20, 10, 60, 40], "img_size": [200, 100], "instruction": "zoom", "application": "cad"}
    write(
        tmp_path,
        "annotations/cad_windows.json",
        [
            {**row, "id": "a", "img_filename": "cad_windows/shot.png", "instruction_cn": "放大"},
            {**row, "id": "b", "img_filename": "cad_macos/shot.png"},
            {**row, "id": "c", "img_filename": "shot.png"},
        ],
    )
    other = webnative.png(200, 100, 7)
    webnative.write(tmp_path / "images/cad_windows/shot.png", PNG)
    webnative.write(tmp_path / "images/cad_macos/shot.png", other)
    items, bad = read(tmp_path, "screenspot_pro")
    found = {name.partition("/")[2]: (item.data, item.language, item.notes) for name, item in items.items()}
    assert not bad and found == {
        "a": (PNG, "en", ()),
        "a:zh": (PNG, "zh", ()),
        "b": (other, "en", ()),
        "c": (None, "en", ("picture_ambiguous",)),
    }
    assert items["cad_windows/a"].app == "cad"


def test_osworld_g_boxes_polygons_and_refusals(tmp_path: Path) -> None:
    row = {"image_path": "x.png", "image_size": [200, 100], "instruction": "filter", "GUI_types": ["Icon"]}
    write(
        tmp_path,
        "OSWorld-G.json",
        [
            {**row, "id": "b", "box_type": "bbox", "box_coordinates": [20.0, 10.0, 40.0, 30.0]},
            {**row, "id": "p", "box_type": "polygon", "box_coordinates": [20, 10, 60, 10, 60, 40]},
            {**row, "id": "r", "box_type": "refusal", "box_coordinates": [0, 0, 0, 0]},
            {**row, "id": "w", "box_type": "circle", "box_coordinates": [1, 2, 3]},
        ],
    )
    write(tmp_path, "classification_result.json", {"text_matching": ["b"]})
    write(
        tmp_path,
        "result.json",
        {"details": [{"img_path": "osworld/x.png", "prompt_to_evaluate": "Filter it", "bbox": [20, 10, 60, 40]}]},
    )
    webnative.write(tmp_path / "images/x.png", PNG)
    items, bad = read(tmp_path, "osworld_g")
    assert not bad
    assert items["OSWorld-G/b"].box == items["OSWorld-G/p"].box == pytest.approx((100, 100, 300, 400))
    assert items["OSWorld-G/p"].points == ((100, 100), (300, 100), (300, 400))
    assert (items["OSWorld-G/r"].box, items["OSWorld-G/r"].notes) == (None, ())
    assert (items["OSWorld-G/w"].box, items["OSWorld-G/w"].notes) == (None, ("bad_box",))
    assert items["result/row-0"].box == pytest.approx((100, 100, 300, 400))


def test_ui_vision_swapped_corners_and_layouts(tmp_path: Path) -> None:
    common = {"image_path": "element/1.png", "image_size": [200, 100], "platform": "gimp"}
    write(
        tmp_path,
        "annotations/element_grounding/element_grounding_basic.json",
        [{**common, "prompt_to_evaluate": "brush", "bbox": [60, 40, 20, 10], "element_type": "icon"}],
    )
    write(
        tmp_path,
        "annotations/layout_grounding/layout_grounding.json",
        [{**common, "name": "toolbar", "explanation": "The bar of tools.", "bbox": [0, 0, 200, 50]}],
    )
    items, bad = read(tmp_path, "ui_vision")
    assert not bad and items["element_grounding_basic/row-0"].box == pytest.approx((100, 100, 300, 400))
    assert items["element_grounding_basic/row-0"].app == "gimp"
    assert [i.instruction for name, i in items.items() if "layout" in name] == ["toolbar", "The bar of tools."]


def test_venusbench_gd_in_two_languages_and_refusals(tmp_path: Path) -> None:
    row = {
        "img_filename": "1.png",
        "img_size": [200, 100],
        "application": "maps",
        "instruction": "send",
        "bbox": [20, 10, 60, 40],
    }
    write(tmp_path, "instruction/element_grounding.json", [{**row, "instruction_zh": "发送"}])
    write(tmp_path, "instruction/refusal_spatial.json", [{**row, "gt_type": "negative"}, {**row, "bbox": [-1, -1]}])
    write(tmp_path, "meta.json", {"apps": 97})
    items, bad = read(tmp_path, "venusbench_gd")
    assert not bad and items["element_grounding/row-0:zh"].instruction == "发送"
    assert [items[f"refusal_spatial/row-{n}"].box for n in (0, 1)] == [None, None]
    assert items["element_grounding/row-0"].box == pytest.approx((100, 100, 300, 400))


@pytest.mark.parametrize("prefix", ["", "os_web/"])
def test_mmbench_gui_l2_with_and_without_the_platform_in_the_path(tmp_path: Path, prefix: str) -> None:
    write(
        tmp_path,
        "L2_annotations.json",
        [
            {
                "index": 3,
                "image_path": f"{prefix}a_b.png",
                "instruction": "The arrow.",
                "bbox": [0.1, 0.1, 0.3, 0.4],
                "image_size": [200, 100],
                "platform": "os_web",
                "app_name": "calendar",
            }
        ],
    )
    webnative.write(tmp_path / "offline_images/os_web/a_b.png", PNG)
    webnative.write(tmp_path / "offline_images/os_linux/a_b.png", webnative.png(200, 100, 5))
    items, _ = read(tmp_path, "mmbench_gui_l2")
    assert items["L2_annotations/3"].data == PNG and items["L2_annotations/3"].box == pytest.approx(
        (100, 100, 300, 400)
    )


def test_cagui_steps_and_grounding_rows(tmp_path: Path) -> None:
    step = {
        "episode_id": "e1",
        "episode_length": 2,
        "step_id": 0,
        "instruction": "打开设置",
        "result_action_type": 4,
        "image_path": "domestic/e1/e1_0.jpeg",
        "result_touch_yx": "[0.25, 0.5]",
        "result_lift_yx": "[0.25, 0.5]",
    }
    write(
        tmp_path,
        "CAGUI_agent/domestic/e1/e1.json",
        [
            step,
            {**step, "step_id": 1, "result_touch_yx": "[-1, -1]"},
            {**step, "step_id": 2, "result_touch_yx": "[7, 1]"},
            {"episode_id": "e1", "step_id": 3},
        ],
    )
    webnative.write(tmp_path / "CAGUI_agent/domestic/e1/e1_0.jpeg", PNG)
    row = {
        "task": "bbox2text",
        "image": "grounding_eval/dataset/images/ocr/0.jpeg",
        "id": 9,
        "text": "分享",
        "abs_position": "<20, 10, 60, 40>",
        "rel_position": "<0.1, 0.1, 0.3, 0.4>",
    }
    write(tmp_path, "CAGUI_grounding/code/ocr.jsonl", [row, {**row, "text": ""}, {**row, "rel_position": "<1, 2>"}])
    write(tmp_path, "CAGUI_grounding/code/cap.jsonl", [{**row, "task": "bbox2function", "image": "x/images/0.jpeg"}])
    cap = webnative.png(200, 100, 9)
    webnative.write(tmp_path / "CAGUI_grounding/images/ocr/0.jpeg", PNG)
    webnative.write(tmp_path / "CAGUI_grounding/images/cap/0.jpeg", cap)
    items, bad = read(tmp_path, "cagui")
    assert items["e1/0"].points == ((500.0, 250.0),) and items["e1/0"].scope == "goal" and items["e1/0"].data == PNG
    assert items["e1/1"].points == () and items["e1/1"].notes == ()
    assert items["e1/2"].notes == ("bad_point",)
    assert items["ocr/line-1"].box == pytest.approx((100, 100, 300, 400)) and items["ocr/line-1"].data == PNG
    assert items["ocr/line-3"].notes == ("bad_box",) and items["cap/line-1"].data == cap
    assert [(row.locator, row.reason) for row in bad] == [("row 3", "unknown_schema"), ("line 2", "unknown_schema")]


@pytest.mark.parametrize("suite", sorted(suites.registry()))
def test_hostile_files_end_as_named_rows(tmp_path: Path, suite: str) -> None:
    bad_rows: list[Any] = [
        1,
        None,
        {},
        {"instruction": 3},
        {"instruction": "\ud800"},
        {"instruction": "x", "bbox": "1"},
        {"instruction": "x", "bbox": [1, 2, float("nan"), 4], "img_filename": "../../etc/passwd"},
        {"text": "x", "rel_position": "a", "image": "\0"},
    ]
    write(tmp_path, "rows.json", bad_rows)
    write(tmp_path, "rows.jsonl", bad_rows)
    webnative.write(tmp_path / "cut.json", '[{"instruction": "x"}, {"instr')
    webnative.write(tmp_path / "text.json", "hello")
    webnative.write(tmp_path / "other.json", '{"a": ')
    webnative.write(tmp_path / "x.parquet", b"PAR1 no table")
    items, bad = read(tmp_path, suite)
    assert len(bad) >= 10 and all(row.reason and row.file for row in bad)
    assert all(item.data is None and item.box is None for item in items.values())
    empty, none = read(tmp_path / "nothing", suite) if (tmp_path / "nothing").mkdir() is None else ({}, [])
    assert not empty and [row.reason for row in none] == ["no_files"]


@pytest.mark.parametrize(
    ("values", "convention", "size", "box"),
    [
        ([20, 10, 60, 40], "xyxy", (200, 100), (100, 100, 300, 400)),
        ([20, 10, 40, 30], "xywh", (200, 100), (100, 100, 300, 400)),
        ([60, 40, 20, 10], "xyxy", (200, 100), (100, 100, 300, 400)),
        ([-3, 0, 204, 50], "xyxy", (200, 100), (0, 0, 1000, 500)),
        ([0.1, 0.1, 0.3, 0.4], "fraction", None, (100, 100, 300, 400)),
        ([1, 2, 3, 4], "xyxy", None, None),
    ],
)
def test_boxes(values: list[float], convention: Any, size: Any, box: Any) -> None:
    found = thousandths(values, convention, size)
    assert found == (None if box is None else pytest.approx(box))


@pytest.mark.parametrize("values", [[1, 2, 3], [1, 2, 3, "4"], [1, 2, 3, True], [300, 0, 400, 10], [-5, 0, 9, 9], None])
def test_boxes_that_are_none(values: Any) -> None:
    with pytest.raises(ValueError, match="expected four numbers|lies off"):
        thousandths(values, "xyxy", (200, 100))


REAL = {
    "screenspot": (43, []),
    "screenspot_v2": (20, []),
    "screenspot_pro": (10, []),
    "osworld_g": (2, []),
    "mmbench_gui_l2": (1, []),
    "cagui": (17, ["unknown_schema"]),
}
"""Items (wordings count), and reasons of the rows that are none: CAGUI's folder holds a row of a training form."""


@pytest.mark.parametrize("suite", sorted(REAL))
def test_real_records_parse(samples_dir: Any, suite: str) -> None:
    items, bad = read(samples_dir(suite), suite)
    assert (len(items), [row.reason for row in bad]) == REAL[suite]
    assert all(item.instruction and item.notes in (("picture_missing",),) for item in items.values())


def test_real_boxes_of_the_two_forms_agree(samples_dir: Any) -> None:
    """The same element of ScreenSpot as x, y, width, height and as corners; of OSWorld-G in two files."""
    items, _ = read(samples_dir("screenspot"), "screenspot")
    box = items["ui_venus_grounding_meta_format/desktop_0"].box
    assert box == pytest.approx((910 / 0.96, 78 / 0.54, 954 / 0.96, 112 / 0.54))
    row = json.loads((samples_dir("screenspot") / "re_gpt-4o_head20.jsonl").read_text().splitlines()[0])
    assert thousandths(row["bbox"], "xywh", (960, 540)) == pytest.approx(box)
    [refined] = [item for name, item in read(samples_dir("osworld_g"), "osworld_g")[0].items() if "refined" in name]
    assert refined.box == pytest.approx((1422 / 1.92, 326 / 1.08, 1449 / 1.92, 354 / 1.08), abs=1)
