"""Families of tasks on the text editor (mousepad). A family is a function Random -> DesktopTask."""

from collections.abc import Mapping
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, rest
from generators.worlds.desktop.making import DAYS, PEOPLE, SAVE, Plan, answer, holds, lines, menu, task
from generators.worlds.desktop.tasks_calculator import press

GOODS = (
    "milk",
    "bread",
    "eggs",
    "apples",
    "rice",
    "tea",
    "butter",
    "salt",
    "onions",
    "cheese",
    "honey",
    "lemons",
    "crème fraîche",
    "香菜",
)
VIEW = "org/xfce/mousepad/preferences/view"


def files_of(rng: Random) -> dict[str, str]:
    """A shopping list of distinct goods, and a memo."""
    goods = rng.sample(GOODS, rng.randint(4, 7))
    memo = f"{rng.choice(PEOPLE)}: meeting on {rng.choice(DAYS)} at {rng.randint(8, 17)}:00.\n"
    return {"shopping.txt": "".join(f"{good}\n" for good in goods), "memo.txt": memo}


def editing(
    name: str, goal: str, files: Mapping[str, str], opened: str, plan: Plan, *checks: Check, near: Plan = ()
) -> DesktopTask:
    # Without a file to open the editor begins with an empty one.
    return task(f"editor.{name}", "mousepad", goal, plan, *checks, files=files, opened=opened, near=near)


def _lines(files: Mapping[str, str]) -> list[str]:
    return files["shopping.txt"].splitlines()


def at_line(number: int) -> Plan:
    """To a line, counted from 1, by the dialog."""
    return (*menu("Search", "Go to..."), ("type", str(number)), ("click", "push button", "Jump to"))


def append(rng: Random) -> DesktopTask:
    files = files_of(rng)
    new = rng.choice([good for good in GOODS if good not in _lines(files)])
    return editing(
        "append",
        f"Add a line “{new}” to the end of the open shopping list and save it.",
        files,
        "shopping.txt",
        (("key", "ctrl", "end"), ("type", f"{new}\n"), SAVE),
        *holds(files, "shopping.txt", f"{files['shopping.txt']}{new}\n"),
    )


def rewrite(rng: Random) -> DesktopTask:
    files, text = files_of(rng), f"{rng.choice(DAYS)}'s meeting is cancelled 🚫"
    return editing(
        "rewrite",
        f"Replace everything in the open memo by the one line “{text}” and save it.",
        files,
        "memo.txt",
        (("key", "ctrl", "a"), ("type", f"{text}\n"), SAVE),
        *holds(files, "memo.txt", f"{text}\n"),
    )


def replace(rng: Random) -> DesktopTask:
    files = files_of(rng)
    # An ASCII word: Find and Replace is typed, and the goal quotes it.
    old, new = rng.choice([line for line in _lines(files) if line.isascii()]), f"{rng.choice(PEOPLE)}'s choice"
    text = files["shopping.txt"].replace(old, new)
    plan: Plan = (
        *menu("Search", "Find and Replace..."),
        ("type", old),
        ("key", "tab"),
        ("type", new),
        ("click", "check box", "Replace all in:"),
        ("click", "push button", "Replace All"),
        ("click", "push button", "Close"),
        SAVE,
    )
    return editing(
        "replace",
        f"In the open list, replace “{old}” by “{new}” with find and replace, then save.",
        files,
        "shopping.txt",
        plan,
        *holds(files, "shopping.txt", text),
    )


def delete_line(rng: Random) -> DesktopTask:
    files = files_of(rng)
    listed = _lines(files)
    # Never the first line: jumping there is where the cursor is anyway.
    number = rng.randrange(1, len(listed))
    return editing(
        "delete_line",
        f"Delete the line “{listed[number]}” from the open shopping list and save it.",
        files,
        "shopping.txt",
        (*at_line(number + 1), *menu("Edit", "Delete Line"), SAVE),
        *holds(files, "shopping.txt", lines(listed[:number] + listed[number + 1 :])),
    )


def insert_line(rng: Random) -> DesktopTask:
    files = files_of(rng)
    listed = _lines(files)
    number = rng.randrange(1, len(listed))
    new = rng.choice([good for good in GOODS if good not in listed])
    return editing(
        "insert_line",
        f"Put a new line “{new}” right before “{listed[number]}” and save the list.",
        files,
        "shopping.txt",
        (*at_line(number + 1), ("type", f"{new}\n"), SAVE),
        *holds(files, "shopping.txt", lines([*listed[:number], new, *listed[number:]])),
    )


def capitals(rng: Random) -> DesktopTask:
    files = files_of(rng)
    return editing(
        "capitals",
        "Turn the whole text of the open memo into capital letters and save it.",
        files,
        "memo.txt",
        (("key", "ctrl", "a"), *menu("Edit", "Convert", "To Uppercase"), SAVE),
        *holds(files, "memo.txt", files["memo.txt"].upper()),
        near=(("key", "ctrl", "a"), *menu("Edit", "Convert", "To Lowercase"), SAVE),
    )


