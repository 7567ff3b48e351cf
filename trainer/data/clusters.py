"""What isn't independent: samples of one screen, steps of one episode."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.derivers.navigation import STEP_DERIVER
from schemas.actions import WIDEST, Action, Finished, parse_reply
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


def step_of(row: Mapping[str, Any]) -> tuple[str | None, int]:
    """Episode and step of a derived navigation sample, from its provenance. What a deriver of whole trajectories made
    of a step (a correction, a second try) is a task of its own, and so is a step that its prompt names: a trace has
    each of its steps once, and asks for the goal."""
    try:
        provenance = json.loads(row.get("provenance") or "{}")
        if "kind" in provenance or provenance.get("deriver") == STEP_DERIVER:
            return None, -1
        return f"{row['source']}/{provenance['episode']}", int(provenance["step"])
    except (ValueError, KeyError, TypeError):
        return None, -1


def is_whole(actions: Mapping[int, Action | None]) -> bool:
    """Whether true actions by step are an episode from step 0 to its end without a gap. The end is known from a true
    `Finished`: only a recorded end shows that nothing is missing behind the last step."""
    return isinstance(actions[max(actions)], Finished) and sorted(actions) == list(range(len(actions)))


def set_aside(rows: Sequence[Mapping[str, Any]], share: float, episodes: int = 0) -> list[Mapping[str, Any]]:
    """About `share` of the rows for validation: whole screens and episodes, each by its own hash; and of every platform
    `episodes` recorded whole (`is_whole`) at least, but never more than half of those it has.

    The same rows for every stage, so what stops RL was not trained on before either.
    """
    # in units of the 64 bits that are compared
    limit = int(share * 2**64)
    place = {name: int(digest(["validation", name])[:16], 16) for name in {cluster_of(row) for row in rows}}
    chosen = {name for name, own in place.items() if own < limit}
    acted: dict[object, dict[str, dict[int, Action | None]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows if episodes else ():
        episode, step = step_of(row)
        if row["objective"] == "navigation" and episode is not None:
            acted[row["platform"]][cluster_of(row)][step] = parse_reply(row["answer"], WIDEST).action
    for names in acted.values():
        # what the share took counts; then the shortest, which a look pays least for and a small model may do whole
        whole = [(name not in chosen, len(own), place[name], name) for name, own in names.items() if is_whole(own)]
        chosen.update(name for *_, name in sorted(whole)[: min(episodes, len(whole) // 2)])
    return [row for row in rows if cluster_of(row) in chosen]
