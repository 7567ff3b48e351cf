"""Scripted oracles for MiniWoB++ tasks: they read the page's elements and note every unified action they take."""

import re
from collections.abc import Callable, Iterable
from random import Random

from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import Move
from generators.tasks.world_interface import Observation
from generators.worlds.miniwob import goals
from generators.worlds.miniwob.goals import is_field, match, quoted
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.miniwob_world import MiniwobNode, MiniwobWorld
from schemas.action_types import Click, Finished, PressEnter, Scroll, Type
from schemas.actions import Action

THOUGHTFUL = 1 / 3
FIRST_PART = 0.09
"""Where day or hour stand in a date or time field, from left to right."""
NAMES = ("Bettina", "Conrad", "Delphine", "Emilio", "Fabienne", "Gregor", "Hilda", "Ivo", "Jolanda", "Kilian")
Test = Callable[[MiniwobNode], bool]


class Solver:
    """Carries out a task, writing down screen and move before each action, and which entities could be others."""

    def __init__(self, world: MiniwobWorld, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.goal, self.fields = world.utterance()
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []
        self.changed: list[str] = []

    def do(self, action: Action, words: str, node: MiniwobNode | None = None) -> None:
        """Note the screen and the move, then act."""
        place = node.place if node else None
        name = (place.name or place.text)[:40] if place else ""
        says = thought(action, self.goal, name, self.rng) if self.thoughtful else ""
        # Before the action: the trace pairs a move with the screen that it was decided on.
        self.shots.append(self.world.observe())
        self.moves.append(Move(action, words, place.key if place else "", place.box if place else None, says))
        self.world.act(action)

    def finish(self) -> None:
        self.do(Finished(), "The task is complete")

    def all(self, test: Test) -> list[MiniwobNode]:
        return [node for node in self.world.nodes() if test(node)]

    def hunt(self, test: Test, what: str, strokes: int = 12, over: MiniwobNode | None = None) -> MiniwobNode:
        """The first such element, scrolling down for it, `over` an element if one is given (the page itself need not
        scroll there). Raises `OracleMiss` where there is none."""
        for stroke in range(strokes):
            if found := self.all(test):
                return found[0]
            if stroke + 1 < strokes:
                # Of every element: which of them scrolls depends on the task, and
                # what a stroke moves isn't always the page.
                before = self.world.page.evaluate("[...document.querySelectorAll('*')].map((n) => n.scrollTop).join()")
                words = self.rng.choice(("Scroll down", "Scroll down to see more", "Look further down"))
                self.do(_stroke(over), words, over)
                after = self.world.page.evaluate("[...document.querySelectorAll('*')].map((n) => n.scrollTop).join()")
                if before == after:  # the end: this stroke moved nothing
                    break
        raise OracleMiss(f"{self.goal!r}: no {what} on the page")

    def click(self, node: MiniwobNode, words: str = "", across: float | None = None) -> None:
        """`across`: where on the element from left to right, 0..1 (somewhere in the middle unless told)."""
        left, top, right, bottom = node.place.box
        across = self.rng.uniform(0.3, 0.7) if across is None else across
        point = (int(left + (right - left) * across), int(top + (bottom - top) * self.rng.uniform(0.35, 0.65)))
        name = (node.place.name or node.place.text)[:40]
        # Names are cut: a label can be a whole paragraph, which no one would say.
        says = (f'Click "{name}"', f'Click on "{name}"', f'Press "{name}"')
        self.do(Click(point), words or self.rng.choice(says), node)

    def write(self, node: MiniwobNode, text: str, across: float | None = None) -> None:
        """Click the field, then type."""
        self.click(node, across=across)
        self.type(text, node)

    def type(self, text: str, node: MiniwobNode) -> None:
        says = (f'Type "{text}"', f'Enter "{text}"', f'Write "{text}"')
        # Seen anew: the click may have moved or refilled the field.
        now = next((n for n in self.world.nodes() if n.place.key == node.place.key), node)
        self.do(Type(text), self.rng.choice(says), now)

    def press(self, label: str) -> None:
        """Click the button of this label (any case)."""
        wanted = label.strip().lower()
        self.click(self.hunt(lambda n: n.place.clickable and n.text.strip().lower() == wanted, f"button {label!r}"))

    def could_be(self, true: str, others: Iterable[str]) -> None:
        """Goals in which the one mention of `true` is another value. The page rewards the true value alone: the others
        differ from it in more than case and blanks."""
        # Where it is mentioned twice, replacing both could break the
        # sentence, and replacing one contradicts it.
        if self.goal.count(true) != 1:
            return
        for other in dict.fromkeys(others):
            if other.strip() and other.strip().lower() != true.strip().lower():
                self.changed.append(self.goal.replace(true, other))


# --- helpers ----------------------------------------------------------------------------------------------------------
def _stroke(over: MiniwobNode | None) -> Scroll:
    """Down the page, or down what an element holds."""
    if over is None:
        return Scroll(direction="down")
    left, top, right, bottom = over.place.box
    # From 80 % to 20 % of the element, so that the finger stays within it whatever its size.
    x, low, high = ((left + right) / 2, top + 0.8 * (bottom - top), top + 0.2 * (bottom - top))
    return Scroll((int(x), int(low)), (int(x), int(high)), "down")


def texts(nodes: Iterable[MiniwobNode]) -> list[str]:
    return [node.text for node in nodes if node.text]


def ordinal(number: int) -> str:
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number, 'th')}"


