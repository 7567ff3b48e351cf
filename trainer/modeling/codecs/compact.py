"""Short actions: their arguments without names and inner brackets (after AgentCPM-GUI's compact format).

    Click(box=(500,300))                          Click(500,300)
    Scroll(start=(1,2), end=(3,4))                Scroll(1,2,3,4)
    Scroll(direction='down')                      Scroll()down
    Type(content='so')                            Type('so')
    Hotkey(keys=['ctrl','c'])                     Hotkey('ctrl','c')

AgentCPM-GUI writes JSON without blanks; here the verb stays before its bracket, where losses look for it, and points
are numbers between brackets, as the loss of coordinates wants them.
"""

import re
from collections.abc import Callable

from schemas.action_types import POINTED, TEXTED
from trainer.modeling.codecs import ActionTexts

_N = r"(\d+)"
_POINT = rf"\({_N},{_N}\)"
_POINTS = "|".join(kind.__name__ for kind in POINTED)
_TEXTS = "|".join(kind.__name__ for kind in TEXTED)
_FORMS: tuple[tuple[str, str, str, str], ...] = (
    # long form, what it becomes, short form, what that becomes
    (rf"({_POINTS})\(box={_POINT}\)", r"\1(\2,\3)", rf"({_POINTS})\({_N},{_N}\)", r"\1(box=(\2,\3))"),
    (
        rf"(Drag|Scroll)\(start={_POINT}, end={_POINT}\)",
        r"\1(\2,\3,\4,\5)",
        rf"(Drag|Scroll)\({_N},{_N},{_N},{_N}\)",
        r"\1(start=(\2,\3), end=(\4,\5))",
    ),
    (
        rf"Scroll\(start={_POINT}, end={_POINT}, direction='(\w+)'\)",
        r"Scroll(\1,\2,\3,\4)\5",
        rf"Scroll\({_N},{_N},{_N},{_N}\)(\w+)",
        r"Scroll(start=(\1,\2), end=(\3,\4), direction='\5')",
    ),
    (r"Scroll\(direction='(\w+)'\)", r"Scroll()\1", r"Scroll\(\)(\w+)", r"Scroll(direction='\1')"),
    (rf"({_TEXTS})\(content='(.*)'\)", r"\1('\2')", rf"({_TEXTS})\('(.*)'\)", r"\1(content='\2')"),
    (r"Launch\(app='(.*)'\)", r"Launch('\1')", r"Launch\('(.*)'\)", r"Launch(app='\1')"),
    (r"Hotkey\(keys=\[(.*)\]\)", r"Hotkey(\1)", r"Hotkey\(('.*')\)", r"Hotkey(keys=[\1])"),
    (
        rf"SelectOption\(box={_POINT}, option='(.*)'\)",
        r"SelectOption(\1,\2)'\3'",
        rf"SelectOption\({_N},{_N}\)'(.*)'",
        r"SelectOption(box=(\1,\2), option='\3')",
    ),
)


def _by(place: int) -> Callable[[str], str | None]:
    """Rewrites a text by the first form whose pattern at `place` fits all of it."""
    patterns = [(re.compile(form[place], re.DOTALL), form[place + 1]) for form in _FORMS]

    def rewrite(text: str) -> str | None:
        fits = ((pattern.fullmatch(text), made) for pattern, made in patterns)
        return next((found.expand(made) for found, made in fits if found), None)

    return rewrite


COMPACT = ActionTexts(write=_by(0), read=_by(2))
