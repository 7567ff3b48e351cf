"""Grounding samples: from steps that say what they point at, from named elements, and refusals."""

import re
from collections.abc import Iterator

from pipelines.derivers import base
from pipelines.prompts import REFUSAL, grounding_text, point_answer
from schemas.actions import Click, DoubleClick, Hover, LongPress, parse
from schemas.coordinates import contains, rounded_centre

VERSION = 1
_POINTING = re.compile(
    r"(?:please\s+)?(?:click|tap|press|select|choose|touch|hit)(?:\s+(?:on|at))?\s+(?P<what>\S.*?)[.!]?\s*",
    re.IGNORECASE | re.DOTALL,
)
_LEADING = re.compile(
    r"(?:please\s+)?"
    r"(?:(?:(?:double|left|long|right|single)[\s-]?)?(?:click|tap|press|select|choose|pick|touch|hit|push)"
    r"(?:\s+(?:on|at|in|inside|within|onto|over|upon))?:?"
    r"|(?:go|get|move|navigate|head|jump|switch|proceed|return)(?:\s+(?:the|your)\s+(?:cursor|mouse|pointer))?"
    r"(?:\s+(?:back|over|on|up|down))?\s+(?:to|into|onto|over)"
    r"|(?:hover|point)\s+(?:over|on|at|to)|find|locate|identify|look\s+(?:for|at)"
    # Labels begin with these words, too ("Open now", "View all"); an article tells the verb.
    r"|(?:open|view|see|show|check|tick|toggle|activate|use|access|visit|focus\s+on|highlight)"
    r"(?=\s+(?:the|a|an|this|that|my|your)\s))"
    r"\s+(?P<what>\S.*?)[.!]?\s*",
    re.IGNORECASE | re.DOTALL,
)
"""What may stand before an element in a sentence that is known to mean one."""


def expression(said: str) -> str | None:
    """What a referring expression means: "Click on the search bar." → "the search bar", "go to notifications" →
    "notifications"; None if no verb stands before it."""
    match = _LEADING.fullmatch(base.squash(said))
    return match.group("what") if match else None


def pointed_at(step_instruction: str) -> str | None:
    """What the words of a step say to click on; None if they may mean something else than an element on its screen, as
    "go to the settings" does."""
    match = _POINTING.fullmatch(base.squash(step_instruction))
    return match.group("what") if match else None


def from_steps(episode: base.Episode, facts: base.ScreenFacts) -> Iterator[base.DerivedSample]:
    """Pointing steps with an instruction of their own and a target box that holds the recorded point."""
    for row in episode:
        box, words = row["target_box"], row["step_instruction"]
        size = facts.sizes.get(row["screenshot_sha256"] or "")
        if box is None or not words or size is None or row["action_text"] is None:
            continue
        action, what = parse(row["action_text"]), pointed_at(words)
        # Only actions at one point: a drag has two.
        if what is None or not isinstance(action, Click | LongPress | Hover | DoubleClick):
            continue
        if not contains(box, action.box):  # the source's own box and point disagree
            continue
        # The box's centre: a recorded click may lie at its edge.
        answer = point_answer(*rounded_centre(box))
        yield base.step_candidate(row, size, "grounding", "grounding_step", VERSION, grounding_text(what), answer, box)


def from_elements(
    screen: base.ScreenView, pool: base.NamePool, config: base.DeriveConfig
) -> Iterator[base.DerivedSample]:
    """Uniquely named elements → their centre, and for about `refusal_share` of the samples a name that isn't here.

    A refusal asks for a name that stands on another screen of the source and is part of no name or text here; the
    screen needs `refusal_min_elements` known elements, since absence is only as certain as the source's list is
    complete (a deriver can't see what a source didn't annotate).
    """
    found = base.pick(
        (
            base.screen_candidate(
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
    # Of a short list nobody knows whether it is complete.
    if len(screen.elements) < config.refusal_min_elements:
        return
    # So that refusals are this share of all, the other samples included.
    odds = config.refusal_share / (1 - config.refusal_share)
    asked: set[str] = set()
    for candidate in found:
        if base.unit_hash(config.seed, "refuse", candidate.id) >= odds:
            continue
        name = pool.absent(screen, base.unit_hash(config.seed, "absent", candidate.id))
        if name is not None and name not in asked:
            asked.add(name)
            yield base.screen_candidate(
                screen, "grounding", "refusal", VERSION, candidate.k, grounding_text(name), REFUSAL
            )
