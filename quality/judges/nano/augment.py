"""Damaged copies of sound recorded traces, for training: what the bench confirms by replay is here taken from pictures.

Cutting, leaving out and shuffling need no world, so every sound trace gives one of each; a bench has them for some.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from quality.items.item import Episode, Row, make_episode
from schemas.action_types import Finished


def damaged_copies(episode: Episode, seed: int = 0) -> Iterator[tuple[str, Episode]]:
    """(defect, copy) of a sound trace that ends with Finished; the same ones by (seed, episode)."""
    rows = [step.row for step in episode.steps]
    shas = [row["screenshot_sha256"] for row in rows]
    if len(rows) < 3 or None in shas or not isinstance(episode.steps[-1].action, Finished):
        return
    rng = Random(f"augment/{seed}/{episode.item_id}")
    body = len(rows) - 1
    late = body - 1
    for keep in sorted({late, rng.randint(1, late)}):
        if shas[keep] != shas[-1]:  # what is cut off changed something
            yield (
                "premature_finish",
                _augmented_episode([*rows[:keep], {**rows[-1], "screenshot_sha256": shas[keep]}], episode),
            )
    changed = [at for at in range(1, body) if shas[at] != shas[at + 1]]
    if changed:
        at = rng.choice(changed)
        yield "skipped_step", _augmented_episode([*rows[:at], *rows[at + 1 :]], episode)
    order = rng.sample(range(body), body)
    if sum(a != b for a, b in zip(order, range(body), strict=True)) >= 3 and len(set(shas[:body])) >= 3:
        yield "shuffled_steps", _augmented_episode([*(rows[at] for at in order), rows[-1]], episode)


def _augmented_episode(rows: list[Row], episode: Episode) -> Episode:
    return make_episode([{**row, "step_index": place} for place, row in enumerate(rows)], episode.bank)
