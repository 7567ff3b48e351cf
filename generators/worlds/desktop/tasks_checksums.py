"""Families of tasks on checksums (gtkhash). A family is a function Random -> DesktopTask."""

import hashlib
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, rest
from generators.worlds.desktop.making import GOODS, answer, closed, holds, in_new_file, lines, menu, task


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def files_of(rng: Random) -> dict[str, str]:
    """Two lists of goods."""
    return {f"{name}.txt": lines(rng.sample(GOODS, 4)) for name in ("old", "new")}


def read(rng: Random) -> DesktopTask:
    files = files_of(rng)
    kind, of = rng.choice((("MD5", md5), ("SHA1", sha1)))
    said = of(files["old.txt"])
    return task(
        "checksums.read",
        "gtkhash",
        f"What is the {kind} checksum of the chosen file old.txt? Tell me all of it.",
        (("answer", said),),
        answer(said),
        rest(files),
        files=files,
        opened="old.txt",
        # The checksum of the other file: what a hasty look would give.
        near=(("answer", of(files["new.txt"])),),
    )


def in_editor(rng: Random) -> DesktopTask:
    """Over two programs."""
    files = files_of(rng)
    said = md5(files["old.txt"])
    return task(
        "checksums.in_editor",
        "gtkhash",
        "Write the MD5 checksum that is shown of old.txt as the only line of a new file old.md5, with the text editor.",
        in_new_file(f"{said}\n", "old.md5"),
        *holds(files, "old.md5", f"{said}\n"),
        files=files,
        opened="old.txt",
        near=in_new_file(f"{md5(files['new.txt'])}\n", "old.md5"),
    )


def close(rng: Random) -> DesktopTask:
    files = files_of(rng)
    return task(
        "checksums.close",
        "gtkhash",
        rng.choice(("Quit the program that shows checksums.", "I don't need checksums any more: close that program.")),
        menu("File", "Quit"),
        closed("gtkhash"),
        rest(files),
        files=files,
        opened="old.txt",
        near=(("launch", "calculator"), ("key", "alt", "f4")),
    )


CHECKSUMS = (read, in_editor, close)
