"""Rules for MiniWoB++ tasks: from where the page stands, the next right action. So every slip finds its way back.

A rule reads the page's elements and truth, never a plan, and looks for nothing that a screenshot doesn't show: a link
behind a tab is found by opening one tab after the other. Points are the centres of elements.

Add a task: a rule `(Page) -> Action | None` (None: there is nothing left to do) and its line in `RULES`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from generators.policies.oracles.oracle import click_on, hits
from generators.worlds.miniwob import goals
from generators.worlds.miniwob.goals import POST_ICONS, is_field
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.miniwob_world import MiniwobNode, MiniwobWorld
from schemas.action_types import Click, Hotkey, PressEnter, Scroll, Type
from schemas.actions import Action

Rule = Callable[["MiniwobPage"], "Action | None"]
MOST_STROKES = 8
SELECT_ALL = Hotkey(("ctrl", "a"))


@dataclass
class MiniwobPage:
    """A page as it stands. `hit` holds the keys of all elements that this episode's clicks met; `last` is the action
    done last; `strokes` counts scrolls in a row."""

    world: MiniwobWorld
    goal: str
    fields: Mapping[str, str]
    nodes: list[MiniwobNode]
    state: Mapping[str, Any]
    hit: list[str] = field(default_factory=list)
    last: Action | None = None
    strokes: int = 0

    def all(self, test: Callable[[MiniwobNode], bool]) -> list[MiniwobNode]:
        return [node for node in self.nodes if test(node)]

    def one(self, test: Callable[[MiniwobNode], bool], what: str) -> MiniwobNode:
        """The first such element. Raises `OracleMiss` where there is none."""
        found = self.all(test)
        if not found:
            raise OracleMiss(f"{self.goal!r}: no {what} on the page")
        return found[0]

    def button(self, label: str) -> Action:
        """A click on the button of this label; one in another case will do where there is none."""
        # Exact first: some pages have "Ok" and "OK" side by side.
        exact = self.all(lambda n: n.place.clickable and n.text.strip() == label.strip())
        wanted = label.strip().lower()
        same = exact or self.all(lambda n: n.place.clickable and n.text.strip().lower() == wanted)
        if not same:
            raise OracleMiss(f"{self.goal!r}: no button {label!r} on the page")
        return press(same[0])

    def fill(self, node: MiniwobNode, text: str) -> Action | None:
        """What is still to be done so that a field holds a text; None where it does."""
        if node.value == text:
            return None
        if not node.focused:
            return press(node)
        # All is marked once; what is typed then replaces it, in two actions whatever stood there.
        if node.value and self.last != SELECT_ALL:
            return SELECT_ALL
        # Nothing to type: the marked text is deleted.
        return Type(text) if text else Hotkey(("backspace",))

    def quoted(self) -> list[str]:
        return goals.quoted(self.goal)

    def match(self, pattern: str) -> re.Match[str]:
        return goals.match(pattern, self.goal)

    def further(self, what: str) -> Action:
        """Scroll on in search of something. Raises `OracleMiss` after `MOST_STROKES`."""
        if self.strokes >= MOST_STROKES:
            raise OracleMiss(f"{self.goal!r}: no {what} on the page")
        return Scroll(direction="down")


def press(node: MiniwobNode) -> Click:
    return click_on(node.place)


# --- one click --------------------------------------------------------------------------------------------------------
def quoted_button(p: MiniwobPage) -> Action | None:
    return p.button(p.quoted()[0])


def last_word_button(p: MiniwobPage) -> Action | None:
    return p.button(p.goal.rstrip(".").rpartition(" ")[2])


def only_button(p: MiniwobPage) -> Action | None:
    return press(p.one(lambda n: n.tag == "button", "button"))


def link(p: MiniwobPage) -> Action | None:
    word = p.quoted()[0]
    return press(p.one(lambda n: n.has("alink") and n.text == word, f"link {word!r}"))


def dialog(p: MiniwobPage) -> Action | None:
    label = p.quoted()[0]
    # The cross has no text: it is known by its class.
    if label.lower() != "x":
        return p.button(label)
    return press(p.one(lambda n: n.has("ui-dialog-titlebar-close"), "cross"))


def tab(p: MiniwobPage) -> Action | None:
    number = p.match(goals.TAB)[1]
    return press(p.one(lambda n: n.tag == "a" and n.text == f"Tab #{number}", f"tab {number}"))


def focus(p: MiniwobPage) -> Action | None:
    number = re.search(r"(\d)(st|nd|rd|th)", p.goal)
    fields = p.all(is_field)
    return press(fields[int(number[1]) - 1 if number else 0])


def widget(p: MiniwobPage) -> Action | None:
    kind = p.quoted()[0]
    tag = {"textarea": "textarea", "button": "button"}.get(kind, "input")
    role = {"radio": "radio", "checkbox": "checkbox", "button": "button"}.get(kind, "textbox")
    return press(p.one(lambda n: n.tag == tag and n.place.role == role, f"{kind} widget"))


def colour(p: MiniwobPage) -> Action | None:
    wanted = p.match(r"the (\w+) colored box")[1]
    # Colours stand in data attributes only; what a screenshot shows is the colour itself.
    script = "[...document.querySelectorAll('.color[data-color]')].map((n) => n.getAttribute('data-color'))"
    names = p.world.page.evaluate(script)
    boxes = p.all(lambda n: n.has("color"))
    # As many boxes as names in view, or the order wouldn't tell which is which.
    if wanted not in names or len(boxes) != len(names):
        raise OracleMiss(f"{p.goal!r}: no box {wanted}")
    return press(boxes[names.index(wanted)])


_FIGURE = """() => {
  const drawn = document.querySelector('#area_svg > *'), text = drawn.textContent.trim();
  if (drawn.localName === 'text') return /[0-9]/.test(text) ? 'Number' : 'Letter';
  return { rect: 'Rectangle', circle: 'Circle', polygon: 'Triangle' }[drawn.localName];
}"""


def figure(p: MiniwobPage) -> Action | None:
    return p.button(p.world.page.evaluate(_FIGURE))


def grid_point(p: MiniwobPage) -> Action | None:
    point = p.match(r"\((-?\d),(-?\d)\)")[0]
    return press(p.one(lambda n: n.element_id == point, f"point {point}"))


def mail_icon(p: MiniwobPage) -> Action | None:
    """The icon in the row of the one mail by a person."""
    sender = _mail(p)
    icon = "trash" if "trash" in p.goal.lower() or "delete" in p.goal.lower() else "star"
    return press(p.one(lambda n: n.has(icon) and n.row == sender.row, f"{icon} icon"))


# --- a few clicks -----------------------------------------------------------------------------------------------------
def sequence(p: MiniwobPage) -> Action | None:
    first = p.one(lambda n: n.text.strip() == "ONE", "button ONE")
    # Pressed once is enough to know: the page shows no trace of it.
    return p.button("TWO") if first.place.key in p.hit else press(first)


def boxes(p: MiniwobPage) -> Action | None:
    """Tick what is named, untick what isn't, then Submit."""
    words = p.match(goals.BOXES)[1]
    wanted = [] if words == "nothing" else words.split(", ")
    found = p.all(lambda n: n.place.role in ("checkbox", "radio"))
    names = [n.place.name for n in found]
    # Two boxes of one name can't be told apart by a plan, nor by anyone else.
    if len(set(names)) < len(names) or not set(wanted) <= set(names):
        raise OracleMiss(f"{p.goal!r}: the boxes are {names}")
    checked = p.state["checked"]
    for node in found:
        on = bool(checked.get(node.element_id))
        # A radio button can't be unticked, only another one ticked.
        if on != (node.place.name in wanted) and (node.place.role == "checkbox" or not on):
            return press(node)
    return p.button("Submit")


