"""Writes a plan down while a world's own planner performs it: before each action its screen, words and thought; and
finds goals that are one entity apart, for near misses."""

from random import Random

from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import Move
from generators.tasks.world_interface import Observation, ScreenElement, World
from schemas import action_types
from schemas.actions import Action, scroll_direction

THOUGHTFUL = 1 / 3
"""Share of the traces with thoughts."""
MOST_CHANGED = 4
"""Words of an entity."""
_SAYS: dict[type, tuple[str, ...]] = {
    action_types.Click: ('{press} "{name}"', '{press} on "{name}"', 'Press "{name}"'),
    action_types.LongPress: ('Press and hold "{name}"', 'Long-press "{name}"'),
    action_types.Drag: ("Move the {name} slider", "Drag the {name} slider"),
    action_types.Type: ('Type "{text}"', 'Enter "{text}"', 'Write "{text}"'),
    action_types.Scroll: ("Scroll {direction} to see more", "Scroll {direction}", "Look further"),
    action_types.PressBack: ("Go back to the previous screen", "Press back"),
    action_types.PressHome: ("Go to the home screen", "Press home"),
    action_types.PressEnter: ("Press enter",),
    action_types.CallUser: ('Tell the user: "{text}"', 'Answer "{text}"'),
    action_types.Wait: ("Wait for a moment",),
    action_types.Finished: ("The task is complete",),
}


class Performed:
    """What was done so far. `moves[k]` was done on `shots[k]`."""

    def __init__(self, world: World, goal: str, rng: Random) -> None:
        self.world = world
        self.goal = goal
        self.rng = rng
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []
        self._field = ""

    def before(self, action: Action, place: ScreenElement | None = None) -> None:
        """Note the screen and the action that comes next, on the element it is meant for."""
        shot = self.world.observe()
        if isinstance(action, action_types.Click):
            # Typing goes to the field that was tapped last; a tap elsewhere takes the cursor away.
            self._field = place.key if place is not None and place.role == "textbox" else ""
        elif isinstance(action, action_types.Type) and self._field:
            place = shot.element(self._field)
        if isinstance(action, action_types.Scroll) and not action.direction and action.start and action.end:
            # A stroke's direction is noted with it: judges and words need it, planners give ends only.
            action = action_types.Scroll(action.start, action.end, scroll_direction(action.start, action.end))
        key, box = (place.key, place.box) if place is not None else ("", None)
        name = place.name or place.text if place is not None else ""
        self.shots.append(shot)
        self.moves.append(Move(action, self._words(action, name), key, box, self._thought(action, name)))

    def finish(self) -> None:
        """Note the last screen, on which the task is done."""
        self.before(action_types.Finished())

    def _words(self, action: Action, name: str) -> str:
        press = "Tap" if self.world.platform == "mobile" else "Click"
        text, direction = getattr(action, "content", ""), getattr(action, "direction", "")
        words = self.rng.choice(_SAYS[type(action)])
        return words.format(press=press, name=name, text=text, direction=direction)

    def _thought(self, action: Action, name: str) -> str:
        # These have no phrase in `thoughts`; a thought with the wrong verb would be a defect.
        if not self.thoughtful or isinstance(
            action, action_types.LongPress | action_types.Drag | action_types.CallUser
        ):
            return ""
        return thought(action, self.goal, name, self.rng)


def one_entity_apart(goal: str, other: str) -> bool:
    """Whether two goals differ in one stretch alone, of at most `MOST_CHANGED` words on either side."""
    one, two = goal.split(), other.split()
    first = next((n for n, (a, b) in enumerate(zip(one, two)) if a != b), None)
    if first is None:
        return False
    rest = zip(reversed(one[first:]), reversed(two[first:]))
    # The common tail stops at the common head, which repeated words could make overlap.
    tail = next((n for n, (a, b) in enumerate(rest) if a != b), min(len(one), len(two)) - first)
    changed = one[first : len(one) - tail], two[first : len(two) - tail]
    return all(1 <= len(words) <= MOST_CHANGED for words in changed)
