"""The task bank: every task that was ever admitted, no two alike; and the gate that a proposal has to pass first.

A task q' is kept iff its largest cosine similarity to the bank and to the task pool is below epsilon (UI-Venus-1.5,
section 2.3): greedy in the order of proposal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generators.tasks.task_spec import TaskSpec, has_rule
from generators.tasks.world_interface import World, WorldError
from generators.worlds.evaluators import holds
from quality.duplicates.neighbours import cosines
from quality.evidence.embedding import Embedder

LONGEST = 600
SHORTEST = 8


class TaskBank:
    """Instructions with their vectors; grows by `admit_all`."""

    def __init__(self, embedder: Embedder, epsilon: float, texts: Sequence[str] = ()) -> None:
        if not 0 < epsilon <= 1:
            raise ValueError(f"task bank: expected 0 < epsilon <= 1, found {epsilon!r}")
        self.epsilon = epsilon
        self._embedder = embedder
        self.texts = list(texts)
        self._vectors = embedder.encode(self.texts) if self.texts else np.zeros((0, 0), np.float32)

    def _nearest(self, vector: np.ndarray) -> tuple[float, str]:
        """Largest cosine similarity to a text of the bank, and that text; (-1, "") for an empty bank."""
        if not self.texts:
            return -1.0, ""
        likely = int(np.argmax(self._vectors @ vector[0]))  # float32 finds it, float64 decides
        return float(cosines(self._vectors[likely : likely + 1], vector)[0]), self.texts[likely]

    def admit_all(self, texts: Sequence[str]) -> list[tuple[bool, float, str]]:
        """For each text in turn: whether it is new, and was taken in; its largest similarity; to which text."""
        found = []
        for text, row in zip(texts, self._embedder.encode(list(texts)) if texts else (), strict=True):
            vector = row[None, :]
            value, other = self._nearest(vector)
            if value < self.epsilon:
                self._vectors = np.concatenate([self._vectors, vector]) if self.texts else vector
                self.texts.append(text)
            found.append((value < self.epsilon, value, other))
        return found

    def closest_pair(self, first: int = 0) -> float:
        """Largest cosine similarity of any two tasks, one of them at least from place `first` on, by brute force; -1
        where there are no two."""
        best = -1.0
        for number in range(max(first, 1), len(self.texts)):
            whole = np.broadcast_to(self._vectors[number], (number, self._vectors.shape[1]))
            best = max(best, float(cosines(self._vectors[:number], whole).max()))
        return best


def gate(contract: TaskSpec, targets: Sequence[str], world: World | None) -> str:
    """Why a proposal is no executable contract; "" if it is one.

    With a `world` (one without a device, such as the interpreter) its start is tried and its evaluator read there: a
    goal that holds before anything was done asks for nothing.
    """
    text = " ".join(contract.instruction.split())
    if text != contract.instruction or not SHORTEST <= len(text) <= LONGEST:
        return "instruction: not one line of fitting length"
    if contract.target not in targets:
        return "target: unknown"
    try:
        contract.world  # noqa: B018 - raises
        if world is not None:
            world.reset(contract.initial_state)
            if has_rule(contract.evaluator) and holds(contract.evaluator, world.state()):
                return "evaluator: holds at the start"
    except (WorldError, ValueError, KeyError) as error:
        return f"contract: {str(error)[:100]}"
    return ""
