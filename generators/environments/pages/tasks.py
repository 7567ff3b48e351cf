"""Tasks on our own pages: a goal in words, a plan for the scripted oracle, and the state that proves success.

A task is made from the page's own model, so every name in its goal is really on the screen somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

State = dict[str, Any]
Intent = tuple[str, ...]  # ("tap", key) ("type", key, text) ("select", key, option) ("enter",) ("back",) ("slide", key, percent)
TITLES = {
    "mail": "Mail", "todo": "Tasks", "news": "News", "contacts": "Contacts",
    "settings": "Settings", "profile": "Profile", "shop": "Shop", "tools": "Tools",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """`templates[template]` formatted with `slots` is the goal; `others` are untrue values a slot could have had."""

    family: str
    app: str
    templates: tuple[str, ...]
    template: int
    slots: dict[str, str]
    others: dict[str, tuple[str, ...]]
    plan: tuple[Intent, ...]
    checks: tuple[tuple[str, Any], ...]  # (dotted path in vesperState(), value)
    entry: bool = False  # starts outside the app, so the first step opens it

    @property
    def goal(self) -> str:
        return self.phrase(self.template)

    def phrase(self, template: int) -> str:
        """The goal in the words of another template."""
        text = self.templates[template % len(self.templates)].format(**self.slots)
        return text[0].upper() + text[1:]

    def near_miss(self, rng: Random) -> tuple[str, str, str] | None:
        """(goal with one entity changed, the true word, the untrue word), or None if nothing can change."""
        slots = [slot for slot in sorted(self.others) if any(o != self.slots[slot] for o in self.others[slot])]
        if not slots:
            return None
        slot = rng.choice(slots)
        wrong = rng.choice([o for o in self.others[slot] if o != self.slots[slot]])
        changed = replace(self, slots={**self.slots, slot: wrong})
        return changed.goal, self.slots[slot], wrong


def lookup(state: State, path: str) -> Any:
    """Follow a dotted path; list positions are numbers, `-1` the last. None where the path ends early."""
    value: Any = state
    for part in path.split("."):
        if isinstance(value, list):
            index = int(part)
            if not -len(value) <= index < len(value):
                return None
            value = value[index]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def holds(state: State, checks: tuple[tuple[str, Any], ...]) -> bool:
    """True if the state has every value that the task asks for."""
    return all(lookup(state, path) == value for path, value in checks)


Maker = Callable[[State, Random], Task | None]


def _task(rng: Random, family: str, templates: tuple[str, ...], slots: dict[str, str], others: dict[str, Any],
          plan: list[Intent], checks: list[tuple[str, Any]]) -> Task:  # fmt: skip
    return Task(family, family.split(".")[0], templates, rng.randrange(len(templates)), slots,
                {k: tuple(dict.fromkeys(v)) for k, v in others.items()}, tuple(plan), tuple(checks))  # fmt: skip


NOTES = ("See you soon", "Thanks a lot", "I will call you", "Sounds good", "Not this week", "Please wait", "Count me in")


def _mail(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        rows = [m for m in state["mail"]["messages"] if not m["starred"]]
        if not rows:
            return None
        m = rng.choice(rows)
        i, slots = m["id"], {"subject": m["subject"], "sender": m["sender"]}
        others = {"subject": [r["subject"] for r in state["mail"]["messages"]]}
        open_it, path = ("tap", f"mail:{i}"), f"mail.messages.{i}"
        if kind == "star":
            words = ('star the message "{subject}"', 'mark "{subject}" with a star in the inbox', 'put a star on the mail called "{subject}"')
            return _task(rng, "mail.star", words, slots, others, [("tap", f"star:{i}")], [(f"{path}.starred", True)])
        if kind == "delete":
            words = ('delete the message "{subject}"', 'open "{subject}" and delete it', 'remove the mail with the subject "{subject}"')
            return _task(rng, "mail.delete", words, slots, others, [open_it, ("tap", "msg:delete"), ("tap", "dlg:yes")], [(f"{path}.deleted", True)])
        if kind == "archive":
            words = ('archive the message "{subject}"', 'open the mail "{subject}" and archive it', 'move "{subject}" to the archive')
            return _task(rng, "mail.archive", words, slots, others, [open_it, ("tap", "msg:archive")], [("mail.archived.0", i)])
        if kind == "search":
            word = m["subject"].split()[-1]
            words = ('search the mail for "{word}" and open "{subject}"', 'find the message "{subject}" by searching for "{word}"', 'look up "{word}" in the mail and open "{subject}"')
            plan: list[Intent] = [("tap", "mail:search"), ("type", "mail:query", word), ("enter",) if rng.random() < 0.6 else ("tap", "mail:go"), open_it]
            return _task(rng, "mail.search", words, {**slots, "word": word}, others, plan, [("view", "message"), ("item", i)])
        note = rng.choice(NOTES)
        words = ('reply "{note}" to the message "{subject}"', 'answer the mail "{subject}" with "{note}"', 'open "{subject}" and send the reply "{note}"')
        plan = [open_it, ("tap", "msg:reply"), ("type", "reply:text", note), ("tap", "reply:send")]
        return _task(rng, "mail.reply", words, {**slots, "note": note}, {**others, "note": NOTES}, plan, [("mail.sent.0.to", i), ("mail.sent.0.text", note)])

    return make


NEW_TODOS = ("Buy stamps", "Visit grandma", "Order pizza", "Check the oil", "Plan the trip", "Phone the school", "Find the receipt", "Hang the picture")


def _todo(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        rows = [t for t in state["todo"]["items"] if not t["done"]]
        if len(rows) < 2:
            return None
        t, u = rng.sample(rows, 2)
        names = [r["text"] for r in state["todo"]["items"]]
        if kind == "add":
            text = rng.choice(NEW_TODOS)
            words = ('add the task "{text}"', 'put "{text}" on the task list', 'create a new task called "{text}"')
            plan: list[Intent] = [("type", "todo:new", text), ("enter",) if rng.random() < 0.5 else ("tap", "todo:add")]
            return _task(rng, "todo.add", words, {"text": text}, {"text": NEW_TODOS}, plan, [("todo.items.-1.text", text)])
        if kind == "tick":
            words = ('mark "{one}" and "{two}" as done', 'tick off "{one}" and "{two}"', 'complete the tasks "{one}" and "{two}"')
            plan = [("tap", f"tick:{t['id']}"), ("tap", f"tick:{u['id']}")]
            return _task(rng, "todo.tick", words, {"one": t["text"], "two": u["text"]}, {"one": [n for n in names if n != u["text"]], "two": [n for n in names if n != t["text"]]}, plan, [(f"todo.items.{t['id']}.done", True), (f"todo.items.{u['id']}.done", True)])
        if kind == "delete":
            words = ('delete the task "{one}" and show the open tasks', 'remove "{one}" from the list, then show only open tasks', 'take "{one}" off the list and switch to the open tasks')
            return _task(rng, "todo.delete", words, {"one": t["text"]}, {"one": names}, [("tap", f"del:{t['id']}"), ("tap", "tab:Open")], [(f"todo.items.{t['id']}.deleted", True), ("todo.filter", "Open")])
        words = ('show the done tasks after finishing "{one}"', 'finish "{one}" and open the done tab', 'tick "{one}", then look at what is done')
        return _task(rng, "todo.filter", words, {"one": t["text"]}, {"one": names}, [("tap", f"tick:{t['id']}"), ("tap", "tab:Done")], [(f"todo.items.{t['id']}.done", True), ("todo.filter", "Done")])

    return make


def _news(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        one, two = rng.sample(state["news"]["items"], 2)
        titles = [x["title"] for x in state["news"]["items"]]
        if kind == "save":
            words = ('save the article "{title}"', 'open "{title}" and save it', 'keep the news story "{title}" for later')
            return _task(rng, "news.save", words, {"title": one["title"]}, {"title": titles}, [("tap", f"news:{one['id']}"), ("tap", "art:save")], [("news.saved.0", one["id"])])
        words = ('save "{title}", then go back and like "{second}"', 'open "{title}" and save it, return to the list and like "{second}"', 'first save the story "{title}", then like the story "{second}"')
        plan = [("tap", f"news:{one['id']}"), ("tap", "art:save"), ("back",), ("tap", f"news:{two['id']}"), ("tap", "art:like")]
        return _task(rng, "news.two", words, {"title": one["title"], "second": two["title"]}, {"second": [t for t in titles if t != one["title"]]}, plan, [("news.saved.0", one["id"]), ("news.likes.0", two["id"])])

    return make


def _contacts(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        person = rng.choice(state["contacts"]["people"])
        names = [p["name"] for p in state["contacts"]["people"]]
        if kind == "call":
            words = ("call {person}", "open the contact {person} and call", "make a phone call to {person}")
            return _task(rng, "contacts.call", words, {"person": person["name"]}, {"person": names}, [("tap", f"person:{person['id']}"), ("tap", "call")], [("contacts.called.0", person["id"])])
        words = ("add {person} to the favourites and go back", "make {person} a favourite contact, then go back to the list", "mark the contact {person} as favourite and return")
        return _task(rng, "contacts.favourite", words, {"person": person["name"]}, {"person": names}, [("tap", f"person:{person['id']}"), ("tap", "fav"), ("back",)], [(f"contacts.people.{person['id']}.favourite", True), ("view", "main")])

    return make


def _settings(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        s = state["settings"]
        name = rng.choice(sorted(s["switches"]))
        want = not s["switches"][name]
        word = "on" if want else "off"
        flip = [("tap", f"switch:{name}")]
        if kind == "switch":
            words = ("turn {word} {name}", "switch {name} {word}", "set {name} to {word} in the settings")
            return _task(rng, "settings.switch", words, {"name": name, "word": word}, {"name": s["switches"]}, flip, [(f"settings.switches.{name}", want)])
        if kind == "two":
            second = rng.choice([n for n in sorted(s["switches"]) if n != name])
            want2 = not s["switches"][second]
            words = ("turn {word} {name} and turn {word2} {second}", "switch {name} {word} and {second} {word2}", "set {name} to {word}, then {second} to {word2}")
            return _task(rng, "settings.two", words, {"name": name, "word": word, "second": second, "word2": "on" if want2 else "off"}, {"name": [n for n in s["switches"] if n != second]}, [*flip, ("tap", f"switch:{second}")], [(f"settings.switches.{name}", want), (f"settings.switches.{second}", want2)])
        if kind == "slider":
            slider = rng.choice(sorted(s["sliders"]))
            value = rng.choice([v for v in range(10, 100, 10) if abs(v - s["sliders"][slider]) >= 20])
            words = ("set {slider} to {value}%", "change {slider} to {value} percent", "move the {slider} slider to {value}%")
            return _task(rng, "settings.slider", words, {"slider": slider, "value": str(value)}, {"value": [str(v) for v in range(10, 100, 10)]}, [("slide", f"slider:{slider}", str(value))], [(f"settings.sliders.{slider}", value)])
        choice = rng.choice(sorted(s["choices"]))
        options = s["options"][choice]
        value = rng.choice([o for o in options if o != s["choices"][choice]])
        words = ("set {choice} to {value}", "change {choice} to {value}", "choose {value} as {choice}")
        return _task(rng, "settings.choice", words, {"choice": choice, "value": value}, {"value": options}, [("tap", f"choice:{choice}"), ("tap", f"opt:{value}")], [(f"settings.choices.{choice}", value)])

    return make


FILL = {
    "Name": ("Mira Stone", "Paul Berg", "Lena Fox", "Otto Lang"), "Email": ("mira@post.test", "paul@mail.test", "lena@web.test"),
    "Phone": ("030 5512", "089 4410", "020 7781"), "City": ("Berlin", "Oslo", "Porto", "Ghent"),
    "Street": ("Oak Street 12", "Mill Lane 4", "Park Row 19"), "Company": ("Bright Ltd", "Nordwind", "Blue Door"),
}  # fmt: skip


def _profile(state: State, rng: Random) -> Task | None:
    p = state["profile"]
    fields = rng.sample(p["fields"], 2)
    values = [rng.choice(FILL[f]) for f in fields]
    slots = {"f1": fields[0].lower(), "v1": values[0], "f2": fields[1].lower(), "v2": values[1]}
    others = {"v1": FILL[fields[0]], "v2": FILL[fields[1]]}
    plan: list[Intent] = [("type", f"field:{fields[0]}", values[0])]
    checks: list[tuple[str, Any]] = [(f"profile.submitted.values.{fields[0]}", values[0])]
    kind = rng.choice(["second", "country", "agree"])
    words: tuple[str, ...]
    if kind == "second":
        words = ("enter {v1} as {f1} and {v2} as {f2}, then send the form", 'fill in the {f1} "{v1}" and the {f2} "{v2}" and save', "in the profile set {f1} to {v1} and {f2} to {v2}, then submit")
        plan.append(("type", f"field:{fields[1]}", values[1]))
        checks.append((f"profile.submitted.values.{fields[1]}", values[1]))
    elif kind == "country":
        country = rng.choice(p["countries"])
        slots["country"], others["country"] = country, tuple(p["countries"])
        words = ("enter {v1} as {f1}, choose {country} as country and send the form", 'fill in the {f1} "{v1}", pick the country {country} and save', "set {f1} to {v1} and the country to {country}, then submit")
        plan.append(("select", "field:Country", country))
        checks.append(("profile.submitted.country", country))
    else:
        words = ("enter {v1} as {f1}, agree and send the form", 'fill in the {f1} "{v1}", tick I agree and save', "set {f1} to {v1}, accept the terms, then submit")
        plan.append(("tap", "agree"))
        checks.append(("profile.submitted.agree", True))
    others = {k: v for k, v in others.items() if any("{" + k + "}" in w for w in words)}
    return _task(rng, f"profile.{kind}", words, slots, others, [*plan, ("tap", "submit")], checks)


def _shop(kind: str) -> Maker:
    def make(state: State, rng: Random) -> Task | None:
        products = state["shop"]["products"]
        p = rng.choice(products)
        names = [x["name"] for x in products]
        open_it, slots = ("tap", f"product:{p['id']}"), {"product": p["name"]}
        if kind == "add":
            colour = rng.choice(p["colours"][1:])
            words = ("add the {colour} {product} to the cart", "buy a {product} in {colour}: put it in the cart", "put one {product} in {colour} into the cart")
            return _task(rng, "shop.add", words, {**slots, "colour": colour.lower()}, {"product": names, "colour": [c.lower() for c in p["colours"]]}, [open_it, ("tap", f"colour:{colour}"), ("tap", "add")], [("shop.cart.0.name", p["name"]), ("shop.cart.0.colour", colour)])
        if kind == "search":
            word = p["name"].split()[-1]
            words = ('search for "{word}" and add the {product} to the cart', 'find the {product} with the search word "{word}" and put it in the cart', 'look for "{word}", open the {product} and add it to the cart')
            plan: list[Intent] = [("tap", "shop:search"), ("type", "shop:query", word), ("enter",) if rng.random() < 0.6 else ("tap", "shop:go"), open_it, ("tap", "add")]
            return _task(rng, "shop.search", words, {**slots, "word": word}, {"product": names}, plan, [("shop.cart.0.name", p["name"])])
        if kind == "checkout":
            city = rng.choice(FILL["City"])
            words = ("order the {product} to {city}", "buy the {product} and have it sent to {city}", "check out with a {product} for the city {city}")
            plan = [open_it, ("tap", "add"), ("tap", "cart"), ("tap", "checkout"), ("type", "pay:city", city), ("tap", "order")]
            return _task(rng, "shop.checkout", words, {**slots, "city": city}, {"product": names, "city": FILL["City"]}, plan, [("shop.ordered.city", city), ("shop.ordered.items.0", p["name"])])
        if kind == "count":
            words = ("put two pieces of {product} in the cart", "add 2 x {product} to the cart", "buy the {product} twice: set the count to 2 and add it")
            return _task(rng, "shop.count", words, slots, {"product": names}, [open_it, ("tap", "more"), ("tap", "add")], [("shop.cart.0.name", p["name"]), ("shop.cart.0.count", 2)])
        second = rng.choice([x for x in products if x["id"] != p["id"]])
        words = ("look at the {product}, go back and like the {second}", "open the {product}, return, then add the {second} to the wish list", "first view the {product}, then like the {second}")
        plan = [open_it, ("back",), ("tap", f"product:{second['id']}"), ("tap", "like")]
        return _task(rng, "shop.compare", words, {**slots, "second": second["name"]}, {"second": [n for n in names if n != p["name"]]}, plan, [("shop.liked.0", second["id"])])

    return make


FAMILIES: dict[str, Maker] = {
    **{f"mail.{k}": _mail(k) for k in ("star", "delete", "archive", "search", "reply")},
    **{f"todo.{k}": _todo(k) for k in ("add", "tick", "delete", "filter")},
    **{f"news.{k}": _news(k) for k in ("save", "two")},
    **{f"contacts.{k}": _contacts(k) for k in ("call", "favourite")},
    **{f"settings.{k}": _settings(k) for k in ("switch", "two", "slider", "choice")},
    "profile.fill": _profile,
    **{f"shop.{k}": _shop(k) for k in ("add", "search", "checkout", "count", "compare")},
}


def app_of(family: str) -> str:
    return family.split(".")[0]


def make_task(family: str, state: State, rng: Random) -> Task | None:
    """A task of this family on the screen whose `vesperState()` is given; None if the screen can't carry one."""
    return FAMILIES[family](state, rng)
