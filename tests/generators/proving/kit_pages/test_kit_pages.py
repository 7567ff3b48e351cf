"""Pages in real fonts: what is drawn, what a window shows, and questions that nobody can answer without looking."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from generators.proving.kit_pages import drawing, styles
from generators.proving.kit_pages.families import FAMILIES, HELD_OUT_FAMILIES, WORD
from generators.proving.kit_pages.naming import Naming, missing, namings
from generators.proving.kit_pages.questions import KitWindows, of_lesson
from generators.proving.kit_pages.windows import SIZE, PageWindow, as_screen, cut
from generators.proving.perception.labels import LETTERS, letter_labels
from generators.proving.perception.questions import KITS, KITS_ABSENT, KITS_HELD_OUT, LESSONS
from generators.proving.perception.screens import PastedScreen
from generators.proving.perception.sheets import TEXT_KINDS
from pipelines.prompts import REFUSAL
from schemas.actions import parse_reply
from schemas.coordinates import box_to_unit, contains

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]
TRAIN = [f"train-{number:03d}" for number in range(24)]
HELD = [f"held-{number:03d}" for number in range(4)]
EVERYTHING = styles.Material(
    (*styles.FONTS, *styles.HELD_OUT_FONTS),
    tuple(look.name for look in (*styles.LOOKS, *styles.HELD_OUT_LOOKS)),
    (styles.OWN_ICONS, "lucide", "bootstrap"),
    ("en", "de", "es", "zh"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("kits") / "kits"
    drawing.draw_kit_pages(found, [*TRAIN, *HELD])
    return found


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, drawing.KitPage]:
    return {name: drawing.read_kit_page(folder, name) for name in [*TRAIN, *HELD]}


def test_pages_differ_and_their_elements_show(pages: dict[str, drawing.KitPage]) -> None:
    assert len({hashlib.sha256(page.picture.read_bytes()).hexdigest() for page in pages.values()}) == len(pages)
    shown = hidden = 0
    for page in pages.values():
        pixels = drawing.screen_pixels(page)
        assert pixels.shape == (page.size_px[1], page.size_px[0], 3)
        for one in page.elements:
            left, top, right, bottom = one.box
            if left < 0 or top < 0 or right > page.size_px[0] or bottom > page.size_px[1]:
                assert not one.shown
                continue
            shown, hidden = shown + one.shown, hidden + (not one.shown)
            assert not one.shown or pixels[top:bottom, left:right].std() > 1, one
    assert shown > 20 * len(pages)
    assert hidden < 0.03 * shown  # a family that covers or cuts what it shows is to be mended


def test_what_is_drawn_goes_on_and_is_drawn_the_same_again(folder: Path, tmp_path: Path) -> None:
    drawn: list[int] = []
    drawing.draw_kit_pages(folder, TRAIN, drawn.append)
    assert not drawn
    drawing.draw_kit_pages(tmp_path / "kits", TRAIN[:2], drawn.append)
    assert drawn == [1, 2]
    for name in TRAIN[:2]:
        one, other = (drawing.screen_pixels(drawing.read_kit_page(some, name)) for some in (folder, tmp_path / "kits"))
        assert np.array_equal(one, other)
        assert (
            drawing.page_files(folder, name)[1].read_bytes()
            == drawing.page_files(tmp_path / "kits", name)[1].read_bytes()
        )


def test_without_kits_the_browser_alone_is_enough(folder: Path) -> None:
    found = drawing.read_material(folder)
    assert {"flat", "outlined", "underlined"} <= set(found.looks)
    assert not {"bootstrap", "bulma", "pico"} & set(found.looks)
    assert found.icons == (styles.OWN_ICONS,)
    assert {"en", "de", "es"} <= set(found.languages)


def test_a_kit_that_is_there_is_used(tmp_path: Path) -> None:
    sheet = tmp_path / "ui_kits" / "bootstrap/dist/css/bootstrap.min.css"
    sheet.parent.mkdir(parents=True)
    sheet.write_text(".btn-primary { background: #123456 !important }", encoding="utf-8")
    drawing.draw_kit_pages(tmp_path / "kits", TRAIN)
    assert "bootstrap" in drawing.read_material(tmp_path / "kits").looks
    coloured = set()
    for name in TRAIN:
        page = drawing.read_kit_page(tmp_path / "kits", name)
        plain = json.loads(drawing.page_files(tmp_path / "kits", name)[1].read_text(encoding="utf-8"))
        if (drawing.screen_pixels(page) == (0x12, 0x34, 0x56)).all(-1).any():
            coloured.add(plain["style"]["look"])
    assert coloured == {"bootstrap"}


def test_held_out_families_and_styles_are_never_in_training() -> None:
    assert not set(FAMILIES) & set(HELD_OUT_FAMILIES)
    assert not set(styles.FONTS) & set(styles.HELD_OUT_FONTS)
    seen, held = (
        [styles.style_of(Random(seed), EVERYTHING, held_out) for seed in range(300)] for held_out in (False, True)
    )
    for part in ("font", "icons"):
        assert not {getattr(one, part) for one in seen} & {getattr(one, part) for one in held}
    assert not {one.look.name for one in seen} & {one.look.name for one in held}
    assert {one.icons for one in held} == set(styles.HELD_OUT_ICONS)
    assert {one.size_px for one in seen} == {13, 16, 20}
    assert {one.dark for one in seen} == {one.dense for one in seen} == {False, True}
    assert of_lesson([*TRAIN, *HELD], KITS) == TRAIN == of_lesson([*TRAIN, *HELD], KITS_ABSENT)
    assert of_lesson([*TRAIN, *HELD], KITS_HELD_OUT) == HELD
    assert of_lesson(TRAIN, KITS_HELD_OUT) == TRAIN  # the blind table of the gate knows nothing of them


def element(
    kind: str, name: str, top: int, left: int = 200, beside: str = "", shown: bool = True
) -> drawing.KitElement:
    return drawing.KitElement(kind, name, beside, (left, top, left + 40, top + 20), shown)


def test_elements_are_named_by_text_icon_role_place_and_neighbour() -> None:
    rows = (("Wi-Fi", "on"), ("Sound", "off"))
    some = [element("text", name, 40 * place, 0) for place, (name, _) in enumerate(rows)]
    some += [element("switch", f"switch {how}", 40 * place, beside=name) for place, (name, how) in enumerate(rows)]
    some += [element("icon", "search", 100), element("button", "Save", 130), element("text", "Save", 160, 0)]
    window = PageWindow(tuple(some), (), (0, 0))
    found = {naming: one for one, naming in namings(window)}
    assert found[Naming("text", "Wi-Fi")] is some[0]
    assert found[Naming("icon", "search")] is some[4]
    assert found[Naming("role", "Save", "button")] is some[5]
    assert found[Naming("beside", "", "switch", "Sound")] is some[3]
    assert found[Naming("place", "", "switch", "", "top", "second")] is some[3]
    assert found[Naming("place", "", "switch", "", "bottom", "first")] is some[3]
    assert Naming("text", "Save") not in found  # two elements show it
    said = {Naming("icon", "search").said(Random(seed)) for seed in range(20)}
    assert "the magnifier icon" in said
    assert "search icon" in said
    assert "the switch beside Sound" in {Naming("beside", "", "switch", "Sound").said(Random(s)) for s in range(20)}


def test_what_an_edge_cuts_is_neither_asked_for_nor_said_to_be_missing() -> None:
    cut_off = element("switch", "switch on", 60, beside="Sound", shown=False)
    window = PageWindow((element("text", "Wi-Fi", 0, 0), cut_off, element("icon", "bell", 90)), (), (0, 0))
    assert not [naming for one, naming in namings(window) if one is cut_off]
    sibling = PageWindow(
        (element("text", "Sound", 0, 0), element("switch", "switch off", 0, beside="Sound")), (), (0, 0)
    )
    said = {missing(window, sibling, Random(seed)) for seed in range(30)}
    assert said == {Naming("text", "Sound")}
    spelled = PageWindow(window.elements, tuple((letter, 1.0, 1.0) for letter in "sounds"), (0, 0))
    assert missing(spelled, sibling, Random(0)) is None  # it may be part of what is written there


def test_windows_show_their_elements_and_letters_where_they_stand(pages: dict[str, drawing.KitPage]) -> None:
    letters = 0
    for seed, page in enumerate(pages.values()):
        window = cut(page, Random(seed))
        if window is None:
            continue
        screen = as_screen(page, window)
        assert screen.size_px == SIZE
        x, y = window.origin
        assert np.array_equal(screen.pixels, drawing.screen_pixels(page)[y : y + SIZE[1], x : x + SIZE[0]])
        for one, element_ in zip(screen.elements, window.whole, strict=True):
            assert one.box == element_.box
            left, top, right, bottom = one.box
            assert 0 <= left < right <= SIZE[0] and 0 <= top < bottom <= SIZE[1]
            if element_.kind in TEXT_KINDS:
                inside = [a for a, dx, dy in screen.letters if left <= dx <= right and top <= dy <= bottom]
                assert "".join(inside) == "".join(one.drawn.name.split())
        labels = letter_labels(screen)
        letters += int((labels > 0).sum())
        alone = {(int(dx // 8), int(dy // 16)) for letter, dx, dy in screen.letters if letter in LETTERS}
        assert int((labels > 0).sum()) <= len(alone)
    assert letters > 500


def test_two_letters_in_one_part_of_a_patch_are_undecided() -> None:
    pixels = np.zeros((32, 32, 3), np.uint8)
    labels = letter_labels(PastedScreen(pixels, (), (), (("a", 2.0, 8.0), ("b", 6.0, 8.0), ("设", 20.0, 8.0))))
    assert labels[0].tolist() == [[-100, 0], [-100, 0]]


def test_nobody_answers_without_looking_and_a_third_isn_t_there(folder: Path) -> None:
    from trainer.evaluation.controls import BlindTable, random_element

    windows = KitWindows(folder, TRAIN)
    table = BlindTable(windows.question(f"table-{place}", LESSONS[KITS])[0] for place in range(400))
    blind = by_chance = asked = absent = 0.0
    ways = set()
    for place in range(300):
        row, screen = windows.question(f"asked-{place}", LESSONS[KITS])
        if row["objective"] != "grounding":
            continue
        ways.add(row["named_by"])
        if not row["target_boxes"]:
            assert row["answer"] == REFUSAL
            absent += 1
            continue
        [box] = row["target_boxes"]
        answered, point = parse_reply(row["answer"]).point, parse_reply(table.reply(row)).point
        assert answered is not None and contains(box, answered)
        asked += 1
        blind += point is not None and contains(box, point)
        by_chance += random_element([box], [box_to_unit(one.box, screen.size_px) for one in screen.elements])
    assert ways == {"text", "role", "icon", "place", "beside"}
    assert 0.25 < absent / (absent + asked) < 0.45
    assert blind / asked <= by_chance / asked + 0.05


def test_without_pages_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found none"):
        KitWindows(tmp_path, [])


def test_running_text_is_read_and_not_asked_for(pages: dict[str, drawing.KitPage]) -> None:
    words = [one for page in pages.values() for one in page.elements if one.kind == WORD and one.shown]
    assert words
    window = PageWindow(tuple(words[:3]), (), (0, 0))
    assert not window.whole
    assert not namings(window)
