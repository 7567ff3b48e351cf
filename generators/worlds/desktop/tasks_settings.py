"""Families of tasks on the settings (Xfce's dialogs). A family is a function Random -> DesktopTask."""

from collections.abc import Callable, Sequence
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, Intent
from generators.worlds.desktop.making import closed

Plan = tuple[Intent, ...]
Change = tuple[str, Plan, str, str]
"""In words, the way there, the key of the setting, and what it is then."""


def tab(name: str) -> Intent:
    return ("click", "page tab", name)


def _box(page: str, label: str, words: str, key: str, value: str) -> Change:
    plan: Plan = (("click", "check box", label),)
    return words, (tab(page), *plan) if page else plan, key, value


APPEARANCE: tuple[Change, ...] = (
    _box("Settings", "Show images on buttons", "show no more images on buttons", "xsettings/Gtk/ButtonImages", "false"),
    _box("Settings", "Show images in menus", "show no more images in menus", "xsettings/Gtk/MenuImages", "false"),
    _box(
        "Settings",
        "Enable editable accelerators",
        "make the accelerators editable",
        "xsettings/Gtk/CanChangeAccels",
        "true",
    ),
    _box("Settings", "Enable event sounds", "switch event sounds on", "xsettings/Net/EnableEventSounds", "true"),
)
_ANTIALIAS: Intent = (
    "click",
    "check box",
    "Enable anti-aliasing",
)  # it starts between off and on; a click makes it off
FONTS: tuple[Change, ...] = (
    ("switch anti-aliasing of fonts off", (tab("Fonts"), _ANTIALIAS), "xsettings/Xft/Antialias", "0"),
    ("switch anti-aliasing of fonts on", (tab("Fonts"), _ANTIALIAS, _ANTIALIAS), "xsettings/Xft/Antialias", "1"),
)
KEYBOARD: tuple[Change, ...] = (
    _box("", "Enable key repeat", "switch key repeat off", "keyboards/Default/KeyRepeat", "false"),
    _box("", "Show blinking", "make the cursor stop blinking", "xsettings/Net/CursorBlink", "false"),
    _box(
        "",
        "Restore num lock state on startup",
        "restore the num lock state on startup",
        "keyboards/Default/RestoreNumlock",
        "true",
    ),
)
TYPING_AIDS: tuple[Change, ...] = (
    _box("Keyboard", "Use sticky keys", "use sticky keys", "accessibility/StickyKeys", "true"),
    _box("Keyboard", "Use slow keys", "use slow keys", "accessibility/SlowKeys", "true"),
    _box("Keyboard", "Use bounce keys", "use bounce keys", "accessibility/BounceKeys", "true"),
)
POINTER_AIDS: tuple[Change, ...] = (
    _box("Mouse", "Use mouse emulation", "let the number pad move the pointer", "accessibility/MouseKeys", "true"),
    _box(
        "Mouse",
        "Show location of pointer on keypress",
        "show where the pointer is when a key is pressed",
        "accessibility/FindCursor",
        "true",
    ),
)
MOUSE: tuple[Change, ...] = (
    (
        "set the mouse for the left hand",
        (("click", "radio button", "Left-handed"),),
        "pointers/Xvfb_mouse/RightHanded",
        "false",
    ),
)


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _family(
    name: str, program: str, changes: Sequence[Change], least: int = 1, most: int = 1, beside: Plan = ()
) -> Callable[[Random], DesktopTask]:
    """Some of these changes, in the order of the dialog; `beside` is the near miss where there is one change only."""

    def make(rng: Random) -> DesktopTask:
        # In the order of the dialog, so that tabs are opened once.
        chosen = sorted(rng.sample(range(len(changes)), rng.randint(least, most)))
        plan = _way([changes[index] for index in chosen])
        others = [index for index in range(len(changes)) if index not in chosen]
        # instead of the last change another one, or, where all are asked for, all but the last
        near = _way([changes[index] for index in sorted([*chosen[:-1], *others[:1]])]) or beside
        goal = f"In the {program}, {_joined([changes[index][0] for index in chosen])}."
        checks = tuple({"check": "setting", "key": changes[i][2], "is": changes[i][3]} for i in chosen)
        start = {"world": "desktop", "program": program}
        return DesktopTask(f"settings.{name}", goal, start, checks, plan, (f"settings.{name}",), near)

    return make


def _way(changes: Sequence[Change]) -> Plan:
    """What makes these changes one after the other; a tab that is open isn't opened again."""
    plan, page = list[Intent](), ""
    for change in changes:
        for intent in change[1]:
            # A tab that is open already stays: clicking it again would be a wasted step.
            if intent[1] == "page tab":
                if intent[2] == page:
                    continue
                page = intent[2]
            plan.append(intent)
    return tuple(plan)


def cursor_size(rng: Random) -> DesktopTask:
    size = str(rng.choice((24, 32, 40, 48)))
    plan: Plan = (tab("Theme"), ("click", "spin button", ""), ("key", "ctrl", "a"), ("type", size), ("key", "tab"))
    return DesktopTask(
        "settings.cursor_size",
        f"In the mouse settings, make the mouse pointer's size {size}.",
        {"world": "desktop", "program": "mouse settings"},
        ({"check": "setting", "key": "xsettings/Gtk/CursorThemeSize", "is": size},),
        plan,
        ("settings.cursor_size",),
    )


def close(rng: Random) -> DesktopTask:
    program, runs = rng.choice(
        (
            ("mouse settings", "xfce4-mouse-settings"),
            ("keyboard settings", "xfce4-keyboard-settings"),
            ("appearance settings", "xfce4-appearance-settings"),
        )
    )
    return DesktopTask(
        "settings.close",
        f"Close the {program} without a change.",
        {"world": "desktop", "program": program},
        (closed(runs),),
        (("click", "push button", "Close"),),
        ("settings.close",),
        (("launch", "calculator"), ("key", "alt", "f4")),
    )


SETTINGS: dict[str, Callable[[Random], DesktopTask]] = {
    "settings.appearance": _family("appearance", "appearance settings", APPEARANCE),
    "settings.appearance_several": _family("appearance_several", "appearance settings", APPEARANCE, 2, 4),
    "settings.fonts": _family("fonts", "appearance settings", FONTS),
    "settings.keyboard": _family("keyboard", "keyboard settings", KEYBOARD),
    "settings.keyboard_several": _family("keyboard_several", "keyboard settings", KEYBOARD, 2, 3),
    "settings.typing_aids": _family("typing_aids", "accessibility settings", TYPING_AIDS),
    "settings.typing_aids_all": _family("typing_aids_all", "accessibility settings", TYPING_AIDS, 2, 3),
    "settings.pointer_aids": _family("pointer_aids", "accessibility settings", POINTER_AIDS),
    "settings.aids": _family("aids", "accessibility settings", (*TYPING_AIDS, *POINTER_AIDS), 3, 5),
    "settings.left_hand": _family(
        "left_hand", "mouse settings", MOUSE, beside=(("click", "check box", "Reverse scroll direction"),)
    ),
    "settings.cursor_size": cursor_size,
    "settings.close": close,
}
