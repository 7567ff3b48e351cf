"""Drafts change how many passes a reply takes, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipelines.prompts import messages, navigation_text
from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.drafts import ACTIONS, Drafts
from trainer.modeling.generation import _drawn, generate
from trainer.modeling.model import reply_logprobs
from trainer.modeling.tokenizer import encode_text
from trainer.presets import NANO_BASE


@pytest.fixture(scope="module")
def nano() -> Checkpoint:
    """It writes whole replies."""
    return load_checkpoint(NANO_BASE)


@pytest.fixture(scope="module")
def asked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = [row for row in rows if row["images"]][:3]
    return [
        {**row, "objective": "navigation", "messages": messages("navigation", navigation_text("Click the red box", []))}
        for row in shown
    ]


def _without(checkpoint: Checkpoint) -> Any:
    class Nothing(Drafts):
        def first(self, objective: str) -> list[int]:
            return []

        def after(self, ids: Any) -> list[int]:
            return []

    processor = checkpoint.processor.apart()
    processor.__dict__["drafts"] = Nothing(processor)
    return processor


def test_every_form_is_drafted_up_to_what_a_model_must_decide(nano: Checkpoint) -> None:
    processor = nano.processor
    ids = lambda text: encode_text(processor.tokenizer, text)  # noqa: E731
    for action in ACTIONS:
        reply = [*ids(f"<think></think><action>{action}</action><conclusion></conclusion>"), processor.end_id]
        passes, known = 0, 0
        while known < len(reply):
            draft = processor.drafts.after(reply[:known])
            agreed = next((n for n, one in enumerate(draft) if reply[known + n : known + n + 1] != [one]), len(draft))
            passes, known = passes + 1, known + agreed + 1
        assert passes <= (8 if action.startswith(("Drag", "Scroll(start", "Hotkey")) else 5), action
    assert processor.drafts.after(ids("<think></think><action>Click(box=(7")) == ids(",")
    assert processor.drafts.after(ids("the words of a text")) == []
    assert processor.drafts.first("grounding") == ids("[") and processor.drafts.after(ids("[3,4")) == [
        *ids("]"),
        processor.end_id,
    ]


def test_greedy_replies_are_the_same_in_fewer_passes(nano: Checkpoint, asked: list[dict[str, Any]]) -> None:
    """The last reply has a form of its own, which is no click's; the first alone takes three passes."""
    passes: list[int] = []
    hook = nano.model.lm_head.register_forward_hook(lambda *_: passes.append(1))
    try:
        drafted = generate(nano.model, nano.processor, asked, group=2, max_new_tokens=40)
        with_drafts, _ = len(passes), passes.clear()
        plain = generate(nano.model, _without(nano), asked, group=2, max_new_tokens=40)
        needed, _ = len(passes), passes.clear()
        generate(nano.model, nano.processor, asked[:1], max_new_tokens=40)
    finally:
        hook.remove()
    assert [one.token_ids for one in drafted] == [one.token_ids for one in plain] and all(o.finished for o in drafted)
    for one, other in zip(drafted, plain, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-4)
    assert with_drafts < needed and len(passes) == 3 and len(drafted[0].token_ids) == 16


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 3, 7, 8, 40])
def test_sampled_replies_tell_the_models_own_probabilities(
    nano: Checkpoint, asked: list[dict[str, Any]], limit: int
) -> None:
    source = torch.Generator().manual_seed(3)
    made = generate(nano.model, nano.processor, asked, group=4, temperature=1.0, max_new_tokens=limit, generator=source)
    assert all(len(one.token_ids) == limit or one.finished for one in made)
    batch = nano.processor.reply_batch([asked[one.row] for one in made], [one.token_ids for one in made])
    with torch.no_grad():
        found = reply_logprobs(nano.model, batch, never=nano.processor.never)
    told = [value for one in made for value in one.logprobs]
    assert found.logprobs[found.mask].tolist() == pytest.approx(told, abs=2e-3)


@pytest.mark.slow
def test_what_is_sampled_has_the_distribution_of_single_steps(nano: Checkpoint, asked: list[dict[str, Any]]) -> None:
    """First coordinates of many replies, drafted or not: means within four standard errors."""

    def columns(processor: Any) -> torch.Tensor:
        source = torch.Generator().manual_seed(11)
        made = generate(
            nano.model,
            processor,
            asked[:1],
            group=128,
            temperature=1.0,
            max_new_tokens=9,
            generator=source,
            batch_size=256,
        )
        first = nano.processor.numbers.first
        return torch.tensor(
            [
                float(one.token_ids[7] - first)
                for one in made
                if len(one.token_ids) > 7 and one.token_ids[7] in nano.processor.numbers
            ]
        )

    one, other = columns(nano.processor), columns(_without(nano))
    error = (one.var() / len(one) + other.var() / len(other)).sqrt()
    assert min(len(one), len(other)) > 40 and abs(one.mean() - other.mean()) < 4 * error


@pytest.mark.slow
def test_a_reply_of_its_own_seed_is_the_same_whatever_stands_beside_it(
    nano: Checkpoint, asked: list[dict[str, Any]]
) -> None:
    def made(rows: list[dict[str, Any]], seeds: list[int], **options: Any) -> list[list[int]]:
        replies = generate(nano.model, nano.processor, rows, temperature=1.5, max_new_tokens=24, seeds=seeds, **options)
        return [reply.token_ids for reply in replies]

    a, b, c = asked
    first, second, third = made([a, b, c], [1, 2, 3])
    assert made([b], [2]) == [second] and made([c, a], [3, 1]) == [third, first]
    assert made([a, b, c], [1, 2, 3], batch_size=2) == [first, second, third]
    assert made([b, b], [2, 4])[0] == second != made([b], [4])[0]
    [plain] = generate(nano.model, _without(nano), [b], temperature=1.5, max_new_tokens=24, seeds=[2])
    assert plain.token_ids == second, "drafts move no draw"
    assert made([b], [1, 2, 3, 4], group=4)[1] == second


def test_draws_follow_the_probabilities_and_never_take_what_has_none() -> None:
    p = torch.tensor([0.0, 0.2, 0.0, 0.5, 0.3, 0.0]).expand(20_000, -1)
    drawn = torch.bincount(_drawn(p, torch.Generator().manual_seed(0)), minlength=6) / len(p)
    assert drawn[[0, 2, 5]].tolist() == [0, 0, 0]
    assert drawn[[1, 3, 4]].tolist() == pytest.approx([0.2, 0.5, 0.3], abs=0.015)
