"""Parts of tasks in notes, files, shop and settings."""

from random import Random
from typing import Any

from generators.worlds.phone import words as w
from generators.worlds.phone.phone_task import (
    AppGoal,
    Intent,
    added,
    changed,
    effects,
    fill,
    part,
    removed,
    tap,
    valued,
)
from generators.worlds.phone.snapshot import Snapshot

NOTES, ITEMS, CART, ORDERS = "notes.notes", "files.items", "shop.cart", "shop.orders"


def _new_title(s: Snapshot, rng: Random) -> str:
    # A title that no note has, so that the note is found by it.
    used = {n["title"] for n in s["data"]["notes"]["notes"]}
    return rng.choice([t for t in w.NOTE_TITLES if t not in used])


def note_add(s: Snapshot, rng: Random) -> AppGoal:
    title, body, label = _new_title(s, rng), rng.choice(w.NOTE_BODIES), rng.choice(("Home", "Work", "Ideas"))
    plan = [
        *tap("add", "menu:Text note"),
        *fill("title", title),
        *fill("body", body),
        *tap("pick:label", f"opt:{label}", "save"),
    ]
    says = (
        f'write a note "{title}" with the text "{body}" and the label {label}',
        f'create a {label} note titled "{title}" that says "{body}"',
    )
    return part(rng, "notes", says, plan, tap("up"), added(NOTES, title=title, body=body, label=label, items=[]), title)


def checklist_add(s: Snapshot, rng: Random, least: int = 3, most: int = 4) -> AppGoal:
    title, lines = _new_title(s, rng), rng.sample(w.LISTS["Shopping"] + w.LISTS["Packing"], rng.randint(least, most))
    plan = [*tap("add", "menu:Checklist"), *fill("title", title), *tap("save")]
    for line in lines:
        # Enter after each entry: the page adds it then, in the order of the goal.
        plan += [("tap", "field:item"), ("type", line), ("enter",)]
    says = (
        f'make a checklist "{title}" with these entries in order: {", ".join(lines)}',
        f'create the checklist "{title}": {", ".join(lines)}',
    )
    effect = added(NOTES, title=title, label="None", items=[{"text": line, "done": False} for line in lines])
    return part(rng, "notes", says, plan, tap("up"), effect, title)


def checklist_add_long(s: Snapshot, rng: Random) -> AppGoal:
    return checklist_add(s, rng, 6, 8)


def checklist_tick(s: Snapshot, rng: Random) -> AppGoal:
    n = rng.choice([n for n in s["data"]["notes"]["notes"] if n["items"]])
    open_ = [i for i, line in enumerate(n["items"]) if not line["done"]]
    chosen = sorted(rng.sample(open_, rng.randint(1, min(3, len(open_)))))
    # The whole list as it must be, entries that stay included.
    lines = [{**line, "done": line["done"] or i in chosen} for i, line in enumerate(n["items"])]
    named = ", ".join(n["items"][i]["text"] for i in chosen)
    says = (f'tick off {named} in the checklist "{n["title"]}"', f'mark as done on the list "{n["title"]}": {named}')
    plan = tap(f"note:{n['id']}", *(f"item:{i}" for i in chosen))
    return part(rng, "notes", says, plan, tap("up"), changed(NOTES, n, items=lines), n["id"])


def note_delete(s: Snapshot, rng: Random) -> AppGoal:
    n = rng.choice(s["data"]["notes"]["notes"])
    says = (f'delete the note "{n["title"]}"', f'remove "{n["title"]}" from the notes')
    return part(rng, "notes", says, tap(f"note:{n['id']}", "delete", "dlg:yes"), [], removed(NOTES, n), n["id"])


def note_pin(s: Snapshot, rng: Random) -> AppGoal:
    n = rng.choice(s["data"]["notes"]["notes"])
    says = (f'pin the note "{n["title"]}"', f'keep "{n["title"]}" at the top of the notes with a pin')
    return part(rng, "notes", says, tap(f"note:{n['id']}", "pin"), tap("up"), changed(NOTES, n, pinned=True), n["id"])


