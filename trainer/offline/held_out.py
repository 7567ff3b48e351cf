"""RL tasks from sample rows, and what a policy is worth on held-out ones: reward, step success, trace success.

Everything is paired: the same tasks, the same sampling seeds before and after, and what isn't
independent (the steps of an episode, the rows of a picture) goes together as one cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pipelines.prompts import with_asked_form
from schemas.actions import Finished, parse_reply
from trainer.data.stream import cluster_of
from trainer.evaluation.evaluate import cluster
from trainer.modeling.batches import BadSample, Processor, Row
from trainer.modeling.generation import generate, reply_limit
from trainer.rl.rewards import DEFAULT, Truth, bounds, point_hit, reward, step_success
from trainer.settings.rewards import RewardConfig

DOMAINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "grounding": ("grounding", ("mobile", "web", "desktop")),
    "mobile": ("navigation", ("mobile",)),
    "web": ("navigation", ("web", "desktop")),
}
"""The three specialists: objective and platforms of the rows that train them.

Desktop has none of its own: that of web, where screens and actions are most alike, trains on desktop rows too.
"""

REPLIES = 128
"""Replies of a model in flight."""


@dataclass(frozen=True)
class RlTask:
    """A prompt with its checkable truth. `cluster` groups what isn't independent; `episode` may be None (unknown)."""

    row: Row
    truth: Truth
    cluster: str
    episode: str | None = None
    step: int = -1


def rows_of(rows: Sequence[Row], domain: str) -> list[Row]:
    """The rows of a domain. Raises `ValueError` for an unknown one."""
    if domain not in DOMAINS:
        raise ValueError(f"offline RL: expected a domain of {', '.join(DOMAINS)}, found {domain!r}")
    objective, platforms = DOMAINS[domain]
    return [row for row in rows if row["objective"] == objective and row["platform"] in platforms]


def tasks_of(
    rows: Sequence[Row], domain: str, processor: Processor | None, rewards: RewardConfig = DEFAULT
) -> tuple[list[RlTask], dict[str, int]]:
    """Rows of a domain → tasks in the order of their sample ids, and why others couldn't be used (counted by reason).

    Rows of other domains are passed over. Without a processor rows need no pictures: no prompt is laid out, and screens
    are told apart by their parents. Grounding asks for what `rewards` reward, be it a box or a confidence. Raises
    `ValueError` for an unknown domain.
    """
    unusable: Counter[str] = Counter()
    tasks = []
    for row in rows_of(rows, domain):
        try:
            truth = Truth.of_sample(row)
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
        tasks.append(RlTask(row, truth, cluster(row) if processor is not None else cluster_of(row), episode, step))
    return sorted(tasks, key=lambda task: str(task.row["sample_id"])), dict(unusable)


def _place(row: Row) -> tuple[str | None, int]:
    """Episode and step of a derived navigation sample, from its provenance."""
    try:
        provenance = json.loads(row.get("provenance") or "{}")
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
    whole: set[str] = set()
    if traces:
        episodes = ({tasks[i].cluster for i in steps} for steps in complete_episodes(tasks))
        whole = {name for names in episodes if len(names) == 1 for name in names}
        order.sort(key=lambda name: name not in whole)
    taken: list[RlTask] = []
    for place, name in enumerate(order):
        if place < min(traces, len(whole)) or len(taken) + len(clusters[name]) <= limit:
            taken += clusters[name]
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
        ended = isinstance(tasks[steps[max(steps)]].truth.action, Finished)
        if ended and sorted(steps) == list(range(len(steps))):
            found.append([steps[i] for i in sorted(steps)])
    return found


@dataclass(frozen=True)
class Measure:
    """What a policy did on tasks, one number per task: `sampled` is the mean reward of replies drawn at temperature 1,
    `greedy` the reward of the likeliest reply, `success` whether that one would have done; `traces` one flag per
    complete episode (every step a success, histories being the true ones); `progress`, where it was asked for, is how
    far each such episode goes with the policy's own history (`semi_online.sop_progress`).
    """

    sampled: tuple[float, ...]
    greedy: tuple[float, ...]
    success: tuple[bool, ...]
    traces: tuple[bool, ...]
    progress: tuple[float, ...] = ()

    def summary(self) -> dict[str, float | int | None]:
        """Means, for events and reports; None where there is nothing to average."""
        return {
            "tasks": len(self.sampled),
            "reward": _mean(self.sampled),
            "greedy_reward": _mean(self.greedy),
            "step_success": _mean(self.success),
            "trace_success": _mean(self.traces),
            "traces": len(self.traces),
            **sop(self.progress),
        }


def sop(progress: Sequence[float]) -> dict[str, float]:
    """Semi-online performance: mean progress, share of episodes done whole, and the mean of both; {} of none."""
    if not progress:
        return {}
    far, whole = float(np.mean(progress)), float(np.mean([one == 1.0 for one in progress]))
    return {"sop_progress": far, "sop_success": whole, "sop": (far + whole) / 2}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def measure(
    model: Any,
    processor: Processor,
    tasks: Sequence[RlTask],
    *,
    samples: int,
    seed: int,
    config: RewardConfig,
    own_history: bool = False,
) -> Measure:
    """Reward and success on tasks; a pure function of weights, tasks and seed. `samples` 0 leaves sampling out;
    `own_history` asks for `progress` too."""
    from trainer.offline.semi_online import answering, sop_progress  # which stand on the tasks of this module

    rows = [task.row for task in tasks]
    objective = tasks[0].truth.objective if tasks else ""  # tasks of one domain have one
    limit = reply_limit(processor.preset.max_answer_tokens, objective, config.wide)
    arguments: dict[str, Any] = {"max_new_tokens": limit, "batch_size": REPLIES}
    greedy = generate(model, processor, rows, **arguments)
    best = [reward(reply.text, task.truth, config) for reply, task in zip(greedy, tasks, strict=True)]
    sampled = best
    if samples:
        generator = torch.Generator(device=next(model.parameters()).device).manual_seed(seed)
        replies = generate(model, processor, rows, group=samples, temperature=1.0, generator=generator, **arguments)
        scores = [reward(reply.text, tasks[reply.row].truth, config) for reply in replies]
        sampled = np.asarray(scores).reshape(len(tasks), samples).mean(1).tolist()
    success = [succeeds(reply.text, task.truth, config) for reply, task in zip(greedy, tasks, strict=True)]
    traces = [all(success[i] for i in steps) for steps in complete_episodes(tasks)]
    progress: tuple[float, ...] = ()
    if own_history:
        likeliest = answering(model, processor, None, temperature=0.0)
        progress = sop_progress(tasks, greedy, likeliest, rewards=config)
    return Measure(tuple(sampled), tuple(best), tuple(success), tuple(traces), progress)


def succeeds(text: str, truth: Truth, config: RewardConfig) -> bool:
    """Whether a reply does the step: point in box (or right refusal) for grounding, `step_success` for navigation."""
    reply = parse_reply(text)
    if truth.action is None:
        return point_hit(reply.point, truth.boxes, truth.refusal)
    return any(step_success(reply.action, truth.action, box, config) for box in truth.boxes or (None,))


def reward_bounds(domain: str, config: RewardConfig) -> tuple[float, float]:
    """The range of rewards in a domain, to read the figures by."""
    return bounds(DOMAINS[domain][0], config)
