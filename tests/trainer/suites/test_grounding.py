"""Grounding benchmarks: native forms are read, hits are the authors' hits, figures stand beside what sees nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_benchmarks as native
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_benchmarks import Scripted, by_words, png, write

from pipelines.mapping.adapter import Raw
from trainer.evaluation.controls import BlindTable
from trainer.statistics import interval, macro_interval
from trainer.suites.answering import SuiteAnswer
from trainer.suites.grounding import GroundingConfig, evaluate_grounding, in_polygon, right
from trainer.suites.reading import GroundingQuestion, Read, questions
from trainer.suites.registry import SUITES, benchmark, suite


def ask(name: str, root: Path, answers: Any, **config: Any) -> dict[str, Any]:
    return evaluate_grounding(benchmark(name), Raw(root), answers, GroundingConfig(**config))


def read(name: str, root: Path) -> tuple[dict[str, GroundingQuestion], dict[str, Any]]:
    found = Read()
    listed = list(questions(benchmark(name), Raw(root), found))
    assert len({one.id for one in listed}) == len(listed) == found.asked
    return {one.instruction: one for one in listed}, found.plain()


# --- each native form ---


def test_screenspot_v2_by_platform_and_type(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    # go back: [100,100,300,400], borders inside; send it: [0,0,100,100]; close: [900,0,1000,100]; open: one too far
    answers = by_words(go_back="[300,400]", send_it="[50,50]", close="[900,0]", open="[101,950]", search="[-1,-1]")
    report = ask("screenspot_v2", tmp_path, answers, swapped=False)
    cells = {cell: found["mean"] for cell, found in report["summary"]["breakdown"]["platform x type"].items()}
    assert cells == {"mobile/icon": 1.0, "mobile/text": 1.0, "desktop/icon": 1.0, "desktop/text": 0.0, "web/text": 0.0}
    assert report["summary"]["headline"]["mean"] == 0.6 and report["summary"]["questions"] == 5
    assert report["summary"]["mean_of_cells"]["platform x type"]["mean"] == pytest.approx(0.6)
    assert report["summary"]["refused"]["mean"] == 0.2 and report["summary"]["absent"]["n"] == 0
    assert report["read"]["not_asked"] == {"bad_box": 1, "picture_missing": 1}
    assert set(report["summary"]["breakdown"]["source"]) == {"ios", "android", "windows", "macos", "shop"}
    assert report["summary"]["screens"] == 4  # two questions share a screen: four clusters
    assert report["summary"]["all"]["clusters"] == 4


def test_screenspot_in_copies_of_another_convention(tmp_path: Path) -> None:
    write(
        tmp_path,
        "converted.json",
        [
            {
                "img_filename": "web_1.png",
                "bbox": [20, 10, 60, 40],
                "instruction": "new project",
                "img_size": [200, 100],
                "platform": "gitlab",
                "ui_type": "text",
                "group": "web",
                "description": "a button",
            }
        ],
    )
    write(tmp_path, "images/web_1.png", png(200, 100))
    found, told = read("screenspot", tmp_path)
    assert found["new project"].box == pytest.approx((100, 100, 300, 400))
    assert found["new project"].labels == {"platform": ("web",), "type": ("text",), "source": ("gitlab",)}
    assert told["not_asked"] == {"other_wording": 1}  # a description is no instruction of the benchmark


def test_screenspot_pro_by_group_program_and_system_in_two_languages(tmp_path: Path) -> None:
    native.screenspot_pro(tmp_path)
    summary = ask("screenspot_pro", tmp_path, by_words(zoom="[100,100]", save="[999,999]", run="[600,600]"))["summary"]
    assert {k: v["mean"] for k, v in summary["breakdown"]["group"].items()} == {"CAD": 0.5, "Dev": 1.0}
    assert {k: v["mean"] for k, v in summary["breakdown"]["application"].items()} == {"autocad": 0.5, "vscode": 1.0}
    assert {k: v["n"] for k, v in summary["breakdown"]["system"].items()} == {"windows": 2, "macos": 1}
    assert summary["headline"]["mean"] == pytest.approx(2 / 3)
    chinese, told = read("screenspot_pro_cn", tmp_path)
    assert list(chinese) == ["放大"] and told["not_asked"] == {"other_wording": 3}


def test_osworld_g_scores_polygons_and_refusals_by_capability(tmp_path: Path) -> None:
    native.osworld_g(tmp_path)
    answers = by_words(box="[100,100]", corner="[400,900]", gone="[-1,-1]")  # in the polygon's box, not in the polygon
    report = ask("osworld_g", tmp_path, answers)
    summary = report["summary"]
    assert {k: v["mean"] for k, v in summary["breakdown"]["capability"].items()} == {
        "text_matching": 0.5,
        "layout_understanding": 0.0,
        "refusal": 1.0,
    }
    assert summary["headline"]["mean"] == pytest.approx(2 / 3)
    assert (summary["present"]["mean"], summary["absent"]["mean"]) == (0.5, 1.0)
    assert report["read"]["not_asked"] == {"bad_box": 1}
    assert {r["id"]: r["hit"] for r in ask("osworld_g", tmp_path, by_words(corner="[100,400]"))["records"]} == {
        "OSWorld-G/b": 0.0,
        "OSWorld-G/p": 1.0,
        "OSWorld-G/r": 0.0,
    }
    refined, _ = read("osworld_g_refined", tmp_path)
    assert list(refined) == ["the box with the arrow"] and refined["the box with the arrow"].labels["gui_type"] == (
        "Button",
        "Icon",
    )
    write(tmp_path, "benchmark/classification_result.json", {"classified": [1]})
    with pytest.raises(ValueError, match=r"classification_result\.json: expected"):
        read("osworld_g", tmp_path)


def test_ui_vision_is_the_mean_of_its_three_splits(tmp_path: Path) -> None:
    native.ui_vision(tmp_path)
    answers = by_words(brush="[200,200]", pen="[0,0]", to_paint="[300,400]", left_of_the_pen="[301,400]")
    report = ask("ui_vision", tmp_path, answers)
    assert {k: v["mean"] for k, v in report["summary"]["breakdown"]["split"].items()} == {
        "basic": 0.5,
        "functional": 1.0,
        "spatial": 0.0,
    }
    assert report["summary"]["headline"]["mean"] == 0.5 and report["summary"]["all"]["mean"] == 0.5
    assert report["summary"]["headline_of"] == "split"
    assert report["read"]["not_asked"] == {"layout_asks_for_a_box": 2}
    assert set(report["summary"]["breakdown"]["application"]) == {"gimp"}


def test_venusbench_gd_with_refusals_in_two_languages(tmp_path: Path) -> None:
    native.venusbench_gd(tmp_path)
    answers = by_words(send="[100,100]", the_way_home="[0,0]", left_of_the_moon="[-1,-1]", under_the_sea="[5,5]")
    report = ask("venusbench_gd", tmp_path, answers)
    assert {k: v["mean"] for k, v in report["summary"]["breakdown"]["task"].items()} == {
        "element_grounding": 1.0,
        "reasoning_grounding": 0.0,
        "refusal_spatial": 0.5,
    }
    assert (report["summary"]["present"]["mean"], report["summary"]["absent"]["mean"]) == (0.5, 0.5)
    assert report["read"]["not_asked"] == {"no_box": 1, "other_wording": 1}
    assert list(read("venusbench_gd_zh", tmp_path)[0]) == ["发送"]


def test_mmbench_gui_l2_is_the_mean_of_basic_and_advanced(tmp_path: Path) -> None:
    native.mmbench_gui_l2(tmp_path)
    report = ask(
        "mmbench_gui_l2", tmp_path, by_words(the_arrow="[100,100]", scroll_the_years="[0,0]", Settings="[0,0]")
    )
    assert {k: v["mean"] for k, v in report["summary"]["breakdown"]["level"].items()} == {"basic": 0.5, "advanced": 0.0}
    assert report["summary"]["headline"]["mean"] == 0.25 and report["summary"]["all"]["mean"] == pytest.approx(1 / 3)
    assert {r["platform"] for r in report["records"]} == {"desktop", "mobile"}


def test_every_benchmark_of_the_registry_reads_its_own_form(tmp_path: Path) -> None:
    for name, known in SUITES.items():
        if known.kind == "grounding":
            root = tmp_path / known.raw
            if not root.exists():
                getattr(native, known.raw if known.raw != "screenspot" else "screenspot_v2")(root)
            found, told = read(name, root)
            assert found and benchmark(name).name == name
            for question in found.values():
                assert question.refusal == (question.box is None)
                assert question.platform in ("mobile", "web", "desktop"), name
                assert {part for parts in benchmark(name).breakdowns for part in parts} <= set(question.labels)


# --- real records ---


def real(samples_dir: Callable[[str], Path], source: str, file: str, root: Path) -> list[dict[str, Any]]:
    """A file of real records with a blank picture of the right size for each."""
    path = samples_dir(source) / file
    text = path.read_text(encoding="utf-8")
    rows: Any = [json.loads(line) for line in text.splitlines()] if file.endswith("l") else json.loads(text)
    rows = rows["details"] if isinstance(rows, dict) else rows
    write(root, file, path.read_bytes())
    for row in rows:
        name = next(row[key] for key in ("img_filename", "image_path", "img_path", "image") if key in row)
        size = row.get("img_size") or row.get("image_size") or [3840, 2160]
        write(root, f"images/{name.removeprefix('./')}", png(*size, len(name)))
    return list(rows)


def test_real_screenspot_records(samples_dir: Callable[[str], Path], tmp_path: Path) -> None:
    real(samples_dir, "screenspot", "ui_venus_grounding_meta_format.json", tmp_path)
    found, told = read("screenspot", tmp_path)
    assert found["close this window"].box == pytest.approx((910 / 0.96, 78 / 0.54, 954 / 0.96, 112 / 0.54))
    assert found["close this window"].labels["platform"] == ("desktop",) and told["not_asked"] == {"other_wording": 2}


def test_real_screenspot_v2_records(samples_dir: Callable[[str], Path], tmp_path: Path) -> None:
    rows = real(samples_dir, "screenspot_v2", "gui_actor_web_v2_head20.json", tmp_path)
    listed = list(questions(benchmark("screenspot_v2"), Raw(tmp_path), Read()))
    assert len(listed) == len(rows) == 20 and {one.platform for one in listed} == {"web"}
    assert {value for one in listed for value in one.labels["type"]} == {"text", "icon"}
    right_ = [
        [x * size / 1000 for x, size in zip(one.box or (), row["img_size"] * 2, strict=True)]
        for one, row in zip(listed, rows, strict=True)
    ]
    assert all(back == pytest.approx(row["bbox"]) for back, row in zip(right_, rows, strict=True))


def test_real_screenspot_pro_records(samples_dir: Callable[[str], Path], tmp_path: Path) -> None:
    rows = real(samples_dir, "screenspot_pro", "omniparser_log_head10.jsonl", tmp_path)
    found, _ = read("screenspot_pro", tmp_path)
    question = found["linked selection"]
    assert question.labels == {
        "platform": ("desktop",),
        "group": ("Creative",),
        "application": ("davinci",),
        "system": ("macos",),
        "type": ("icon",),
    }
    assert question.box == pytest.approx((2042 / 3.84, 1153 / 2.16, 2067 / 3.84, 1182 / 2.16)) and len(rows) == 10


def test_real_osworld_g_and_l2_records(samples_dir: Callable[[str], Path], tmp_path: Path) -> None:
    real(samples_dir, "osworld_g", "one_record_refined.json", tmp_path / "o")
    [question] = read("osworld_g_refined", tmp_path / "o")[0].values()
    assert question.box == pytest.approx((1422.9 / 1.92, 326.4 / 1.08, 1449.58 / 1.92, 354.8 / 1.08))
    assert question.labels["gui_type"] == ("Button", "Icon", "Label")
    real(samples_dir, "mmbench_gui_l2", "one_record_guidance.json", tmp_path / "m")
    [question] = read("mmbench_gui_l2", tmp_path / "m")[0].values()
    assert question.box == pytest.approx((387.5, 136.1, 394.5, 150.7)) and question.labels["level"] == ("basic",)


# --- controls ---


def test_controls_by_hand(tmp_path: Path) -> None:
    def row(picture: str, words: str, x: int) -> dict[str, Any]:
        return {"img_filename": picture, "instruction": words, "bbox": [x, 0, 20, 100], "data_type": "text"}

    # "menu" is always at the left on screens 1 and 2; screen 1 has two targets, screen 3 one
    write(
        tmp_path,
        "screenspot_web.json",
        [
            row("web_1.png", "menu", 0),
            row("web_1.png", "help", 180),
            row("web_2.png", "menu", 0),
            row("web_3.png", "odd", 180),
        ],
    )
    for shade in (1, 2, 3):
        write(tmp_path, f"web_{shade}.png", png(200, 100, shade))
    sees = {
        png(200, 100, 1): {"menu": "[50,50]", "help": "[950,50]"},
        png(200, 100, 2): {"menu": "[50,50]"},
        png(200, 100, 3): {"odd": "[950,1]"},
    }
    looker = Scripted(lambda words, picture: sees[picture].get(words, "[500,500]"))
    train = [
        {
            "objective": "grounding",
            "platform": "web",
            "answer": "[950,9]",
            "messages": json.dumps([{"role": "user", "content": "Where is help?"}]),
        }
    ]
    report = evaluate_grounding(benchmark("screenspot"), Raw(tmp_path), looker, blind=BlindTable(train))
    by_words_ = {(r["instruction"], r["screen"][:4]): r for r in report["records"]}
    assert len(by_words_) == 4 and len(looker.asked) == 8  # every question once more on another screen
    controls = {name: found["mean"] for name, found in report["summary"]["controls"].items()}
    assert controls["swapped"] == 0.25  # the first "menu" is shown screen 2, where it is at the same place
    assert controls["blind"] == 0.5  # the training table only knows the right edge
    assert controls["blind_suite"] == 0.5  # "menu" by its words; "help" and "odd" by the mean of the others
    assert controls["random_element"] == pytest.approx((0.5 + 0.5 + 0.1 + 0.1) / 4)
    assert report["summary"]["all"]["mean"] == 1.0
    assert report["summary"]["minus_controls"]["swapped"]["mean"] == 0.75


def test_what_has_no_reply_is_told_and_not_scored(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)

    def answers(rows: Any, most: int, /) -> list[SuiteAnswer]:
        return [
            SuiteAnswer("", "no_reply: busy") if "pc_" in row["sample_id"] or i == 0 else SuiteAnswer("[50,50]")
            for i, row in enumerate(rows)
        ]

    answers.name = "half"  # type: ignore[attr-defined]
    report = ask("screenspot_v2", tmp_path, answers, swapped=False)
    assert report["summary"]["not_answered"] == 1 and report["summary"]["all"]["n"] == 4
    assert sum(r["hit"] is None for r in report["records"]) == 1


def test_a_limit_is_a_choice_by_hash_that_more_rows_move_little(tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    told = Read()
    chosen = [one.id for one in questions(benchmark("screenspot_v2"), Raw(tmp_path), told, 3)]
    assert len(chosen) == 3 and told.not_asked["beyond_limit"] == 2 and told.asked == 3
    assert chosen == [one.id for one in questions(benchmark("screenspot_v2"), Raw(tmp_path), Read(), 3)]
    ids = [one.id for one in questions(benchmark("screenspot_v2"), Raw(tmp_path), Read(), 99)]
    assert set(chosen) < set(ids) and len(ids) == 5


def test_bad_folders_names_and_answers_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected native files of ScreenSpot-V2"):
        read("screenspot_v2", tmp_path)
    with pytest.raises(ValueError, match="unknown suite 'sreenspot'; did you mean screenspot or screenspot_v2"):
        suite("sreenspot")
    with pytest.raises(ValueError, match="expected a grounding benchmark"):
        benchmark("heldout")
    write(tmp_path, "screenspot_web_v2.json", [{"no": "words"}, 7])
    with pytest.raises(ValueError, match="none of the rows can be asked.*unknown_schema.*bad_value"):
        ask("screenspot_v2", tmp_path, by_words())


@pytest.mark.parametrize("name", ["screenspot_desktop_v2.json", "screenspot_desktop_v2.jsonl"])
@pytest.mark.parametrize("damage", ["cut", "junk", "zeros"])
def test_a_damaged_copy_stops_the_suite_instead_of_leaving_rows_out(damage: str, name: str, tmp_path: Path) -> None:
    native.screenspot_v2(tmp_path)
    file = tmp_path / name
    rows = [{"img_filename": f"{n}.png", "bbox": [1, 1, 5, 5], "instruction": f"the {n}th"} for n in range(6)]
    write(tmp_path, name, rows)
    whole = file.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 2 - 9],
        "junk": b"<!doctype html><title>404</title>",
        "zeros": bytes(len(whole)),
    }
    file.write_bytes(damaged[damage])
    with pytest.raises(ValueError, match=f"screenspot_v2: {name} can't be read on.*copy the file again"):
        ask("screenspot_v2", tmp_path, by_words())


def test_a_real_checkpoint_answers(model: Any, processor: Any, tmp_path: Path) -> None:
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.suites.answering import CheckpointAnswers

    native.screenspot_v2(tmp_path)
    write(tmp_path, "screenspotv2_image/pc_1.png", b"\x89PNG no picture")
    answers = CheckpointAnswers(Checkpoint(model.eval(), processor, {"stage": "tiny"}))
    events: list[dict[str, Any]] = []
    report = evaluate_grounding(
        benchmark("screenspot_v2"),
        Raw(tmp_path),
        answers,
        GroundingConfig(chunk=2, max_new_tokens=3),
        on_event=events.append,
    )
    assert report["policy"].startswith("vesper-tiny") and [event["done"] for event in events][-1] == len(
        report["records"]
    )
    assert report["read"]["asked"] == len(report["records"]) > 2


# --- geometry and macro means ---


@given(st.floats(-10, 1010), st.floats(-10, 1010), st.lists(st.integers(0, 1000), min_size=4, max_size=4))
def test_a_rectangle_as_polygon_is_the_box(x: float, y: float, sides: list[int]) -> None:
    left, right_, top, bottom = min(sides[:2]), max(sides[:2]), min(sides[2:]), max(sides[2:])
    polygon = [(left, top), (right_, top), (right_, bottom), (left, bottom)]
    if left < right_ and top < bottom:
        assert in_polygon((x, y), polygon) == right((x, y), (left, top, right_, bottom), (), False)
        for corner in polygon:
            assert in_polygon(corner, polygon)


def test_macro_means_by_closed_form() -> None:
    # cell a: 40 questions, a quarter right; cell b: 10, half right; screens hold one question each
    values, cells = [1.0] * 10 + [0.0] * 30 + [1.0] * 5 + [0.0] * 5, ["a"] * 40 + ["b"] * 10
    screens = [str(i) for i in range(50)]
    found = macro_interval(values, cells, screens)
    spread = 1.96 * (0.25 * 0.75 / 40 / 4 + 0.25 / 10 / 4) ** 0.5
    assert found.mean == 0.375
    assert (found.low, found.high) == (pytest.approx(0.375 - spread, abs=0.04), pytest.approx(0.375 + spread, abs=0.04))
    assert macro_interval(values, ["a"] * 50, screens) == interval(values, screens)
