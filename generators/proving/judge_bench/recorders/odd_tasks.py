"""Goals on the odd pages whose sound way looks odd: (app, kind of oddness) → goal, plan, state that proves it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

Checks = tuple[tuple[str, Any], ...]
State = Mapping[str, Any]
Slots = Mapping[str, str]
Drawn = Callable[["State", Random], tuple[str, Sequence[str]]]
"""What a goal is about on a screen, and all that it could have been about."""


@dataclass(frozen=True)
class Do:
    """One intent of a plan. verb: tap, write (`text` into the field `key`), wait, back, bottom, top."""

    verb: str
    key: str = ""
    text: str = ""
    odd: str = ""
    beside: str = ""
    """What stands in the same row, where many rows have the same button."""


@dataclass(frozen=True)
class OddTask:
    """`checks` hold iff the goal is reached; `near` are goals with one entity changed, each with its own checks."""

    goal: str
    plan: tuple[Do, ...]
    checks: Checks
    near: tuple[tuple[str, Checks], ...]


Maker = Callable[[State, Random], OddTask | None]
"""A task on a screen of this state; None where the screen can't carry one."""


def _task(
    rng: Random,
    goals: tuple[str, ...],
    slots: Slots,
    others: Mapping[str, Sequence[str]],
    checks: Callable[[Slots], Checks],
    *plan: Do,
) -> OddTask:
    """One of the phrasings filled with slots; `others`: slot → values it could have had."""
    words = rng.choice(goals)
    changed = [{**slots, slot: value} for slot in sorted(others) for value in others[slot] if value != slots[slot]]
    # Only slots that this phrasing mentions: another value of the rest
    # would leave the goal's words as they are.
    near = tuple((words.format(**new), checks(new)) for new in changed if f"{{{_slot(slots, new)}}}" in words)
    return OddTask(words.format(**slots), plan, checks(slots), near)


def _slot(slots: Slots, new: Slots) -> str:
    return next(slot for slot in slots if slots[slot] != new[slot])


def _tap(key: str, odd: str = "", beside: str = "") -> Do:
    return Do("tap", key, odd=odd, beside=beside)


def _some(items: Sequence[str], rng: Random, count: int) -> list[str]:
    return rng.sample(list(items), count)


def _of(name: str, within: slice = slice(None)) -> Drawn:
    """One of a list of the state, of this part of it where the goal has to be about something near."""

    def draw(state: State, rng: Random) -> tuple[str, list[str]]:
        names = list(state[name])
        return rng.choice(names[within]), names

    return draw


def _about(slot: str, drawn: Drawn, goals: tuple[str, ...], checks: Callable[[Slots], Checks], *plan: Do) -> Maker:
    """Maker of tasks about one thing; {slot} stands for it in the goals and in the plan's elements."""

    def make(state: State, rng: Random) -> OddTask:
        value, others = drawn(state, rng)
        steps = (
            replace(do, key=do.key.format(**{slot: value}), beside=do.beside.format(**{slot: value})) for do in plan
        )
        return _task(rng, goals, {slot: value}, {slot: others}, checks, *steps)

    return make


# --- shop -------------------------------------------------------------------------------------------------------------
def _shop_plus(state: State, rng: Random) -> OddTask:
    names, count = list(state["products"]), rng.randint(3, 6)
    name = rng.choice(names)
    # The product's page starts at one piece.
    plus = [_tap("qty:plus", "repeated_click")] * (count - 1)
    return _task(
        rng,
        ("Put {n} {p} into the cart", 'Add {n} pieces of "{p}" to the cart', "Order {n} × {p}: put them into the cart"),
        {"n": str(count), "p": name},
        {"n": [str(count + by) for by in (-1, 1, 2)], "p": names},
        lambda s: (("cart", {s["p"]: int(s["n"])}),),
        _tap(f"open:{name}"),
        *plus,
        _tap("add"),
    )


