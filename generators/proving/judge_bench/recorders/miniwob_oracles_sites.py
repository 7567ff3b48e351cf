"""Oracles for MiniWoB++ tasks that look like small sites: tabs, menus, mail, search, posts, contacts, folders."""

from collections.abc import Callable

from generators.proving.judge_bench.recorders import miniwob_oracles
from generators.worlds.miniwob import goals
from generators.worlds.miniwob.goals import POST_ICONS, is_field, match, quoted
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.miniwob_world import MiniwobNode
from schemas.action_types import Hover


def tab_link(s: miniwob_oracles.Solver) -> None:
    """Opens one tab after the other until the link is there."""
    word = quoted(s.goal)[0]

    def is_link(node: MiniwobNode) -> bool:
        return node.has("alink")

    # Keys rather than elements: a tab that opens redraws what was read before.
    tabs = [n.place.key for n in s.all(lambda n: n.has("ui-tabs-anchor"))]
    here = 0
    for turn in range(len(tabs)):
        s.could_be(f'"{word}"', (f'"{text}"' for text in miniwob_oracles.texts(s.all(is_link))))
        if found := s.all(lambda n: is_link(n) and n.text == word):
            s.click(found[0])
            return
        if turn + 1 < len(tabs):
            here += 1
            s.click(s.hunt(lambda n, k=tabs[here]: n.place.key == k, "tab"))  # type: ignore[misc]
    raise OracleMiss(f"{s.goal!r}: no link {word!r} in {len(tabs)} tabs")


def section(s: miniwob_oracles.Solver) -> None:
    s.click(s.hunt(lambda n: n.tag == "h3", "section"))
    s.press("Submit")


def section_link(s: miniwob_oracles.Solver) -> None:
    """Opens one section after the other; open ones are closed by the page."""
    word = quoted(s.goal)[0]
    heads = [n.place.key for n in s.all(lambda n: n.tag == "h3")]
    for head in heads:
        s.click(s.hunt(lambda n, h=head: n.place.key == h, "section"))  # type: ignore[misc]
        # Entities come from open sections only: what is folded isn't on any screen of the trace.
        s.could_be(f'"{word}"', (f'"{text}"' for text in miniwob_oracles.texts(s.all(lambda n: n.has("alink")))))
        if found := s.all(lambda n: n.has("alink") and n.text == word):
            s.click(found[0])
            return
    raise OracleMiss(f"{s.goal!r}: no link {word!r} in view in {len(heads)} sections")


def menu(s: miniwob_oracles.Solver) -> None:
    path = match(r"Select (.+)", s.goal)[1].split(">")
    for depth, word in enumerate(path):
        entries = s.all(lambda n: n.place.role == "menuitem")
        if depth + 1 == len(path):
            s.could_be(f">{word}", (f">{text}" for text in miniwob_oracles.texts(entries) if text not in path))
        entry = s.hunt(lambda n, w=word: n.place.role == "menuitem" and n.text == w, f"entry {word!r}", 1)  # type: ignore[misc]
        if depth + 1 == len(path):
            s.click(entry)
        else:  # a click on an inner entry would choose it
            s.do(Hover(entry.place.centre), f'Point at "{word}"', entry)


def button_menu(s: miniwob_oracles.Solver) -> None:
    word = quoted(s.goal)[1] if len(quoted(s.goal)) > 1 else ""
    if not word:
        raise OracleMiss(f"{s.goal!r}: names an icon only")
    s.could_be(f'"{word}"', (f'"{w}"' for w in ("Save", "Prev", "Stop", "Play", "Next", "Zoom In", "Zoom Out")))
    s.press("Menu")
    # These four stand in a submenu, which has to be opened first.
    if word in ("Prev", "Stop", "Play", "Next"):
        s.click(s.hunt(lambda n: n.place.role == "menuitem" and n.text == "Playback", "entry Playback", 1))
    s.click(s.hunt(lambda n: n.place.role == "menuitem" and n.text == word, f"entry {word!r}", 1))


