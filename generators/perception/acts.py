"""Goals about a pasted screen as a navigation sample puts them: click this, then that.

What was done stands in the history, and whoever has done all of it is finished. Screens don't answer, so a goal is
nothing but clicks on what shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from generators.perception.screens import Pasted, PastedScreen
from generators.perception.sheets import ROLES, TEXT_KINDS, Drawn, names_of
from pipelines.prompts import navigation_text, reply_text
from schemas.action_types import Click, Finished
from schemas.actions import Action, render

PLATFORM = "web"
VERBS = ("click on", "click", "select", "press", "open", "choose", "find", "find and click", "go to", "tap")
QUOTED = ('the "{name}" {role}', '{role} "{name}"', '"{name}"', "{role} {name}", "{name}", "the {role} {name}")
"""How a goal names what shows a text."""
NAMED = ("the {name}", "{name}", 'the "{name}"', "a {name}")
"""How it names anything else."""
JOINED = (", then {verb} ", " and then {verb} ", ", ", " and {verb} ")
OPENED = ("Using the {word} website, ", "Open {word} and do this: ", "In {word}, ")
"""What may stand before a goal; the word shows nowhere."""
WITH_OPENING, SLIPPED = 0.2, 0.2
"""Shares of goals with an opening, and of histories with a click on something else in them."""


def phrase(drawn: Drawn, rng: Random) -> str:
    """How a goal or a question may name an element."""
    if drawn.kind in TEXT_KINDS:
        return rng.choice(QUOTED).format(name=drawn.name, role=ROLES[drawn.kind])
    return rng.choice(NAMED).format(name=names_of(drawn)[0])


def goal(targets: Sequence[Drawn], strangers: Sequence[Drawn], rng: Random) -> str:
    """Clicks on the targets, in order; `strangers` are elements of which none is on the screen."""
    words = [rng.choice(OPENED).format(word=rng.choice(strangers).name)] if rng.random() < WITH_OPENING else []
    verb = rng.choice(VERBS)
    for place, drawn in enumerate(targets):
        joint = rng.choice(JOINED).format(verb=verb) if place else f"{verb} "
        words += [joint, phrase(drawn, rng)]
    said = "".join(words)
    return f"{said[0].upper()}{said[1:]}."


def act(screen: PastedScreen, most: int, strangers: Sequence[Drawn], rng: Random) -> tuple[str, str, Pasted | None]:
    """(prompt, answer, element to be clicked now): a goal of up to `most` clicks, and how far it has come.

    None for an element: all is done. A click that missed stands in some histories; it counts for nothing.
    """
    targets = rng.sample(list(screen.elements), min(rng.randint(1, most), len(screen.elements)))
    said = goal([one.drawn for one in targets], strangers, rng)
    done = rng.randint(0, len(targets))
    past: list[Action] = [Click(screen.centre(one)) for one in targets[:done]]
    others = [one for one in screen.elements if one not in targets]
    if others and rng.random() < SLIPPED:
        past.insert(rng.randint(0, len(past)), Click(screen.centre(rng.choice(others))))
    history = [(number, render(action, PLATFORM)) for number, action in enumerate(past, 1)]
    if done == len(targets):
        return navigation_text(said, history), reply_text(Finished(), PLATFORM), None
    return navigation_text(said, history), reply_text(Click(screen.centre(targets[done])), PLATFORM), targets[done]