def ordinals(count: int) -> list[str]:
    return [ordinal(number + 1) for number in range(count)]


# --- one or two clicks ------------------------------------------------------------------------------------------------
def button(s: Solver) -> None:
    label = quoted(s.goal)[0]
    s.could_be(f'"{label}"', (f'"{text}"' for text in texts(s.all(lambda n: n.place.role == "button"))))
    s.press(label)


def dialog(s: Solver) -> None:
    label = quoted(s.goal)[0]
    buttons = s.all(lambda n: n.tag == "button")
    s.could_be(f'"{label}"', (f'"{text}"' for text in texts(buttons) if text != "Close"))
    if label == "x":
        s.click(next((n for n in buttons if n.has("ui-dialog-titlebar-close")), buttons[0]))
    else:
        s.press(label)


def link(s: Solver) -> None:
    word = quoted(s.goal)[0]
    s.could_be(f'"{word}"', (f'"{text}"' for text in texts(s.all(lambda n: n.has("alink")))))
    s.click(s.hunt(lambda n: n.has("alink") and n.text == word, f"link {word!r}"))


def named_button(s: Solver) -> None:
    label = s.goal.rstrip(".").rpartition(" ")[2]
    s.could_be(label, texts(s.all(lambda n: n.place.role == "button")))
    s.press(label)


def sequence(s: Solver) -> None:
    s.press("ONE")
    s.press("TWO")


def tab(s: Solver) -> None:
    number = match(goals.TAB, s.goal)[1]
    tabs = s.all(lambda n: n.tag == "a" and n.text.startswith("Tab #"))
    s.could_be(f"Tab #{number}", texts(tabs))
    s.click(next(n for n in tabs if n.text == f"Tab #{number}"))


def focus(s: Solver) -> None:
    which = match(r"\d(st|nd|rd|th)", s.goal)[0]
    fields = s.all(is_field)
    s.could_be(which, ordinals(len(fields)))
    s.click(fields[int(which[0]) - 1], f"Click into the {which} field")


def widget(s: Solver) -> None:
    kind = quoted(s.goal)[0]

    def is_kind(node: MiniwobNode, wanted: str) -> bool:
        tag = {"textarea": "textarea", "button": "button"}.get(wanted, "input")
        role = {"radio": "radio", "checkbox": "checkbox", "button": "button"}.get(wanted, "textbox")
        return node.tag == tag and node.place.role == role

    kinds = ("radio", "checkbox", "text", "textarea", "button")
    here = [other for other in kinds if s.all(lambda n, o=other: is_kind(n, o))]  # type: ignore[misc]
    s.could_be(f'"{kind}"', (f'"{other}"' for other in here))
    s.click(s.hunt(lambda n: is_kind(n, kind), f"{kind} widget"))


# --- boxes, lists, spinners -------------------------------------------------------------------------------------------
def boxes(s: Solver) -> None:
    words = match(goals.BOXES, s.goal)[1]
    wanted = [] if words == "nothing" else words.split(", ")
    labels = [n.place.name for n in s.all(lambda n: n.place.role in ("checkbox", "radio"))]
    others = [label for label in labels if label not in wanted]
    # Two boxes of one name leave open which is meant, and the reward knows only one.
    for word in wanted:
        if sum(label == word for label in labels) > 1:
            raise OracleMiss(f"{s.goal!r}: two boxes are called {word!r}")
    if wanted and others:
        # One entity at a time: a near miss differs in a single word.
        true = s.rng.choice(wanted)
        for other in s.rng.sample(others, min(4, len(others))):
            changed = [other if word == true else word for word in wanted]
            s.changed.append(s.goal.replace(words, ", ".join(changed), 1))
    for word in wanted:
        s.click(s.hunt(lambda n, w=word: n.place.role in ("checkbox", "radio") and n.place.name == w, f"box {word!r}"))  # type: ignore[misc]
    s.press("Submit")


