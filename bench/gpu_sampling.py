"""Replies drawn on a GPU and what the learner makes of them, random weights: tokens/s, memory, and how far the two sets
of log-probabilities lie apart, as JSON on stdout.

    python bench/gpu_sampling.py --preset 2b
    python bench/gpu_sampling.py --preset nano --device cpu     # seconds: shows that it runs; says nothing about a GPU

Replies are drawn by `trainer.modeling.generation.generate`, as offline RL and evaluation do; the learner's figures are
those of `reply_logprobs` in packed rows, as in a step of GRPO. Random weights know no text, and the logits of a nearly
uniform distribution hide any fault: the last norm is scaled so that they have a standard deviation of 3.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]
LOGIT_STD = 3.0
LEARNER_BATCH = 8


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw replies, score them, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=("nano", "2b", "8b"), default="2b")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="(cuda)")
    parser.add_argument("--prompts", type=int, default=200, help="(200)")
    parser.add_argument("--tokens", type=int, default=32, help="of each reply at most (32)")
    parser.add_argument("--batch", type=int, default=64, help="replies in flight (64)")
    parser.add_argument("--picture", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), help="(1280 704; nano 224 160)")
    options = parser.parse_args(arguments)
    options.picture = options.picture or ((224, 160) if options.preset == "nano" else (1280, 704))
    options.layers = None
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu_sampling: expected a CUDA device, found none; say --device cpu", file=sys.stderr)
        return 2
    print(json.dumps(measure(options), indent=1))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Figures of the replies to `--prompts` screens; differences in nats a token."""
    import torch
    from gpu_midtrain import Screens, _peak_gib, model_of

    from trainer.modeling.generation import generate

    model, processor = model_of(options, options.device)
    rows = [Screens(tuple(options.picture)).row(place) for place in range(options.prompts)]
    sharpen(model, processor, rows[0])
    on_gpu = options.device == "cuda"
    arguments: dict[str, Any] = {"temperature": 1.0, "max_new_tokens": options.tokens, "batch_size": options.batch}
    generate(model, processor, rows[:2], **arguments)  # kernels are loaded
    began = time.perf_counter()
    generator = torch.Generator(options.device).manual_seed(0)
    replies = generate(model, processor, rows, generator=generator, **arguments)
    seconds = time.perf_counter() - began
    gaps = token_gaps(model, processor, rows, replies)
    tokens = len(gaps)
    return {
        "preset": options.preset,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "prompts": len(rows),
        "tokens": tokens,
        "tokens_per_s": round(tokens / seconds, 1),
        "prompt_tokens": statistics.mean(processor.prompt_length(row) for row in rows),
        "seconds": round(seconds, 3),
        "mean_nats": round(-statistics.mean(value for reply in replies for value in reply.logprobs), 4),
        "difference_mean": statistics.mean(map(abs, gaps)),
        "difference_max": max(map(abs, gaps)),
        # k3 of Schulman (2020): what an importance ratio that should be 1 adds to a KL term
        "kl_k3": statistics.mean(2.718281828459045**gap - 1 - gap for gap in gaps),
        "peak_memory_gib": _peak_gib(on_gpu),
    }


def token_gaps(model: Any, processor: Any, rows: Sequence[Any], replies: Sequence[Any]) -> list[float]:
    """The learner's log-probability of each token of each reply, less the one that was recorded (nats)."""
    scored = learner_logprobs(model, processor, rows, [reply.token_ids for reply in replies])
    return [
        float(one - other)
        for reply, own in zip(replies, scored, strict=True)
        for one, other in zip(own, reply.logprobs, strict=True)
    ]


def sharpen(model: Any, processor: Any, row: Any) -> None:
    """Scale the decoder's last norm so that the logits after a prompt have a standard deviation of `LOGIT_STD`."""
    import torch

    from trainer.modeling.model import hidden_states

    parameter = next(model.parameters())
    with torch.no_grad():
        batch = processor.prompt_batch([row], None).to(parameter.device, parameter.dtype)
        logits = model.lm_head(hidden_states(model, batch)[0, -1:])
        model.model.language_model.norm.weight.mul_(LOGIT_STD / logits.std())


def learner_logprobs(
    model: Any, processor: Any, rows: Sequence[Any], ids: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of each token of each reply, as the learner computes it."""
    import torch

    from trainer.modeling.model import reply_logprobs
    from trainer.modeling.shared_prompts import replies_laid_out
    from trainer.runtime.precision import autocast

    parameter = next(model.parameters())
    found: list[list[float]] = []
    with torch.no_grad(), autocast(parameter.device, None, 1):
        for start in range(0, len(rows), LEARNER_BATCH):
            here = slice(start, start + LEARNER_BATCH)
            batch = replies_laid_out(model, processor, rows[here], ids[here]).to(parameter.device, parameter.dtype)
            made = reply_logprobs(model, batch, never=processor.never)
            found += [row[mask].tolist() for row, mask in zip(made.logprobs, made.mask, strict=True)]
    return found


if __name__ == "__main__":
    sys.exit(main())
