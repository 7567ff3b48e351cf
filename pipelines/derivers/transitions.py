"""Samples over several steps of an episode: which action lies between two screens, and how a goal splits into steps.

Inverse dynamics (UIShift, 2505.12493): shown the screen before and the screen after, name the action. No label is
needed but the recording itself. A pair is left out where the screens don't differ (nothing to see) or where more than
one cause lies between them: a native action that became several, a wait, a step that was lost.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from pipelines.derivers.base import DerivedSample, Episode, ScreenFacts, pick, squash, step_candidate
from pipelines.derivers.navigation import gaps
from pipelines.prompts import TRANSITION_QUESTION, plan_text
from schemas.actions import CallUser, Finished, Wait, parse, render
from schemas.ids import item_step
from schemas.rows import StepRow

VERSION = 1
SAME_SCREEN_BITS = 2
"""Bits of the perceptual hash in which two pictures of one unchanged screen may differ (a clock, a cursor)."""
_PART = re.compile(r"part \d+ of \d+")


def inverse_dynamics(episode: Episode, facts: ScreenFacts) -> Iterator[DerivedSample]:
    """Pairs of consecutive screens of an episode → the action between them, `transitions_per_episode` at most."""
    lost = set().union(*(gaps(row["provenance"]) for row in episode)) if episode else set()
    found = []
    for before, after in pairwise(episode):
        index = before["step_index"]
        if after["step_index"] != index + 1 or index + 1 in lost or before["action_text"] is None:
            continue
        shas = (before["screenshot_sha256"] or "", after["screenshot_sha256"] or "")
        first, second = (facts.sizes.get(sha) for sha in shas)
        if first is None or second is None or _alike(*shas, facts) or _several(before):
            continue
        action = parse(before["action_text"])
        if isinstance(action, Wait | Finished | CallUser):
            continue
        answer, box = render(action, before["platform"]), before["target_box"]
        one = step_candidate(before, first, "vqa", "inverse_dynamics", VERSION, TRANSITION_QUESTION, answer, box)
        found.append(replace(one, images=shas, sizes_px=(first, second), parents=_items((before, after))))
    yield from pick(found, facts.config.transitions_per_episode, facts.config.seed)


def plan(episode: Episode, facts: ScreenFacts) -> Iterator[DerivedSample]:
    """The first screen and the goal → the source's own step instructions, numbered. Whole episodes only."""
    acted = [row for row in episode if row["action_text"] is not None]
    whole = [row["step_index"] for row in episode] == list(range(len(episode)))
    if len(acted) < 2 or not whole or any(gaps(row["provenance"]) for row in episode):
        return
    sentences = [squash(row["step_instruction"]) for row in acted]
    ends = isinstance(parse(acted[-1]["action_text"] or ""), Finished | CallUser)
    if ends and not sentences[-1]:  # ending needs no words
        sentences.pop()
    text = "\n".join(f"{number}. {words}" for number, words in enumerate(sentences, 1))
    first = acted[0]
    size = facts.sizes.get(first["screenshot_sha256"] or "")
    if size is None or len(sentences) < 2 or not all(sentences) or len(text) > facts.config.plan_max_chars:
        return
    question = plan_text(squash(first["instruction"]))
    yield replace(step_candidate(first, size, "vqa", "plan", VERSION, question, text), parents=_items(acted))


def _items(rows: Episode) -> tuple[str, ...]:
    return tuple(item_step(row["source"], row["episode_id"], row["step_index"]) for row in rows)


def _alike(before: str, after: str, facts: ScreenFacts) -> bool:
    if before == after:
        return True
    one, two = facts.phashes.get(before), facts.phashes.get(after)
    return one is not None and two is not None and (one ^ two).bit_count() <= SAME_SCREEN_BITS


def _several(row: StepRow) -> bool:
    return any(_PART.fullmatch(str(rule)) for rule in json.loads(row["provenance"]).get("rules", []))
