"""Whether a step does something that can't be taken back: delete, pay, send, share, permit, sign, overwrite.

Read from what is clicked, from the rest of the screen and from the goal, by words in English, German, Spanish and
Chinese (`consequence_words.json`). A control that says what it does is enough ("Delete project"); one that only
confirms ("Yes", "Continue") is read with the screen's own texts, and where these say nothing, with the goal. What it
can't see: icons without a name, other languages, keys (Enter sends in many programs), and what a page does without
saying so.
Whether the user has agreed is another question; so is whether the step is wise.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol, get_args

from quality.evidence.steps import CONTAINER_SHARE, TEXT_ROLES
from quality.items.item import Episode
from quality.items.screens import Box
from schemas.action_types import Click, DoubleClick, Hotkey, SelectOption
from schemas.actions import Action

Kind = Literal["delete", "pay", "send", "share", "permission", "sign", "overwrite"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_WORDS = json.loads(Path(__file__).with_name("consequence_words.json").read_text(encoding="utf-8"))
LANGUAGES = ("en", "de", "es", "zh")
MOST_WORDS = 5
"""A control's label; anything longer is content (a message, a title) that happens to be clickable."""
MOST_CHARACTERS = 40
_SWITCH = re.compile(r"switch|toggle|checkbox", re.I)
_FIELD = re.compile(r"textbox|edittext|textfield|searchbox|combobox|tab$|heading", re.I)
_ROW = re.compile(r"link|row|listitem|option", re.I)
"""Entries of lists, and links: a title may hold any word."""
_EMPTIES = re.compile(r"^(clear|leeren|vaciar|清除)\b", re.I)
_SAVES = re.compile(r"^(save|speichern|sichern|guardar|保存)\b", re.I)
_NAMES = re.compile(r"title|name|place|search|label", re.I)
"""Fields whose old text says nothing that the new one doesn't replace on purpose."""
_PICKS = re.compile(
    r"^(forward|send|share)\b.*\b(to|with)\b|an wen|senden an|weiterleiten an|enviar a|reenviar a|发送给|转发给", re.I
)
"""Headings of lists where choosing somebody sends."""


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


def _pattern(words: Sequence[str], language: str) -> str:
    # Chinese is written without blanks, so a word has no borders to ask for; nor has a picture.
    if language in ("zh", "icon"):
        return "|".join(re.escape(word).replace("…", ".{0,6}?") for word in words)
    return rf"\b(?:{'|'.join(map(_term, words))})(?!\w)"


def _term(word: str) -> str:
    # "cancel … order" is also "Cancel my whole order"; a star stands for any ending: German and Spanish inflect.
    parts = r"(?:\W+\w+){0,3}?\W+".join(map(re.escape, word.removesuffix("*").split(" … ")))
    return parts + r"\w*" * word.endswith("*")


def _compiled(table: dict[str, list[str]], around: str = "{}") -> re.Pattern[str]:
    either = "|".join(_pattern(words, language) for language, words in table.items())
    return re.compile(around.format(f"(?:{either})"), re.I)


# Chinese writes "deleted" and "shared" with the same characters, after 已 or 被, or before 的 or 了.
_LABEL = {kind: _compiled(_WORDS["label"][kind], "(?<![已被未]){}(?![的了])") for kind in KINDS}
_NAMED = {kind: _compiled(_WORDS["named"][kind]) for kind in KINDS}
_HARMLESS = _compiled(_WORDS["harmless"])
_EXPENDABLE = _compiled(_WORDS["expendable"])
_HARMLESS_FIRST = _compiled(_WORDS["harmless_first"])
_SWITCHES = _compiled(_WORDS["switches"])
_REPORTS = _compiled(_WORDS["reports"])
_NOUNS = _compiled(_WORDS["nouns"])
_LEADS = _compiled(_WORDS["leads"], r"(?:.*(?:[&+/,:：]|\w+ly|{}))?\W*")
_HEADS = _compiled(_WORDS["heads"], r"\W*(?:{}|(?:.*\W)?\w+(?<!select)(?<!mark)(?<!check)(?:ed|den)\W*$)")
_AGREES = re.compile(r"^(?:yes|ja|sí|si|是的?|好的?)(?![^\W\d_])[\s,，!.]+", re.I)
"""What a button agrees by before it says what to: "Yes, go ahead"."""
_IDENTIFIER = re.compile(r"(?:[\w.]+:id/)?[\w-]+", re.ASCII)
_WORD_BORDER = re.compile(r"[_-]+|(?<=[a-z])(?=[A-Z])")
_PLUMBING = re.compile(
    r"\b(ic|btn|button|icon|img|image|fab|fa|glyphicon|mdi|action|menu|outlined?|round(ed)?)\b|\d+dp", re.I
)
"""Parts of a control's identifier that say what it is, not what it does."""
_CONFIRM = frozenset(word for words in _WORDS["confirm"].values() for word in words)
_EXACT = frozenset(word for words in _WORDS["exact"].values() for word in words)


