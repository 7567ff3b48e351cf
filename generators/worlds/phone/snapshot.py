"""The phone's document as a seed makes it: `make_snapshot(seed)` is plain JSON data, drawn without a browser.

{"data": what apps hold (the truth tasks are about), "ui": where the user is, "now": the phone's clock,
"look": colours and the place of icons}. Ids count on from data["next"].
"""

import copy
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

from generators.worlds.phone import words as w

APPS = ("contacts", "messages", "notes", "clock", "settings", "files", "shop", "calendar")
TITLES = {app: app.capitalize() for app in APPS}
PACKAGES = {app: f"org.vesper.{app}" for app in APPS}
"""What Android calls them."""
FIRST_DAY = date(2026, 1, 5)
START_KEYS = ("seed", "snapshot", "extras", "open")

Snapshot = dict[str, Any]


class Ids:
    """The next free number: ids are a letter of the collection and a number, in one count for the whole phone."""

    def __init__(self) -> None:
        self.next = 1

    def new(self, prefix: str) -> str:
        self.next += 1
        return f"{prefix}{self.next - 1}"


def make_snapshot(seed: int) -> Snapshot:
    """The phone of a seed, on its home screen. Same seed, same document. Raises `ValueError` for a seed below 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"phone: expected a seed of 0 or more, found {seed!r}")
    rng, ids = Random(f"phone/{seed}"), Ids()
    # 300 days from the first one: tasks with dates stay within the year and a bit.
    day = FIRST_DAY + timedelta(days=rng.randrange(300))
    # People first: messages, orders and contacts are about the same ones.
    people = _people(rng, ids)
    data: dict[str, Any] = {
        "contacts": {"people": people},
        "messages": _messages(rng, ids, people),
        "notes": {"notes": _notes(rng, ids)},
        "clock": _clock(rng, ids),
        "settings": _settings(rng, ids),
        "files": {"items": _files(rng, ids, day)},
        "shop": _shop(rng, ids, people),
        "calendar": {"events": _events(rng, ids, day)},
    }
    # Ids made by the page go on from here, so that no id occurs twice.
    data["next"] = ids.next
    # Four icons on the home screen, three in the dock, the last one only in the drawer.
    order = rng.sample(APPS, len(APPS))
    return {
        "data": data,
        "ui": {
            "front": "home",
            "stacks": {},
            "recent": [],
            "dialog": None,
            "toast": "",
            "focus": "",
            "all": False,
            "shade": False,
            "y": 0,
        },
        "now": {"day": day.isoformat(), "sec": rng.randrange(7 * 60, 21 * 60) * 60, "battery": rng.randint(21, 99)},
        "look": {"home": order[:4], "dock": order[4:7], "colours": {app: rng.choice(w.TINTS) for app in APPS}},
    }


def start_snapshot(start: Mapping[str, Any]) -> Snapshot:
    """The document of a start: {"seed": n} or {"snapshot": a document}, and "extras": [[path, item], ...] put at the
    end of lists of its data ("messages.texts"). Raises `ValueError` for a start or a path that isn't one."""
    if set(start) - {"world", *START_KEYS} or not {"seed", "snapshot"} & set(start):
        raise ValueError(f"phone: expected a start of {', '.join(START_KEYS)}, found {sorted(start)!r:.120}")
    snapshot: Snapshot = copy.deepcopy(start["snapshot"]) if "snapshot" in start else make_snapshot(start["seed"])
    # Copied deeply: a start is used for many resets and must not change.
    for path, item in start.get("extras", ()):
        where: Any = snapshot["data"]
        for part in path.split("."):
            where = where.get(part) if isinstance(where, dict) else None
        if not isinstance(where, list):
            raise ValueError(f"phone: extras: expected the path of a list in the data, found {path!r}")
        where.append(copy.deepcopy(item))
    return snapshot


def _people(rng: Random, ids: Ids) -> list[dict[str, Any]]:
    people: list[dict[str, Any]] = []
    # Names without repetition, so that a first name says who is meant.
    for first, last in zip(rng.sample(w.FIRST, 11), rng.sample(w.LAST, 11)):
        place = f"{rng.choice(w.STREETS)} {rng.randint(1, 99)}, {rng.choice(w.CITIES)}"
        people.append(
            {
                "id": ids.new("c"),
                "first": first,
                "last": last,
                "phone": f"0{rng.randint(151, 179)} {rng.randint(1000000, 9999999)}",
                "email": f"{first}.{last}@example.org".lower(),
                "address": place,
                "group": rng.choice(("Family", "Friends", "Work", "None")),
                "favourite": rng.random() < 0.2,
            }
        )
    return people


