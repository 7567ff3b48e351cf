"""Whether a step does something that can't be taken back: delete, pay, send, share, permit, sign, overwrite.

Read from what is clicked, from the rest of the screen and from the goal, by words in eight languages
(`consequence_words.json`). A control that says what it does is enough ("Delete project"); one that only confirms
("Yes", "Continue"), or that is a dialog's only way on beside "Cancel", is read with the screen's own texts, and where
these say nothing, with the goal. What it can't see: icons without a name, other languages, keys (Enter sends in many
programs), and what a page does without saying so.
Whether the user has agreed is another question; so is whether the step is wise.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from quality.evidence.consequence_kinds import KINDS, Kind
from quality.evidence.consequence_words import (
    AGREES,
    AMOUNT,
    ASKS,
    CHOICES,
    CONFIRM,
    EMPTIES,
    EXACT,
    EXPENDABLE,
    GOES_ON,
    HARMLESS,
    HARMLESS_FIRST,
    HEADS,
    LABEL,
    LEADS,
    NAMED,
    NOUNS,
    PICKS,
    PURPOSE,
    REFUSE,
    REPORTS,
    SAVES,
    SWITCHES,
    TRASH,
    VERB_ENDING,
)
from quality.evidence.steps import CONTAINER_SHARE, TEXT_ROLES
from quality.items.item import Episode
from quality.items.screens import Box
from schemas.action_types import Click, DoubleClick, Hotkey, SelectOption
from schemas.actions import Action

MOST_WORDS = 5
"""A control's label; anything longer is content (a message, a title) that happens to be clickable."""
MOST_CHARACTERS = 40
MOST_ORDER = 1.6
"""How much longer a label may be that begins or ends with what it orders: "Nur während der App-Nutzung zulassen"."""
NEAR = 120.0
"""Controls of one dialog stand so close, top to top; what lies behind it rarely does."""
_SWITCH = re.compile(r"switch|toggle|checkbox", re.I)
_FIELD = re.compile(r"textbox|edittext|textfield|searchbox|combobox|tab$|heading", re.I)
_ROW = re.compile(r"link|row|listitem|option", re.I)
"""Entries of lists, and links: a title may hold any word."""
_NAMES = re.compile(r"title|name|place|search|label", re.I)
"""Fields whose old text says nothing that the new one doesn't replace on purpose."""
_IDENTIFIER = re.compile(r"(?:[\w.]+:id/)?[\w-]+", re.ASCII)
_WORD_BORDER = re.compile(r"[_-]+|(?<=[a-z])(?=[A-Z])")
_PLUMBING = re.compile(
    r"\b(ic|btn|button|icon|img|image|fab|fa|glyphicon|mdi|action|menu|outlined?|round(ed)?)\b|\d+dp", re.I
)
"""Parts of a control's identifier that say what it is, not what it does."""