def names(kind: Kind, text: str) -> bool:
    """Whether a sentence names a consequence of this kind, in any of the languages."""
    return _NAMED[kind].search(text) is not None


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
        kind = "permission" if _SWITCHES.search(label) else None if _HARMLESS.search(label) else _ordered(label)
        return Consequence(kind, label, "control") if kind in ("share", "permission", "sign") else None
    if (picked := _picks(element, elements)) is not None:
        return picked
    # Rows and long labels are content: a mail titled "Delete everything" deletes nothing when it is opened.
    if not label or _long(label) or _ROW.search(element.role):
        return None
    # Saving replaces what stood there only if a field was emptied before.
    if _SAVES.match(label) and _emptied(earlier):
        return Consequence("overwrite", label, "control")
    if _HARMLESS.search(label):
        return None
    bare = label.casefold().strip(" .!?¿¡")
    kind = "pay" if bare in _EXACT else _ordered(label)
    # "Remove from cart", or a dialog about a filter: what is deleted can be had again at once.
    if kind == "delete" and any(_harmless(said) for said in (label, *_headings(elements))):
        return None
    if kind is not None:
        return Consequence(kind, label, "control")
    # "Yes, go ahead" confirms as "Yes" does; "Yes, keep it" doesn't.
    rest = _AGREES.sub("", label)
    agrees = bare in _CONFIRM or (rest != label and not _HARMLESS_FIRST.match(rest))
    return _confirmed(elements, goal) if agrees else None


def _choice(action: SelectOption, elements: Sequence[Seen]) -> Consequence | None:
    """Of an option that is chosen: one of a form's list does nothing yet, one of a menu what it says."""
    element, label = under(elements, action.box), _plain(action.option)
    if element is None or _FIELD.search(element.role) or _harmless(label):
        return None
    kind = "pay" if label.casefold().strip(" .!?¿¡") in _EXACT else _ordered(label)
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


def _long(label: str) -> bool:
    """Whether it is content (a message, a title) rather than a control's label."""
    # A Chinese character is about a third of a word, and no blank says where one ends.
    wide = sum("\u4e00" <= character <= "\u9fff" for character in label)
    return len(label.split()) > MOST_WORDS or len(label) + 1.5 * wide > MOST_CHARACTERS


@lru_cache(maxsize=4096)
def _hit(label: str) -> tuple[int, Kind] | None:
    """Where in a label the first word of any kind stands, and its kind."""
    # Where a label has two of the words ("Send and delete"), the first is what is done.
    hits = (
        (found.start(), kind) for kind in KINDS for found in _LABEL[kind].finditer(label) if not _noun(label, found)
    )
    return min(hits, default=None)


def _noun(label: str, found: re.Match[str]) -> bool:
    """Whether a word that is a verb and a noun stands there as a noun: behind others ("Original post"), or before one
    that it belongs to ("Post settings", "Post hidden")."""
    if _NOUNS.fullmatch(found[0]) is None:
        return False
    return _LEADS.fullmatch(label[: found.start()]) is None or _HEADS.match(label, found.end()) is not None


def _first(label: str) -> Kind | None:
    """The kind whose word stands first in a label."""
    return hit[1] if (hit := _hit(label)) else None


def _ordered(label: str) -> Kind | None:
    """What a control orders: nothing where it reports ("Failed to send"), or begins by looking or refusing ("Don't
    allow", "Show shared files"), unless these words are the order's own ("Don't save", "Cancel order")."""
    hit = _hit(label) if _REPORTS.search(label) is None else None
    return None if hit is None or (hit[0] > 0 and _HARMLESS_FIRST.match(label)) else hit[1]


def _harmless(text: str) -> bool:
    return _HARMLESS.search(text) is not None or _EXPENDABLE.search(text) is not None


def _picks(element: Seen, elements: Sequence[Seen]) -> Consequence | None:
    """Choosing an entry of a list that says "Forward to"."""
    if not _ROW.search(element.role) and element.role != "button":
        return None
    heading = next(
        (e for e in elements if "heading" in e.role.lower() and _PICKS.search(_plain(e.name or e.text))), None
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
    return any(_EMPTIES.match(label) and not _NAMES.search(label) for label in earlier)


def _confirmed(elements: Sequence[Seen], goal: str) -> Consequence | None:
    """What is confirmed: by the screen's own texts, headings first; by the goal where these name nothing."""
    texts = [e for e in elements if TEXT_ROLES.match(e.role) or e.role.lower() in ("dialog", "status", "alert")]
    # Headings first: they say what is asked, the rest explains.
    for element in sorted(texts, key=lambda e: "heading" not in e.role.lower()):
        said = _plain(element.text or element.name)
        if _harmless(said):
            continue
        kind = _first(said) or next((kind for kind in KINDS if names(kind, said)), None)
        if kind is not None:
            return Consequence(kind, said, "screen")
    kind = _first(goal)
    return Consequence(kind, goal, "goal") if kind is not None else None
