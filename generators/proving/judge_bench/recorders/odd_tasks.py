"""Goals on the odd pages whose sound way looks odd: (app, kind of oddness) → goal, plan, state that proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Checks = tuple[tuple[str, Any], ...]
State = Mapping[str, Any]
Slots = Mapping[str, str]


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


def _shop_toast(state: State, rng: Random) -> OddTask:
    names = list(state["products"])
    name = rng.choice(names)
    return _task(
        rng,
        ("Add the {p} to the cart and open the cart", 'Put "{p}" into the cart, then show the cart'),
        {"p": name},
        {"p": names},
        lambda s: (("cart", {s["p"]: 1}), ("view", "cart")),
        _tap(f"open:{name}"),
        _tap("add", "toast"),
        _tap("cart", "toast"),
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


def _shop_undo(state: State, rng: Random) -> OddTask:
    names = list(state["products"])
    name = rng.choice(names)
    return _task(
        rng,
        (
            "Add the {p} to the cart, remove it there and undo the removal",
            'Put "{p}" into the cart, take it out of the cart, then bring it back with Undo',
        ),
        {"p": name},
        {"p": names},
        # Restored by Undo, not added anew: both give the same cart.
        lambda s: (("cart", {s["p"]: 1}), ("restored", [s["p"]])),
        _tap(f"open:{name}"),
        _tap("add"),
        _tap("cart"),
        _tap(f"remove:{name}", "undo_redo"),
        _tap("toast:undo", "undo_redo"),
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
def _inbox_refresh(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    name = rng.choice(names[:6])
    return _task(
        rng,
        ('Refresh the inbox, then open "{s}"', 'Look for new mail with Refresh and open the message "{s}"'),
        {"s": name},
        {"s": names},
        lambda s: (("refreshed", True), ("opened", [s["s"]])),
        _tap("refresh", "noop_refresh"),
        _tap(f"open:{name}"),
    )


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


def _inbox_wait(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    name = rng.choice(names)
    return _task(
        rng,
        ('Load the older messages, then delete "{s}"', 'Get the older messages and after that remove "{s}"'),
        {"s": name},
        {"s": names},
        lambda s: (("loaded", True), ("deleted", [s["s"]]), ("restored", [])),
        _tap("older", "wait"),
        _tap(f"del:{name}", beside=name),
    )


def _inbox_undo(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    name = rng.choice(names)
    return _task(
        rng,
        ('Delete "{s}" and undo it', 'Remove the message "{s}", then bring it back with Undo'),
        {"s": name},
        {"s": names},
        lambda s: (("deleted", [s["s"]]), ("restored", [s["s"]])),
        _tap(f"del:{name}", "undo_redo", name),
        _tap("toast:undo", "undo_redo"),
    )


def _inbox_scroll(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    name = rng.choice(names[:3])
    return _task(
        rng,
        (
            'Look through the inbox down to its end, then come back up and open "{s}"',
            'Scroll to the last message and back to the top; open "{s}" there',
        ),
        {"s": name},
        {"s": names},
        lambda s: (("ends.main", True), ("opened", [s["s"]])),
        Do("bottom"),
        Do("top"),
        _tap(f"open:{name}"),
    )


def _inbox_late(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    name = rng.choice(names)
    return _task(
        rng,
        ('Star the message "{s}"', 'Open "{s}" and give it a star'),
        {"s": name},
        {"s": names},
        lambda s: ((f"stars.{s['s']}", True), ("item", s["s"])),
        _tap(f"open:{name}"),
        _tap("star", "late_effect"),
        Do("wait", odd="late_effect"),
    )


def _inbox_alike(state: State, rng: Random) -> OddTask:
    names = list(state["present"])
    # From the end of the list, past many subjects that look alike.
    name = rng.choice(names[-4:])
    return _task(
        rng,
        ('Open the message "{s}"', 'Read the message with the subject "{s}"'),
        {"s": name},
        {"s": names},
        lambda s: (("opened", [s["s"]]),),
        _tap(f"open:{name}"),
    )


INBOX: dict[str, Callable[[State, Random], OddTask | None]] = {
    "noop_refresh": _inbox_refresh,
    "toast": _inbox_toast,
    "same_buttons": _inbox_rows,
    "wait": _inbox_wait,
    "undo_redo": _inbox_undo,
    "scroll_back": _inbox_scroll,
    "late_effect": _inbox_late,
    "look_alike_list": _inbox_alike,
    "animation": _inbox_refresh,
}
SHOP: dict[str, Callable[[State, Random], OddTask | None]] = {
    "repeated_click": _shop_plus,
    "toast": _shop_toast,
    "compare_pages": _shop_compare,
    "undo_redo": _shop_undo,
    "late_effect": _shop_late,
    "same_buttons": _shop_rows,
    "animation": _shop_toast,
}
