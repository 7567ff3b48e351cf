"""What people say about steps and goals on web pages, and what they type; every choice is the recorder's seed's."""

from random import Random

from generators.proving.judge_bench.recorders.thoughts import thought
from schemas.action_types import Hotkey, Hover, PressEnter
from schemas.actions import Action

CLICK = {
    "link": ('Click the link "{name}"', 'Follow "{name}"', 'Click on "{name}"'),
    "tab": ('Open the tab "{name}"', 'Switch to the "{name}" tab', 'Click the tab "{name}"'),
    "field": ('Click into the field "{name}"', 'Put the cursor in "{name}"', 'Select the "{name}" field'),
    "checkbox": ('Click the box "{name}"', 'Click the checkbox "{name}"', 'Toggle "{name}"'),
    "switch": ('Flip the switch "{name}"', 'Toggle the switch "{name}"', 'Click the switch "{name}"'),
    "radio": ('Choose "{name}"', 'Select the option "{name}"', 'Pick "{name}"'),
    "menu": ('Open the "{name}" menu', 'Click "{name}" to open its menu', 'Unfold "{name}"'),
    "entry": ('Choose "{name}" from the menu', 'Click "{name}" in the menu', 'Pick the entry "{name}"'),
    "": ('Click "{name}"', 'Click the button "{name}"', 'Press "{name}"'),
}
TYPE = ('Type "{text}"', 'Enter "{text}" in the field', 'Write "{text}"')
SCROLL = ("Scroll {direction} to see more", "Scroll {direction}", "Look further {direction} the page")
HOVER = ('Move the pointer over "{name}"', 'Hover over "{name}"', 'Rest the pointer on "{name}"')
CLEAR = ("Select all text in the field", "Mark what stands in the field", "Select the old text with the keyboard")
ENTER = ("Press Enter", "Confirm with the Enter key", "Send it with Enter")
DONE = ("The task is complete", "Everything is done", "Finish the task")
JOIN = ("{one}, then {two}", "{one}; after that {two}", "{one} and then {two}")

_THOUGHTS: dict[type, tuple[str, ...]] = {
    Hover: (
        "The tooltip of {name} shows when the pointer rests on it, so I hover over it.",
        "I move the pointer over {name} to see its hint.",
    ),
    Hotkey: (
        "The field holds old text; I select all of it with the keyboard to replace it.",
        "Before I type I mark what stands there with Ctrl+A.",
    ),
    PressEnter: ("The text is complete, so I press Enter to send it.", "I confirm the entry with the Enter key."),
}

_FIRST = ("Ada", "Bruno", "Clara", "David", "Elena", "Farid", "Grete", "Hugo", "Ines", "Jonas", "Karin", "Liam")
_LAST = ("Arnold", "Berger", "Costa", "Dietrich", "Engel", "Fischer", "Garcia", "Hansen", "Ito", "Jansen", "Keller")
_STREET = ("Oak Street", "Mill Lane", "Station Road", "Park Avenue", "Hill Way", "River Close", "Church Square")
_CITY = ("Bremen", "Porto", "Leeds", "Lyon", "Turin", "Gdansk", "Malmo", "Ghent", "Cork", "Basel")
_PLAIN = (
    "spring catalogue",
    "garden plan",
    "weekly report",
    "blue lamp",
    "travel budget",
    "team outing",
    "new shelf",
    "quarter review",
    "paper order",
    "open house",
    "winter tyres",
    "music evening",
)


def thinks(action: Action, goal: str, name: str, rng: Random) -> str:
    """A thought that names the action and its reason."""
    for kind, phrases in _THOUGHTS.items():
        if isinstance(action, kind):
            return rng.choice(phrases).format(name=f'"{name}"')
    return thought(action, goal, name, rng)


def text_for(caption: str, kind: str, rng: Random) -> str:
    """Something to type that suits a field by its caption and input type."""
    words = caption.lower()
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    # From the narrowest kind to the widest: "email address" is no street, and "name" stands in many captions.
    if kind == "number" or any(word in words for word in ("zip", "postal", "amount", "quantity", "number of")):
        return str(rng.randint(11, 989))
    if kind == "email" or "mail" in words:
        return f"{first}.{last}@example.org".lower()
    if kind == "password" or "password" in words:
        return f"{last}-{rng.randint(100, 999)}"
    if kind == "tel" or "phone" in words:
        return f"0{rng.randint(20, 79)} {rng.randint(100000, 999999)}"
    if kind == "url" or "website" in words or "url" in words:
        return f"https://{last}.example.org".lower()
    if "address" in words or "street" in words:
        return f"{rng.randint(2, 98)} {rng.choice(_STREET)}"
    if "city" in words:
        return rng.choice(_CITY)
    if "first" in words:
        return first
    if "last" in words or "surname" in words:
        return last
    if "name" in words:
        return f"{first} {last}"
    return rng.choice(_PLAIN)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def joined(parts: list[str], way: int) -> str:
    """Imperatives as one sentence; `way` chooses among three forms."""
    text, way = parts[0], way % len(JOIN)
    for part in parts[1:]:
        text = JOIN[way].format(one=text, two=part)
    return capital(f"first {text}" if way == 1 and len(parts) > 1 else text) + "."
