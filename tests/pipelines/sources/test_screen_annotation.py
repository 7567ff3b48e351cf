"""Screen Annotation: one line of nested elements → elements and samples, every element counted once."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unified import unify
from webnative import png, real, write, write_csv

from pipelines.prompts import prompt_text
from pipelines.sources.screen_annotation import CLASSES, AnnotationNode, parse_annotation

HEADER = ["screen_id", "screen_annotation"]


def test_the_real_rows(tmp_path: Path) -> None:
    path = real("screen_annotation", "valid_head60.csv")
    write(tmp_path / "raw/valid.csv", path.read_bytes())
    write(tmp_path / "rico/combined/11107.jpg", png(108, 192))
    run = unify(tmp_path / "home", "screen_annotation", tmp_path / "raw", rico=tmp_path / "rico")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    first = parse_annotation(rows[0][1])[0]
    assert [(n.kind, n.text, n.depth) for n in first[:4]] == [
        ("PICTOGRAM", "three bars", 0),
        ("TOOLBAR", "", 0),
        ("TEXT", "Account", 1),
        ("NAVIGATION_BAR", "", 0),
    ]
    assert first[0].box == (0, 30, 132, 109)  # written 0 132 30 109: the x pair first
    shown = [row for row in run.samples if row["images"]]
    asked = {prompt_text(row["messages"]): row for row in shown}
    # TEXT Account 171 352 54 84: centre (261.5, 69) → (262, 69), kept on the 0..999 grid
    assert asked["Where is Account?"]["answer"] == "[262,69]"
    assert asked["Where is Account?"]["target_boxes"] == [[171.0, 54.0, 352.0, 84.0]]
    assert asked["What is at [262,69]?"]["answer"] == "TEXT Account"
    assert asked["What is at [66,70]?"]["answer"] == "PICTOGRAM three bars"  # (0+132)/2, (30+109)/2 = 69.5
    assert "Where is three bars?" not in asked
    listed = asked["List the elements."]["answer"].split("\n")
    assert listed[:3] == ["PICTOGRAM three bars", "TOOLBAR", "TEXT Account"]
    assert "LABEL Grace Chan" in listed and len(listed) == 33 == len(run.screens[0]["elements"])
    total = sum(len(parse_annotation(row[1])[0]) for row in rows)
    assert all(parse_annotation(row[1])[1] == "" for row in rows), "every real row is read to its end"
    assert run.items[0] == total and run.items[2] == sum(
        not node.sound for row in rows for node in parse_annotation(row[1])[0]
    )
    assert set(run.reasons) <= {"bad_box"}
    assert {row["split"] for row in run.samples} == {"validation"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CHECKBOX 1 2 3 4", [("CHECKBOX", "", 0)]),
        ("TEXT 7 1 2 3 4", [("TEXT", "7", 0)]),
        ("TEXT 10, 20 (30 40) 50 1 2 3 4", [("TEXT", "10, 20 (30 40) 50", 0)]),
        ("TEXT from 1 2 3 4, to 5 1 2 3 4", [("TEXT", "from 1 2 3 4, to 5", 0)]),
        (
            "LIST_ITEM 1 2 3 4 (TEXT a) 1 2 3 4, BUTTON b, c 1 2 3 4), TEXT d 1 2 3 4",
            [("LIST_ITEM", "", 0), ("TEXT", "a)", 1), ("BUTTON", "b, c", 1), ("TEXT", "d", 0)],
        ),
        ("A", []),
    ],
)
def test_commas_parentheses_and_digits_in_texts(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert [(node.kind, node.text, node.depth) for node in parse_annotation(text)[0]] == expected


_TEXTS = st.from_regex(r"[a-z(,.0-9'\"-]{1,8}( [a-z,.'-]{1,6}){0,3}|", fullmatch=True)
_NODES = st.recursive(
    st.tuples(st.sampled_from(CLASSES), _TEXTS, st.tuples(*[st.integers(-5, 1100)] * 4), st.just([])),
    lambda inner: st.tuples(
        st.sampled_from(CLASSES), _TEXTS, st.tuples(*[st.integers(-5, 1100)] * 4), st.lists(inner, max_size=3)
    ),
    max_leaves=6,
)


def _written(tree: tuple) -> str:  # type: ignore[type-arg]
    kind, text, (x0, x1, y0, y1), children = tree
    inner = f" ({', '.join(map(_written, children))})" if children else ""
    return " ".join([kind, *([text] if text else []), f"{x0} {x1} {y0} {y1}"]) + inner


def _nodes(tree: tuple, depth: int = 0) -> list[AnnotationNode]:  # type: ignore[type-arg]
    kind, text, (x0, x1, y0, y1), children = tree
    return [
        AnnotationNode(kind, text, (x0, y0, x1, y1), depth),
        *(n for child in children for n in _nodes(child, depth + 1)),
    ]


@pytest.mark.slow
@given(st.lists(_NODES, min_size=1, max_size=3))
def test_what_is_written_is_read(trees: list) -> None:  # type: ignore[type-arg]
    nodes, rest = parse_annotation(", ".join(map(_written, trees)))
    assert rest == "" and nodes == [node for tree in trees for node in _nodes(tree)]


@given(st.text(max_size=80))
def test_any_text_is_refused_without_an_exception(text: str) -> None:
    nodes, rest = parse_annotation(text)
    assert nodes or rest == text or not text.strip()


def test_nested_elements_are_asked_only_where_they_are_innermost(tmp_path: Path) -> None:
    text = (
        "LIST_ITEM 0 900 0 100 (TEXT one 400 500 40 60), TEXT two 0 100 200 300, TEXT Two 200 300 200 300, "
        "BUTTON 0 100 400 500, TEXT 500 600 600 700"
    )
    write_csv(tmp_path / "raw/train.csv", [HEADER, ["5", text]])
    run = unify(tmp_path / "home", "screen_annotation", tmp_path / "raw")
    asked = {prompt_text(row["messages"]): row["answer"] for row in run.samples}
    assert asked == {
        "What is at [450,50]?": "TEXT one",
        "Where is one?": "[450,50]",  # the list item's centre is the text's
        "What is at [50,250]?": "TEXT two",
        "What is at [250,250]?": "TEXT Two",  # twice: no grounding
        "What is at [50,450]?": "BUTTON",
        "List the elements.": "LIST_ITEM\nTEXT one\nTEXT two\nTEXT Two\nBUTTON\nTEXT",
    }
    assert run.items == (6, 6, 0)
    assert run.manifest.counts["losses"] == {"element": {"kept": 4}, "element/listed": {"kept": 2}}
    assert all(row["images"] == [] for row in run.samples)
    assert json.loads(run.samples[0]["provenance"])["image_missing"] == "image_missing"


def test_faults_are_named_and_counted(tmp_path: Path) -> None:
    good = ["9", ", ".join(f"TEXT t{place} 0 10 {place * 20} {place * 20 + 10}" for place in range(12))]
    rows = [
        [*HEADER, "colour"],
        [*good, "x"],
        ["1", "TEXT a 10 5 0 10, TEXT b -3 5 0 10, TEXT c 0 10 0 1200, TEXT d 5 5 0 10, BUTTON e 0 10 0 10", ""],
        ["2", "TEXT a 0 10 0 10, BUTTON cut short 0 1", ""],  # one mapped, one cut
        ["../3", "TEXT a 0 10 0 10, TEXT b 0 10 20 30", ""],
        ["4", "", ""],
        ["5", "words only", ""],
        ["6", "TEXT a 0 10 0 10"],
        ["7", "TEXT a 0 10 0 10), TEXT b 0 10 20 30", ""],
    ]
    write_csv(tmp_path / "raw/train.csv", rows)
    write_csv(tmp_path / "raw/test.csv", [["image_id", "label"], ["1", "x"]])
    write(tmp_path / "rico/combined/9.jpg", b"no picture")
    run = unify(tmp_path / "home", "screen_annotation", tmp_path / "raw", rico=tmp_path / "rico")
    # mapped 12 + 1 + 1 + 1; quarantined 4 boxes, 1 cut, 2 unsafe, 1 empty, 1 words, 1 short row, 1 after the ")"
    assert run.items == (26, 15, 11)
    assert run.reasons == {
        "bad_box": 4,
        "bad_value": 3,
        "unsafe_path": 2,
        "empty_text": 1,
        "truncated_record": 1,
        "unknown_field:colour": 1,
        "missing_field": 1,
        "image_unreadable": 1,
    }
