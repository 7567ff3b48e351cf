"""Episodes as pictures: a frame a step, actions where they point, any text drawn."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from PIL import Image

from generators.execution import episode_film
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from quality.items.drawing import BLUE, RED
from schemas.actions import Action, Click, Drag, Finished, Type

SIZE = (400, 200)
SCALE, HEAD = 1.6, 56
"""400 x 200 is shown as 640 x 320, below two lines of the goal."""
HOSTILE = "<script>\u202e\x1b[31m漢字 🙂 \ud800 العربية" + "w" * 5000


def _screen() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", SIZE, "white").save(buffer, "PNG")
    return buffer.getvalue()


def _episode(
    actions: Sequence[Action | None], verdict: episode_film.Verdict = "solved", words: str = "Do it."
) -> episode_film.FilmedEpisode:
    task = TaskSpec(words, "web", "t", {"world": "fsm"}, {"rule": "state_conditions"}, 3)
    turns = tuple(
        ExecutedTurn("a", SIZE, (), words, action, words, error=words * (i == 1)) for i, action in enumerate(actions)
    )
    end = ExecutedTurn("a", SIZE, (), "", None)
    done = ExecutedTrajectory(task, "p", "d", 0, turns, end, {}, "", "finished")
    return episode_film.FilmedEpisode(done, {"a": _screen()}, verdict, words)


def test_a_frame_a_step_and_the_verdict_last() -> None:
    episode = _episode([Click((250, 500)), Type("x"), Finished()])
    with Image.open(io.BytesIO(episode.animation())) as film:
        assert (film.format, film.n_frames, film.size) == ("WEBP", 4, (640 + 2 * episode_film.MARGIN, HEAD + 320 + 96))
        times = []
        for number in range(film.n_frames):
            film.seek(number)
            film.load()
            times.append(film.info["duration"])
    assert times == [episode_film.STEP_MS] * 3 + [episode_film.LAST_MS]
    assert episode.animation() == _episode([Click((250, 500)), Type("x"), Finished()]).animation(), "equal bytes"


def test_actions_are_drawn_where_they_point() -> None:
    click, drag, wait, last = _episode([Click((250, 500)), Drag((100, 100), (900, 100)), None]).frames()
    # a quarter of 640 px to the right, half of 320 px down; a drag's middle lies on its arrow
    point = (episode_film.MARGIN + 160, HEAD + 160)
    assert click.getpixel(point) == RED and drag.getpixel((episode_film.MARGIN + 320, HEAD + 32)) == BLUE
    assert wait.getpixel(point) == last.getpixel(point) == (255, 255, 255)
    assert click.getpixel((episode_film.MARGIN + 160 + 40, HEAD + 160)) == (255, 255, 255), "a ring, no blot"


@pytest.mark.parametrize("verdict", episode_film.COLOURS)
def test_the_last_frame_has_the_verdicts_colour(verdict: episode_film.Verdict) -> None:
    *_, last = _episode([Finished()], verdict).frames()
    assert "#{:02x}{:02x}{:02x}".format(*last.getpixel((2, last.height - 2))) == episode_film.COLOURS[verdict]  # type: ignore[misc]


def test_any_text_is_drawn_and_kept_within_its_lines() -> None:
    episode = _episode([None, Type(HOSTILE.replace("\ud800", "")), Finished()], words=HOSTILE)
    frames = list(episode.frames())
    assert {frame.size for frame in frames} == {frames[0].size}
    for frame in frames[:-1]:  # nothing runs into the margin
        edge = frame.crop((frame.width - episode_film.MARGIN + 2, 0, frame.width, frame.height))
        assert len(edge.getcolors() or []) == 2  # paper and the band
    line = episode_film.turn_line(2, episode.done.turns[1])
    assert line.startswith("  2  Type(content='<script>") and line.isprintable() and len(line) < 2500
    json.dumps(episode.plain())


def test_a_sheet_shows_the_first_frames_and_the_last() -> None:
    few, many = (
        Image.open(io.BytesIO(_episode([Click((number, 500)) for number in range(count)]).sheet())) for count in (2, 40)
    )
    assert few.width < many.width and many.height > 2 * few.height
    rows = episode_film.SHEET_FRAMES // 4
    assert many.height % rows < 16 and many.getpixel((many.width - 12, many.height - 12))[1] > 100  # type: ignore[index]


def test_seconds_are_left_out_of_what_is_hashed() -> None:
    episode = _episode([Click((1, 2)), Finished()])
    plain, timed = episode.plain(timings=False), episode.plain()
    assert [step["action"] for step in plain["steps"]] == ["Click(box=(1,2))", "Finished(content='')"]  # type: ignore[attr-defined]
    assert "seconds" in timed and "decide_s" in timed["steps"][0]  # type: ignore[index]
    assert "seconds" not in plain and not {"observe_s", "decide_s", "act_s"} & set(plain["steps"][0])  # type: ignore[index]


def test_an_episode_without_a_screen_says_so() -> None:
    task = TaskSpec("x", "web", "t", {"world": "fsm"}, {"rule": "r"}, 1)
    lost = ExecutedTrajectory(task, "p", "d", 0, (), None, {}, "", "failed", "infrastructure", "no browser")
    with pytest.raises(ValueError, match="no screen to show"):
        episode_film.FilmedEpisode(lost, {}, "not counted", "no browser").sheet()
