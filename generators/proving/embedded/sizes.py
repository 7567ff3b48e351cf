"""How much embedded data there is of each source, and its version."""

from __future__ import annotations

from typing import Literal

Size = Literal["tiny", "demo"]
CODE_VERSION = "2"
COUNTS: dict[str, dict[str, int]] = {
    "demo": {
        "aitw": 48,
        "android_control": 48,
        "aitz": 32,
        "mind2web": 32,
        "agentnet": 32,
        "omniact": 130,
        "miniwob_demos": 48,
        "rico": 210,
        "ui_refexp": 400,
        "screen_annotation": 210,
        "screenqa": 320,
    },
    "tiny": {
        "aitw": 4,
        "android_control": 4,
        "aitz": 3,
        "mind2web": 4,
        "agentnet": 4,
        "omniact": 12,
        "miniwob_demos": 6,
        "rico": 12,
        "ui_refexp": 24,
        "screen_annotation": 12,
        "screenqa": 20,
    },
}
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
