"""Tasks over two or more apps: what one app says is needed in another. What must be said is put in as `extras`."""

from random import Random
from typing import Any

from generators.worlds.phone import words as w
from generators.worlds.phone.phone_task import PhoneTask, added, changed, compose, effects, fill, part, tap, valued
from generators.worlds.phone.snapshot import Snapshot, start_snapshot
from generators.worlds.phone.tasks_people import PEOPLE, TEXTS, full, new_person
from generators.worlds.phone.tasks_storage import CART, VALUES, cart_plan
from generators.worlds.phone.tasks_time import (
    ALARMS,
    EVENTS,
    alarm_plan,
    day_words,
    event_fields,
    event_plan,
    free_time,
)

Start = dict[str, Any]


def _said(start: Start, s: Snapshot, rng: Random, text: str) -> tuple[Start, Snapshot, dict[str, Any]]:
    """A start in which a conversation ends with this text, and the conversation."""
    t = rng.choice([t for t in s["data"]["messages"]["threads"] if not t["archived"]])
    start = {
        **start,
        "extras": [["messages.texts", {"id": "x1", "thread": t["id"], "me": False, "text": text, "starred": False}]],
    }
    return start, start_snapshot(start), t


# "x1" collides with no id of a snapshot: those have a letter and a number of the collection.
def _noted(start: Start, title: str, body: str) -> tuple[Start, Snapshot]:
    """A start with one note more, `x1`."""
    note = {"id": "x1", "title": title, "body": body, "label": "None", "pinned": False, "items": []}
    start = {**start, "extras": [["notes.notes", note]]}
    return start, start_snapshot(start)


