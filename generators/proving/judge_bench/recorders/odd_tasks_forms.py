"""More goals on the odd pages (see `odd_tasks`): signing in, the planner, notes and orders."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from generators.proving.judge_bench.recorders.odd_tasks import (
    INBOX,
    SHOP,
    Do,
    OddTask,
    Slots,
    State,
    _some,
    _tap,
    _task,
)

PASSWORDS = ("quiet-lamp", "river81", "Maple!42", "seven-owls", "blueKite9", "tin.drum7", "paper_boat", "Fjord#3")
TABS = ("Day", "Week", "Month")
COLOURS = ("Red", "Blue", "Green", "Black", "Purple")
FILTERS = ("All", "Open", "Shipped")


# --- account ----------------------------------------------------------------------------------------------------------
def _mails(state: State, rng: Random) -> list[str]:
    first, _, last = state["mail"].partition("@")[0].partition(".")
    return [state["mail"], f"{first}.{last}@example.net", f"{last}.{first}@example.org", f"{first}@example.org"]


def _sign_in(mail: str, secret: str, *between: Do) -> tuple[Do, ...]:
    return (
        Do("write", "email", mail),
        Do("write", "password", secret, "noop_password"),
        *between,
        _tap("submit", "wait"),
    )


def _account_password(state: State, rng: Random) -> OddTask:
    mails, secrets = _mails(state, rng), _some(PASSWORDS, rng, 4)
    return _task(
        rng,
        ('Sign in as {m} with the password "{w}"', 'Log in with the email {m} and the password "{w}"'),
        {"m": mails[0], "w": secrets[0]},
        {"m": mails, "w": secrets},
        lambda s: (("signed.email", s["m"]), ("signed.secret", s["w"])),
        *_sign_in(mails[0], secrets[0]),
    )


def _account_selected(state: State, rng: Random) -> OddTask:
    mails, secrets, kind = _mails(state, rng), _some(PASSWORDS, rng, 4), state["kind"]
    return _task(
        rng,
        (
            'Make sure the account type is {k}, then sign in as {m} with the password "{w}"',
            'Sign in as {m}, password "{w}"; the account type must be {k}',
        ),
        {"m": mails[0], "w": secrets[0], "k": kind},
        {"k": ("Personal", "Business"), "m": mails, "w": secrets},
        lambda s: (("signed", {"email": s["m"], "secret": s["w"], "kind": s["k"]}),),
        *_sign_in(mails[0], secrets[0], _tap(f"kind:{kind}", "noop_selected")),
    )


def _account_change(state: State, rng: Random) -> OddTask:
    mails, (old, new, *more) = _mails(state, rng), _some(PASSWORDS, rng, 5)
    return _task(
        rng,
        ('Sign in as {m} with the password "{w}" and change the password to "{n}"',),
        {"m": mails[0], "w": old, "n": new},
        {"m": mails, "n": more},
        lambda s: (("signed.email", s["m"]), ("changed", {"old": s["w"], "fresh": s["n"]})),
        *_sign_in(mails[0], old),
        _tap("tab:Security"),
        Do("write", "old", old, "noop_password"),
        Do("write", "new", new, "noop_password"),
        _tap("change", "toast"),
    )


# --- planner ----------------------------------------------------------------------------------------------------------
def _go_tab(state: State, tab: str) -> tuple[Do, ...]:
    return () if state["tab"] == tab else (_tap(f"tab:{tab}"),)


def _planner_selected(state: State, rng: Random) -> OddTask:
    tab = state["tab"]
    return _task(
        rng,
        (
            "Make sure the {t} view is selected and save the view",
            "The {t} view should be selected: check that, then save",
        ),
        {"t": tab},
        {"t": TABS},
        lambda s: (("tab", s["t"]), ("saved.tab", s["t"])),
        _tap(f"tab:{tab}", "noop_selected"),
        _tap("save"),
    )


def _planner_refresh(state: State, rng: Random) -> OddTask:
    tab = rng.choice(TABS)
    return _task(
        rng,
        ("Refresh the planner and save the {t} view", "Press refresh in the planner, then save it in the {t} view"),
        {"t": tab},
        {"t": TABS},
        lambda s: (("refreshed", True), ("saved.tab", s["t"])),
        _tap("refresh", "noop_refresh"),
        *_go_tab(state, tab),
        _tap("save"),
    )


def _planner_compare(state: State, rng: Random) -> OddTask:
    a, b = _some(TABS, rng, 2)
    which = rng.choice(("more", "fewer"))

    def best(s: Slots) -> str:
        return (max if s["which"] == "more" else min)((s["a"], s["b"]), key=lambda tab: state["counts"][tab])

    slots, kind = {"a": a, "b": b, "which": which}, "compare_pages"
    return _task(
        rng,
        (
            "Find out whether {a} or {b} has {which} entries and save that view",
            "Compare the {a} view with the {b} view and save the one with {which} entries",
        ),
        slots,
        {"which": ("more", "fewer")},
        lambda s: ((f"seen.{s['a']}", True), (f"seen.{s['b']}", True), ("saved.tab", best(s))),
        *(_tap(f"tab:{tab}", kind) for tab in (a, b, *((a,) if best(slots) == a else ()))),
        _tap("save"),
    )


def _planner_plus(state: State, rng: Random) -> OddTask:
    more = rng.randint(3, 6)
    count = state["minutes"] + more
    return _task(
        rng,
        (
            "Set the length of a meeting to {n} minutes and save the options",
            "Make meetings {n} minutes long and save that",
        ),
        {"n": str(count)},
        {"n": [str(count + by) for by in (-2, -1, 1, 5)]},
        lambda s: (("saved.minutes", int(s["n"])),),
        _tap("settings"),
        *[_tap("minutes:plus", "repeated_click")] * more,
        _tap("save"),
    )


def _planner_late(state: State, rng: Random) -> OddTask:
    tab = rng.choice(TABS)
    go = _go_tab(state, tab)
    after = [Do(d.verb, d.key, odd="late_effect") for d in go] or [Do("wait", odd="late_effect")]
    return _task(
        rng,
        ("Sync the planner and then save the {t} view", "Start a sync; after that, save the planner in the {t} view"),
        {"t": tab},
        {"t": TABS},
        lambda s: (("synced", True), ("saved.tab", s["t"])),
        _tap("sync", "late_effect"),
        *after,
        _tap("save"),
    )


def _planner_toast(state: State, rng: Random) -> OddTask:
    options = ("5 min", "15 min", "1 hour")
    remind = rng.choice([o for o in options if o != state["remind"]])
    return _task(
        rng,
        ("Set the reminder to {r}, save it and go back", "Change the reminder to {r}, save, and return to the planner"),
        {"r": remind},
        {"r": options},
        lambda s: (("saved.remind", s["r"]), ("view", "main")),
        _tap("settings"),
        _tap(f"remind:{remind}"),
        _tap("save", "toast"),
        Do("back", odd="toast"),
    )


# --- notes ------------------------------------------------------------------------------------------------------------
def _other_colour(state: State, rng: Random) -> str:
    return rng.choice([colour for colour in COLOURS if colour != state["colour"]])


def _notes_undo(state: State, rng: Random) -> OddTask:
    colour = _other_colour(state, rng)
    return _task(
        rng,
        ("Colour the title {c}, undo that, then redo it", "Make the title {c}; undo and redo it to compare"),
        {"c": colour},
        {"c": COLOURS},
        lambda s: (("colour", s["c"]), ("undone", 1), ("redone", 1)),
        _tap(f"colour:{colour}"),
        _tap("undo", "undo_redo"),
        _tap("redo", "undo_redo"),
    )


def _notes_plus(state: State, rng: Random) -> OddTask:
    more = rng.randint(3, 5)
    size = state["size"] + more
    return _task(
        rng,
        ("Set the size of the title to {n}", "Make the title larger: size {n}"),
        {"n": str(size)},
        {"n": [str(size + by) for by in (-2, -1, 1, 2)]},
        lambda s: (("size", int(s["n"])),),
        *[_tap("size:plus", "repeated_click")] * more,
    )


def _notes_late(state: State, rng: Random) -> OddTask:
    colour = _other_colour(state, rng)
    return _task(
        rng,
        ("Colour the title {c} and keep the changes", "Make the title {c}, then keep that change"),
        {"c": colour},
        {"c": COLOURS},
        lambda s: (("kept.colour", s["c"]),),
        _tap(f"colour:{colour}"),
        _tap("keep", "late_effect"),
        Do("wait", odd="late_effect"),
    )


def _notes_selected(state: State, rng: Random) -> OddTask:
    colour = state["colour"]
    return _task(
        rng,
        ("Make sure the title is {c}, and make it bold", "The title must be {c} and bold"),
        {"c": colour},
        {"c": COLOURS},
        lambda s: (("colour", s["c"]), ("bold", True)),
        _tap(f"colour:{colour}", "noop_selected"),
        _tap("bold"),
    )


def _notes_pin(state: State, rng: Random) -> OddTask:
    pins = [str(rng.randint(1000, 9999)) for _ in range(4)]
    return _task(
        rng,
        ("Lock the note with the PIN {w}", "Protect this note: lock it with PIN {w}"),
        {"w": pins[0]},
        {"w": pins},
        lambda s: (("locked", True), ("pin", s["w"])),
        _tap("lock"),
        Do("write", "pin", pins[0], "noop_password"),
        _tap("setpin", "toast"),
    )


# --- orders -----------------------------------------------------------------------------------------------------------
def _open_orders(state: State) -> list[str]:
    return [order for order in state["list"] if state["status"][order] == "Open"]


def _orders_alike(state: State, rng: Random) -> OddTask:
    names = _open_orders(state)
    order = rng.choice(names[len(names) // 2 :])
    return _task(
        rng,
        ("Mark order {o} as shipped", "Open order {o} in the list and mark it as shipped"),
        {"o": order},
        {"o": names},
        lambda s: (("shipped", [s["o"]]),),
        _tap(f"order:{order}"),
        _tap("ship", "toast"),
    )


def _orders_rows(state: State, rng: Random) -> OddTask | None:
    if not state["inline"]:
        return None
    names = _open_orders(state)
    chosen = sorted(_some(names[:9], rng, rng.randint(1, 2)))
    slots = dict(zip("op", chosen, strict=False))
    text = "orders {o} and {p}" if len(chosen) == 2 else "order {o}"
    return _task(
        rng,
        (f"Ship {text} from the list", f"Use the Ship button in the list for {text}"),
        slots,
        {slot: [n for n in names if n not in chosen] for slot in slots},
        lambda s: (("shipped", sorted(s.values())), ("opened", [])),
        *(_tap(f"ship:{order}", "same_buttons", f"Order {order}") for order in chosen),
    )


def _orders_scroll(state: State, rng: Random) -> OddTask:
    return _task(
        rng,
        (
            "Look at the orders down to the last one, then export the list of {f} orders",
            "Scroll to the end of the list, come back up and export {f} orders",
        ),
        {"f": "All"},
        {"f": FILTERS},
        lambda s: (("ends.main", True), ("exported", s["f"])),
        Do("bottom"),
        Do("top"),
        _tap("export", "wait"),
    )


def _orders_selected(state: State, rng: Random) -> OddTask:
    return _task(
        rng,
        ("Make sure the filter is set to {f}, then export the list", "With the filter on {f}, export the orders"),
        {"f": "All"},
        {"f": FILTERS},
        lambda s: (("exported", s["f"]),),
        _tap("filter:All", "noop_selected"),
        _tap("export", "wait"),
    )


def _orders_refresh(state: State, rng: Random) -> OddTask:
    order = rng.choice(state["list"][:8])
    return _task(
        rng,
        ("Refresh the orders and open order {o}", "See if there are new orders with refresh, then open order {o}"),
        {"o": order},
        {"o": state["list"]},
        lambda s: (("refreshed", True), ("opened", [s["o"]])),
        _tap("refresh", "noop_refresh"),
        _tap(f"order:{order}"),
    )


def _orders_wait(state: State, rng: Random) -> OddTask:
    which = rng.choice(("Open", "Shipped"))
    return _task(
        rng,
        ("Show only {f} orders and export them", "Set the filter to {f} and export the list"),
        {"f": which},
        {"f": FILTERS},
        lambda s: (("exported", s["f"]),),
        _tap(f"filter:{which}"),
        _tap("export", "wait"),
    )


def _orders_pin(state: State, rng: Random) -> OddTask:
    order, pins = rng.choice(state["list"][:8]), [str(rng.randint(1000, 9999)) for _ in range(4)]
    return _task(
        rng,
        ("Approve order {o} with the PIN {w}", "Open order {o} and approve it; the PIN is {w}"),
        {"o": order, "w": pins[0]},
        {"o": state["list"], "w": pins},
        lambda s: (("approved", {"id": s["o"], "pin": s["w"]}),),
        _tap(f"order:{order}"),
        _tap("approve"),
        Do("write", "pin", pins[0], "noop_password"),
        _tap("confirm"),
    )


def _orders_compare(state: State, rng: Random) -> OddTask | None:
    names, items = _open_orders(state)[:6], state["items"]
    pairs = [(a, b) for a in names for b in names if items[a] != items[b]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    which = rng.choice(("more", "fewer"))

    def best(s: Slots) -> str:
        return (max if s["which"] == "more" else min)((s["a"], s["b"]), key=lambda order: items[order])

    slots, kind = {"a": a, "b": b, "which": which}, "compare_pages"
    return _task(
        rng,
        ("Open orders {a} and {b} and mark the one with {which} items as shipped",),
        slots,
        {"which": ("more", "fewer")},
        lambda s: (("shipped", [best(s)]), ("opened", [s["a"], s["b"], best(s)])),
        _tap(f"order:{a}"),
        Do("back", odd=kind),
        _tap(f"order:{b}", kind),
        Do("back", odd=kind),
        _tap(f"order:{best(slots)}", kind),
        _tap("ship"),
    )


SCENARIOS: dict[str, dict[str, Callable[[State, Random], OddTask | None]]] = {
    "shop": SHOP,
    "inbox": INBOX,
    "account": {
        "noop_password": _account_password,
        "noop_selected": _account_selected,
        "wait": _account_password,
        "toast": _account_change,
        "animation": _account_password,
    },
    "planner": {
        "noop_selected": _planner_selected,
        "noop_refresh": _planner_refresh,
        "compare_pages": _planner_compare,
        "repeated_click": _planner_plus,
        "late_effect": _planner_late,
        "toast": _planner_toast,
        "animation": _planner_toast,
    },
    "notes": {
        "undo_redo": _notes_undo,
        "repeated_click": _notes_plus,
        "late_effect": _notes_late,
        "noop_selected": _notes_selected,
        "noop_password": _notes_pin,
        "animation": _notes_undo,
    },
    "orders": {
        "look_alike_list": _orders_alike,
        "same_buttons": _orders_rows,
        "scroll_back": _orders_scroll,
        "noop_selected": _orders_selected,
        "noop_refresh": _orders_refresh,
        "wait": _orders_wait,
        "noop_password": _orders_pin,
        "compare_pages": _orders_compare,
        "animation": _orders_alike,
    },
}
"""app → kind of oddness → maker of a task."""
KINDS = tuple(sorted({kind for kinds in SCENARIOS.values() for kind in kinds}))
