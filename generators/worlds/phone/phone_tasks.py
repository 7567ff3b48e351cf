"""All families of tasks on the phone, and drawing rows for the task pool from them. No browser is needed.

A new task on one app: a function (snapshot, rng) -> Part in that app's file, and a line in PARTS.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from generators.worlds.phone import tasks_people as people
from generators.worlds.phone import tasks_storage as storage
from generators.worlds.phone import tasks_time as time
from generators.worlds.phone.phone_task import AppGoal, PhoneTask, compose
from generators.worlds.phone.snapshot import Snapshot, make_snapshot
from generators.worlds.phone.tasks_answers import ANSWERS
from generators.worlds.phone.tasks_cross import CROSS

__all__ = ["FAMILIES", "PARTS", "PhoneTask", "make_task", "phone_tasks"]

Maker = Callable[[Snapshot, Random], AppGoal]
Family = Callable[[dict[str, Any], Snapshot, Random], PhoneTask | None]
DRAWS = 30

PARTS: dict[str, Maker] = {
    "contacts.add": people.person_add,
    "contacts.add_full": people.person_add_full,
    "contacts.delete": people.person_delete,
    "contacts.delete_two": people.person_delete_two,
    "contacts.star": people.person_star,
    "contacts.edit": people.person_edit,
    "contacts.group": people.person_group,
    "messages.send": people.message_send,
    "messages.new": people.message_new,
    "messages.mark": people.thread_mark,
    "messages.delete": people.thread_delete,
    "messages.star": people.message_star,
    "messages.forward": people.message_forward,
    "clock.add": time.alarm_add,
    "clock.add_full": time.alarm_add_full,
    "clock.switch": time.alarm_switch,
    "clock.delete": time.alarm_delete,
    "clock.move": time.alarm_move,
    "clock.city": time.city_add,
    "clock.city_remove": time.city_remove,
    "clock.timer": time.timer_start,
    "calendar.add": time.event_add,
    "calendar.add_full": time.event_add_full,
    "calendar.delete": time.event_delete,
    "calendar.place": time.event_place,
    "calendar.move": time.event_move,
    "calendar.delete_two": time.event_clear,
    "notes.add": storage.note_add,
    "notes.list": storage.checklist_add,
    "notes.long_list": storage.checklist_add_long,
    "notes.tick": storage.checklist_tick,
    "notes.delete": storage.note_delete,
    "notes.pin": storage.note_pin,
    "notes.label": storage.note_label,
    "notes.rename": storage.note_edit,
    "files.delete": storage.file_delete,
    "files.star": storage.file_star,
    "files.rename": storage.file_rename,
    "files.move": storage.file_move,
    "files.folder": storage.folder_add,
    "shop.cart": storage.cart_add,
    "shop.wish": storage.wish_add,
    "shop.remove": storage.cart_remove,
    "shop.cancel": storage.order_cancel,
    "shop.order": storage.order_place,
    "shop.order_two": storage.order_two,
    "settings.switch": storage.setting_switch,
    "settings.choice": storage.setting_choice,
    "settings.slider": storage.setting_slider,
    "settings.notify": storage.setting_notify,
    "settings.hotspot": storage.hotspot_name,
}

SERIES: dict[str, tuple[Sequence[str], int, int]] = {
    "contacts.tidy": (("contacts.star", "contacts.edit", "contacts.group", "contacts.delete"), 2, 3),
    "contacts.two_new": (("contacts.add_full", "contacts.add"), 2, 3),
    "messages.round": (("messages.send",), 2, 4),
    "messages.tidy": (("messages.mark", "messages.star", "messages.delete", "messages.forward"), 2, 3),
    "clock.three": (("clock.add", "clock.add_full"), 3, 3),
    "clock.tidy": (("clock.switch", "clock.delete", "clock.move", "clock.city"), 2, 3),
    "calendar.week": (("calendar.add", "calendar.add_full"), 2, 2),
    "calendar.tidy": (("calendar.place", "calendar.move", "calendar.delete"), 2, 3),
    "notes.tidy": (("notes.rename", "notes.pin", "notes.delete", "notes.tick"), 2, 3),
    "notes.desk": (("notes.add", "notes.list"), 2, 3),
    "files.tidy": (("files.move", "files.rename", "files.delete", "files.folder"), 2, 4),
    "shop.basket": (("shop.cart",), 3, 4),
    "settings.set_up": (("settings.switch", "settings.choice", "settings.slider", "settings.notify"), 3, 5),
    "mixed.two_apps": (tuple(f for f in PARTS if f not in ("messages.new", "shop.order", "shop.order_two")), 2, 3),
    "mixed.morning": (("clock.add", "messages.send", "calendar.add", "settings.switch", "notes.tick"), 3, 5),
}
"""Several parts in a row, this many (from, to), drawn from these; none about what another is about."""


def _single(name: str) -> Family:
    def make(start: dict[str, Any], snapshot: Snapshot, rng: Random) -> PhoneTask:
        return compose(name, start, snapshot, [PARTS[name](snapshot, rng)], rng)

    return make


def _series(name: str) -> Family:
    kinds, least, most = SERIES[name]

    def make(start: dict[str, Any], snapshot: Snapshot, rng: Random) -> PhoneTask | None:
        wanted, parts = rng.randint(least, most), list[AppGoal]()
        for _ in range(DRAWS):
            if len(parts) == wanted:
                apps = [p.app for p in parts]
                parts.sort(key=lambda p: apps.index(p.app))  # those of an app in a row
                return compose(name, start, snapshot, parts, rng)
            one = PARTS[rng.choice(kinds)](snapshot, rng)
            # Parts about the same thing could contradict one another.
            if not any(one.subjects & other.subjects for other in parts):
                parts.append(one)
        # Too few parts fit together on this phone.
        return None

    return make


FAMILIES: dict[str, Family] = {
    **{name: _single(name) for name in PARTS},
    **{name: _series(name) for name in SERIES},
    **CROSS,
    **ANSWERS,
}


def make_task(family: str, seed: int) -> PhoneTask | None:
    """The family's task on the phone of a seed; None where that phone can't carry one. Raises `ValueError` for a
    family that there isn't."""
    if family not in FAMILIES:
        raise ValueError(f"phone: no family of tasks {family!r}; known are {', '.join(FAMILIES)}")
    snapshot = make_snapshot(seed)
    try:
        # By family and seed: adding a family changes no task of the others.
        return FAMILIES[family]({"world": "phone", "seed": seed}, snapshot, Random(f"phone-task/{family}/{seed}"))
    except IndexError:  # nothing to choose from: no such thing on this phone
        return None


def phone_tasks(seed: int, count: int) -> Iterator[PhoneTask]:
    """`count` tasks, families in turn, no goal twice on one phone; every one on a phone of its own seed."""
    names, made, number = list(FAMILIES), 0, 0
    while made < count:
        # A prime apart: two pools' seeds never share a phone.
        task = make_task(names[number % len(names)], seed * 1_000_003 + number)
        number += 1
        if task is not None:
            made += 1
            yield task