def choose(s: Solver, value: str, select: MiniwobNode) -> None:
    """A choice from a closed list: the mouse opens it, the keyboard goes to the entry."""
    s.click(select, "Open the list")
    s.type(value, select)
    s.do(PressEnter(), "Press enter to choose it")


def option_words(s: Solver) -> list[str]:
    found: list[str] = s.world.page.evaluate("[...document.querySelectorAll('#area option')].map((o) => o.textContent)")
    return found


def choose_list(s: Solver) -> None:
    value = match(goals.ENTRY, s.goal)[1]
    s.could_be(value, option_words(s))
    select = s.hunt(lambda n: n.tag == "select", "list")
    # An entry that is chosen already needs no action; opening the list would be an odd step.
    if select.text != value:
        choose(s, value, select)
    s.press("Submit")


def scroll_list(s: Solver) -> None:
    value = match(r"Select (.*) from the scroll list", s.goal)[1]
    if ", " in value:
        raise OracleMiss(f"{s.goal!r}: several entries need a key held down")
    s.could_be(value, option_words(s))
    entries = s.hunt(lambda n: n.tag == "select", "list")
    s.click(s.hunt(lambda n: n.tag == "option" and n.text == value, f"entry {value!r}", over=entries))
    s.press("Submit")


def spinner(s: Solver) -> None:
    number = int(match(r"Select (-?\d+) with", s.goal)[1])
    s.could_be(f"Select {number} ", (f"Select {number + by} " for by in (-2, -1, 1, 3)))
    arrow = "ui-spinner-up" if number > 0 else "ui-spinner-down"
    for _ in range(abs(number)):
        s.click(s.hunt(lambda n: n.has(arrow), "arrow"), f"Click the {'upper' if number > 0 else 'lower'} arrow")
    s.press("Submit")


def form_two(s: Solver) -> None:
    found = match(goals.FORM_TWO, s.goal)
    s.could_be(f"{ordinal(int(found[1]))} radio", (f"{word} radio" for word in ordinals(3)))
    s.could_be(f'"{found[2]}"', (f'"{int(found[2]) + by}"' for by in (-1, 1, 10)))
    s.could_be(f"{ordinal(int(found[3]))} textbox", (f"{word} textbox" for word in ordinals(3)))
    s.click(
        s.all(lambda n: n.place.role == "radio")[int(found[1]) - 1], f"Choose the {ordinal(int(found[1]))} radio button"
    )
    s.write(s.all(is_field)[int(found[3]) - 1], found[2])
    s.press("Submit")


# --- typing -----------------------------------------------------------------------------------------------------------
def enter_text(s: Solver) -> None:
    text = typed = quoted(s.goal)[0]
    if "upper case" in s.goal or "lower case" in s.goal:
        upper = "upper case" in s.goal
        typed = text.upper() if upper else text.lower()
        if text.upper() != text.lower():
            s.could_be("upper" if upper else "lower", ["lower" if upper else "upper"])
    s.could_be(f'"{text}"', (f'"{name}"' for name in s.rng.sample(NAMES, 3)))
    s.write(s.hunt(is_field, "field"), typed)
    s.press("Submit")


def read_table(s: Solver) -> None:
    key = match(goals.CELL, s.goal)[1]
    cells = texts(s.all(lambda n: n.tag == "td"))
    # Names and values stand in turn in the cells of a row.
    table = dict(zip(cells[::2], cells[1::2], strict=False))
    if key not in table:
        raise OracleMiss(f"{s.goal!r}: {key!r} isn't in the table")
    # Not those of an equal value: their goal would be reached as well.
    s.could_be(key, (other for other in table if table[other] != table[key]))
    s.write(s.hunt(is_field, "field"), table[key])
    s.press("Submit")


def arithmetic(s: Solver) -> None:
    problem = s.hunt(lambda n: n.element_id == "math-problem", "problem").text
    a, sign, b = match(r"(\d+) ([-+x]) (\d+)", problem).groups()
    answer = {"+": int(a) + int(b), "-": int(a) - int(b), "x": int(a) * int(b)}[sign]
    s.write(s.hunt(is_field, "field"), str(answer))
    s.press("Submit")


