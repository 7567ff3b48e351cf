"""What isn't independent: samples of one screen, steps of one episode."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.ids import digest
from trainer.modeling.batches import Row, row_images


def picture_key(row: Mapping[str, object]) -> str:
    """sha256 over a row's pictures (for one picture: its screenshot's)."""
    data = row_images(row)
    if len(data) == 1:
        return hashlib.sha256(data[0]).hexdigest()
    # of the digests, so that it counts where one picture ends and the next begins
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in data)).hexdigest()


def cluster(row: Row) -> str:
    """What isn't independent: the screen of a grounding sample, the episode of a navigation sample."""
    if row["objective"] == "navigation":
        for parent in row.get("parents") or ():
            kind, _, rest = parent.partition(":")
            if kind in ("step", "episode"):
                return f"episode:{rest.rpartition('/')[0] if kind == 'step' else rest}"
    return f"screen:{picture_key(row)}"


def cluster_of(row: Mapping[str, Any]) -> str:
    """The episode or screen that a sample was derived from (its own id if it names no parent)."""
    first = str((row.get("parents") or [f"sample:{row['sample_id']}"])[0])
    return f"episode:{first[len('step:') :].rpartition('/')[0]}" if first.startswith("step:") else first


def set_aside(rows: Sequence[Mapping[str, object]], share: float, episodes: int = 0) -> list[Mapping[str, object]]:
    """About `share` of the rows for validation: whole episodes and screens, each by its own hash; and of every platform
    `episodes` episodes at least, but never more than half of those it has.

    The same rows for every stage, so what stops RL was not trained on before either.
    """
    # in units of the 64 bits that are compared
    limit = int(share * 2**64)
    place = {name: int(digest(["validation", name])[:16], 16) for name in {cluster_of(row) for row in rows}}
    chosen = {name for name, own in place.items() if own < limit}
    acted: dict[object, set[str]] = defaultdict(set)
    for row in rows if episodes else ():
        if row["objective"] == "navigation":
            acted[row["platform"]].add(cluster_of(row))
    for names in acted.values():
        # by the hash that the share compares: more episodes add to what a share sets aside, and swap nothing
        chosen |= set(sorted(names, key=lambda name: place[name])[: min(episodes, len(names) // 2)])
    return [row for row in rows if cluster_of(row) in chosen]
