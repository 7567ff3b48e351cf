"""Which steps of a run were wrong, what was right instead, and what undoes a step: found by carrying the run out again.

Beside the run stands a reference policy that can finish the task from wherever the run was. A step is right if it
leads where the reference's own step leads, or as near to the goal; wrong if the reference needs no fewer steps after it
than before it, or can't reach the goal any more. The goal is reached where the contract's rule says so. Nothing is
believed: each right step and each way back was carried out in the world before it is told.

Sources: UI-TARS (the first error of a trace is marked, people do it there), InfiGUI-R1 and GUI-Reflection (ways back).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from generators.policies.oracles.oracle import click_on
from generators.policies.policy import CannotDo, PastTurn, PolicyView, answered
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import scripted
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, World, WorldError
from generators.worlds.dialogue import ends, goal_in
from generators.worlds.evaluators import holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.registry import open_world
from pipelines.derivers.base import squash
from pipelines.derivers.trajectory import JudgedTrajectory, RunVerdict
from schemas.action_types import CallUser, Click, PressBack, Scroll
from schemas.actions import Action, direction_of, format, parse
from schemas.ids import digest

REPLAYS_VERSION = 1
"""Version of what is found so: part of the version of what is derived from it."""
Moment = tuple[str, str]
"""(digest of the world's truth, sha256 of the picture): equal where a world can't be told from what it was."""
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """`steps` of the reference policy after which it counts as lost; `backs`: actions tried at most as a way back."""

    steps: int = 40
    backs: int = 8

    def __post_init__(self) -> None:
        if self.steps < 1 or self.backs < 0:
            raise ValueError(f"replay: expected steps of 1 or more and backs of 0 or more, found {self}")


REFERENCE = scripted(explore_turns=0)
"""Does what the world's oracle advises; where there is no way, it says so at once instead of looking around."""


@contextmanager
def open_for_replay(name: str) -> Iterator[World]:
    """A world to carry runs out again in. FSM sites have a twin without a browser, whose states are the same; any other
    is opened by its name. Raises `ValueError` for an unknown one."""
    if name == InterpretedWorld.name:
        yield InterpretedWorld(make_site)
        return
    opened: AbstractContextManager[World] = open_world(name)
    with opened as world:
        yield world


@dataclass
class RunReplay:
    """A run of a contract, carried out again in a world by its actions; see the module. `world` must come back to the
    same state by the same start and actions. Methods raise `WorldError` where it can't be reset or refuses a step."""

    world: World
    contract: TaskSpec
    actions: Sequence[Action]
    reference: PolicyMaker = REFERENCE
    limits: ReplayLimits = ReplayLimits()
    _costs: dict[int, int | None] = field(default_factory=dict, init=False)

    @cached_property
    def _course(self) -> tuple[list[Observation], list[Moment], list[Action | None]]:
        """The screens before each action and after the last one, their moments, and what the reference would do."""
        screens, moments, advice = list[Observation](), list[Moment](), list[Action | None]()
        for own in self._beside(self.actions, 0):
            screens.append(self.world.observe())
            moments.append(self._moment())
            advice.append(own)
        return screens, moments, advice

    def _beside(self, before: Sequence[Action], further: int) -> Iterator[Action | None]:
        """The reference's action at each turn (None: it gives none). While `before` lasts, its actions are carried out
        instead, then the reference's own, up to `further`; the world stands where a yielded action is to be done.

        A policy that remembers what it did (that it has clicked the field which it is about to fill) has to see the
        whole way: one that is asked only where it takes over would begin anew, and a right step look like a detour."""
        policy, world = self.reference.make(self.contract, self.world), self.world
        world.reset(self.contract.initial_state)
        policy.begin(self.contract.instruction, self.contract.platform, 0)
        past: tuple[PastTurn, ...] = ()
        for turn in range(len(before) + further + 1):
            seen = world.observe()
            past = answered(past, seen.said)
            elements = seen.elements if policy.needs_tree else ()
            goal = goal_in(world, self.contract.instruction)
            view = PolicyView(goal, seen.png, world.size_px, self.contract.platform, past, elements)
            own = policy.decide(view).action
            yield own
            action = before[turn] if turn < len(before) else own
            if action is None or turn == len(before) + further:
                return
            try:
                world.act(action)
            except WorldError:
                if turn < len(before):
                    raise
                return  # the reference knows no way on in this world
            past = (*past, PastTurn(action))
            if turn >= len(before) and ends(world, action):
                return

    def _moment(self) -> Moment:
        """Where the world stands."""
        return digest(self.world.state()), self.world.observe().sha256

    def _after(self, actions: Sequence[Action]) -> Moment | None:
        """The moment after actions from the start; None if the world refuses one of them."""
        self.world.reset(self.contract.initial_state)
        try:
            for action in actions:
                self.world.act(action)
        except WorldError:
            return None
        return self._moment()

    def _holds(self, done: Sequence[Action]) -> bool:
        """Whether the rule holds where the world stands after these actions."""
        answers = [action.content for action in done if isinstance(action, CallUser)]
        return holds(self.contract.evaluator, self.world.state(), answers[-1] if answers else "")

    def shows(self, run: JudgedTrajectory) -> bool:
        """Whether the replay's screens hold the names that the run's recorded screens hold."""
        for row, seen in zip(run.steps, self._course[0], strict=False):
            recorded = {e.name for e in run.shown(row) if e.name}
            if recorded != {squash(e.name) or squash(e.text) for e in seen.elements} - {""}:
                return False
        return True

    def succeeded(self) -> bool:
        """Whether the rule holds after the whole run."""
        self._after(self.actions)
        return self._holds(self.actions)

    def cost(self, count: int) -> int | None:
        """Steps that the reference needs from after the first `count` actions to the goal, its own end included; None
        if it doesn't get there."""
        if count not in self._costs:
            before = self.actions[:count]
            own = [action for turn, action in enumerate(self._beside(before, self.limits.steps)) if turn >= count]
            done = [*before, *(action for action in own if action is not None)]
            ended = bool(own) and ends(self.world, own[-1]) and self._holds(done)
            self._costs[count] = len(own) if ended else None
        return self._costs[count]

    def is_wrong(self, step: int) -> bool | None:
        """Whether a step took the run no nearer to its goal; None where that was out of reach before it."""
        action, advised = self.actions[step], self._course[2][step]
        if ends(self.world, action):
            self._after(self.actions[: step + 1])
            return not self._holds(self.actions[: step + 1])
        before = self.cost(step)
        if action == advised:
            # the reference would have gone on from here as it goes on from there: no need to play that out again
            self._costs.setdefault(step + 1, before - 1 if before is not None else None)
        if before is None or action == advised:
            return None if before is None else False
        # What changes something visible is right whatever point it hit. Without a change, looking can't tell: a click
        # into a field and one beside it leave the same screen, and only what follows shows the difference.
        here, led = self._course[1][step : step + 2]
        if advised is not None and here != led == self._after([*self.actions[:step], advised]):
            return False
        after = self.cost(step + 1)
        return after is None or after >= before

    def way_back(self, step: int) -> Action | None:
        """One action after which the world is as it was before a step: its state and its picture are the same, and the
        step's own action leads again where it led, so nothing unseen (a focus) was lost. None if none of those tried
        does that, or the step changed nothing."""
        moments, action = self._course[1], self.actions[step]
        if ends(self.world, action) or moments[step] == moments[step + 1]:
            return None
        done = self.actions[: step + 1]
        for tried in self._backs(step):
            if self._after([*done, tried]) != moments[step]:
                continue
            if self._after([*done, tried, action]) == moments[step + 1] and self._goes_on(step, tried):
                return tried
        return None

    def _goes_on(self, step: int, back: Action) -> bool:
        """Whether the reference's action does the same after a step and its way back as it would have done before."""
        advised = self._course[2][step]
        before = self.actions[:step]
        return advised is None or (
            self._after([*before, advised]) == self._after([*before, self.actions[step], back, advised])
        )

    def _backs(self, step: int) -> list[Action]:
        """What may undo a step, most likely first: the way that screens are left, the same once more (a switch), the
        other direction, and clicks on what lies nearest (a minus beside a plus, the tab that was open)."""
        action, after = self.actions[step], self._course[0][step + 1]
        found: list[Action] = [PressBack()]
        if isinstance(action, Scroll):
            found.insert(0, Scroll(direction=OPPOSITE[direction_of(action)]))
        if isinstance(action, Click):
            x, y = action.box
            near = sorted(
                (e for e in after.elements if e.clickable),
                key=lambda e: (e.centre[0] - x) ** 2 + (e.centre[1] - y) ** 2,
            )
            found += [action, *(click_on(e) for e in near)]
        return list(dict.fromkeys(found))[: self.limits.backs]

    def verdict(self, known: RunVerdict) -> RunVerdict:
        """A verdict with what the replay adds: `wrong`, `right` of wrong steps from which the goal was in reach, and
        `undo` of all steps that one action undoes."""
        wrong = {step for step in range(len(self.actions)) if self.is_wrong(step)}
        right = {step: self._course[2][step] for step in sorted(wrong) if self.cost(step) is not None}
        undo = {step: self.way_back(step) for step in range(len(self.actions))}
        return replace(known, wrong=frozenset(wrong), right=_texts(right), undo=_texts(undo))


def located(
    run: JudgedTrajectory, contract: TaskSpec, world: World, reference: PolicyMaker = REFERENCE
) -> JudgedTrajectory | None:
    """A run whose verdict tells its wrong steps, what was right, and ways back. None where a replay can't be had or
    isn't the run: the world refuses a step, other screens come up than were recorded, the rule decides otherwise, a
    step is missing, or no reference policy can take on the task."""
    rows = [row for row in run.steps if row["action_text"] is not None]
    if [row["step_index"] for row in run.steps] != list(range(len(run.steps))) or not rows:
        return None
    replay = RunReplay(world, contract, [parse(row["action_text"] or "") for row in rows], reference)
    try:
        if not replay.shows(run):
            return None
        if run.verdict.trusted and replay.succeeded() != (run.verdict.decision == "success"):
            return None
        return replace(run, verdict=replay.verdict(run.verdict))
    except (WorldError, CannotDo):
        return None


def with_located_errors(
    runs: Sequence[JudgedTrajectory], contracts: Mapping[str, TaskSpec], worlds: Sequence[str]
) -> tuple[list[JudgedTrajectory], Counter[str]]:
    """Runs, those of the named worlds `located`, in their order; and how many were. `contracts`: by episode id. Raises
    `ValueError` for a world that there isn't."""
    counts: Counter[str] = Counter()
    found = []
    with ExitStack() as stack:
        opened = {name: stack.enter_context(open_for_replay(name)) for name in dict.fromkeys(worlds)}
        for run in runs:
            contract = contracts.get(run.steps[0]["episode_id"])
            name = contract.initial_state.get("world") if contract is not None else None
            if contract is None or name not in opened:
                counts["in no such world"] += 1
                found.append(run)
                continue
            again = located(run, contract, opened[name])
            counts["not the same run again" if again is None else "located"] += 1
            found.append(again or run)
    return found, counts


def _texts(actions: Mapping[int, Action | None]) -> dict[int, str]:
    return {step: format(action) for step, action in actions.items() if action is not None}
