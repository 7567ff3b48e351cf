"""Tasks of offline RL: a prompt of a sample row with its checkable truth, by domain.

What isn't independent (the steps of an episode, the rows of a picture) goes together as one cluster.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass

from pipelines.prompts import with_asked_form
from schemas.action_types import WIDEST
from trainer.data.clusters import cluster, cluster_of, is_whole, step_of
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
        episode, step = step_of(row) if row["objective"] == "navigation" else (None, -1)
        independent = cluster(row) if processor is not None else cluster_of(row)
        if processor is not None:
            row = cut_row(row, processor, drawn_by=row["sample_id"], target=row["objective"] == "navigation")
            # the window that was cut out has a frame of its own, and the boxes in it are others
            truth = ReplyTarget.of_sample(row, space)
        tasks.append(RlTask(row, truth, independent, episode, step))
    return sorted(tasks, key=lambda task: str(task.row["sample_id"])), dict(unusable)


def choose(tasks: Sequence[RlTask], limit: int, seed: int, *, traces: int = 0) -> list[RlTask]:
    """At most `limit` tasks, whole clusters at a time in the order of a hash, so that traces stay whole.

    A cluster that doesn't fit any more is passed over for a smaller one; with none that fits, the first is cut. With
    `traces`, whole episodes (`complete_episodes`) come first, and of so many of them the steps, and nothing else, are
    taken whatever the limit says.
    """
    clusters: dict[str, list[RlTask]] = defaultdict(list)
    for task in tasks:
        clusters[task.cluster].append(task)
    order = sorted(clusters, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).hexdigest())
    # clusters that hold one whole episode → its steps
    whole: dict[str, list[RlTask]] = {}
    for steps in complete_episodes(tasks) if traces else ():
        names = {tasks[i].cluster for i in steps}
        if len(names) == 1:
            whole[names.pop()] = [tasks[i] for i in steps]
    # a stable sort: among themselves both kinds stay in the order of the hash
    order.sort(key=lambda name: name not in whole)
    taken: list[RlTask] = []
    for place, name in enumerate(order):
        if place < min(traces, len(whole)):
            taken += whole[name]
        elif len(taken) + len(clusters[name]) <= limit:
            taken += clusters[name]
    # one cluster that is larger than the limit: better a part of it than nothing
    if not taken and order:
        taken = clusters[order[0]][:limit]
    return taken


def complete_episodes(tasks: Sequence[RlTask]) -> list[list[int]]:
    """Indices of the tasks of each episode that is there whole (`trainer.data.clusters.is_whole`); others may have lost
    their tail and aren't counted."""
    episodes: dict[str, dict[int, int]] = defaultdict(dict)
    for index, task in enumerate(tasks):
        if task.episode is not None:
            episodes[task.episode][task.step] = index
    return [
        [steps[i] for i in sorted(steps)]
        for _, steps in sorted(episodes.items())
        if is_whole({step: tasks[index].truth.action for step, index in steps.items()})
    ]
