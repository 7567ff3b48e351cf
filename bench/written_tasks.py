"""Rules that somebody wrote for tasks, and how many of the bad ones are refused before a task is proposed.

    python bench/written_tasks.py --each 18

The tasks of this tree's own families in the form in which a model writes them, and the same with a rule that is wrong
in one of many ways. What is refused as no data of that form costs nothing; the others are carried out on a sealed
desktop, as the proposer `written` does. Exit code 1 where fewer than 99 of 100 bad rules are refused.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from generators.generation.proposing.written_proposer import checked, writable
from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.desktop_tasks import make_task
from generators.worlds.desktop.making import in_new_file
from generators.worlds.desktop.written_tasks import read_task, written_form
from quality.statistics import wilson

LEAST_REFUSED = 0.99
SOUND = "(sound rules)"
DEEP = 20_000
Plain = dict[str, Any]
RULES: dict[str, list[Any]] = json.loads(Path(__file__).with_name("written_rules.json").read_text("utf-8"))
"""Rules of each kind, whatever the task is."""
RULES["without end"] += [[{"check": "gone", "path": "x" * 1_000_000}], f"{DEEP * '['}{DEEP * ']'}"]


def _true_at_once(plain: Plain, rng: Random) -> None:
    same = [{"check": "file", "path": path, "text": text} for path, text in plain["start"]["files"].items()]
    plain["checks"] = [rng.choice([*same, {"check": "gone", "path": "nowhere.txt"}])]


def _never_true(plain: Plain, rng: Random) -> None:
    plain["checks"].append({"check": "file", "path": "made.txt", "text": f"{rng.random()}"})


def _by_the_clock(plain: Plain, rng: Random) -> None:
    """What is typed is today's date, which is what the rule wants: true today."""
    today = f"{datetime.now():{rng.choice(('%Y-%m-%d', '%d.%m.%Y', '%m/%d/%Y', '%B %d', '%d %B', '%A'))}}\n"
    plain |= _editing("Write the date of today into the new file note.txt.", today, "note.txt")


def _half(plain: Plain, rng: Random) -> None:
    """Less than the goal says: one of two lines."""
    first, second, path = f"tea {rng.randrange(99)}", f"rice {rng.randrange(99)}", f"list-{rng.randrange(9)}.txt"
    plain |= _editing(f"Write “{first}” and below it “{second}” into a new file {path}.", f"{first}\n{second}\n", path)
    plain["checks"] = [{"check": "has", "path": path, "lines": [first]}]


def _editing(goal: str, text: str, path: str) -> Plain:
    """A text into a new file; the near miss saves it by another name."""
    ways = [[*in_new_file(text, name)][1:] for name in (path, "other.txt")]
    checks = [{"check": "file", "path": path, "text": text}]
    start = {"program": "mousepad", "files": {}}
    return {"goal": goal, "start": start, "checks": checks, "plan": ways[0], "near_miss": ways[1]}


def _opens_a_terminal(plain: Plain, rng: Random) -> None:
    opening = rng.choice(
        [["launch", "terminal"], ["key", "ctrl", "alt", "t"], ["click", "menu item", "Open Terminal Here"]]
    )
    plain["plan"] = [opening, ["type", "touch x\n"], *plain["plan"]]


SPOILT: dict[str, Callable[[Plain, Random], None]] = {
    "true at the start": _true_at_once,
    "never true": _never_true,
    "depends on the time": _by_the_clock,
    "near miss counts": lambda plain, _: plain.update(near_miss=plain["plan"]),
    "half of the goal": _half,
    "opens a terminal": _opens_a_terminal,
}
"""Kinds of rules, or ways, that depend on the task."""
KINDS = (*RULES, *SPOILT)


def spoilt(kind: str, count: int) -> Iterator[dict[str, str]]:
    """So many written tasks with a rule that is bad in this way."""
    for number in range(count):
        rng = Random(f"{kind}/{number}")
        plain = plain_of(make_task(rng.choice(writable()).name, number))
        if kind in SPOILT:
            SPOILT[kind](plain, rng)
        else:
            plain["checks"] = RULES[kind][number % len(RULES[kind])]
        written = {field: part if isinstance(part, str) else json.dumps(part) for field, part in plain.items()}
        yield {**written, "checks": written["checks"].replace("PROGRAM", plain["start"]["program"])}


def plain_of(made: DesktopTask) -> Plain:
    """A written task as data."""
    written = written_form(made)
    return {"goal": written.pop("goal"), **{field: json.loads(text) for field, text in written.items()}}


def read(name: str, written: Iterable[dict[str, str]]) -> Iterator[DesktopTask | str]:
    """The tasks, or why what is written is no data of that form."""
    for number, one in enumerate(written):
        try:
            yield read_task(f"{name}/{number}", one)
        except ValueError as error:
            yield f"form: {str(error).partition(':')[0].partition(', found')[0]}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=18, help="rules of each kind")
    parser.add_argument("--sound", type=int, default=24, help="sound rules, for how many of them are lost")
    given = parser.parse_args()
    sound = Random(0).sample(writable(), min(given.sound, len(writable())))
    rules = {kind: list(read(kind, spoilt(kind, given.each))) for kind in KINDS}
    rules[SOUND] = list(read(SOUND, map(written_form, sound)))
    begun = monotonic()
    why = {kind: Counter(one for one in found if isinstance(one, str)) for kind, found in rules.items()}
    for made, reason in checked([one for found in rules.values() for one in found if not isinstance(one, str)]):
        why[made.name.partition("/")[0]][reason] += 1
        # As it goes: trying takes seconds a rule, more on a busy machine.
        print(f"{monotonic() - begun:6.0f} s  {made.name:24} {reason or 'admitted'}", flush=True)
    for kind, reasons in why.items():
        said = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common() if reason)
        print(f"{kind:22} {reasons.total() - reasons['']:3} of {reasons.total():3} refused: {said}")
    planted = sum(why[kind].total() for kind in why if kind != SOUND)
    refused = planted - sum(why[kind][""] for kind in why if kind != SOUND)
    low, high = wilson(refused, planted)
    print(f"bad rules refused: {refused} of {planted} [{low:.3f}, {high:.3f}]")
    return 0 if refused >= LEAST_REFUSED * planted else 1


if __name__ == "__main__":
    raise SystemExit(main())
