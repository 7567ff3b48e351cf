"""Steps of recorded episodes: low and high instructions, 14 % of the screen, whole traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tfrecords import android_control_features, small_episode, write_examples

from pipelines.mapping.adapter import Raw
from pipelines.prompts import navigation_text, prompt_text, reply_text
from pipelines.store import Store
from pipelines.unify.unify import unify_source
from schemas.action_types import Click, Finished, Launch, PressBack, Scroll, Type
from schemas.actions import Action
from trainer.evaluation.controls import BlindTable
from trainer.suites.answering import SuiteAnswer
from trainer.suites.steps import StepsConfig, evaluate_steps, score, told_messages

FILE = "android_control-00000-of-00020"


class Says:
    """Answers by the prompt's first line (`Goal: …`), a reply each."""

    name = "says"

    def __init__(self, **said: Action) -> None:
        self.said = {words.replace("_", " "): action for words, action in said.items()}
        self.asked: list[dict[str, Any]] = []

    def __call__(self, rows: Sequence[Any], most: int, /) -> list[SuiteAnswer]:
        self.asked += rows
        goals = [prompt_text(row["messages"]).splitlines()[0].removeprefix("Goal: ") for row in rows]
        return [SuiteAnswer(reply_text(self.said.get(goal, PressBack()), "mobile")) for goal in goals]


@pytest.fixture
def recorded(tmp_path: Path) -> Store:
    """One test episode of five actions (and the closing Finished), one training episode."""
    actions = [
        {"action_type": "open_app", "app_name": "Clock"},
        {"action_type": "click", "x": 50, "y": 50},
        {"action_type": "scroll", "direction": "down"},
        {"action_type": "input_text", "text": "tea time"},
        {"action_type": "navigate_back"},
    ]
    words = [b"open the clock", b"tap the middle", b"swipe up", b"type tea time", b"go back"]
    test = small_episode(actions, episode_id=[1], goal=[b"Set the clock"], step_instructions=words)
    train = small_episode(actions[:1], episode_id=[2], goal=[b"Set the clock"], step_instructions=words[:1])
    write_examples(tmp_path / "raw" / FILE, [test, train])
    (tmp_path / "raw/splits.json").write_text(json.dumps({"train": [2], "validation": [], "test": [1]}))
    store = Store(tmp_path / "home")
    unify_source(store, "android_control", Raw(tmp_path / "raw"))
    return store


def test_low_level_asks_each_step_by_its_own_words(recorded: Store) -> None:
    model = Says(
        open_the_clock=Launch(app="Clock"),
        tap_the_middle=Click((600, 350)),
        swipe_up=Scroll(direction="down"),
        type_tea_time=Type("coffee"),
        go_back=PressBack(),
    )
    report = evaluate_steps(recorded, "android_control", "low", model)
    summary = report["summary"]
    # (500,250) is true; (600,350) is 141 away: the type is right, the point is not
    assert {r["true_type"]: (r["type"], r["step"]) for r in report["records"]} == {
        "Launch": (1.0, 1.0),
        "Click": (1.0, 0.0),
        "Scroll": (1.0, 1.0),
        "Type": (1.0, 0.0),
        "PressBack": (1.0, 1.0),
    }
    assert summary["type"]["mean"] == 1.0 and summary["step"]["mean"] == 0.6 and summary["grounding"]["mean"] == 0.0
    assert summary["grounding"]["n"] == 1 and summary["format"]["mean"] == 1.0
    assert report["read"]["not_asked"]["no_instruction"] == 1  # the Finished has no words of its own
    assert summary["trace"]["n"] == 1 and summary["trace"]["mean"] == 0.0  # whole without it
    assert prompt_text(model.asked[2]["messages"]) == navigation_text(
        "swipe up", [(1, "Launch(app='Clock')"), (2, "Click(box=(500,250))")]
    )


