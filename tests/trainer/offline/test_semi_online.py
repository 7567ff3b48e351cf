"""Replay with the policy's own history: by hand, by property; and what single-step training doesn't teach.

The ablation's policy is a table: it sees how many of the shown steps were done its own way (a click that is right, but
not at the recorded point) and clicks the recorded point, its own, or a wrong one. Replies are text, histories, rewards,
advantages and loss the trainer's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prompts import messages, navigation_text, prompt_text, reply_text
from schemas.actions import Action, Click, Finished, render
from trainer.modeling.batches import Row
from trainer.modeling.generation import Completion
from trainer.offline.held_out import sop
from trainer.offline.semi_online import (
    Answer,
    Played,
    StoredRollout,
    prompts_with_thoughts,
    roll,
    sop_progress,
    step_returns,
    two_level_advantages,
    update_of,
    whole_episodes,
)
from trainer.offline.tasks import RlTask
from trainer.proving.methods import MethodCheck
from trainer.rl.grpo import Advantages, group_advantages, grpo_loss
from trainer.rl.rewards import ReplyTarget, reward
from trainer.settings.grpo import GrpoConfig
from trainer.settings.offline import OfflineConfig, SemiOnlineConfig
from trainer.settings.rewards import RewardConfig

REWARDS = RewardConfig()
GRPO = GrpoConfig(scale_rewards="none")
WAYS = (0, 20, 400)
"""How far from the recorded point a reply clicks: there, where it would itself, wrong."""


def episode(name: str, length: int) -> list[RlTask]:
    """Clicks at (100, 500), (200, 500), …, then Finished."""
    found: list[RlTask] = []
    actions: list[Action] = [Click((100 * (i + 1), 500)) for i in range(length - 1)]
    actions.append(Finished())
    for step, action in enumerate(actions):
        shown = [(i + 1, render(earlier, "mobile")) for i, earlier in enumerate(actions[:step])]
        row = {
            "sample_id": f"{name}-{step}",
            "platform": "mobile",
            "objective": "navigation",
            "messages": messages("navigation", navigation_text("go", shown)),
            "step": step,
        }
        found.append(RlTask(row, ReplyTarget("navigation", action), name, f"drawn/{name}", step))
    return found


def said(row: Row, way: int, thought: str = "") -> Completion:
    """The reply to a click's row in one of the `WAYS`."""
    action = Click((100 * (row["step"] + 1), 500 + WAYS[way]))
    return Completion(0, 0, [way], [0.0], reply_text(action, "mobile", thought), True)


def clicks(length: int) -> list[RlTask]:
    """An episode without its finish, so that every step is a click."""
    return episode("a", length + 1)[:-1]


def in_ways(ways: Sequence[int]) -> Answer:
    """Replies in the way of each step."""
    return lambda rows: [said(row, ways[row["step"]]) for row in rows]


def histories(rollout: StoredRollout) -> list[list[str]]:
    return [prompt_text(step.task.row["messages"]).split("\n")[2:-1] for step in rollout.steps]


def test_the_history_is_the_policys_own_while_it_is_right() -> None:
    [found] = roll([clicks(3)], lambda rows: [said(row, 1, "it  is\nthere") for row in rows], rewards=REWARDS)
    first, second = "1. Click(box=(100,520)) (it is there)", "2. Click(box=(200,520)) (it is there)"
    assert histories(found) == [["none"], [first], [first, second]]
    assert [step.right for step in found.steps] == [True] * 3 and found.done == 3
    bare = SemiOnlineConfig(thoughts=False)
    [found] = roll([clicks(2)], lambda rows: [said(row, 1, "so") for row in rows], rewards=REWARDS, config=bare)
    assert histories(found)[1] == ["1. Click(box=(100,520))"]


def test_prompts_that_show_the_policys_thoughts_are_counted() -> None:
    def thinking(rows: Sequence[Row]) -> list[Completion]:
        return [said(row, 2 if row["step"] == 1 else 1, "so" if row["step"] < 2 else "") for row in rows]

    rollouts = roll([clicks(6)], thinking, rewards=REWARDS)
    # the thought of the first step stands in the next three prompts, that of the second, which was wrong, in none
    assert prompts_with_thoughts(rollouts, SemiOnlineConfig()) == (3, 0)
    assert prompts_with_thoughts(rollouts, SemiOnlineConfig(thoughts=False)) == (0, 0)
    asking = [
        replace(one, row={**one.row, "messages": one.row["messages"].replace("\\nThinking: off", "")})
        for one in clicks(6)
    ]
    assert prompts_with_thoughts(roll([asking], thinking, rewards=REWARDS), SemiOnlineConfig()) == (3, 3)


