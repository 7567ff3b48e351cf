"""Rico by id: the lists of held-out screens, the walk through a view hierarchy, the canvas, names that lead out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unified import unify
from webnative import write

from pipelines.mapping.adapter import Raw, RecordError
from pipelines.mapping.items import ItemError, SplitListError
from pipelines.native import rico


def test_a_held_out_screen_never_trains(tmp_path: Path) -> None:
    write(tmp_path / "raw/split/train.txt", "7\n8\n")
    write(tmp_path / "rico/split/test_screens.txt", "8\n")
    write(tmp_path / "rico/split/dev.txt", "8\n9\n")
    raw = Raw(tmp_path / "raw", {"rico": tmp_path / "rico"})
    assert [rico.listed_split(raw, name) for name in ("7", "8", "9", "10")] == ["train", "test", "validation", None]
    rows = [{"image_id": n, "question": "How many?", "ground_truth": ["1"]} for n in (7, 8, 9, 10)]
    write(tmp_path / "raw/data.json", rows)
    run = unify(tmp_path / "home", "screenqa_complex", tmp_path / "raw", rico=tmp_path / "rico")
    found = {json.loads(row["provenance"])["record"].partition("-")[0]: row["split"] for row in run.samples}
    assert found == {"7": "train", "8": "test", "9": "validation", "10": "train"}


def test_an_edited_list_is_read_again_and_a_bad_one_stops_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "split/test.txt", "7\n")
    raw = Raw(tmp_path)
    assert rico.listed_split(raw, "8") is None
    write(path, "7\n8\n")
    assert rico.listed_split(raw, "8") == "test"
    write(path, "7\nscreen 8\n")
    with pytest.raises(SplitListError):
        rico.listed_split(raw, "8")


@pytest.mark.parametrize("value", ["../7", "7/..", "", "٧", None, True, 1.5, -1, "7" * 13])
def test_an_id_that_is_no_number_is_unsafe(value: Any) -> None:
    with pytest.raises(RecordError, match="unsafe_path"):
        rico.screen_id(value)


def test_the_first_number_of_a_node_is_the_root() -> None:
    root = {"name": "root", "children": [None, {"name": "b", "children": [{"name": "c"}]}]}
    assert [rico.node(root, path, "w")["name"] for path in ("0", "0.1", "0.1.0")] == ["root", "b", "c"]
    for path, reason in (("0.0", "no_target"), ("0.1.0.0", "no_target"), ("0.9", "no_target"), ("0.-1", "bad_value")):
        with pytest.raises(ItemError) as error:
            rico.node(root, path, "w")
        assert error.value.reason == reason


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        ([720, 1280, 1440, 2560], [500, 500, 1000, 1000]),
        ([-14.4, 0, 144, 256], [0, 0, 100, 100]),  # a little hangs over, and is cut off
        ([-72, 0, 144, 256], "off_screen"),  # more than that is another frame
        ([1500, 0, 1600, 10], "off_screen"),
        ([-100, 0, 0, 10], "off_screen"),  # touches the edge only
        ([10, 10, 10, 20], "bad_box"),
        ([float("nan"), 0, 1, 1], "bad_box"),
        ([0, 0, True, 1], "bad_box"),
        ("0,0,1,1", "bad_box"),
    ],
)
def test_canvas_boxes(bounds: Any, found: Any) -> None:
    if isinstance(found, list):
        assert list(rico.canvas_box(bounds, "w")) == found
        return
    with pytest.raises(ItemError) as error:
        rico.canvas_box(bounds, "w")
    assert error.value.reason == found
