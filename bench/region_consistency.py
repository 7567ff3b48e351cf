"""What agreement without labels is worth to nano-base on screens it never saw (GUI-RC, GUI-RCPO), beside labels.

    python bench/region_consistency.py --work FOLDER [--lesson icons] [--updates 40]

On the same held-out questions: the greedy reply; the consensus of K replies; the greedy reply after training on
agreement alone (no truth is read: w_answer is 0), and after as many updates on the true boxes. Sheets are drawn into
FOLDER once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from schemas.actions import parse_reply
from trainer.checkpoint import load_checkpoint
from trainer.generation import generate
from trainer.held_out import tasks_of
from trainer.nano_base import gate_rows
from trainer.offline_config import config_from
from trainer.offline_rl import train_offline
from trainer.perception import Drawings, PerceptionSource
from trainer.presets import NANO_BASE
from trainer.region_consistency import consensus
from trainer.rewards import Truth, point_hit

REWARDS: dict[str, dict[str, float]] = {
    "agreement alone": {"w_format": 0.1, "w_answer": 0.0, "w_consistency": 0.9},
    "true boxes": {"w_format": 0.1, "w_answer": 0.9},
}


def voted(rows: list[dict[str, Any]], samples: int, temperature: float) -> float:
    """Hit rate of the consensus of `samples` replies of nano-base."""
    loaded = load_checkpoint(NANO_BASE)
    replies = generate(loaded.model, loaded.processor, rows, group=samples, temperature=temperature, max_new_tokens=12)
    hits = 0
    for place, row in enumerate(rows):
        truth = Truth.of_sample(row)
        points = [parse_reply(reply.text).point for reply in replies if reply.row == place]
        hits += point_hit(consensus(points), truth.boxes, truth.refusal)
    return hits / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--lesson", default="icons")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--samples", type=int, default=8)
    options = parser.parse_args()
    drawings = [Drawings.of_split(options.work, name, 8, 0) for name in ("unlabelled", "asked")]
    for one in drawings:
        one.draw([options.lesson])
    sources = [PerceptionSource(one, {options.lesson: 1.0}, "rc") for one in drawings]
    train, asked = (gate_rows(one, options.questions * n)[0] for one, n in zip(sources, (3, 1), strict=True))
    usable, _ = tasks_of(asked, "grounding", load_checkpoint(NANO_BASE).processor)
    found: dict[str, float] = {}
    for name, rewards in REWARDS.items():
        config = config_from("grounding", {
            "updates": options.updates, "prompts": 16, "group": options.samples, "keep": "last", "patience": 10**6,
            "eval_every": options.updates, "learning_rate": 1e-4, "held_out_limit": len(usable), "held_out_samples": 0,
            "validation_limit": 16, "validation_samples": 0, "rewards": rewards,
        })  # fmt: skip
        told = train_offline(NANO_BASE, train, asked, options.work / name.replace(" ", "_"), config).metrics
        found["greedy"] = told["before"]["step_success"]
        found[f"greedy after {options.updates} updates on {name}"] = told["after"]["step_success"]
    for temperature in (0.5, 1.0):
        found[f"consensus of {options.samples} at temperature {temperature}"] = voted(
            asked, options.samples, temperature
        )
    print(json.dumps({"lesson": options.lesson, "questions": len(usable), **found}, indent=2))


if __name__ == "__main__":
    main()