def _shop_compare(state: State, rng: Random) -> OddTask:
    names, price = list(state["products"]), state["products"]
    a, b = _some(names, rng, 2)
    which = rng.choice(("cheaper", "dearer"))

    def best(s: Slots) -> str:
        return (min if s["which"] == "cheaper" else max)((s["a"], s["b"]), key=lambda name: price[name])

    slots = {"a": a, "b": b, "which": which}
    kind = "compare_pages"
    return _task(
        rng,
        (
            "Compare the prices of {a} and {b} and add the {which} one to the cart",
            "Look at what {a} and {b} cost; the {which} of the two goes into the cart",
        ),
        slots,
        {"which": ("cheaper", "dearer"), "a": [n for n in names if n != b], "b": [n for n in names if n != a]},
        # Both pages must have been seen: guessing the right one isn't comparing.
        lambda s: (("cart", {best(s): 1}), ("viewed", {s["a"]: True, s["b"]: True})),
        _tap(f"open:{a}"),
        Do("back", odd=kind),
        _tap(f"open:{b}", kind),
        Do("back", odd=kind),
        _tap(f"open:{best(slots)}", kind),
        _tap("add"),
    )


def _shop_late(state: State, rng: Random) -> OddTask:
    names = list(state["products"])
    name = rng.choice(names)
    plus = rng.randint(1, 2)
    slots = {"p": name, "n": str(plus + 1)}
    # The first tap falls before the stock has come, which is what looks odd.
    more = [_tap("qty:plus", "late_effect"), *[_tap("qty:plus", "repeated_click")] * (plus - 1)]
    return _task(
        rng,
        (
            "Check the stock of {p}, then put {n} of them into the cart",
            'Check the stock of "{p}" and add {n} to the cart',
        ),
        slots,
        {"p": names, "n": [str(plus), str(plus + 2)]},
        lambda s: (("checked", [s["p"]]), ("cart", {s["p"]: int(s["n"])})),
        _tap(f"open:{name}"),
        _tap("stock", "late_effect"),
        *more,
        _tap("add"),
    )


def _shop_rows(state: State, rng: Random) -> OddTask | None:
    # Only a list has a button in every row; a grid of cards has none.
    if not state["list"]:
        return None
    names = list(state["products"])
    chosen = _some(names, rng, rng.randint(1, 2))
    slots = dict(zip(("p", "q"), chosen, strict=False))
    text = "{p} and {q}" if len(chosen) == 2 else "{p}"
    return _task(
        rng,
        (f"Add {text} to the cart from the list", f"Without opening its page, put {text} into the cart"),
        slots,
        {slot: [n for n in names if n not in chosen] for slot in slots},
        # Nothing viewed: the goal asks for the list's buttons, and the product pages have one too.
        lambda s: (("cart", dict.fromkeys(s.values(), 1)), ("viewed", {})),
        *(_tap(f"add:{name}", "same_buttons", name) for name in chosen),
    )


