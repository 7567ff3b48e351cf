"""Between epochs: histories in the model's own words, and more of the actions that are rare (UI-Venus V1, §3).

Steps of recorded episodes have no thoughts, or those of another author. `align` lets the model answer every step R
times, keeps the thoughts of replies whose action is right, and writes one of them (the one whose length is nearest a
target) beside the step's action in the histories of later steps (`prompts.history.history_entry`). A step with a rare
action comes M times, with histories of different kept thoughts. What comes back are new rows, with what they were made
of as parents. A checkpoint that learned from them remembers it (`epoch_alignment.as_trained`), and who plays it writes
its histories so.

    1. Click(box=(5,600)) (the menu is behind this button)

Deterministic: the same rows, replies and config give the same rows.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.prompts import PROMPT_VERSION, before_history, prompt_text, version_of
from pipelines.prompts.history import HISTORY_LINES, PromptVersion, history_entry, shown_thought
from pipelines.prompts.tokens import text_tokens
from schemas.actions import ACTION_SPACE, Action, ActionSpace, parse_reply
from schemas.ids import canonical_json, digest, item_sample, sample_id
from trainer.modeling.batches import Row
from trainer.modeling.sampler import Sampler
from trainer.rl.rewards import ReplyTarget, step_success
from trainer.settings.offline import AlignmentConfig

DERIVER, VERSION = "history_alignment", 1

Rollouts = Callable[[Sequence[Row], int, int], Sequence[Sequence[str]]]
"""(rows, replies a row, seed) → reply texts of each row."""

Step = tuple[str, str, int]
"""(source, episode, step index)."""


@dataclass
class Alignment:
    """The new rows, and what happened: steps asked, those with a right reply, rows by kind, rare types, passed over."""

    rows: list[dict[str, Any]]
    counts: dict[str, Any]


@dataclass(frozen=True)
class _Asked:
    row: Row
    truth: ReplyTarget
    step: Step


def align(
    rows: Sequence[Row], rollouts: Rollouts, config: AlignmentConfig | None = None, space: ActionSpace = ACTION_SPACE
) -> Alignment:
    """Navigation rows → the same steps with aligned histories; rows of other objectives are passed over.
    `space` is that which the model of the `rollouts` speaks.

    A row whose history shows no step with a right reply has no new form. Rows that name no episode or no true action
    are counted as `unusable`. Raises `ValueError` if `rollouts` does not give its R replies for every row.
    """
    config = config or AlignmentConfig()
    asked, unusable = _asked(rows, space)
    thoughts = _right_thoughts(asked, rollouts, config)
    types = Counter(type(one.truth.action).__name__ for one in asked)
    # rare by the share of the steps that were asked about, not of the corpus
    rare = {name for name, count in types.items() if count < config.sparse_share * len(asked)}
    actions = {one.step: one for one in asked}
    aligned: list[dict[str, Any]] = []
    counts = {"aligned": 0, "sparse_variants": 0}
    for one in asked:
        shown = _shown(one, actions, thoughts)
        if not shown:
            continue
        wanted = config.variants if type(one.truth.action).__name__ in rare else 1
        for k, chosen in enumerate(_choices(one, shown, thoughts, wanted, config)):
            aligned.append(_row(one, chosen, actions, k, config))
            counts["sparse_variants" if k else "aligned"] += 1
    found = {
        "steps": len(asked),
        "steps_with_thoughts": sum(map(bool, thoughts.values())),
        **counts,
        "sparse_types": sorted(rare),
        "unusable": unusable,
    }
    return Alignment(aligned, found)


def with_history(chat: str, changes: Mapping[str, str]) -> str:
    """Messages with entries of their prompt's history in other words; those that it doesn't show are passed over. An
    entry has several lines where it types several."""
    head, rest = _history(prompt_text(chat))
    places = sorted((place, old) for old in changes if (place := _place(old, rest)) is not None)
    for place, old in reversed(places):  # from the end, so that the places before stay
        rest = rest[:place] + changes[old] + rest[place + len(old) :]
    changed = head + rest
    turns = json.loads(chat)
    parts = turns[-1]["content"]
    turns[-1]["content"] = (
        changed
        if isinstance(parts, str)
        else [{**part, "text": changed} if part["type"] == "text" else part for part in parts]
    )
    return canonical_json(turns)


def history_line(
    step: int, action: Action, platform: str, thought: str = "", version: PromptVersion = PROMPT_VERSION
) -> str:
    """How a history shows a step, counted from 0."""
    return HISTORY_LINES[version][0].format(step + 1, history_entry(action, platform, "think_action", thought=thought))


def model_rollouts(
    sampler: Sampler, *, temperature: float = 1.0, max_new_tokens: int = 112, batch_size: int = 16
) -> Rollouts:
    """`Rollouts` of what a sampler draws."""

    def replies(rows: Sequence[Row], group: int, seed: int) -> list[list[str]]:
        made = sampler.draw(
            rows,
            group=group,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            generator=sampler.seeded(seed),
            batch_size=batch_size,
        )
        return [[one.text for one in made[place * group :][:group]] for place in range(len(rows))]

    return replies


def _asked(rows: Sequence[Row], space: ActionSpace) -> tuple[list[_Asked], int]:
    """Navigation rows with their truth and step, in the order of steps; how many have neither."""
    found, unusable = [], 0
    for row in rows:
        if row["objective"] != "navigation":
            continue
        try:
            provenance = json.loads(row.get("provenance") or "{}")
            step = (str(row["source"]), str(provenance["episode"]), int(provenance["step"]))
            found.append(_Asked(row, ReplyTarget.of_sample(row, space), step))
        # provenance is text of the data: a row whose own can't be read is counted, and stops nothing
        except (ValueError, KeyError, TypeError):
            unusable += 1
    # by step and id, so that a seed draws the same replies whatever order the files were read in
    return sorted(found, key=lambda one: (one.step, str(one.row["sample_id"]))), unusable


def _right_thoughts(asked: Sequence[_Asked], rollouts: Rollouts, config: AlignmentConfig) -> dict[Step, list[str]]:
    """Distinct thoughts of replies with the right action, by step, the best first."""
    thoughts: dict[Step, set[str]] = {}
    texts = rollouts([one.row for one in asked], config.num_generations, config.seed) if asked else []
    if len(texts) != len(asked) or any(len(replies) != config.num_generations for replies in texts):
        raise ValueError(
            f"alignment: expected {config.num_generations} replies for each of {len(asked)} rows, found "
            f"{[len(replies) for replies in texts][:8]} for {len(texts)}"
        )
    for one, replies in zip(asked, texts, strict=True):
        own = thoughts.setdefault(one.step, set())
        assert one.truth.action is not None
        for text in replies:
            reply = parse_reply(text, one.truth.space)
            thought = shown_thought(reply.thought)
            right = any(
                step_success(reply.action, one.truth.action, box, config.rewards) for box in one.truth.boxes or (None,)
            )
            if right and thought:
                own.add(thought)
    return {
        step: sorted(found, key=lambda thought: (abs(len(thought) - config.target_length), thought))
        # the text decides between equal lengths, since a set has no order
        for step, found in thoughts.items()
    }


def _line(one: _Asked, thought: str = "") -> str:
    """How the history shows a step."""
    assert one.truth.action is not None
    version = version_of(prompt_text(one.row["messages"]))
    return history_line(one.step[2], one.truth.action, one.row["platform"], thought, version)


def _shown(one: _Asked, actions: Mapping[Step, _Asked], thoughts: Mapping[Step, list[str]]) -> list[Step]:
    """Earlier steps that the prompt's history shows and that have a thought to show, oldest first."""
    source, episode, index = one.step
    rest = _history(prompt_text(one.row["messages"]))[1]
    earlier = ((source, episode, number) for number in range(index))
    return [
        step
        for step in earlier
        if thoughts.get(step) and step in actions and _place(_line(actions[step]), rest) is not None
    ]


