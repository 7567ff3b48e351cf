"""Parts of tasks in contacts and messages."""

from random import Random
from typing import Any

from generators.worlds.phone import words as w
from generators.worlds.phone.phone_task import AppGoal, added, changed, effects, fill, part, removed, tap
from generators.worlds.phone.snapshot import Snapshot

PEOPLE, THREADS, TEXTS = "contacts.people", "messages.threads", "messages.texts"


def full(person: dict[str, Any]) -> str:
    return f"{person['first']} {person['last']}"


def new_person(s: Snapshot, rng: Random) -> dict[str, Any]:
    """Fields of a person who isn't on the phone."""
    # First names are unique on a phone, so the new one must be new, too.
    used = {p["first"] for p in s["data"]["contacts"]["people"]}
    first, last = rng.choice([f for f in w.FIRST if f not in used]), rng.choice(w.LAST)
    return {
        "first": first,
        "last": last,
        "phone": f"0{rng.randint(151, 179)} {rng.randint(1000000, 9999999)}",
        "email": f"{first}@{last}.example".lower(),
        "address": f"{rng.choice(w.STREETS)} {rng.randint(1, 99)}",
    }


def person_add(s: Snapshot, rng: Random) -> AppGoal:
    p = new_person(s, rng)
    plan = [*tap("add"), *fill("first", p["first"]), *fill("last", p["last"]), *fill("phone", p["phone"]), *tap("save")]
    says = (
        "add {n} with the number {p} to the contacts",
        "create a contact {n}, phone {p}",
        "save {n} ({p}) as a contact",
    )
    # Fields that the task doesn't name stay as a new contact has them.
    effect = added(PEOPLE, first=p["first"], last=p["last"], phone=p["phone"], email="", address="", group="None")
    return part(rng, "contacts", [t.format(n=full(p), p=p["phone"]) for t in says], plan, tap("up"), effect, p["first"])


def person_add_full(s: Snapshot, rng: Random) -> AppGoal:
    p, group = new_person(s, rng), rng.choice(("Family", "Friends", "Work"))
    plan = tap("add")
    for name, value in p.items():
        plan += fill(name, value)
    plan += tap("pick:group", f"opt:{group}", "save")
    says = (
        "create a contact {n} with phone {phone}, email {email}, address {address} and group {g}",
        "add {n} to the contacts: phone {phone}, email {email}, address {address}, in the group {g}",
    )
    words = [t.format(n=full(p), g=group, **p) for t in says]
    return part(rng, "contacts", words, plan, tap("up"), added(PEOPLE, **p, group=group), p["first"])


def person_delete(s: Snapshot, rng: Random) -> AppGoal:
    p = rng.choice(s["data"]["contacts"]["people"])
    says = (f"delete the contact {full(p)}", f"remove {full(p)} from the contacts")
    return part(rng, "contacts", says, tap(f"person:{p['id']}", "delete", "dlg:yes"), [], removed(PEOPLE, p), p["id"])


def person_delete_two(s: Snapshot, rng: Random) -> AppGoal:
    a, b = rng.sample(s["data"]["contacts"]["people"], 2)
    plan = [("hold", f"person:{a['id']}"), *tap(f"person:{b['id']}", "select:delete", "dlg:yes")]
    says = (f"delete the contacts {full(a)} and {full(b)}", f"remove both {full(a)} and {full(b)} from the contacts")
    return part(rng, "contacts", says, plan, [], removed(PEOPLE, a, b), a["id"], b["id"])


def person_star(s: Snapshot, rng: Random) -> AppGoal:
    p = rng.choice([p for p in s["data"]["contacts"]["people"] if not p["favourite"]])
    says = (f"make {full(p)} a favourite contact", f"mark the contact {full(p)} with a star")
    effect = changed(PEOPLE, p, favourite=True)
    return part(rng, "contacts", says, tap(f"person:{p['id']}", "star"), tap("up"), effect, p["id"])


def person_edit(s: Snapshot, rng: Random) -> AppGoal:
    p = rng.choice(s["data"]["contacts"]["people"])
    # Values that no snapshot draws.
    name, value = rng.choice(
        (
            ("phone", f"0170 {rng.randint(1000000, 9999999)}"),
            ("email", f"{p['first'].lower()}@new.example"),
            ("address", f"{rng.choice(w.STREETS)} {rng.randint(100, 199)}"),
        )
    )
    plan = [*tap(f"person:{p['id']}", "edit"), *fill(name, value, old=True), *tap("save")]
    says = (
        f"change the {name} of {full(p)} to {value}",
        f"{full(p)} has a new {name}, {value}: put it into the contacts",
    )
    return part(rng, "contacts", says, plan, tap("up"), changed(PEOPLE, p, **{name: value}), p["id"])


