"""Evidence from the order of screens: each action is followed by the screen that it leads to, not by another one.

For an action and a screen that could follow it, `fit` says how well they go together: an effect at the point, a view
that moved as the scroll says, a page named by the element clicked, typed text that shows. Where other screens of the
episode fit several actions better than the recorded ones do, the steps are out of order, or some are missing.

Can't see: episodes of fewer than three screens, and steps whose effect is the same on several screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from quality.evidence.effects import CLICKS, LARGE_CHANGE, effect_elsewhere, headings, leads_to_other, scroll_elsewhere
from quality.evidence.episode import Habits
from quality.evidence.steps import (
    MUST_CHANGE,
    Finding,
    hit,
    overlap,
    same_picture,
    scroll_agrees,
    skip_top,
    typed_text_shows,
)
from quality.evidence.words import holds
from quality.items.item import Episode, Step
from quality.items.screens import Box, Element, Screen
from schemas.action_types import Launch, Scroll, Type

MOST_SCREENS = 10
"""Longer episodes are looked at in windows of so many screens around each step."""
STRONG = 2.0
"""A fit that isn't chance: a page of the element's name, text typed that shows, a view that moved as told."""


def fit(step: Step, after: Screen) -> float:
    """How well a screen follows a step's action: above 0 = as one would expect, below 0 = it contradicts."""
    if step.screen is None:
        return 0.0
    # Each evidence function looks at `next`: it is asked what it would say of that screen.
    seen = replace(step, next=after)
    # Nothing changed, which these actions ought to have.
    if step.screen.sha256 == after.sha256 or same_picture(step.screen, after, skip_top(step)):
        return -1.0 if step.row["action_type"] in (*CLICKS, "Scroll", "Type", "Launch") else 0.0
    action = step.action
    if isinstance(action, Scroll):
        found = scroll_agrees(seen) or scroll_elsewhere(seen)
        # A finding's cap from 8 on speaks for the step, one below against it.
        return 0.0 if found is None else 2.0 if found.cap >= 8 else -2.0
    if isinstance(action, Type):
        shown = typed_text_shows(seen)
        if shown is not None:
            return 2.0 if shown.cap >= 8 else -1.0
        # Typing fills a field: if a third of the picture changes, another page was opened.
        return -1.0 if step.screen.changed_share(after, skip_top(step)) > 0.3 else 0.0
    if isinstance(action, Launch):
        name = action.app or action.url
        return 2.0 if any(holds(top, name) for top in headings(after, step.screen)) else 0.0
    return _fit_click(seen, after) if step.row["action_type"] in CLICKS else 0.0


def _fit_click(seen: Step, after: Screen) -> float:
    assert seen.screen is not None
    found = leads_to_other(seen) or effect_elsewhere(seen)
    if found is not None:
        return 2.0 if found.cap >= 8 else -2.0
    point = getattr(seen.action, "box", None)
    small = seen.screen.changed_share(after, skip_top(seen)) <= LARGE_CHANGE
    box = seen.screen.changed_box(after, skip_top(seen)) if small else None
    if box is None or point is None:
        return 0.0
    # What changes lies elsewhere: weak, as messages and counters do so by design.
    if not Element(box, "", "", "").holds(point, 15.0):
        return -0.5
    under = hit(seen.screen.elements, point)
    within = under is not None and overlap(under.box, box) > 0.2 and _contains(under.box, box)
    return 2.0 if within else 1.0


def _contains(outer: Box, inner: Box, margin: float = 15.0) -> bool:
    low = all(inner[side] >= outer[side] - margin for side in (0, 1))
    return low and all(inner[side] <= outer[side] + margin for side in (2, 3))


def settled(steps: Sequence[Step], place: int) -> Screen | None:
    """The screen an action leads to once what loads has loaded: past the Waits that follow it."""
    for step in steps[place + 1 :]:
        if step.row["action_type"] != "Wait":
            return step.screen
    return steps[place].next


def late_screens(episode: Episode) -> dict[str, Finding]:
    """Steps that stand on the picture of the action before, which must have changed it, and lead to another: their
    screenshot seems to be one too old. Step item id → finding.

    Surely where the next screen shows what the action before does and not what this one does. Else it is a doubt, too
    small to keep a step from the corpus: mostly the action before was in vain, and only that one is wrong.
    """
    found: dict[str, Finding] = {}
    if episode.one_picture:
        return found
    message = ""
    for before, step in pairwise(episode.actions):
        kind, text, ahead = before.row["action_type"], before.row["action_text"], message
        message = text
        if kind not in MUST_CHANGE or step.follows_gap or text in (ahead, step.row["action_text"]):
            continue  # what is done twice is a loop: see `loops`
        if before.screen is None or step.screen is None or step.next is None or step.row["action_type"] == "Wait":
            continue
        top = skip_top(step)
        # The screen must be the one before the action, and then change: else nothing was late.
        if not same_picture(before.screen, step.screen, top) or same_picture(step.screen, step.next, top):
            continue
        # The next screen shows the earlier action's effect better than this one's.
        sure = fit(before, step.next) > max(fit(step, step.next), 0.0)
        words = f"{kind} before it changed nothing" + (", and its effect comes after this step" if sure else "")
        found[step.item_id] = Finding("late_screen", 3 if sure else 7, words)
    return found


def in_order(episode: Episode, habits: Habits) -> Finding | None:
    """The recorded screens follow the actions at least as well as the episode's other screens would."""
    steps = [step for step in episode.steps if step.screen is not None]
    screens = {step.screen.sha256: step.screen for step in steps if step.screen is not None}
    # Two screens have one order, and behind a gap any screen may follow.
    if episode.one_picture or len(screens) < 3 or any(step.follows_gap for step in steps):
        return None
    astray: list[int] = []
    supported = 0
    for place, step in enumerate(steps):
        # Right after, or once what loads has loaded: either will do.
        after = settled(steps, place)
        if step.action is None or after is None or step.screen is None:
            continue
        here = fit(step, after)
        if step.next is not after:
            here = max(here, fit(step, step.next) if step.next is not None else 0.0)
        supported += here > 0
        if here > 0:
            continue
        # A window around the step: fits with screens far away are chance.
        near = steps[max(place - MOST_SCREENS // 2, 0) : place + MOST_SCREENS // 2]
        others = {s.screen.sha256: s.screen for s in near if s.screen is not None}
        # The step's own screens can't be the better ones.
        known = {step.screen.sha256, after.sha256, step.next.sha256 if step.next else ""}
        if any(sha not in known and fit(step, screen) >= STRONG for sha, screen in others.items()):
            astray.append(step.row["step_index"])
    if not astray:
        return Finding("in_order", 9, "the screens follow the actions", "reachability") if supported >= 2 else None
    shown = ", ".join(str(index) for index in astray[:5])
    reason = f"what follows step {shown} fits less than another screen of the episode"
    # Two steps astray are sure; a single one weighs more where hardly any other step is confirmed.
    cap = 3 if len(astray) >= 2 else 4 if supported < 2 else 5
    return Finding("out_of_order", cap, reason, "reachability")
