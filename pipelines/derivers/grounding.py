"""Grounding samples: from steps that say what they point at, from named elements, and refusals."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.derivers.base import (
    DeriveConfig,
    DerivedSample,
    Episode,
    NamePool,
    ScreenFacts,
    ScreenView,
    pick,
    screen_candidate,
    squash,
    step_candidate,
    unit_hash,
)
from pipelines.prompts import REFUSAL, grounding_text, point_answer
from schemas.actions import Click, DoubleClick, Hover, LongPress, parse
from schemas.coordinates import contains, rounded_centre

VERSION = 1
_POINTING = re.compile(
    r"(?:please\s+)?(?:click|tap|press|select|choose|touch|hit)(?:\s+(?:on|at))?\s+(?P<what>\S.*?)[.!]?\s*",
    re.IGNORECASE | re.DOTALL,
)


def expression(step_instruction: str) -> str | None:
    """ "Click on the search bar." → "the search bar"; None if the step's words don't say to point at something."""
    match = _POINTING.fullmatch(squash(step_instruction))
    return match.group("what") if match else None


def from_steps(episode: Episode, facts: ScreenFacts) -> Iterator[DerivedSample]:
    """Pointing steps with an instruction of their own and a target box that holds the recorded point."""
    for row in episode:
        box, words = row["target_box"], row["step_instruction"]
        size = facts.sizes.get(row["screenshot_sha256"] or "")
        if box is None or not words or size is None or row["action_text"] is None:
            continue
        action, what = parse(row["action_text"]), expression(words)
        if what is None or not isinstance(action, Click | LongPress | Hover | DoubleClick):
            continue
        if not contains(box, action.box):  # the source's own box and point disagree
            continue
        answer = point_answer(*rounded_centre(box))
        yield step_candidate(row, size, "grounding", "grounding_step", VERSION, grounding_text(what), answer, box)


def from_elements(screen: ScreenView, pool: NamePool, config: DeriveConfig) -> Iterator[DerivedSample]:
    """Uniquely named elements → their centre, and for about `refusal_share` of the samples a name that isn't here.

    A refusal asks for a name that stands on another screen of the source and is part of no name or text here; the
    screen needs `refusal_min_elements` known elements, since absence is only as certain as the source's list is
    complete (a deriver can't see what a source didn't annotate).
    """
    found = pick(
        (
            screen_candidate(
                screen,
                "grounding",
                "grounding_element",
                VERSION,
                e.index,
                grounding_text(e.name),
                point_answer(*e.centre),
                [e.box],
            )
            for e in screen.uniquely_named(config)
        ),
        config.grounding_per_screen,
        config.seed,
    )
    yield from found
    if len(screen.elements) < config.refusal_min_elements:
        return
    odds = config.refusal_share / (1 - config.refusal_share)
    asked: set[str] = set()
    for candidate in found:
        if unit_hash(config.seed, "refuse", candidate.id) >= odds:
            continue
        name = pool.absent(screen, unit_hash(config.seed, "absent", candidate.id))
        if name is not None and name not in asked:
            asked.add(name)
            yield screen_candidate(screen, "grounding", "refusal", VERSION, candidate.k, grounding_text(name), REFUSAL)