def note_label(s: Snapshot, rng: Random) -> AppGoal:
    a, b = rng.sample(s["data"]["notes"]["notes"], 2)
    # Another label than both have, so that both notes change.
    label = rng.choice([x for x in ("Home", "Work", "Ideas") if x not in (a["label"], b["label"])])
    plan = [("hold", f"note:{a['id']}"), *tap(f"note:{b['id']}", "select:label", f"opt:{label}")]
    says = (
        f'give the notes "{a["title"]}" and "{b["title"]}" the label {label}',
        f'label both "{a["title"]}" and "{b["title"]}" as {label}',
    )
    return part(
        rng,
        "notes",
        says,
        plan,
        [],
        effects(changed(NOTES, a, label=label), changed(NOTES, b, label=label)),
        a["id"],
        b["id"],
    )


def note_edit(s: Snapshot, rng: Random) -> AppGoal:
    n, title = rng.choice(s["data"]["notes"]["notes"]), _new_title(s, rng)
    plan = [*tap(f"note:{n['id']}", "edit"), *fill("title", title, old=True), *tap("save")]
    says = (f'rename the note "{n["title"]}" to "{title}"', f'change the title of "{n["title"]}" to "{title}"')
    return part(rng, "notes", says, plan, tap("up"), changed(NOTES, n, title=title), n["id"], title)


def _path(s: Snapshot, item: dict[str, Any]) -> list[dict[str, Any]]:
    """The folders above an item, from the top."""
    above: list[dict[str, Any]] = []
    while item["parent"]:
        item = next(i for i in s["data"]["files"]["items"] if i["id"] == item["parent"])
        # From the top: folders are put before what lies in them.
        above.insert(0, item)
    return above


def _file(s: Snapshot, rng: Random) -> tuple[dict[str, Any], list[Intent], list[Intent], str]:
    """A file, the way to its folder and back, and where it lies in words."""
    f = rng.choice([i for i in s["data"]["files"]["items"] if i["kind"] != "folder"])
    above = _path(s, f)
    # With its folder in words: names of files aren't unique on the phone.
    where = f"{f['name']} in the folder {'/'.join(i['name'] for i in above)}" if above else f["name"]
    return f, tap(*(f"item:{i['id']}" for i in above)), tap(*["up"] * len(above)), where


def file_delete(s: Snapshot, rng: Random) -> AppGoal:
    f, way, back, where = _file(s, rng)
    says = (f"delete the file {where}", f"remove {where} from the files")
    return part(
        rng, "files", says, [*way, *tap(f"item:{f['id']}", "delete", "dlg:yes")], back, removed(ITEMS, f), f["id"]
    )


def file_star(s: Snapshot, rng: Random) -> AppGoal:
    f, way, back, where = _file(s, rng)
    says = (f"star the file {where}", f"mark {where} with a star")
    return part(
        rng,
        "files",
        says,
        [*way, *tap(f"item:{f['id']}", "star")],
        [*tap("up"), *back],
        changed(ITEMS, f, starred=True),
        f["id"],
    )


def file_rename(s: Snapshot, rng: Random) -> AppGoal:
    f, way, back, where = _file(s, rng)
    used = {i["name"].split(".")[0] for i in s["data"]["files"]["items"]}
    # The ending stays: the kind of a file isn't what renaming is about.
    name = f"{rng.choice([x for x in w.FILE_STEMS if x not in used])}.{f['name'].split('.')[-1]}"
    plan = [
        *way,
        ("hold", f"item:{f['id']}"),
        *tap("select:rename"),
        *fill("dlg:text", name, old=True),
        *tap("dlg:yes"),
    ]
    says = (f"rename the file {where} to {name}", f"give {where} the name {name}")
    return part(rng, "files", says, plan, back, changed(ITEMS, f, name=name), f["id"], name)


