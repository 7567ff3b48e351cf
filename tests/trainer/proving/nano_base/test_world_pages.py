"""Screens of the worlds as perception material: what a name means on them, and what never appears on them."""

from __future__ import annotations

import json

import pytest

from generators.proving.perception.labels import image_labels, letter_labels
from generators.proving.perception.questions import WORLDS
from generators.tasks.world_interface import ScreenElement
from pipelines.prompts import REFUSAL, prompt_text
from schemas.actions import parse_reply
from schemas.coordinates import box_to_unit, contains
from trainer.proving.nano_base.source import Drawings, PerceptionSource
from trainer.proving.nano_base.world_pages import draw_pages, elements, page_families, read_screens, spelled, written
from trainer.proving.staircase.tasks import SPLIT_SEEDS

SIZE = (320, 416)


def place(
    box: tuple[float, ...], role: str, text: str, name: str, clickable: bool = True, key: str = "k"
) -> ScreenElement:
    return ScreenElement(box, role, text, name, key, clickable)  # type: ignore[arg-type]


def test_a_label_means_its_control_and_a_line_means_its_row() -> None:
    row = place((0, 500, 1000, 600), "listitem", "Chores 2 done", "Chores2 done")
    line = place((140, 510, 330, 550), "text", "Chores", "Chores", False)
    box, label = (
        place((40, 260, 160, 320), "checkbox", "", "Gl8"),
        place((170, 260, 275, 320), "text", "Gl8", "Gl8", False),
    )
    title = place((40, 90, 500, 130), "heading", "Notes", "Notes", False)
    found, other = elements([row, line, box, label, title], SIZE)
    boxes = {(one.kind, one.name): one.box for one in found}
    assert boxes == {
        ("text", "Chores"): (0, 208, 320, 250),
        ("checkbox", "Gl8"): (13, 108, 51, 133),
        ("text", "Notes"): (13, 37, 160, 54),
    }
    assert [one.name for one in other] == ["Chores2 done"]  # no one can read it like that
    assert {one.name for one in written([row, line, box, label, title], SIZE)} == {"Chores", "Gl8", "Notes"}


def test_what_two_controls_are_called_is_asked_of_neither() -> None:
    two = [place((0, y, 200, y + 50), "button", "Reply", "Reply") for y in (100.0, 300.0)]
    system = place((0, 920, 300, 1000), "button", "", "Back", key="sys:back")
    sign = place((800, 20, 880, 80), "button", "", "Sort")
    found, other = elements([*two, system, sign], SIZE)
    assert [(one.kind, one.name) for one in found] == [("icon", "Sort")]
    assert [one.name for one in other] == ["Reply"]


def test_a_control_inside_another_of_its_name_is_the_one_that_is_meant() -> None:
    outer = place((0, 500, 900, 600), "button", "JAze", "JAze")
    found, _ = elements([outer, place((400, 530, 500, 570), "radio", "", "JAze")], SIZE)
    assert [(one.kind, one.box) for one in found] == [("radio", (128, 220, 160, 237))]


def test_a_text_stands_where_its_letters_do() -> None:
    line = [(letter, 20.0 + 10 * at, 30.0) for at, letter in enumerate("Mail sent twice") if letter != " "]
    below = [(letter, 20.0 + 10 * at, 50.0) for at, letter in enumerate("Urgent")]
    row = (0, 10, 320, 70)
    assert spelled("Mail sent twice", row, [*below, *line]) == (15, 22, 165, 38)
    assert spelled("mail sent twice urgent", row, [*below, *line]) == (15, 22, 165, 58)
    assert spelled("Mail", row, [("", x, y) for _, x, y in line]) is None  # covered: nobody knows
    assert spelled("Mail", (0, 40, 320, 70), line) is None and spelled("", row, line) is None
    place_of_row = place((0, 24, 1000, 168), "link", "Mail sent twice Urgent", "Mail sent twice")
    [found], _ = elements([place_of_row], (320, 416), line)
    assert (found.kind, found.box) == ("link", (15, 22, 165, 38))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawings:
    from generators.proving.perception.sheets import draw_sheets

    folder = tmp_path_factory.mktemp("pages")
    draw_sheets(folder / "sheets", ["train-000"])
    names = ("train-000", "train-001", "train-002")
    draw_pages(folder / "pages", names)
    return Drawings(folder, ("train-000",), (), names)


