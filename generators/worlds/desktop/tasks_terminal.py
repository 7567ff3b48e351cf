"""Families of tasks on the terminal (xfce4-terminal with bash). A family is a function Random -> DesktopTask."""

from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, rest, sha256_of
from generators.worlds.desktop.making import DAYS, GOODS, PEOPLE, Plan, answer, holds, in_new_file, lines, task

LIST, LOG = "goods.txt", "logs/calls.txt"


def files_of(rng: Random) -> dict[str, str]:
    """A list of goods, and calls of people, one a line."""
    goods = rng.sample(GOODS, rng.randint(5, 8))
    calls = [f"{rng.choice(PEOPLE)} on {rng.choice(DAYS)}" for _ in range(rng.randint(9, 15))]
    return {LIST: lines(goods), LOG: lines(calls)}


def line(command: str) -> Plan:
    """A command line, typed and entered."""
    return (("type", command), ("enter",))


def _asked(name: str, goal: str, files: dict[str, str], plan: Plan, *checks: Check, near: Plan = ()) -> DesktopTask:
    return task(f"terminal.{name}", "xfce4-terminal", goal, plan, *checks, files=files, near=near)


def sort(rng: Random) -> DesktopTask:
    files, out = files_of(rng), f"sorted-{rng.randint(10, 99)}.txt"
    return _asked(
        "sort",
        f"In the terminal, sort the lines of {LIST} by the alphabet into a new file {out}.",
        files,
        line(f"sort {LIST} > {out}"),
        *holds(files, out, lines(sorted(files[LIST].splitlines()))),
        near=line(f"sort -r {LIST} > {out}"),
    )


def count(rng: Random) -> DesktopTask:
    files = files_of(rng)
    who = rng.choice(files[LOG].splitlines()).split()[0]
    # Counted as grep counts: lines that hold the name anywhere.
    calls = str(sum(who in said for said in files[LOG].splitlines()))
    return _asked(
        "count",
        f"How many lines of {LOG} name {who}? Find out with the terminal and tell me the number.",
        files,
        (*line(f"grep -c {who} {LOG}"), ("answer", calls)),
        answer(calls),
        rest(files),
    )


def select(rng: Random) -> DesktopTask:
    files = files_of(rng)
    who = rng.choice(files[LOG].splitlines()).split()[0]
    found = [said for said in files[LOG].splitlines() if said.startswith(who)]
    return _asked(
        "select",
        f"Write all lines of {LOG} that begin with {who} into {who.lower()}.txt, with the terminal.",
        files,
        line(f"grep ^{who} {LOG} > {who.lower()}.txt"),
        *holds(files, f"{who.lower()}.txt", lines(found)),
        near=line(f"grep -v ^{who} {LOG} > {who.lower()}.txt"),
    )


def folders(rng: Random) -> DesktopTask:
    files, year = files_of(rng), rng.randint(1990, 2025)
    path = f"archive/{year}/{rng.choice(DAYS).lower()}"
    return _asked(
        "folders",
        f"Make the folders {path} with the terminal, one inside the other.",
        files,
        line(f"mkdir -p {path}"),
        {"check": "folder", "path": path},
        rest(files),
    )


def move(rng: Random) -> DesktopTask:
    files = files_of(rng)
    new = f"kept-{rng.randint(10, 99)}.txt"
    return _asked(
        "move",
        f"Move {LOG} up into the home folder and call it {new}; use the terminal.",
        files,
        line(f"mv {LOG} {new}"),
        {"check": "untouched", "path": new, "sha256": sha256_of(files[LOG])},
        {"check": "gone", "path": LOG},
        rest(files, LOG, new),
        # Copied and not moved.
        near=line(f"cp {LOG} {new}"),
    )


def delete(rng: Random) -> DesktopTask:
    files = files_of(rng) | {f"{name}.tmp": "x\n" for name in rng.sample(GOODS, 3)}
    temporary = sorted(path for path in files if path.endswith(".tmp"))
    return _asked(
        "delete",
        "Delete all files that end in .tmp from the home folder with the terminal, and nothing else.",
        files,
        line("rm *.tmp"),
        *({"check": "gone", "path": path} for path in temporary),
        rest(files, *temporary),
        # Only the first of three.
        near=line(f"rm {temporary[0]}"),
    )


def pack(rng: Random) -> DesktopTask:
    files, name = files_of(rng), f"backup-{rng.randint(10, 99)}.tar.gz"
    return _asked(
        "pack",
        f"Pack the folder logs and {LIST} into {name} with tar in the terminal.",
        files,
        line(f"tar czf {name} logs {LIST}"),
        {"check": "members", "path": name, "files": {path: sha256_of(text) for path, text in files.items()}},
        rest(files, name),
        near=line(f"tar czf {name} logs"),
    )


def script(rng: Random) -> DesktopTask:
    """The script's output depends on what it is given, and on nothing that a glance shows."""
    factor, number = rng.randint(12, 98), rng.randint(12, 98)
    # The factor can't be seen in the goal; only running the script tells.
    files = files_of(rng) | {"times.sh": f"echo $(($1 * {factor}))\n"}
    said = str(factor * number)
    return _asked(
        "script",
        f"Run the script times.sh with bash and the number {number} in the terminal, and tell me what it prints.",
        files,
        (*line(f"bash times.sh {number}"), ("answer", said)),
        answer(said),
        rest(files),
    )


def in_editor(rng: Random) -> DesktopTask:
    """Over two programs: what the terminal finds is written down in the editor."""
    files = files_of(rng)
    number = len(files[LOG].splitlines())
    counted = line(f"wc -l {LOG}")
    return _asked(
        "in_editor",
        f"Count the lines of {LOG} in the terminal, and write the number as the only line of a new file count.txt with "
        "the text editor.",
        files,
        (*counted, *in_new_file(f"{number}\n", "count.txt")),
        *holds(files, "count.txt", f"{number}\n"),
        near=(*counted, *in_new_file(f"{number + 1}\n", "count.txt")),
    )


TERMINAL = (sort, count, select, folders, move, delete, pack, script, in_editor)
