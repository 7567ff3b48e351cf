"""Histories in the model's own words: thoughts of right actions, the nearest in length; rare actions several times."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from drawn import draw

from pipelines.prompts import messages, navigation_text, prompt_text, reply_text
from pipelines.prompts.history import PROMPT_VERSIONS, PromptVersion, history_entry
from pipelines.prompts.tokens import text_tokens
from schemas.actions import Action, Click, LongPress, Scroll, Type, Wait, render
from trainer.modeling.sampler import Sampler
from trainer.offline.alignment import align, history_line, model_rollouts, with_history
from trainer.settings.offline import AlignmentConfig

ACTIONS: tuple[Action, ...] = (Click((500, 400)), Scroll(direction="down"), Click((80, 90)), LongPress((300, 300)))
GOAL = "Find 'History:\n1. Click(box=(500,400))' in the list"
CONFIG = AlignmentConfig(num_generations=3, target_length=20, variants=3, sparse_share=0.2)


def episode_rows(name: str = "e1") -> list[dict[str, Any]]:
    """Samples of an episode of four steps as the deriver writes them; the last action is a rare one."""
    rows = []
    for index, action in enumerate(ACTIONS):
        history = [(i + 1, render(done, "mobile")) for i, done in enumerate(ACTIONS[:index])]
        text = navigation_text(GOAL, history)
        rows.append(
            {
                "sample_id": f"{name}-{index}",
                "source": "toy",
                "split": "train",
                "platform": "mobile",
                "objective": "navigation",
                "images": [draw({"red": (90, 50, 130, 90)})],
                "licence": "CC0",
                "messages": messages("navigation", text),
                "answer": reply_text(action, "mobile"),
                "target_boxes": [],
                "tokens": text_tokens(text) + 40,
                "parents": [f"step:toy/{name}/{index}"],
                "synthetic": False,
                "provenance": json.dumps({"episode": name, "step": index, "deriver": "navigation"}),
            }
        )
    return rows


class Scripted:
    """Replies by step: thoughts with right and wrong actions."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def __call__(self, rows: Sequence[Any], group: int, seed: int) -> list[list[str]]:
        self.calls.append((len(rows), group, seed))
        found = []
        for row in rows:
            index = json.loads(row["provenance"])["step"]
            right, wrong = ACTIONS[index], Click((950, 950))
            found.append(
                {
                    0: [
                        reply_text(right, "mobile", "a short one"),
                        reply_text(right, "mobile", "one\nthat is\n just right"),
                        reply_text(wrong, "mobile", "this is twenty long!"),
                    ],
                    1: [reply_text(wrong, "mobile", "wrong")] * 2 + ["no reply at all"],
                    2: [
                        reply_text(Click((82, 91)), "mobile", "near enough"),
                        reply_text(right, "mobile", "x" * 900),
                        reply_text(right, "mobile"),
                    ],
                    3: [reply_text(right, "mobile", "held")] * 3,
                }[index]
            )
        return found


def history(row: dict[str, Any]) -> list[str]:
    return prompt_text(row["messages"]).rpartition("History:\n")[2].split("\n")


def test_histories_hold_the_nearest_thought_of_a_right_action() -> None:
    rows = episode_rows()
    policy = Scripted()
    made = align([*rows, {"objective": "grounding"}], policy, CONFIG)
    assert policy.calls == [(4, 3, 0)]
    by_parent: dict[str, list[dict[str, Any]]] = {}
    for row in made.rows:
        by_parent.setdefault(row["parents"][0], []).append(row)
    assert set(by_parent) == {"sample:e1-1", "sample:e1-2", "sample:e1-3"}  # the first step has no history
    (second,), (third,) = by_parent["sample:e1-1"], by_parent["sample:e1-2"]
    first_line = f"1. {render(ACTIONS[0], 'mobile')} (one that is just right)"
    assert history(second)[0] == first_line and second["parents"] == ["sample:e1-1", "sample:e1-0"]
    # the second step had no right reply: its line stays; the goal's line that looks like history stays too
    assert history(third)[:2] == [first_line, f"2. {render(ACTIONS[1], 'mobile')}"]
    assert GOAL in prompt_text(third["messages"]) and third["answer"] == rows[2]["answer"]
    assert third["synthetic"] and third["tokens"] > rows[2]["tokens"] and third["images"] == rows[2]["images"]
    assert json.loads(third["provenance"])["of"] == "e1-2" and third["sample_id"] != "e1-2"


