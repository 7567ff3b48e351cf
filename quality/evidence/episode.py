"""Evidence that only a whole episode shows: loops, its end, and whether instruction and trace are about the same.

Findings about single steps (`loops`) cap that step's alignment; the others cap the episode's reachability, which every
step inherits. What they can't see stands at each function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quality.evidence.steps import Finding, hit, in_row, is_bare, point_of, same_picture, skip_top, visible_text
from quality.evidence.words import Entity, entities, held_by_any, holds, named_elements, plain, similarity
from quality.items.item import Episode, Step
from schemas.action_types import CallUser, Finished, Launch, SelectOption, TakeNote, Type

ENDS = ("Finished", "CallUser")
REPEATABLE = ("Wait", "PressBack", "PressEnter", "Scroll")
"""Repeating these can be right while the screen changes; on an unchanged screen only Wait can."""
FINISH_CONVENTION = 0.5


@dataclass(frozen=True, slots=True)
class Habits:
    """How a part's source writes episodes: without a habit its lack proves nothing."""

    ends_with_finish: bool = False

    @classmethod
    def of(cls, episodes: Sequence[Episode]) -> Habits:
        """Whether at least half of the episodes end with Finished or CallUser (3 episodes at least)."""
        ended = [bool(e.actions) and e.actions[-1].row["action_type"] in ENDS for e in episodes]
        # Of fewer than three episodes nobody can say what is a habit.
        return cls(len(ended) >= 3 and sum(ended) >= FINISH_CONVENTION * len(ended))


def loops(episode: Episode) -> dict[str, Finding]:
    """Steps that repeat the step before on an unchanged screen: step item id → finding.

    Can't see: loops of two or more different steps whose screens differ by an animation.
    """
    found: dict[str, Finding] = {}
    actions = episode.actions
    # A source with one picture per episode has nothing by which an effect could be seen.
    if episode.one_picture:
        return found
    for before, step in zip(actions, actions[1:], strict=False):
        # Waiting twice is no loop, and behind a gap the step between isn't known.
        if step.follows_gap or step.row["action_type"] == "Wait" or before.screen is None or step.screen is None:
            continue
        if step.row["action_text"] != before.row["action_text"]:
            continue
        top = skip_top(step)
        # Either the first try had no effect, or this one has none: one of the two is too much.
        after = step.next if step.row["action_type"] not in ("Type", "Hotkey") else None
        idle = after is not None and same_picture(step.screen, after, top)
        if idle or same_picture(before.screen, step.screen, top):
            reason = f"repeats {str(step.row['action_text'])[:60]} without effect"
            found[step.item_id] = Finding("repeated", 2, reason, repair={"drop": True})
    return found | _returns(actions)


def _returns(actions: Sequence[Step]) -> dict[str, Finding]:
    """A step that comes back to a screen and does there again what it did before: the round trip gained nothing."""
    found: dict[str, Finding] = {}
    seen: dict[tuple[str, str], int] = {}
    for place, step in enumerate(actions):
        # Repeating a scroll or Back on the same screen is how lists are read.
        if step.screen is None or step.row["action_type"] in (*REPEATABLE, "Type"):
            continue
        key = (step.screen.sha256, str(step.row["action_text"]))
        # Two apart at least: one apart is what `loops` has looked at already.
        if key in seen and place - seen[key] >= 2:
            found[step.item_id] = Finding("loop", 4, "does the same on the same screen as some steps before")
        seen.setdefault(key, place)
    return found


def finish_in_place(episode: Episode, habits: Habits) -> Finding | None:
    """Finished stands at the end, once. Can't see: whether the goal was reached (see `instruction_met`)."""
    actions = episode.actions
    if not actions:
        return None
    ends = [place for place, step in enumerate(actions) if step.row["action_type"] == "Finished"]
    if ends and ends[0] < len(actions) - 1:
        return Finding(
            "steps_after_finish",
            3,
            f"{len(actions) - 1 - ends[0]} actions follow Finished",
            "reachability",
            {"cut_after": actions[ends[0]].row["step_index"]},
        )
    # Of a prefix nobody claims that it has ended.
    if episode.is_prefix:
        return None
    if actions[-1].row["action_type"] in ENDS:
        return Finding("finish_in_place", 9, "ends with Finished", "reachability")
    # The lack of Finished proves something only where the source's other episodes have it.
    if habits.ends_with_finish and actions[-1].row["episode_outcome"] != "failure":
        return Finding("no_finish", 5, "the source's episodes end with Finished, this one doesn't", "reachability")
    return None


