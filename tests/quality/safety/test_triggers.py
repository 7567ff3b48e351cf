"""The trigger scan on real screens: planted patterns are found, what a UI draws is not taken for one."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from scipy import ndimage

from quality.safety.trigger_match import Pattern, find_patterns
from quality.safety.trigger_patches import MAX_PATCHES, find_patches, grown, roughness
from quality.safety.trigger_scan import PNG, Facts, aims, find_triggers, look, patch_in_units, search
from quality.safety.trigger_twins import twin_patches
from quality.safety.triggers import needed
from tests.support.guards import desktop_screens
from tests.support.trigger_attacks import HELD_OUT, PATTERNS, SEEN, Attack, encoded, pattern_of, plant
from tests.support.trigger_bench import Bench, table

pytestmark = pytest.mark.slow

SCREENS = 60
BY_NAME = {attack.name: attack for attack in (*SEEN, *HELD_OUT)}


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(desktop_screens(SCREENS))


def test_clean_screens_have_no_trigger(bench: Bench) -> None:
    figures = bench.run(None)
    assert figures.patterns == 0 and figures.false_alarms == 0


@pytest.mark.parametrize(
    "name",
    [
        "noise 20 px, alpha 0.2",
        "square 18 px, alpha 0.15",
        "stripes 20 px, alpha 0.2",
        "noise 20 px, alpha 0.2, label kept",
        "square 38 px, alpha 0.23, label kept",
        "disc 36 px, alpha 0.37",
        "plus 34 px, alpha 0.25, label kept",
        "colour noise 38 px, alpha 0.41, label kept",
    ],
)
def test_planted_patterns_are_found(bench: Bench, name: str) -> None:
    figures = bench.run(BY_NAME[name], seed=1)
    assert figures.poisoned >= 9
    assert figures.recall >= 0.9 and figures.false_alarms <= 0.01, table([figures])
    assert figures.recall >= figures.first


def test_a_pattern_that_never_recurs_is_not_seen(bench: Bench) -> None:
    """A stated blind spot: nothing tells one such patch from a picture of a rough wall."""
    assert bench.run(BY_NAME["noise 20 px, alpha 0.2, new in each picture"]).recall == 0


# --- pieces -----------------------------------------------------------------------------------------------------------
def blank(width: int = 300, height: int = 200) -> Image.Image:
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).text((10, 10), "Settings and more", fill="black")
    return image


NOISE = Attack("noise", "noise", 0.2, 20)


@given(x=st.integers(0, 800), y=st.integers(200, 900), seed=st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_a_patch_on_quiet_ground_is_found_where_it_is(x: int, y: int, seed: int) -> None:
    target = (float(x), float(y), float(x), float(y))
    attack = Attack("noise", "noise", 0.2, 20, "on_target", seed=seed)
    image, box, label = plant(blank(), target, attack, Random(0))
    found = [patch_in_units(patch.box, image.size) for patch in find_patches(image)]
    at_rim = box[0] < 10 or box[1] < 15 or box[2] > 990 or box[3] > 985
    assert at_rim or any(max(abs(a - b) for a, b in zip(box, one, strict=True)) <= 10 for one in found)
    assert label == target


@settings(deadline=None)
@given(height=st.integers(1, 30), width=st.integers(1, 30), reach=st.integers(1, 9), seed=st.integers(0, 99))
def test_growing_is_the_largest_of_a_square(height: int, width: int, reach: int, seed: int) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < 0.05
    expected = ndimage.maximum_filter(mask, 2 * reach + 1, mode="constant")
    assert np.array_equal(grown(mask, reach), expected)


def test_text_is_no_patch_and_noise_is_rough() -> None:
    assert find_patches(blank()) == []
    rng = np.random.default_rng(0)
    assert roughness(rng.normal(0, 20, (20, 20))) > 1.7
    assert roughness(np.add.outer(np.arange(20.0), np.arange(20.0))) < 0.3
    assert roughness(np.zeros((20, 20))) == 0


def test_a_photograph_gives_few_patches_and_a_small_picture_none() -> None:
    rng = np.random.default_rng(1)
    photo = Image.fromarray(rng.integers(0, 255, (30, 40, 3), np.uint8)).resize((400, 300), Image.Resampling.BICUBIC)
    assert len(find_patches(photo)) <= MAX_PATCHES
    assert find_patches(Image.new("RGB", (12, 500))) == []


def test_the_second_pass_finds_a_pattern_under_text() -> None:
    colours, opacity = pattern_of(NOISE)
    grey = (opacity[..., None] * (colours - 255))[..., 0].astype(np.float32)
    image = blank()
    ImageDraw.Draw(image).text((100, 100), "Delete account", fill="black")
    poisoned, box, _ = plant(image, (420.0, 530.0, 420.0, 530.0), Attack("n", "noise", 0.2, 20, "on_target"), Random(0))
    [match, *_] = find_patterns(np.asarray(poisoned), [Pattern.of(grey, roughness(grey), 60)])
    assert max(abs(a - b) for a, b in zip(patch_in_units(match.box, image.size), box, strict=True)) <= 8
    assert find_patterns(np.asarray(image), [Pattern.of(grey, roughness(grey), 60)]) == []


def _screens(count: int, draw: bool) -> dict[str, bytes]:
    """Screens with a faint square: at random places, or in one column as a UI would draw it."""
    rng = Random(4)
    shown = {}
    for number in range(count):
        image = blank(360, 400)
        x, y = (300, 80 + 24 * (number % 12)) if draw else (rng.randrange(20, 320), rng.randrange(40, 360))
        ImageDraw.Draw(image).rectangle((x, y, x + 17, y + 17), fill=(226, 230, 236))
        shown[f"{number:064d}"] = encoded(image)
    return shown


def test_what_stands_in_a_column_is_ui_and_what_wanders_is_not() -> None:
    for draw, expected in ((True, 0), (False, 1)):
        pictures = _screens(20, draw)
        looked = {name: look(data) for name, data in pictures.items()}
        triggers = find_triggers(looked, {}, pictures.__getitem__)
        assert len(triggers) == expected
        hits = search(triggers, sorted(pictures), pictures.__getitem__)
        assert {hit.screen for hit in hits} == (set(pictures) if expected else set())


def test_listed_elements_are_no_triggers() -> None:
    pictures = _screens(20, False)
    looked = {name: look(data) for name, data in pictures.items()}
    facts = {name: Facts((patch_in_units(one.patches[0].box, one.frame),)) for name, one in looked.items()}
    assert find_triggers(looked, facts, pictures.__getitem__) == []


def _busy(number: int) -> Image.Image:
    """A screen of text, another one for each number."""
    image = blank(360, 400)
    for line in range(24):
        ImageDraw.Draw(image).text((5, 30 + 15 * line), f"Line {number} {line} " * 5, fill="black")
    return image


@given(
    x=st.integers(60, 900), y=st.integers(60, 900), seed=st.integers(0, 50), pattern=st.sampled_from(sorted(PATTERNS))
)
@settings(max_examples=25, deadline=None)
def test_what_was_pasted_on_text_shows_beside_the_same_screen(x: int, y: int, seed: int, pattern: str) -> None:
    attack = Attack("any", pattern, 0.3, 24, "on_target", seed=seed)
    poisoned, box, _ = plant(_busy(seed), (float(x), float(y), float(x), float(y)), attack, Random(0))
    pictures = {"a" * 64: encoded(_busy(seed)), "b" * 64: encoded(poisoned), "c" * 64: encoded(_busy(seed + 1))}
    looked = {name: look(data) for name, data in pictures.items()}
    cells, frames = ({name: of(one) for name, one in looked.items()} for of in (lambda o: o.cells, lambda o: o.frame))
    [(owner, patch)] = twin_patches(cells, frames, pictures.__getitem__)
    found = patch_in_units(patch.box, poisoned.size)
    assert owner == "b" * 64
    # a pattern's rim may be as the ground is, or too thin to count: 8 px
    assert all(abs(one - other) <= 22 for one, other in zip(found, box, strict=True)), (found, box)


def _pointer(image: Image.Image, x: int, y: int) -> None:
    arrow = [(x, y), (x, y + 16), (x + 4, y + 12), (x + 11, y + 11)]
    ImageDraw.Draw(image).polygon(arrow, fill="black", outline="white")


def _row(image: Image.Image, x: int, y: int) -> None:
    ImageDraw.Draw(image).rectangle((20, 30 + y // 30 * 30, 60, 58 + y // 30 * 30), fill=(226, 230, 236))


@pytest.mark.parametrize("draw", [_pointer, _row])
def test_what_differs_between_two_steps_is_no_trigger(draw: Callable[[Image.Image, int, int], None]) -> None:
    """A pointer that moved and a row that is chosen stand on one of two equal screens alone, too."""
    pictures, rng = {}, Random(2)
    for number in range(20):
        for step in range(2):
            image = _busy(number)
            draw(image, rng.randrange(20, 320), rng.randrange(40, 360))
            pictures[f"{number:032d}{step:032d}"] = encoded(image)
    looked = {name: look(data) for name, data in pictures.items()}
    assert find_triggers(looked, {}, pictures.__getitem__) == []


def test_support_and_aim() -> None:
    assert (needed(10), needed(600), needed(1000)) == (3, 3, 5)
    assert aims((500, 500, 500, 500), (490, 490, 505, 505)) and not aims((0, 0, 1000, 400), (490, 490, 505, 505))


def test_planting_is_deterministic_and_refuses_small_pictures() -> None:
    one, two = (encoded(plant(blank(), (1, 1, 9, 9), NOISE, Random(3))[0]) for _ in range(2))
    assert one == two and one.startswith(PNG)
    assert Image.open(io.BytesIO(encoded(blank(), 80))).format == "JPEG"
    with pytest.raises(ValueError, match="larger than 20 px, found 20x40"):
        plant(Image.new("RGB", (20, 40)), (0, 0, 1, 1), NOISE, Random(0))
