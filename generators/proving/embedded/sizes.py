"""How much embedded data there is of each source, and its version."""

from typing import Literal

Size = Literal["tiny", "demo"]
CODE_VERSION = "2"
_COUNTS = """
aitw 48 4
android_control 48 4
aitz 32 3
mind2web 32 4
agentnet 32 4
omniact 130 12
miniwob_demos 48 6
rico 210 12
ui_refexp 400 24
screen_annotation 210 12
screenqa 320 20
"""
"""Source, records of the demo, records of the tiny set."""
_ROWS = [line.split() for line in _COUNTS.strip().splitlines()]
COUNTS = {size: {row[0]: int(row[place]) for row in _ROWS} for place, size in enumerate(("demo", "tiny"), 1)}
SOURCES = tuple(sorted(COUNTS["demo"]))
PLANTED_WORDS: dict[str, tuple[str, ...]] = {
    "agentnet": ("unknown_action:computer.rotate",),
    "aitw": ("unknown_action:12",),
    "aitz": ("unknown_action:12",),
    "android_control": ("unknown_action:rotate_screen",),
    "mind2web": ("unknown_action:SWIPE",),
    "omniact": ("unknown_action:pyautogui.swirl",),
}
"""Actions that no adapter can know, planted so that there is something to quarantine, as the reasons name them."""