def outcome_known(episode: Episode) -> Finding | None:
    """What the source says of the outcome. Can't see: a wrong outcome label."""
    outcome = episode.steps[0].row["episode_outcome"]
    if outcome == "success":
        return Finding("outcome_known", 9, "the source calls it a success", "reachability")
    if outcome in ("failure", "infeasible") and not episode.is_prefix:
        ended = any(isinstance(step.action, Finished) for step in episode.actions)
        # "Infeasible" is a right outcome of a trace that says so; only one that claims to be done contradicts
        # it.
        if outcome == "failure" or ended:
            return Finding("failed", 4, f"the source calls the outcome {outcome}", "reachability")
    return None


def texts_of(episode: Episode) -> list[str]:
    """All texts the trace shows: what is typed, launched, answered, and the texts and names on its screens."""
    texts: list[str] = []
    for step in episode.steps:
        action = step.action
        if isinstance(action, Type | Finished | CallUser | TakeNote):
            texts.append(action.content)
        elif isinstance(action, SelectOption):
            texts.append(action.option)
        elif isinstance(action, Launch):
            texts.append(action.app or action.url)
        texts.append(step.row["app"] or "")
    # By picture: a screen on which several steps stand is read once.
    for screen in {s.screen.sha256: s.screen for s in episode.steps if s.screen is not None}.values():
        texts += visible_text(screen)
    return [text for text in texts if text]


def instruction_met(episode: Episode) -> Finding | None:
    """What the instruction names (quoted text, numbers, addresses, names) occurs in the trace.

    Can't see: goals that name nothing, paraphrase, values that are only drawn and not listed as text. Says nothing
    if no screen of the trace lists texts.
    """
    # Without any listed text nothing can be missed in the trace.
    if not any(step.screen is not None and step.screen.elements for step in episode.steps):
        return None
    wanted = [e for e in entities(episode.instruction) if e.kind in ("quoted", "address", "number", "name")]
    if not wanted:
        return None
    texts = texts_of(episode)
    # Quotes and addresses are meant literally; numbers and names may be written otherwise.
    firm = [e for e in wanted if e.kind in ("quoted", "address")]
    missing = [e for e in (firm or wanted) if not held_by_any(texts, e.text)]
    if not missing:
        return Finding("instruction_met", 9, "all that the instruction names occurs in the trace", "reachability")
    if not firm:  # numbers and names alone are weak: only a trace that meets none of several is suspect
        strange = _strangers(missing, texts)
        if strange and not episode.is_prefix:
            return Finding("entities_unmet", 5, f"nothing of {_list(strange)} occurs in the trace", "reachability")
        if len(missing) < len(wanted) or len(wanted) < 2:
            return None
        return Finding("entities_unmet", 5, f"nothing of {_list(missing)} occurs in the trace", "reachability")
    # Some of it occurs, so the trace is about the goal and may have been cut short.
    met = len(missing) < len(firm)
    if met and episode.is_prefix:
        return None  # what is cut off may have met the rest
    cap = 5 if met or len(firm) == 1 else 3
    reason = f"the instruction names {_list(missing)}, which occurs nowhere in the trace"
    return Finding("entities_unmet", cap, reason, "reachability", {"missing": [e.text for e in missing], "met": met})


def _strangers(missing: Sequence[Entity], texts: Sequence[str]) -> list[Entity]:
    """Names of two and more words none of which occurs, in a trace that shows many texts."""
    # On few texts a name may simply not be listed.
    if len(set(texts)) < 30:
        return []
    whole = f" {plain(' '.join(texts))} "
    names = [e for e in missing if e.kind == "name" and len(plain(e.text).split()) > 1]
    return [e for e in names if not any(f" {word} " in whole for word in plain(e.text).split())]


def _list(missing: Sequence[Entity]) -> str:
    return ", ".join(repr(e.text[:40]) for e in missing[:3])


