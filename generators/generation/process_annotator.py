"""A vote from the process of a run: were the operations done that the task requires on the way, and do they stand?

The operations are those that the task's evaluator lists (`process`: plain data, see `RequiredOperation.of`), else on a
site those of a way that the oracle finds, else what the goal's own words ask for. It never sees the end state. The
verifier takes this vote for a gate: what lacks evidence isn't verified, whatever the last screen or the others say.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from generators.generation.annotators import OutcomeVote, watched
from generators.policies.oracles.site_walk import site_walk
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import Observation
from generators.worlds.fsm.evaluate import RULE
from quality.evidence.process import RequiredOperation, goal_operations, process_of
from quality.evidence.words import holds, plain
from quality.items.screens import ScreenSource
from schemas.action_types import Type

LEAST_NAME = 3
"""Characters of a label that may say what a screen is about."""


class ProcessAnnotator:
    """See the module and `Annotator`. It abstains where nothing is required, and where the device lists no elements."""

    name = "process"

    def __init__(self, screens: ScreenSource) -> None:
        self._screens = screens

    def vote(self, done: ExecutedTrajectory) -> OutcomeVote:
        """The vote on a trajectory. Raises `ValueError` for a task whose own list can't be read."""
        episode = watched(self.name, done, self._screens)
        if isinstance(episode, OutcomeVote):
            return episode
        listed = operations_of(done.contract)
        required = listed or goal_operations(episode)
        if not required:
            return OutcomeVote(self.name, None, "the task requires nothing on the way that could be looked for")
        evidence = process_of(episode, required, whole=bool(listed) and "process" not in done.contract.evaluator)
        # what a task lists is certain; what is read off the goal's words is a reading
        confidence = 1.0 if listed else 0.6
        if evidence.complete:
            return OutcomeVote(self.name, "completed", evidence.reason, confidence)
        outcome = "partial" if evidence.met and not evidence.undone else "failed"
        return OutcomeVote(self.name, outcome, evidence.reason[:300], confidence)  # type: ignore[arg-type]


def operations_of(contract: TaskSpec) -> tuple[RequiredOperation, ...]:
    """What a task requires on the way: as its evaluator lists it, or as its site's oracle does it; () where neither is
    known. Raises `ValueError` for a list that can't be read."""
    listed = contract.evaluator.get("process")
    if listed is not None:
        if not isinstance(listed, list):
            raise ValueError(f"task {contract.instruction[:60]!r}: expected process to be a list, found {listed!r:.60}")
        return tuple(RequiredOperation.of(one) for one in listed)
    if contract.evaluator.get("rule") == RULE and "kind" in contract.initial_state:
        return _of_site(_Key(contract))
    return ()


class _Key:
    """A contract by its id, for the cache: its data holds what can't be hashed."""

    def __init__(self, contract: TaskSpec) -> None:
        self.contract, self._id = contract, contract.task_id

    def __hash__(self) -> int:
        return hash(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._id == other._id


@lru_cache(maxsize=1024)
def _of_site(key: _Key) -> tuple[RequiredOperation, ...]:
    """The operations of the way that a site's oracle takes, carried out in the interpreter without a browser."""
    goal, acts = key.contract.instruction, list(_oracle_acts(key.contract))
    screens = [labels for _, _, labels, _, _ in acts]
    always = set.intersection(*screens) if len(screens) > 1 else set()
    found: Counter[RequiredOperation] = Counter()
    for label, text, labels, changes, gone in acts:
        named = holds(goal, label) if label else False
        if text and not holds(goal, text):
            continue
        if not text and not (changes or named):
            continue
        around = {one for one in labels - always if len(plain(one)) >= LEAST_NAME and holds(goal, one)} - {label, text}
        # of two names of which one holds the other, the longer one says it all
        within = sorted(one for one in around if not any(one != other and holds(other, one) for other in around))
        found[RequiredOperation("" if text else label, text, tuple(within) if changes else (), 1, gone)] += 1
    return tuple(replace(one, times=times) for one, times in found.items())


def _oracle_acts(contract: TaskSpec) -> Iterator[tuple[str, str, set[str], bool, bool]]:
    """(label touched, text typed, labels shown, whether the site's variables change, whether the label goes away) of
    the oracle's acts, in order."""
    for step in site_walk(contract):
        label = (step.element.name or step.element.text) if step.element is not None else ""
        shown, after = _labels(step.before), _labels(step.after)
        typed = step.action.content if isinstance(step.action, Type) else ""
        yield label, typed, shown, step.changes, step.changes and bool(label) and label not in after


def _labels(screen: Observation) -> set[str]:
    return {text for element in screen.elements for text in (element.name, element.text) if text}
