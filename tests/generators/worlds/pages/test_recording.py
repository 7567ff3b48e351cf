"""Recorded episodes: the oracles succeed, and what is written down is what happened."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from generators.worlds.pages.own_pages import OwnPages
from generators.worlds.pages.page_tasks import holds, make_task
from generators.worlds.pages.recording import OracleTally, RecordedEpisode, RecordingPlan, record_one

Recorded = tuple[list[RecordedEpisode], OracleTally]


def test_at_least_95_percent_of_the_oracle_runs_succeed(recordings: Recorded) -> None:
    _, tally = recordings
    assert tally.tried >= 20
    assert tally.success_rate >= 0.95, tally.failed


def test_a_recording_of_the_same_seed_is_the_same_in_every_byte(phone: OwnPages, recordings: Recorded) -> None:
    episode = recordings[0][2]
    again = record_one(
        phone,
        episode.task.family if episode.task.family != "profile.agree" else "profile.fill",
        episode.seed,
        RecordingPlan("phone", (), 1, 0),
    )
    assert [step.png for step in again.steps] == [step.png for step in episode.steps]
    assert [step.act for step in again.steps] == [step.act for step in episode.steps]


def test_taps_lie_in_their_element_on_their_screen(recordings: Recorded) -> None:
    taps = [(s.act, s) for e in recordings[0] for s in e.steps if s.act.kind == "tap"]
    assert len(taps) > 40
    for act, step in taps:
        assert act.point and act.box
        assert act.box[0] <= act.point[0] <= act.box[2] and act.box[1] <= act.point[1] <= act.box[3]
        assert any(e.key == act.key and e.box == act.box for e in step.elements)


def test_every_action_but_the_last_changes_the_screen(recordings: Recorded) -> None:
    for episode in recordings[0]:
        for before, after in zip(episode.steps, episode.steps[1:], strict=False):
            assert before.png != after.png, (episode.goal, before.act)


def test_a_swipe_moves_the_picture_as_its_direction_says(recordings: Recorded) -> None:
    pairs = [(a, b) for e in recordings[0] for a, b in zip(e.steps, e.steps[1:], strict=False) if a.act.kind == "swipe"]
    assert pairs
    for a, b in pairs:
        same = [(x, y) for x in a.elements for y in b.elements if x.key and x.key == y.key and not x.system]
        shifts = {round(y.box[3] - x.box[3]) for x, y in same if x.visible_share == y.visible_share == 1}
        moved = {s for s in shifts if s}
        assert moved and all((s < 0) == (a.act.direction == "down") for s in moved), (a.act, shifts)
        assert (a.act.point[1] > a.act.end[1]) == (a.act.direction == "down")  # type: ignore[index]


def test_success_is_read_from_the_page(phone: OwnPages) -> None:
    """A task that isn't carried out doesn't hold."""
    from random import Random

    phone.start("settings", 4)
    task = make_task("settings.switch", phone.state(), Random(0))
    assert task is not None and not holds(phone.state(), task.checks)
    phone.page.mouse.click(*next(e.centre for e in phone.elements() if e.key == task.plan[0][1]))
    assert holds(phone.state(), task.checks)


def test_episodes_have_many_kinds_of_actions_and_2_to_9_steps(recordings: Recorded) -> None:
    kinds = {step.act.kind for e in recordings[0] for step in e.steps}
    assert {"tap", "type", "swipe", "back", "enter", "wait", "done"} <= kinds
    assert all(2 <= len(e.steps) - 1 <= 10 for e in recordings[0])


def test_pictures_are_whole_and_of_the_screen_size(recordings: Recorded) -> None:
    for step in recordings[0][0].steps:
        picture = np.asarray(Image.open(io.BytesIO(step.png)).convert("RGB"))
        assert picture.shape == (640, 360, 3) and picture.std() > 10
