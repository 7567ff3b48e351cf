"""Keys by the names that a Hotkey has them by, as the text that Playwright presses."""

from __future__ import annotations

import pytest

from generators.devices.browser import key_chord
from generators.tasks.world_interface import WorldError

NAMED = {
    "alt": "Alt",
    "ctrl": "Control",
    "control": "Control",
    "shift": "Shift",
    "meta": "Meta",
    "enter": "Enter",
    "tab": "Tab",
    "esc": "Escape",
    "escape": "Escape",
    "backspace": "Backspace",
    "delete": "Delete",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "arrowleft": "ArrowLeft",
    "home": "Home",
    "end": "End",
    "space": "Space",
    "pagedown": "PageDown",
    "f5": "F5",
}


def test_a_key_has_one_name_in_any_case() -> None:
    for name, wanted in NAMED.items():
        assert [key_chord((said,)) for said in (name, name.upper(), name.title())] == [wanted] * 3
    assert key_chord((" ",)) == "Space" and key_chord(("Page_Down",)) == "PageDown"


def test_keys_are_pressed_together_in_their_order_and_characters_stay() -> None:
    assert key_chord(("Ctrl", "shift", "left")) == "Control+Shift+ArrowLeft"
    assert [key_chord(("ctrl", key)) for key in "aA7/+?"] == [f"Control+{key}" for key in "aA7/+?"]


@pytest.mark.parametrize("keys", [("nonsense",), ("ctrl", "nonsense"), ("nonsense", "a")])
def test_what_no_key_is_named_is_told(keys: tuple[str, ...]) -> None:
    with pytest.raises(WorldError, match="no key is named 'nonsense'"):
        key_chord(keys)
