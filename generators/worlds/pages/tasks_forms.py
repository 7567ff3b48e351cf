"""Tasks in settings, the profile form and the shop."""

from __future__ import annotations

from random import Random
from typing import Any

from generators.worlds.pages.page_task import Intent, Maker, PageTask, State, new_task


def settings(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        s = state["settings"]
        name = rng.choice(sorted(s["switches"]))
        # Always to the other side: a task must change something.
        want = not s["switches"][name]
        word = "on" if want else "off"
        flip: list[Intent] = [("tap", f"switch:{name}")]
        if kind == "switch":
            words = ("turn {word} {name}", "switch {name} {word}", "set {name} to {word} in the settings")
            return new_task(
                rng,
                "settings.switch",
                words,
                {"name": name, "word": word},
                {"name": s["switches"]},
                flip,
                [(f"settings.switches.{name}", want)],
            )
        if kind == "two":
            second = rng.choice([n for n in sorted(s["switches"]) if n != name])
            want2 = not s["switches"][second]
            words = (
                "turn {word} {name} and turn {word2} {second}",
                "switch {name} {word} and {second} {word2}",
                "set {name} to {word}, then {second} to {word2}",
            )
            return new_task(
                rng,
                "settings.two",
                words,
                {"name": name, "word": word, "second": second, "word2": "on" if want2 else "off"},
                {"name": [n for n in s["switches"] if n != second]},
                [*flip, ("tap", f"switch:{second}")],
                [(f"settings.switches.{name}", want), (f"settings.switches.{second}", want2)],
            )
        if kind == "slider":
            slider = rng.choice(sorted(s["sliders"]))
            # At least 20 from where it stands, so that the step is worth doing and can't hold by accident.
            value = rng.choice([v for v in range(10, 100, 10) if abs(v - s["sliders"][slider]) >= 20])
            words = (
                "set {slider} to {value}%",
                "change {slider} to {value} percent",
                "move the {slider} slider to {value}%",
            )
            return new_task(
                rng,
                "settings.slider",
                words,
                {"slider": slider, "value": str(value)},
                {"value": [str(v) for v in range(10, 100, 10)]},
                [("slide", f"slider:{slider}", str(value))],
                [(f"settings.sliders.{slider}", value)],
            )
        choice = rng.choice(sorted(s["choices"]))
        options = s["options"][choice]
        # Never what is chosen already.
        value = rng.choice([o for o in options if o != s["choices"][choice]])
        words = ("set {choice} to {value}", "change {choice} to {value}", "choose {value} as {choice}")
        return new_task(
            rng,
            "settings.choice",
            words,
            {"choice": choice, "value": value},
            {"value": options},
            [("tap", f"choice:{choice}"), ("tap", f"opt:{value}")],
            [(f"settings.choices.{choice}", value)],
        )

    return make


FILL = {
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
    words: tuple[str, ...]
    if kind == "second":
        words = (
            "enter {v1} as {f1} and {v2} as {f2}, then send the form",
            'fill in the {f1} "{v1}" and the {f2} "{v2}" and save',
            "in the profile set {f1} to {v1} and {f2} to {v2}, then submit",
        )
        plan.append(("type", f"field:{fields[1]}", values[1]))
        checks.append((f"profile.submitted.values.{fields[1]}", values[1]))
    elif kind == "country":
        country = rng.choice(p["countries"])
        slots["country"], others["country"] = country, tuple(p["countries"])
        words = (
            "enter {v1} as {f1}, choose {country} as country and send the form",
            'fill in the {f1} "{v1}", pick the country {country} and save',
            "set {f1} to {v1} and the country to {country}, then submit",
        )
        plan.append(("select", "field:Country", country))
        checks.append(("profile.submitted.country", country))
    else:
        words = (
            "enter {v1} as {f1}, agree and send the form",
            'fill in the {f1} "{v1}", tick I agree and save',
            "set {f1} to {v1}, accept the terms, then submit",
        )
        plan.append(("tap", "agree"))
        checks.append(("profile.submitted.agree", True))
    # Only slots that the words name can be changed into an untrue goal.
    others = {k: v for k, v in others.items() if any("{" + k + "}" in w for w in words)}
    return new_task(rng, f"profile.{kind}", words, slots, others, [*plan, ("tap", "submit")], checks)


def shop(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        products = state["shop"]["products"]
        p = rng.choice(products)
        names = [x["name"] for x in products]
        open_it, slots = ("tap", f"product:{p['id']}"), {"product": p["name"]}
        if kind == "add":
            # Never the first colour: it is chosen from the start.
            colour = rng.choice(p["colours"][1:])
            words = (
                "add the {colour} {product} to the cart",
                "buy a {product} in {colour}: put it in the cart",
                "put one {product} in {colour} into the cart",
            )
            return new_task(
                rng,
                "shop.add",
                words,
                {**slots, "colour": colour.lower()},
                {"product": names, "colour": [c.lower() for c in p["colours"]]},
                [open_it, ("tap", f"colour:{colour}"), ("tap", "add")],
                [("shop.cart.0.name", p["name"]), ("shop.cart.0.colour", colour)],
            )
        if kind == "search":
            word = p["name"].split()[-1]
            words = (
                'search for "{word}" and add the {product} to the cart',
                'find the {product} with the search word "{word}" and put it in the cart',
                'look for "{word}", open the {product} and add it to the cart',
            )
            plan: list[Intent] = [
                ("tap", "shop:search"),
                ("type", "shop:query", word),
                ("enter",) if rng.random() < 0.6 else ("tap", "shop:go"),
                open_it,
                ("tap", "add"),
            ]
            return new_task(
                rng,
                "shop.search",
                words,
                {**slots, "word": word},
                {"product": names},
                plan,
                [("shop.cart.0.name", p["name"])],
            )
        if kind == "checkout":
            city = rng.choice(FILL["City"])
            words = (
                "order the {product} to {city}",
                "buy the {product} and have it sent to {city}",
                "check out with a {product} for the city {city}",
            )
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
                words,
                {**slots, "city": city},
                {"product": names, "city": FILL["City"]},
                plan,
                [("shop.ordered.city", city), ("shop.ordered.items.0", p["name"])],
            )
        if kind == "count":
            words = (
                "put two pieces of {product} in the cart",
                "add 2 x {product} to the cart",
                "buy the {product} twice: set the count to 2 and add it",
            )
            return new_task(
                rng,
                "shop.count",
                words,
                slots,
                {"product": names},
                [open_it, ("tap", "more"), ("tap", "add")],
                [("shop.cart.0.name", p["name"]), ("shop.cart.0.count", 2)],
            )
        second = rng.choice([x for x in products if x["id"] != p["id"]])
        words = (
            "look at the {product}, go back and like the {second}",
            "open the {product}, return, then add the {second} to the wish list",
            "first view the {product}, then like the {second}",
        )
        plan = [open_it, ("back",), ("tap", f"product:{second['id']}"), ("tap", "like")]
        return new_task(
            rng,
            "shop.compare",
            words,
            {**slots, "second": second["name"]},
            {"second": [n for n in names if n != p["name"]]},
            plan,
            [("shop.liked.0", second["id"])],
        )

    return make
