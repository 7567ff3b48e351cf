"""The oracle of MiniWoB++ tasks: asks the rule of the page (`miniwob_rules`) for the next right action."""

from collections.abc import Mapping, Sequence

from generators.policies.oracles.miniwob_rules import RULES, MiniwobPage
from generators.policies.oracles.oracle import Advice, hits
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.miniwob_world import MiniwobWorld
from schemas.action_types import Click, Scroll
from schemas.actions import Action


class MiniwobOracle:
    """See `oracle.Oracle`. It reads the page of the world that it is made for."""

    def __init__(self, world: MiniwobWorld) -> None:
        self._world = world

    def begin(self, contract: TaskSpec) -> None:
        """Raises `ValueError` for a task without a rule."""
        task = str(contract.initial_state.get("task"))
        if task not in RULES:
            raise ValueError(f"miniwob oracle: no rule for the task {task!r:.60}; known are {', '.join(sorted(RULES))}")
        self._rule = RULES[task]
        self._hit: list[str] = []
        self._before: Sequence[ScreenElement] = ()
        self._strokes = 0

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        # What the last click met, judged by the elements that it was aimed at, before the page reacted.
        self._hit += [element.key for element in self._before if hits(last, element)]
        # In a row: a scroll that another action follows begins anew.
        self._strokes = self._strokes + 1 if isinstance(last, Scroll) else 0
        self._before = elements
        if state["done"]:
            return Advice(done=True)
        # Read afresh from the page: the rule must see what no tree in the view tells (focus, values).
        nodes = self._world.nodes()
        goal, fields = self._world.utterance()
        page = MiniwobPage(self._world, goal, fields, nodes, state, self._hit, last, self._strokes)
        try:
            action = self._rule(page)
        # IndexError: a page with fewer fields than its task says is a miss like any other.
        except (OracleMiss, IndexError) as miss:
            return Advice(reason=str(miss)[:200])
        if action is None:
            return Advice(done=True)
        if isinstance(action, Click):
            # By its centre, which is where rules aim; the caller wants to tell what was clicked.
            met = next((node for node in nodes if node.place.centre == action.box), None)
            if met is not None:
                return Advice(action, met.place.role, met.place.name or met.place.text)
        return Advice(action)
