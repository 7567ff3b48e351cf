"""Pasted screens and the questions about them: every answer can be known by looking, and none without."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from generators.proving.perception import sheets
from generators.proving.perception.acts import phrase
from generators.proving.perception.layouts import draw_layouts, read_layout
from generators.proving.perception.questions import (
    LAYOUTS,
    LESSONS,
    WINDOW_LESSONS,
    WORLDS,
    layout_row,
    pasted_row,
)
from generators.proving.perception.screens import SIZES, paste
from pipelines.prompts import PLACES_QUESTION, REFUSAL, prompt_text
from schemas.actions import parse_reply
from schemas.coordinates import box_to_unit

SHEETS = ("train-000", "train-001", "test-000")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sheets, drawn in the real browser."""
    made = tmp_path_factory.mktemp("sheets")
    sheets.draw_sheets(made, SHEETS)
    return made


@pytest.fixture(scope="module")
def sheet(folder: Path) -> sheets.Sheet:
    return sheets.read_sheet(folder, SHEETS[0])


def test_a_sheet_holds_what_was_wanted_and_every_box_has_ink(sheet: sheets.Sheet) -> None:
    assert [(e.kind, e.name, e.colour) for e in sheet.elements] == sheets.wanted(SHEETS[0])
    for element in sheet.elements:
        left, top, right, bottom = element.box
        assert 0 <= left < right <= sheet.pixels.shape[1]
        assert 0 <= top < bottom <= sheet.pixels.shape[0]
        inside = sheet.pixels[top:bottom, left:right]
        assert (inside != np.array(sheet.ground, np.uint8)).any(axis=2).mean() > 0.01, element


