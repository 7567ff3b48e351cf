"""What stands between the parentheses of a call that a model wrote: points, keys, a text. Linear in its length.

These patterns run on untrusted text, and in every reward. So no two repeats that match the same sign stand side by
side, and nothing that is searched for scans to the end before it fails: either makes a reply of blanks or tags take
seconds (`tests/schemas/test_replies.py` times shapes of both kinds).
"""

import re

from schemas.action_types import ACTION_SPACE, SPACES, ActionSpace, Point

NUMBER = r"-?\d+(?:\.\d+)?"
MODIFIERS = frozenset(["ctrl", "control", "shift", "alt", "option", "cmd", "command", "meta", "win", "super"])
"""Keys held while another is pressed, in small letters: behind one, a blank or `-` separates keys as `+` does."""

_ROUND = re.compile(r"[()]")
_POINT_END = re.compile(r"[\])]")
_ANOTHER_POINT = re.compile(r"[\])'\" ]{1,6},?[ ]?[\[(]{1,2}[ ]?-?\d")
_DIRECTION = re.compile(r"\bdirection ?= ?['\"] ?(\w*) ?['\"]")
_OTHER_CLICK = re.compile(
    r"\b(?:button ?= ?['\"]?(?!left|primary)\w|(?:num_?|click_?)?(?:clicks|count) ?= ?['\"]?(?!1\b)\w"
    r"|double(?:_click)? ?= ?['\"]?true|modifiers? ?= ?[\[('\"]{1,2}\w)",
    re.IGNORECASE,
)
"""An argument that makes another gesture of a click."""
_TEXT_HEAD = re.compile(r"(?:(content|app|url|text)\s*=\s*)?(['\"])")
_CHOICE_HEAD = re.compile(r"(?:box\s*=\s*)?[\[(]([^\[\]()]*)[\])]\s*,\s*(?:option\s*=\s*)?(?=['\"])")
_KEYS_HEAD = re.compile(r"(?:keys?\s*=\s*)?[\[(]?\s*")
_KEY = re.compile(r"(?:'([^']+)'|\"([^\"]+)\")\s*(,|[\])]|$)\s*")
_NOTHING = r"\s*=\s*(?:''|\"\"|'(?:None|null)'|\"(?:None|null)\"|None|null)"
_UNUSED_FIRST = re.compile(rf"(?:app{_NOTHING}\s*,\s*(?=url\s*=)|url{_NOTHING}\s*,\s*(?=app\s*=))")
_UNUSED_LAST = re.compile(rf",\s*(app|url){_NOTHING}$")
_LAUNCHED = re.compile(r"(app|url)\s*=")

_BEFORE_CALL = r"\s*\)(?:[\s;,.`]|</?\w{1,20}>)*"
# By quote: it is followed by another argument, by the end of the call and another call, or by a part to be added to it.
_MORE = {
    quote: re.compile(
        rf"{quote}(?:\s*,\s*(?:[A-Za-z_]\w{{0,40}}\s*=|['\"])|{_BEFORE_CALL}[A-Za-z_]\w{{0,40}}\s*\(|\s*\+\s*['\"A-Za-z_]|\s+['\"])"
    )
    for quote in "'\""
}
_NAMES = "content|app|url|text|keys?|box|start|end|direction"
_OUR_MORE = {  # the same, with a name of our own: no text that people type holds that
    (space, quote): re.compile(
        rf"{quote}(?:\s*,\s*(?:{_NAMES}{'|option' if 'SelectOption' in types else ''})\s*=|"
        rf"\s*\)[^()'\"]{{0,24}}(?<!\w)(?i:{'|'.join(types)})\s*\()"
    )
    for space, types in SPACES.items()
    for quote in "'\""
}
_APOSTROPHES = {quote: re.compile(rf"(?<=[^\W_]){quote}(?=[^\W_])") for quote in "'\""}


def centre(numbers: list[float]) -> Point:
    """Two numbers are a point, four a box whose centre is meant. Raises `ValueError` for others, or outside 0..1000."""
    count = len(numbers)
    if count == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    # Never clamped: a point outside is a mistake of the model that must show.
    if len(numbers) != 2 or not all(0 <= number <= 1000 for number in numbers):
        raise ValueError(f"reply: expected a point in 0..1000, found {count} numbers, {numbers[:4]}")
    return int(numbers[0] + 0.5), int(numbers[1] + 0.5)


def numbers_in(text: str) -> list[float]:
    """All decimal numbers of a text, in order."""
    return [float(number) for number in re.findall(NUMBER, text)]


def one_blank(arguments: str) -> str:
    """Arguments with one blank at most between two tokens, as `named_point` and `direction` expect them."""
    return " ".join(arguments.split())


def closes_early(arguments: str) -> bool:
    """Whether a parenthesis closes the call before its end, so that more follows it."""
    depth = 0
    for bracket in _ROUND.findall(arguments):
        depth += 1 if bracket == "(" else -1
        # More closed than opened: the call ended here.
        if depth < 0:
            return True
    return False


def named_point(arguments: str, name: str) -> Point | None:
    """The point of `name=(x,y)`, brackets of either kind, quoted or not; None without it. Raises `ValueError`."""
    opened = re.search(rf"\b{name} ?= ?['\"]? ?[\[(]", arguments)
    closed = _POINT_END.search(arguments, opened.end()) if opened else None
    if opened is None or closed is None:
        return None
    # Of two points of one name, or of two in a row, nobody knows which is meant.
    again = re.compile(rf"\b{name} ?=").search(arguments, closed.end())
    if again or _ANOTHER_POINT.match(arguments, closed.start()):
        raise ValueError(f"reply: expected one {name}, found {arguments[:80]!r}")
    return centre(numbers_in(arguments[opened.end() : closed.start()]))


