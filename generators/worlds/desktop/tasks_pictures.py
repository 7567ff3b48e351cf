"""Families of tasks on pictures: the viewer (ristretto) and the editor (mtpaint, by keys: it has no accessibility
tree). A family is a function Random -> DesktopTask.

Pictures are XPM files, which are texts, of two colours so placed that no turn or flip leaves them as they were.
"""

from collections.abc import Mapping, Sequence
from random import Random

from generators.worlds.desktop.desktop_task import Check, DesktopTask, rest, sha256_of
from generators.worlds.desktop.making import SAVE, Plan, answer, closed, in_new_file, menu, task
from schemas.ids import digest

COLOURS = ("#FF0000", "#0000FF", "#00AA00", "#FFCC00")
NAMES = ("beach", "castle", "garden", "harbour", "market", "sunset")
Grid = Sequence[str]
"""Rows of letters, one a pixel."""


def xpm(rows: Grid, colours: Mapping[str, str]) -> str:
    """An XPM picture."""
    # Width, height, number of colours, letters per pixel.
    head = [f"{len(rows[0])} {len(rows)} {len(colours)} 1", *(f"{key} c {value}" for key, value in colours.items())]
    return "/* XPM */\nstatic char *picture[] = {\n" + ",\n".join(f'"{line}"' for line in [*head, *rows]) + "};\n"


