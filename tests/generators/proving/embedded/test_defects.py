"""Each planted defect is really there, judged against the clean recording; and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.proving.embedded import defects
from generators.proving.embedded.defects import (
    LOW_ITEM,
    UNREADABLE,
    DefectRates,
    Marked,
    PlantedDefect,
    plant,
    shift_point,
)
from generators.worlds.pages.own_pages import PageElement
from generators.worlds.pages.recording import OracleTally, RecordedEpisode

pytestmark = pytest.mark.slow

Recorded = tuple[list[RecordedEpisode], OracleTally]
COPIES = {"duplicate_record", "paraphrased_duplicate"}


def _hit(elements: Sequence[PageElement], point: tuple[int, int]) -> set[str]:
    return {e.key for e in elements if e.key and e.box[0] <= point[0] <= e.box[2] and e.box[1] <= point[1] <= e.box[3]}


def _first(recordings: Recorded, kind: str, whole: bool = False) -> tuple[RecordedEpisode, Marked, int]:
    """The first place of the recordings where the defect can be planted."""
    rng = Random(kind)
    for episode in recordings[0]:
        for i in range(len(episode.steps) - 1):
            marked = Marked(episode)
            if whole:
                done = defects._whole(kind, marked, rng)
            elif kind in LOW_ITEM:
                done = defects._apply(kind, marked, i, rng)
            else:
                done = defects._unreadable(kind, marked, i)
            if done:
                return episode, marked, i
    raise AssertionError(f"{kind} could be planted nowhere")


def test_a_shifted_point_misses_its_element(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "shifted_point")
    new, old = marked.episode.steps[i].act, clean.steps[i].act
    assert old.key in _hit(clean.steps[i].elements, old.point)  # type: ignore[arg-type]
    assert old.key not in _hit(clean.steps[i].elements, new.point)  # type: ignore[arg-type]
    assert marked.marks[i][1]["point"] == old.point


@given(
    left=st.integers(0, 300),
    top=st.integers(0, 580),
    width=st.integers(4, 60),
    height=st.integers(4, 60),
    seed=st.integers(0, 999),
)
def test_shift_is_half_to_two_sizes_and_stays_on_the_screen(
    left: int, top: int, width: int, height: int, seed: int
) -> None:
    box = (left, top, left + width, top + height)
    x, y = left + width // 2, top + height // 2
    point = shift_point((x, y), box, (360, 640), Random(seed))
    if point is None:
        return
    dx = max(box[0] - point[0], point[0] - box[2], 0) / width
    dy = max(box[1] - point[1], point[1] - box[3], 0) / height
    assert 0 <= point[0] < 360 and 0 <= point[1] < 640
    assert 0.5 - 1 / min(width, height) <= max(dx, dy) <= 2.0 + 1 / min(width, height)


def test_a_wrong_element_is_another_one_that_can_be_hit(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "wrong_element")
    hit = _hit(clean.steps[i].elements, marked.episode.steps[i].act.point)  # type: ignore[arg-type]
    assert hit and clean.steps[i].act.key not in hit


def test_an_off_by_one_screenshot_is_that_of_the_next_step(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "off_by_one_screenshot")
    assert marked.episode.steps[i].png == clean.steps[i + 1].png != clean.steps[i].png
    assert marked.episode.steps[i].act == clean.steps[i].act


def test_a_flipped_scroll_has_its_ends_and_its_word_swapped(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "flipped_scroll")
    new, old = marked.episode.steps[i].act, clean.steps[i].act
    assert (new.point, new.end) == (old.end, old.point) and {new.direction, old.direction} == {"up", "down"}


def test_wrong_text_is_neither_typed_nor_asked_for(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "wrong_text")
    new, old = marked.episode.steps[i].act.text, clean.steps[i].act.text
    assert new and new != old and new not in clean.goal and old in clean.goal


def test_a_repeated_click_changes_nothing(recordings: Recorded) -> None:
    clean, marked, i = _first(recordings, "repeated_click")
    steps = marked.episode.steps
    assert len(steps) == len(clean.steps) + 1
    assert steps[i + 1].act == steps[i].act
    assert steps[i + 1].png == steps[i + 2].png


def test_a_near_miss_names_something_else(recordings: Recorded) -> None:
    clean, marked, _ = _first(recordings, "near_miss_instruction", whole=True)
    assert marked.whole is not None
    original = marked.whole[1]
    assert marked.episode.goal != clean.goal == original["goal"]
    assert original["true"].lower() in clean.goal.lower() and original["untrue"].lower() in marked.episode.goal.lower()
    assert [s.act for s in marked.episode.steps] == [s.act for s in clean.steps]


def test_a_premature_finish_says_done_before_it_is(recordings: Recorded) -> None:
    clean, marked, _ = _first(recordings, "premature_finish", whole=True)
    steps = marked.episode.steps
    assert steps[-1].act.kind == "done" and len(steps) < len(clean.steps)
    assert steps[-1].png == clean.steps[len(steps) - 1].png != clean.steps[-1].png


@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_items_cannot_be_read(recordings: Recorded, kind: str) -> None:
    from pipelines.store.images import ImageError, read_image

    clean, marked, i = _first(recordings, kind)
    new = marked.episode.steps[i]
    if kind == "off_screen":
        assert new.act.point[0] > clean.width  # type: ignore[index]
    elif kind == "corrupt_picture":
        with pytest.raises(ImageError):
            read_image(new.png)
    elif kind == "empty_text":
        assert new.act.kind == "type" and new.act.text == ""
    else:
        assert new.act.kind == "unknown"


def _many(recordings: Recorded) -> list[RecordedEpisode]:
    """The recordings four times under other ids: enough that rates show."""
    return [replace(e, uid=f"{n}{e.uid}", seed=e.seed + 1000 * n) for n in range(1, 5) for e in recordings[0]]


def test_about_30_percent_of_the_items_are_low_fidelity(recordings: Recorded) -> None:
    episodes = _many(recordings)
    damaged, truths = plant(episodes, DefectRates(), 1)
    items = {e.uid: len(e.steps) for e in damaged}
    whole = {t.record for t in truths if t.low_fidelity and t.item is None}
    low = sum(items[uid] for uid in whole) + len([t for t in truths if t.low_fidelity and t.item is not None])
    assert 0.27 <= low / sum(items.values()) <= 0.33
    assert {t.defect for t in truths if t.low_fidelity} == {*defects.LOW_ITEM, *defects.LOW_RECORD}
    assert {t.defect for t in truths if not t.low_fidelity} == {*UNREADABLE, *COPIES}


def test_what_has_no_truth_line_is_as_it_was_recorded(recordings: Recorded) -> None:
    episodes = _many(recordings)
    damaged, truths = plant(episodes, DefectRates(), 2)
    clean = {e.uid: e for e in episodes}
    named: dict[str, list[PlantedDefect]] = {}
    for truth in truths:
        named.setdefault(truth.record, []).append(truth)
    for episode in damaged[: len(episodes)]:
        mine = [t for t in named.get(episode.uid, []) if t.defect not in COPIES]
        if not mine:
            assert episode == clean[episode.uid]
        elif all(t.item is not None for t in mine):
            extra = sorted(t.item for t in mine if t.defect == "repeated_click" and t.item is not None)
            touched = {t.item for t in mine}
            old = iter(clean[episode.uid].steps)
            for i, step in enumerate(episode.steps):
                if i in extra:
                    continue
                original = next(old)
                if i not in touched:
                    assert step == original


def test_planting_is_a_function_of_its_seed(recordings: Recorded) -> None:
    one, two, other = (plant(_many(recordings), DefectRates(), seed) for seed in (3, 3, 4))
    assert one == two
    assert one[1] != other[1]


def test_without_rates_nothing_is_planted(recordings: Recorded) -> None:
    assert plant(recordings[0], DefectRates(0, 0, 0, 0, 0, 0), 0) == (list(recordings[0]), [])


def test_copies_are_exact_or_have_the_goal_in_other_words(recordings: Recorded) -> None:
    episodes = _many(recordings)
    damaged, truths = plant(episodes, DefectRates(), 5)
    by_uid = {e.uid: e for e in damaged}
    copies = [t for t in truths if t.defect == "duplicate_record"]
    reworded = [t for t in truths if t.defect == "paraphrased_duplicate"]
    assert copies and reworded
    for truth in copies:
        assert sum(e == by_uid[truth.record] for e in damaged) == 2
    for truth in reworded:
        copy, first = by_uid[truth.record], by_uid[truth.original["of"]]
        assert copy.steps == first.steps and copy.goal != first.goal


def test_rates_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="near_miss"):
        DefectRates(low=0.1, near_miss=0.2)
