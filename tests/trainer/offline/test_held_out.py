"""Which rows become tasks of a domain, which of them are chosen, and which episodes are whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drawn import make_rows, scroll_rows

from pipelines.derivers.navigation import STEP_DERIVER
from pipelines.prompts import prompt_text
from trainer.offline.tasks import RlTask, choose, complete_episodes, tasks_of
from trainer.rl.rewards import ReplyTarget
from trainer.settings.rewards import RewardConfig


def test_rows_are_filtered_by_objective_and_platform(processor: Any) -> None:
    rows = make_rows(8) + [{**make_rows(4, 5)[3], "platform": "mobile"}]
    by_domain = {domain: tasks_of(rows, domain, processor)[0] for domain in ("grounding", "mobile", "web")}
    assert {domain: len(tasks) for domain, tasks in by_domain.items()} == {"grounding": 4, "mobile": 1, "web": 4}
    with pytest.raises(ValueError, match="desktop"):
        tasks_of(rows, "desktop", processor)


def test_desktop_navigation_trains_the_web_specialist(processor: Any) -> None:
    rows = [{**row, "platform": "desktop"} for row in scroll_rows(2, 2)]
    assert [len(tasks_of(rows, domain, processor)[0]) for domain in ("grounding", "mobile", "web")] == [0, 0, 6]


def test_questions_ask_for_what_is_rewarded(processor: Any) -> None:
    rows = make_rows(8)
    for rewards, words in (
        (RewardConfig(), ""),
        (RewardConfig(w_iou=0.5), "its box"),
        (RewardConfig(w_confidence=1.0), "how sure"),
    ):
        tasks, _ = tasks_of(rows, "grounding", processor, rewards)
        asked = {str(row["sample_id"]): prompt_text(row["messages"]) for row in rows}
        for task in tasks:
            text, before = prompt_text(task.row["messages"]), asked[str(task.row["sample_id"])]
            assert text == before if not words else text.startswith(before) and words in text
        steps, _ = tasks_of(rows, "web", processor, rewards)
        assert steps == tasks_of(rows, "web", processor)[0]


def test_unusable_rows_are_counted_by_reason(processor: Any) -> None:
    good = make_rows(1)[0]
    rows = [good, {**good, "target_boxes": []}, {**good, "images": [b"no picture"]}]
    tasks, unusable = tasks_of(rows, "grounding", processor)
    assert len(tasks) == 1 and unusable == {"no_checkable_truth": 1, "bad_prompt": 1}


def test_choice_keeps_episodes_whole(processor: Any) -> None:
    tasks, _ = tasks_of(scroll_rows(10, 2), "web", processor)
    taken = choose(tasks, 10, seed=0)
    assert len(taken) == 9 and len({task.cluster for task in taken}) == 3
    assert choose(list(reversed(tasks)), 10, seed=0)[0].cluster == taken[0].cluster
    assert len(choose(tasks, 2, seed=0)) == 2


def test_steps_that_their_prompts_name_are_in_no_trace(processor: Any) -> None:
    rows = scroll_rows(4, 2)
    as_named = [json.dumps({**json.loads(row["provenance"]), "deriver": STEP_DERIVER}) for row in rows]
    # ids before and behind the others': a trace had held whichever came last
    named = [
        {**row, "sample_id": f"{'0z'[at % 2]}{row['sample_id']}", "provenance": text}
        for at, (row, text) in enumerate(zip(rows, as_named, strict=True))
    ]
    tasks, _ = tasks_of([*rows, *named], "web", processor)
    own = {row["sample_id"] for row in rows}
    assert {tasks[i].row["sample_id"] for steps in complete_episodes(tasks) for i in steps} == own
    taken = choose(tasks, 1, seed=0, traces=2)
    assert len(taken) == 6 and {task.row["sample_id"] for task in taken} < own, "their steps and nothing else"


def test_whole_episodes_come_first_where_traces_are_wanted(processor: Any) -> None:
    rows = scroll_rows(10, 2)
    broken = {row["sample_id"] for row in rows[: 6 * 3 : 3]}  # six episodes of ten lost their first step
    rows = [row for row in rows if row["sample_id"] not in broken]
    tasks, _ = tasks_of(rows, "web", processor)
    for seed in range(5):
        taken = choose(tasks, 6, seed, traces=3)
        assert len(complete_episodes(taken)) == 3 and len(taken) == 9, "three of them, though 6 was the limit"
        taken = choose(tasks, 17, seed, traces=3)
        assert len(complete_episodes(taken)) == 4 and len(taken) == 16, "then others that fit"
        assert len(complete_episodes(choose(tasks, 1, seed, traces=9))) == 4, "all that there are"
    light = [{name: value for name, value in row.items() if name != "images"} for row in rows]
    unseen, _ = tasks_of(light, "web", None)
    assert [(task.cluster, task.episode, task.step) for task in unseen] == [
        (task.cluster, task.episode, task.step) for task in tasks
    ]


def test_only_whole_episodes_count_as_traces(processor: Any) -> None:
    tasks, _ = tasks_of(scroll_rows(3, 2), "web", processor)
    assert [len(episode) for episode in complete_episodes(tasks)] == [3, 3, 3]
    gap, headless, tailless = tasks[:1] + tasks[2:], tasks[1:], tasks[:-1]
    assert [len(complete_episodes(some)) for some in (gap, headless, tailless)] == [2, 2, 2]


def test_a_task_needs_no_episode() -> None:
    task = RlTask({}, ReplyTarget("grounding", refusal=True), "c")
    assert complete_episodes([task]) == []
