"""Parts of tasks in clock and calendar."""

from datetime import date, timedelta
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
    pick_time,
    removed,
    tap,
)
from generators.worlds.phone.snapshot import Snapshot, hour

ALARMS, CITIES, EVENTS = "clock.alarms", "clock.cities", "calendar.events"
MONTHS = w.MONTHS


def free_time(s: Snapshot, rng: Random) -> str:
    """A time at which no alarm rings."""
    used = {a["time"] for a in s["data"]["clock"]["alarms"]}
    while (time := hour(rng)) in used:
        pass
    return time


def alarm_plan(time: str, label: str = "", days: tuple[str, ...] = ()) -> list[Intent]:
    """From the list of alarms to a saved new one."""
    # 07:00 is what a new alarm shows.
    plan = [*tap("add"), *pick_time("time", "07:00", time), *(fill("label", label) if label else ())]
    return [*plan, *tap(*(f"repeat:{day}" for day in days), "save")]


def alarm_add(s: Snapshot, rng: Random) -> AppGoal:
    time = free_time(s, rng)
    says = (f"set an alarm for {time}", f"add an alarm at {time}", f"create an alarm that rings at {time}")
    effect = added(ALARMS, time=time, label="", days=[], vibrate=True, on=True)
    return part(rng, "clock", says, alarm_plan(time), [], effect, time)


def alarm_add_full(s: Snapshot, rng: Random) -> AppGoal:
    time, label = free_time(s, rng), rng.choice(w.ALARM_LABELS)
    # At least one day, or it wouldn't repeat.
    days = tuple(d for d in w.SHORT_DAYS if rng.random() < 0.35) or ("Sat",)
    listed = ", ".join(days)
    says = (
        f'set an alarm for {time} labelled "{label}" that repeats on {listed}',
        f'add a repeating alarm: {time} on {listed}, with the label "{label}"',
    )
    effect = added(ALARMS, time=time, label=label, days=list(days), vibrate=True, on=True)
    return part(rng, "clock", says, alarm_plan(time, label, days), [], effect, time)


def alarm_switch(s: Snapshot, rng: Random) -> AppGoal:
    a = rng.choice(s["data"]["clock"]["alarms"])
    word = "off" if a["on"] else "on"
    says = (f"turn {word} the alarm at {a['time']}", f"switch the {a['time']} alarm {word}")
    return part(rng, "clock", says, tap(f"switch:{a['id']}"), [], changed(ALARMS, a, on=not a["on"]), a["id"])


def alarm_delete(s: Snapshot, rng: Random) -> AppGoal:
    a = rng.choice(s["data"]["clock"]["alarms"])
    says = (f"delete the alarm at {a['time']}", f"remove the {a['time']} alarm")
    return part(rng, "clock", says, tap(f"alarm:{a['id']}", "delete", "dlg:yes"), [], removed(ALARMS, a), a["id"])


def alarm_move(s: Snapshot, rng: Random) -> AppGoal:
    a, time = rng.choice(s["data"]["clock"]["alarms"]), free_time(s, rng)
    says = (f"move the alarm at {a['time']} to {time}", f"change the {a['time']} alarm so that it rings at {time}")
    plan = [*tap(f"alarm:{a['id']}"), *pick_time("time", a["time"], time), *tap("save")]
    # Moving an alarm switches it on, as the page does.
    return part(rng, "clock", says, plan, [], changed(ALARMS, a, time=time, on=True), a["id"], time)


def city_add(s: Snapshot, rng: Random) -> AppGoal:
    used = {c["name"] for c in s["data"]["clock"]["cities"]}
    name = rng.choice([c for c in sorted(w.WORLD_CITIES) if c not in used])
    says = (f"add {name} to the world clock", f"show the time of {name} in the world clock")
    plan = tap("tab:world", "add", f"add:{name}")
    return part(rng, "clock", says, plan, tap("tab:alarm"), added(CITIES, name=name), name)


def city_remove(s: Snapshot, rng: Random) -> AppGoal:
    c = rng.choice(s["data"]["clock"]["cities"])
    says = (f"remove {c['name']} from the world clock", f"take {c['name']} off the world clock")
    plan = [*tap("tab:world"), ("hold", f"city:{c['id']}"), *tap("select:delete")]
    return part(rng, "clock", says, plan, tap("tab:alarm"), removed(CITIES, c), c["id"])


def timer_start(s: Snapshot, rng: Random) -> AppGoal:
    # Buttons of one, five and ten minutes, each at most as often as listed.
    steps = rng.sample((60, 60, 300, 300, 600), rng.randint(1, 4))
    total = sum(steps)
    says = (f"start a timer of {total // 60} minutes", f"set the timer to {total // 60} minutes and start it")
    checks = [
        {"check": "value", "path": "clock.timer.total", "is": total},
        {"check": "value", "path": "clock.timer.running", "is": True},
    ]
    plan = tap("tab:timer", *(f"timer:+{step}" for step in steps), "timer:start")
    return part(
        rng,
        "clock",
        says,
        plan,
        tap("tab:alarm"),
        # All of the timer may change: what is left runs with the clock.
        (tuple(checks), {"clock.timer": ["total", "left", "running"]}),
        "timer",
    )


def day_words(day: str) -> str:
    """2026-07-16 → 16 July 2026."""
    return f"{int(day[8:])} {MONTHS[int(day[5:7]) - 1]} {day[:4]}"