def _place(entry: str, rest: str) -> int | None:
    """Where an entry stands in what follows the head of a prompt's history, with nothing else on its lines."""
    # line breaks on both sides, so that only whole lines match
    place = f"\n{rest}\n".find(f"\n{entry}\n")
    return None if place < 0 else place


def _history(text: str) -> tuple[str, str]:
    """A prompt → what stands before its history (the goal may say anything), and the rest."""
    head, mark, rest = text.rpartition(before_history(text))
    return (head + mark, rest) if mark else (text, "")


def _choices(
    one: _Asked, shown: Sequence[Step], thoughts: Mapping[Step, list[str]], wanted: int, config: AlignmentConfig
) -> Iterator[dict[Step, str]]:
    """The best thoughts first, then up to `wanted` - 1 other combinations, in the order of a hash."""
    best = {step: thoughts[step][0] for step in shown}
    yield best
    seen = {canonical_json(sorted(best.items()))}
    name = str(one.row["sample_id"])
    # hashes repeat combinations: eight tries for each that is wanted, and then there are fewer
    for attempt in range(8 * (wanted - 1)):
        if len(seen) == wanted:
            return
        places = {step: int(digest([config.seed, name, attempt, step])[:8], 16) for step in shown}
        chosen = {step: thoughts[step][places[step] % len(thoughts[step])] for step in shown}
        if (key := canonical_json(sorted(chosen.items()))) not in seen:
            seen.add(key)
            yield chosen


def _row(
    one: _Asked, chosen: Mapping[Step, str], actions: Mapping[Step, _Asked], k: int, config: AlignmentConfig
) -> dict[str, Any]:
    """The row anew, the chosen thoughts beside their actions."""
    old = str(one.row["sample_id"])
    changes = {_line(actions[step]): _line(actions[step], thought) for step, thought in chosen.items()}
    chat = with_history(one.row["messages"], changes)
    parents = [item_sample(old), *(item_sample(str(actions[step].row["sample_id"])) for step in sorted(chosen))]
    provenance = {
        **json.loads(one.row["provenance"]),
        "deriver": DERIVER,
        "version": VERSION,
        "k": k,
        "of": old,
        "config": digest(config.run_part())[:16],
    }
    source, episode, index = one.step
    row = {
        **one.row,
        "sample_id": sample_id(source, episode, index, f"{DERIVER}/{old}", VERSION, k),
        "messages": chat,
        "parents": parents,
        "provenance": canonical_json(provenance),
    }
    if "synthetic" in row:
        row["synthetic"] = True  # the history's thoughts are the model's
    if "tokens" in row:
        before, after = (text_tokens(prompt_text(some)) for some in (one.row["messages"], chat))
        # the text's tokens alone: pictures take what they took
        row["tokens"] = int(row["tokens"]) + after - before
    return row