def date(s: Solver) -> None:
    month, day, year = match(r"(\d\d)/(\d\d)/(\d{4})", s.goal).groups()
    # Day 29 and later are avoided, which not every month has.
    other = f"{int(day) % 28 + 1:02}"
    changed = (f"{month}/{other}/{year}", f"{int(month) % 12 + 1:02}/{day}/{year}", f"{month}/{day}/{int(year) + 1}")
    s.could_be(f"{month}/{day}/{year}", changed)
    s.write(s.hunt(is_field, "field"), f"{month}/{day}/{year}", FIRST_PART)  # as Chromium's own language reads it
    s.press("Submit")


def time(s: Solver) -> None:
    hour, minute = match(r"(\d?\d):(\d\d)", s.goal).groups()
    half = "AM" if int(hour) < 12 else "PM"
    s.could_be(f"{hour}:{minute}", (f"{hour}:{(int(minute) + by) % 60:02}" for by in (1, 10, 30)))
    # Chromium's time field takes twelve hours with AM or PM, while goals write 24 hours or either.
    s.write(s.hunt(is_field, "field"), f"{(int(hour) + 11) % 12 + 1:02}:{minute}{half}", FIRST_PART)
    s.press("Submit")


def autocomplete(s: Solver) -> None:
    start, *end = quoted(s.goal)
    field = s.hunt(is_field, "field")
    s.write(field, start)
    items: list[str] = s.world.page.evaluate(
        "[...document.querySelectorAll('.ui-menu-item')].map((n) => n.textContent)"
    )
    good = [item for item in items if item.startswith(start) and (not end or item.endswith(end[0]))]
    if not good:
        raise OracleMiss(f"{s.goal!r}: nothing fits among {len(items)} items")
    # Alternatives are beginnings and ends of other countries, which the chosen one doesn't have.
    others = [item for item in items if item not in good]
    s.could_be(f'"{start}"', (f'"{other}"' for other in ("Ger", "Ital", "Nor", "Bel") if not good[0].startswith(other)))
    if end:
        s.could_be(f'ends with "{end[0]}"', (f'ends with "{i[-3:]}"' for i in others if not good[0].endswith(i[-3:])))
    if not s.all(lambda n: n.text == good[0]):
        s.type(good[0][len(start) :], field)
    s.click(s.hunt(lambda n: n.text == good[0] and n.place.clickable and not is_field(n), f"suggestion {good[0]!r}"))
    s.press("Submit")


def login(s: Solver) -> None:
    user, password, *_ = quoted(s.goal)
    s.could_be(f'"{user}"', (f'"{name.lower()}"' for name in s.rng.sample(NAMES, 3)))
    s.could_be(f'"{password}"', (f'"{password[::-1]}"', f'"{password}7"', f'"{password[1:]}K"'))
    for field, word in (("username", user), ("password", password)):
        # A popup may take the cursor away once it is closed, so a field may need more than one click.
        for _ in range(3):
            if any(n.focused and n.element_id == field for n in s.world.nodes()):
                break
            s.click(s.hunt(lambda n, f=field: n.element_id == f, f"field {field}"))  # type: ignore[misc]
            if cancel := s.all(lambda n: n.element_id == "popup-cancel"):
                s.click(cancel[0])
        s.type(word, s.hunt(lambda n, f=field: n.element_id == f, f"field {field}"))  # type: ignore[misc]
    s.click(s.hunt(lambda n: n.element_id == "subbtn", "button"))


def password_twice(s: Solver) -> None:
    word = quoted(s.goal)[0]
    s.could_be(f'"{word}"', (f'"{word[::-1]}"', f'"{word}7"', f'"{word[1:]}K"'))
    for field in s.all(is_field)[:2]:
        s.write(field, word)
    s.press("Submit")


def movies(s: Solver) -> None:
    """Three fields in any order, each with a label before or after it in its row."""
    found = match(r"Search for (.+) movies directed by (.+) from year (\d+)", s.goal)
    genre, director, year = found.groups()
    s.could_be(f"from year {year}", (f"from year {int(year) + by}" for by in (-3, 1, 10)))
    s.could_be(f"directed by {director} ", (f"directed by {name} " for name in s.rng.sample(NAMES, 2)))
    fields = s.all(is_field)
    for word, value in (("Genre", genre), ("Director", director), ("Year|Date", year)):
        field = next((n for n in fields if re.search(word, n.whole)), None)
        if field is None:
            raise OracleMiss(f"{s.goal!r}: no field for {word}")
        s.write(field, value)
    s.click(s.hunt(lambda n: n.place.clickable and n.text in ("Submit", "Search", "Go!", "Go", "Find"), "button"))