def test_a_wrong_action_is_patched_by_the_stored_one_and_then_ends_it() -> None:
    stored = clicks(4)
    for patches, ways, reached in ((0, (1, 2, 1, 1), 2), (1, (1, 2, 1, 2), 4), (1, (2, 2, 1, 1), 2)):
        config = SemiOnlineConfig(patches=patches)
        [found] = roll([stored], in_ways(ways), rewards=REWARDS, config=config)
        assert len(found.steps) == reached and found.done == ways.index(2)
    [found] = roll([stored], in_ways((1, 2, 1, 1)), rewards=REWARDS)
    assert histories(found)[3] == ["1. Click(box=(100,520))", "2. Click(box=(200,500))", "3. Click(box=(300,520))"]
    [found] = roll([stored], lambda rows: [replace(said(r, 0), text="nonsense") for r in rows], rewards=REWARDS)
    assert len(found.steps) == 2 and not found.steps[0].reward  # unreadable is wrong


def test_rows_that_the_policy_left_as_they_were_are_the_stored_ones() -> None:
    stored = clicks(3)
    [found] = roll([stored], lambda rows: [said(row, 0) for row in rows], rewards=REWARDS)
    assert all(step.task is task for step, task in zip(found.steps, stored, strict=True))


def test_groups_episodes_of_other_lengths_and_replies_that_are_missing() -> None:
    asked: list[int] = []

    def answer(rows: Sequence[Row]) -> list[Completion]:
        asked.append(len(rows))
        return [said(row, 0) for row in rows]

    found = roll([clicks(1), clicks(3)], answer, group=2, rewards=REWARDS)
    assert asked == [4, 2, 2] and [(one.episode, one.member, len(one.steps)) for one in found] == [
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 3),
        (1, 1, 3),
    ]
    with pytest.raises(ValueError, match="expected 2 replies, found 0"):
        roll([clicks(1)], lambda rows: [], group=2, rewards=REWARDS)
    assert roll([], answer, rewards=REWARDS) == []


def test_returns_worked_by_hand() -> None:
    assert step_returns([1.0, 1.0, 1.0], [True] * 3, 0.5) == [1.75, 1.5, 1.0]
    # nothing flows back over a wrong action: what follows is the patch's merit
    assert step_returns([1.0, 0.2, 1.0, 1.0], [True, False, True, True], 0.5) == [1.1, 0.2, 1.5, 1.0]
    assert step_returns([], [], 0.5) == []


def rollout(number: int, member: int, *worth: float) -> StoredRollout:
    """A rollout by its rewards; 1 is right."""
    task = clicks(1)[0]
    return StoredRollout(
        number, member, tuple(Played(task, said(task.row, 0), {"total": one}, one == 1.0) for one in worth)
    )