def _messages(rng: Random, ids: Ids, people: Sequence[dict[str, object]]) -> dict[str, Any]:
    threads: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for person in rng.sample(people, 6):
        thread = {
            "id": ids.new("t"),
            "name": f"{person['first']} {person['last']}",
            "phone": person["phone"],
            "pinned": False,
            "muted": rng.random() < 0.2,
            "archived": False,
        }
        threads.append(thread)
        for said in rng.sample(w.CHAT, rng.randint(1, 4)):
            texts.append(
                {"id": ids.new("m"), "thread": thread["id"], "me": rng.random() < 0.4, "text": said, "starred": False}
            )
    # One archived conversation always, so that archived ones occur on every phone.
    threads[0]["pinned"], threads[-1]["archived"] = rng.random() < 0.5, True
    return {"threads": threads, "texts": texts}


def _notes(rng: Random, ids: Ids) -> list[dict[str, Any]]:
    notes: list[dict[str, Any]] = [
        {
            "id": ids.new("n"),
            "title": title,
            "body": body,
            "label": rng.choice(("None", "Home", "Work", "Ideas")),
            "pinned": False,
            "items": [],
        }
        for title, body in zip(rng.sample(w.NOTE_TITLES, 6), rng.sample(w.NOTE_BODIES, 6))
    ]
    for title in rng.sample(sorted(w.LISTS), 2):
        lines = [{"text": text, "done": rng.random() < 0.3} for text in rng.sample(w.LISTS[title], 5)]
        # At least one open entry, so that there is something to tick.
        lines[0]["done"] = False
        notes.append({"id": ids.new("n"), "title": title, "body": "", "label": "None", "pinned": False, "items": lines})
    rng.shuffle(notes)
    return notes


def hour(rng: Random, low: int = 5, high: int = 22) -> str:
    """A time of day on a five-minute step, HH:MM."""
    return f"{rng.randint(low, high):02d}:{rng.randrange(0, 60, 5):02d}"


def _clock(rng: Random, ids: Ids) -> dict[str, Any]:
    times: list[str] = []
    # No two alarms at one time: a task names an alarm by its time.
    while len(times) < 4:
        time = hour(rng)
        if time not in times:
            times.append(time)
    alarms = [
        {
            "id": ids.new("a"),
            "time": time,
            "label": label,
            "days": [d for d in w.SHORT_DAYS if rng.random() < 0.3],
            "vibrate": True,
            "on": rng.random() < 0.5,
        }
        for time, label in zip(times, rng.sample(w.ALARM_LABELS, 4))
    ]
    cities = [
        {"id": ids.new("w"), "name": name, "offset": w.WORLD_CITIES[name]}
        for name in rng.sample(sorted(w.WORLD_CITIES), 3)
    ]
    return {"alarms": alarms, "cities": cities, "timer": {"total": 0, "left": 0, "running": False}}


def _settings(rng: Random, ids: Ids) -> dict[str, Any]:
    values: dict[str, Any] = {key: rng.random() < 0.5 for key in w.SWITCHES}
    # Some settings are the same on most phones, or half of all tasks would find airplane mode on.
    values |= {"airplane": False, "dark": rng.random() < 0.2, "wifi": rng.random() < 0.75, "network": ""}
    values |= {key: 10 * rng.randint(1, 9) for key in ("ring_volume", "media_volume", "alarm_volume")}
    values |= {
        "brightness": 10 * rng.randint(4, 10),
        "text_size": "Normal",
        "wallpaper": rng.choice(w.WALLPAPERS),
        "timeout": rng.choice(("30 seconds", "1 minute")),
        "ringtone": rng.choice(("Bells", "Piano", "Birds")),
        "lock": rng.choice(("None", "Swipe")),
        "language": "English",
        "time_zone": rng.choice(("London", "Paris")),
        "hotspot_name": f"Phone {rng.randint(100, 999)}",
        "hotspot_band": "2.4 GHz",
    }
    names = rng.sample(w.NETWORKS, 4)
    networks = [
        {
            "id": ids.new("k"),
            "name": name,
            # Two of four networks have a password.
            "password": f"{name.split()[0].lower()}{rng.randint(100, 999)}" if index < 2 else "",
        }
        for index, name in enumerate(names)
    ]
    # The last one needs none: it can be joined without a message that says it.
    if values["wifi"]:
        values["network"] = names[3]
    notify = {
        app: {"allow": rng.random() < 0.6, "sound": rng.random() < 0.5, "badge": rng.random() < 0.5} for app in APPS
    }
    about = {
        "model": f"Vesper {rng.choice('ABCDE')}{rng.randint(2, 9)}",
        "serial": f"VX{rng.randint(100000, 999999)}",
        "number": f"0160 {rng.randint(1000000, 9999999)}",
        "storage": f"{rng.choice((64, 128, 256))} GB",
        "version": f"{rng.randint(11, 16)}.{rng.randint(0, 4)}",
    }
    return {"values": values, "notify": notify, "networks": networks, "about": about}


