"""Rules that all adapters share: a target that hangs over, U+0000 in texts, steps by their numbers."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import native
import pytest
from native import write_bytes, write_json
from webnative import png

from pipelines import sources
from pipelines.mapping.adapter import Raw, Record
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.frames import whole_sides
from pipelines.mapping.items import ItemError, by_number, picture_bytes, read_splits
from pipelines.mapping.record_error import with_fields
from pipelines.native import guicourse, named_boxes
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.suites._rows import thousandths
from pipelines.unify.unify import unify_source
from schemas.action_types import Wait


@pytest.mark.parametrize(("right", "taken"), [(1000, True), (1015, True), (1020, True), (1030, False)])
def test_sources_and_suites_cut_the_same_overhang(right: int, taken: bool) -> None:
    box = [100, 100, right, 200]
    ways = (
        lambda: named_boxes.unit_box(box, (1000, 1000), "x"),
        lambda: guicourse.unit_box(f"<box>{', '.join(map(str, box))}</box>", "x", 1000),
        lambda: thousandths(box, "xyxy", (1000, 1000)),
    )
    for way in ways:
        if taken:
            assert way() == (100, 100, min(right, 1000), 200) and way().cut is (right > 1000)
        else:
            with pytest.raises((ItemError, ValueError), match=r"off|hangs over"):
                way()


def showui(folder: Path, *elements: dict[str, Any]) -> Raw:
    made = native.fixture("showui_web").write.__globals__
    write_json(folder / "raw/metadata/hf_train.json", [made["page"]("a.png", *elements)])
    write_bytes(folder / "raw/images/a.png", png(192, 108))
    return Raw(folder)


def test_an_overhang_is_said_in_the_provenance_and_nul_is_left_out_of_texts(tmp_path: Path) -> None:
    element = native.fixture("showui_web").write.__globals__["element"]
    saved, plain = element("Sa\0ve", 0.5, 0.1, 1.01, 0.2), element("Open", 0.1, 0.1, 0.5, 0.2)
    raw = showui(tmp_path / "raw", saved, plain, element("Far", 0.5, 0.1, 1.1, 0.2))
    manifest = unify_source(Store(tmp_path / "home"), "showui_web", raw)
    rows = {row["provenance"]: row["messages"] for row in manifest.read("samples").to_pylist()}
    cut = [text for said, text in rows.items() if "cut_at_border" in said]
    assert len(cut) >= 1 and sum("Where is Save?" in text for text in cut) == 1
    assert manifest.counts["reasons"].get("off_screen") == 1
    assert not any("\\u0000" in text or "\0" in text for text in rows.values())
    assert manifest.counts["texts_cleaned"] >= 1
    assert "\0" not in json.dumps(manifest.read("screens").to_pylist(), default=str)


NUMBER = {"amex": "step_id", "learngui": "step_id", "gui_odyssey": "step", "agentnet": "index"}


PICTURE = png(40, 20)
BASE64 = base64.b64encode(PICTURE).decode()


@pytest.mark.parametrize(
    "cell",
    [
        PICTURE,
        {"bytes": PICTURE, "path": None},
        {"bytes": BASE64, "path": "a.png"},
        list(PICTURE),
        BASE64,
        BASE64.replace("A", "A\n"),
        f"data:image/png;base64,{BASE64}",
        [{"bytes": PICTURE}],
    ],
)
def test_a_cell_is_the_picture_in_whichever_form_a_tool_wrote_it(cell: object) -> None:
    assert picture_bytes(cell) == PICTURE


@pytest.mark.parametrize(
    "cell", [None, "a.png", "a" * 60, "/somewhere/" * 20 + ".png", {"path": "a.png"}, [], [300], [[]]]
)
def test_a_name_of_a_picture_is_none(cell: object) -> None:
    assert picture_bytes(cell) is None


def test_numbers_that_a_tool_wrote_as_text_are_numbers() -> None:
    assert whole_sides(["200", "100.0"]) == whole_sides([200.0, 100]) == (200, 100)
    assert [whole_sides(["200", odd]) for odd in ("", "-1", "0.5", "1e2", "NaN", "٣", True, "9999999999")] == [None] * 8
    assert named_boxes.unit_box(["20", "20", "80.0", 60], (200, 100), "x") == (100, 200, 400, 600)
    with pytest.raises(ItemError, match="expected four numbers"):
        named_boxes.unit_box(["20", "20", "80", "wide"], (200, 100), "x")


@pytest.mark.parametrize("source", NUMBER)
def test_steps_stand_in_the_order_of_their_numbers(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path / "plain")
    native.fixture(source).write(tmp_path / "turned")
    turned = sum(turn(path, NUMBER[source]) for path in (tmp_path / "turned").rglob("*.json*"))
    assert turned > 0, "the fixture has an episode of numbered steps"
    made = [
        unify_source(Store(tmp_path / f"home {name}"), source, native.raw_of(source, tmp_path / name))
        for name in ("plain", "turned")
    ]
    assert texts(made[0]) == texts(made[1]) and len(texts(made[0])) > 2


def turn(path: Path, name: str) -> int:
    """Write a file's lists of numbered steps the other way round; how many there are."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    count, written = 0, []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            written.append(line)
            continue
        held = value.values() if isinstance(value, dict) else ()
        for steps in held:
            numbered = isinstance(steps, list) and [s.get(name) for s in steps if isinstance(s, dict)]
            whole = numbered and len(numbered) == len(steps) and all(type(n) is int for n in numbered)
            if whole and len(set(numbered)) == len(numbered):  # of two with one number the first counts
                steps.reverse()
                count += 1
        written.append(json.dumps(value))
    path.write_text("\n".join(written) + ("\n" if path.suffix == ".jsonl" else ""))
    return count