def later(s: Snapshot, rng: Random) -> str:
    """A day from tomorrow on, at most 40 days away."""
    # Within 40 days: the calendar is paged month by month.
    return (date.fromisoformat(s["now"]["day"]) + timedelta(days=rng.randint(1, 40))).isoformat()


def pick_day(s: Snapshot, old: str, new: str) -> list[Intent]:
    """On the page with months: page to the new day's and tap it."""
    # Months between, in either direction.
    months = (int(new[:4]) - int(old[:4])) * 12 + int(new[5:7]) - int(old[5:7])
    return tap(*["month:next" if months > 0 else "month:last"] * abs(months), f"day:{new}")


def event_fields(s: Snapshot, rng: Random) -> dict[str, str]:
    used = {e["title"] for e in s["data"]["calendar"]["events"]}
    start = rng.randint(7, 18)
    return {
        "title": rng.choice([t for t in w.EVENTS if t not in used]),
        "day": later(s, rng),
        # At 18 the latest, so that the end lies on the same day.
        "start": f"{start:02d}:{rng.choice(('00', '15', '30', '45'))}",
        "end": f"{start + rng.randint(1, 3):02d}:{rng.choice(('00', '30'))}",
    }


def event_plan(s: Snapshot, f: dict[str, str]) -> list[Intent]:
    """From the calendar to a saved event; the end first, for it must lie after the start only when saved."""
    plan = [
        *tap("add"),
        *fill("title", f["title"]),
        *tap("pick:day"),
        *pick_day(s, s["now"]["day"], f["day"]),
        # 09:00 and 10:00 are what a new event shows.
        *pick_time("start", "09:00", f["start"]),
        *pick_time("end", "10:00", f["end"]),
    ]
    plan += fill("place", f["place"]) if f.get("place") else []
    plan += tap("pick:remind", f"opt:{f['remind']}") if f.get("remind") else []
    return [*plan, *tap("save")]


def event_add(s: Snapshot, rng: Random) -> AppGoal:
    f = event_fields(s, rng)
    when = f"on {day_words(f['day'])} from {f['start']} to {f['end']}"
    says = (f'create the event "{f["title"]}" {when}', f'put "{f["title"]}" into the calendar {when}')
    return part(rng, "calendar", says, event_plan(s, f), [], added(EVENTS, **f, place="", remind="None"), f["title"])


def event_add_full(s: Snapshot, rng: Random) -> AppGoal:
    f = {
        **event_fields(s, rng),
        "place": rng.choice(w.PLACES),
        "remind": rng.choice(("5 minutes", "15 minutes", "1 hour", "1 day")),
    }
    when = f"on {day_words(f['day'])} from {f['start']} to {f['end']}"
    says = (
        f'create the event "{f["title"]}" {when} at {f["place"]} with a reminder {f["remind"]} before',
        f'add "{f["title"]}" to the calendar {when}, place {f["place"]}, reminder {f["remind"]}',
    )
    return part(rng, "calendar", says, event_plan(s, f), [], added(EVENTS, **f), f["title"])


def _coming(s: Snapshot, rng: Random) -> dict[str, Any]:
    found: dict[str, Any] = rng.choice([e for e in s["data"]["calendar"]["events"] if e["day"] >= s["now"]["day"]])
    return found


def event_delete(s: Snapshot, rng: Random) -> AppGoal:
    e = _coming(s, rng)
    says = (f'delete the event "{e["title"]}" from the calendar', f'cancel "{e["title"]}" in the calendar')
    plan = tap("agenda", f"event:{e['id']}", "delete", "dlg:yes")
    return part(rng, "calendar", says, plan, tap("up"), removed(EVENTS, e), e["id"])


def event_place(s: Snapshot, rng: Random) -> AppGoal:
    e = _coming(s, rng)
    place = rng.choice([p for p in w.PLACES if p != e["place"]])
    plan = [*tap("agenda", f"event:{e['id']}", "edit"), *fill("place", place, old=bool(e["place"])), *tap("save")]
    says = (
        f'set the place of the event "{e["title"]}" to {place}',
        f'"{e["title"]}" now takes place at {place}: correct the calendar',
    )
    return part(rng, "calendar", says, plan, tap("up", "up"), changed(EVENTS, e, place=place), e["id"])


def event_move(s: Snapshot, rng: Random) -> AppGoal:
    e = _coming(s, rng)
    # Another day than the present one.
    while (day := later(s, rng)) == e["day"]:
        pass
    plan = tap("agenda", f"event:{e['id']}", "edit", "pick:day") + pick_day(s, e["day"], day) + tap("save")
    says = (
        f'move the event "{e["title"]}" to {day_words(day)}',
        f'"{e["title"]}" is on {day_words(day)} instead: change the day',
    )
    return part(rng, "calendar", says, plan, tap("up", "up"), changed(EVENTS, e, day=day), e["id"])


def event_clear(s: Snapshot, rng: Random) -> AppGoal:
    """Delete two coming events at once."""
    coming = [e for e in s["data"]["calendar"]["events"] if e["day"] >= s["now"]["day"]]
    a, b = rng.sample(coming, 2)
    plan = [*tap("agenda"), ("hold", f"event:{a['id']}"), *tap(f"event:{b['id']}", "select:delete", "dlg:yes")]
    says = (
        f'delete the events "{a["title"]}" and "{b["title"]}"',
        f'remove both "{a["title"]}" and "{b["title"]}" from the calendar',
    )
    return part(
        rng, "calendar", says, plan, tap("up"), effects(removed(EVENTS, a), removed(EVENTS, b)), a["id"], b["id"]
    )
