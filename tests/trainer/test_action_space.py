"""Which actions a model was taught: its checkpoint says so, its replies are read so, and two spaces aren't mixed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn import draw

from generators.policies.policy import PolicyView
from schemas.actions import Action, Click, GetUrl, RightClick, SelectOption, TakeNote, render
from schemas.settings import SettingsError
from trainer.evaluation.evaluate import judge
from trainer.merging.merge import merge
from trainer.merging.same_model import CheckpointMismatch
from trainer.modeling.checkpoint import lineage, load_checkpoint, read_lineage, read_preset, save_checkpoint
from trainer.modeling.processor import Processor
from trainer.presets import Preset
from trainer.reading.read import on_screen
from trainer.reading.windows import ScreenWindow
from trainer.rl.rewards import DEFAULT, ReplyTarget, reward, score_action, step_success, succeeds, unreadable
from trainer.rl.terms.distance import distance
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.settings.presets import configured
from trainer.settings.tree import TrainerSettings, over
from trainer.stages.checkpoints import _require_spoken
from trainer.stages.settings import preset_from, stage_settings

BOX = (100.0, 200.0, 300.0, 400.0)
CHOICE = SelectOption((200, 300), "Date modified")


def reply(action: Action) -> str:
    return f"<think></think><action>{render(action, 'web')}</action><conclusion></conclusion>"


def row(action: Action, box: tuple[float, ...] | None = None) -> dict[str, Any]:
    boxes = [list(box)] if box else []
    return {"sample_id": "a", "objective": "navigation", "answer": reply(action), "target_boxes": boxes}


@pytest.mark.parametrize(
    ("found", "truth", "value"),
    [
        (RightClick((500, 500)), RightClick((500, 500)), 2.0),
        (RightClick((500, 600)), RightClick((500, 500)), 1.5),  # δ2 <= 100 < δ1
        (Click((500, 500)), RightClick((500, 500)), 0.0),
        (CHOICE, CHOICE, 2.0),  # 1 + (1 + 1) / 2
        (SelectOption((200, 300), "Date"), CHOICE, 1 + (1 + 2 / 3) / 2),
        (SelectOption((900, 900), "date modified"), CHOICE, 1.5),  # the option alone
        (SelectOption((200, 300), "Name"), CHOICE, 1.5),  # the list alone
        (GetUrl(), GetUrl(), 1.0),
        (TakeNote("room 12"), TakeNote("Room 12"), 2.0),
        (TakeNote("a"), TakeNote("b"), 1.0),
    ],
)
def test_what_the_four_earn(found: Action, truth: Action, value: float) -> None:
    assert score_action(found, truth) == pytest.approx(value)


def test_a_choice_is_right_with_the_list_and_the_whole_option() -> None:
    assert step_success(CHOICE, CHOICE) and step_success(SelectOption((100, 200), "date modified"), CHOICE, BOX)
    assert not step_success(SelectOption((200, 300), "Date"), CHOICE)  # another option may be called so
    assert not step_success(SelectOption((900, 900), "Date modified"), CHOICE)
    assert step_success(RightClick((200, 369)), RightClick((200, 300)))
    assert step_success(GetUrl(), GetUrl()) and not step_success(TakeNote("a"), TakeNote("b"))


@pytest.mark.parametrize("action", [RightClick((200, 300)), CHOICE, GetUrl(), TakeNote("it's (a)")])
def test_a_reply_is_read_in_the_space_of_its_model(action: Action) -> None:
    wide, narrow = (ReplyTarget.of_sample(row(action, BOX), space) for space in ("v2", "v1.5"))  # type: ignore[arg-type]
    assert wide.action == narrow.action == action  # a stored answer is read whoever is held to it
    assert succeeds(reply(action), wide, DEFAULT) and not unreadable(reply(action), wide)
    assert unreadable(reply(action), narrow) and not succeeds(reply(action), narrow, DEFAULT)
    assert reward(reply(action), narrow) == pytest.approx(0.1) and reward(reply(action), wide) > 0.9
    assert judge(row(action), reply(action), space="v2")["step"] == 1.0
    assert judge(row(action), reply(action))["step"] == 0.0


def test_other_parts_know_where_a_choice_points() -> None:
    target = ReplyTarget.of_sample(row(CHOICE, BOX), "v2")
    assert distance(reply(CHOICE), target) == 1.0
    window = ScreenWindow(100, 0, 600, 500, (1000, 1000), (500, 500))
    assert on_screen(reply(CHOICE), window) == reply(SelectOption((200, 150), "Date modified"))


def test_the_setting_reaches_the_base_alone() -> None:
    plain = over(configured(), {})
    wide = over(configured(), {"action_space": "v2"})
    assert preset_from(plain).action_space == "v1.5" and preset_from(wide).action_space == "v2"
    assert "action_space" not in stage_settings("base", {}).of_stage("base")  # versions of v1.5 stay what they were
    assert stage_settings("base", {"action_space": "v2"}).of_stage("base")["action_space"] == "v2"
    assert "action_space" not in stage_settings("mid_trained", {"action_space": "v2"}).of_stage("mid_trained")
    with pytest.raises(SettingsError, match="action_space"):
        TrainerSettings.parsed({"action_space": "v3"})


def test_a_preset_says_another_space_and_keeps_its_bytes_under_the_usual_one(tiny_preset: Preset) -> None:
    assert "action_space" not in tiny_preset.plain()
    assert replace(tiny_preset, action_space="v2").plain() == {**tiny_preset.plain(), "action_space": "v2"}
    with pytest.raises(ValueError, match="v1.5, v2"):
        replace(tiny_preset, action_space="v3")  # type: ignore[arg-type]


@pytest.fixture
def folders(model: Any, processor: Any, tiny_preset: Preset, tmp_path: Path) -> dict[str, Path]:
    """The same weights, as a checkpoint of each space."""
    for space in ("v1.5", "v2"):
        preset = replace(tiny_preset, action_space=space)  # type: ignore[arg-type]
        spoken = Processor(processor.tokenizer, processor.images, preset)
        save_checkpoint(tmp_path / space, model, spoken, lineage("tiny", preset))
    return {space: tmp_path / space for space in ("v1.5", "v2")}


def test_a_checkpoint_remembers_its_space_and_is_played_in_it(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = reply(RightClick((1, 2)))
    seen = PolicyView("do it", draw({"red": (10, 10, 60, 60)}), (224, 160), "web")
    for space, folder in folders.items():
        assert read_preset(folder).action_space == read_lineage(folder)["action_space"] == space
        policy = CheckpointPolicy(load_checkpoint(folder))
        whole = policy._complete

        def says(asked: dict[str, Any], seed: int, whole: Any = whole) -> Any:
            completion, tokens = whole(asked, seed)
            return replace(completion, text=said), tokens

        monkeypatch.setattr(policy, "_complete", says)
        policy.begin("do it", "web", 0)
        assert policy.decide(seen).action == (RightClick((1, 2)) if space == "v2" else None)
    assert "action_space" not in json.loads((folders["v1.5"] / "preset.json").read_text())


def test_a_base_is_not_trained_on_actions_that_it_does_not_speak(tiny_preset: Preset) -> None:
    rows = [row(Click((1, 2))), row(TakeNote("RightClick(")), {**row(Click((1, 2))), "objective": "vqa"}]
    _require_spoken(rows, replace(tiny_preset, action_space="v2"))
    _require_spoken(rows[:1], tiny_preset)
    with pytest.raises(ValueError, match=r"the actions of v1.5, which the base speaks, found TakeNote; make the base"):
        _require_spoken(rows, tiny_preset)


def test_two_spaces_are_not_merged(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(CheckpointMismatch, match="action_space"):
        merge("linear", folders["v1.5"], [folders["v2"], folders["v1.5"]], tmp_path / "out")
    assert not (tmp_path / "out").exists()