def test_a_sheet_is_the_same_in_another_browser(folder: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # which has a Chromium of its own
        thread.submit(sheets.draw_sheets, tmp_path, SHEETS[:1]).result()
    assert np.array_equal(sheets.read_sheet(tmp_path, SHEETS[0]).pixels, sheets.read_sheet(folder, SHEETS[0]).pixels)


def test_drawing_goes_on_where_it_was_cut_off(folder: Path, tmp_path: Path) -> None:
    sheets.drawing(tmp_path, "train-000").with_suffix(".png").write_bytes(
        b"cut off"
    )  # the JSON, written last, is missing
    drawn: list[int] = []
    sheets.draw_sheets(tmp_path, ["train-000"], drawn.append)
    assert drawn == [1]
    assert sheets.read_sheet(tmp_path, "train-000").elements == sheets.read_sheet(folder, "train-000").elements
    sheets.draw_sheets(tmp_path, ["train-000"], drawn.append)
    assert drawn == [1]


def test_pasted_elements_keep_their_pixels_and_never_overlap(sheet: sheets.Sheet) -> None:
    for seed in range(40):
        rng = Random(seed)
        screen = paste(sheet, rng.sample(sheet.elements, 9), rng, rng.choice(SIZES))
        covered = np.zeros(screen.pixels.shape[:2], int)
        for one in screen.elements:
            left, top, right, bottom = one.box
            a, b, c, d = one.drawn.box
            assert np.array_equal(screen.pixels[top:bottom, left:right], sheet.pixels[b:d, a:c])
            covered[top:bottom, left:right] += 1
        assert covered.max() <= 1
        assert (screen.pixels[covered == 0] == np.array(sheet.ground, np.uint8)).all()


def fits(drawn: sheets.SheetElement, asked: str) -> bool:
    """Whether a name may mean an element, read as a person would."""
    asked = asked.casefold()
    if drawn.kind == "shape":
        return asked in (f"{drawn.colour} {drawn.name}", drawn.colour, drawn.name)
    names = [name.casefold() for name in sheets.names_of(drawn)]
    return asked in names


PASTED = [lesson for name, lesson in LESSONS.items() if name not in (LAYOUTS, WORLDS, *WINDOW_LESSONS)]


def phrases(drawn: sheets.SheetElement) -> set[str]:
    """All that people may call an element."""
    return {phrase(drawn, Random(seed)) for seed in range(300)}


@pytest.mark.parametrize("lesson", PASTED, ids=[lesson.name for lesson in PASTED])
def test_a_question_fits_one_element_and_a_refused_one_none(sheet: sheets.Sheet, lesson: object) -> None:
    refused = 0
    for seed in range(120):
        made, screen = pasted_row(f"q-{seed}", sheet, lesson)  # type: ignore[arg-type]
        if made["objective"] != "grounding":
            continue
        asked = prompt_text(made["messages"]).removeprefix("Where is ").removesuffix("?")
        found = [one for one in screen.elements if fits(one.drawn, asked) or asked in phrases(one.drawn)]
        if made["answer"] == REFUSAL:
            refused += 1
            assert not found, (asked, [one.drawn for one in screen.elements])
            assert made["target_boxes"] == []
        else:
            point = parse_reply(made["answer"]).point
            assert len(found) == 1 and point is not None, asked
            left, top, right, bottom = made["target_boxes"][0]
            assert left <= point[0] <= right and top <= point[1] <= bottom
    assert (refused > 0) == (lesson.refusals > 0)  # type: ignore[attr-defined]


def test_captions_and_lists_name_what_stands_there(sheet: sheets.Sheet) -> None:
    kinds = set()
    for seed in range(300):
        made, screen = pasted_row(f"c-{seed}", sheet, LESSONS["mixed"])
        if made["objective"] != "perception":
            continue
        said = made["answer"].splitlines()
        kinds.add(len(said) > 1)
        shown = {
            " ".join(filter(None, (sheets.ROLES[o.drawn.kind], o.drawn.colour, o.drawn.name))) for o in screen.elements
        }
        assert set(said) <= shown
        if len(said) > 1:
            assert len(said) == len(screen.elements)
    assert kinds == {True, False}


def test_rows_are_a_function_of_their_seed(sheet: sheets.Sheet) -> None:
    one, other = (pasted_row("same", sheet, LESSONS["mixed"]) for _ in range(2))
    assert one[0] == other[0]
    assert list(one[0]) == list(other[0])
    assert np.array_equal(one[1].pixels, other[1].pixels)


def test_layouts_show_their_elements_and_refuse_nothing_that_is_cut_off(sheet: sheets.Sheet, tmp_path: Path) -> None:
    names = [f"train-{number:03d}" for number in range(4)]
    draw_layouts(tmp_path, names)
    cuts = 0
    for name in names:
        screen, cut = read_layout(tmp_path, name)
        cuts += len(cut)
        for drawn in [*(one.drawn for one in screen.elements), *cut]:
            spelled = drawn.name.replace(" ", "") if drawn.kind in sheets.TEXT_KINDS else ""
            assert "".join(letter for letter, _, _ in drawn.letters) == spelled, drawn
        assert len({word for one in screen.elements for word in sheets.identity(one.drawn)}) >= len(screen.elements)
        for one in screen.elements:
            left, top, right, bottom = one.box
            assert 0 <= left < right <= screen.size_px[0]
            assert 0 <= top < bottom <= screen.size_px[1]
            assert screen.pixels[top:bottom, left:right].std() > 1, one
        for seed in range(60):
            made = layout_row(f"l-{seed}", (screen, cut), sheet.elements, LESSONS[LAYOUTS])
            asked = prompt_text(made["messages"]).removeprefix("Where is ").removesuffix("?")
            if made["answer"] == REFUSAL:
                assert not any(fits(drawn, asked) for drawn in [*(one.drawn for one in screen.elements), *cut])
            elif made["objective"] == "grounding":
                assert sum(fits(one.drawn, asked) for one in screen.elements) == 1, asked
    assert cuts > 0
    again: list[int] = []
    draw_layouts(tmp_path, names, again.append)
    assert not again


def test_what_another_version_drew_is_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    with monkeypatch.context() as before:
        before.setattr("generators.proving.perception.layouts.VERSION", 3)
        draw_layouts(tmp_path, ["train-000"])
    draw_layouts(tmp_path, ["train-000"], drawn.append)
    assert drawn == [1]


def test_elements_in_another_order_than_the_page_s_are_refused(shared_chromium: None) -> None:
    from generators.devices.browser import Viewport, open_browser

    save, circle = ("button", "Save as", ""), ("shape", "circle", "red")
    with open_browser(Viewport(320, 448)) as context:
        page = context.new_page()
        page.set_content("<b class=e>Save as</b> <i class=e></i>")
        assert [one.name for one in sheets.drawn_on(page, ".e", [save, circle], "layout x")] == ["Save as", "circle"]
        for wrong in ([circle, save], [("button", "Save", ""), circle]):
            with pytest.raises(RuntimeError, match=r"layout x: the .* shows the letters 'Saveas'"):
                sheets.drawn_on(page, ".e", wrong, "layout x")


def test_a_list_with_places_has_a_point_in_every_box(sheet: sheets.Sheet) -> None:
    seen, lesson = 0, replace(LESSONS["shapes"], places=0.5)
    for seed in range(60):
        made, screen = pasted_row(f"p-{seed}", sheet, lesson)
        if prompt_text(made["messages"]) != PLACES_QUESTION:
            continue
        seen += 1
        lines = made["answer"].splitlines()
        assert len(lines) == len(screen.elements)
        for line in lines:
            name, _, point = line.partition(" [")
            x, y = (int(part) for part in point.rstrip("]").split(","))
            [one] = [o for o in screen.elements if f"shape {o.drawn.colour} {o.drawn.name}" == name]
            left, top, right, bottom = box_to_unit(one.box, screen.size_px)
            assert left <= x <= right
            assert top <= y <= bottom
    assert seen > 5