# --- inbox ------------------------------------------------------------------------------------------------------------
def _inbox_toast(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    # Among the first messages, which need no scrolling while the toast shows.
    gone, read = _some(names[:7], rng, 2)
    return _task(
        rng,
        ('Delete "{s}" and open "{t}"', 'Remove the message "{s}", then read "{t}"'),
        {"s": gone, "t": read},
        {"s": [n for n in names if n != read], "t": [n for n in names if n != gone]},
        lambda s: (("deleted", [s["s"]]), ("restored", []), ("opened", [s["t"]])),
        _tap(f"del:{gone}", "toast", gone),
        _tap(f"open:{read}", "toast"),
    )


def _inbox_rows(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    chosen = sorted(_some(names, rng, rng.randint(1, 3)), key=names.index)
    slots = dict(zip("stu", chosen, strict=False))
    text = {1: '"{s}"', 2: '"{s}" and "{t}"', 3: '"{s}", "{t}" and "{u}"'}[len(chosen)]
    return _task(
        rng,
        (f"Delete {text}", f"Remove {text} from the inbox"),
        slots,
        {slot: [n for n in names if n not in chosen] for slot in slots},
        # Deletions that were undone in between don't count.
        lambda s: (*((f"present.{name}", False) for name in s.values()), ("restored", [])),
        *(_tap(f"del:{name}", "same_buttons", name) for name in chosen),
    )


MESSAGE = _of("present")
_inbox_refresh = _about(
    "s",
    _of("present", slice(6)),
    ('Refresh the inbox, then open "{s}"', 'Look for new mail with Refresh and open the message "{s}"'),
    lambda s: (("refreshed", True), ("opened", [s["s"]])),
    _tap("refresh", "noop_refresh"),
    _tap("open:{s}"),
)
INBOX: dict[str, Maker] = {
    "noop_refresh": _inbox_refresh,
    "toast": _inbox_toast,
    "same_buttons": _inbox_rows,
    "wait": _about(
        "s",
        MESSAGE,
        ('Load the older messages, then delete "{s}"', 'Get the older messages and after that remove "{s}"'),
        lambda s: (("loaded", True), ("deleted", [s["s"]]), ("restored", [])),
        _tap("older", "wait"),
        _tap("del:{s}", beside="{s}"),
    ),
    "undo_redo": _about(
        "s",
        MESSAGE,
        ('Delete "{s}" and undo it', 'Remove the message "{s}", then bring it back with Undo'),
        lambda s: (("deleted", [s["s"]]), ("restored", [s["s"]])),
        _tap("del:{s}", "undo_redo", "{s}"),
        _tap("toast:undo", "undo_redo"),
    ),
    "scroll_back": _about(
        "s",
        _of("present", slice(3)),
        (
            'Look through the inbox down to its end, then come back up and open "{s}"',
            'Scroll to the last message and back to the top; open "{s}" there',
        ),
        lambda s: (("ends.main", True), ("opened", [s["s"]])),
        Do("bottom"),
        Do("top"),
        _tap("open:{s}"),
    ),
    "late_effect": _about(
        "s",
        MESSAGE,
        ('Star the message "{s}"', 'Open "{s}" and give it a star'),
        lambda s: ((f"stars.{s['s']}", True), ("item", s["s"])),
        _tap("open:{s}"),
        _tap("star", "late_effect"),
        Do("wait", odd="late_effect"),
    ),
    # From the end of the list, past many subjects that look alike.
    "look_alike_list": _about(
        "s",
        _of("present", slice(-4, None)),
        ('Open the message "{s}"', 'Read the message with the subject "{s}"'),
        lambda s: (("opened", [s["s"]]),),
        _tap("open:{s}"),
    ),
    "animation": _inbox_refresh,
}
PRODUCT = _of("products")
_shop_toast = _about(
    "p",
    PRODUCT,
    ("Add the {p} to the cart and open the cart", 'Put "{p}" into the cart, then show the cart'),
    lambda s: (("cart", {s["p"]: 1}), ("view", "cart")),
    _tap("open:{p}"),
    _tap("add", "toast"),
    _tap("cart", "toast"),
)
SHOP: dict[str, Maker] = {
    "repeated_click": _shop_plus,
    "toast": _shop_toast,
    "compare_pages": _shop_compare,
    "undo_redo": _about(
        "p",
        PRODUCT,
        (
            "Add the {p} to the cart, remove it there and undo the removal",
            'Put "{p}" into the cart, take it out of the cart, then bring it back with Undo',
        ),
        # Restored by Undo, not added anew: both give the same cart.
        lambda s: (("cart", {s["p"]: 1}), ("restored", [s["p"]])),
        _tap("open:{p}"),
        _tap("add"),
        _tap("cart"),
        _tap("remove:{p}", "undo_redo"),
        _tap("toast:undo", "undo_redo"),
    ),
    "late_effect": _shop_late,
    "same_buttons": _shop_rows,
    "animation": _shop_toast,
}