def test_two_levels_worked_by_hand() -> None:
    found = [
        rollout(0, 0, 1.0, 1.0),
        rollout(0, 1, 1.0, 0.0),
        rollout(0, 2, 0.0),
        rollout(1, 0, 1.0),
        rollout(1, 1, 1.0),
    ]
    got = two_level_advantages(found, GRPO, SemiOnlineConfig(gamma=0.5, step_weight=2.0))
    # totals 2, 1, 0: around 1; returns of step 0: 1.5, 1, 0, around 5/6; of step 1: 1, 0, around 1/2
    first = [1 + 2 * (1.5 - 5 / 6), 1 + 2 * 0.5, 0 + 2 * (1 - 5 / 6), 0 + 2 * -0.5, -1 + 2 * -5 / 6]
    assert got.values == pytest.approx([*first, 0.0, 0.0])
    assert got.weights == pytest.approx([0.2] * 5 + [0.0] * 2)  # the second episode holds no comparison
    assert (got.groups, got.zero_variance, got.too_small, got.used) == (2, 1, 0, 1)
    alone = two_level_advantages(found[:1], GRPO)
    assert alone.too_small == 1 and alone.used == 0 and not any(alone.weights)
    steps = two_level_advantages(found, GRPO.changed(negative_floor=0.0), SemiOnlineConfig(step_weight=2.0))
    assert steps.values[3] == pytest.approx(0 + 2 * -0.5 * 0.5)  # half of those at that step were right


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=2, max_size=6), st.floats(0, 1))
def test_an_update_is_flat_its_weights_sum_to_one_and_its_advantages_to_zero(
    right: list[list[bool]], gamma: float
) -> None:
    found = [rollout(i % 2, i // 2, *map(float, one)) for i, one in enumerate(right)]
    got = update_of(found, GRPO, SemiOnlineConfig(gamma=gamma))
    count = sum(map(len, right))
    assert [reply.row for reply in got.replies] == list(range(count)) and len(got.tasks) == count
    assert len(got.advantages.values) == len(got.advantages.weights) == count
    assert sum(got.advantages.weights) == pytest.approx(1.0 if got.advantages.used else 0.0)
    level = two_level_advantages(found, GRPO, SemiOnlineConfig(gamma=gamma, step_weight=0.0)).values
    firsts = [sum(len(one.steps) for one in found[:i]) for i in range(len(found))]
    assert sum(level[first] for first in firsts) == pytest.approx(0.0, abs=1e-9)  # a value a rollout, none in sum
    assert sum(one["total"] for one in got.scores) == sum(map(sum, right))


@given(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=5), st.integers(0, 3))
def test_more_patches_never_end_a_rollout_sooner(ways: list[int], patches: int) -> None:
    stored = clicks(len(ways))
    found = [
        roll([stored], in_ways(ways), rewards=REWARDS, config=SemiOnlineConfig(patches=count))[0]
        for count in (patches, patches + 1)
    ]
    assert len(found[0].steps) <= len(found[1].steps) and found[0].done == found[1].done
    assert sum(not step.right for step in found[0].steps) <= patches + 1


def test_sop_counts_up_to_the_first_mismatch_and_asks_again_only_where_the_history_is_new() -> None:
    tasks = [*episode("a", 4), *episode("b", 3)]
    ways = {"a": (0, 1, 1), "b": (0, 2)}
    asked: list[str] = []

    def reply(row: Row) -> Completion:
        name, step = row["sample_id"].split("-")
        if int(step) == len(ways[name]):
            return Completion(0, 0, [0], [0.0], reply_text(Finished(), "mobile"), True)
        return said(row, ways[name][int(step)])

    def answer(rows: Sequence[Row]) -> list[Completion]:
        asked.extend(row["sample_id"] for row in rows)
        return [reply(row) for row in rows]

    progress = sop_progress(tasks, [reply(task.row) for task in tasks], answer, rewards=REWARDS)
    assert progress == (1.0, pytest.approx(1 / 3)) and asked == ["a-2", "a-3"]
    assert sop(progress) == pytest.approx({"sop_progress": 2 / 3, "sop_success": 0.5, "sop": 7 / 12})
    assert sop(()) == {} and sop_progress(tasks[:2], [reply(t.row) for t in tasks[:2]], answer, rewards=REWARDS) == ()
    assert list(whole_episodes(tasks)) == ["drawn/a", "drawn/b"]
    with pytest.raises(ValueError, match="none in 2 tasks"):
        whole_episodes(tasks[:2])


def test_settings_are_read_and_contradictions_named() -> None:
    config = OfflineConfig.parsed({"domain": "mobile", "semi_online": {"patches": 2}})
    assert config.semi_online == SemiOnlineConfig(patches=2) and OfflineConfig(domain="mobile").semi_online is None
    cases: list[tuple[Any, str]] = [
        (lambda: SemiOnlineConfig(gamma=1.5), "gamma"),
        (lambda: SemiOnlineConfig(patches=-1), "patches"),
        (lambda: OfflineConfig(domain="grounding", semi_online=SemiOnlineConfig()), "navigation"),
        (lambda: OfflineConfig(domain="web", difficulty=1.0, semi_online=SemiOnlineConfig()), "difficulty"),
        (lambda: OfflineConfig(domain="web", align=True, semi_online=SemiOnlineConfig()), "no align"),
    ]
    for make, word in cases:
        with pytest.raises(ValueError, match=word):
            make()


# --- the ablation -----------------------------------------------------------------------------------------------------

LENGTH, EPISODES, GROUP, UPDATES = 6, 2, 8, 50


class Table:
    """Logits [steps shown that were done its own way, 0..3; ways]. It begins with its own way, half of it wrong."""

    def __init__(self, seed: int) -> None:
        self.logits = torch.tensor([[0.0, 1.0, 1.0]]).repeat(4, 1).requires_grad_()
        self.draws = torch.Generator().manual_seed(seed)
        self.optimiser = torch.optim.Adam([self.logits], lr=0.05)

    @staticmethod
    def state(row: Row) -> int:
        return len(re.findall(r",520\)", prompt_text(row["messages"])))

    def answer(self, rows: Sequence[Row]) -> list[Completion]:
        """Replies that are drawn."""
        likely = torch.softmax(self.logits.detach()[[self.state(row) for row in rows]], -1)
        ways = torch.multinomial(likely, 1, generator=self.draws)[:, 0].tolist()
        return [said(row, way) for row, way in zip(rows, ways, strict=True)]

    def step(self, rows: Sequence[Row], replies: Sequence[Completion], advantages: Advantages) -> None:
        states, ways = [self.state(row) for row in rows], [reply.token_ids for reply in replies]
        log_p = torch.log_softmax(self.logits[states], -1).gather(1, torch.tensor(ways))
        part = grpo_loss(
            log_p,
            log_p.detach(),
            torch.ones_like(log_p, dtype=torch.bool),
            range(len(rows)),
            advantages,
            [1] * len(rows),
            GrpoConfig(),
        )
        self.optimiser.zero_grad()
        part.loss.backward()
        self.optimiser.step()


def trained(config: SemiOnlineConfig | None, seed: int, updates: int = UPDATES) -> dict[str, float]:
    """SOP by sampled replies after training semi-online, or on single steps (None), and step success as recorded."""
    policy, stored = Table(seed), [clicks(LENGTH)] * EPISODES
    tasks = [task for some in stored for task in some for _ in range(GROUP)]
    for _ in range(updates):
        if config is None:
            replies = policy.answer([task.row for task in tasks])
            worth = [reward(reply.text, task.truth) for reply, task in zip(replies, tasks, strict=True)]
            groups = [worth[i : i + GROUP] for i in range(0, len(worth), GROUP)]
            policy.step([task.row for task in tasks], replies, group_advantages(groups, GrpoConfig()))
            continue
        made = update_of(roll(stored, policy.answer, group=GROUP, rewards=REWARDS, config=config), GrpoConfig(), config)
        policy.step([task.row for task in made.tasks], made.replies, made.advantages)
    free = roll(stored[:1], policy.answer, group=200, rewards=REWARDS, config=SemiOnlineConfig(patches=0))
    shown = [task.row for task in stored[0] for _ in range(100)]
    right = [reply.token_ids != [2] for reply in policy.answer(shown)]
    return {**sop([one.done / LENGTH for one in free]), "step": sum(right) / len(right)}


REPLAYS = {
    "single steps": None,
    "replay, 1 patch": SemiOnlineConfig(),
    "replay, no patch": SemiOnlineConfig(patches=0),
    "replay, step_weight 0": SemiOnlineConfig(step_weight=0.0),
}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """In percent: SOP, episodes done whole, and steps right as recorded."""
    found = trained(REPLAYS[member], seed, max(1, round(UPDATES * share)))
    return {name: 100 * found[key] for name, key in (("sop", "sop"), ("whole", "sop_success"), ("steps", "step"))}


CHECK = MethodCheck(
    name="own_histories",
    system="UI-S1",
    asks="semi-online performance, percent",
    members=tuple(REPLAYS),
    reference="single steps",
    figures=("sop", "whole", "steps"),
    run=run,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_single_steps_teach_recorded_histories_and_replay_its_own(seed: int) -> None:
    single, replayed = trained(None, seed), trained(SemiOnlineConfig(), seed)
    assert single["step"] >= replayed["step"] > 0.9  # as recorded, both know what to do, and which is better isn't seen
    assert replayed["sop"] > single["sop"] + 0.3
    assert replayed["sop_success"] > single["sop_success"] + 0.5
