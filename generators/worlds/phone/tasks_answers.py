"""Tasks that end in words: questions answered by CallUser, and goals that can't be reached on this phone."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import Any

from generators.worlds.phone import words as w
from generators.worlds.phone.phone_task import Intent, PhoneTask, compose, tap
from generators.worlds.phone.snapshot import Snapshot
from generators.worlds.phone.tasks_people import full
from generators.worlds.phone.tasks_storage import _file, _product
from generators.worlds.phone.tasks_time import day_words

Start = dict[str, Any]


def ask(
    family: str,
    app: str,
    start: Start,
    s: Snapshot,
    rng: Random,
    words: Sequence[str],
    way: Sequence[Intent],
    answer: str,
    wrong: Sequence[str] = (),
    accepted: Sequence[str] = (),
) -> PhoneTask:
    """A question; `accepted` are other ways to say the answer, `wrong` what a right answer doesn't name."""
    good = [answer, *accepted]
    # Other items' values are wrong unless they happen to be the right one.
    check = {"check": "answer", "any": good, "not": [x for x in dict.fromkeys(wrong) if x and x not in good]}
    return compose(
        family, start, s, (), rng, rng.choice(words), before=[(app, way)], extra=[("answer", answer)], more=[check]
    )


def ask_contact(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    people = s["data"]["contacts"]["people"]
    p, key = rng.choice(people), rng.choice(("phone", "email", "address"))
    name = {"phone": "phone number", "email": "email address", "address": "address"}[key]
    words = (f"what is the {name} of {full(p)}?", f"tell me the {name} of {full(p)} from the contacts")
    return ask(
        "contacts.ask", "contacts", start, s, rng, words, tap(f"person:{p['id']}"), p[key], [o[key] for o in people]
    )


def ask_message(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    data = s["data"]["messages"]
    t = rng.choice([t for t in data["threads"] if not t["archived"]])
    texts = [m["text"] for m in data["texts"] if m["thread"] == t["id"]]
    words = (
        f"what is the last message in the conversation with {t['name']}?",
        f"read me the newest message of the conversation with {t['name']}",
    )
    return ask("messages.ask", "messages", start, s, rng, words, tap(f"thread:{t['id']}"), texts[-1], texts[:-1])


def ask_checklist(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    n = rng.choice([n for n in s["data"]["notes"]["notes"] if n["items"]])
    left = sum(not i["done"] for i in n["items"])
    words = (
        f'how many entries of the checklist "{n["title"]}" are still open?',
        f'count the entries that aren\'t ticked on the list "{n["title"]}"',
    )
    return ask(
        "notes.ask", "notes", start, s, rng, words, tap(f"note:{n['id']}"), str(left), [str(x) for x in range(10)]
    )


def _times(time: str) -> list[str]:
    """Ways to say a time of day, the one on the screen first."""
    # "07:30" may be said as "7:30".
    return [time, time.lstrip("0")]


def _days(day: str) -> list[str]:
    """Ways to say a day, the one on the screen first."""
    shown = day_words(day)
    d, m, _ = shown.split()
    return [shown, f"{d} {m}", f"{m} {d}", f"{d} {m[:3]}", f"{m[:3]} {d}", day]


def ask_event(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    e = rng.choice([e for e in s["data"]["calendar"]["events"] if e["day"] >= s["now"]["day"]])
    words = (f'at what time does the event "{e["title"]}" start?', f'when does "{e["title"]}" begin? Give the time')
    way = tap("agenda", f"event:{e['id']}")
    others = [
        o["start"] for o in s["data"]["calendar"]["events"] if o["start"] != e["end"]
    ]  # an answer may say its end
    wrong = [said for other in others for said in _times(other)]
    shown, *accepted = _times(e["start"])
    return ask("calendar.ask", "calendar", start, s, rng, words, way, shown, wrong, accepted)


def ask_event_day(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    # From today on: past events aren't in the agenda.
    e = rng.choice([e for e in s["data"]["calendar"]["events"] if e["day"] >= s["now"]["day"]])
    words = (f'on which day is the event "{e["title"]}"?', f'give me the date of "{e["title"]}" in the calendar')
    way = tap("agenda", f"event:{e['id']}")
    day, *accepted = _days(e["day"])
    wrong = [said for o in s["data"]["calendar"]["events"] for said in _days(o["day"])]
    return ask("calendar.ask_day", "calendar", start, s, rng, words, way, day, wrong, accepted)


def ask_about(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    about = s["data"]["settings"]["about"]
    key, name = rng.choice(
        (
            ("serial", "serial number"),
            ("model", "model"),
            ("version", "system version"),
            ("number", "own phone number"),
            ("storage", "amount of storage"),
        )
    )
    words = (f"what is the {name} of this phone?", f"look up the phone's {name} in the settings")
    others = [value for other, value in about.items() if other != key]
    return ask("settings.ask", "settings", start, s, rng, words, tap("go:system", "go:about"), about[key], others)


def ask_price(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    products = s["data"]["shop"]["products"]
    p = rng.choice(products)
    words = (f"how much does the {p['name']} cost in the shop?", f"tell me the price of the {p['name']}")
    return ask(
        "shop.ask",
        "shop",
        start,
        s,
        rng,
        words,
        tap(f"product:{p['id']}"),
        f"{p['cents'] / 100:.2f}",
        [f"{o['cents'] / 100:.2f}" for o in products],
    )


def ask_cheapest(start: Start, s: Snapshot, rng: Random) -> PhoneTask | None:
    category = rng.choice(sorted(w.PRODUCTS))
    inside = sorted((p for p in s["data"]["shop"]["products"] if p["category"] == category), key=lambda p: p["cents"])
    # Two at the lowest price: no single answer is right.
    if inside[0]["cents"] == inside[1]["cents"]:
        return None
    words = (
        f"which product of the category {category} costs the least?",
        f"name the cheapest product under {category} in the shop",
    )
    way = tap(f"filter:{category}", "sort", "opt:Lowest price")
    return ask(
        "shop.ask_cheapest", "shop", start, s, rng, words, way, inside[0]["name"], [p["name"] for p in inside[1:]]
    )


def size_words(kb: int) -> str:
    """As app_files.js shows it: `toFixed` rounds the binary number half up, formatting rounds it half to even."""
    if kb < 1000:
        return f"{kb} kB"
    # As decimals of the binary number, as JavaScript rounds.
    return f"{Decimal(kb / 1000).quantize(Decimal('0.1'), ROUND_HALF_UP)} MB"


def ask_size(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    f, way, _, where = _file(s, rng)
    words = (f"how large is the file {where}?", f"tell me the size of {where}")
    others = [size_words(o["size"]) for o in s["data"]["files"]["items"] if o["kind"] != "folder"]
    way = [*way, *tap(f"item:{f['id']}")]
    return ask("files.ask", "files", start, s, rng, words, way, size_words(f["size"]), others)


# --- goals that can't be reached --------------------------------------------------------------------------------------
def cant(
    family: str, app: str, start: Start, s: Snapshot, rng: Random, words: Sequence[str], way: Sequence[Intent], why: str
) -> PhoneTask:
    """Success is to say so (CallUser) and to change nothing."""
    extra = [("answer", f"This is not possible: {why}")]
    return compose(
        family,
        start,
        s,
        (),
        rng,
        rng.choice(words),
        before=[(app, way)],
        extra=extra,
        more=[{"check": "infeasible"}],
        feasible=False,
    )


def cant_delete(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    used = {p["first"] for p in s["data"]["contacts"]["people"]}
    # A first name nobody has: a search shows that there is no such person.
    name = f"{rng.choice([f for f in w.FIRST if f not in used])} {rng.choice(w.LAST)}"
    words = (
        # Three wishes of one kind, each about somebody who isn't there.
        f"delete the contact {name}",
        f"make {name} a favourite contact",
        f"change the email of {name} to new@mail.example",
    )
    return cant(
        "contacts.missing",
        "contacts",
        start,
        s,
        rng,
        words,
        [("tap", "search"), ("type", name)],
        # Said by the oracle; the rule only asks whether the answer refuses.
        f"there is no contact {name}",
    )


def cant_buy(start: Start, s: Snapshot, rng: Random) -> PhoneTask | None:
    gone = [p for p in s["data"]["shop"]["products"] if not p["stock"]]
    if not gone:
        return None
    p = rng.choice(gone)
    words = (f"put a {p['name']} into the cart", f"buy the {p['name']}")
    return cant(
        "shop.sold_out", "shop", start, s, rng, words, tap(f"product:{p['id']}"), f"the {p['name']} is sold out"
    )


def cant_colour(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    p = _product(s, rng)
    colour = rng.choice([c for c in w.COLOURS if c not in p["colours"]])
    words = (f"put one {colour} {p['name']} into the cart", f"add the {p['name']} in {colour} to the cart")
    return cant(
        "shop.no_colour", "shop", start, s, rng, words, tap(f"product:{p['id']}"), f"there is no {colour} {p['name']}"
    )


def cant_event(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    used = {e["title"] for e in s["data"]["calendar"]["events"]}
    title = rng.choice([t for t in w.EVENTS if t not in used])
    words = (f'delete the event "{title}"', f'move the event "{title}" to tomorrow')
    return cant(
        "calendar.missing",
        "calendar",
        start,
        s,
        rng,
        words,
        [*tap("search:open", "search"), ("type", title)],
        f"there is no event {title}",
    )


def cant_note(start: Start, s: Snapshot, rng: Random) -> PhoneTask:
    used = {n["title"] for n in s["data"]["notes"]["notes"]}
    title = rng.choice([t for t in w.NOTE_TITLES if t not in used])
    words = (f'pin the note "{title}"', f'delete the note "{title}"')
    return cant(
        "notes.missing",
        "notes",
        start,
        s,
        rng,
        words,
        [("tap", "search"), ("type", title)],
        f"there is no note {title}",
    )


ANSWERS = {
    "contacts.ask": ask_contact,
    "messages.ask": ask_message,
    "notes.ask": ask_checklist,
    "calendar.ask": ask_event,
    "calendar.ask_day": ask_event_day,
    "settings.ask": ask_about,
    "shop.ask": ask_price,
    "shop.ask_cheapest": ask_cheapest,
    "files.ask": ask_size,
    "contacts.missing": cant_delete,
    "shop.sold_out": cant_buy,
    "shop.no_colour": cant_colour,
    "calendar.missing": cant_event,
    "notes.missing": cant_note,
}