def save_as(rng: Random) -> DesktopTask:
    files, name = files_of(rng), f"list-{rng.randint(10, 99)}.txt"
    plan: Plan = (*menu("File", "Save As..."), ("key", "ctrl", "a"), ("type", name), ("click", "push button", "Save"))
    return editing(
        "save_as",
        f"Save the open shopping list as {name} in the home folder too.",
        files,
        "shopping.txt",
        plan,
        *holds(files, name, files["shopping.txt"]),
    )


def new_file(rng: Random) -> DesktopTask:
    files = files_of(rng)
    name, text = f"note-{rng.randint(10, 99)}.txt", f"Call {rng.choice(PEOPLE)} on {rng.choice(DAYS)}"
    plan: Plan = (("type", f"{text}\n"), SAVE, ("key", "ctrl", "a"), ("type", name), ("click", "push button", "Save"))
    return editing(
        "new_file",
        f"Write “{text}” as the only line of a new file {name} in the home folder.",
        files,
        "",
        plan,
        *holds(files, name, f"{text}\n"),
    )


def open_other(rng: Random) -> DesktopTask:
    files, text = files_of(rng), f"Bring {rng.choice(GOODS)}."
    plan: Plan = (
        *menu("File", "Open..."),
        ("click", "table cell", "memo.txt"),
        ("click", "push button", "Open"),
        ("key", "ctrl", "end"),
        ("type", f"{text}\n"),
        SAVE,
    )
    return editing(
        "open_other",
        f"Open memo.txt in the editor, add the line “{text}” at its end and save it.",
        files,
        "shopping.txt",
        plan,
        *holds(files, "memo.txt", f"{files['memo.txt']}{text}\n"),
    )


def line_numbers(rng: Random) -> DesktopTask:
    files = files_of(rng)
    entry, key, words = rng.choice(
        (
            (("View", "Line Numbers"), "show-line-numbers", "Show line numbers in the editor."),
            (("Document", "Word Wrap"), "word-wrap", "Make the editor wrap long lines."),
            (("Document", "Auto Indent"), "auto-indent", "Switch automatic indenting on in the editor."),
        )
    )
    return editing(
        "preference",
        words,
        files,
        "memo.txt",
        menu(*entry),
        {"check": "setting", "key": f"{VIEW}/{key}", "is": "true"},
        rest(files),
        near=menu("View", "Menubar"),
    )


def tab_size(rng: Random) -> DesktopTask:
    files, size = files_of(rng), rng.choice(("2", "3", "4"))
    return editing(
        "tab_size",
        f"Set the editor's tab size to {size}.",
        files,
        "memo.txt",
        menu("Document", "Tab Size", size),
        {"check": "setting", "key": f"{VIEW}/tab-width", "is": size},
        rest(files),
        near=menu("Document", "Tab Size", "3" if size != "3" else "2"),
    )


def read(rng: Random) -> DesktopTask:
    files = files_of(rng)
    listed = _lines(files)
    number = rng.randrange(len(listed))
    others = [line for i, line in enumerate(listed) if i != number and line.isascii()]
    # ASCII only: answers are compared as words of letters and digits.
    while not listed[number].isascii():
        number = (number + 1) % len(listed)
        others = [line for i, line in enumerate(listed) if i != number and line.isascii()]
    place = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")[number]
    return editing(
        "read",
        f"Which is the {place} entry of the shopping list? Change nothing, just tell me.",
        files,
        "shopping.txt",
        (("answer", listed[number]),),
        answer(listed[number], *others),
        rest(files),
    )


def price(rng: Random) -> DesktopTask:
    """Over two programs."""
    numbers = [rng.randint(11, 99) for _ in range(rng.randint(5, 6))]
    files = {"prices.txt": lines([str(number) for number in numbers])}
    plan: Plan = (
        ("launch", "calculator"),
        *press("+".join(map(str, numbers)) + "="),
        ("key", "alt", "f4"),
        ("key", "ctrl", "end"),
        ("type", f"total {sum(numbers)}\n"),
        SAVE,
    )
    return editing(
        "price",
        "Add up the prices in the open file with the calculator, write the result as a last "
        "line “total …” (with the number) into the file, and save it.",
        files,
        "prices.txt",
        plan,
        *holds(files, "prices.txt", f"{files['prices.txt']}total {sum(numbers)}\n"),
    )


EDITOR = (
    append,
    rewrite,
    replace,
    delete_line,
    insert_line,
    capitals,
    save_as,
    new_file,
    open_other,
    line_numbers,
    tab_size,
    read,
    price,
)