def typed_as_requested(episode: Episode) -> Finding | None:
    """Each text typed is requested by the instruction, or was on a screen to be copied.

    Only where the instruction names firm values (quoted, address, number) or nearly the text typed; can't see: text
    the user was free to choose.
    """
    typed = [step for step in episode.actions if isinstance(step.action, Type) and plain(step.action.content)]
    if not typed:
        return None
    firm = [e for e in entities(episode.instruction) if e.kind != "name"]
    confirmed = 0
    for step in typed:
        content = step.action.content  # type: ignore[union-attr]
        if holds(episode.instruction, content) or holds(step.row["step_instruction"] or "", content):
            # Asked for in the instruction: nothing else to look at.
            confirmed += 1
            continue
        near = [e for e in entities(episode.instruction) if similarity(e.text, content) >= 0.7]
        # What stood on a screen before may have been copied from there, as goals like "send me the code"
        # want.
        before = [
            t
            for s in episode.steps
            if s.row["step_index"] <= step.row["step_index"] and s.screen is not None
            for t in visible_text(s.screen)
        ]
        if held_by_any(before, content) and not near:
            continue
        # Suspect are a text much like one that is asked for, and any other while asked-for values are left
        # unused.
        if near or (firm and not _all_used(firm, typed)):
            stated = near[0].text if near else None
            reason = f"{content[:40]!r} is typed, the instruction asks for {(stated or firm[0].text)[:40]!r}"
            repair = {"typed": content, "told": stated, "step_index": step.row["step_index"]}
            return Finding("typed_not_asked", 5, reason, "reachability", repair)
    if confirmed == len(typed):
        return Finding("typed_asked_for", 9, "all text typed stands in the instruction", "reachability")
    return None


def _all_used(firm: Sequence[Entity], typed: Sequence[Step]) -> bool:
    contents = [step.action.content for step in typed]  # type: ignore[union-attr]
    return all(any(holds(content, e.text) for content in contents) for e in firm)


def acts_at_all(episode: Episode) -> Finding | None:
    """An episode that ends at once did nothing, unless its source says infeasible or it answers.

    Can't see: goals that were reached from the start.
    """
    kinds = [step.row["action_type"] for step in episode.actions]
    idle = bool(kinds) and all(kind in ("Finished", "Wait") for kind in kinds)
    if idle and episode.steps[0].row["episode_outcome"] != "infeasible":
        return Finding("nothing_done", 4, "ends without having done anything", "reachability")
    return None


def target_named_by_goal(episode: Episode) -> dict[str, Finding]:
    """In an episode of one pointed step: what the goal names is the element clicked.

    A point that lies in another labelled element may be right and the goal wrong, so that is only doubtful. Can't see:
    goals of several steps (which of them the name belongs to isn't known), and elements without text.
    """
    # One step only: in longer episodes a name may belong to any of them.
    actions = [step for step in episode.actions if step.row["action_type"] not in (*ENDS, "Wait")]
    if len(actions) != 1 or actions[0].screen is None or actions[0].row["step_instruction"]:
        return {}
    [step] = actions
    point, elements = point_of(step), [e for e in actions[0].screen.elements if 0 < e.area <= 0.4e6]
    named = named_elements(episode.instruction, elements, minimum=3) if point is not None else []
    if point is None or not named:
        return {}
    name = named[0].label[:40]
    # On bare texts the clickable row reaches beyond the text's box.
    if any(e.holds(point, 6.0) or (is_bare(elements) and in_row(e, point)) for e in named):
        return {step.item_id: Finding("goal_element_hit", 10, f"the point lies in {name!r}, which the goal names")}
    under = hit(elements, point)
    if under is not None and plain(under.label):
        # The goal names that element, too: two names, and either may be the one to click.
        if holds(episode.instruction, under.label):
            return {}
        reason = f"the goal names {name!r}, the point lies in {under.label[:40]!r}"
        return {step.item_id: Finding("other_than_goal", 5, reason)}
    # Moved to the element only if there is just one of the name.
    repair = {"snap": list(named[0].box)} if len({e.box for e in named}) == 1 else {}
    return {step.item_id: Finding("misses_goal", 3, f"the goal names {name!r}; {point} lies outside it", repair=repair)}


EPISODE_EVIDENCE: dict[str, Callable[[Episode, Habits], Finding | None]] = {
    "finish_in_place": finish_in_place,
    "outcome_known": lambda episode, _habits: outcome_known(episode),
    "instruction_met": lambda episode, _habits: instruction_met(episode),
    "typed_asked_for": lambda episode, _habits: typed_as_requested(episode),
    "acts_at_all": lambda episode, _habits: acts_at_all(episode),
}
STEPWISE_EVIDENCE: dict[str, Callable[[Episode], dict[str, Finding]]] = {
    "loops": loops,
    "target_named_by_goal": target_named_by_goal,
}