def mail(s: miniwob_oracles.Solver) -> None:
    """Delete, star, answer or forward the one mail by a person."""
    names = miniwob_oracles.texts(s.all(lambda n: n.has("email-sender")))
    # Named tasks give fields; without them the goal in words is all there is.
    by = s.fields.get("by") or match(goals.SENDER, s.goal)[1]
    names_all: list[str] = s.world.page.evaluate(
        "[...document.querySelectorAll('.email-sender')].map((n) => n.textContent)"
    )
    # A person with two mails leaves open which is meant.
    if names_all.count(by) != 1:
        raise OracleMiss(f"{s.goal!r}: {names_all.count(by)} mails by {by!r}")
    s.could_be(by, (name for name in names if name != by))
    sender = s.hunt(lambda n: n.has("email-sender") and n.text == by, f"mail by {by!r}")
    low = s.goal.lower()
    kind = s.fields.get("task", "")
    # Without fields (the tasks in people's own words) the kind is guessed from the goal's words.
    if kind in ("delete", "star", "important") or (not kind and ("trash" in low or "star icon" in low)):
        icon = "trash" if kind == "delete" or "trash" in low else "star"
        s.could_be("the trash icon to delete it", ["the star icon to mark it as important"])
        s.could_be("the star icon to mark it as important", ["the trash icon to delete it"])
        s.click(s.hunt(lambda n: n.has(icon) and n.row == sender.row, f"{icon} icon"), f"Click the {icon} icon of {by}")
        return
    s.click(sender, f"Open the mail by {by}")
    # The same guess: what neither deletes, stars nor replies forwards.
    if kind == "reply" or (not kind and "reply" in low):
        text = s.fields.get("message") or quoted(s.goal)[0]
        s.could_be(text, ("Velit lectus.", "See you soon.", "Nulla porta ac."))
        s.click(s.hunt(lambda n: n.has("email-reply"), "reply button"), "Click on Reply")
        s.write(s.hunt(lambda n: n.element_id == "reply-text", "text field"), text)
        s.click(s.hunt(lambda n: n.element_id == "send-reply", "send icon", 1), "Send the answer")
        return
    to = s.fields.get("to") or match(goals.RECEIVER, s.goal)[1]
    s.could_be(to, s.rng.sample(miniwob_oracles.NAMES, 3))
    s.click(s.hunt(lambda n: n.has("email-forward"), "forward button"), "Click on Forward")
    s.write(s.hunt(lambda n: n.has("forward-sender"), "receiver"), to)
    s.click(s.hunt(lambda n: n.element_id == "send-forward", "send icon", 1), "Send it")


def search(s: miniwob_oracles.Solver) -> None:
    word = quoted(s.goal)[0]
    at = int(match(goals.RESULT, s.goal)[1])
    s.could_be(f"{miniwob_oracles.ordinal(at)} search", (f"{which} search" for which in miniwob_oracles.ordinals(9)))
    s.could_be(f'"{word}"', (f'"{name}"' for name in s.rng.sample(miniwob_oracles.NAMES, 2)))
    s.write(s.hunt(is_field, "field"), word)
    s.press("Search")
    # The page shows three results at a time.
    page = (at - 1) // 3 + 1
    if page > 1:
        s.click(s.hunt(lambda n: n.has("page-link") and n.text == str(page), f"page {page}"))
    results = s.all(lambda n: n.has("search-title"))
    s.click(results[(at - 1) % 3])


def posts(s: miniwob_oracles.Solver) -> None:
    """A button under the post of a user, in its menu or not; or under all or some posts of a user."""
    action, users = quoted(s.goal)[0], miniwob_oracles.texts(s.all(lambda n: n.has("username")))
    user = match(goals.USER, s.goal)[1]
    every: list[str] = s.world.page.evaluate("[...document.querySelectorAll('.username')].map((n) => n.textContent)")
    # A task with a "Submit" names several posts, so one person's many posts are no obstacle.
    many = "Submit" in s.goal
    if every.count(user) != 1 and not many:
        raise OracleMiss(f"{s.goal!r}: {every.count(user)} posts by {user}")
    s.could_be(user, (other for other in users if other != user))
    s.could_be(f'"{action}"', (f'"{other}"' for other in POST_ICONS if many or other != "Share"))
    if not many:
        post = s.hunt(lambda n: n.has("username") and n.text == user, f"post by {user}")
        if action in POST_ICONS:
            icon = POST_ICONS[action]
            s.click(s.hunt(lambda n: n.has(icon) and n.row == post.row, action), f"Click {action} under {user}")
            return
        s.click(s.hunt(lambda n: n.has("more") and n.row == post.row, "more"), f"Open the menu of {user}")
        s.click(s.hunt(lambda n: n.tag == "li" and n.text.startswith(action) and n.place.clickable, action))
        return
    # "On all" means each post of the person, else the goal gives the number.
    wanted = int(match(r"on (\d+) post", s.goal)[1]) if " on all " not in s.goal else every.count(user)
    icon = POST_ICONS[action]
    for _ in range(wanted):
        # Posts done before are left out by their icon's state, so the loop takes the next one.
        test = lambda n: n.has(icon) and not n.has("active") and user in n.whole.split()  # noqa: E731
        s.click(s.hunt(test, action), f"Click {action} under a post by {user}")
    s.press("Submit")


