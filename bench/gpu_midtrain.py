"""Mid-training of a published size on GPUs, and RL's step after it, random weights: tokens/s, MFU, peak memory, as JSON
on stdout.

    python bench/gpu_midtrain.py --preset 2b
    torchrun --nproc-per-node 8 bench/gpu_midtrain.py --preset 30b-a3b --layers 12 --gradient-checkpointing
    python bench/gpu_midtrain.py --preset nano --device cpu     # seconds: shows that it runs; says nothing about a GPU

It is `trainer.midtrain.train.train` itself on drawn screens, packed. MFU as in PaLM (Chowdhery et al., 2022,
appendix B): FLOPs that the model's arithmetic needs, without recomputation, by seconds and by the peak given with
`--peak-tflops` (989 is the dense bf16 peak of an H100 or H200). Of a mixture of experts the active parameters count.

Under `grpo`: optimiser steps of `trainer.rl.learner.Learner`, which offline and online RL share, on made-up replies to
such screens, `--group` to each; with `--beta` above 0 there is a reference. Sampling is not in it. Tokens are those of
the sequences, each counted once.
"""

import argparse
import gc
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
WARM_UP = 3
"""Steps that are not counted."""
PUBLISHED = {
    "steps": 12,
    "max_length": 8192,
    "picture": (1280, 704),
    "threads": 8,
    "replies": 64,
    "reply_tokens": 128,
    "micro_batch": 8,
}
NANO = {
    "steps": 5,
    "max_length": 512,
    "picture": (224, 160),
    "threads": 1,
    "replies": 16,
    "reply_tokens": 16,
    "micro_batch": 8,
}
"""What a preset is measured with unless the command says otherwise."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train some steps, print the figures (first rank)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=("nano", "2b", "8b", "30b-a3b"), default="2b")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where one process computes (cuda)")
    parser.add_argument("--layers", type=int, help="decoder layers to keep (all)")
    parser.add_argument("--steps", type=int, help=f"of each kind, the first {WARM_UP} not counted (12)")
    parser.add_argument("--sequences", type=int, default=2, help="packed sequences a step and rank")
    parser.add_argument("--max-length", type=int, help="tokens of a packed sequence (8192)")
    parser.add_argument("--gradient-accumulation-steps", type=int, default=1)
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--compile", action="store_true", help="compile each block of the model")
    parser.add_argument("--attention", default="sdpa", help="as the setting of that name (sdpa)")
    parser.add_argument("--only", choices=("midtrain", "grpo"), help="measure this alone")
    parser.add_argument("--picture", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), help="(1280 704)")
    parser.add_argument("--threads", type=int, help="of torch (8)")
    parser.add_argument("--replies", type=int, help="of a GRPO step (64)")
    parser.add_argument("--group", type=int, default=8, help="replies to one screen (8)")
    parser.add_argument("--reply-tokens", type=int, help="of each reply (128)")
    parser.add_argument("--micro-batch", type=int, help="replies computed together (8)")
    parser.add_argument("--beta", type=float, default=0.0, help="of the KL term; above 0 there is a reference (0)")
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="bf16 peak of one GPU")
    options = parser.parse_args(arguments)
    for name, value in (NANO if options.preset == "nano" else PUBLISHED).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.steps <= WARM_UP or options.group < 2 or options.replies % options.group:
        print(
            f"gpu_midtrain: expected --steps above {WARM_UP}, --group of at least 2 and --replies in whole groups, "
            f"found {options.steps}, {options.group} and {options.replies}",
            file=sys.stderr,
        )
        return 2
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        print(
            "gpu_midtrain: expected a CUDA device, found none; run it on a machine with a GPU, or say --device cpu",
            file=sys.stderr,
        )
        return 2
    from trainer.runtime.parallel import launched

    with launched() as group:
        # of several ranks the first makes the weights and hands the parts out
        place = options.device if group.world == 1 else "cpu" if group.first else "meta"
        found: dict[str, Any] = {"preset": options.preset}
        if options.only != "grpo":
            found = measure(options, place, group.world)
        gc.collect()  # the optimiser's moments and the model go before the next ones come
        if options.only != "midtrain":
            found["grpo"] = grpo_step(options, place, group.first)
        if group.first:
            print(json.dumps(found, indent=1))
    return 0


def model_of(options: argparse.Namespace, device: str) -> tuple[Any, Any]:
    """(model with random weights, processor), made on `device`."""
    from trainer.modeling.model import build_model
    from trainer.modeling.processor import Processor
    from trainer.modeling.published import random_base
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor, preset

    tokenizer = train_tokenizer([Screens(tuple(options.picture)).row(0)["answer"]])
    if options.preset != "nano":
        return random_base(options.preset, tokenizer, options.layers, device=device)
    nano = preset("nano")
    return build_model(nano, tokenizer).to(device), Processor(tokenizer, image_processor(nano), nano)


def measure(options: argparse.Namespace, device: str, world: int) -> dict[str, Any]:
    """Figures of a run of mid-training whose model is made on `device`; {} on ranks that report nothing."""
    import torch

    from trainer.midtrain.train import train
    from trainer.settings.presets import configured
    from trainer.settings.supervised import MidtrainConfig

    source = Screens(tuple(options.picture))
    model, processor = model_of(options, device)
    config = MidtrainConfig(
        max_steps=options.steps,
        batch_size=options.sequences * world,
        warmup_steps=0,
        learning_rate=1e-5,
        sigma=(0.0, 0.0),
        threads=options.threads,
        packing=True,
        max_length=options.max_length,
        packing_window=128,
        gradient_accumulation_steps=options.gradient_accumulation_steps,
        gradient_checkpointing=options.gradient_checkpointing,
        compile=options.compile,
        attention=options.attention,
        router_aux_loss_coef=configured(options.preset).midtrain.router_aux_loss_coef,
    )
    lengths = [processor.length(source.row(index)) for index in range(8)]
    flops = flops_per_token(model.config, processor, [source.row(index) for index in range(8)])
    events: list[dict[str, Any]] = []
    on_gpu = options.device == "cuda"
    _forget_peak(on_gpu)
    train(model, processor, source, config, on_event=events.append, progress=False)
    first, *steps = [event for event in events if event["kind"] == "step"] or [{}]
    steps = steps[WARM_UP - 1 :]
    if not steps:
        return {}
    speed = statistics.median(event["tokens_per_s"] for event in steps)
    return {
        "preset": options.preset,
        "layers": model.config.text_config.num_hidden_layers,
        "ranks": world,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "torch": torch.__version__,
        "tokens_per_step": statistics.median(event["tokens"] for event in steps),
        "tokens_per_s": round(speed, 1),
        "packing_fill": round(statistics.mean(event["fill"] for event in steps), 4),
        "tokens_per_sample": statistics.mean(lengths),
        "flops_per_token": round(flops),
        "mfu": round(speed * flops / (world * options.peak_tflops * 1e12), 4) if on_gpu else None,
        "peak_memory_gib": _peak_gib(on_gpu),
        "waiting_for_data": round(sum(e["data_seconds"] for e in steps) / sum(e["seconds"] for e in steps), 4),
        "attention": options.attention,
        "compile": options.compile,
        "first_step_s": round(first["seconds"], 2),
        "gradient_checkpointing": options.gradient_checkpointing,
    }


def grpo_step(options: argparse.Namespace, device: str, first: bool) -> dict[str, Any]:
    """Figures of an optimiser step of RL whose policy is made on `device`; {} on ranks that only follow."""
    from trainer.rl.grpo import group_advantages
    from trainer.rl.learner import Learner
    from trainer.rl.sampled_replies import SampledReply
    from trainer.runtime.deterministic import deterministic
    from trainer.settings.grpo import GrpoConfig, LearnerConfig

    model, processor = model_of(options, device)
    grpo = GrpoConfig(beta=options.beta, max_completion_length=options.reply_tokens)
    config = LearnerConfig(
        grpo=grpo,
        learning_rate=1e-6,
        micro_batch=options.micro_batch,
        gradient_checkpointing=options.gradient_checkpointing,
        compile=options.compile,
        attention=options.attention,
    )
    source, guess = Screens(tuple(options.picture)), -math.log(model.config.text_config.vocab_size)
    on_gpu = options.device == "cuda"
    _forget_peak(on_gpu)
    with deterministic(options.device, options.threads):
        learner = Learner(model, processor, config)
        if not first:
            learner.follow()
            return {}
        seconds, tokens, figures = [], 0, {}
        for step in range(options.steps):
            rows = [source.row(step * options.replies + screen) for screen in range(options.replies // options.group)]
            answers = [processor.answer(row["answer"]) for row in rows]
            replies = [
                SampledReply(
                    rows[place],
                    (answers[place] * (options.reply_tokens + member))[member : options.reply_tokens + member],
                    [guess] * options.reply_tokens,
                    place * options.group + member,
                    stale=True,  # nobody drew them
                )
                for place in range(len(rows))
                for member in range(options.group)
            ]
            advantages = group_advantages([[float(m % 2) for m in range(options.group)] for _ in rows], grpo)
            prompts = [processor.length(row) - len(answer) for row, answer in zip(rows, answers, strict=True)]
            tokens = sum(options.group * (prompt + options.reply_tokens) for prompt in prompts)
            began = time.perf_counter()
            figures = learner.step(replies, advantages, [options.reply_tokens] * len(replies), step)
            if on_gpu:
                import torch

                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        learner.close()
    middle = statistics.median(seconds[WARM_UP:])
    return {
        "seconds": round(middle, 4),
        "tokens": tokens,
        "tokens_per_s": round(tokens / middle, 1),
        "peak_memory_gib": _peak_gib(on_gpu),
        "replies": options.replies,
        "reply_tokens": options.reply_tokens,
        "micro_batch": options.micro_batch,
        "reference": options.beta > 0,
        "grad_norm": figures["grad_norm"],
    }


def _forget_peak(on_gpu: bool) -> None:
    """Peak memory counts from here on."""
    import torch

    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak_gib(on_gpu: bool) -> float | None:
    import torch

    return round(torch.cuda.max_memory_allocated() / 2**30, 2) if on_gpu else None


def flops_per_token(config: Any, processor: Any, rows: Sequence[Any]) -> float:
    """FLOPs of a forward and backward pass by tokens of these rows (`trainer.modeling.flops.batch_flops`)."""
    from trainer.modeling.flops import batch_flops

    batch = processor.training_batch(rows)
    return batch_flops(config, batch) / batch.tokens


class Screens:
    """Endless drawn screens with an instruction and an action; a row is a pure function of its position."""

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size

    def row(self, position: int) -> dict[str, Any]:
        """A `RowSource` row with a ready picture."""
        import numpy as np

        from pipelines.prompts import messages, navigation_text, reply_text
        from schemas.actions import Click
        from trainer.modeling.batches import PixelPicture

        columns, rows = (side // 32 * 32 for side in self._size)
        pixels = np.full((3, rows, columns), 255, np.uint8)
        left, top = position * 7919 % (columns - 64), position * 104_729 % (rows - 64)
        pixels[position % 3, top : top + 64, left : left + 64] = 0
        point = (left * 1000 // columns, top * 1000 // rows)
        history = [(i + 1, f"Click(box=({i},{i}))") for i in range(position % 12)]
        return {
            "sample_id": f"{position:032x}",
            "objective": "navigation",
            "platform": "web",
            "images": [PixelPicture(str(position), pixels)],
            "answer": reply_text(Click(point), "web"),
            "messages": messages("navigation", navigation_text("Click the coloured box.", history)),
        }

    def rows(self, start: int) -> Iterator[dict[str, Any]]:
        """See `trainer.data.row_sources.RowSource`."""
        position = start
        while True:
            yield self.row(position)
            position += 1

    def digest(self) -> str:
        """See `trainer.data.row_sources.RowSource`."""
        return f"screens {self._size}"


if __name__ == "__main__":
    sys.exit(main())
