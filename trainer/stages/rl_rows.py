"""Which rows of the store train, validate and report a run of RL or distillation on stored rows."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.ids import digest
from trainer.data.clusters import cluster_of, set_aside
from trainer.data.rows import light_rows, with_pictures
from trainer.offline.tasks import choose, rows_of, tasks_of
from trainer.settings.offline import OfflineConfig
from trainer.settings.stages import CORPUS, HELDOUT
from trainer.stages.context import Context

MIN_VALIDATION = 16
"""Fewer rows than this are no validation set: the trainer then takes one from its training rows."""


@dataclass(frozen=True)
class RlRows:
    """Rows of one domain, with pictures; no validation: the trainer sets a tenth of what it gets aside."""

    train: list[dict[str, Any]]
    held_out: list[dict[str, Any]]
    validation: list[dict[str, Any]]


def rl_rows(context: Context, config: OfflineConfig, trained: Container[str]) -> RlRows:
    """The rows of a run's domain beside specialists of the domains `trained`, no more of them than it can use: every
    row's picture is decoded."""

    def some(
        asset: str, rows: Sequence[Mapping[str, object]], limit: int, clusters: int | None = None
    ) -> list[dict[str, Any]]:
        # whole episodes and screens come together, so traces stay whole; the trainer chooses among them
        # Chosen before their pictures are decoded.
        return with_pictures(context.inputs[asset], by_cluster(rows, limit, config.seed, clusters))

    shards = light_rows(context.inputs[CORPUS], ("train",))
    aside = set_aside(shards, context.settings.validation_share, context.settings.validation_episodes)
    kept_out = {row["sample_id"] for row in aside}
    train_rows = [row for row in rows_of(shards, config.domain, trained) if row["sample_id"] not in kept_out]
    # Twice what a run can ask: some rows prove unusable.
    prompts = 2 * config.updates * config.prompts
    replayed = prompts if config.semi_online else None  # then a prompt is a whole episode
    needed = config.train_limit if replayed else min(config.train_limit, prompts)
    validation = rows_of(aside, config.domain, trained)
    if len(validation) < MIN_VALIDATION:  # the trainer then sets a tenth of what it gets aside
        # A tenth of this is set aside, so ten times as much is needed.
        needed = min(config.train_limit, needed + 10 * config.validation_limit)
        validation = []
    # twice what it validates on, as some may prove unusable: whole episodes first, whose traces decide the peak
    light, _ = tasks_of(validation, config.domain, None)
    validating = choose(light, 2 * config.validation_limit, config.seed, traces=2 * config.min_traces)
    held_out = rows_of(light_rows(context.inputs[HELDOUT], ("test",)), config.domain, trained)
    return RlRows(
        some(CORPUS, train_rows, needed, replayed),
        some(HELDOUT, held_out, 2 * config.held_out_limit),
        with_pictures(context.inputs[CORPUS], [task.row for task in validating]),
    )


def by_cluster(
    rows: Sequence[Mapping[str, object]], limit: int, seed: int, clusters: int | None = None
) -> list[Mapping[str, Any]]:
    """At most `limit` rows, whole episodes and screens together (at most `clusters` of them), in the order of a
    hash."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(cluster_of(row), []).append(row)
    chosen: list[Mapping[str, Any]] = []
    taken = 0
    # By a hash and not in order: a source that comes first must not fill the limit.
    for name in sorted(groups, key=lambda name: digest([seed, name])):
        # Whole groups only, so that no episode is cut; smaller ones may still fit after a large one.
        if len(chosen) + len(groups[name]) <= limit and taken != clusters:
            chosen += groups[name]
            taken += 1
    if not chosen and groups:  # even the first is larger than the limit
        chosen = groups[min(groups, key=lambda name: digest([seed, name]))][:limit]
    return chosen