def person_group(s: Snapshot, rng: Random) -> AppGoal:
    p = rng.choice(s["data"]["contacts"]["people"])
    # Another group than the present one.
    group = rng.choice([g for g in ("Family", "Friends", "Work") if g != p["group"]])
    says = (f"put {full(p)} into the group {group}", f"set the group of the contact {full(p)} to {group}")
    plan = tap(f"person:{p['id']}", "edit", "pick:group", f"opt:{group}", "save")
    return part(rng, "contacts", says, plan, tap("up"), changed(PEOPLE, p, group=group), p["id"])


def _threads(s: Snapshot) -> list[dict[str, Any]]:
    return [t for t in s["data"]["messages"]["threads"] if not t["archived"]]


def message_send(s: Snapshot, rng: Random) -> AppGoal:
    t, text = rng.choice(_threads(s)), rng.choice(w.REPLIES)
    says = (f'send {t["name"]} the message "{text}"', f'write "{text}" to {t["name"]} in the conversation you have')
    plan = [*tap(f"thread:{t['id']}", "field:text"), ("type", text), *tap("send")]
    effect = added(TEXTS, thread=t["id"], text=text, me=True)
    return part(rng, "messages", says, plan, tap("up"), effect, t["id"])


def message_new(s: Snapshot, rng: Random) -> AppGoal:
    """A conversation with somebody there is none with yet."""
    known = {t["name"] for t in s["data"]["messages"]["threads"]}
    p, text = rng.choice([p for p in s["data"]["contacts"]["people"] if full(p) not in known]), rng.choice(w.REPLIES)
    says = (f'start a conversation with {full(p)} and write "{text}"', f'send "{text}" as a first message to {full(p)}')
    plan = [*tap("add", f"to:{p['id']}", "field:text"), ("type", text), *tap("send")]
    effect = effects(
        # The thread's id is the next free one, which the page will give it.
        added(THREADS, name=full(p), phone=p["phone"]),
        added(TEXTS, text=text, me=True, thread=f"t{s['data']['next']}"),
    )
    return part(rng, "messages", says, plan, tap("up"), effect, "new thread")


def thread_mark(s: Snapshot, rng: Random) -> AppGoal:
    key, name = rng.choice((("pinned", "pin"), ("muted", "mute"), ("archived", "archive")))
    t = rng.choice([t for t in _threads(s) if not t[key]])
    says = (f"{name} the conversation with {t['name']}", f"{name} what {t['name']} and you have written")
    plan = [("hold", f"thread:{t['id']}"), *tap(f"select:{name}")]
    return part(rng, "messages", says, plan, [], changed(THREADS, t, **{key: True}), t["id"])


def thread_delete(s: Snapshot, rng: Random) -> AppGoal:
    t = rng.choice(_threads(s))
    gone = [m for m in s["data"]["messages"]["texts"] if m["thread"] == t["id"]]
    says = (
        f"delete the conversation with {t['name']}",
        f"remove the whole conversation with {t['name']} from the messages",
    )
    plan = tap(f"thread:{t['id']}", "more", "menu:Delete conversation", "dlg:yes")
    return part(rng, "messages", says, plan, [], effects(removed(THREADS, t), removed(TEXTS, *gone)), t["id"])


def message_star(s: Snapshot, rng: Random) -> AppGoal:
    ids = {t["id"]: t["name"] for t in _threads(s)}
    m = rng.choice([m for m in s["data"]["messages"]["texts"] if m["thread"] in ids])
    says = (
        f'star the message "{m["text"]}" in the conversation with {ids[m["thread"]]}',
        f'mark "{m["text"]}", from the conversation with {ids[m["thread"]]}, with a star',
    )
    plan = [*tap(f"thread:{m['thread']}"), ("hold", f"text:{m['id']}"), *tap("menu:Star")]
    return part(rng, "messages", says, plan, tap("up"), changed(TEXTS, m, starred=True), m["thread"])


def message_forward(s: Snapshot, rng: Random) -> AppGoal:
    ids = {t["id"]: t["name"] for t in _threads(s)}
    m = rng.choice([m for m in s["data"]["messages"]["texts"] if m["thread"] in ids])
    # Somebody who has no such message yet, or the count of 1 would hold before.
    said = {t["thread"] for t in s["data"]["messages"]["texts"] if t["text"] == m["text"]}
    other = rng.choice([t for t in _threads(s) if t["id"] not in said])
    p = next(p for p in s["data"]["contacts"]["people"] if full(p) == other["name"])
    says = (
        f'forward "{m["text"]}" from the conversation with {ids[m["thread"]]} to {full(p)}',
        f'pass the message "{m["text"]}" of the conversation with {ids[m["thread"]]} on to {full(p)}',
    )
    plan = [*tap(f"thread:{m['thread']}"), ("hold", f"text:{m['id']}"), *tap("menu:Forward", f"to:{p['id']}")]
    effect = added(TEXTS, thread=other["id"], text=m["text"], me=True)
    return part(rng, "messages", says, plan, tap("up"), effect, m["thread"], other["id"], p["id"])
