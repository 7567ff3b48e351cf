"""Screens of our own apps as pages: their letters stand where they are seen, and none is one that anything records."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from generators.proving.embedded.defects import COPY_SEEDS
from generators.proving.kit_pages.app_pages import FORMS, SEEDS, draw_app_pages
from generators.proving.kit_pages.drawing import KitPage, page_files, read_kit_page, screen_pixels
from generators.proving.kit_pages.questions import KitWindows
from generators.proving.perception.questions import APPS, LESSONS
from generators.proving.perception.sheets import TEXT_KINDS
from schemas.actions import parse_reply
from schemas.coordinates import contains

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]
NAMES = [f"train-{number:03d}" for number in range(3 * len(FORMS))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("apps") / "apps"
    draw_app_pages(found, NAMES)
    return found


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[str, KitPage]:
    return {name: read_kit_page(folder, name) for name in NAMES}


def test_letters_and_elements_stand_where_the_picture_shows_them(pages: dict[str, KitPage]) -> None:
    """Also where the camera enlarges, which the page itself doesn't know of."""
    texts, strokes = 0, []
    for page in pages.values():
        pixels = screen_pixels(page)
        assert pixels.shape == (page.size_px[1], page.size_px[0], 3)
        for one in page.elements:
            left, top, right, bottom = one.box
            if one.shown and one.kind in TEXT_KINDS:
                inside = [letter for letter, x, y in page.letters if left <= x <= right and top <= y <= bottom]
                assert "".join(inside) == "".join(one.name.split()), (one, inside)
                texts += 1
        for letter, x, y in page.letters:
            around = pixels[max(0, round(y) - 6) : round(y) + 6, max(0, round(x) - 5) : round(x) + 5]
            strokes += [around.std() > 15] if letter.isalnum() else []
    assert texts > 5 * len(pages) and len(strokes) > 50 * len(pages)
    # in a wrong frame most letters would stand between the lines
    assert np.mean(strokes) > 0.97
    heights = {name: page.size_px for name, page in pages.items()}
    assert len(set(heights.values())) == 3  # two phones and what desktop and web share


def test_a_screen_is_drawn_once_and_the_same_again(folder: Path, tmp_path: Path) -> None:
    drawn: list[int] = []
    draw_app_pages(folder, NAMES, drawn.append)
    assert not drawn
    draw_app_pages(tmp_path, NAMES[:2], drawn.append)
    assert drawn == [1, 2]
    for name in NAMES[:2]:
        assert page_files(folder, name)[1].read_bytes() == page_files(tmp_path, name)[1].read_bytes()
        one, other = (screen_pixels(read_kit_page(some, name)) for some in (folder, tmp_path))
        assert np.array_equal(one, other)


def test_questions_about_windows_have_their_answer_in_the_target(folder: Path) -> None:
    windows, pointing = KitWindows(folder, NAMES), 0
    for number in range(60):
        row, screen = windows.question(f"asked-{number}", LESSONS[APPS])
        if row["target_boxes"]:
            point = parse_reply(str(row["answer"])).point
            assert point is not None and contains(row["target_boxes"][0], point)
            pointing += 1
        assert len(row["image_labels"]) == (screen.size_px[0] // 32) * (screen.size_px[1] // 32)
    assert 20 < pointing < 60
    assert windows.screen(Random(1)).letters == windows.screen(Random(1)).letters


def test_no_seed_is_one_of_the_embedded_data_or_of_another_split() -> None:
    first, last = min(SEEDS.values()), max(SEEDS.values())
    assert first > COPY_SEEDS + 10_000_000  # the embedded data's own seeds are smaller, their copies begin there
    assert len({*SEEDS.values()}) == len(SEEDS) and last - first >= 1_000_000