def direction(arguments: str) -> str:
    """The word of `direction='…'` in small letters; empty without one. Raises `ValueError` for two that differ."""
    words = {word.lower() for word in _DIRECTION.findall(arguments)}
    if len(words) > 1:
        raise ValueError(f"Scroll: expected one direction, found {arguments[:80]!r}")
    return words.pop() if words else ""


def plain_click(arguments: str) -> None:
    """Raises `ValueError` where an argument makes another gesture of a click, as `button='right'` does."""
    if other := _OTHER_CLICK.search(arguments):
        raise ValueError(f"Click: expected a point alone; {other[0][:40]!r} makes it another action")


def keys(arguments: str) -> tuple[str, ...]:
    """Keys of `keys=['ctrl','c']`, as written, with or without name and brackets.

    Raises `ValueError` where anything but quoted keys stands there.
    """
    found: list[str] = []
    place = _KEYS_HEAD.match(arguments).end()  # type: ignore[union-attr]  # it matches the empty text too
    separator = ","
    # Each key must be followed by a comma, a closing bracket or the end.
    while separator == "," and (key := _KEY.match(arguments, place)):
        found.append(key[1] or key[2])
        place, separator = key.end(), key[3]
    if not found or arguments[place:].rstrip(",])").strip():
        raise ValueError(f"Hotkey: expected keys=['ctrl','c'], found {arguments[:80]!r}")
    # The list itself may be quoted: "['ctrl','c']".
    if len(found) == 1 and len(found[0]) < 200 and re.fullmatch(r"\[\s*['\"].+\]", found[0], re.DOTALL):
        return keys(found[0])
    return tuple(found)


def pressed_together(written: tuple[str, ...]) -> tuple[str, ...]:
    """One name `ctrl+c`, and behind a modifier `ctrl c`, `ctrl, c` and `ctrl-c`, as keys; `+` and `ctrl++` hold the key
    `+`. So does each name of a list, `ctrl+shift` of two."""
    if len(written) != 1:
        return tuple(key for name in written for key in pressed_together((name,)))
    first = re.match(r"([A-Za-z]+)[ ,-]", written[0])
    # A blank separates keys only behind a modifier: "page down" is one key.
    separator = "(?:, ?|[+ -])" if first and first[1].lower() in MODIFIERS else "[+]"
    # Not before the end, so that the key `+` itself stays.
    parts = [part.strip() for part in re.split(rf"{separator}(?=.)", written[0], flags=re.DOTALL)]
    return tuple(parts) if all(parts) else written


def without_unused(arguments: str) -> str:
    """Arguments of `Launch` without the twin that is not used: `app='Clock', url=''`, or `url='None', app='Clock'`. One
    name twice stays as it is, and so does a text without a name behind a name (`app='','.'`): nobody knows what they
    mean."""
    first = _UNUSED_FIRST.match(arguments)
    left = arguments[first.end() :] if first else arguments
    named, last = _LAUNCHED.match(left), _UNUSED_LAST.search(left)
    # a text without a name is an app
    is_twin = last is not None and last[1] != (named[1] if named else "app")
    return (left[: last.start()] if last is not None and is_twin else left).rstrip()


def quoted_text(arguments: str, space: ActionSpace = ACTION_SPACE) -> tuple[str, str]:
    """(name or "", text) of one quoted text in a call of a space. Quotes, brackets and backslashes inside stand as they
    are.

    Raises `ValueError` where there is none, and where what follows the text's own end would become part of it.
    """
    # A comma behind the last argument is harmless.
    arguments = arguments.removesuffix(",").rstrip()
    head = _TEXT_HEAD.match(arguments)
    if head is None or len(arguments) == head.end() or not arguments.endswith(head.group(2)):
        raise ValueError(f"expected quoted text, found {arguments[:80]!r}")
    content = arguments[head.end() : -1]
    if _takes_in_more(content, head.group(2), space):
        raise ValueError(f"expected one quoted text and nothing behind it, found {arguments[:80]!r}")
    return head.group(1) or "", content


def choice(arguments: str, space: ActionSpace) -> tuple[Point, str]:
    """(point, text of the option) of `box=(x,y), option='…'`, with or without the names, in that order; the text as
    `quoted_text` reads it. Raises `ValueError`."""
    head = _CHOICE_HEAD.match(arguments)
    if head is None:
        raise ValueError(f"SelectOption: expected box=(x,y), option='…', found {arguments[:80]!r}")
    try:
        _, option = quoted_text(arguments[head.end() :], space)
    except ValueError as error:
        raise ValueError(f"SelectOption: {error}") from None
    return centre(numbers_in(head.group(1))), option


def _takes_in_more(content: str, quote: str, space: ActionSpace) -> bool:
    """Whether a text that runs to the last quote took in another argument or call.

    Quotes inside a text are not escaped, so its end is known by what follows: `', name=` or `') Name(`. That may be
    typed text too (`SET a='x', b='y'`); there, quoted words come in pairs, and apostrophes stand between letters.
    """
    # With a name of our own it is certainly another argument.
    if _OUR_MORE[space, quote].search(content):
        return True
    words = _APOSTROPHES[quote].sub("_", content)
    odd, counted = False, 0
    # A quote can end the text only where no quoted word is open.
    for more in _MORE[quote].finditer(words):
        odd ^= bool(words.count(quote, counted, more.start() + 1) % 2)
        if odd:  # an even number stood before it: no quoted word is open that this quote could end
            return True
        counted = more.start() + 1
    return False
