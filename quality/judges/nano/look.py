"""All features of items, with the transition head's say on what follows what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from quality.evidence.embedding import Embedder
from quality.evidence.episode import Habits
from quality.evidence.order import settled
from quality.evidence.samples import expression_of
from quality.evidence.steps import Finding
from quality.evidence.words import plain
from quality.items.item import Episode, Sample, Step
from quality.items.screens import Screen
from quality.judges.nano.episode import acted_on, episode_features
from quality.judges.nano.head import NanoHead, sigmoid
from quality.judges.nano.requirements import clauses_of
from quality.judges.nano.sample import sample_features
from quality.judges.nano.step import Cosine, step_features
from quality.judges.nano.transition import Features, rival_features, transition_features
from quality.judges.rules import EpisodeFindings, look_at_episode, look_at_sample

MOST_RIVALS = 6
"""Other screens of the episode that the recorded next screen is compared with."""


class Cosines:
    """Cosine of two texts' sentence embeddings, each text embedded once and in batches (`learn`)."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder or Embedder()
        self._vectors: dict[str, np.ndarray] = {}

    def learn(self, texts: Iterable[str]) -> None:
        """Embed texts that will be requested."""
        # Sorted, so that batches are the same each time.
        new = sorted({text for text in texts if text.strip()} - set(self._vectors))
        if new:
            self._vectors.update(zip(new, self._embedder.encode(new), strict=True))

    def __call__(self, one: str, two: str) -> float:
        if not one.strip() or not two.strip():
            return 0.0
        self.learn((one, two))
        return float(self._vectors[one] @ self._vectors[two])


@dataclass
class EpisodeLook:
    """Features of an episode's steps by item id, and what the rules found."""

    episode: Episode
    seen: EpisodeFindings
    steps: dict[str, Features] = field(default_factory=dict)

    def whole(self, risks: dict[str, float], cosine: Cosine) -> Features:
        """Features of the whole, given the step head's risks."""
        rows = [{**features, "risk": risks[item_id]} for item_id, features in self.steps.items()]
        return episode_features(self.episode, rows, self.seen.whole, cosine)


def look_at(episode: Episode, habits: Habits, cosine: Cosine, transition: NanoHead | None) -> EpisodeLook:
    """Features of an episode's steps. Without a transition head what follows what is left missing."""
    seen = look_at_episode(episode, habits)
    look = EpisodeLook(episode, seen)
    actions = episode.actions
    before: Step | None = None
    for place, step in enumerate(actions):
        where = (place, len(actions))
        look.steps[step.item_id] = step_features(
            step, episode.instruction, seen.steps[step.item_id], where, cosine, before
        )
        # A Wait changes nothing, so what came before it still counts.
        before = before if step.row["action_type"] == "Wait" else step
    if transition is not None:
        _add_rivals(look, transition)
    return look


def _add_rivals(look: EpisodeLook, transition: NanoHead) -> None:
    """What the transition head says of the recorded next screen, against the episode's other screens."""
    actions = look.episode.actions
    requested: list[Features] = []
    spans: list[tuple[str, int]] = []
    for place, step in enumerate(actions):
        after = settled(actions, place)
        # The recorded screen first: rivals are compared with it.
        screens = [after, *rivals(look.episode, step, after)] if after is not None else []
        requested += [transition_features(step, screen) for screen in screens]
        spans.append((step.item_id, len(screens)))
    # One pass for all screens, as calls cost more than rows.
    logits = iter(transition.logits(requested).tolist())
    before = float("nan")
    for item_id, count in spans:
        values = [next(logits) for _ in range(count)]
        features = look.steps[item_id]
        features["before_follows"] = before
        before = float("nan")
        if values:
            features |= rival_features(values[0], values[1:])
            before = values[0]


def rivals(episode: Episode, step: Step, after: Screen) -> list[Screen]:
    """Other screens of an episode, the nearest in time first."""
    here = int(step.row["step_index"])
    # By time: near screens are the hardest to tell apart.
    near = sorted(episode.steps, key=lambda other: (abs(int(other.row["step_index"]) - here), other.row["step_index"]))
    known = {after.sha256, step.screen.sha256 if step.screen else ""}
    found: dict[str, Screen] = {}
    for other in near:
        if other.screen is not None and other.screen.sha256 not in known:
            found.setdefault(other.screen.sha256, other.screen)
    return list(found.values())[:MOST_RIVALS]


def sample_texts(sample: Sample) -> list[str]:
    """Texts whose embeddings a sample's features need."""
    labels = [element.label for element in sample.screen.elements] if sample.screen is not None else []
    return [expression_of(sample), *(plain(label) for label in labels)]


def texts_of(episode: Episode) -> list[str]:
    """Texts whose embeddings an episode's features need, as far as they are known beforehand."""
    goal = episode.instruction
    texts = [goal, *clauses_of(goal), *(acted_on(step) for step in episode.actions)]
    texts += [str(step.row[name] or "") for step in episode.actions for name in ("step_instruction", "thought")]
    return texts


def sample_look(sample: Sample, cosine: Cosine) -> tuple[list[Finding], Features]:
    """What the rules found about a sample, and its features."""
    findings = look_at_sample(sample)
    return findings, sample_features(sample, findings, cosine)


def risks_of(head: NanoHead, rows: list[Features]) -> list[float]:
    """Probabilities of low fidelity."""
    return [float(value) for value in sigmoid(head.logits(rows))]
