"""Families of tasks on the document viewer (atril). A family is a function Random -> DesktopTask."""

from collections.abc import Sequence
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, rest, sha256_of
from generators.worlds.desktop.making import DAYS, PEOPLE, Plan, answer, in_new_file, menu, task

PLAN = "plan.pdf"


def pdf(pages: Sequence[Sequence[str]]) -> str:
    """A PDF document of ASCII lines, a page for each list of them (PDF 1.4, ISO 32000-1, 7.5)."""
    parts = ["<< /Type /Catalog /Pages 2 0 R >>"]
    # Each page has two objects, the page and its contents, from number 4 on.
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    parts.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    parts.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, page in enumerate(pages):
        drawn = "".join(f"BT /F1 24 Tf 72 {720 - 40 * at} Td ({line}) Tj ET\n" for at, line in enumerate(page))
        uses = f"/Contents {5 + 2 * number} 0 R /Resources << /Font << /F1 3 0 R >> >>"
        parts.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] {uses} >>")
        parts.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}endstream")
    text, offsets = "%PDF-1.4\n", list[int]()
    for number, part in enumerate(parts, 1):
        # The table at the end names where each object begins, in bytes; all is ASCII.
        offsets.append(len(text))
        text += f"{number} 0 obj\n{part}\nendobj\n"
    table = "0000000000 65535 f \n" + "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"trailer\n<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return f"{text}xref\n0 {len(parts) + 1}\n{table}{end}"


def rooms(rng: Random) -> tuple[list[list[str]], list[tuple[str, str, int]]]:
    """A plan of several pages, and who has which room, with the page that says it. A page shows one of them."""
    # ASCII names: the document's font has no others.
    people = rng.sample([name for name in PEOPLE if name.isascii()], 4)
    held = [(who, str(room), page) for page, (who, room) in enumerate(zip(people, rng.sample(range(11, 99), 4)), 1)]
    return [[f"Page {page}", f"{who}: room {room}"] for who, room, page in held], held


def read(rng: Random) -> DesktopTask:
    pages, held = rooms(rng)
    # Never on the first page, which is open.
    who, room, page = rng.choice(held[1:])
    files = {PLAN: pdf(pages)}
    others = [other for _, other, _ in held if other != room]
    return task(
        "reader.read",
        "atril",
        f"Which room has {who}, by the open plan? Go through its pages and tell me the number of the room.",
        (*(("click", "push button", "Next"),) * (page - 1), ("answer", room)),
        answer(room, *others),
        rest(files),
        files=files,
        opened=PLAN,
        near=(("answer", others[0]),),
    )


def save_copy(rng: Random) -> DesktopTask:
    pages, _ = rooms(rng)
    files, new = {PLAN: pdf(pages)}, f"rooms-{rng.choice(DAYS).lower()}.pdf"
    plan: Plan = (*menu("File", "Save As…"), ("key", "ctrl", "a"), ("type", new), ("click", "push button", "Save"))
    return task(
        "reader.save_copy",
        "atril",
        f"Save a copy of the open plan as {new} in the home folder.",
        plan,
        {"check": "untouched", "path": new, "sha256": sha256_of(files[PLAN])},
        rest(files, new),
        files=files,
        opened=PLAN,
    )


def to_page(rng: Random) -> DesktopTask:
    pages, _ = rooms(rng)
    page = rng.randint(2, 4)
    # The page after, and the first after the last.
    other = page % 4 + 1
    files = {PLAN: pdf(pages)}

    def steps(number: int) -> Plan:
        return (("key", "ctrl", "l"), ("type", str(number)), ("enter",))

    return task(
        "reader.to_page",
        "atril",
        f"Go to page {page} of the open plan.",
        steps(page),
        {"check": "window", "app": "atril", "role": "label", "text": f"({page} of 4)"},
        rest(files),
        files=files,
        opened=PLAN,
        near=steps(other),
    )


def in_editor(rng: Random) -> DesktopTask:
    """Over two programs: what the plan says is written down in the editor."""
    pages, held = rooms(rng)
    who, room, page = rng.choice(held[1:])
    files = {PLAN: pdf(pages)}
    return task(
        "reader.in_editor",
        "atril",
        f"Look up {who}'s room in the open plan and write “{who} …” with its number as the only line of a new file "
        "room.txt.",
        (*(("click", "push button", "Next"),) * (page - 1), *in_new_file(f"{who} {room}\n", "room.txt")),
        {"check": "file", "path": "room.txt", "text": f"{who} {room}\n"},
        rest(files, "room.txt"),
        files=files,
        opened=PLAN,
        near=in_new_file(f"{who} {held[0][1]}\n", "room.txt"),
    )


READER = (read, save_copy, to_page, in_editor)
