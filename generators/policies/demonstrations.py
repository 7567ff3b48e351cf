"""Demonstration memory as a wrapper of any policy: what was done before on similar goals, as text beside the goal.

LearnAct's idea (demonstrations instead of training), its retrieval by similarity of goals. An empty memory is the
identity: the wrapped policy sees the very same views.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from generators.policies.agent_prompt import template
from generators.policies.policy import Decision, Policy, PolicyView
from generators.tasks.trajectory import ExecutedTrajectory
from quality.evidence.embedding import Embedder
from schemas.actions import Action, render

SAME_TARGET, SAME_PLATFORM = 0.2, 0.1
"""Added to the cosine of two goals: a way through the same app helps more than a likelier wording elsewhere."""
LEAST = 0.35
"""Similarity (with what is added) below which a demonstration says nothing."""
MOST_STEPS = 40
"""Steps of a demonstration that are shown."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A verified trajectory as it is remembered. `steps` = (action, what it was said to do)."""

    name: str
    goal: str
    platform: str
    target: str
    steps: tuple[tuple[Action, str], ...]
    task_id: str = ""

    @classmethod
    def of(cls, trajectory: ExecutedTrajectory) -> "Demonstration":
        """The actions that were carried out, without what did nothing."""
        contract = trajectory.contract
        steps = tuple((t.action, t.conclusion) for t in trajectory.turns if t.action is not None and not t.error)
        return cls(
            trajectory.trajectory_id, contract.instruction, contract.platform, contract.target, steps, contract.task_id
        )


class DemonstrationMemory:
    """Verified trajectories, found by goal. Deterministic: ties go by name, the order of adding doesn't matter."""

    def __init__(self, embedder: Embedder | None = None, demonstrations: Iterable[Demonstration] = ()) -> None:
        self._embedder = embedder or Embedder()
        # By name: a trajectory verified twice is one demonstration.
        self._held = {one.name: one for one in demonstrations}

    def __len__(self) -> int:
        return len(self._held)

    def copy(self) -> "DemonstrationMemory":
        """As it stands now: what is remembered later doesn't enter."""
        return DemonstrationMemory(self._embedder, self._held.values())

    def add(self, trajectory: ExecutedTrajectory) -> None:
        """Remember a verified trajectory; one of the same name replaces it."""
        one = Demonstration.of(trajectory)
        self._held[one.name] = one

    def nearest(
        self, goal: str, platform: str, target: str = "", k: int = 2, without_task: str = ""
    ) -> list[Demonstration]:
        """The `k` most similar ones, the best first; those of `without_task` (a task id) are left out, so that no
        task is shown its own solution."""
        # Sorted before scoring, so that equal scores and rounding give one order.
        held = sorted(
            (d for d in self._held.values() if not without_task or d.task_id != without_task), key=lambda d: d.name
        )
        if not held or k < 1:
            return []
        # Goal and memory in one call: one batch for the embedder.
        vectors = self._embedder.encode([goal, *(d.goal for d in held)])
        scores = [
            float(vectors[0] @ vector)
            + SAME_PLATFORM * (d.platform == platform)
            + SAME_TARGET * bool(target and d.target == target)
            for d, vector in zip(held, vectors[1:], strict=True)
        ]
        # Rounded: differences in the last bits between machines don't swap neighbours.
        order = sorted(range(len(held)), key=lambda n: (-round(scores[n], 6), held[n].name))
        return [held[n] for n in order[:k] if scores[n] >= LEAST]


class WithDemonstrations:
    """A policy that is shown the demonstrations nearest to its goal. `target` is the task's, `task_id` its id."""

    def __init__(
        self, policy: Policy, memory: DemonstrationMemory, k: int = 2, target: str = "", task_id: str = ""
    ) -> None:
        if k < 0:
            raise ValueError(f"demonstrations: expected 0 or more, found {k}")
        self.policy, self.memory, self.k, self.target, self.task_id = policy, memory, k, target, task_id
        # The memory and k are part of the name: results with demonstrations aren't the plain policy's.
        self.name = name_with_demonstrations(policy.name, memory, k)
        self.needs_tree = policy.needs_tree
        self._shown: list[Demonstration] = []

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`; looks the demonstrations up, once for the episode."""
        self._shown = self.memory.nearest(goal, platform, self.target, self.k, self.task_id)
        self.policy.begin(goal, platform, seed)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        return self.policy.decide(self.shown(view))

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again: passed on to a policy that keeps count."""
        recall = getattr(self.policy, "recall", None)
        if callable(recall):
            recall(self.shown(view), action)

    def shown(self, view: PolicyView) -> PolicyView:
        """The view as the wrapped policy sees it: the same object where nothing is remembered."""
        if not self._shown:
            return view
        # Beside the goal, as text: any policy reads it without knowing of this wrapper.
        texts = "\n".join(as_text(one, number) for number, one in enumerate(self._shown, 1))
        return replace(view, goal=template("demonstrations").format(goal=view.goal, demonstrations=texts).strip())


def name_with_demonstrations(name: str, memory: DemonstrationMemory, k: int) -> str:
    """Name of the policy `name` with this memory; its own where it is shown nothing."""
    return f"{name}+demonstrations-{k}" if k and len(memory) else name


def as_text(one: Demonstration, number: int) -> str:
    """A demonstration in lines: its goal, then its steps by number."""
    lines = [f"{number}. {_line(one.goal)}"]
    lines += [_step(n, step, one.platform) for n, step in enumerate(one.steps[:MOST_STEPS], 1)]
    return "\n".join(lines)


def _step(number: int, step: Sequence[object], platform: str) -> str:
    action, said = step
    text = f"   {number}) {_line(render(action, platform))}"  # type: ignore[arg-type]
    return f"{text} – {_line(str(said))}" if said else text


def _line(text: str) -> str:
    return " ".join(text.split())[:400]
