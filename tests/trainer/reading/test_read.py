"""Reading in parts: who answers, and where its point lies on the screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from red_seer import SCREEN, RedSeer, hits, screen

from pipelines.prompts import REFUSAL, grounding_text, messages
from trainer.modeling.batches import BadSample, Row
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.generation import Completion
from trainer.reading.read import Answer, looking, on_screen, read
from trainer.reading.windows import ScreenWindow, whole
from trainer.settings.reading import Reading


def row(objective: str = "grounding", **more: Any) -> dict[str, Any]:
    text = messages("grounding", grounding_text("the red one"))
    return {
        "sample_id": "one",
        "objective": objective,
        "platform": "mobile",
        "messages": text,
        "images": [screen()],
        "answer": "",
        **more,
    }


def point(text: str) -> list[int]:
    return [int(number) for number in text.strip("[]").split(",")]


def asked_with(reading: Reading, eye: RedSeer, **more: Any) -> Answer:
    [answer] = read([row(**more)], reading, eye, lambda pixels: pixels)
    return answer


def test_the_surest_window_answers_for_the_screen() -> None:
    eye = RedSeer()
    answer = asked_with(Reading(mode="windows"), eye)
    assert hits(*point(answer.text))
    assert answer.asked == len(eye.asked) == 6 and set(eye.asked) == {(320, 448)}
    assert answer.view.window.size == (320, 448)
    assert answer.completion.text != answer.text, "it was said of the window"


def test_where_every_window_refuses_the_whole_screen_has_the_last_word() -> None:
    eye = RedSeer()
    answer = asked_with(Reading(mode="windows"), eye, images=[screen(None)])
    assert answer.text == REFUSAL and answer.asked == 7 and eye.asked[-1] == SCREEN

    wide = (20, 100, 520, 800)  # more than any window shows
    assert hits(*point(asked_with(Reading(mode="windows"), RedSeer(), images=[screen(wide)]).text), wide)


def test_a_screen_on_which_no_window_is_sure_enough_is_refused() -> None:
    class Doubter(RedSeer):
        """Says a place in every window, and of the right one that it is there with three chances of four."""

        def answer(self, asked: Row) -> Completion:
            found = super().answer(asked)
            there = found.text != REFUSAL
            return Completion(0, 0, text=found.text if there else "[1,1]", decided=[math.log(0.75 if there else 0.55)])

    def said(sure_from: float, **more: Any) -> Answer:
        return asked_with(Reading(mode="windows", sure_from=sure_from), Doubter(), **more)

    assert hits(*point(said(0.7).text)) and hits(*point(said(0.0).text))
    refused = said(0.8)
    assert refused.text == REFUSAL and refused.asked == 6, "the whole screen isn't asked"
    assert said(0.6, images=[screen(None)]).text == REFUSAL != said(0.5, images=[screen(None)]).text
    assert said(0.8, objective="navigation").text != REFUSAL, "a step has to be taken"


def test_a_model_thats_sure_of_a_place_yields_to_one_thats_sure_of_the_presence() -> None:
    class Guesser(RedSeer):
        def answer(self, asked: Row) -> Completion:
            found = super().answer(asked)
            there = found.text != REFUSAL
            return Completion(
                0,
                0,
                text=found.text if there else "[1,1]",
                decided=[-0.1 if there else -0.7],
                logprobs=[-9.0 if there else 0.0],
            )

    assert hits(*point(asked_with(Reading(mode="windows"), Guesser()).text))


def test_zoom_looks_twice_at_what_was_answered_first() -> None:
    eye = RedSeer()
    answer = asked_with(Reading(mode="zoom", zoom=3.0), eye)
    assert hits(*point(answer.text))
    assert eye.asked == [SCREEN, SCREEN], "the part is shown enlarged"
    assert answer.view.window.size == (180, 320)


def test_zoom_keeps_the_first_answer_where_the_second_look_finds_nothing() -> None:
    class Shy(RedSeer):
        def answer(self, asked: Row) -> Completion:
            found = super().answer(asked)
            return found if len(self.asked) == 1 else Completion(0, 0, text=REFUSAL)

    answer = asked_with(Reading(mode="zoom"), Shy())
    assert hits(*point(answer.text)) and answer.asked == 2 and answer.view.window == whole(SCREEN)


def test_an_action_is_mapped_and_the_rest_of_the_reply_stays() -> None:
    eye = RedSeer("<think>there</think><action>Click(box=({x},{y}))</action><conclusion></conclusion>")
    answer = asked_with(Reading(mode="windows"), eye, objective="navigation")
    assert answer.text.startswith("<think>there</think><action>Click(box=(")
    assert hits(*point(answer.text.partition("box=(")[2].partition(")")[0]))


@pytest.mark.parametrize("more", [{"objective": "vqa"}, {"images": []}])
def test_what_doesnt_point_at_one_screen_is_put_as_it_is(more: dict[str, Any]) -> None:
    asked: list[Row] = []

    def ask(rows: Sequence[Row]) -> list[Completion]:
        asked.extend(rows)
        return [Completion(0, 0, text="blue") for _ in rows]

    given = row(**more)
    [answer] = read([given], Reading(mode="windows"), ask, lambda pixels: pixels)
    assert answer.text == "blue" and asked == [given]


def test_a_picture_that_cant_be_decoded_is_named() -> None:
    with pytest.raises(BadSample, match="one"):
        asked_with(Reading(mode="windows"), RedSeer(), images=[b"no picture"])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("[500,500] 0.75", "[200,500] 0.75"),
        (REFUSAL, REFUSAL),
        ("Scroll(start=(500,900), end=(500,100))", "Scroll(start=(200,900), end=(200,100))"),
        ("<action>PressBack()</action>", "<action>PressBack()</action>"),
        ("what?", "what?"),
    ],
)
def test_replies_in_the_frame_of_the_screen(said: str, expected: str) -> None:
    assert on_screen(said, ScreenWindow(100, 0, 300, 400, (1000, 400), (200, 400))) == expected


@pytest.mark.parametrize(
    "said", ["`[150, 200]`", "[1,2,3,4]", "[1,2] 0.80", "Click(10, 20)", "<action>Click(1,2)</action>"]
)
@pytest.mark.parametrize("reading", [Reading(), Reading(mode="windows", window=SCREEN)])
def test_a_reply_about_the_whole_screen_stays_as_it_was_written(said: str, reading: Reading) -> None:
    [answer] = read([row()], reading, lambda rows: [Completion(0, 0, text=said) for _ in rows], lambda pixels: pixels)
    assert answer.text == said


def test_looking_otherwise_leaves_the_checkpoint_as_it_is(processor: Any) -> None:
    given = Checkpoint(None, processor, {})
    assert looking(given, None) is given
    assert looking(given, "zoom").processor.preset.reading.mode == "zoom"
    assert given.processor.preset.reading.mode == "whole"
