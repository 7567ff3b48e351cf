"""A checkpoint as a policy: a tiny random model, asked as it would be trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drawn import draw
from guided import tasks_of
from policy_contract import DrawnSite, check_policy
from red_seer import RedSeer, hits, screen

from generators.policies.episode import run_episode
from generators.policies.policy import PastTurn, PolicyError, PolicyView
from generators.policies.registry import POLICIES, build_policy
from pipelines.derivers.base import DeriveConfig
from pipelines.derivers.navigation import navigation
from pipelines.prompts import prompt_text
from schemas.action_types import Click, Scroll, Type
from schemas.actions import format, parse_reply
from trainer.modeling.checkpoint import Checkpoint, lineage, save_checkpoint
from trainer.modeling.generation import Completion
from trainer.modeling.processor import Processor
from trainer.serving.checkpoint_policy import CheckpointPolicy, checkpoint_policies
from trainer.settings.reading import Reading

PAST = (
    PastTurn(Click((1, 2))),
    PastTurn(None),
    PastTurn(Scroll(direction="down")),
    PastTurn(Type("a'b")),
    PastTurn(Click((3, 4))),
)


@pytest.fixture
def checkpoint(model: Any, processor: Any, tiny_preset: Any) -> Checkpoint:
    from dataclasses import asdict

    return Checkpoint(model.eval(), processor, asdict(lineage("tiny", tiny_preset)))


def view(png: bytes = b"", past: tuple[PastTurn, ...] = (), goal: str = "Click the red box") -> PolicyView:
    return PolicyView(goal, png or draw({"red": (10, 10, 60, 60)}), (224, 160), "web", past)


@pytest.mark.slow
def test_it_keeps_the_contract_of_policies(checkpoint: Checkpoint) -> None:
    task, other = tasks_of(["shop"], 2)
    check_policy(lambda contract, world: CheckpointPolicy(checkpoint, temperature=1.0, max_new_tokens=5), task, other)


def test_its_prompt_is_that_of_the_training_data(checkpoint: Checkpoint) -> None:
    class Looks:
        sizes = {"s": (224, 160)}
        config = DeriveConfig()

    actions = [said.action for said in PAST] + [Click((5, 5))]
    episode = [
        {
            "step_index": n,
            "action_text": format(action) if action else None,
            "provenance": "{}",
            "platform": "web",
            "screenshot_sha256": "s",
            "thought": None,
            "conclusion": None,
            "instruction": "Click the red box",
            "step_instruction": "",
            "split": "train",
            "source": "x",
            "episode_id": "e",
            "target_box": None,
        }
        for n, action in enumerate(actions)
    ]
    trained = list(navigation(episode, Looks()))[-1].text  # type: ignore[arg-type]
    row = CheckpointPolicy(checkpoint).row(view(past=PAST))
    assert prompt_text(row["messages"]) == trained
    assert "5. Click(box=(3,4))" in trained and "1. " not in trained and "Thinking: off" in trained
    thinking = CheckpointPolicy(checkpoint, thinking=True).row(view())
    assert "Thinking: off" not in prompt_text(thinking["messages"])
    assert [part["type"] for part in json.loads(row["messages"])[0]["content"]] == ["text", "image"]


def test_samples_are_drawn_by_seed_goal_and_turn_with_their_log_probabilities(checkpoint: Checkpoint) -> None:
    def texts(seed: int, temperature: float = 1.0) -> list[str]:
        policy = CheckpointPolicy(checkpoint, temperature=temperature, max_new_tokens=12)
        policy.begin("g", "web", seed)
        found = [policy.decide(view()).reply, policy.decide(view(past=PAST)).reply]
        assert [c.text for c in policy.completions] == found
        assert all(len(c.logprobs) == len(c.token_ids) > 0 for c in policy.completions)
        assert all(logprob <= 0 for c in policy.completions for logprob in c.logprobs)
        policy.begin("g", "web", seed)
        assert policy.completions == []
        return found

    assert texts(1) == texts(1) != texts(2)
    assert texts(1, 0.0) == texts(2, 0.0)


@pytest.mark.slow
def test_what_was_trained_is_done(checkpoint: Checkpoint, rows: list[dict[str, Any]]) -> None:
    from trainer.data.row_sources import ListSource
    from trainer.midtrain.train import train
    from trainer.settings.supervised import MidtrainConfig

    [row, *_] = [r for r in rows if r["objective"] == "navigation" and "Click" in r["answer"]]
    config = MidtrainConfig(
        max_steps=100, batch_size=2, learning_rate=3e-3, warmup_steps=10, sigma=(0.0, 0.0), threads=1, eval_steps=0
    )
    train(checkpoint.model, checkpoint.processor, ListSource([row]), config, progress=False)
    goal = prompt_text(row["messages"]).splitlines()[0].removeprefix("Goal: ")
    policy = CheckpointPolicy(checkpoint)
    policy.begin(goal, "web", 0)
    decision = policy.decide(view(row["images"][0], goal=goal))
    assert decision.reply == row["answer"] and decision.action == parse_reply(row["answer"]).action
    assert policy.completions[0].finished and decision.prompt_tokens > 10 < decision.completion_tokens


def test_a_folder_becomes_policies_that_act_in_a_world(
    checkpoint: Checkpoint, tiny_preset: Any, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path / "c", checkpoint.model, checkpoint.processor, lineage("tiny", tiny_preset))
    known = {**POLICIES, "checkpoint": checkpoint_policies}
    maker = build_policy("checkpoint", known, checkpoint=tmp_path / "c", max_new_tokens=4)
    [contract] = tasks_of(["shop"], 1)
    world = DrawnSite()
    policy = maker.make(contract, world)
    episode = run_episode(world, policy, contract.instruction, contract.initial_state, 0, 5)
    assert policy.name == maker.name == CheckpointPolicy(checkpoint).name
    assert episode.ended == "unreadable" and len(episode.steps) == 3  # four tokens of a random model are no reply
    with pytest.raises(ValueError, match="readable"):
        build_policy("checkpoint", known, checkpoint=tmp_path / "none")


def test_a_larger_screen_is_read_by_windows_and_acted_on_in_its_own_frame(checkpoint: Checkpoint) -> None:
    class Seeing(CheckpointPolicy):
        def _complete(self, row: dict[str, Any], seed: int) -> tuple[Completion, int]:
            seeds.append(seed)
            return seer.answer(row), 10

    seer, seeds = RedSeer("<think></think><action>Click(box=({x},{y}))</action><conclusion></conclusion>"), list[int]()
    checkpoint.processor = checkpoint.processor.apart()
    preset = replace(checkpoint.processor.preset, max_pixels=320 * 448, reading=Reading(mode="windows"))
    checkpoint.processor.preset = preset
    policy = Seeing(checkpoint)
    policy.begin("g", "mobile", 0)
    decision = policy.decide(view(screen()))
    assert isinstance(decision.action, Click) and hits(*decision.action.box)
    assert decision.prompt_tokens == 60 and len(set(seeds)) == 6 and decision.completion_tokens == 7
    [said] = policy.completions
    assert said.text != decision.reply, "it was said of a window"
    assert parse_reply(decision.reply).action == decision.action


def test_what_cant_be_put_to_the_model_is_told(checkpoint: Checkpoint) -> None:
    policy = CheckpointPolicy(checkpoint)
    policy.begin("g", "web", 0)
    with pytest.raises(PolicyError, match="vesper-tiny"):
        policy.decide(view(b"no picture"))
    with pytest.raises(ValueError, match="temperature"):
        CheckpointPolicy(checkpoint, temperature=-1)


def test_a_reply_may_be_as_long_as_the_preset_says(checkpoint: Checkpoint) -> None:
    assert CheckpointPolicy(checkpoint).max_new_tokens == checkpoint.processor.preset.max_answer_tokens == 112
    longer = Processor(
        checkpoint.processor.tokenizer,
        checkpoint.processor.images,
        replace(checkpoint.processor.preset, max_answer_tokens=1024),
    )
    assert CheckpointPolicy(replace(checkpoint, processor=longer)).max_new_tokens == 1024
    assert CheckpointPolicy(checkpoint, max_new_tokens=7).max_new_tokens == 7
