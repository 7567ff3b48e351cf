"""History alignment within offline RL: before an epoch, the training tasks anew in the policy's own words.

docs/method.md §6 (UI-Venus V1): between epochs the policy answers every step of the training episodes, thoughts of
right actions enter the histories of later steps, and rare actions come in several histories
(`trainer.offline.alignment`). An epoch then holds each task once, in its new form where it has one, and the further
forms of rare ones. Each epoch starts from the recorded rows, so what an earlier policy thought doesn't pile up.
Validation and held-out tasks stay as they are. The checkpoint's preset records that it learned from thoughts in
histories (`as_trained`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.prompts import asks_to_think, prompt_text
from trainer.modeling.batches import BadSample
from trainer.modeling.generation import reply_limit
from trainer.modeling.processor import Processor
from trainer.modeling.sampler import Sampler
from trainer.offline.alignment import align, model_rollouts
from trainer.offline.tasks import REPLIES, RlTask
from trainer.presets import Preset
from trainer.settings.domains import DOMAINS
from trainer.settings.offline import AlignmentConfig

CHANGED = ("sample_id", "messages", "parents", "provenance", "tokens", "synthetic")
"""What a new row has of its own; the rest is its task's."""


def wanted(asked: bool | None, domain: str, preset: Preset) -> bool:
    """Whether a run aligns: as it was asked; None: for published presets. A preset from scratch (`shape`) learns from
    histories of actions alone and thinks nothing, so it would pay for replies that hold no thought. Grounding has no
    histories: never there."""
    if DOMAINS[domain].objective != "navigation":
        return False
    return preset.shape is None if asked is None else asked


def aligned_rows(
    sampler: Sampler, tasks: Sequence[RlTask], config: AlignmentConfig
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Tasks → their new rows without pictures (plain values: they are saved with the run), and `align`'s counts.

    A pure function of weights, tasks and config."""
    preset = sampler.processor.preset
    limit = reply_limit(preset.max_answer_tokens, "navigation")
    rollouts = model_rollouts(sampler, max_new_tokens=limit, batch_size=REPLIES)
    made = align([task.row for task in tasks], rollouts, config, preset.action_space)
    return [{key: row[key] for key in CHANGED if key in row} for row in made.rows], made.counts


def with_aligned(
    tasks: Sequence[RlTask], made: Sequence[Mapping[str, Any]], processor: Processor
) -> tuple[list[RlTask], dict[str, int]]:
    """The tasks of an epoch in a fixed order, and how many of them are new, ask for thoughts among these, are further
    forms or could not be used.

    A row whose prompt can't be laid out is left out; a task without any new row stays as it is."""
    forms: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for row in made:
        provenance = json.loads(row["provenance"])
        forms.setdefault(provenance["of"], []).append((provenance["k"], row))
    found, counts = [], {"tasks": 0, "changed": 0, "thinking": 0, "added": 0, "bad_prompt": 0}
    for task in tasks:
        new = []
        # in the order of k, not of the file
        for _, row in sorted(forms.get(str(task.row["sample_id"]), []), key=lambda form: form[0]):
            whole = {**task.row, **row}
            try:
                processor.prompt(whole)
            except BadSample:
                counts["bad_prompt"] += 1
                continue
            new.append(replace(task, row=whole))
        counts["changed"] += bool(new)
        counts["thinking"] += bool(new) and asks_to_think(prompt_text(new[0].row["messages"]))
        counts["added"] += max(0, len(new) - 1)
        found += new or [task]
    return found, {**counts, "tasks": len(found)}


def as_trained(start: Preset, shown: Sequence[Sequence[int]], peak_update: int) -> Preset:
    """The preset of a checkpoint whose weights are those after `peak_update` updates: its players write histories in
    the form that it learned from, and ask for thoughts if most prompts with such histories did.

    `shown` holds (updates before it, prompts with the policy's thoughts in their history, of these those that ask for
    thoughts) of each epoch or update. Without any before the peak the start's own form stays.
    """
    # only what was shown before the peak has shaped the weights that are saved
    before = [one for one in shown if one[0] < peak_update]
    prompts, thinking = (sum(one[place] for one in before) for place in (1, 2))
    return replace(start, history="think_action", thinking=2 * thinking >= prompts) if prompts else start
