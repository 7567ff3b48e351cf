"""Families of tasks on the word processor (abiword). A family is a function Random -> DesktopTask."""

from collections.abc import Sequence
from random import Random
from xml.sax.saxutils import escape

from generators.worlds.desktop.desktop_task import DesktopTask, rest
from generators.worlds.desktop.making import DAYS, GOODS, PEOPLE, SAVE, Plan, answer, lines, menu, open_in, task

LETTER = "letter.abw"
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<abiword xmlns="http://www.abisource.com/awml.dtd" version="0.99.2" fileformat="1.0">
<section>
"""
_TAIL = "</section>\n</abiword>\n"
ALL: Plan = (("key", "ctrl", "a"),)
LAST: Plan = (("key", "ctrl", "end"), ("key", "shift", "home"))
"""Selects the last paragraph, if it is one line long."""
FIRST: Plan = (("key", "ctrl", "home"), ("key", "shift", "end"))
END: Plan = (("key", "ctrl", "end"),)


def document(paragraphs: Sequence[str]) -> str:
    """A document of plain paragraphs, as AbiWord reads it."""
    return _HEAD + "".join(f"<p>{escape(text)}</p>\n" for text in paragraphs) + _TAIL


def letter(rng: Random) -> list[str]:
    """Three short paragraphs, no two the same."""
    first, second = rng.sample(PEOPLE, 2)
    day, other = rng.sample(DAYS, 2)
    return [f"Dear {first},", f"{second} comes on {day}, not on {other}.", f"Please bring {rng.choice(GOODS)}."]


def button(name: str) -> Plan:
    return (("click", "toggle button", name),)


def _written(
    name: str, before: Sequence[str], goal: str, plan: Plan, after: Sequence[str], near: Plan = ()
) -> DesktopTask:
    """A task on the open document, which is saved in the end."""
    files = {LETTER: document(before)}
    return task(
        f"writer.{name}",
        "abiword",
        f"{goal} Then save the document.",
        (*plan, SAVE),
        {"check": "paragraphs", "path": LETTER, "lines": list(after)},
        rest(files, LETTER),
        files=files,
        opened=LETTER,
        near=(*near, SAVE) if near else (),
    )


def append(rng: Random) -> DesktopTask:
    text = letter(rng)
    new = f"See you on {rng.choice(DAYS)}!"
    return _written(
        "append",
        text,
        f"Add a paragraph “{new}” at the end of the open letter.",
        (*END, ("enter",), ("type", new)),
        [*text, new],
    )


def rewrite(rng: Random) -> DesktopTask:
    text = letter(rng)
    new = f"Please bring {rng.randint(2, 9)} boxes."
    return _written(
        "rewrite",
        text,
        f"Replace the last paragraph of the open letter by “{new}”.",
        (*LAST, ("type", new)),
        [*text[:-1], new],
    )


def bold(rng: Random) -> DesktopTask:
    text = letter(rng)
    name, shown = rng.choice((("Bold", "font-weight:bold"), ("Italic", "font-style:italic")))
    return _written(
        name="format_all",
        before=text,
        goal=f"Make the whole open letter {name.lower()}.",
        plan=(*ALL, *button(name)),
        after=[f"[{shown}] {line}" for line in text],
        # Only the last paragraph: the rest stays as it was.
        near=(*LAST, *button(name)),
    )


def bold_first(rng: Random) -> DesktopTask:
    text = letter(rng)
    return _written(
        "bold_first",
        text,
        "Make the first paragraph of the open letter bold, and nothing else.",
        (*FIRST, *button("Bold")),
        [f"[font-weight:bold] {text[0]}", *text[1:]],
        (*LAST, *button("Bold")),
    )


def align(rng: Random) -> DesktopTask:
    text = letter(rng)
    name, words, other = rng.choice((("Center", "centre", "Right"), ("Right", "align to the right", "Center")))
    return _written(
        "align",
        text,
        f"In the open letter, {words} the last paragraph only.",
        (*END, *button(name)),
        [*text[:-1], f"[text-align:{name.lower()}] {text[-1]}"],
        (*END, *button(other)),
    )


def replace(rng: Random) -> DesktopTask:
    text = letter(rng)
    old = text[0].removeprefix("Dear ").removesuffix(",")
    # A name that the letter doesn't hold yet, so that the old one is surely gone.
    new = rng.choice([name for name in PEOPLE if not any(name in line for line in text)])
    plan: Plan = (*FIRST, ("type", f"Dear {new},"))
    return _written(
        "addressee", text, f"The open letter should go to {new} instead of {old}.", plan, [f"Dear {new},", *text[1:]]
    )


def remove(rng: Random) -> DesktopTask:
    text = letter(rng)
    return _written(
        "remove",
        text,
        "Remove the last paragraph of the open letter with its line.",
        (*LAST, ("key", "backspace"), ("key", "backspace")),
        text[:-1],
        # The text without its line.
        (*LAST, ("key", "backspace")),
    )


def heading(rng: Random) -> DesktopTask:
    text = letter(rng)
    title = f"Plan for {rng.choice(DAYS)}"
    level = rng.choice(("1", "2", "3"))
    return _written(
        "heading",
        [title, *text],
        f"Give the first line of the open document the style “Heading {level}”.",
        (("key", "ctrl", "home"), ("key", "ctrl", "alt", level)),
        [f"[Heading {level}] {title}", *text],
        (*END, ("key", "ctrl", "alt", level)),
    )


def save_as(rng: Random) -> DesktopTask:
    text, name = letter(rng), f"letter-{rng.randint(10, 99)}.abw"
    files = {LETTER: document(text)}
    plan: Plan = (*menu("File", "Save As..."), ("key", "ctrl", "a"), ("type", name), ("enter",))
    return task(
        "writer.save_as",
        "abiword",
        f"Save the open letter under the name {name}, too.",
        plan,
        {"check": "paragraphs", "path": name, "lines": text},
        rest(files, name),
        files=files,
        opened=LETTER,
        near=(*plan[:3], ("type", f"old-{name}"), plan[4]),
    )


def read(rng: Random) -> DesktopTask:
    text = letter(rng)
    # The letter names two days, one of which is said not to be meant.
    day, other = (word.strip(".,") for word in text[1].split() if word.strip(".,") in DAYS)
    files = {LETTER: document(text)}
    return task(
        "writer.read",
        "abiword",
        "On which day does the visitor of the open letter come? Tell me the day.",
        (("answer", day),),
        answer(day, other),
        rest(files),
        files=files,
        opened=LETTER,
        near=(("answer", other),),
    )


def from_list(rng: Random) -> DesktopTask:
    """Over two programs: a line of the editor's file goes into the letter."""
    text, goods = letter(rng), rng.sample(GOODS, 3)
    files = {LETTER: document(text), "list.txt": lines(goods)}
    plan: Plan = (*open_in("word processor", f"~/{LETTER}"), *END, ("enter",), ("type", goods[-1]), SAVE)
    return task(
        "writer.from_list",
        "mousepad",
        f"Add the last line of the open list as a paragraph of its own at the end of {LETTER} with the word processor, "
        "and save the letter.",
        plan,
        {"check": "paragraphs", "path": LETTER, "lines": [*text, goods[-1]]},
        rest(files, LETTER),
        files=files,
        opened="list.txt",
    )


WRITER = (append, rewrite, bold, bold_first, align, replace, remove, heading, save_as, read, from_list)
