"""What goes to the kernels of a GPU is right, held against plain attention on a CPU: the bounds and windows that they
are given, and the products that take the place of one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from trainer.modeling import packing
from trainer.modeling.decoding import grouped_attention
from trainer.modeling.model import reply_logprobs
from trainer.modeling.packing import packed
from trainer.modeling.shared_prompts import replies_laid_out


def varlen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_bounds: torch.Tensor,
    key_bounds: torch.Tensor,
    longest_query: int,
    longest_key: int,
    *,
    scale: float | None,
    window_size: tuple[int, int],
    enable_gqa: bool,
) -> torch.Tensor:
    """The contract of `torch.nn.attention.varlen.varlen_attn`: the queries of a sequence are the last of its keys."""
    assert query_bounds.dtype == key_bounds.dtype == torch.int32
    made = []
    for number in range(len(query_bounds) - 1):
        q = query[query_bounds[number] : query_bounds[number + 1]]
        k, v = (one[key_bounds[number] : key_bounds[number + 1]] for one in (key, value))
        assert len(q) <= longest_query and len(q) <= len(k) <= longest_key
        seen = torch.ones(len(q), len(k), dtype=torch.bool)
        if window_size == (-1, 0):
            seen = seen.tril(len(k) - len(q))
        heads = (part.transpose(0, 1)[None] for part in (q, k, v))
        found = functional.scaled_dot_product_attention(*heads, seen, scale=scale, enable_gqa=enable_gqa)
        made.append(found[0].transpose(0, 1))
    return torch.cat(made)


@pytest.fixture
def one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, with that contract in the place of its kernel."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen)
    monkeypatch.setattr(packing, "lengths_fit_one_kernel", lambda query: True)


def test_packed_and_shared_rows_are_one_call_each(
    model: Any, processor: Any, rows: list[dict[str, Any]], request: Any
) -> None:
    given = [rows[0], rows[1], rows[0], rows[2]]
    replies = [processor.answer(text) for text in ("Wait()", "Click(box=(1,2))", "Click(box=(990,2))", "PressBack()")]
    with torch.no_grad():
        plain = reply_logprobs(model, processor.reply_batch(given, replies)).logprobs
        request.getfixturevalue("one_kernel")
        for batch in (
            packed(processor.reply_batch(given, replies)),
            replies_laid_out(model, processor, given, replies),
        ):
            found = reply_logprobs(model, batch).logprobs
            torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("queries", "keys", "width"), [(8, 4, 1), (8, 8, 1), (8, 2, 3)])
def test_two_products_equal_attention(queries: int, keys: int, width: int) -> None:
    made = torch.Generator().manual_seed(queries + width)
    query = torch.randn(2, queries, width, 16, generator=made)
    key, value = (torch.randn(2, keys, 11, 16, generator=made) for _ in range(2))
    seen = torch.rand(2, 1, width, 11, generator=made) < 0.6
    seen[..., 0] = True
    expected = functional.scaled_dot_product_attention(query, key, value, seen, scale=0.25, enable_gqa=queries != keys)
    torch.testing.assert_close(grouped_attention(query, key, value, seen, 0.25), expected, rtol=1e-5, atol=1e-6)
    alike = seen[:, :, :1]  # a pass of one token has one mask for all
    expected = functional.scaled_dot_product_attention(query, key, value, alike, scale=0.25, enable_gqa=queries != keys)
    torch.testing.assert_close(grouped_attention(query, key, value, alike, 0.25), expected, rtol=1e-5, atol=1e-6)
