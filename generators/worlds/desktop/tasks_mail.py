"""Families of tasks on the mail program (claws-mail). A family is a function Random -> DesktopTask.

The mailbox is a folder of files, a mail each (MH), on this desktop alone: no server is asked. What becomes of a mail
shows in which folder its file lies; what is written, in a new file there.
"""

from collections.abc import Mapping
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, sha256_of
from generators.worlds.desktop.making import DAYS, PEOPLE, Plan, answer, in_new_file, task

PROGRAM = "claws-mail"
INBOX, DRAFTS, QUEUE, TRASH, ARCHIVE = (f"Mail/{name}" for name in ("inbox", "draft", "queue", "trash", "archive"))
SUBJECTS = ("Lunch", "Report", "Key", "Concert", "Ladder", "Bicycle")
REPLIES = ("I will be there.", "Thank you, that suits me.", "Sorry, I can't come.", "Yes, please bring it.")
REPLY: Plan = (("key", "ctrl", "r"), ("wait",))


def address(who: str) -> str:
    return f"{who} <{who.lower()}@example.org>"


def inbox(rng: Random) -> list[tuple[str, str, str]]:
    """(from whom, about what, the room that it names) of the mails in the inbox, oldest first."""
    # ASCII names: others would stand encoded in the mail's header.
    people = rng.sample([name for name in PEOPLE if name.isascii() and name != "Ada"], 4)
    rooms = rng.sample(range(11, 99), 4)
    return [(who, what, str(room)) for who, what, room in zip(people, rng.sample(SUBJECTS, 4), rooms, strict=True)]


def files_of(mails: list[tuple[str, str, str]]) -> dict[str, str]:
    """The mailbox: the inbox with a mail a file, numbered from 1, and folders with nothing in them."""
    # A folder comes into being with a file; one whose name is no number is no mail.
    files = {f"{folder}/.empty": "" for folder in (DRAFTS, QUEUE, TRASH, ARCHIVE, "Mail/sent")}
    for number, (who, what, room) in enumerate(mails, 1):
        head = f"From: {address(who)}\nTo: {address('Ada')}\nSubject: {what}\n"
        dated = f"Date: Mon, {number:02} Nov 2025 10:00:00 +0000\nMessage-ID: <{number}@example.org>\n"
        body = f"Dear Ada,\nwe meet in room {room} on {DAYS[number]}.\n{who}\n"
        files[f"{INBOX}/{number}"] = f"{head}{dated}Content-Type: text/plain; charset=UTF-8\n\n{body}"
    return files


def mail(number: int) -> Plan:
    """Selects a mail of the inbox: the oldest is selected at the start, newer ones stand above it."""
    return (("key", "up"),) * (number - 1)


def untouched(files: Mapping[str, str], path: str, source: str = "") -> Check:
    """A file holds what it held at the start, or what `source` held."""
    return {"check": "untouched", "path": path, "sha256": sha256_of(files[source or path])}


def others(files: Mapping[str, str], *moved: int) -> tuple[Check, ...]:
    """The mails of the inbox but for some are where they were."""
    kept = [path for path in files if path.startswith(INBOX) and path not in [f"{INBOX}/{n}" for n in moved]]
    return tuple(untouched(files, path) for path in kept)


def _mail_task(name: str, goal: str, files: dict[str, str], plan: Plan, *checks: Check, near: Plan = ()) -> DesktopTask:
    return task(f"mail.{name}", PROGRAM, goal, plan, *checks, files=files, near=near)


def delete(rng: Random) -> DesktopTask:
    mails = inbox(rng)
    files, number = files_of(mails), rng.randint(2, 4)
    return _mail_task(
        "delete",
        f"Move the mail from {mails[number - 1][0]} to the trash, in the mail program.",
        files,
        (*mail(number), ("key", "ctrl", "d")),
        {"check": "gone", "path": f"{INBOX}/{number}"},
        untouched(files, f"{TRASH}/1", f"{INBOX}/{number}"),
        *others(files, number),
        # The mail beside it.
        near=(*mail(number - 1), ("key", "ctrl", "d")),
    )


def move(rng: Random) -> DesktopTask:
    mails = inbox(rng)
    files, number = files_of(mails), rng.randint(1, 4)

    def moved(to: str) -> Plan:
        return (*mail(number), ("key", "ctrl", "o"), ("click", "table cell", to), ("click", "push button", "OK"))

    return _mail_task(
        "move",
        f"Move the mail about “{mails[number - 1][1]}” into the folder archive, in the mail program.",
        files,
        moved("archive"),
        {"check": "gone", "path": f"{INBOX}/{number}"},
        untouched(files, f"{ARCHIVE}/1", f"{INBOX}/{number}"),
        *others(files, number),
        near=moved("Sent"),
    )


def _written(rng: Random, name: str, goal: str, path: str, done: Plan) -> DesktopTask:
    """A reply that ends as a file in a folder of the mailbox."""
    mails, text = inbox(rng), rng.choice(REPLIES)
    files, number = files_of(mails), rng.randint(1, 4)
    who, what, _ = mails[number - 1]
    said = [f"To: {address(who)}", f"Subject: Re: {what}", text]
    return _mail_task(
        name,
        goal.format(who=who, text=text),
        files,
        (*mail(number), *REPLY, ("type", f"{text}\n"), *done),
        {"check": "has", "path": path, "lines": said},
        *others(files),
    )


def draft(rng: Random) -> DesktopTask:
    goal = "Reply to the mail from {who} with the line “{text}”, and save that as a draft; don't send it."
    return _written(rng, "draft", goal, f"{DRAFTS}/1", (("key", "ctrl", "s"),))


def send_later(rng: Random) -> DesktopTask:
    goal = "Reply to the mail from {who} with the line “{text}”, to be sent later."
    return _written(rng, "send_later", goal, f"{QUEUE}/1", (("click", "push button", "Send later"),))


def read(rng: Random) -> DesktopTask:
    mails = inbox(rng)
    files, number = files_of(mails), rng.randint(2, 4)
    who, _, room = mails[number - 1]
    rooms = [other for _, _, other in mails if other != room]
    return _mail_task(
        "read",
        f"In which room do I meet {who}, by the mail from {who}? Tell me the number.",
        files,
        (*mail(number), ("enter",), ("answer", room)),
        answer(room, *rooms),
        *others(files),
    )


def note(rng: Random) -> DesktopTask:
    """Over two programs: what a mail says is written down in the editor."""
    mails = inbox(rng)
    files, number = files_of(mails), rng.randint(2, 4)
    who, _, room = mails[number - 1]
    opened: Plan = (*mail(number), ("enter",))
    return _mail_task(
        "note",
        f"Look up in the mail program in which room {who} meets me, and write the number as the only line of a new "
        "file room.txt with the text editor.",
        files,
        (*opened, *in_new_file(f"{room}\n", "room.txt")),
        {"check": "file", "path": "room.txt", "text": f"{room}\n"},
        *others(files),
    )


MAIL = (delete, move, draft, send_later, read, note)