@pytest.mark.parametrize("version", PROMPT_VERSIONS)
def test_an_entry_of_several_lines_is_one_entry(version: PromptVersion) -> None:
    typed, said = Type("a\nb\n2. c"), Type("new\nline")
    lines = [(1, history_entry(typed, "web", "action")), (2, "Click(box=(1,2))"), (3, "Click(box=(1,2))")]
    chat = messages("navigation", navigation_text("write\nHistory:\n1. nothing", lines, version=version))
    line = functools.partial(history_line, platform="web", version=version)
    old = [line(0, typed), line(1, Click((1, 2))), line(2, Type("b"))]
    changes = dict(zip(old, (line(0, said), line(1, Wait(), thought="it loads"), "3. never shown"), strict=True))
    found = prompt_text(with_history(chat, changes))
    assert found == navigation_text(
        "write\nHistory:\n1. nothing",
        [(1, history_entry(said, "web", "action")), (2, "Wait() (it loads)"), (3, "Click(box=(1,2))")],
        version=version,
    )
    assert with_history(chat, {}) == chat


def test_rare_actions_come_in_different_histories() -> None:
    rows = [row for name in ("e1", "e2") for row in episode_rows(name)]
    rows += [
        {**row, "sample_id": f"{row['sample_id']}x", "provenance": json.dumps({"episode": f"z{i}", "step": 0})}
        for i, row in enumerate([rows[0]] * 8)
    ]
    made = align(rows, Scripted(), CONFIG)
    assert made.counts["sparse_types"] == ["LongPress", "Scroll"] and made.counts["steps"] == 16
    variants = [row for row in made.rows if row["parents"][0] == "sample:e2-3"]
    # two thoughts of step 1 times one of step 3: no third combination
    assert len(variants) == 2 == len({row["messages"] for row in variants}) == len({r["sample_id"] for r in variants})
    assert made.counts["aligned"] + made.counts["sparse_variants"] == len(made.rows)
    shown = [history(row) for row in variants]
    assert all(lines[2].endswith("(near enough)") for lines in shown) and shown[0][0] != shown[1][0]


def test_the_same_rows_in_any_order_give_the_same_rows() -> None:
    rows = [row for name in ("e1", "e2") for row in episode_rows(name)]
    first, second = align(rows, Scripted(), CONFIG), align(rows[::-1], Scripted(), CONFIG)
    assert first.rows == second.rows and first.counts == second.counts
    assert align([], Scripted(), CONFIG).rows == []


def test_rows_without_episode_or_action_are_counted_and_missing_replies_refused() -> None:
    rows = episode_rows()
    rows[2] = {**rows[2], "provenance": "{}"}
    rows[3] = {**rows[3], "answer": "no action"}
    assert align(rows, Scripted(), CONFIG).counts["unusable"] == 2
    with pytest.raises(ValueError, match="expected 3 replies for each of 4 rows"):
        align(episode_rows(), lambda rows, group, seed: [["a"]] * len(rows), CONFIG)
    for wrong in ({"variants": 0}, {"sparse_share": 2.0}):
        with pytest.raises(ValueError, match="AlignmentConfig: .*expected"):
            AlignmentConfig(**wrong)


@pytest.mark.slow
def test_a_model_that_learned_the_steps_aligns_its_own_histories_and_trains_on_them(model: Any, processor: Any) -> None:
    from trainer.data.row_sources import ListSource
    from trainer.midtrain.train import train
    from trainer.settings.supervised import MidtrainConfig

    thinking = [
        {**row, "answer": reply_text(action, "mobile", f"step {index}")}
        for index, (row, action) in enumerate(zip(episode_rows(), ACTIONS, strict=True))
    ]
    config = MidtrainConfig(
        max_steps=100, batch_size=4, warmup_steps=4, learning_rate=3e-3, sigma=(0.0, 0.0), eval_steps=0, threads=1
    )
    train(model, processor, ListSource(thinking), config, progress=False)
    play = model_rollouts(Sampler(model, processor), temperature=0.2, max_new_tokens=48)
    first, second = (align(thinking, play, CONFIG) for _ in range(2))
    assert first.rows == second.rows and first.counts["steps_with_thoughts"] >= 2
    shown = [line for row in first.rows for line in history(row) if line.endswith(")") and "(step " in line]
    assert shown and all(line.partition(". ")[2] for line in shown)
    again = MidtrainConfig(max_steps=1, batch_size=2, warmup_steps=0, eval_steps=0, threads=1)
    train(model, processor, ListSource(first.rows), again, progress=False)
