"""A scripted policy that slips and recovers: what is done at each turn, and whether it was right.

The policy errs at a set share of its turns: it clicks a neighbour, or types something else. A slip is kept only
if it can be undone and the task is done in the end: rules and sites find their way from wherever they stand; on the
phone an undo (the same place again, or back) is tried and must bring the very document back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from generators.policies.oracles.oracle import Advice, click_on
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, ScreenElement, World, WorldError
from generators.worlds.evaluators import holds
from generators.worlds.phone.phone_world import unscrolled
from schemas.action_types import CallUser, Click, Finished, PressBack, Type
from schemas.actions import Action
from schemas.coordinates import contains
from schemas.ids import digest
from trainer.proving.staircase.choice import MOST_STEPS
from trainer.proving.staircase.tasks import oracle_of, staircase_world

NEAREST = 4
"""A slip clicks one of so many nearest elements."""
MOST_SLIPS = 2
WORDS = ("Anna", "blue", "42", "Rome", "note", "x7")
"""What a slip types."""


@dataclass(frozen=True)
class PerformedTurn:
    """A turn: the screen, what was done on it, whether that was right, and the element meant."""

    shot: Observation
    action: Action
    right: bool
    box: tuple[float, ...] | None = None


# --- performing -------------------------------------------------------------------------------------------------------
def perform(world: World, contract: TaskSpec, rng: Random, error_rate: float) -> list[PerformedTurn] | None:
    """An episode that does the task, with slips; None where even the faultless one doesn't.

    Slips that spoil the episode are left out, and it begins anew."""
    # Turns at which a slip spoiled the episode before.
    forbidden: set[int] = set()
    # The same draws at each try: only the forbidden turns differ.
    state = rng.getstate()
    for _ in range(MOST_STEPS):
        rng.setstate(state)
        try:
            moments, slips = _try(world, contract, rng, error_rate, forbidden)
            if moments is not None and holds(contract.evaluator, world.state(), _answer(moments)):
                return moments
        except WorldError:
            # A world that fails has no turn to blame but the first.
            slips = {0}
        if not slips - forbidden:
            if error_rate == 0:
                return None
            error_rate, forbidden = 0.0, set()
            continue
        # The last slip is the likeliest to have spoiled the end.
        forbidden.add(max(slips - forbidden))
    return None


def _answer(moments: Sequence[PerformedTurn]) -> str:
    return next((m.action.content for m in reversed(moments) if isinstance(m.action, CallUser)), "")


def _try(
    world: World, contract: TaskSpec, rng: Random, error_rate: float, forbidden: set[int]
) -> tuple[list[PerformedTurn] | None, set[int]]:
    """(the moments up to the end, or None if the oracle gave up; the turns at which it slipped)."""
    world.reset(contract.initial_state)
    oracle = oracle_of(contract, world)
    oracle.begin(contract)
    undoes = staircase_world(contract.world).undoes
    moments: list[PerformedTurn] = []
    slips: set[int] = set()
    last: Action | None = None
    held: Advice | None = None
    shot = world.observe()
    while len(moments) < MOST_STEPS:
        turn = len(moments)
        advice = held if held is not None else oracle.next(shot.elements, world.state(), last)
        held = None
        # A source of each turn's own: how much a slip draws doesn't move the turns after it.
        draws = Random(rng.random())
        if advice.done or advice.gave_up:
            if advice.gave_up:
                return None, slips
            ending = advice.action or Finished()
            world.act(ending)
            return [*moments, PerformedTurn(shot, ending, True)], slips
        wrong = None
        if turn not in forbidden and len(slips) < MOST_SLIPS and draws.random() < error_rate:
            wrong = _slip(advice, shot.elements, undoes, draws)
        undo = _undone(world, wrong) if wrong is not None and undoes else []
        if wrong is not None and undo is not None:
            slips.add(turn)
            moments.append(PerformedTurn(shot, wrong, False))
            if not undoes:
                world.act(wrong)
                # Rules see the slip as what was done last, and find back from there.
                last = wrong
            for action in undo:
                moments.append(PerformedTurn(world.observe(), action, True))
                world.act(action)
            # A plan doesn't notice a slip that was undone; its advice for this turn is still to be followed.
            held = advice if undoes else None
            shot = world.observe()
            continue
        assert advice.action is not None
        moments.append(PerformedTurn(shot, advice.action, True, _box(advice.action, shot.elements)))
        world.act(advice.action)
        last = advice.action
        shot = world.observe()
    return None, slips


def _slip(advice: Advice, elements: Sequence[ScreenElement], undoes: bool, rng: Random) -> Action | None:
    """Something wrong in place of what is advised; None where nothing of the kind can be undone."""
    action = advice.action
    if isinstance(action, Click):
        x, y = action.box
        free = [p for p in elements if p.clickable and not p.key.startswith("sys:")]
        # Neighbours that hold the point too would be right.
        others = [p for p in free if not contains(p.box, action.box)]
        # The nearest first: people miss by a little.
        others.sort(key=lambda p: (p.centre[0] - x) ** 2 + (p.centre[1] - y) ** 2)
        return click_on(rng.choice(others[:NEAREST])) if others else None
    if isinstance(action, Type) and not undoes:
        return Type(rng.choice([word for word in WORDS if word != action.content]))
    return None


def _undone(world: World, wrong: Action) -> list[Action] | None:
    """Do a slip on the phone → what brings the document back as it was; None, with nothing done, where nothing does.

    The world stands after the slip; its undo is still to be done."""
    before = world.state()
    was = digest(unscrolled(before))
    world.act(wrong)
    after = world.state()
    # What changed nothing needs no undo.
    if digest(unscrolled(after)) == was:
        return []
    for undo in ([wrong], [PressBack()]):
        for action in undo:
            world.act(action)
        back = digest(unscrolled(world.state())) == was
        # Back to the state after the slip: its undo belongs to the episode, and is recorded.
        world.reset({"snapshot": after})
        if back:
            return list(undo)
    world.reset({"snapshot": before})
    return None


def _box(action: Action, elements: Sequence[ScreenElement]) -> tuple[float, ...] | None:
    """The smallest clickable element under a click."""
    if not isinstance(action, Click):
        return None
    met = [element.box for element in elements if element.clickable and contains(element.box, action.box)]
    return min(met, key=lambda b: (b[2] - b[0]) * (b[3] - b[1])) if met else None
