"""Android's key codes by number and name. Source: `android.view.KeyEvent`."""

import re

_WORDS = re.findall(
    r"\S+",
    """
    3 HOME 4 BACK 5 CALL 6 ENDCALL 19 DPAD_UP 20 DPAD_DOWN 21 DPAD_LEFT 22 DPAD_RIGHT 23 DPAD_CENTER 24 VOLUME_UP 25
    VOLUME_DOWN 26 POWER 27 CAMERA 28 CLEAR 55 COMMA 56 PERIOD 57 ALT_LEFT 58 ALT_RIGHT 59 SHIFT_LEFT 60 SHIFT_RIGHT
    61 TAB 62 SPACE 66 ENTER 67 DEL 82 MENU 84 SEARCH 85 MEDIA_PLAY_PAUSE 92 PAGE_UP 93 PAGE_DOWN 111 ESCAPE 112
    FORWARD_DEL 113 CTRL_LEFT 114 CTRL_RIGHT 122 MOVE_HOME 123 MOVE_END 160 NUMPAD_ENTER 164 VOLUME_MUTE 176
    SETTINGS 187 APP_SWITCH 223 SLEEP 224 WAKEUP 277 CUT 278 COPY 279 PASTE
""",
)
_NUMBERED = {
    **dict(zip(map(int, _WORDS[::2]), _WORDS[1::2], strict=True)),
    **{7 + digit: str(digit) for digit in range(10)},
    **{29 + letter: chr(ord("A") + letter) for letter in range(26)},
}
KEY_NAMES = {code: f"KEYCODE_{name}" for code, name in _NUMBERED.items()}
_BY_NAME = {name: name for name in KEY_NAMES.values()}


def key_name(text: str) -> str | None:
    """`4`, `BACK` or `KEYCODE_BACK` → `KEYCODE_BACK`; None for a key that isn't in the table."""
    # Four digits hold every key code; longer ones aren't converted at all.
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return KEY_NAMES.get(int(text))
    return _BY_NAME.get(text if text.startswith("KEYCODE_") else f"KEYCODE_{text}")