def grid(rng: Random) -> list[str]:
    """The left part in one colour, the right in the other, but for its lowest rows."""
    width, height = rng.randint(40, 90), rng.randint(20, 60)
    # Never symmetric: no flip or turn leaves the picture as it was.
    left, low = rng.randint(8, width // 3), rng.randint(3, height // 3)
    upper = "a" * left + "b" * (width - left)
    return [upper] * (height - low) + ["a" * width] * low


def pictures(rng: Random) -> dict[str, str]:
    """Some pictures of different sizes by the names of their files, in the order in which the viewer shows them."""
    found: dict[str, str] = {}
    sizes = set[tuple[int, int]]()
    names = sorted(rng.sample(NAMES, rng.randint(3, 4)))
    # No two of one size, so that a size tells which picture is shown.
    while len(found) < len(names):
        rows = grid(rng)
        if (len(rows[0]), len(rows)) not in sizes:
            sizes.add((len(rows[0]), len(rows)))
            found[f"{names[len(found)]}.xpm"] = xpm(rows, dict(zip("ab", rng.sample(COLOURS, 2), strict=True)))
    return found


def size_of(picture: str) -> str:
    """As the viewer's status bar says it."""
    width, height = picture.split('"')[1].split()[:2]
    return f"{width} x {height}"


def _viewed(name: str, goal: str, files: Mapping[str, str], plan: Plan, *checks: Check, near: Plan = ()) -> DesktopTask:
    # The first by name, where the viewer begins.
    opened = next(iter(files))
    return task(f"pictures.{name}", "ristretto", goal, plan, *checks, files=files, opened=opened, near=near)


def button(name: str) -> Plan:
    return (("click", "push button", name),)


def size(rng: Random) -> DesktopTask:
    files = pictures(rng)
    names = list(files)
    # Not the first, so that one has to go on.
    at = rng.randrange(1, len(names))
    said = size_of(files[names[at]])
    return _viewed(
        "size",
        f"How many pixels wide and high is {names[at]}? Go to it in the viewer and tell me, as “width x height”.",
        files,
        (*button("Forward") * at, ("answer", said)),
        answer(said),
        rest(files),
        near=(("answer", size_of(files[names[0]])),),
    )


def throw_away(rng: Random) -> DesktopTask:
    files = pictures(rng)
    names = list(files)
    at = rng.randrange(1, len(names))
    gone: Plan = (*button("Delete"), *button("OK"))
    return _viewed(
        "throw_away",
        f"Put {names[at]} into the trash, from the picture viewer.",
        files,
        (*button("Forward") * at, *gone),
        {"check": "gone", "path": names[at]},
        rest(files, names[at]),
        # One picture too early.
        near=(*button("Forward") * (at - 1), *gone),
    )


def save_copy(rng: Random) -> DesktopTask:
    files = pictures(rng)
    first, new = next(iter(files)), f"copy-{rng.randint(10, 99)}.xpm"
    plan: Plan = (*button("Save copy..."), ("key", "ctrl", "a"), ("type", new), *button("Save"))
    return _viewed(
        "save_copy",
        f"Save a copy of the shown picture as {new}.",
        files,
        plan,
        {"check": "untouched", "path": new, "sha256": sha256_of(files[first])},
        rest(files, new),
    )


def bars(rng: Random) -> DesktopTask:
    files = pictures(rng)
    name, other = rng.choice((("Toolbar", "Status Bar"), ("Status Bar", "Toolbar")))
    key = "ristretto/window/" + {"Toolbar": "toolbar/show", "Status Bar": "statusbar/show"}[name]
    return _viewed(
        "bars",
        f"Hide the {name.lower()} of the picture viewer.",
        files,
        (("click", "menu", "View"), ("click", "check menu item", f"Show {name}")),
        {"check": "setting", "key": key, "is": "false"},
        rest(files),
        near=(("click", "menu", "View"), ("click", "check menu item", f"Show {other}")),
    )


def close(rng: Random) -> DesktopTask:
    files = pictures(rng)
    return _viewed(
        "close",
        rng.choice(("Quit the picture viewer.", "Close the program that shows the picture.")),
        files,
        menu("File", "Quit"),
        closed("ristretto"),
        rest(files),
        near=(("launch", "calculator"), ("key", "alt", "f4")),
    )


def noted(rng: Random) -> DesktopTask:
    """Over two programs: what the viewer says is written down in the editor."""
    files = pictures(rng)
    first, *others = files
    said = size_of(files[first])

    return _viewed(
        "noted",
        "Write the size of the shown picture in pixels, as “width x height”, as the only line of a new file size.txt.",
        files,
        in_new_file(f"{said}\n", "size.txt"),
        {"check": "file", "path": "size.txt", "text": f"{said}\n"},
        rest(files, "size.txt"),
        near=in_new_file(f"{size_of(files[others[0]])}\n", "size.txt"),
    )


def _painted(name: str, rng: Random, goal: str, steps: Plan, near: Plan, after: Grid, rows: Grid) -> DesktopTask:
    """Of the open picture; its editor begins with a window of tools in front, which is closed first."""
    colours = dict(zip("ab", rng.sample(COLOURS, 2), strict=True))
    path = f"{rng.choice(NAMES)}.xpm"
    files = {path: xpm(rows, colours)}
    drawn = [[colours[letter] for letter in row] for row in after]
    # The window of tools, which mtpaint puts in front.
    begin: Plan = (("key", "alt", "f4"),)
    return task(
        f"painting.{name}",
        "mtpaint",
        f"{goal} Then save it under its name.",
        (*begin, *steps, SAVE),
        {"check": "drawn", "path": path, "digest": digest(drawn)},
        rest(files, path),
        files=files,
        opened=path,
        near=(*begin, *near, SAVE),
    )


def _image_menu(number: int) -> Plan:
    """An entry of the menu Image, by its number."""
    # By arrow keys: the program has no accessibility tree to click in.
    return (("key", "alt", "i"), *(("key", "down"),) * (number - 1), ("enter",))


FLIP_DOWN, FLIP_ACROSS = _image_menu(4), (("key", "ctrl", "m"),)
CLOCKWISE, ANTICLOCKWISE = _image_menu(6), _image_menu(7)


def mirror(rng: Random) -> DesktopTask:
    rows = grid(rng)
    goal = "Mirror the open picture, so that left and right change places."
    return _painted("mirror", rng, goal, FLIP_ACROSS, FLIP_DOWN, [row[::-1] for row in rows], rows)


def upside_down(rng: Random) -> DesktopTask:
    rows = grid(rng)
    goal = "Flip the open picture vertically, so that its lowest row becomes the first."
    return _painted("upside_down", rng, goal, FLIP_DOWN, FLIP_ACROSS, rows[::-1], rows)


def turn(rng: Random) -> DesktopTask:
    rows = grid(rng)
    # Clockwise: the last row becomes the first column.
    clockwise = ["".join(column) for column in zip(*rows[::-1], strict=True)]
    goal = "Turn the open picture clockwise by a quarter."
    return _painted("turn", rng, goal, CLOCKWISE, ANTICLOCKWISE, clockwise, rows)


PICTURES = (size, throw_away, save_copy, bars, close, noted, mirror, upside_down, turn)