def new_address(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    # Numbers above 99 don't occur in addresses of snapshots.
    address = f"{rng.choice(w.STREETS)} {rng.randint(100, 199)}, {rng.choice(w.CITIES)}"
    start, s, t = _said(start, s, rng, f"We have moved! My new address is {address}")
    p = next(p for p in s["data"]["contacts"]["people"] if full(p) == t["name"])
    plan = [*tap(f"person:{p['id']}", "edit"), *fill("address", address, old=True), *tap("save")]
    one = part(rng, "contacts", [""], plan, [], changed(PEOPLE, p, address=address), p["id"])
    goal = rng.choice(
        (
            f"{t['name']} has sent a new address: put it into the contact",
            f"read the new address in the messages from {t['name']} and correct the contact",
        )
    )
    return compose("cross.address", start, s, [one], rng, goal, before=[("messages", tap(f"thread:{t['id']}"))])


def add_friend(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    p = new_person(s, rng)
    start, s, t = _said(start, s, rng, f"This is my friend: {full(p)}, {p['phone']}, {p['email']}")
    plan = [
        *tap("add"),
        *(i for name in ("first", "last", "phone", "email") for i in fill(name, p[name])),
        *tap("save"),
    ]
    # The address that the friend doesn't give stays empty.
    one = part(rng, "contacts", [""], plan, [], added(PEOPLE, **{**p, "address": ""}))
    goal = rng.choice(
        (
            f"save the friend whom {t['name']} has written about as a contact, with name, phone and email",
            f"{t['name']} has sent the name, phone and email of a friend: make a contact of them",
        )
    )
    return compose("cross.friend", start, s, [one], rng, goal, before=[("messages", tap(f"thread:{t['id']}"))])


def noted_event(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    f = {**event_fields(s, rng), "place": rng.choice(w.PLACES)}
    start, s = _noted(
        start,
        f"Plan: {f['title']}",
        f"{f['title']} on {day_words(f['day'])}\nfrom {f['start']} to {f['end']}\nat {f['place']}",
    )
    one = part(rng, "calendar", [""], event_plan(s, f), [], added(EVENTS, **f, remind="None"))
    goal = rng.choice(
        (
            f'create the event that the note "Plan: {f["title"]}" describes, with title, day, times and place',
            f'the note "Plan: {f["title"]}" names an event: put it, with its place, into the calendar',
        )
    )
    return compose("cross.event", start, s, [one], rng, goal, before=[("notes", tap("note:x1"))])


def wake_up(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    time, label = free_time(s, rng), rng.choice(w.ALARM_LABELS)
    start, s, t = _said(start, s, rng, f"Please get up at {time} tomorrow, for: {label}")
    one = part(
        rng,
        "clock",
        [""],
        alarm_plan(time, label),
        [],
        added(ALARMS, time=time, label=label, days=[], vibrate=True, on=True),
    )
    goal = rng.choice(
        (
            f"{t['name']} has written when to get up and for what: set an alarm with that as its label",
            f"set the alarm that the last message from {t['name']} asks for, labelled with its purpose",
        )
    )
    return compose("cross.alarm", start, s, [one], rng, goal, before=[("messages", tap(f"thread:{t['id']}"))])


def shopping_note(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    used = {c["product"] for c in s["data"]["shop"]["cart"]}
    chosen = [
        (p, rng.randint(1, 3))
        for p in rng.sample(
            [p for p in s["data"]["shop"]["products"] if p["stock"] and p["id"] not in used], rng.randint(2, 4)
        )
    ]
    start, s = _noted(
        start, "Order list", "\n".join(f"{count} x {p['name']}, {p['colours'][-1]}" for p, count in chosen)
    )
    parts = [
        part(
            rng,
            "shop",
            [""],
            cart_plan(p, p["colours"][-1], count),
            tap("up"),
            added(CART, product=p["id"], colour=p["colours"][-1], count=count),
        )
        for p, count in chosen
    ]
    goal = rng.choice(
        (
            'put everything from the note "Order list" into the cart, in the colours and numbers it says',
            'fill the cart with what the note "Order list" names, in its colours and numbers',
        )
    )
    return compose("cross.cart", start, s, parts, rng, goal, before=[("notes", tap("note:x1"))])


def join_wifi(start: Start, s: Snapshot, rng: Random) -> PhoneTask | None:
    values, networks = s["data"]["settings"]["values"], s["data"]["settings"]["networks"]
    n = rng.choice([n for n in networks if n["password"]])
    # Connected already: nothing to do.
    if values["network"] == n["name"]:
        return None
    start, s, t = _said(start, s, rng, f"The password of {n['name']} is {n['password']}")
    plan = [
        *tap("go:network", "go:wifi"),
        # Wi-Fi first, or the list of networks doesn't show.
        *([] if values["wifi"] else tap("set:wifi")),
        *tap(f"network:{n['id']}", "dlg:text"),
        ("type", n["password"]),
        *tap("dlg:yes"),
    ]
    one = part(
        rng, "settings", [""], plan, [], effects(valued(VALUES, "network", n["name"]), valued(VALUES, "wifi", True))
    )
    goal = rng.choice(
        (
            f"connect to the Wi-Fi {n['name']}; {t['name']} has sent the password",
            f"join the network {n['name']} with the password that {t['name']} wrote",
        )
    )
    return compose("cross.wifi", start, s, [one], rng, goal, before=[("messages", tap(f"thread:{t['id']}"))])


def tell_place(start: Start, s: Snapshot, rng: Random) -> PhoneTask | None:
    # Only events with a place, from today on.
    coming = [e for e in s["data"]["calendar"]["events"] if e["day"] >= s["now"]["day"] and e["place"]]
    if not coming:
        return None
    e, t = rng.choice(coming), rng.choice([t for t in s["data"]["messages"]["threads"] if not t["archived"]])
    text = f"{e['place']}, {e['start']}"
    plan = [*tap(f"thread:{t['id']}", "field:text"), ("type", text), *tap("send")]
    one = part(rng, "messages", [""], plan, [], added(TEXTS, thread=t["id"], text=text, me=True))
    goal = rng.choice(
        (
            f'send {t["name"]} the place and the starting time of "{e["title"]}", as "place, time"',
            f'{t["name"]} asks where and when "{e["title"]}" is: answer with "place, time" from the calendar',
        )
    )
    return compose("cross.place", start, s, [one], rng, goal, before=[("calendar", tap("agenda", f"event:{e['id']}"))])


def pass_on_number(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    t = rng.choice([t for t in s["data"]["messages"]["threads"] if not t["archived"]])
    p = rng.choice([p for p in s["data"]["contacts"]["people"] if full(p) != t["name"]])
    plan = [*tap(f"thread:{t['id']}", "field:text"), ("type", p["phone"]), *tap("send")]
    one = part(rng, "messages", [""], plan, [], added(TEXTS, thread=t["id"], text=p["phone"], me=True))
    goal = rng.choice(
        (
            f"send {t['name']} the phone number of {full(p)}, only the number",
            f"write {full(p)}'s number, and nothing else, to {t['name']}",
        )
    )
    return compose("cross.number", start, s, [one], rng, goal, before=[("contacts", tap(f"person:{p['id']}"))])


def trip(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    """Event, alarm and message from one note: three apps."""
    f = {**event_fields(s, rng), "place": rng.choice(w.PLACES)}
    time, reply = free_time(s, rng), rng.choice(w.REPLIES)
    t = rng.choice([t for t in s["data"]["messages"]["threads"] if not t["archived"]])
    start, s = _noted(
        start,
        "Next trip",
        f"{f['title']} on {day_words(f['day'])}\nfrom {f['start']} to {f['end']} at {f['place']}\n"
        f"get up at {time}\ntell {t['name']}: {reply}",
    )
    parts = [
        part(rng, "calendar", [""], event_plan(s, f), [], added(EVENTS, **f, remind="None")),
        part(
            rng, "clock", [""], alarm_plan(time), [], added(ALARMS, time=time, label="", days=[], vibrate=True, on=True)
        ),
        part(
            rng,
            "messages",
            [""],
            [*tap(f"thread:{t['id']}", "field:text"), ("type", reply), *tap("send")],
            [],
            added(TEXTS, thread=t["id"], text=reply, me=True),
        ),
    ]
    goal = rng.choice(
        (
            'do what the note "Next trip" asks for: the event in the calendar, the alarm and the message',
            'prepare everything from the note "Next trip": calendar event with its place, alarm, message',
        )
    )
    return compose("cross.trip", start, s, parts, rng, goal, before=[("notes", tap("note:x1"))])


CROSS = {
    "cross.address": new_address,
    "cross.friend": add_friend,
    "cross.event": noted_event,
    "cross.alarm": wake_up,
    "cross.cart": shopping_note,
    "cross.wifi": join_wifi,
    "cross.place": tell_place,
    "cross.number": pass_on_number,
    "cross.trip": trip,
}
