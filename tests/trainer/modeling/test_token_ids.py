"""Token in, token out: what was sampled is what is trained on, id by id, never its text tokenised again."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from label_logits import label_logits

from trainer.modeling.generation import generate
from trainer.modeling.model import reply_logprobs
from trainer.modeling.tokenizer import encode_text


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_reply_ids_become_labels_as_they_are(processor: Any, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    known = sorted(set(range(len(processor.tokenizer))) - set(processor.never))
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    replies = [data.draw(st.lists(st.sampled_from(known), min_size=n, max_size=n)) for n in lengths]
    some = [rows[place % len(rows)] for place in range(len(replies))]
    batch = processor.reply_batch(some, replies)
    for place, reply in enumerate(replies):
        labelled = batch.labels[place] != -100
        start = len(processor.prompt(some[place]).ids)
        assert batch.labels[place][labelled].tolist() == reply
        assert batch.input_ids[place, start : start + len(reply)].tolist() == reply
        assert labelled.nonzero()[:, 0].tolist() == list(range(start, start + len(reply)))  # no prompt, image, padding
        assert int(batch.attention_mask[place].sum()) == start + len(reply)
        assert batch.weights[place][labelled].tolist() == [1.0] * len(reply)
        assert batch.weights[place][~labelled].sum() == 0


def test_sampled_ids_reach_the_loss(model: Any, processor: Any, rows: list[dict[str, Any]]) -> None:
    source = torch.Generator().manual_seed(0)
    made = generate(model, processor, rows[:4], group=2, temperature=1.0, max_new_tokens=10, generator=source)
    # a random model writes what no tokenizer would: most replies come back from their text as other ids
    again = [encode_text(processor.tokenizer, reply.text) for reply in made]
    assert sum(ids != reply.token_ids for ids, reply in zip(again, made, strict=True)) >= len(made) // 2
    assert all(len(reply.logprobs) == len(reply.token_ids) <= 10 for reply in made)
    assert all(reply.finished == (reply.token_ids[-1] == processor.end_id) for reply in made)
    batch = processor.reply_batch([rows[reply.row] for reply in made], [reply.token_ids for reply in made])
    with torch.no_grad():
        found = label_logits(model.eval(), batch)
        scored = reply_logprobs(model, batch, never=processor.never)
    for place, reply in enumerate(made):
        assert found.labels[found.rows == place].tolist() == reply.token_ids
        assert int(scored.mask[place].sum()) == len(reply.token_ids)
        sampled = torch.tensor(reply.logprobs)
        torch.testing.assert_close(scored.logprobs[place, : len(sampled)], sampled, rtol=1e-4, atol=1e-4)
