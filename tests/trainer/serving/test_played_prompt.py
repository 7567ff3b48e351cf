"""What a player writes is what was trained: prompts of aligned rows against those of everyone who plays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from drawn import draw

from generators.policies.policy import PastTurn, PolicyView
from pipelines.derivers.base import DeriveConfig
from pipelines.derivers.navigation import navigation
from pipelines.prompts import before_history, messages, prompt_text, reply_text, template_digest
from pipelines.prompts.history import (
    HISTORY_FORMS,
    HISTORY_LINES,
    MOST_THOUGHT,
    HistoryConfig,
    HistoryForm,
    PromptVersion,
)
from schemas.action_types import Action, Click, Finished, Scroll, Type
from schemas.actions import format, parse_reply
from trainer.modeling.checkpoint import Checkpoint, lineage
from trainer.modeling.processor import Processor
from trainer.offline.alignment import align
from trainer.online.engine import RolloutPolicy
from trainer.online.rollouts import RolloutClaim, SampleRecorder
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.settings.offline import AlignmentConfig
from trainer.suites.answering import TrainedPrompt

GOAL = "Buy the red lamp"
TURNS: tuple[tuple[Action, str], ...] = (
    (Click((500, 400)), "The  menu\nis behind this."),
    (Type("red (lamp)"), ""),
    (Scroll(direction="down"), "It is below"),
    (Click((80, 90)), "x" * (MOST_THOUGHT + 1)),
    (Click((10, 20)), "y" * MOST_THOUGHT),
    (Finished(), "Done."),
)
"""What the policy does and thinks at each step of the episode, all of it right."""


CONCLUDED = ("The menu is open.", "", "The list\nmoved.", "z" * (MOST_THOUGHT + 1), "It is in the cart.", "")
"""What the source concludes from each step of the same episode, and the policy when it plays it."""


@dataclass
class Looks:
    config: DeriveConfig = field(default_factory=DeriveConfig)
    sizes = {"s": (224, 160)}


def trained_rows(
    thought: str | None = "as recorded", config: DeriveConfig | None = None, conclusions: Sequence[str] = ("",) * 6
) -> list[dict[str, Any]]:
    """The episode's samples as the corpus has them; `thought` is the source's own, which no history shows by default
    (None: those of the turns)."""
    steps = [
        {
            "step_index": n,
            "action_text": format(action),
            "provenance": "{}",
            "platform": "web",
            "thought": own if thought is None else thought,
            "screenshot_sha256": "s",
            "conclusion": conclusions[n],
            "instruction": GOAL,
            "step_instruction": "",
            "split": "train",
            "source": "x",
            "episode_id": "e",
            "target_box": None,
        }
        for n, (action, own) in enumerate(TURNS)
    ]
    return [
        {
            "sample_id": str(made.step_index),
            "source": made.source,
            "platform": made.platform,
            "target_boxes": [],
            "objective": made.objective,
            "messages": messages("navigation", made.text),
            "answer": made.answer,
            "provenance": json.dumps({"episode": made.episode_id, "step": made.step_index}),
        }
        for made in navigation(steps, Looks(config or DeriveConfig()))  # type: ignore[arg-type]
    ]


def answers(rows: Sequence[Any], group: int, seed: int) -> list[list[str]]:
    """The policy's replies when its training steps are put to it."""
    turns = [TURNS[json.loads(row["provenance"])["step"]] for row in rows]
    return [[reply_text(action, "web", thought)] * group for action, thought in turns]


def aligned() -> dict[int, str]:
    """Step → the prompt of its row in an aligned epoch: the new one, or the recorded one where there is none."""
    rows = trained_rows()
    made = align(rows, answers, AlignmentConfig(num_generations=1, variants=1)).rows
    return {json.loads(row["provenance"])["step"]: prompt_text(row["messages"]) for row in (*rows, *made)}


@pytest.fixture
def thinks(model: Any, processor: Any, tiny_preset: Any) -> Checkpoint:
    """A checkpoint whose preset says that it was trained so."""
    preset = replace(tiny_preset, history="think_action", thinking=True)
    own = Processor(processor.tokenizer, processor.images, preset)
    return Checkpoint(model.eval(), own, asdict(lineage("tiny", preset)))