def file_move(s: Snapshot, rng: Random) -> AppGoal:
    f, way, back, where = _file(s, rng)
    folders = [i for i in s["data"]["files"]["items"] if i["kind"] == "folder" and i["id"] != f["parent"]]
    to = rng.choice(folders)
    # In the dialog of moving, folders are opened from the top again.
    into = tap(*(f"into:{i['id']}" for i in (*_path(s, to), to)))
    says = (f"move the file {where} to the folder {to['name']}", f"put {where} into the folder {to['name']}")
    plan = [*way, ("hold", f"item:{f['id']}"), *tap("select:move"), *into, *tap("move:here")]
    return part(rng, "files", says, plan, back, changed(ITEMS, f, parent=to["id"]), f["id"])


def folder_add(s: Snapshot, rng: Random) -> AppGoal:
    name = rng.choice(w.NEW_FOLDERS)
    parent = rng.choice([None, *(i for i in s["data"]["files"]["items"] if i["kind"] == "folder" and not i["parent"])])
    where = f"in the folder {parent['name']}" if parent else "at the top of the files"
    way = tap(f"item:{parent['id']}") if parent else []
    plan = [*way, *tap("folder:new"), ("type", name), *tap("dlg:yes")]
    effect = added(ITEMS, name=name, kind="folder", parent=parent["id"] if parent else "")
    return part(
        rng,
        "files",
        (f'make a new folder "{name}" {where}', f'create the folder "{name}" {where}'),
        plan,
        tap(*["up"] * len(way)),
        effect,
        name,
    )


def _product(s: Snapshot, rng: Random) -> dict[str, Any]:
    # In stock and not in the cart yet, or the cart would hold two rows or a larger count.
    used = {c["product"] for c in s["data"]["shop"]["cart"]}
    found: dict[str, Any] = rng.choice([p for p in s["data"]["shop"]["products"] if p["stock"] and p["id"] not in used])
    return found


def cart_plan(p: dict[str, Any], colour: str, count: int) -> list[Intent]:
    """From the catalogue to a filled cart."""
    # The first colour is chosen from the start.
    chosen = tap(f"colour:{colour}") if colour != p["colours"][0] else []
    return [*tap(f"product:{p['id']}"), *chosen, *tap(*["count:more"] * (count - 1), "cart:add")]


def cart_add(s: Snapshot, rng: Random) -> AppGoal:
    p, count = _product(s, rng), rng.randint(1, 4)
    colour = rng.choice(p["colours"])
    says = (
        f"put {count} {colour} {p['name']} into the cart",
        f"add the {p['name']} in {colour} to the cart, {count} of them",
    )
    effect = added(CART, product=p["id"], colour=colour, count=count)
    return part(rng, "shop", says, cart_plan(p, colour, count), tap("up"), effect, p["id"])


def wish_add(s: Snapshot, rng: Random) -> AppGoal:
    used = {x["product"] for x in s["data"]["shop"]["wishes"]}
    p = rng.choice([p for p in s["data"]["shop"]["products"] if p["id"] not in used])
    says = (f"add the {p['name']} to the wish list", f"put the {p['name']} on the shop's wish list")
    return part(
        rng, "shop", says, tap(f"product:{p['id']}", "wish"), tap("up"), added("shop.wishes", product=p["id"]), p["id"]
    )


def cart_remove(s: Snapshot, rng: Random) -> AppGoal:
    c = rng.choice(s["data"]["shop"]["cart"])
    p = next(p for p in s["data"]["shop"]["products"] if p["id"] == c["product"])
    # Gone in every colour: the cart names products, not rows.
    check = {"check": "count", "path": CART, "where": {"product": p["id"]}, "is": 0}
    says = (f"remove the {p['name']} from the cart", f"take the {p['name']} out of the shopping cart")
    return part(
        rng,
        "shop",
        says,
        tap("cart", f"remove:{p['id']}:{c['colour']}"),
        tap("up"),
        ((check,), {CART: [{"product": p["id"]}]}),
        p["id"],
    )