def contacts(s: miniwob_oracles.Solver) -> None:
    name, kind = match(goals.CONTACT, s.goal).groups()
    kinds = {"phone": "phone number.", "email": "email.", "address": "address."}
    s.could_be(f"their {kinds[kind]}", (f"their {words}" for other, words in kinds.items() if other != kind))
    for _ in range(5):
        here = miniwob_oracles.texts(s.all(lambda n: n.has("name")))
        if name in here:
            s.click(s.hunt(lambda n: n.has(kind), kind))
            return
        s.could_be(f"Find {name} ", (f"Find {other} " for other in here))
        s.click(s.hunt(lambda n: n.has("page-link") and n.text == ">", "next page"), "Go to the next contact")
    raise OracleMiss(f"{s.goal!r}: no contact {name!r}")


def tree(s: miniwob_oracles.Solver) -> None:
    word = quoted(s.goal)[0]
    path = s.world.page.evaluate("name => vesperTreePath(name)", word)
    if path is None:
        raise OracleMiss(f"{s.goal!r}: {word!r} isn't the name of one entry")
    names: list[str] = s.world.page.evaluate("[...document.querySelectorAll('#tree span')].map((n) => n.textContent)")
    # A path by names is only one path if every name on it is unique.
    if any(names.count(step) > 1 for step in path):
        raise OracleMiss(f"{s.goal!r}: a folder on the way has another's name")
    for step in path:
        entries = miniwob_oracles.texts(s.all(lambda n: n.has("file") or n.has("folder")))
        s.could_be(f'"{word}"', (f'"{text}"' for text in entries if text not in path))
        s.click(s.hunt(lambda n, w=step: (n.has("file") or n.has("folder")) and n.text == w, f"entry {step!r}"))  # type: ignore[misc]


SOLVERS: dict[str, Callable[[miniwob_oracles.Solver], None]] = {
    "click-checkboxes-large": miniwob_oracles.boxes,
    "login-user": miniwob_oracles.login,
    "email-inbox-reply": mail,
    "search-engine": search,
    "enter-password": miniwob_oracles.password_twice,
    "social-media-some": posts,
    "click-tab-2": tab_link,
    "multi-layouts": miniwob_oracles.movies,
    "click-collapsible-2-nodelay": section_link,
    "use-autocomplete-nodelay": miniwob_oracles.autocomplete,
    "enter-date": miniwob_oracles.date,
    "click-checkboxes": miniwob_oracles.boxes,
    "login-user-popup": miniwob_oracles.login,
    "email-inbox-forward": mail,
    "social-media": posts,
    "form-sequence-2": miniwob_oracles.form_two,
    "enter-text": miniwob_oracles.enter_text,
    "use-spinner": miniwob_oracles.spinner,
    "click-menu-2": button_menu,
    "read-table": miniwob_oracles.read_table,
    "phone-book": contacts,
    "navigate-tree": tree,
    "choose-list": miniwob_oracles.choose_list,
    "click-tab-2-hard": tab_link,
    "email-inbox": mail,
    "social-media-all": posts,
    "multi-orderings": miniwob_oracles.movies,
    "enter-time": miniwob_oracles.time,
    "click-option": miniwob_oracles.boxes,
    "enter-text-2": miniwob_oracles.enter_text,
    "click-menu": menu,
    "email-inbox-nl-turk": mail,
    "simple-arithmetic": miniwob_oracles.arithmetic,
    "click-checkboxes-transfer": miniwob_oracles.boxes,
    "enter-text-dynamic": miniwob_oracles.enter_text,
    "click-scroll-list": miniwob_oracles.scroll_list,
    "email-inbox-star-reply": mail,
    "click-collapsible-nodelay": section,
    "click-button-sequence": miniwob_oracles.sequence,
    "click-dialog-2": miniwob_oracles.dialog,
    "click-link": miniwob_oracles.link,
    "click-button": miniwob_oracles.button,
    "click-tab": miniwob_oracles.tab,
    "focus-text-2": miniwob_oracles.focus,
    "click-test-2": miniwob_oracles.named_button,
    "click-widget": miniwob_oracles.widget,
    "email-inbox-delete": mail,
    "email-inbox-important": mail,
    "unicode-test": miniwob_oracles.button,
}
"""Task → its oracle, tasks of several steps first."""
APPS = {
    "email": "Mail",
    "social": "Social",
    "search": "Search",
    "phone": "Contacts",
    "enter": "Forms",
    "login": "Forms",
    "form": "Forms",
    "use": "Forms",
    "choose": "Forms",
    "multi": "Movies",
    "read": "Tables",
}
"""First word of a task → what its page is called; the others are "Widgets"."""
