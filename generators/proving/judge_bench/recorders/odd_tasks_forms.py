"""More goals on the odd pages (see `odd_tasks`): signing in, the planner, notes and orders."""

from random import Random

from generators.proving.judge_bench.recorders import odd_tasks

PASSWORDS = ("quiet-lamp", "river81", "Maple!42", "seven-owls", "blueKite9", "tin.drum7", "paper_boat", "Fjord#3")
TABS = ("Day", "Week", "Month")
REMINDERS = ("5 min", "15 min", "1 hour")


# --- account ----------------------------------------------------------------------------------------------------------
def _mails(state: odd_tasks.State, rng: Random) -> list[str]:
    first, _, last = state["mail"].partition("@")[0].partition(".")
    # Addresses that a hurried reader takes for the right one.
    return [state["mail"], f"{first}.{last}@example.net", f"{last}.{first}@example.org", f"{first}@example.org"]


def _sign_in(mail: str, secret: str, *between: odd_tasks.Do) -> tuple[odd_tasks.Do, ...]:
    return (
        odd_tasks.Do("write", "email", mail),
        odd_tasks.Do("write", "password", secret, "noop_password"),
        *between,
        odd_tasks._tap("submit", "wait"),
    )


def _account_password(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    mails, secrets = _mails(state, rng), odd_tasks._some(PASSWORDS, rng, 4)
    return odd_tasks._task(
        rng,
        ('Sign in as {m} with the password "{w}"', 'Log in with the email {m} and the password "{w}"'),
        {"m": mails[0], "w": secrets[0]},
        {"m": mails, "w": secrets},
        lambda s: (("signed.email", s["m"]), ("signed.secret", s["w"])),
        *_sign_in(mails[0], secrets[0]),
    )


def _account_selected(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    mails, secrets, kind = _mails(state, rng), odd_tasks._some(PASSWORDS, rng, 4), state["kind"]
    return odd_tasks._task(
        rng,
        (
            'Make sure the account type is {k}, then sign in as {m} with the password "{w}"',
            'Sign in as {m}, password "{w}"; the account type must be {k}',
        ),
        {"m": mails[0], "w": secrets[0], "k": kind},
        {"k": ("Personal", "Business"), "m": mails, "w": secrets},
        # The whole record at once: each slot changed alone makes another.
        lambda s: (("signed", {"email": s["m"], "secret": s["w"], "kind": s["k"]}),),
        *_sign_in(mails[0], secrets[0], odd_tasks._tap(f"kind:{kind}", "noop_selected")),
    )


def _account_change(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    mails, (old, new, *more) = _mails(state, rng), odd_tasks._some(PASSWORDS, rng, 5)
    return odd_tasks._task(
        rng,
        ('Sign in as {m} with the password "{w}" and change the password to "{n}"',),
        {"m": mails[0], "w": old, "n": new},
        {"m": mails, "n": more},
        lambda s: (("signed.email", s["m"]), ("changed", {"old": s["w"], "fresh": s["n"]})),
        *_sign_in(mails[0], old),
        odd_tasks._tap("tab:Security"),
        odd_tasks.Do("write", "old", old, "noop_password"),
        odd_tasks.Do("write", "new", new, "noop_password"),
        odd_tasks._tap("change", "toast"),
    )


# --- planner ----------------------------------------------------------------------------------------------------------
def _go_tab(state: odd_tasks.State, tab: str) -> tuple[odd_tasks.Do, ...]:
    return () if state["tab"] == tab else (odd_tasks._tap(f"tab:{tab}"),)


def _planner_refresh(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    tab = rng.choice(TABS)
    return odd_tasks._task(
        rng,
        ("Refresh the planner and save the {t} view", "Press refresh in the planner, then save it in the {t} view"),
        {"t": tab},
        {"t": TABS},
        lambda s: (("refreshed", True), ("saved.tab", s["t"])),
        odd_tasks._tap("refresh", "noop_refresh"),
        *_go_tab(state, tab),
        odd_tasks._tap("save"),
    )


def _planner_compare(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    a, b = odd_tasks._some(TABS, rng, 2)
    which = rng.choice(("more", "fewer"))

    def best(s: odd_tasks.Slots) -> str:
        return (max if s["which"] == "more" else min)((s["a"], s["b"]), key=lambda tab: state["counts"][tab])

    slots, kind = {"a": a, "b": b, "which": which}, "compare_pages"
    return odd_tasks._task(
        rng,
        (
            "Find out whether {a} or {b} has {which} entries and save that view",
            "Compare the {a} view with the {b} view and save the one with {which} entries",
        ),
        slots,
        {"which": ("more", "fewer")},
        lambda s: ((f"seen.{s['a']}", True), (f"seen.{s['b']}", True), ("saved.tab", best(s))),
        # Seen in this order, and back to the first where that one is to be saved.
        *(odd_tasks._tap(f"tab:{tab}", kind) for tab in (a, b, *((a,) if best(slots) == a else ()))),
        odd_tasks._tap("save"),
    )


def _planner_plus(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    more = rng.randint(3, 6)
    count = state["minutes"] + more
    return odd_tasks._task(
        rng,
        (
            "Set the length of a meeting to {n} minutes and save the options",
            "Make meetings {n} minutes long and save that",
        ),
        {"n": str(count)},
        {"n": [str(count + by) for by in (-2, -1, 1, 5)]},
        lambda s: (("saved.minutes", int(s["n"])),),
        odd_tasks._tap("settings"),
        *[odd_tasks._tap("minutes:plus", "repeated_click")] * more,
        odd_tasks._tap("save"),
    )


def _planner_late(state: odd_tasks.State, rng: Random) -> odd_tasks.OddTask:
    tab = rng.choice(TABS)
    go = _go_tab(state, tab)
    # Without a tab to go to there is nothing to do meanwhile but wait.
    after = [odd_tasks.Do(d.verb, d.key, odd="late_effect") for d in go] or [odd_tasks.Do("wait", odd="late_effect")]
    return odd_tasks._task(
        rng,
        ("Sync the planner and then save the {t} view", "Start a sync; after that, save the planner in the {t} view"),
        {"t": tab},
        {"t": TABS},
        lambda s: (("synced", True), ("saved.tab", s["t"])),
        odd_tasks._tap("sync", "late_effect"),
        *after,
        odd_tasks._tap("save"),
    )


def _other_reminder(state: odd_tasks.State, rng: Random) -> tuple[str, tuple[str, ...]]:
    return rng.choice([option for option in REMINDERS if option != state["remind"]]), REMINDERS


_planner_toast = odd_tasks._about(
    "r",
    _other_reminder,
    ("Set the reminder to {r}, save it and go back", "Change the reminder to {r}, save, and return to the planner"),
    lambda s: (("saved.remind", s["r"]), ("view", "main")),
    odd_tasks._tap("settings"),
    odd_tasks._tap("remind:{r}"),
    odd_tasks._tap("save", "toast"),
    odd_tasks.Do("back", odd="toast"),
)
ACCOUNT: dict[str, odd_tasks.Maker] = {
    "noop_password": _account_password,
    "noop_selected": _account_selected,
    "wait": _account_password,
    "toast": _account_change,
    "animation": _account_password,
}
PLANNER: dict[str, odd_tasks.Maker] = {
    "noop_selected": odd_tasks._about(
        "t",
        lambda state, rng: (state["tab"], TABS),
        (
            "Make sure the {t} view is selected and save the view",
            "The {t} view should be selected: check that, then save",
        ),
        lambda s: (("tab", s["t"]), ("saved.tab", s["t"])),
        odd_tasks._tap("tab:{t}", "noop_selected"),
        odd_tasks._tap("save"),
    ),
    "noop_refresh": _planner_refresh,
    "compare_pages": _planner_compare,
    "repeated_click": _planner_plus,
    "late_effect": _planner_late,
    "toast": _planner_toast,
    "animation": _planner_toast,
}
"""Kind of oddness → maker of a task."""
