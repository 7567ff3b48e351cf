"""Scripted episodes with slips, and the rows that are made of them."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from boxes_ground import BoxesWorld

from generators.policies.policy import PastTurn, PolicyView
from pipelines.prompts import REFUSAL, prompt_text
from pipelines.prompts.history import HISTORY_STEPS, PROMPT_VERSIONS
from schemas.action_types import Finished
from schemas.actions import parse_reply
from schemas.tables import Samples
from trainer.proving.staircase.choice import ChoiceConfig, ChosenTasks, choose_tasks
from trainer.proving.staircase.episodes import EpisodeConfig, counts, make_episodes, read_rows
from trainer.proving.staircase.performing import perform
from trainer.proving.staircase.rows import navigation_rows
from trainer.proving.staircase.tasks import Family, episodes


@pytest.fixture
def tasks(tmp_path: Path, choice: ChoiceConfig) -> ChosenTasks:
    return choose_tasks(tmp_path / "tasks", choice)


def test_slips_stand_in_the_history_and_are_never_answers() -> None:
    from trainer.serving.checkpoint_policy import CheckpointPolicy

    world, slipped = BoxesWorld(), 0
    for _, contract in islice(episodes(Family("boxes/two"), "train", world), 12):
        moments = perform(world, contract, Random(contract.task_id), 0.5)
        assert moments is not None and isinstance(moments[-1].action, Finished) and moments[-1].right
        rows = navigation_rows(contract, "boxes/two", "train", moments)
        wrong = [m for m in moments if not m.right]
        slipped += len(wrong)
        assert len(rows) == len(moments) - len(wrong)
        answered = [parse_reply(row["answer"]).action for row in rows]
        assert answered == [m.action for m in moments if m.right]
        # word for word what a checkpoint is asked with when it acts
        policy, past = CheckpointPolicy.__new__(CheckpointPolicy), tuple(PastTurn(m.action) for m in moments)
        policy.thinking, policy.history, policy.history_steps = False, "action", HISTORY_STEPS
        policy.prompt_version = PROMPT_VERSIONS[0]
        turns = [turn for turn, moment in enumerate(moments) if moment.right]
        for turn, row in zip(turns, rows, strict=True):
            asked = policy.row(PolicyView(contract.instruction, b"", (1, 1), contract.platform, past[:turn]))
            assert row["messages"] == asked["messages"] and json.loads(row["provenance"])["step"] == turn
    assert slipped > 3


def test_rows_are_samples_and_splits_share_no_episode(
    tmp_path: Path, tasks: ChosenTasks, episode_config: EpisodeConfig
) -> None:
    events: list[dict[str, object]] = []
    make_episodes(tmp_path, tasks, episode_config, on_event=events.append)
    rows = read_rows(tmp_path, tasks, episode_config)
    assert Samples.table([{**row, "images": ["0" * 64]} for row in rows]).num_rows == len(rows)
    assert len({row["sample_id"] for row in rows}) == len(rows)
    by_split = {
        split: {json.loads(row["provenance"])["episode"] for row in rows if row["split"] == split}
        for split in ("train", "validation", "test")
    }
    assert all(by_split.values())
    assert not by_split["train"] & by_split["validation"] and not by_split["train"] & by_split["test"]
    for row in rows:
        family = json.loads(row["provenance"])["family"]
        if row["objective"] == "grounding":
            assert (row["answer"] == REFUSAL) == (not row["target_boxes"])
            assert (family == "boxes/other") == (row["split"] == "test")  # held-out pages are asked in the test alone
            if row["answer"] != REFUSAL:
                (x, y), (left, top, right, bottom) = parse_reply(row["answer"]).point or (0, 0), row["target_boxes"][0]
                assert left <= x <= right and top <= y <= bottom
        else:
            assert family != "boxes/other"
    found = counts(rows)
    assert found["train navigation"] > 0 and found["test grounding"] > 0 and 0 < found["refusal_share"] < 0.4

    parts = sorted((tmp_path / "parts").iterdir())
    (tmp_path / "parts" / parts[0].name).unlink()  # as if it had been killed there
    with pytest.raises(ValueError, match="are missing"):
        read_rows(tmp_path, tasks, episode_config)
    again: list[dict[str, object]] = []
    make_episodes(tmp_path, tasks, episode_config, on_event=again.append)
    assert len(again) == 1 < len(events)
    assert read_rows(tmp_path, tasks, episode_config) == rows


def test_a_goal_names_what_a_row_asks(tmp_path: Path, tasks: ChosenTasks, episode_config: EpisodeConfig) -> None:
    make_episodes(tmp_path, tasks, episode_config)
    rows = read_rows(tmp_path, tasks, episode_config, "boxes")
    goals = {contract.instruction for split in ("train", "validation", "test") for _, contract in tasks.of(split)}
    told = [prompt_text(row["messages"]) for row in rows if row["objective"] == "navigation"]
    assert told and all(any(goal in text for goal in goals) for text in told)
    assert read_rows(tmp_path, tasks, episode_config, "phone") == []