def order_cancel(s: Snapshot, rng: Random) -> AppGoal:
    o = rng.choice(s["data"]["shop"]["orders"])
    p = next(p for p in s["data"]["shop"]["products"] if p["id"] == o["items"][0]["product"])
    says = (f"cancel the order of the {p['name']}", f"I no longer want the {p['name']} I ordered: cancel that order")
    plan = tap("more", "menu:Orders", f"order:{o['id']}", "order:cancel", "dlg:yes")
    return part(rng, "shop", says, plan, tap("up", "up"), changed(ORDERS, o, cancelled=True), o["id"])


def order_place(s: Snapshot, rng: Random, pieces: int = 1) -> AppGoal:
    """Empty the cart, fill it with `pieces` products, order them."""
    name, address = f"{rng.choice(w.FIRST)} {rng.choice(w.LAST)}", f"{rng.choice(w.STREETS)} {rng.randint(1, 99)}"
    delivery, payment = rng.choice(("Standard", "Express", "Pick up")), rng.choice(("Card", "Invoice", "Cash"))
    # By id, so that no product is drawn twice.
    chosen: dict[str, tuple[dict[str, Any], str, int]] = {}
    while len(chosen) < pieces:
        p = _product(s, rng)
        chosen[p["id"]] = (p, rng.choice(p["colours"]), rng.randint(1, 2))
    # Emptied first: an order holds whatever was in the cart.
    plan = tap("cart", "cart:clear", "dlg:yes", "up")
    for p, colour, count in chosen.values():
        plan += [*cart_plan(p, colour, count), *tap("up")]
    plan += [*tap("cart", "checkout"), *fill("name", name), *fill("address", address)]
    plan += tap(f"delivery:{delivery}") if delivery != "Standard" else []
    plan += tap(f"payment:{payment}") if payment != "Card" else []
    plan += tap("order:place", "dlg:yes")
    listed = " and ".join(f"{count} {colour} {p['name']}" for p, colour, count in chosen.values())
    says = (
        f"empty the cart, then order {listed} for {name}, {address}, delivery {delivery}, payment {payment}",
        f"with nothing else in the cart, buy {listed}; "
        f"name {name}, address {address}, {delivery} delivery, pay by {payment}",
    )
    items = [{"product": p["id"], "colour": colour, "count": count} for p, colour, count in chosen.values()]
    # The order in which products were put in doesn't matter.
    checks, touch = added(
        ORDERS,
        items={"any_order": items},
        name=name,
        address=address,
        delivery=delivery,
        payment=payment,
        cancelled=False,
    )
    return part(
        rng,
        "shop",
        says,
        plan,
        tap("up"),
        # The cart must be empty afterwards; whatever it held before may have gone.
        ((*checks, {"check": "value", "path": CART, "is": []}), {**touch, CART: [{}]}),
        "order",
    )


def order_two(s: Snapshot, rng: Random) -> AppGoal:
    return order_place(s, rng, 2)


