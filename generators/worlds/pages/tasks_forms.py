"""Tasks in settings, the profile form and the shop."""

from random import Random
from typing import Any

from generators.worlds.pages.page_task import WORDS, Intent, Maker, PageTask, State, new_task


def settings(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        s = state["settings"]
        name = rng.choice(sorted(s["switches"]))
        # Always to the other side: a task must change something.
        want = not s["switches"][name]
        word = "on" if want else "off"
        flip: list[Intent] = [("tap", f"switch:{name}")]
        if kind == "switch":
            return new_task(
                rng,
                "settings.switch",
                {"name": name, "word": word},
                {"name": s["switches"]},
                flip,
                [(f"settings.switches.{name}", want)],
            )
        if kind == "two":
            second = rng.choice([n for n in sorted(s["switches"]) if n != name])
            want2 = not s["switches"][second]
            return new_task(
                rng,
                "settings.two",
                {"name": name, "word": word, "second": second, "word2": "on" if want2 else "off"},
                {"name": [n for n in s["switches"] if n != second]},
                [*flip, ("tap", f"switch:{second}")],
                [(f"settings.switches.{name}", want), (f"settings.switches.{second}", want2)],
            )
        if kind == "slider":
            slider = rng.choice(sorted(s["sliders"]))
            # At least 20 from where it stands, so that the step is worth doing and can't hold by accident.
            value = rng.choice([v for v in range(10, 100, 10) if abs(v - s["sliders"][slider]) >= 20])
            return new_task(
                rng,
                "settings.slider",
                {"slider": slider, "value": str(value)},
                {"value": [str(v) for v in range(10, 100, 10)]},
                [("slide", f"slider:{slider}", str(value))],
                [(f"settings.sliders.{slider}", value)],
            )
        choice = rng.choice(sorted(s["choices"]))
        options = s["options"][choice]
        # Never what is chosen already.
        value = rng.choice([o for o in options if o != s["choices"][choice]])
        return new_task(
            rng,
            "settings.choice",
            {"choice": choice, "value": value},
            {"value": options},
            [("tap", f"choice:{choice}"), ("tap", f"opt:{value}")],
            [(f"settings.choices.{choice}", value)],
        )

    return make


FILL: dict[str, tuple[str, ...]] = {
    "Name": ("Mira Stone", "Paul Berg", "Lena Fox", "Otto Lang"),
    "Email": ("mira@post.test", "paul@mail.test", "lena@web.test"),
    "Phone": ("030 5512", "089 4410", "020 7781"),
    "City": ("Berlin", "Oslo", "Porto", "Ghent"),
    "Street": ("Oak Street 12", "Mill Lane 4", "Park Row 19"),
    "Company": ("Bright Ltd", "Nordwind", "Blue Door"),
}


def profile(state: State, rng: Random) -> PageTask | None:
    p = state["profile"]
    # Two fields are drawn for every kind, so that the draws after them don't depend on it.
    fields = rng.sample(p["fields"], 2)
    values = [rng.choice(FILL[f]) for f in fields]
    slots = {"f1": fields[0].lower(), "v1": values[0], "f2": fields[1].lower(), "v2": values[1]}
    others = {"v1": FILL[fields[0]], "v2": FILL[fields[1]]}
    plan: list[Intent] = [("type", f"field:{fields[0]}", values[0])]
    checks: list[tuple[str, Any]] = [(f"profile.submitted.values.{fields[0]}", values[0])]
    kind = rng.choice(["second", "country", "agree"])
    if kind == "second":
        plan.append(("type", f"field:{fields[1]}", values[1]))
        checks.append((f"profile.submitted.values.{fields[1]}", values[1]))
    elif kind == "country":
        country = rng.choice(p["countries"])
        slots["country"], others["country"] = country, tuple(p["countries"])
        plan.append(("select", "field:Country", country))
        checks.append(("profile.submitted.country", country))
    else:
        plan.append(("tap", "agree"))
        checks.append(("profile.submitted.agree", True))
    # Only slots that the words name can be changed into an untrue goal.
    others = {k: v for k, v in others.items() if any("{" + k + "}" in w for w in WORDS[f"profile.{kind}"])}
    return new_task(rng, f"profile.{kind}", slots, others, [*plan, ("tap", "submit")], checks)


def shop(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        products = state["shop"]["products"]
        p = rng.choice(products)
        names = [x["name"] for x in products]
        open_it, slots = ("tap", f"product:{p['id']}"), {"product": p["name"]}
        if kind == "add":
            # Never the first colour: it is chosen from the start.
            colour = rng.choice(p["colours"][1:])
            return new_task(
                rng,
                "shop.add",
                {**slots, "colour": colour.lower()},
                {"product": names, "colour": [c.lower() for c in p["colours"]]},
                [open_it, ("tap", f"colour:{colour}"), ("tap", "add")],
                [("shop.cart.0.name", p["name"]), ("shop.cart.0.colour", colour)],
            )
        if kind == "search":
            word = p["name"].split()[-1]
            plan: list[Intent] = [
                ("tap", "shop:search"),
                ("type", "shop:query", word),
                ("enter",) if rng.random() < 0.6 else ("tap", "shop:go"),
                open_it,
                ("tap", "add"),
            ]
            return new_task(
                rng, "shop.search", {**slots, "word": word}, {"product": names}, plan, [("shop.cart.0.name", p["name"])]
            )
        if kind == "checkout":
            city = rng.choice(FILL["City"])
            plan = [
                open_it,
                ("tap", "add"),
                ("tap", "cart"),
                ("tap", "checkout"),
                ("type", "pay:city", city),
                ("tap", "order"),
            ]
            return new_task(
                rng,
                "shop.checkout",
                {**slots, "city": city},
                {"product": names, "city": FILL["City"]},
                plan,
                [("shop.ordered.city", city), ("shop.ordered.items.0", p["name"])],
            )
        if kind == "count":
            return new_task(
                rng,
                "shop.count",
                slots,
                {"product": names},
                [open_it, ("tap", "more"), ("tap", "add")],
                [("shop.cart.0.name", p["name"]), ("shop.cart.0.count", 2)],
            )
        second = rng.choice([x for x in products if x["id"] != p["id"]])
        plan = [open_it, ("back",), ("tap", f"product:{second['id']}"), ("tap", "like")]
        return new_task(
            rng,
            "shop.compare",
            {**slots, "second": second["name"]},
            {"second": [n for n in names if n != p["name"]]},
            plan,
            [("shop.liked.0", second["id"])],
        )

    return make
