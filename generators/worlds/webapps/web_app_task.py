"""What a task on a web app is: a goal in words, a start, checks on the end state, and a plan over roles and names.

A plan is a list of ("click", role, name[, which]), ("type", text), ("key", names...), ("scroll", direction), ("back",),
("wait",), ("open", path) and ("answer", text). A name in a plan is the whole name of an element that is on the screen
then; `which` (from 1, in reading order) distinguishes several that are named alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.webapps.evaluate import RULE, Check, rest
from generators.worlds.webapps.web_app_world import WebAppWorld
from schemas.actions import Action, CallUser, Click, Hotkey, Launch, PressBack, PressEnter, Scroll, Type, Wait

Intent = tuple[str, ...]
Data = Mapping[str, Mapping[str, Any]]
"""Table → name of a row → the row."""
Made = tuple[str, Sequence[Check], Sequence[Intent], Sequence[tuple[str, ...]]]
"""(goal, checks, plan, paths of the data that it changes)"""


@dataclass(frozen=True)
class AppTask:
    """An executable contract with a plan that reaches it. `name` is unique within its app and seed."""

    name: str
    app: str
    goal: str
    start: Mapping[str, Any]
    checks: tuple[Check, ...]
    plan: tuple[Intent, ...]

    @property
    def expected_steps(self) -> int:
        return len(self.plan)

    def evaluator(self) -> dict[str, Any]:
        """Plain JSON data; `evaluate.holds` reads it."""
        return {"rule": RULE, "checks": list(self.checks)}

    def contract(self) -> TaskSpec:
        """What the generation loop executes."""
        # Verbs of the plan are capabilities: pools choose by them.
        verbs = sorted({intent[0] for intent in self.plan})
        return TaskSpec(
            self.goal,
            "web",
            self.app,
            dict(self.start),
            self.evaluator(),
            self.expected_steps,
            (f"{self.app}.{self.name}", *(f"{self.app}:{verb}" for verb in verbs)),
        )

    def as_row(self) -> dict[str, object]:
        """A row of the `tasks` table."""
        return self.contract().as_row()


def seeded_tasks(
    app: str, families: Sequence[Callable[[Any, Random], Made]], data: Data, seed: int
) -> tuple[AppTask, ...]:
    """One task of every family on an app's data of a seed; all that a task doesn't change has to stay as it is."""
    tasks = []
    for family in families:
        # Each family has its own generator, so that adding one changes no other.
        goal, checks, plan, touched = family(data, Random(f"{app}/{seed}/{family.__name__}"))
        start = {"world": app, "seed": seed, "page": "/"}
        tasks.append(AppTask(family.__name__, app, goal, start, (*checks, rest(data, *touched)), tuple(plan)))
    return tuple(tasks)


def find(elements: Sequence[ScreenElement], role: str, name: str, which: int = 0) -> ScreenElement:
    """The element of this role and whole name. Raises `WorldError` where it isn't there, or (without `which`) not
    alone."""
    # In reading order, so that `which` counts as a person would.
    found = sorted((p for p in elements if (p.role, p.name) == (role, name)), key=lambda p: (p.box[1], p.box[0]))
    if not found or (len(found) > 1 and not which) or which > len(found):
        # What there is of this role: the message says at once what the plan should have named.
        near = sorted({p.name[:40] for p in elements if p.role == role})[:40]
        raise WorldError(f"plan: expected one {role} named {name!r}, found {len(found)}; there are {near}")
    return found[which - 1 if which else 0]


def action_of(intent: Intent, elements: Sequence[ScreenElement]) -> Action:
    """An intent as an action on the screen that has these elements. Raises `WorldError` where it can't be had."""
    kind, *rest = intent
    if kind == "click":
        return Click(find(elements, rest[0], rest[1], int(rest[2]) if len(rest) > 2 else 0).centre)
    if kind == "key":
        return PressEnter() if rest == ["enter"] else Hotkey(tuple(rest))
    if kind == "scroll":
        return Scroll(direction=rest[0])
    if kind == "back":
        return PressBack()
    if kind == "wait":
        return Wait()
    if kind == "type":
        return Type(rest[0])
    if kind == "answer":
        return CallUser(rest[0])
    if kind == "open":
        return Launch(url=rest[0])
    raise WorldError(f"plan: unknown intent {kind!r}; known are click, key, scroll, back, wait, type, answer, open")


def steps(task: AppTask, world: WebAppWorld) -> Iterator[Action]:
    """Reset, then the plan on the real screen; gives each action when it is due, and carries it out when asked for the
    next. Raises `WorldError` that names the step that can't be done."""
    world.reset(task.start)
    for number, intent in enumerate(task.plan, 1):
        try:
            # Only clicks need to look.
            action = action_of(intent, world.elements() if intent[0] == "click" else ())
        except WorldError as error:
            raise WorldError(f"{task.app}/{task.name}, step {number} {intent}: {error}") from None
        # Carried out when the next is asked for, so that a recorder sees the screen before each action.
        yield action
        world.act(action)


def perform(task: AppTask, world: WebAppWorld) -> tuple[list[Action], str]:
    """The whole plan; gives the actions and the last answer."""
    done = list(steps(task, world))
    return done, next((action.content for action in reversed(done) if isinstance(action, CallUser)), "")