def any_tab(p: MiniwobPage) -> Action | None:
    """One tab after the other until the link shows."""
    word = p.quoted()[0]
    if found := p.all(lambda n: n.has("alink") and n.text == word):
        return press(found[0])
    tabs = p.all(lambda n: n.has("ui-tabs-anchor"))
    # From the second on: the first tab is open from the start.
    left = [node for node in tabs[1:] if node.place.key not in p.hit]
    if not left:
        raise OracleMiss(f"{p.goal!r}: no link {word!r} in {len(tabs)} tabs")
    return press(left[0])


def section(p: MiniwobPage) -> Action | None:
    head = p.one(lambda n: n.tag == "h3", "section")
    return p.button("Submit") if head.has("ui-accordion-header-active") else press(head)


def any_section(p: MiniwobPage) -> Action | None:
    """One section after the other until the link shows; opening one closes the others."""
    word = p.quoted()[0]
    if found := p.all(lambda n: n.has("alink") and n.text == word):
        return press(found[0])
    left = [node for node in p.all(lambda n: n.tag == "h3") if node.place.key not in p.hit]
    if not left:
        raise OracleMiss(f"{p.goal!r}: no link {word!r} in view")
    return press(left[0])


def book(p: MiniwobPage) -> Action | None:
    name, kind = p.match(goals.CONTACT).groups()
    if p.all(lambda n: n.has("name") and n.text == name):
        shown = p.all(lambda n: n.has(kind))
        return press(shown[0]) if shown else Click(p.world.first_line(f".{kind}"))  # over two lines: its middle is bare
    return press(p.one(lambda n: n.has("page-link") and n.text == ">", "next page"))


