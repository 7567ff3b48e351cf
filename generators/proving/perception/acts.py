"""Goals about a pasted screen as a navigation sample puts them: click this, type that into it, then click the next.

What was done stands in the history, and whoever has done all of it is finished. Screens don't answer, so a goal is
nothing but clicks on what shows, and words typed into a field that was clicked.
"""

from collections.abc import Sequence
from random import Random

from generators.proving.perception.screens import Pasted, PastedScreen
from generators.proving.perception.sheets import ROLES, TEXT_KINDS, SheetElement, names_of
from generators.proving.perception.vocabulary import WORDS
from pipelines.prompts import navigation_text, reply_text
from schemas.action_types import Click, Finished, Type
from schemas.actions import Action, render

PLATFORM = "web"
VERBS = ("click on", "click", "select", "press", "open", "choose", "find", "find and click", "go to", "tap")
WRITTEN = ('{verb} "{said}" into {target}', '{verb} "{said}" in {target}', "{verb} {said} into {target}")
WRITING = ("type", "enter", "write", "fill in")
"""How a goal asks for words in a field."""
QUOTED = (
    'the "{name}" {role}',
    '{role} "{name}"',
    '"{name}"',
    "{role} {name}",
    "{name}",
    "the {role} {name}",
    "the {name} {role}",
    'the {role} for "{name}"',
)
"""How a goal names what shows a text."""
NAMED = ("the {name}", "{name}", 'the "{name}"', "a {name}")
"""How it names anything else."""
ALSO_CALLED = {
    "text": ("text", "entry"),
    "field": ("text field", "field"),
    "checkbox": ("checkbox", "box"),
    "radio": ("radio button", "option"),
}
JOINED = (", then ", " and then ", ", ", " and ")
OPENED = ("Using the {word} website, ", "Open {word} and do this: ", "In {word}, ")
"""What may stand before a goal; the word shows nowhere."""
WITH_OPENING, SLIPPED, TYPED = 0.2, 0.2, 0.6
"""Shares of goals with an opening, of histories with a click on something else in them, and of fields to be filled."""


def phrase(drawn: SheetElement, rng: Random) -> str:
    """How a goal or a question may name an element."""
    if drawn.kind in TEXT_KINDS:
        role = rng.choice(ALSO_CALLED.get(drawn.kind, (ROLES[drawn.kind],)))
        return rng.choice(QUOTED).format(name=drawn.name, role=role)
    return rng.choice(NAMED).format(name=names_of(drawn)[0])


def goal(wishes: Sequence[tuple[SheetElement, str]], strangers: Sequence[SheetElement], rng: Random) -> str:
    """Elements to be clicked, in order, each with what is to be typed into it ("" for nothing); `strangers` are
    elements of which none is on the screen."""
    opening = rng.choice(OPENED).format(word=rng.choice(strangers).name) if rng.random() < WITH_OPENING else ""
    verb, before = rng.choice(VERBS), False
    said = ""
    for place, (drawn, typed) in enumerate(wishes):
        joint = rng.choice(JOINED) if place else ""
        if typed:
            written = rng.choice(WRITTEN).format(verb=rng.choice(WRITING), said=typed, target=phrase(drawn, rng))
            said, before = said + joint + written, False
        else:  # "click a, b and click c"
            again = "" if before and joint == ", " else f"{verb} "
            said, before = said + joint + again + phrase(drawn, rng), True
    whole = opening + said
    return f"{whole[0].upper()}{whole[1:]}."


def act(
    screen: PastedScreen, most: int, strangers: Sequence[SheetElement], rng: Random
) -> tuple[str, str, Pasted | None]:
    """(prompt, answer, element to be clicked now): a goal about up to `most` elements, and how far it has come.

    None for an element: there is something to type, or all is done. A click that missed stands in some histories; it
    counts for nothing.
    """
    targets = rng.sample(list(screen.elements), min(rng.randint(1, most), len(screen.elements)))
    wishes = [(one.drawn, _words(one.drawn, rng)) for one in targets]
    said = goal(wishes, strangers, rng)
    steps: list[tuple[Action, Pasted | None]] = []
    for one, (_, typed) in zip(targets, wishes, strict=True):
        steps.append((Click(screen.centre(one)), one))
        if typed:
            steps.append((Type(typed), None))
    done = rng.randint(0, len(steps))
    past = [action for action, _ in steps[:done]]
    others = [one for one in screen.elements if one not in targets]
    if others and rng.random() < SLIPPED:
        # Before a click only: a slip between a click on a field and its words would take the cursor away.
        slip = rng.choice([place for place in range(done + 1) if place == len(steps) or steps[place][1] is not None])
        past.insert(slip, Click(screen.centre(rng.choice(others))))
    history = [(number, render(action, PLATFORM)) for number, action in enumerate(past, 1)]
    now, asked = steps[done] if done < len(steps) else (Finished(), None)
    return navigation_text(said, history), reply_text(now, PLATFORM), asked


def _words(drawn: SheetElement, rng: Random) -> str:
    """What is to be typed into an element: one or two words or a number, into most fields; nothing into others."""
    if drawn.kind != "field" or rng.random() >= TYPED:
        return ""
    if rng.random() < 0.2:
        return str(rng.randrange(1000))
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 2)))