def views(conclusions: Sequence[str] = ("",) * 6) -> Iterator[PolicyView]:
    """Every turn of the same episode when the policy plays it, its past as `parse_reply` reads its replies."""
    past: tuple[PastTurn, ...] = ()
    for (action, thought), conclusion in zip(TURNS, conclusions, strict=True):
        yield PolicyView(GOAL, draw({"red": (10, 10, 60, 60)}), (224, 160), "web", past)
        reply = parse_reply(reply_text(action, "web", thought, conclusion))
        past = (*past, PastTurn(reply.action, reply.thought, reply.conclusion))


def test_every_player_writes_the_prompt_of_the_aligned_row_of_its_step(thinks: Checkpoint) -> None:
    trained = aligned()
    unused: Any = None
    job: Any = SimpleNamespace(greedy=True)
    rollout = RolloutPolicy(thinks, unused, job, SampleRecorder(), RolloutClaim.__new__(RolloutClaim), thinking=None)
    for step, view in enumerate(views()):
        played = CheckpointPolicy(thinks).row(view)
        assert prompt_text(played["messages"]) == trained[step], step
        assert rollout.row(view) == played, "online RL asks with the same, whichever engine replies"
        [turn] = TrainedPrompt("think_action", thinking=True).messages(view)
        assert turn["content"][0]["text"] == trained[step]
    assert "1. Click(box=(500,400)) (The menu is behind this.)\n2. Type(content='red (lamp)')\n" in trained[3]
    assert "4. Click(box=(80,90))\n5. Click(box=(10,20)) (yyy" in trained[5]  # one is too long to be shown
    assert all("Thinking: off" not in text for text in trained.values())


def test_a_checkpoint_that_says_nothing_plays_actions_alone(model: Any, processor: Any, tiny_preset: Any) -> None:
    plain = Checkpoint(model.eval(), processor, asdict(lineage("tiny", tiny_preset)))
    recorded = [prompt_text(row["messages"]) for row in trained_rows(thought="")]
    for text, view in zip(recorded, views(), strict=True):
        assert prompt_text(CheckpointPolicy(plain).row(view)["messages"]) == text
        assert TrainedPrompt().messages(view)[0]["content"][0]["text"] == text and text.endswith("Thinking: off")


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "version"), [(0, "v1"), (2, "aguvis"), (5, "v1"), (5, "aguvis")])
@pytest.mark.parametrize("form", HISTORY_FORMS)
def test_a_checkpoint_is_played_with_the_histories_and_the_words_of_its_corpus(
    model: Any, processor: Any, tiny_preset: Any, form: HistoryForm, steps: int, version: PromptVersion
) -> None:
    config = HistoryConfig(form=form, steps=steps, prompt=version)
    preset = replace(tiny_preset, thinking=True, **config.of_preset())
    checkpoint = Checkpoint(
        model.eval(), Processor(processor.tokenizer, processor.images, preset), asdict(lineage("tiny", preset))
    )
    rows = trained_rows(None, DeriveConfig(history=config), CONCLUDED)
    texts = [prompt_text(row["messages"]) for row in rows]
    for row, text, view in zip(rows, texts, views(CONCLUDED), strict=True):
        played = prompt_text(CheckpointPolicy(checkpoint).row(view)["messages"])
        # a step without a thought has a prompt that doesn't ask for one; a player asks at each step
        assert played == text.removesuffix("\nThinking: off"), row
        [turn] = TrainedPrompt(form, thinking=True, history_steps=steps, prompt_version=version).messages(view)
        assert turn["content"][0]["text"] == played
    assert texts[-1].startswith({"v1": "Goal: ", "aguvis": "Please generate the next move"}[version])
    made = checkpoint.lineage
    assert made["prompt_version"] == version and (made["prompt_digest"] == template_digest()) == (version == "v1")
    lines = texts[-1].split(before_history(texts[-1]))[1].splitlines()
    line, nothing = HISTORY_LINES[version]
    assert (nothing in lines) == (steps == 0)
    assert len(lines) - (lines[-1] == "Thinking: off") == max(min(steps, len(TURNS) - 1), 1)
    if steps == 5:
        assert (line.format(1, "The menu is open.") in lines) == (form == "conclusion")
        thought = line.format(1, "Click(box=(500,400)) (The menu is behind this.)")
        assert (thought in lines) == (form == "think_action")
        assert line.format(2, "Type(content='red (lamp)')") in lines, "nothing was thought or concluded"
        assert line.format(4, "Click(box=(80,90))") in lines, "both are too long to be shown"
