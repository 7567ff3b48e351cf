"""Features of a whole trace: its steps' features gathered, and its goal against what was done and what shows last."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from quality.evidence.goal import COMMIT
from quality.evidence.steps import Finding, hit, point_of
from quality.evidence.words import entities, held_by_any, plain
from quality.items.item import Episode, Step
from quality.judges.nano.requirements import REQUIREMENTS, requirement_features
from quality.judges.nano.step import Cosine, rule_features
from quality.judges.nano.transition import NAN, Features, names
from schemas.action_types import CallUser, Finished, Launch, Type

RULES = names(
    "steps_after_finish no_finish failed entities_unmet typed_not_asked nothing_done chose_other "
    "not_reached left_unconfirmed out_of_order"
)
GATHERED = names(
    "changed fit changed_at_point labels_kept acted_in_headings acted_in_new headings_of_others "
    "same_picture label_in_goal label_near_goal rival_in_goal goal_names_other typed_in_goal rule_cap "
    "follows rival follows_less_rival on_element risk changed_elsewhere rewritten_elsewhere typed_gap "
    "typed_unchosen typed_shown"
)
"""Step features of which mean, least and most enter the episode's."""
LAST = ("fit", "follows", "changed", "label_in_goal", "is_Click", "is_Type", "is_Scroll", "is_Launch", "is_PressBack")
"""Step features of the last action but one, after which only Finished comes, that enter the episode's."""
_FIELD = re.compile(
    r"^(android\.widget\.)?(edittext|autocompletetextview|textbox|searchbox|textarea|input|spinbutton)$", re.I
)
_LINKS = re.compile(r"\b(and|then|after|before|, )\b|,")
_VERBS = re.compile(
    r"\b(open|send|save|delete|add|set|turn|search|find|submit|order|buy|fill|enter|type|select|choose)\b"
)


def episode_features(
    episode: Episode, steps: Sequence[Mapping[str, float]], findings: Sequence[Finding], cosine: Cosine
) -> Features:
    """All features of an episode. `steps` = features of its actions in order, with `risk` of the step head."""
    found = dict.fromkeys(EPISODE, NAN) | rule_features(findings, RULES)
    for name in GATHERED:
        # Steps without a picture have no values.
        values = [value for step in steps if not math.isnan(value := step.get(name, NAN))]
        if values:
            found |= {f"{name}_mean": float(np.mean(values)), f"{name}_min": min(values), f"{name}_max": max(values)}
    actions = episode.actions
    found |= {"steps": math.log(len(actions) + 1), "risky": float(sum(step.get("risk", 0.0) > 0.3 for step in steps))}
    done = [text for step in actions if (text := acted_on(step))]
    found |= (
        _shape(actions)
        | _fields(actions)
        | _goal(episode, actions, done, cosine)
        | requirement_features(episode, done, cosine)
    )
    # The last but one: the last only says that it is done.
    if len(steps) > 1:
        last = steps[-2]
        found |= {f"last_{name}": last.get(name, NAN) for name in LAST}
    return found


def _shape(actions: Sequence[Step]) -> Features:
    """Repetition and variety."""
    texts = [str(step.row["action_text"]) for step in actions]
    shas = [step.screen.sha256 for step in actions if step.screen is not None]
    repeats = sum(a == b for a, b in zip(texts, texts[1:], strict=False))
    again = len(shas) - len(set(shas))
    # Coming back to a screen, other than by staying on it.
    returns = sum(sha in shas[:place] for place, sha in enumerate(shas) if place > 1 and sha != shas[place - 1])
    kinds = [str(step.row["action_type"]) for step in actions]
    return {
        "repeats": float(repeats),
        "screens_again": float(again),
        "returns": float(returns),
        "ends": float(kinds[-1] in ("Finished", "CallUser")) if kinds else 0.0,
        "launch_late": float(any(kind == "Launch" for kind in kinds[1:])),
        "types": float(sum(kind == "Type" for kind in kinds)),
        "clicks": float(sum(kind == "Click" for kind in kinds)),
    }


def _fields(actions: Sequence[Step]) -> Features:
    """Text fields that were chosen, and those of them that were left as they were: another place came right after."""
    acting = [step for step in actions if step.row["action_type"] != "Wait"]
    chosen = left = 0
    # A Wait between two actions changes nothing.
    for step, after in zip(acting, acting[1:], strict=False):
        point = point_of(step)
        under = hit(step.screen.elements, point) if point is not None and step.screen is not None else None
        if under is not None and _FIELD.match(under.role):
            chosen += 1
            again = point_of(after)
            # Left: the next action points elsewhere, or it is the end.
            left += after.row["action_type"] == "Finished" or (again is not None and not under.holds(again))
    return {"fields_chosen": float(chosen), "fields_left": float(left)}


def _goal(episode: Episode, actions: Sequence[Step], done: Sequence[str], cosine: Cosine) -> Features:
    """The goal against what was acted on, and against the last screen."""
    goal = episode.instruction
    found: Features = {"goal_size": math.log(len(goal.split()) + 1), "goal_links": float(len(_LINKS.findall(goal)))}
    found["goal_verbs"] = float(len(_VERBS.findall(goal.lower())))
    found["links_per_step"] = (found["goal_links"] + 1) / max(len(actions), 1)
    wanted = entities(goal)
    if wanted:
        met = [held_by_any(done, entity.text) for entity in wanted]
        found["entities_acted"] = sum(met) / len(met)
        # The last thing that a goal names is mostly its point.
        found["last_entity_acted"] = float(met[-1])
    if done:
        stated, words = set(plain(goal).split()), set(plain(" ".join(done)).split())
        found["goal_covered"] = len(stated & words) / max(len(stated), 1)
        found["goal_near_done"] = max(cosine(goal, text) for text in done)
        found["goal_near_last"] = cosine(goal, done[-1])
        first = plain(done[-1]).split()
        found["ends_with_commit"] = float(bool(first) and first[0] in COMMIT)
    last = actions[-1].screen if actions else None
    if last is not None and last.elements:
        labels = [plain(e.label) for e in last.elements if plain(e.label)]
        # A button to commit is still there: perhaps it should have been pressed.
        found["commit_open"] = float(any(label.split()[0] in COMMIT for label in labels))
        stated = set(plain(goal).split())
        found["goal_on_screen"] = len(stated & set(" ".join(labels).split())) / max(len(stated), 1)
    return found


def acted_on(step: Step) -> str:
    """What a step acts on in words: the label under its point, the text typed, the app opened; "" if unknown."""
    action = step.action
    if isinstance(action, Type | CallUser):
        return action.content
    if isinstance(action, Launch):
        return action.app or action.url
    if isinstance(action, Finished) or action is None:
        return ""
    point = point_of(step)
    under = hit(step.screen.elements, point) if point is not None and step.screen is not None else None
    return under.label if under is not None else str(step.row["step_instruction"] or "")


EPISODE = (
    *(f"rule_{kind}" for kind in RULES),
    *names("rule_cap rule_confirms"),
    *(f"{name}_{how}" for name in GATHERED for how in ("mean", "min", "max")),
    *names(
        "steps risky repeats screens_again returns ends launch_late types clicks goal_size goal_links "
        "goal_verbs links_per_step entities_acted last_entity_acted goal_covered goal_near_done "
        "goal_near_last ends_with_commit commit_open goal_on_screen"
    ),
    *(f"last_{name}" for name in LAST),
    *names("fields_chosen fields_left"),
    *REQUIREMENTS,
)
"""The features of an episode, in order."""