def test_high_level_asks_for_the_goal_and_knows_traces(recorded: Store) -> None:
    class Right(Says):
        def __call__(self, rows: Sequence[Any], most: int, /) -> list[SuiteAnswer]:
            return [SuiteAnswer(row["answer"]) for row in rows]

    report = evaluate_steps(recorded, "android_control", "high", Right())
    assert report["summary"]["trace"]["mean"] == report["summary"]["step_strict"]["mean"] == 1.0
    assert report["summary"]["types"]["Finished"] == 1 and report["summary"]["step_without_finished"]["n"] == 5
    constant = evaluate_steps(
        recorded,
        "android_control",
        "high",
        Says(),
        blind=BlindTable(
            [
                {
                    "objective": "navigation",
                    "platform": "mobile",
                    "messages": json.dumps([{"role": "user", "content": "x"}]),
                    "answer": reply_text(Click((500, 250)), "mobile"),
                }
            ]
        ),
    )
    assert constant["summary"]["step"]["mean"] == pytest.approx(1 / 6) and constant["summary"]["trace"]["mean"] == 0.0
    controls = constant["summary"]["controls"]
    assert controls["blind"]["mean"] == controls["commonest_type"]["mean"] == pytest.approx(1 / 6)
    assert {r["episode"] for r in constant["records"]} == {"android_control/1"}  # the training episode isn't asked


def test_the_radius_and_the_box(recorded: Store) -> None:
    def row(action: Action, box: list[float] | None = None) -> dict[str, Any]:
        return {"objective": "navigation", "answer": reply_text(action, "mobile"), "target_boxes": [box] if box else []}

    def said(action: Action) -> str:
        return reply_text(action, "mobile")

    near, far, off = Click((560, 500)), Click((639, 500)), Click((640, 500))
    measured = [score(said(found), row(Click((500, 500)))) for found in (near, far, off)]
    assert [m["step"] for m in measured] == [1.0, 1.0, 0.0]  # below 14 %
    assert [m["step_strict"] for m in measured] == [1.0, 0.0, 0.0]  # below 7 %
    inside = score(said(Click((900, 500))), row(Click((500, 500)), [0.0, 480.0, 1000.0, 520.0]))
    assert inside["grounding"] == inside["step_strict"] == 1.0  # the target is wide
    wrong = score(said(Type("x")), row(Click((500, 500))))
    assert (wrong["type"], wrong["grounding"], wrong["step"]) == (0.0, 0.0, 0.0)
    assert score("nonsense", row(Finished()))["format"] == 0.0


def test_others_are_told_the_actions_and_the_recorded_history(recorded: Store) -> None:
    model = Says()
    evaluate_steps(recorded, "android_control", "low", model)
    system, user = told_messages(model.asked[1])
    assert "Launch(app=" in system["content"] and user["content"][0]["text"].startswith("Goal: tap the middle")
    assert "1. Launch(app='Clock')" in user["content"][0]["text"] and user["content"][1]["type"] == "image_url"


def test_whole_episodes_are_chosen_and_what_is_missing_is_told(recorded: Store, tmp_path: Path) -> None:
    for screen in (recorded.home / "screens").rglob("*.png"):
        screen.unlink()
    with pytest.raises(ValueError, match="no step's picture is in the store.*'picture_missing': 6"):
        evaluate_steps(recorded, "android_control", "high", Says(), StepsConfig(limit=1))
    with pytest.raises(ValueError, match="expected unified/aitz in the store"):
        evaluate_steps(recorded, "aitz", "high", Says())
    with pytest.raises(ValueError, match="no step of the split 'validation'"):
        evaluate_steps(recorded, "android_control", "high", Says(), StepsConfig(split="validation"))


def test_real_episodes(samples_dir: Callable[[str], Path], tmp_path: Path) -> None:
    episodes = json.loads((samples_dir("android_control") / "adp_sample_raw_all_without_trees.json").read_text())
    write_examples(tmp_path / "raw" / FILE, [android_control_features(episode) for episode in episodes])
    (tmp_path / "raw/splits.json").write_text(json.dumps({"train": [], "validation": [], "test": [0, 20, 40]}))
    store = Store(tmp_path / "home")
    unify_source(store, "android_control", Raw(tmp_path / "raw"))
    model = Says(Go_to_the_Past_section=Click((500, 163)))
    report = evaluate_steps(store, "android_control", "low", model)
    assert len(report["records"]) == 8  # native steps of the three; the closing Finished has no words
    assert {r["true_type"]: r["step"] for r in report["records"] if r["episode"].endswith("/0")} == {
        "Launch": 0.0,
        "Wait": 0.0,
        "Click": 1.0,
    }
    assert len(evaluate_steps(store, "android_control", "high", model)["records"]) == 11
