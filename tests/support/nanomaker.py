"""A nano judge with seeded random weights: for tests of what holds whatever it has learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from quality.judges.nano.episode import EPISODE
from quality.judges.nano.head import NanoHead, save_heads
from quality.judges.nano.sample import SAMPLE
from quality.judges.nano.step import STEP
from quality.judges.nano.transition import TRANSITION


def random_head(names: Sequence[str], seed: int) -> NanoHead:
    """A head of two members that reacts to every feature."""
    rng = np.random.default_rng(seed)
    wide = 2 * len(names)

    def layers() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        sizes = ((wide, 8), (8, 1))
        return tuple(
            (rng.normal(0, 0.3, size).astype(np.float32), rng.normal(0, 0.1, size[1]).astype(np.float32))
            for size in sizes
        )

    mean, scale = np.zeros(len(names), np.float32), np.ones(len(names), np.float32)
    return NanoHead(tuple(names), mean, scale, (layers(), layers()))


def random_judge(folder: Path, seed: int = 0) -> Path:
    """Write such a judge into a folder; returns it."""
    names = {"transition": TRANSITION, "step": STEP, "sample": SAMPLE, "episode": EPISODE}
    heads = {name: random_head(listed, seed + place) for place, (name, listed) in enumerate(names.items())}
    save_heads(folder, heads, {"version": 1, "cuts": {"step": 0.4, "sample": 0.4, "episode": 0.4}})
    return folder
