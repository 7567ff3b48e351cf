"""Tasks of the terminal from what man pages say (`manuals`): a file is to be put through a program with one flag.

A task names what the flag is for, in its page's words, and never the flag: who knows the program or reads its page can
do it. What it has to print is asked of the program itself, on a desktop: a flag of which nothing is seen there, with
the same file, gives no task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.making import DAYS, GOODS, PEOPLE, holds, lines, task
from generators.worlds.desktop.manuals import Capability, documented
from generators.worlds.desktop.tasks_terminal import line

if TYPE_CHECKING:
    from generators.worlds.desktop.desktop_world import DesktopWorld

TERMINAL = "xfce4-terminal"
SCRIPT = Path(__file__).with_name("on_desktop_commands.py").read_bytes()
AT_ONCE = 16
"""Commands that one script tries; each takes three runs, and the script as a whole mustn't outlast a call."""
LIMIT_S = 2.0


@dataclass(frozen=True)
class DocumentedDraft:
    """A capability with a file to try it on; no task yet, since nobody knows what the program makes of the file."""

    capability: Capability
    seed: int

    @cached_property
    def _drawn(self) -> tuple[str, str, str, str]:
        """The file, its text, the file to write, and the number that a flag may take."""
        rng = Random(f"documented/{self.capability.key}/{self.seed}")
        number = rng.randint(10, 99)
        return f"{rng.choice(DAYS).lower()}-{number}.txt", _text(rng), f"printed-{number}.txt", str(rng.randint(2, 9))

    @property
    def files(self) -> dict[str, str]:
        """{path: text} of the start, one file."""
        return dict([self._drawn[:2]])

    def words(self, flag: bool = True) -> list[str]:
        """The command, with its flag or without."""
        found = self.capability
        value = f"={self._drawn[3]}" if found.argument else ""
        return [found.program, *([f"{found.flag}{value}"] if flag else []), self._drawn[0]]

    def task(self, printed: str | None, plain: str | None) -> DesktopTask | str:
        """The task, given what its command prints of the file with its flag and without (None: it fails, or prints
        nothing that can be compared; "": nothing that depends on the file); or why there is none."""
        if not printed:
            return "fails, or never prints the same" if printed is None else "prints nothing of the file"
        if printed == plain:
            return "no effect to be seen"
        found, out = self.capability, self._drawn[2]
        value = f" ({found.argument} = {self._drawn[3]})" if found.argument else ""
        return task(
            found.key,
            TERMINAL,
            f"In the terminal, write into {out} what {found.program} prints for {self._drawn[0]} with the option that "
            f"its manual describes as “{found.words}”{value}.",
            line(f"{' '.join(self.words())} > {out}"),
            *holds(self.files, out, printed),
            files=self.files,
            # Without the option: what somebody does who reads half of the goal.
            near=line(f"{' '.join(self.words(flag=False))} > {out}"),
        )


def _text(rng: Random) -> str:
    """Lines on which flags show: doubled, empty and indented ones, tabs, capitals, umlauts, numbers, long ones."""
    goods = rng.sample(GOODS, 4)
    made = [f"{rng.choice((name, name.title()))} {rng.randint(2, 900)}" for name in goods]
    doubled = [made[0], made[0], made[0].swapcase()]
    odd = ["", "", f"   {rng.choice(PEOPLE)}\t{rng.choice(DAYS)}", f"\t{rng.choice(goods)}", "Käse für 3 Gäste"]
    # Figures and months at the beginning, in no order that sorting would leave.
    dated = [
        f"{rng.choice(('Mar', 'Jan', 'Dec'))} {rng.randint(10, 28)}",
        f"{rng.randint(100, 999)} tea",
        "9 salt",
        "1K",
    ]
    long = " ".join(f"{rng.choice(PEOPLE)} buys {rng.choice(GOODS)}" for _ in range(7))
    blocks = [doubled, odd, dated, [long], made[1:]]
    rng.shuffle(blocks)
    return lines([text for block in blocks for text in block])


def tried(drafts: Sequence[DocumentedDraft], world: DesktopWorld) -> Iterator[DesktopTask | str]:
    """The task of each draft, or why there is none, by what the programs of this desktop print. Raises `DeviceError`
    where the desktop fails."""
    for first in range(0, len(drafts), AT_ONCE // 2):
        block = drafts[first : first + AT_ONCE // 2]
        commands = [{"words": draft.words(flag), "files": draft.files} for draft in block for flag in (True, False)]
        found = world.script(SCRIPT, {"commands": commands, "limit_s": LIMIT_S})["printed"]
        # What a desktop says is checked like anything of a stranger: as many answers as questions, texts or nothing.
        texts = [text if isinstance(text, str) else None for text in found][: len(commands)]
        texts += [None] * (len(commands) - len(texts))
        yield from (draft.task(*texts[2 * at : 2 * at + 2]) for at, draft in enumerate(block))


def plan_of(key: str, start: object, seeds: int) -> tuple[tuple[str, ...], ...]:
    """The plan of the documented task of this name and start, on one of the first `seeds` seeds, made again from the
    page; () where the page says no such thing (any more)."""
    _, program, _ = [*key.split(".", 2), "", ""][:3]
    for capability in documented(program) if program.isalnum() else ():
        for seed in range(seeds) if capability.key == key else ():
            draft = DocumentedDraft(capability, seed)
            made = draft.task("with\n", "without\n")
            if not isinstance(made, str) and made.start == start:
                return made.plan
    return ()
