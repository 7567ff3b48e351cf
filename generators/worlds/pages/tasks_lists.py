"""Tasks in mail, to-do list, news and contacts."""

from random import Random

from generators.worlds.pages.page_task import Intent, Maker, PageTask, State, new_task

NOTES = (
    "See you soon",
    "Thanks a lot",
    "I will call you",
    "Sounds good",
    "Not this week",
    "Please wait",
    "Count me in",
)


def mail(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        # Starred ones are left out: starring them again would do nothing.
        rows = [m for m in state["mail"]["messages"] if not m["starred"]]
        if not rows:
            return None
        m = rng.choice(rows)
        i, slots = m["id"], {"subject": m["subject"], "sender": m["sender"]}
        others = {"subject": [r["subject"] for r in state["mail"]["messages"]]}
        open_it, path = ("tap", f"mail:{i}"), f"mail.messages.{i}"
        if kind == "star":
            return new_task(rng, "mail.star", slots, others, [("tap", f"star:{i}")], [(f"{path}.starred", True)])
        if kind == "delete":
            return new_task(
                rng,
                "mail.delete",
                slots,
                others,
                [open_it, ("tap", "msg:delete"), ("tap", "dlg:yes")],
                [(f"{path}.deleted", True)],
            )
        if kind == "archive":
            return new_task(
                rng, "mail.archive", slots, others, [open_it, ("tap", "msg:archive")], [("mail.archived.0", i)]
            )
        if kind == "search":
            word = m["subject"].split()[-1]
            plan: list[Intent] = [
                ("tap", "mail:search"),
                ("type", "mail:query", word),
                ("enter",) if rng.random() < 0.6 else ("tap", "mail:go"),
                open_it,
            ]
            return new_task(
                rng, "mail.search", {**slots, "word": word}, others, plan, [("view", "message"), ("item", i)]
            )
        note = rng.choice(NOTES)
        plan = [open_it, ("tap", "msg:reply"), ("type", "reply:text", note), ("tap", "reply:send")]
        return new_task(
            rng,
            "mail.reply",
            {**slots, "note": note},
            {**others, "note": NOTES},
            plan,
            [("mail.sent.0.to", i), ("mail.sent.0.text", note)],
        )

    return make


NEW_TODOS = (
    "Buy stamps",
    "Visit grandma",
    "Order pizza",
    "Check the oil",
    "Plan the trip",
    "Phone the school",
    "Find the receipt",
    "Hang the picture",
)


def todo(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        rows = [t for t in state["todo"]["items"] if not t["done"]]
        # Two open tasks, which most families of the list need.
        if len(rows) < 2:
            return None
        t, u = rng.sample(rows, 2)
        names = [r["text"] for r in state["todo"]["items"]]
        if kind == "add":
            text = rng.choice(NEW_TODOS)
            plan: list[Intent] = [("type", "todo:new", text), ("enter",) if rng.random() < 0.5 else ("tap", "todo:add")]
            return new_task(rng, "todo.add", {"text": text}, {"text": NEW_TODOS}, plan, [("todo.items.-1.text", text)])
        if kind == "tick":
            plan = [("tap", f"tick:{t['id']}"), ("tap", f"tick:{u['id']}")]
            return new_task(
                rng,
                "todo.tick",
                {"one": t["text"], "two": u["text"]},
                {"one": [n for n in names if n != u["text"]], "two": [n for n in names if n != t["text"]]},
                plan,
                [(f"todo.items.{t['id']}.done", True), (f"todo.items.{u['id']}.done", True)],
            )
        if kind == "delete":
            return new_task(
                rng,
                "todo.delete",
                {"one": t["text"]},
                {"one": names},
                [("tap", f"del:{t['id']}"), ("tap", "tab:Open")],
                [(f"todo.items.{t['id']}.deleted", True), ("todo.filter", "Open")],
            )
        return new_task(
            rng,
            "todo.filter",
            {"one": t["text"]},
            {"one": names},
            [("tap", f"tick:{t['id']}"), ("tap", "tab:Done")],
            [(f"todo.items.{t['id']}.done", True), ("todo.filter", "Done")],
        )

    return make


def news(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        # Two different stories; the second is what distinguishes saving from liking.
        one, two = rng.sample(state["news"]["items"], 2)
        titles = [x["title"] for x in state["news"]["items"]]
        if kind == "save":
            return new_task(
                rng,
                "news.save",
                {"title": one["title"]},
                {"title": titles},
                [("tap", f"news:{one['id']}"), ("tap", "art:save")],
                [("news.saved.0", one["id"])],
            )
        plan = [
            ("tap", f"news:{one['id']}"),
            ("tap", "art:save"),
            ("back",),
            ("tap", f"news:{two['id']}"),
            ("tap", "art:like"),
        ]
        return new_task(
            rng,
            "news.two",
            {"title": one["title"], "second": two["title"]},
            {"second": [t for t in titles if t != one["title"]]},
            plan,
            [("news.saved.0", one["id"]), ("news.likes.0", two["id"])],
        )

    return make


def contacts(kind: str) -> Maker:
    def make(state: State, rng: Random) -> PageTask | None:
        person = rng.choice(state["contacts"]["people"])
        names = [p["name"] for p in state["contacts"]["people"]]
        if kind == "call":
            return new_task(
                rng,
                "contacts.call",
                {"person": person["name"]},
                {"person": names},
                [("tap", f"person:{person['id']}"), ("tap", "call")],
                [("contacts.called.0", person["id"])],
            )
        return new_task(
            rng,
            "contacts.favourite",
            {"person": person["name"]},
            {"person": names},
            [("tap", f"person:{person['id']}"), ("tap", "fav"), ("back",)],
            [(f"contacts.people.{person['id']}.favourite", True), ("view", "main")],
        )

    return make