def post(p: MiniwobPage) -> Action | None:
    """An icon under the only post of a user; what stands in a menu is left to others."""
    action, user = p.quoted()[0], p.match(goals.USER)[1]
    every: list[str] = p.world.page.evaluate("[...document.querySelectorAll('.username')].map((n) => n.textContent)")
    # Two posts by one user would make "the post" ambiguous, and the page decides by another.
    if every.count(user) != 1 or action not in POST_ICONS:
        raise OracleMiss(f"{p.goal!r}: {every.count(user)} posts by {user}, or no icon")
    names = p.all(lambda n: n.has("username") and n.text == user)
    # Icons belong to the post of the same row.
    mine = [n for n in p.nodes if names and n.has(POST_ICONS[action]) and n.row == names[0].row]
    return press(mine[0]) if mine else p.further(f"post by {user}")


# --- typing -----------------------------------------------------------------------------------------------------------
def _submit(p: MiniwobPage, *wanted: tuple[MiniwobNode, str], label: str = "Submit") -> Action | None:
    # Field by field: a slip in an earlier one is mended before the button.
    for node, text in wanted:
        if (action := p.fill(node, text)) is not None:
            return action
    return p.button(label)


def enter_text(p: MiniwobPage) -> Action | None:
    text = p.quoted()[0]
    # The wish of case is the goal's words, the text stands in quotes as it is.
    text = text.upper() if "upper case" in p.goal else text.lower() if "lower case" in p.goal else text
    return _submit(p, (p.one(is_field, "field"), text))


def password_twice(p: MiniwobPage) -> Action | None:
    return _submit(p, *((node, p.quoted()[0]) for node in p.all(is_field)[:2]))


def login(p: MiniwobPage) -> Action | None:
    user, password, *_ = p.quoted()
    first, second = p.all(is_field)[:2]
    for node, text in ((first, user), (second, password)):
        if (action := p.fill(node, text)) is not None:
            return action
    return press(p.one(lambda n: n.element_id == "subbtn", "button"))


def choose_list(p: MiniwobPage) -> Action | None:
    """The mouse opens the list, the keyboard goes to the entry, Enter takes it."""
    value = p.match(goals.ENTRY)[1]
    select = p.one(lambda n: n.tag == "select", "list")
    # The entry is highlighted by typing its beginning; Enter takes it.
    if isinstance(p.last, Type) and p.last.content == value:
        return PressEnter()
    if select.text == value:
        return p.button("Submit")
    return Type(value) if hits(p.last, select.place) else press(select)


def form_two(p: MiniwobPage) -> Action | None:
    found = p.match(goals.FORM_TWO)
    radio = p.all(lambda n: n.place.role == "radio")[int(found[1]) - 1]
    fields = p.all(is_field)
    if not list(p.state["checked"].values())[int(found[1]) - 1]:
        return press(radio)
    for number, node in enumerate(fields, 1):
        if number != int(found[3]) and node.value:  # what a slip has written
            return p.fill(node, "")
    return _submit(p, (fields[int(found[3]) - 1], found[2]))


