"""Rico-like still screens: our phone pages in random states, with what annotators would write about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from generators.devices.browser import RICO
from generators.worlds.pages.own_pages import APPS, OwnPages, PageElement, open_pages
from generators.worlds.pages.recording import split_of
from schemas.coordinates import centre

SCREEN_SEED = 9_000_000


@dataclass(frozen=True)
class StillScreen:
    """One phone screen; boxes in CSS pixels of 360 x 640, the picture 1.5 times that (a JPEG, or None)."""

    number: int
    app: str
    view: str
    split: str
    elements: tuple[PageElement, ...]
    picture: bytes | None


def render(world: OwnPages, number: int, split: str, picture: bool) -> StillScreen:
    """Screen `number`: an app of its own seed, after up to two random taps and perhaps a scroll."""
    rng = Random(f"still/{number}")
    app = APPS[number % len(APPS)]
    # Launchers are rare in Rico, too.
    home = rng.random() < 0.04
    world.start(app, SCREEN_SEED + number, home=home, cart=rng.random() < 0.5)
    if not home:
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            options = [e for e in world.elements() if e.clickable and e.key and not e.system and not e.editable]
            if not options:
                break
            x, y = rng.choice(options).centre
            world.page.mouse.click(int(x), int(y))
            # Some screens are caught while they load.
            if rng.random() < 0.9:
                world.page.evaluate("vesperTick()")
        if rng.random() < 0.35:
            world.page.evaluate("([a, b, c, d]) => vesperSwipe(a, b, c, d)", [180, 480, 180, rng.randint(200, 420)])
        world.page.mouse.move(0, 0)
    shot = world.screenshot(jpeg_quality=88) if picture else None
    return StillScreen(number, app, world.state()["view"], split, tuple(world.elements()), shot)


_rendered: dict[int, list[StillScreen]] = {}  # four sources annotate the same screens: one process renders them once


# Four sources share the screens; the pictures are rendered only if one needs them.
def render_all(count: int, *, pictures: bool) -> list[StillScreen]:
    """`count` screens, numbers 10000 on, the last 15 % test, the 10 % before them validation.

    Without `pictures` they may be there or not; the elements are the same.
    """
    known = _rendered.get(count)
    if known is None or (pictures and known[0].picture is None):
        with open_pages("phone", RICO) as world:
            known = [render(world, 10_000 + i, split_of(i, count), pictures) for i in range(count)]
        _rendered[count] = known
    return known


def picture_box(box: Sequence[float]) -> list[float]:
    """A box of CSS pixels in pixels of the picture."""
    return [side * RICO.scale for side in box]


# --- what people would say about an element ---------------------------------------------------------------------------
def nameable(screen: StillScreen) -> list[tuple[int, PageElement]]:
    """(index, element) of what can be named without doubt: one element of that name on the screen."""
    names: dict[str, int] = {}
    for e in screen.elements:
        if e.clickable:
            names[e.name.lower()] = names.get(e.name.lower(), 0) + 1
    return [
        # In the status bar, which is always first.
        (i, e)
        for i, e in enumerate(screen.elements)
        if e.clickable and not e.system and e.name and names[e.name.lower()] == 1
    ]


EXPRESSIONS = {
    "textbox": ("click on the {name} field", "select the input for {name}", "{name} text box"),
    "switch": ("toggle {name}", "switch for {name}", "click the switch of {name}"),
    "checkbox": ("check box for {name}", "tick {name}", "select the box of {name}"),
    "radio": ("select {name}", "choose the option {name}", "click on {name}"),
    "slider": ("{name} slider", "the bar that sets {name}", "adjust {name}"),
    "tab": ("go to the {name} tab", "click on {name} tab", "select {name} at the tabs"),
    "icon": ("click on the {name} icon", "select the icon for {name}", "{name} icon {where}"),
    "": ("click on {name}", "select {name} {where}", "click the option {name}"),
}


def where(box: Sequence[float]) -> str:
    """Where on the screen, in words."""
    middle = centre(box)
    x, y = middle[0] / RICO.width, middle[1] / RICO.height
    across = "left" if x < 0.35 else "right" if x > 0.65 else "middle"
    return f"at the {'top' if y < 0.35 else 'bottom' if y > 0.65 else 'centre'} {across}"


def expression(element: PageElement, template: int) -> str:
    """A referring expression for the element, in one of three forms."""
    kind = "icon" if element.icon and not element.text and element.role == "button" else element.role
    options = EXPRESSIONS.get(kind, EXPRESSIONS[""])
    return options[template % len(options)].format(name=element.name.lower(), where=where(element.box))


@dataclass(frozen=True)
class ScreenQuestion:
    """A question about a screen with its short answer, a full one, and the elements that show it (indices)."""

    text: str
    paraphrase: str
    answer: str
    full: tuple[str, ...]
    shown: tuple[int, ...]


def questions(screen: StillScreen, rng: Random) -> list[ScreenQuestion]:
    """What can be asked of this screen; each answer is read from its elements, or is not there (no elements)."""
    found: list[ScreenQuestion] = []

    def ask(text: str, other: str, answer: str, sentence: str, *shown: int) -> None:
        found.append(ScreenQuestion(text, other, answer, (sentence, answer), shown))

    for i, e in enumerate(screen.elements):
        if e.role == "heading" and e.tag == "h1":
            ask(
                "What is the title of the screen?",
                "What does the heading say?",
                e.text,
                f'The title of the screen is "{e.text}".',
                i,
            )
        elif e.role == "switch":
            state = "on" if e.checked else "off"
            ask(
                f"What is the status of {e.name}?",
                f"Is {e.name} on or off?",
                state,
                f'The status of "{e.name}" is "{state}".',
                i,
            )
        elif e.role == "checkbox" and not e.icon:
            state = "checked" if e.checked else "unchecked"
            ask(
                f"Is {e.name} checked?",
                f"What is the state of the box for {e.name}?",
                state,
                f'"{e.name}" is {state}.',
                i,
            )
        elif e.role == "text" and e.text.endswith("%") and " " in e.text:
            name, _, value = e.text.rpartition(" ")
            ask(f"What is the value of {name}?", f"How high is {name}?", value, f"The value of {name} is {value}.", i)
        elif e.role == "text" and e.text.startswith("$") and e.parent >= 0:
            name = screen.elements[e.parent].name
            if name and screen.elements[e.parent].role == "listitem":
                ask(
                    f"What is the price of the {name}?",
                    f"How much does the {name} cost?",
                    e.text,
                    f"The price of the {name} is {e.text}.",
                    i,
                )
        elif e.role == "text" and e.text.startswith(("Phone ", "City ", "From ")):
            word, _, value = e.text.partition(" ")
            thing = {"Phone": "phone number", "City": "city", "From": "sender"}[word]
            ask(f"What is the {thing}?", f"Which {thing} is given?", value, f"The {thing} is {value}.", i)
        elif e.role == "text" and e.parent >= 0 and screen.app == "mail" and "sub" in e.classes:
            parent = screen.elements[e.parent]
            sender = parent.name.removesuffix(e.text).strip()
            ask(
                f"What is the subject of the message from {sender}?",
                f"What did {sender} write about?",
                e.text,
                f'The subject is "{e.text}".',
                i,
            )
        elif e.role == "textbox" and e.value:
            ask(
                f"What is entered in the {e.name} field?",
                f"What stands in the field {e.name}?",
                e.value,
                f'"{e.value}" is entered.',
                i,
            )
    for i, e in enumerate(screen.elements[:2]):
        if ":" in e.text and e.tag == "span":
            ask("What time is it on the phone?", "Which time does the status bar show?", e.text, f"It is {e.text}.", i)
    # Something that none of our pages shows.
    absent = rng.choice(("exchange rate", "flight number", "weather forecast", "room temperature"))
    ask(f"What is the {absent}?", f"Which {absent} is shown?", "<no answer>", "There is no answer on the screen.")
    return found