SWITCH_PAGES = {
    "network": {"mobile_data": "mobile data", "airplane": "airplane mode", "data_saver": "data saver"},
    "devices": {"bluetooth": "Bluetooth", "nfc": "NFC", "casting": "casting"},
    "display": {"dark": "the dark theme", "rotate": "auto-rotate"},
    "sound": {"vibrate": "vibration for calls", "dnd": "do not disturb"},
    "battery": {"saver": "the battery saver", "adaptive": "the adaptive battery"},
    "security": {"location": "location", "camera_access": "camera access", "mic_access": "microphone access"},
    "system": {"auto_update": "automatic updates", "backup": "backup"},
}
CHOICES = {
    ("display", "text_size", "text size"): ("Normal", "Large", "Huge"),
    ("display", "wallpaper", "wallpaper"): w.WALLPAPERS,
    ("display", "timeout", "screen timeout"): ("15 seconds", "30 seconds", "1 minute", "5 minutes", "10 minutes"),
    ("sound", "ringtone", "ringtone"): ("Bells", "Piano", "Guitar", "Birds", "Drums"),
    ("security", "lock", "screen lock"): ("None", "Swipe", "PIN", "Pattern"),
    ("system", "language", "language"): ("English", "Deutsch", "Français", "Español", "Italiano"),
    ("system", "time_zone", "time zone"): ("London", "Paris", "New York", "Tokyo", "Sydney"),
}
SLIDERS = {
    "brightness": ("display", "brightness"),
    "ring_volume": ("sound", "ring volume"),
    "media_volume": ("sound", "media volume"),
    "alarm_volume": ("sound", "alarm volume"),
}
VALUES = "settings.values"


def setting_switch(s: Snapshot, rng: Random) -> AppGoal:
    page = rng.choice(sorted(SWITCH_PAGES))
    key = rng.choice(sorted(SWITCH_PAGES[page]))
    on, name = not s["data"]["settings"]["values"][key], SWITCH_PAGES[page][key]
    word = "on" if on else "off"
    says = (f"turn {word} {name} in the settings", f"switch {name} {word}")
    return part(rng, "settings", says, tap(f"go:{page}", f"set:{key}"), tap("up"), valued(VALUES, key, on), key)


def setting_choice(s: Snapshot, rng: Random) -> AppGoal:
    (page, key, name), options = rng.choice(sorted(CHOICES.items()))
    value = rng.choice([o for o in options if o != s["data"]["settings"]["values"][key]])
    says = (f"set the {name} to {value}", f"choose {value} as {name} in the settings")
    return part(
        rng,
        "settings",
        says,
        tap(f"go:{page}", f"set:{key}", f"opt:{value}"),
        tap("up"),
        valued(VALUES, key, value),
        key,
    )


def setting_slider(s: Snapshot, rng: Random) -> AppGoal:
    key = rng.choice(sorted(SLIDERS))
    page, name = SLIDERS[key]
    value = rng.choice([v for v in range(10, 100, 10) if v != s["data"]["settings"]["values"][key]])
    says = (f"set the {name} to {value} percent", f"move the {name} slider to {value}%")
    plan = [*tap(f"go:{page}"), ("slide", f"set:{key}", value)]
    return part(rng, "settings", says, plan, tap("up"), valued(VALUES, key, value), key)


def setting_notify(s: Snapshot, rng: Random) -> AppGoal:
    notify = s["data"]["settings"]["notify"]
    app, key = rng.choice(sorted(notify)), rng.choice(("allow", "sound", "badge"))
    on, name = (
        not notify[app][key],
        {"allow": "notifications", "sound": "the notification sound", "badge": "the icon badge"}[key],
    )
    word = "on" if on else "off"
    # The whole entry of the app: its other settings stay.
    effect = valued("settings.notify", app, {**notify[app], key: on})
    says = (f"turn {word} {name} of the app {app.capitalize()}", f"switch {name} for {app.capitalize()} {word}")
    return part(
        rng,
        "settings",
        says,
        tap("go:notifications", f"notify:{app}", f"notify:{key}"),
        tap("up", "up"),
        effect,
        f"notify {app}",
    )


def hotspot_name(s: Snapshot, rng: Random) -> AppGoal:
    name = f"{rng.choice(w.FIRST)}'s phone"
    plan = [*tap("go:network", "go:hotspot", "set:hotspot_name"), *fill("dlg:text", name, old=True), *tap("dlg:yes")]
    says = (f'name the hotspot "{name}"', f'change the name of the hotspot to "{name}"')
    return part(rng, "settings", says, plan, tap("up", "up"), valued(VALUES, "hotspot_name", name), "hotspot_name")