def _files(rng: Random, ids: Ids, today: date) -> list[dict[str, Any]]:
    def item(name: str, kind: str, parent: str) -> dict[str, Any]:
        day = (today - timedelta(days=rng.randint(1, 200))).isoformat()
        size = 0 if kind == "folder" else rng.randint(12, 9900)
        return {
            "id": ids.new("f"),
            "name": name,
            "kind": kind,
            "parent": parent,
            "size": size,
            "day": day,
            "starred": False,
        }

    folders = [item(name, "folder", "") for name in w.FOLDERS]
    folders.append(item(rng.choice(("2024", "2025", "Archive")), "folder", folders[0]["id"]))
    stems = rng.sample(w.FILE_STEMS, 13)
    files = []
    for index, stem in enumerate(stems):
        kind = rng.choice(sorted(w.FILE_KINDS))
        # Two files outside of all folders.
        parent = folders[index % 5]["id"] if index < 11 else ""
        files.append(item(f"{stem}.{w.FILE_KINDS[kind]}", kind, parent))
    return [*folders, *files]


def _shop(rng: Random, ids: Ids, people: Sequence[dict[str, object]]) -> dict[str, Any]:
    products: list[dict[str, Any]] = []
    for category, names in w.PRODUCTS.items():
        for name in rng.sample(names, 4):
            products.append(
                {
                    "id": ids.new("p"),
                    "name": name,
                    "category": category,
                    "cents": rng.randint(2, 120) * 100 + rng.choice((0, 50, 95, 99)),
                    "tenths": rng.randint(25, 50),
                    "colours": rng.sample(w.COLOURS, 3),
                    "stock": rng.choice((0, 4, 7, 12, 30, 41)),
                }
            )
    rng.shuffle(products)
    # Sold out products are for tasks that can't be done; carts and orders hold none.
    inside = [p for p in products if p["stock"]]
    orders = []
    for number, product in enumerate(rng.sample(inside, 2)):
        buyer = people[number]
        orders.append(
            {
                "id": ids.new("o"),
                "items": [{"product": product["id"], "colour": product["colours"][0], "count": 1}],
                "name": f"{buyer['first']} {buyer['last']}",
                "address": buyer["address"],
                "delivery": "Standard",
                "payment": "Card",
                "cents": product["cents"] + 399,
                "cancelled": False,
            }
        )
    # A cart with two products, so that removing one leaves something.
    in_cart = rng.sample(inside, 2)
    cart = [{"product": p["id"], "colour": p["colours"][0], "count": rng.randint(1, 3)} for p in in_cart]
    return {"products": products, "cart": cart, "wishes": [{"product": inside[0]["id"]}], "orders": orders}


def _events(rng: Random, ids: Ids, today: date) -> list[dict[str, Any]]:
    events = []
    for title in rng.sample(w.EVENTS, 9):
        day, start = today + timedelta(days=rng.randint(-5, 24)), hour(rng, 8, 19)
        # Within the day: start at 19 at the latest, three hours at most.
        end = f"{int(start[:2]) + rng.randint(1, 3):02d}:{start[3:]}"
        events.append(
            {
                "id": ids.new("e"),
                "title": title,
                "day": day.isoformat(),
                "start": start,
                "end": end,
                "place": rng.choice(("", *w.PLACES)),
                "remind": rng.choice(("None", "15 minutes", "1 hour")),
            }
        )
    return events
