"""Tasks of offline RL: a prompt of a sample row with its checkable truth, by domain.

What isn't independent (the steps of an episode, the rows of a picture) goes together as one cluster.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass

from pipelines.prompts import with_asked_form
from schemas.action_types import WIDEST
from schemas.actions import Finished
from trainer.data.clusters import cluster, cluster_of
from trainer.data.window_rows import cut_row
from trainer.modeling.batches import BadSample, Row
from trainer.modeling.processor import Processor
from trainer.rl.rewards import DEFAULT, ReplyTarget
from trainer.settings.domains import DOMAINS, USUAL, platforms_of
from trainer.settings.rewards import RewardConfig

REPLIES = 128
"""Replies of a model in flight."""


@dataclass(frozen=True)
class RlTask:
    """A prompt with its checkable truth. `cluster` groups what isn't independent; `episode` may be None (unknown)."""

    row: Row
    truth: ReplyTarget
    cluster: str
    episode: str | None = None
    step: int = -1


def rows_of(rows: Sequence[Row], domain: str, trained: Container[str] = USUAL) -> list[Row]:
    """The rows of a domain, beside specialists of the domains `trained`. Raises `ValueError` for an unknown one."""
    platforms = platforms_of(domain, trained)
    objective = DOMAINS[domain].objective
    return [row for row in rows if row["objective"] == objective and row["platform"] in platforms]


def tasks_of(
    rows: Sequence[Row], domain: str, processor: Processor | None, rewards: RewardConfig = DEFAULT
) -> tuple[list[RlTask], dict[str, int]]:
    """Rows of a domain → tasks in the order of their sample ids, and why others couldn't be used (counted by reason).

    Rows of other domains are passed over. Without a processor rows need no pictures: no prompt is laid out, and screens
    are distinguished by their parents. Grounding asks for what `rewards` reward, be it a box or a confidence. Raises
    `ValueError` for an unknown domain.
    """
    unusable: Counter[str] = Counter()
    space = processor.preset.action_space if processor is not None else WIDEST
    tasks = []
    for row in rows_of(rows, domain):
        try:
            truth = ReplyTarget.of_sample(row, space)
        except ValueError:
            unusable["no_checkable_truth"] += 1
            continue
        if row["objective"] == "grounding" and rewards.wide:
            asked = with_asked_form(row["messages"], box=rewards.boxes, confidence=rewards.w_confidence > 0)
            row = {**row, "messages": asked}
        try:
            if processor is not None:
                processor.prompt(row)
        except BadSample:
            unusable["bad_prompt"] += 1
            continue
        episode, step = _place(row) if row["objective"] == "navigation" else (None, -1)
        independent = cluster(row) if processor is not None else cluster_of(row)
        if processor is not None:
            row = cut_row(row, processor, drawn_by=row["sample_id"], target=row["objective"] == "navigation")
            # the window that was cut out has a frame of its own, and the boxes in it are others
            truth = ReplyTarget.of_sample(row, space)
        tasks.append(RlTask(row, truth, independent, episode, step))
    return sorted(tasks, key=lambda task: str(task.row["sample_id"])), dict(unusable)


def _place(row: Row) -> tuple[str | None, int]:
    """Episode and step of a derived navigation sample, from its provenance. What a deriver of whole trajectories made
    of a step (a correction, a second try) is a task of its own: a trace has each of its steps once."""
    try:
        provenance = json.loads(row.get("provenance") or "{}")
        if "kind" in provenance:
            return None, -1
        return f"{row['source']}/{provenance['episode']}", int(provenance["step"])
    except (ValueError, KeyError, TypeError):
        return None, -1


def choose(tasks: Sequence[RlTask], limit: int, seed: int, *, traces: int = 0) -> list[RlTask]:
    """At most `limit` tasks, whole clusters at a time in the order of a hash, so that traces stay whole.

    A cluster that doesn't fit any more is passed over for a smaller one; with none that fits, the first is cut. With
    `traces`, whole episodes (`complete_episodes`) come first, and so many of them are taken whatever the limit says.
    """
    clusters: dict[str, list[RlTask]] = defaultdict(list)
    for task in tasks:
        clusters[task.cluster].append(task)
    order = sorted(clusters, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).hexdigest())
    # clusters that are whole episodes, and nothing else
    whole: set[str] = set()
    if traces:
        episodes = ({tasks[i].cluster for i in steps} for steps in complete_episodes(tasks))
        whole = {name for names in episodes if len(names) == 1 for name in names}
        # a stable sort: among themselves both kinds stay in the order of the hash
        order.sort(key=lambda name: name not in whole)
    taken: list[RlTask] = []
    for place, name in enumerate(order):
        if place < min(traces, len(whole)) or len(taken) + len(clusters[name]) <= limit:
            taken += clusters[name]
    # one cluster that is larger than the limit: better a part of it than nothing
    if not taken and order:
        taken = clusters[order[0]][:limit]
    return taken


def complete_episodes(tasks: Sequence[RlTask]) -> list[list[int]]:
    """Indices of the tasks of each episode that is there from step 0 to its end without a gap.

    The end is known from a true `Finished`; other episodes may have lost their tail and aren't counted.
    """
    episodes: dict[str, dict[int, int]] = defaultdict(dict)
    for index, task in enumerate(tasks):
        if task.episode is not None:
            episodes[task.episode][task.step] = index
    found = []
    for _, steps in sorted(episodes.items()):
        # only a recorded end shows that nothing is missing behind the last step
        ended = isinstance(tasks[steps[max(steps)]].truth.action, Finished)
        if ended and sorted(steps) == list(range(len(steps))):
            found.append([steps[i] for i in sorted(steps)])
    return found
