"""Tasks of the odd apps whose screens are a document or a list: notes, orders."""

from random import Random

from generators.proving.judge_bench.recorders import odd_tasks

COLOURS = ("Red", "Blue", "Green", "Black", "Purple")
FILTERS = ("All", "Open", "Shipped")


# --- notes ------------------------------------------------------------------------------------------------------------
def _other_colour(state: odd_tasks.State, rng: Random) -> tuple[str, tuple[str, ...]]:
    return rng.choice([colour for colour in COLOURS if colour != state["colour"]]), COLOURS


_notes_undo = odd_tasks._about(
    "c",
    _other_colour,
    ("Colour the title {c}, undo that, then redo it", "Make the title {c}; undo and redo it to compare"),
    lambda s: (("colour", s["c"]), ("undone", 1), ("redone", 1)),
    odd_tasks._tap("colour:{c}"),
    odd_tasks._tap("undo", "undo_redo"),
    odd_tasks._tap("redo", "undo_redo"),
)


def _notes_plus(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    more = rng.randint(3, 5)
    size = state["size"] + more
    return odd_tasks._task(
        rng,
        ("Set the size of the title to {n}", "Make the title larger: size {n}"),
        {"n": str(size)},
        {"n": [str(size + by) for by in (-2, -1, 1, 2)]},
        lambda s: (("size", int(s["n"])),),
        *[odd_tasks._tap("size:plus", "repeated_click")] * more,
    )


def _notes_pin(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    pins = [str(rng.randint(1000, 9999)) for _ in range(4)]
    return odd_tasks._task(
        rng,
        ("Lock the note with the PIN {w}", "Protect this note: lock it with PIN {w}"),
        {"w": pins[0]},
        {"w": pins},
        lambda s: (("locked", True), ("pin", s["w"])),
        odd_tasks._tap("lock"),
        odd_tasks.Do("write", "pin", pins[0], "noop_password"),
        odd_tasks._tap("setpin", "toast"),
    )


# --- orders -----------------------------------------------------------------------------------------------------------
def _open_orders(state: odd_tasks.State) -> list[str]:
    return [order for order in state["list"] if state["status"][order] == "Open"]


def _low_order(state: odd_tasks.State, rng: Random) -> tuple[str, list[str]]:
    names = _open_orders(state)
    # From the lower half, so that the list has to be scrolled past entries that look alike.
    return rng.choice(names[len(names) // 2 :]), names


_orders_alike = odd_tasks._about(
    "o",
    _low_order,
    ("Mark order {o} as shipped", "Open order {o} in the list and mark it as shipped"),
    lambda s: (("shipped", [s["o"]]),),
    odd_tasks._tap("order:{o}"),
    odd_tasks._tap("ship", "toast"),
)


def _orders_rows(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask | None:
    if not state["inline"]:
        return None
    names = _open_orders(state)
    # Shipped in sorted order: the state lists orders as they are shipped, the check in sorted order.
    chosen = sorted(odd_tasks._some(names[:9], rng, rng.randint(1, 2)))
    slots = dict(zip("op", chosen, strict=False))
    text = "orders {o} and {p}" if len(chosen) == 2 else "order {o}"
    return odd_tasks._task(
        rng,
        (f"Ship {text} from the list", f"Use the Ship button in the list for {text}"),
        slots,
        {slot: [n for n in names if n not in chosen] for slot in slots},
        # Nothing opened: the goal asks for the list's button, and an order's page has one too.
        lambda s: (("shipped", sorted(s.values())), ("opened", [])),
        *(odd_tasks._tap(f"ship:{order}", "same_buttons", f"Order {order}") for order in chosen),
    )


def _orders_pin(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    order, pins = rng.choice(state["list"][:8]), [str(rng.randint(1000, 9999)) for _ in range(4)]
    return odd_tasks._task(
        rng,
        ("Approve order {o} with the PIN {w}", "Open order {o} and approve it; the PIN is {w}"),
        {"o": order, "w": pins[0]},
        {"o": state["list"], "w": pins},
        lambda s: (("approved", {"id": s["o"], "pin": s["w"]}),),
        odd_tasks._tap(f"order:{order}"),
        odd_tasks._tap("approve"),
        odd_tasks.Do("write", "pin", pins[0], "noop_password"),
        odd_tasks._tap("confirm"),
    )


def _orders_compare(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask | None:
    names, items = _open_orders(state)[:6], state["items"]
    # Orders of as many items have no right answer.
    pairs = [(a, b) for a in names for b in names if items[a] != items[b]]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    which = rng.choice(("more", "fewer"))

    def best(s: odd_tasks.Slots) -> str:
        return (max if s["which"] == "more" else min)((s["a"], s["b"]), key=lambda order: items[order])

    slots, kind = {"a": a, "b": b, "which": which}, "compare_pages"
    return odd_tasks._task(
        rng,
        ("Open orders {a} and {b} and mark the one with {which} items as shipped",),
        slots,
        {"which": ("more", "fewer")},
        # The page that is opened last belongs to the order that is marked.
        lambda s: (("shipped", [best(s)]), ("opened", [s["a"], s["b"], best(s)])),
        odd_tasks._tap(f"order:{a}"),
        odd_tasks.Do("back", odd=kind),
        odd_tasks._tap(f"order:{b}", kind),
        odd_tasks.Do("back", odd=kind),
        odd_tasks._tap(f"order:{best(slots)}", kind),
        odd_tasks._tap("ship"),
    )


def _all(state: odd_tasks.State, rng: Random) -> tuple[str, tuple[str, ...]]:
    # The filter that a list begins with.
    return "All", FILTERS


NOTES: dict[str, odd_tasks.Maker] = {
    "undo_redo": _notes_undo,
    "repeated_click": _notes_plus,
    "late_effect": odd_tasks._about(
        "c",
        _other_colour,
        ("Colour the title {c} and keep the changes", "Make the title {c}, then keep that change"),
        lambda s: (("kept.colour", s["c"]),),
        odd_tasks._tap("colour:{c}"),
        odd_tasks._tap("keep", "late_effect"),
        odd_tasks.Do("wait", odd="late_effect"),
    ),
    "noop_selected": odd_tasks._about(
        "c",
        lambda state, rng: (state["colour"], COLOURS),
        ("Make sure the title is {c}, and make it bold", "The title must be {c} and bold"),
        lambda s: (("colour", s["c"]), ("bold", True)),
        odd_tasks._tap("colour:{c}", "noop_selected"),
        odd_tasks._tap("bold"),
    ),
    "noop_password": _notes_pin,
    "animation": _notes_undo,
}
ORDERS: dict[str, odd_tasks.Maker] = {
    "look_alike_list": _orders_alike,
    "same_buttons": _orders_rows,
    "scroll_back": odd_tasks._about(
        "f",
        _all,
        (
            "Look at the orders down to the last one, then export the list of {f} orders",
            "Scroll to the end of the list, come back up and export {f} orders",
        ),
        lambda s: (("ends.main", True), ("exported", s["f"])),
        odd_tasks.Do("bottom"),
        odd_tasks.Do("top"),
        odd_tasks._tap("export", "wait"),
    ),
    "noop_selected": odd_tasks._about(
        "f",
        _all,
        ("Make sure the filter is set to {f}, then export the list", "With the filter on {f}, export the orders"),
        lambda s: (("exported", s["f"]),),
        odd_tasks._tap("filter:All", "noop_selected"),
        odd_tasks._tap("export", "wait"),
    ),
    "noop_refresh": odd_tasks._about(
        "o",
        odd_tasks._of("list", slice(8)),
        ("Refresh the orders and open order {o}", "See if there are new orders with refresh, then open order {o}"),
        lambda s: (("refreshed", True), ("opened", [s["o"]])),
        odd_tasks._tap("refresh", "noop_refresh"),
        odd_tasks._tap("order:{o}"),
    ),
    "wait": odd_tasks._about(
        "f",
        lambda state, rng: (rng.choice(("Open", "Shipped")), FILTERS),
        ("Show only {f} orders and export them", "Set the filter to {f} and export the list"),
        lambda s: (("exported", s["f"]),),
        odd_tasks._tap("filter:{f}"),
        odd_tasks._tap("export", "wait"),
    ),
    "noop_password": _orders_pin,
    "compare_pages": _orders_compare,
    "animation": _orders_alike,
}
"""Kind of oddness → maker of a task."""
