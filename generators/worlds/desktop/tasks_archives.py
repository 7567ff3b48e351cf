"""Families of tasks on the archive tool (engrampa). A family is a function Random -> DesktopTask.

Archives are tar files of ASCII texts, which are texts themselves and so can be among a start's files.
"""

import io
import tarfile
from collections.abc import Mapping
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, rest, sha256_of
from generators.worlds.desktop.making import GOODS, Plan, answer, lines, task

BOX = "box.tar"


def packed(files: Mapping[str, str]) -> str:
    """A tar archive of these files, the same bytes every time."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    # USTAR of ASCII texts is ASCII itself, so it can be a text among a start's files.
    return held.getvalue().decode("ascii")


def inside(rng: Random) -> dict[str, str]:
    """Files of an archive: name → text."""
    return {f"{name}.txt": lines([name] * rng.randint(1, 9)) for name in rng.sample(GOODS, rng.randint(3, 5))}


def holds(path: str, files: Mapping[str, str]) -> Check:
    return {"check": "members", "path": path, "files": {name: sha256_of(text) for name, text in files.items()}}


def cell(name: str) -> Plan:
    return (("click", "table cell", name),)


def button(name: str) -> Plan:
    return (("click", "push button", name),)


UNPACK: Plan = (*button("Extract"), ("wait",), *button("Extract"))
"""Into the folder that the dialog proposes, which is that of the archive."""


def _archived(
    name: str, goal: str, files: Mapping[str, str], plan: Plan, *checks: Check, near: Plan = ()
) -> DesktopTask:
    return task(f"archives.{name}", "engrampa", goal, plan, *checks, files=files, opened=BOX, near=near)


def _adding(name: str) -> Plan:
    return (*button("Add Files"), *cell(name), *button("Add"))


def unpack_all(rng: Random) -> DesktopTask:
    held = inside(rng)
    files = {BOX: packed(held)}
    one = next(iter(held))
    return _archived(
        "unpack_all",
        "Unpack all files of the open archive into the home folder.",
        files,
        UNPACK,
        *({"check": "file", "path": path, "text": text} for path, text in held.items()),
        rest(files, *held),
        # With one file marked only that one is unpacked: the usual mistake.
        near=(*cell(one), *UNPACK),
    )


def unpack_one(rng: Random) -> DesktopTask:
    held = inside(rng)
    files = {BOX: packed(held)}
    one, other = rng.sample(sorted(held), 2)
    return _archived(
        "unpack_one",
        f"Unpack only {one} from the open archive into the home folder.",
        files,
        (*cell(one), *UNPACK),
        {"check": "file", "path": one, "text": held[one]},
        rest(files, one),
        near=(*cell(other), *UNPACK),
    )


def remove(rng: Random) -> DesktopTask:
    held = inside(rng)
    files = {BOX: packed(held)}
    one, other = rng.sample(sorted(held), 2)
    steps: Plan = (("key", "delete"), *button("Delete"))
    return _archived(
        "remove",
        f"Remove {one} from the open archive.",
        files,
        (*cell(one), *steps),
        holds(BOX, {name: text for name, text in held.items() if name != one}),
        rest(files, BOX),
        near=(*cell(other), *steps),
    )


def add(rng: Random) -> DesktopTask:
    # Another ending than the archived files have, so that no name occurs twice.
    held = inside(rng)
    first, second = (f"{name}.md" for name in rng.sample(GOODS, 2))
    files = {BOX: packed(held), first: "# first\n", second: "# second\n"}
    return _archived(
        "add",
        f"Add {first} from the home folder to the open archive.",
        files,
        _adding(first),
        holds(BOX, {**held, first: files[first]}),
        rest(files, BOX),
        near=_adding(second),
    )


def count(rng: Random) -> DesktopTask:
    held = inside(rng)
    files = {BOX: packed(held)}
    said = str(len(held))
    return _archived(
        "count",
        "How many files are in the open archive? Tell me the number.",
        files,
        (("answer", said),),
        answer(said),
        rest(files),
    )


def longest(rng: Random) -> DesktopTask:
    """Over two programs: the terminal says which file is the longest, the archive tool packs it."""
    held = inside(rng)
    long, short = (f"{name}.md" for name in rng.sample(GOODS, 2))
    files = {BOX: packed(held), long: lines(["x"] * rng.randint(40, 60)), short: lines(["x"] * rng.randint(20, 30))}

    def steps(name: str) -> Plan:
        counted: Plan = (("launch", "terminal"), ("type", "wc -l *.md"), ("enter",), ("key", "alt", "f4"))
        return (*counted, *_adding(name))

    return _archived(
        "longest",
        "Find out in a terminal which .md file of the home folder has the most lines, close the terminal, and add that "
        "file to the open archive.",
        files,
        steps(long),
        holds(BOX, {**held, long: files[long]}),
        rest(files, BOX),
        near=steps(short),
    )


ARCHIVES = (unpack_all, unpack_one, remove, add, count, longest)