@pytest.mark.timeout(240)
def test_pages_are_drawn_once_from_seeds_of_their_own(drawn: Drawings) -> None:
    folder = drawn.folder / "pages"
    families = [json.loads((folder / f"{name}.json").read_text())["family"] for name in drawn.pages]
    assert families == [family.name for family in page_families()[:3]]
    assert {family.partition("/")[0] for family in families} == {"miniwob", "fsm", "phone"}
    assert not any(family.held_out for family in page_families())
    assert SPLIT_SEEDS["seen"] != SPLIT_SEEDS["unseen"] and len(set(SPLIT_SEEDS.values())) == len(SPLIT_SEEDS)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    draw_pages(folder, drawn.pages)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    for name in drawn.pages:
        screens = json.loads((folder / f"{name}.json").read_text())["screens"]
        assert len(list(folder.glob(f"{name}-*.png"))) == len(screens) >= 2
        assert all(side % 32 == 0 for screen, _ in read_screens(folder, name) for side in screen.size_px)


@pytest.mark.timeout(240)
def test_questions_about_them_have_the_answer_on_the_screen(drawn: Drawings) -> None:
    source = PerceptionSource(drawn, {WORLDS: 1.0}, "pages")
    kinds = set()
    for number in range(80):
        row, screen = source.question(number)
        kinds.add(row["objective"])
        if row["answer"] == REFUSAL:
            asked = prompt_text(row["messages"]).removeprefix("Where is ").removesuffix("?").casefold()
            assert asked not in {one.drawn.name.casefold() for one in screen.elements}
        elif row["target_boxes"]:
            reply = parse_reply(row["answer"])
            point = reply.point or reply.action.box  # type: ignore[union-attr]
            assert contains(row["target_boxes"][0], point)
            assert row["target_boxes"][0] in [list(box_to_unit(one.box, screen.size_px)) for one in screen.elements]
    assert kinds == {"navigation", "grounding", "perception"}


@pytest.mark.timeout(240)
def test_the_letters_of_a_line_spell_its_text(drawn: Drawings) -> None:
    lines = 0
    for name in drawn.pages:
        for screen, _ in read_screens(drawn.folder / "pages", name):
            for one in screen.written:
                left, top, right, bottom = one.box
                inside = [(x, letter) for letter, x, y in screen.letters if left <= x <= right and top <= y <= bottom]
                if one.drawn.kind == "text" and bottom - top < 30 and all(letter for _, letter in inside):
                    spelled = "".join(letter for _, letter in sorted(inside))
                    if "…" not in spelled and len(spelled) == len(one.drawn.name.replace(" ", "")):
                        assert spelled == one.drawn.name.replace(" ", "")
                        lines += 1
            assert (letter_labels(screen) > 0).any()
    assert lines >= 10


def test_names_are_learned_where_they_are_written() -> None:
    from random import Random

    import numpy as np

    from generators.proving.perception.screens import Pasted, PastedScreen
    from generators.proving.perception.sheets import SheetElement

    row = Pasted(SheetElement("text", "Chores", "", (0, 0, 320, 32)), (0, 0, 320, 32))
    line = Pasted(SheetElement("text", "Chores", "", (64, 0, 124, 32)), (64, 0, 124, 32))
    screen = PastedScreen(np.zeros((32, 320, 3), np.uint8), (row,), (line,))
    named = image_labels(screen, Random(0), grounding=False)
    asked = image_labels(screen, Random(0), grounding=True, asked=row)
    assert [place for place, label in enumerate(named) if label.text] == [2, 3]
    assert all(label.text for label in asked)
