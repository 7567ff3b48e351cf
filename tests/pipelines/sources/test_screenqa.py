"""ScreenQA: one rater's answer and boxes per question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unified import unify
from webnative import png, real, write

from pipelines.prompts import prompt_text


def question(text: str = "How many?", *raters: Any, **changes: Any) -> dict[str, Any]:
    return {
        "image_id": 7,
        "image_width": 100,
        "image_height": 200,
        "question": text,
        "ground_truth": list(raters) or [rater("Two.", [10, 20, 30, 40])],
        **changes,
    }


def rater(answer: str, *bounds: list[int]) -> dict[str, Any]:
    return {"full_answer": answer, "ui_elements": [{"text": "x", "bounds": b, "vh_index": -1} for b in bounds]}


def test_the_real_questions(tmp_path: Path) -> None:
    write(tmp_path / "raw/validation.json", real("screenqa", "two_records.json").read_bytes())
    write(tmp_path / "rico/combined/5.jpg", png(540, 960))  # half the stated size: the same ratio
    write(tmp_path / "rico/combined/31.jpg", png(540, 540))
    run = unify(tmp_path / "home", "screenqa", tmp_path / "raw", rico=tmp_path / "rico")
    by_answer = {row["answer"]: row for row in run.samples}
    assert set(by_answer) == {
        "There are 12 exercises in total to do.",
        # first rater's box 509,116,569,169 of 1080x1920: centre 539/1080 = 499.07 → 499, 142.5/1920 = 74.2 → 74
        "[499,74]",
        "You are protected from unauthorized transactions.",
        # 424,1078,852,1117: centre 638/1080 = 590.7 → 591, 1097.5/1920 = 571.6 → 572
        "[591,572]",
    }
    assert by_answer["[499,74]"]["objective"] == "grounding"
    assert [round(side, 2) for side in by_answer["[499,74]"]["target_boxes"][0]] == [471.3, 60.42, 526.85, 88.02]
    vqa = by_answer["There are 12 exercises in total to do."]
    assert vqa["objective"] == "vqa" and vqa["split"] == "validation" and vqa["licence"] == "CC-BY-4.0"
    assert prompt_text(vqa["messages"]) == "How many exercises in total are there to do?"
    assert len(vqa["images"]) == 1
    assert by_answer["[591,572]"]["images"] == [] and run.reasons == {"image_misfit": 1}
    assert len({row["sample_id"] for row in run.samples}) == 4
    assert run.items == (2, 2, 0)


def test_the_first_rater_with_elements_is_taken(tmp_path: Path) -> None:
    rows = [
        question("A?", rater("none"), rater("Two.", [10, 20, 30, 40], [50, 60, 70, 80])),
        question("B?", rater("nothing there"), rater("no")),
        question("C?", rater("off", [90, 20, 150, 40])),
    ]
    write(tmp_path / "raw/test.json", rows)
    run = unify(tmp_path / "home", "screenqa", tmp_path / "raw")
    asked = {(prompt_text(row["messages"]), row["objective"]): row for row in run.samples}
    assert asked["A?", "vqa"]["answer"] == "Two."
    [grounded] = [row for row in run.samples if row["answer"] == "[200,150]"]  # 20/100, 30/200 of the first box
    assert len(grounded["target_boxes"]) == 2
    assert asked["B?", "vqa"]["answer"] == "nothing there"
    [refused] = [row for row in run.samples if row["answer"] == "[-1,-1]"]
    assert json.loads(refused["provenance"])["lossy"] and '"B"' in prompt_text(refused["messages"])
    assert asked["C?", "vqa"]["answer"] == "off" and len(run.samples) == 5
    assert run.items == (3, 3, 0) and run.reasons == {"bad_box": 1}
    assert {row["split"] for row in run.samples} == {"test"}
    assert all(json.loads(row["provenance"])["image_missing"] == "image_missing" for row in run.samples)


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    good = [question(f"Q{place}?") for place in range(8)]
    rows = [
        *good,
        question(" "),
        question("W?", image_width=0),
        question("U?", image_id="../../x"),
        question("R?", {"full_answer": 1, "ui_elements": []}),
        question("E?", rater(" ")),
        {"image_id": 1},
        question("X?", colour=1),
        [1],
        good[0],
    ]
    write(tmp_path / "raw/train.json", rows)
    write(tmp_path / "raw/validation.json", '[{"question": "a"')
    write(tmp_path / "rico/combined/7.jpg", b"no picture")
    run = unify(tmp_path / "home", "screenqa", tmp_path / "raw", rico=tmp_path / "rico")
    assert run.items == (18, 9, 9)
    assert run.reasons == {
        "empty_text": 2,
        "bad_frame": 1,
        "unsafe_path": 1,
        "missing_field": 2,
        "unknown_field:colour": 1,
        "bad_value": 1,
        "duplicate": 1,
        "truncated_record": 1,
        "image_unreadable": 9,
    }