def read_table(p: MiniwobPage) -> Action | None:
    key = p.match(goals.CELL)[1]
    cells = [n.text for n in p.all(lambda n: n.tag == "td")]
    table = dict(zip(cells[::2], cells[1::2], strict=False))
    if key not in table:
        raise OracleMiss(f"{p.goal!r}: {key!r} isn't in the table")
    return _submit(p, (p.one(is_field, "field"), table[key]))


def search(p: MiniwobPage) -> Action | None:
    word, at = p.quoted()[0], int(p.match(goals.RESULT)[1])
    results = p.all(lambda n: n.has("search-title"))
    # Three results a page; results and pages are counted from 1.
    page = (at - 1) // 3 + 1
    if not results or not _active_page(p):
        return _submit(p, (p.one(is_field, "field"), word), label="Search")
    if _active_page(p) != str(page):
        return press(p.one(lambda n: n.has("page-link") and n.text == str(page), f"page {page}"))
    return press(results[(at - 1) % 3])


def _active_page(p: MiniwobPage) -> str:
    script = "[...document.querySelectorAll('.page-item.active, li.active')].map((n) => n.textContent.trim())"
    found: list[str] = p.world.page.evaluate(script)
    return found[0] if found else ""


def _mail(p: MiniwobPage) -> MiniwobNode:
    by = p.fields.get("by") or p.match(goals.SENDER)[1]
    every: list[str] = p.world.page.evaluate(
        "[...document.querySelectorAll('.email-sender')].map((n) => n.textContent)"
    )
    # Two mails by one person: the goal would be ambiguous.
    if every.count(by) != 1:
        raise OracleMiss(f"{p.goal!r}: {every.count(by)} mails by {by!r}")
    return p.one(lambda n: n.has("email-sender") and n.text == by, f"mail by {by!r}")


def mail_text(p: MiniwobPage) -> Action | None:
    """Answer or forward the one mail by a person."""
    reply = "reply" in p.goal.lower()
    text = p.quoted()[0] if reply else p.match(goals.RECEIVER)[1]
    box = "reply-text" if reply else "forward-sender"
    send = "send-reply" if reply else "send-forward"
    # Two layouts of the page name the box by id or by class.
    here = p.all(lambda n: n.element_id == box or n.has(box))
    if here:
        return p.fill(here[0], text) or press(p.one(lambda n: n.element_id == send, "send icon"))
    opened = p.all(lambda n: n.has("email-reply" if reply else "email-forward"))
    return press(opened[0]) if opened else press(_mail(p))


RULES: dict[str, Rule] = {
    "click-test-2": last_word_button,
    "click-test-transfer": last_word_button,
    "click-color": colour,
    "click-widget": widget,
    "click-button": quoted_button,
    "click-link": link,
    "click-tab": tab,
    "click-dialog-2": dialog,
    "focus-text-2": focus,
    "identify-shape": figure,
    "grid-coordinate": grid_point,
    "click-option": boxes,
    "click-checkboxes": boxes,
    "click-checkboxes-transfer": boxes,
    "enter-text": enter_text,
    "enter-text-dynamic": enter_text,
    "enter-password": password_twice,
    "login-user": login,
    "choose-list": choose_list,
    "form-sequence-2": form_two,
    "click-tab-2-easy": any_tab,
    "click-tab-2-medium": any_tab,
    "click-tab-2": any_tab,
    "click-collapsible-2-nodelay": any_section,
    "click-collapsible-nodelay": section,
    "click-button-sequence": sequence,
    "email-inbox-delete": mail_icon,
    "email-inbox-important": mail_icon,
    "email-inbox-reply": mail_text,
    "email-inbox-forward": mail_text,
    "social-media": post,
    "phone-book": book,
    "search-engine": search,
    "read-table": read_table,
    "click-test": only_button,
    "click-dialog": dialog,
    "focus-text": focus,
    "click-tab-2-hard": any_tab,
    "enter-text-2": enter_text,
}
"""Task → its rule; those that a small model may learn come first."""
