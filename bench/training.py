"""Nano's mid-training beside a plain transformers `Trainer` loop: the same weights, rows, batches, loss and optimiser.

The plain loop is what a competent user writes: `Trainer` with a collator that decodes and resizes the pictures by the
checkpoint's image processor and tokenises by its chat template. Both run in fp32 on one thread, in the order of
`ListSource`; that they train on the same is asserted by the first step's loss. Figures are real tokens (no padding) by
CPU second of the process, the first steps left out, so that other work on the machine counts less.
`Trainer` needs accelerate, which the peers' environment has (`bench/peers_env.py`).

Memory of log-probabilities: the peak of the process above what it held, at a published vocabulary.

Packing is a count, not a time: the share of a sequence's places that hold a token, beside batches of the same rows,
each padded to its longest.
"""

import base64
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import peers_env
from bench.timing import measured_memory, result

BATCH, WARM, TIMED = 16, 2, 6
ROWS = 64
PACKED_ROWS, MAX_LENGTH = 512, 2048


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Tokens by CPU second, and how full packed sequences are. Raises `AssertionError` if the two don't train on the
    same."""
    from dataclasses import replace

    from bench.tiny import processor_of
    from bench.tiny import rows as screens
    from trainer.data.row_sources import ListSource
    from trainer.midtrain.train import train
    from trainer.modeling.checkpoint import lineage, save_checkpoint
    from trainer.modeling.model import build_model
    from trainer.presets import preset
    from trainer.settings.supervised import MidtrainConfig, SpanWeights

    timed = 2 if small > 1 else TIMED
    nano = replace(preset("nano"), max_answer_tokens=32)
    data = screens(ROWS, size=(448, 320))
    processor = processor_of(nano, data)
    model = build_model(nano, processor.tokenizer, seed=0)
    source = ListSource(data, seed=0)
    even = SpanWeights(coordinate=1, verb=1, action=1, tag=1, end=1, text=1)
    config = MidtrainConfig(
        max_steps=WARM + timed,
        batch_size=BATCH,
        learning_rate=1e-3,
        warmup_steps=0,
        final_lr_share=1.0,
        sigma=(0.0, 0.0),
        threads=1,
        spans=even,
        save_steps=10_000,
        eval_steps=0,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_checkpoint(folder / "model", model, processor, lineage("bench", nano))
        ordered = [row for row in itertools.islice(source.rows(0), BATCH * config.max_steps) if row is not None]
        with (folder / "rows.jsonl").open("w") as stream:
            for row in ordered:
                picture = base64.b64encode(row["images"][0]).decode()
                stream.write(
                    json.dumps({key: row[key] for key in ("messages", "answer")} | {"picture": picture}) + "\n"
                )
        out = peers_env.run(Path(__file__).with_name("training_transformers.py"), folder, str(BATCH), str(WARM))
    theirs = json.loads(out.splitlines()[-1])
    clock: list[tuple[float, int]] = []

    def note(event: dict[str, Any]) -> None:
        if event["kind"] == "step":
            clock.append((time.process_time(), event["tokens"]))

    curve = train(model, processor, source, config, on_event=note, progress=False)
    first = curve.steps[0]["loss"]
    assert abs(first - theirs["loss"]) < 1e-4 * first, f"first losses differ: {first} and {theirs['loss']}"
    tokens = sum(count for _, count in clock[WARM:])
    assert tokens == theirs["tokens"], f"tokens differ: {tokens} and {theirs['tokens']}"
    ours = tokens / (clock[-1][0] - clock[WARM - 1][0])
    at_once = head_memory(chunk_bytes=1 << 40)["mib"]
    yield result("log-probabilities of 1,024 tokens, peak", head_memory()["mib"], "MiB", "all logits at once", at_once)
    yield result("nano, mid-training", ours, "tokens/CPU s", "transformers Trainer", theirs["tokens_per_s"], digits=0)
    shapes = ((448, 320), (320, 480), (200, 160))
    yield _packing(
        processor, [row for at, size in enumerate(shapes) for row in screens(PACKED_ROWS // small, at, size)]
    )


def _packing(processor: Any, data: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of screens of several shapes, in an order that mixes them."""
    import random

    from trainer.modeling.packing import bins, fill

    lengths = [processor.length(row) for row in random.Random(0).sample(data, len(data))]
    packed = fill(lengths, bins(lengths, MAX_LENGTH), MAX_LENGTH)
    batches = [lengths[start : start + BATCH] for start in range(0, len(lengths), BATCH)]
    padded = sum(lengths) / sum(len(batch) * max(batch) for batch in batches)
    return result("nano, packed sequences", 100 * packed, "% of places filled", "padded batches", 100 * padded)


def head_memory(tokens: int = 1024, vocabulary: int = 151_936, chunk_bytes: int | None = None) -> dict[str, float]:
    """Of log-probabilities and entropies of that many answer tokens of a published vocabulary, forward and backward,
    from hidden states so narrow that they and the head weigh nothing: `measured_memory`."""
    import torch
    from torch import nn

    from trainer.modeling import head_chunks
    from trainer.modeling.model import reply_terms

    states = torch.randn(tokens, 8, requires_grad=True)
    head, labels = nn.Linear(8, vocabulary, bias=False), torch.arange(tokens)
    usual = head_chunks.CHUNK_BYTES

    def step() -> None:
        found = head_chunks.head_terms(head, states, labels, labels < 0, reply_terms([3], temperature=0.7))
        found.sum().backward()

    try:
        head_chunks.CHUNK_BYTES = usual if chunk_bytes is None else chunk_bytes
        return measured_memory(step)
    finally:
        head_chunks.CHUNK_BYTES = usual