class Seen(Protocol):
    """An element of a screen, of a table or of a world: `box` in 0..1000."""

    @property
    def box(self) -> Box: ...
    @property
    def role(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a step would do, which text says so, and where that stands."""

    kind: Kind
    words: str
    where: Literal["control", "screen", "goal"]


def names(kind: Kind, text: str) -> bool:
    """Whether a sentence names a consequence of this kind, in any of the languages."""
    return NAMED[kind].search(text) is not None


def consequence(
    action: Action | None, elements: Sequence[Seen], goal: str, earlier: Sequence[str] = ()
) -> Consequence | None:
    """What an action on a screen would do; None where nothing says that it does anything of these kinds. `earlier`:
    labels of what was clicked before it in the episode, and "clear" for a text selected whole."""
    # In the order of certainty: what a control says of itself goes before what the screen or the goal says.
    if isinstance(action, SelectOption):
        return _choice(action, elements)
    if not isinstance(action, Click | DoubleClick):
        return None
    element = under(elements, action.box)
    # Clicking into a field does nothing yet, whatever the field is called.
    if element is None or _FIELD.search(element.role):
        return None
    label = _spoken(element.name or element.text)
    # A switch named "Share location" permits; one named "Dark mode" does nothing of these kinds.
    if _SWITCH.search(element.role):
        kind = "permission" if SWITCHES.search(label) else None if HARMLESS.search(label) else _ordered(label)
        return Consequence(kind, label, "control") if kind in ("share", "permission", "sign") else None
    if (picked := _picks(element, elements)) is not None:
        return picked
    # Rows and long labels are content: a mail titled "Delete everything" deletes nothing when it is opened.
    if not label or _long(label) or _ROW.search(element.role):
        return None
    # Saving replaces what stood there only if a field was emptied before.
    if SAVES.match(label) and _emptied(earlier):
        return Consequence("overwrite", label, "control")
    if _refuses(label):
        return None
    bare, called = _bare(label), _headings(elements)
    # "Refunded" under "Filter orders by" is what is looked for, and "Clear" there clears the filter.
    chooses = any(CHOICES.search(said) for said in called)
    kind = EXACT.get(bare) or _ordered(label)
    if kind is not None and (
        (chooses and (kind == "delete" or "button" not in element.role.lower())) or _undone(kind, label, called)
    ):
        return None
    if kind is not None:
        return Consequence(kind, label, "control")
    # "Yes, go ahead" confirms as "Yes" does; "Yes, keep it" doesn't.
    rest = AGREES.sub("", label)
    if bare in CONFIRM or (rest != label and not HARMLESS_FIRST.match(rest)):
        return _confirmed(elements, goal)
    if bare in REFUSE or SAVES.match(label) or HARMLESS_FIRST.match(label):
        return None
    return _only_way(element, elements)


def _choice(action: SelectOption, elements: Sequence[Seen]) -> Consequence | None:
    """Of an option that is chosen: one of a form's list does nothing yet, one of a menu what it says."""
    element, label = under(elements, action.box), _plain(action.option)
    if element is None or _FIELD.search(element.role) or _harmless(label):
        return None
    kind = EXACT.get(_bare(label)) or _ordered(label)
    return Consequence(kind, label, "control") if kind is not None else None


def consequences(episode: Episode) -> list[Consequence | None]:
    """What each action of an episode would do (see `consequence`), in the order of `Episode.actions`."""
    found, earlier = list[Consequence | None](), list[str]()
    for step in episode.actions:
        elements = step.screen.elements if step.screen is not None else []
        found.append(consequence(step.action, elements, episode.instruction, earlier))
        earlier.append(pressed(step.action, elements))
    return found


def pressed(action: Action | None, elements: Sequence[Seen]) -> str:
    """What an action counts as among the `earlier` ones: the label that it clicks or chooses, "clear" for Ctrl+A, else
    ""."""
    if isinstance(action, SelectOption):
        return _plain(action.option)
    # Select all, and what is typed next replaces everything.
    if isinstance(action, Hotkey) and {key.lower() for key in action.keys} == {"ctrl", "a"}:
        return "clear"
    element = under(elements, action.box) if isinstance(action, Click | DoubleClick) else None
    return "" if element is None else _plain(element.name or element.text)


def under(elements: Sequence[Seen], point: Sequence[float]) -> Seen | None:
    """The smallest element at a point, one that isn't mere text where there is one."""
    # Containers hold every point of the screen and would be the answer for blank ground.
    holding = [e for e in elements if _holds(e.box, point) and _area(e.box) <= CONTAINER_SHARE * 1e6]
    # A button's text lies on it and is smaller: what works goes before what is only read.
    working = [e for e in holding if not TEXT_ROLES.match(e.role)]
    return min(working or holding, key=lambda e: _area(e.box), default=None)


def _holds(box: Box, point: Sequence[float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _spoken(text: str) -> str:
    """A control's label; of one that is an identifier (an icon's: "ic_delete_24dp", "app:id/sendButton") its words."""
    label = _plain(text)
    if _IDENTIFIER.fullmatch(label) and ("_" in label or ":id/" in label or re.search("[a-z][A-Z]", label)):
        return _plain(_PLUMBING.sub(" ", _WORD_BORDER.sub(" ", label.rpartition("/")[2])))
    return label


def _bare(label: str) -> str:
    return label.casefold().strip(" .…!?¿¡。？！")


def _long(label: str) -> bool:
    """Whether it is content (a message, a title) rather than a control's label."""
    # A Chinese character is about a third of a word, a Japanese or Korean one half; no blank says where one ends.
    wide = sum(1.5 if "\u4e00" <= character <= "\u9fff" else character >= "\u3000" for character in label)
    hit = _hit(label)
    # German, Japanese and Korean put the verb last.
    allowed = MOST_ORDER if hit is not None and (hit[0] == 0 or label[hit[1] :].strip(" .!?") == "") else 1.0
    return len(label.split()) > MOST_WORDS * allowed or len(label) + wide > MOST_CHARACTERS * allowed


@lru_cache(maxsize=4096)
def _hit(label: str) -> tuple[int, int, Kind] | None:
    """Where in a label the first word of any kind begins and ends, and its kind."""
    # Where a label has two of the words ("Send and delete"), the first is what is done; of two that begin together the
    # longer one, which says more ("取消订单").
    hits = (
        (found.start(), -found.end(), kind)
        for kind in KINDS
        for found in LABEL[kind].finditer(label)
        if not _noun(label, found)
    )
    first = min(hits, default=None)
    return None if first is None else (first[0], -first[1], first[2])


def _noun(label: str, found: re.Match[str]) -> bool:
    """Whether a word that is a verb and a noun stands there as a noun: behind others ("Original post"), or before one
    that it belongs to ("Post settings", "Post hidden")."""
    if NOUNS.fullmatch(found[0]) is None or VERB_ENDING.match(label, found.end()):
        return False
    return LEADS.fullmatch(label[: found.start()]) is None or HEADS.match(label, found.end()) is not None


def _first(label: str) -> Kind | None:
    """The kind whose word stands first in a label."""
    return hit[2] if (hit := _hit(label)) else None


def _ordered(label: str) -> Kind | None:
    """What a control orders: nothing where it reports ("Failed to send"), or begins by looking or refusing ("Don't
    allow", "Show shared files"), unless these words are the order's own ("Don't save", "Cancel order")."""
    hit = _hit(label) if REPORTS.search(label) is None else None
    if hit is None or (hit[0] > 0 and HARMLESS_FIRST.match(label)):
        return None
    # "Document à signer" says what it is for; "Glisser pour envoyer" is done by that very gesture.
    purpose = PURPOSE.search(label[: hit[0]]) is not None and GOES_ON.match(label) is None
    return None if purpose else hit[2]


def _refuses(label: str) -> bool:
    """Whether a label says that nothing is done ("Not now", "Sign in"), by words that aren't the order's own: 수신 거부
    refuses mails to come, and ends them."""
    hit = _hit(label)
    return any(hit is None or not hit[0] <= found.start() < found.end() <= hit[1] for found in HARMLESS.finditer(label))


def _undone(kind: Kind, label: str, called: Sequence[str]) -> bool:
    """Whether what a label orders does nothing that lasts, by itself or on a screen that is called so."""
    # "Remove from cart": it can be had again at once. "Restore" in the trash brings back, and replaces nothing.
    if kind == "delete" and (EXPENDABLE.search(label) or any(_harmless(said) for said in called)):
        return True
    return kind == "overwrite" and any(TRASH.search(said) is not None for said in called)


def _harmless(text: str) -> bool:
    return HARMLESS.search(text) is not None or EXPENDABLE.search(text) is not None


def _picks(element: Seen, elements: Sequence[Seen]) -> Consequence | None:
    """Choosing an entry of a list that says "Forward to"."""
    if not _ROW.search(element.role) and element.role != "button":
        return None
    heading = next(
        (e for e in elements if "heading" in e.role.lower() and PICKS.search(_plain(e.name or e.text))), None
    )
    # Only entries below the heading are in its list; 5 units for boxes that overlap a little.
    if heading is None or element.box[1] < heading.box[3] - 5:
        return None
    return Consequence("send", _plain(heading.name or heading.text), "screen")


def _headings(elements: Sequence[Seen]) -> list[str]:
    """What the screen is called."""
    return [_plain(e.name or e.text) for e in elements if "heading" in e.role.lower()]


def _emptied(earlier: Sequence[str]) -> bool:
    """Whether a field that holds more than a name was emptied before."""
    return any(EMPTIES.match(label) and not _NAMES.search(label) for label in earlier)


def _confirmed(elements: Sequence[Seen], goal: str) -> Consequence | None:
    """What is confirmed: by the screen's own texts, headings first; by an amount of money; by the goal where these name
    nothing."""
    texts = _said(elements)
    for _, said in texts:
        if _harmless(said):
            continue
        kind = _first(said) or next((kind for kind in KINDS if names(kind, said)), None)
        if kind is not None:
            return Consequence(kind, said, "screen")
    amount = next((said for _, said in texts if AMOUNT.search(said)), None)
    if amount is not None:
        return Consequence("pay", amount, "screen")
    kind = _first(goal)
    return Consequence(kind, goal, "goal") if kind is not None else None


def _said(elements: Sequence[Seen]) -> list[tuple[bool, str]]:
    """A screen's own texts, with whether each is a heading; headings first: they say what is asked, the rest
    explains."""
    texts = [e for e in elements if TEXT_ROLES.match(e.role) or e.role.lower() in ("dialog", "status", "alert")]
    listed = [("heading" in e.role.lower(), _plain(e.text or e.name)) for e in texts]
    return sorted(listed, key=lambda one: not one[0])


def _only_way(element: Seen, elements: Sequence[Seen]) -> Consequence | None:
    """Of a control that is the only way on in a dialog, beside ways out of it: what the dialog's heading orders."""
    others = [
        e
        for e in elements
        if e is not element and "button" in e.role.lower() and abs(e.box[1] - element.box[1]) <= NEAR
    ]
    if "button" not in element.role.lower() or not others:
        return None
    if not all(_bare(_spoken(other.name or other.text)) in REFUSE for other in others):
        return None
    label = _spoken(element.name or element.text)
    if (kind := next((kind for kind in KINDS if names(kind, label)), None)) is not None:
        return Consequence(kind, label, "control")
    # A heading that orders, or any text that asks; the rest of a dialog explains, and may name anything.
    for heading, said in _said(elements):
        asks = ASKS.search(said) is not None
        kind = (_first(said) if asks else _ordered(said)) if heading or asks else None
        kind = kind or next((one for one in KINDS if asks and names(one, said)), None)
        if kind is not None and not _harmless(said):
            return Consequence(kind, said, "screen")
    return None
