"""Features of a goal, part by part, against what a trace did: what it asks for and nothing was done about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quality.evidence.goal import acted_texts, named_labels
from quality.evidence.words import holds, plain
from quality.items.item import Episode
from quality.judges.nano.step import Cosine
from quality.judges.nano.transition import NAN, Features, names

_CLAUSES = re.compile(r"[,;:.]\s|\band\b|\bthen\b|\bafter\b|\bbefore\b", re.IGNORECASE)
_EMPTY = frozenset(
    re.findall(
        r"\w+",
        "a an and any app as at be by for from have i in into is it its me my of on or page please screen so that the "
        "then this to up want with you your",
    )
)
"""Words that no action shows."""
MOST_CLAUSES = 12


def clauses_of(goal: str) -> list[str]:
    """The parts of a goal that say something each, in order, `MOST_CLAUSES` at most."""
    parts = [part.strip() for part in _CLAUSES.split(goal)]
    return [part for part in parts if set(plain(part).split()) - _EMPTY][:MOST_CLAUSES]


def requirement_features(episode: Episode, done: Sequence[str], cosine: Cosine) -> Features:
    """All features of a goal against `done`, what the actions act on in words, in order."""
    found = dict.fromkeys(REQUIREMENTS, NAN)
    clauses = clauses_of(episode.instruction)
    if not clauses or not done:
        return found
    near = [max(cosine(clause, text) for text in done) for clause in clauses]
    found |= {"clauses": float(len(clauses)), "clause_near_min": min(near), "clause_near_last": near[-1]}
    words = {word for text in done for word in plain(text).split()}
    met = [_share(clause, words) for clause in clauses]
    found |= {
        "clause_words_min": min(met),
        "clause_words_last": met[-1],
        "clauses_unmet": float(sum(m == 0 for m in met)),
    }
    return found | _reach(episode.instruction, words) | _named(episode)


def _share(clause: str, words: set[str]) -> float:
    requested = [word for word in plain(clause).split() if word not in _EMPTY]
    return sum(word in words for word in requested) / len(requested)


def _reach(goal: str, words: set[str]) -> Features:
    """How far into the goal the words go that were acted on, and the longest stretch that wasn't."""
    requested = [word in words for word in plain(goal).split() if word not in _EMPTY]
    longest = run = 0
    for met in requested:
        run = 0 if met else run + 1
        longest = max(longest, run)
    reached = max((place + 1 for place, met in enumerate(requested) if met), default=0)
    return {
        "goal_reached": reached / len(requested),
        "goal_gap": float(longest),
        "goal_tail": float(len(requested) - reached),
    }


def _named(episode: Episode) -> Features:
    """Labels on the screens that the goal names, and which of them nothing was done with."""
    labels = list(named_labels(episode))
    if not labels:
        return {"named": 0.0}
    acted = acted_texts(episode)
    left = [label for label in labels if not any(holds(text, label) for text in acted)]
    last = max(labels, key=lambda label: plain(episode.instruction).rfind(plain(label)))
    return {"named": float(len(labels)), "named_open": float(len(left)), "named_last_open": float(last in left)}


REQUIREMENTS = names(
    "clauses clause_near_min clause_near_last clause_words_min clause_words_last clauses_unmet "
    "goal_reached goal_gap goal_tail named named_open named_last_open"
)
"""The features of a goal's parts, in order."""