def texts(manifest: Manifest) -> list[tuple[str, int, str, bool]]:
    rows = manifest.read("steps").to_pylist()
    return sorted((r["episode_id"], r["step_index"], str(r["action_text"]), "gap_at" in r["provenance"]) for r in rows)


def test_a_missing_number_is_a_gap_and_one_that_repeats_is_named() -> None:
    adapter = sources.get("amex")
    builder = EpisodeBuilder(adapter.descriptor, Record("f", "l", {}), episode_id="e", instruction="do")
    steps = [{"n": number, "at": place} for place, number in enumerate((3, 1, 1, 5))]
    seen = []
    for place, one in builder.numbered(steps, "n"):
        seen.append((place, one.step["n"], one.step["at"]))
        builder.add(Wait(), native=one.step, native_index=place, word="w", screen=None)
    made = builder.finish()
    assert seen == [(0, 1, 1), (2, 3, 0), (3, 5, 3)]
    assert ["steps_missing_in_source" in row["provenance"] for row in made.steps] == [False, True, True]
    assert [(one.reason, one.detail) for one in made.rejects] == [("duplicate", "n 1 stands twice")]
    assert made.items == 4 and made.mapped == 3


def test_a_list_of_a_name_that_is_not_known_is_held_out(tmp_path: Path) -> None:
    lists = {"train": [1, 2, 3.0], "valid": ["4"], "test_geo": [2.0], "tset": ["3"], "version": 2}
    path = write_json(tmp_path / "splits.json", lists)
    assert read_splits(path) == {"1": "train", "2": "test", "3": "test", "4": "validation"}


def test_numbers_of_steps_may_be_text_or_floats() -> None:
    steps = [{"n": "10"}, {"n": 9.0}, {"n": "7"}]
    assert [(one.step["n"], one.after_gap) for one in by_number(steps, "n")] == [
        ("7", True),
        (9.0, True),
        ("10", False),
    ]


def _records(source: str, root: Path) -> list[Record]:
    native.fixture(source).write(root)
    adapter, raw = sources.get(source), native.raw_of(source, root)
    found = [one for files in adapter.parts(raw) for one in adapter.records(raw, files)]
    return [one for one in found if isinstance(one, Record)]


def _outcome(source: str, record: Record, root: Path) -> str | None:
    steps = sources.get(source).map(record, native.raw_of(source, root)).steps
    return steps[0]["episode_outcome"] if steps else None


@pytest.mark.parametrize("source", ["aitw", "aitz", "gui_360"])
def test_an_episode_with_fewer_steps_than_it_says_is_no_success(source: str, tmp_path: Path) -> None:
    whole = next(one for one in _records(source, tmp_path) if _outcome(source, one, tmp_path) == "success")
    steps = copy.deepcopy(whole.payload["steps"] if isinstance(whole.payload, dict) else whole.payload)
    if source == "gui_360":
        for step in steps:
            step["total_steps"] = len(steps) + 1
    else:
        del steps[0]
    cut = replace(whole, payload={"steps": steps} if isinstance(whole.payload, dict) else steps)
    assert _outcome(source, cut, tmp_path) is None


@pytest.mark.parametrize("source", ["guiact_smartphone", "guiact_web_multi", "multimodal_mind2web"])
def test_a_step_that_stands_twice_is_mapped_once_and_named(source: str, tmp_path: Path) -> None:
    adapter, raw = sources.get(source), native.raw_of(source, tmp_path)
    for record in _records(source, tmp_path):
        once = adapter.map(record, raw)
        rows = record.payload["rows"] if isinstance(record.payload, dict) else record.payload
        # As where a file was joined to itself.
        twice = [row for row in rows for _ in range(2)]
        payload = (
            twice if rows is record.payload else {**record.payload, "rows": twice, "pictures": [None] * len(twice)}
        )
        found = adapter.map(replace(record, payload=payload), raw)
        assert [row["action_text"] for row in found.steps] == [row["action_text"] for row in once.steps]
        assert sum(one.reason == "duplicate" for one in found.rejects) == len(rows)
        break


def test_a_missing_field_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    seen = with_fields(
        "unknown_action:None", "data_type: expected text", {"native": {"class_name": 1}, "native_index": 0}
    )
    assert seen == "data_type: expected text; it has class_name"
    assert (
        with_fields("missing_field", "task: expected a text", {"a": 1, "b": 2}) == "task: expected a text; it has a, b"
    )
    assert with_fields("missing_field", "x", {f"f{n}": 0 for n in range(20)}).endswith("f11 and 8 more")
    assert with_fields("off_screen", "x", {"a": 1}) == "x" and with_fields("missing_field", "x", [1]) == "x"
    raw = showui(tmp_path / "raw", {"instruction": "Go", "bbox": [0.1, 0.1, 0.2, 0.2], "kind": "text"})
    rows = unify_source(Store(tmp_path / "home"), "showui_web", raw).read("quarantine").to_pylist()
    assert any(row["detail"].endswith("found none; it has instruction, bbox, kind") for row in rows), rows
