"""Carries out the plans of the odd tasks by unified actions, noting screens, moves and thoughts."""

from random import Random

from generators.proving.judge_bench.recorders.odd_tasks import Do, OddTask
from generators.proving.judge_bench.recorders.odd_world import OddWorld
from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import Move
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from schemas.action_types import Click, Finished, Hotkey, PressBack, Scroll, Type, Wait
from schemas.actions import Action
from schemas.coordinates import point_to_unit

THOUGHTFUL = 1 / 3
SCROLLING = ("look_alike_list", "scroll_back")
_SAYS: dict[str, tuple[str, ...]] = {
    "noop_selected": ('"{name}" seems to be selected already. I click it to make sure.',),
    "noop_password": (
        "The field hides what is typed; I type {text} all the same.",
        "I type the secret {text}; it shows as dots.",
    ),
    "noop_refresh": ("I refresh, although there may be nothing new.",),
    "repeated_click": ('The number isn\'t right yet: "{name}" once more.', 'I click "{name}" to add one.'),
    "late_effect": ("This may take effect a moment later. I go on.",),
    "undo_redo": ('The goal asks for this: I click "{name}".',),
    "same_buttons": ('Every row has "{name}"; I take the one beside {beside}.',),
    "scroll_back": ("I scroll {direction} as the goal asks.",),
}


class OddOracle:
    """Carries out a plan by unified actions, writing down screen and move before each."""

    def __init__(self, world: OddWorld, goal: str, kind: str, moving: bool, rng: Random) -> None:
        self.world = world
        self.goal = goal
        self.kind = kind
        self.moving = moving
        self.rng = rng
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []

    def note(
        self, action: Action, words: str, place: ScreenElement | None = None, odd: str = "", beside: str = ""
    ) -> None:
        """Note the screen and the move, then act."""
        name = (place.name or place.text) if place else ""
        says = self._thought(action, odd, name, beside) if self.thoughtful else ""
        # Whatever is done while something moves is odd for the same reason;
        # `odd` of the step itself takes precedence.
        if self.moving and not isinstance(action, Finished):
            odd = odd or "animation"
        self.shots.append(self.world.observe())
        self.moves.append(Move(action, words, place.key if place else "", place.box if place else None, says, odd))
        self.world.act(action)

    def _thought(self, action: Action, odd: str, name: str, beside: str) -> str:
        # A wait, a step back, and a named scroll have no phrase that fits here.
        if odd not in _SAYS or isinstance(action, Wait | PressBack) or (odd == "scroll_back" and name):
            return thought(action, self.goal, name, self.rng)
        text = f'"{getattr(action, "content", "")}"'
        direction = getattr(action, "direction", "")
        return self.rng.choice(_SAYS[odd]).format(name=name, text=text, beside=f'"{beside}"', direction=direction)

    def reveal(self, key: str) -> ScreenElement:
        """Scroll until the element shows well. Raises `WorldError` if it doesn't."""
        for _ in range(14):
            # More than 70 % visible, or the centre may lie under a bar.
            found = next((e for e in self.world.page_elements() if e.key == key), None)
            if found is not None and found.visible_share > 0.7 and (place := self.world.place(found)):
                return place
            where = self.world.page.evaluate("key => oddFind(key)", key)
            if where is None:
                raise WorldError(f"the odd pages: no element {key!r} on this screen")
            down = where["bottom"] > where["viewBottom"] - 2
            if not down and where["top"] >= where["viewTop"]:
                break  # covered by a toast
            self.scroll("down" if down else "up")
        raise WorldError(f"the odd pages: {key!r} didn't come into view")

    def scroll(self, direction: str) -> None:
        words = self.rng.choice((f"Scroll {direction}", f"Scroll {direction} to see more", "Look further"))
        odd = self.kind if self.kind in SCROLLING else ""
        # A wheel needs no ends; a finger does, and where it starts is part of the step.
        if self.world.platform == "desktop":
            self.note(Scroll(direction=direction), words, odd=odd)
            return
        width, height = self.world.size_px
        x, low = width * self.rng.uniform(0.4, 0.7), height * self.rng.uniform(0.72, 0.8)
        ends = [point_to_unit(p, (width, height)) for p in ((x, low), (x, low - height * self.rng.uniform(0.4, 0.5)))]
        start, end = ends if direction == "down" else ends[::-1]
        self.note(Scroll(start, end, direction), words, odd=odd)

    def tap(self, do: Do) -> None:
        place = self.reveal(do.key)
        left, top, right, bottom = place.box
        x = int(left + (right - left) * self.rng.uniform(0.3, 0.7))
        y = int(top + (bottom - top) * self.rng.uniform(0.35, 0.65))
        verb = "Tap" if self.world.platform == "mobile" else "Click"
        name = place.name or place.text
        says = (f'{verb} "{name}"', f'{verb} on "{name}"', f'Press "{name}"')
        words = self.rng.choice(says) + (f' beside "{do.beside}"' if do.beside else "")
        self.note(Click((x, y)), words, place, do.odd, do.beside)

    def write(self, do: Do) -> None:
        self.reveal(do.key)
        # A field with the cursor needs no click, which would be another odd step.
        if not any(e.key == do.key and e.focused for e in self.world.page_elements()):
            self.tap(Do("tap", do.key))
        says = (f'Type "{do.text}"', f'Enter "{do.text}"', f'Write "{do.text}"')
        self.note(Type(do.text), self.rng.choice(says), self.reveal(do.key), do.odd)

    def back(self, do: Do) -> None:
        if self.world.platform == "mobile" and self.rng.random() < 0.6:
            self.note(PressBack(), "Go back to the previous screen", odd=do.odd)
        elif self.world.platform == "desktop" and self.rng.random() < 0.4:
            self.note(Hotkey(("alt", "left")), "Go back with the keyboard", odd=do.odd)
        else:
            self.tap(Do("tap", "back", odd=do.odd))

    def wait(self, do: Do) -> None:
        self.note(Wait(), "Wait for a moment", odd=do.odd or "wait")

    def bottom(self, do: Do) -> None:
        while not self.world.state()["ends"].get("main"):
            # A list that grows as one scrolls would never end.
            if len(self.moves) > 14:
                raise WorldError("the odd pages: the list has no end within 14 strokes")
            self.scroll("down")

    def top(self, do: Do) -> None:
        while self.world.page.evaluate("document.getElementById('view').scrollTop") > 0:
            self.scroll("up")

    def run(self, task: OddTask) -> None:
        """The plan, waiting wherever the page loads, then Finished. Raises `WorldError` where it can't be done."""
        for do in task.plan:
            getattr(self, do.verb)(do)
            # Loading takes ticks that only waiting gives.
            while self.world.state()["loading"]:
                self.wait(Do("wait"))
        self.note(Finished(), "The task is complete")
