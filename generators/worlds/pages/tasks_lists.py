"""Tasks in mail, to-do list, news and contacts."""

from __future__ import annotations

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
            words = (
                'star the message "{subject}"',
                'mark "{subject}" with a star in the inbox',
                'put a star on the mail called "{subject}"',
            )
            return new_task(rng, "mail.star", words, slots, others, [("tap", f"star:{i}")], [(f"{path}.starred", True)])
        if kind == "delete":
            words = (
                'delete the message "{subject}"',
                'open "{subject}" and delete it',
                'remove the mail with the subject "{subject}"',
            )
            return new_task(
                rng,
                "mail.delete",
                words,
                slots,
                others,
                [open_it, ("tap", "msg:delete"), ("tap", "dlg:yes")],
                [(f"{path}.deleted", True)],
            )
        if kind == "archive":
            words = (
                'archive the message "{subject}"',
                'open the mail "{subject}" and archive it',
                'move "{subject}" to the archive',
            )
            return new_task(
                rng, "mail.archive", words, slots, others, [open_it, ("tap", "msg:archive")], [("mail.archived.0", i)]
            )
        if kind == "search":
            word = m["subject"].split()[-1]
            words = (
                'search the mail for "{word}" and open "{subject}"',
                'find the message "{subject}" by searching for "{word}"',
                'look up "{word}" in the mail and open "{subject}"',
            )
            plan: list[Intent] = [
                ("tap", "mail:search"),
                ("type", "mail:query", word),
                ("enter",) if rng.random() < 0.6 else ("tap", "mail:go"),
                open_it,
            ]
            return new_task(
                rng, "mail.search", words, {**slots, "word": word}, others, plan, [("view", "message"), ("item", i)]
            )
        note = rng.choice(NOTES)
        words = (
            'reply "{note}" to the message "{subject}"',
            'answer the mail "{subject}" with "{note}"',
            'open "{subject}" and send the reply "{note}"',
        )
        plan = [open_it, ("tap", "msg:reply"), ("type", "reply:text", note), ("tap", "reply:send")]
        return new_task(
            rng,
            "mail.reply",
            words,
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
            words = ('add the task "{text}"', 'put "{text}" on the task list', 'create a new task called "{text}"')
            plan: list[Intent] = [("type", "todo:new", text), ("enter",) if rng.random() < 0.5 else ("tap", "todo:add")]
            return new_task(
                rng, "todo.add", words, {"text": text}, {"text": NEW_TODOS}, plan, [("todo.items.-1.text", text)]
            )
        if kind == "tick":
            words = (
                'mark "{one}" and "{two}" as done',
                'tick off "{one}" and "{two}"',
                'complete the tasks "{one}" and "{two}"',
            )
            plan = [("tap", f"tick:{t['id']}"), ("tap", f"tick:{u['id']}")]
            return new_task(
                rng,
                "todo.tick",
                words,
                {"one": t["text"], "two": u["text"]},
                {"one": [n for n in names if n != u["text"]], "two": [n for n in names if n != t["text"]]},
                plan,
                [(f"todo.items.{t['id']}.done", True), (f"todo.items.{u['id']}.done", True)],
            )
        if kind == "delete":
            words = (
                'delete the task "{one}" and show the open tasks',
                'remove "{one}" from the list, then show only open tasks',
                'take "{one}" off the list and switch to the open tasks',
            )
            return new_task(
                rng,
                "todo.delete",
                words,
                {"one": t["text"]},
                {"one": names},
                [("tap", f"del:{t['id']}"), ("tap", "tab:Open")],
                [(f"todo.items.{t['id']}.deleted", True), ("todo.filter", "Open")],
            )
        words = (
            'show the done tasks after finishing "{one}"',
            'finish "{one}" and open the done tab',
            'tick "{one}", then look at what is done',
        )
        return new_task(
            rng,
            "todo.filter",
            words,
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
            words = (
                'save the article "{title}"',
                'open "{title}" and save it',
                'keep the news story "{title}" for later',
            )
            return new_task(
                rng,
                "news.save",
                words,
                {"title": one["title"]},
                {"title": titles},
                [("tap", f"news:{one['id']}"), ("tap", "art:save")],
                [("news.saved.0", one["id"])],
            )
        words = (
            'save "{title}", then go back and like "{second}"',
            'open "{title}" and save it, return to the list and like "{second}"',
            'first save the story "{title}", then like the story "{second}"',
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
            words,
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
            words = ("call {person}", "open the contact {person} and call", "make a phone call to {person}")
            return new_task(
                rng,
                "contacts.call",
                words,
                {"person": person["name"]},
                {"person": names},
                [("tap", f"person:{person['id']}"), ("tap", "call")],
                [("contacts.called.0", person["id"])],
            )
        words = (
            "add {person} to the favourites and go back",
            "make {person} a favourite contact, then go back to the list",
            "mark the contact {person} as favourite and return",
        )
        return new_task(
            rng,
            "contacts.favourite",
            words,
            {"person": person["name"]},
            {"person": names},
            [("tap", f"person:{person['id']}"), ("tap", "fav"), ("back",)],
            [(f"contacts.people.{person['id']}.favourite", True), ("view", "main")],
        )

    return make
