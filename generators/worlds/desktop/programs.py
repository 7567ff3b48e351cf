"""The programs of a desktop session: what a task's start or `Launch` calls them, what starts and installs them."""

from __future__ import annotations

PROGRAMS: dict[str, tuple[str, str]] = {
    "galculator": ("galculator", "galculator"),
    "calculator": ("galculator", "galculator"),
    "mousepad": ("mousepad", "mousepad"),
    "text editor": ("mousepad", "mousepad"),
    "editor": ("mousepad", "mousepad"),
    "thunar": ("thunar", "thunar"),
    "file manager": ("thunar", "thunar"),
    "files": ("thunar", "thunar"),
    "appearance settings": ("xfce4-appearance-settings", "xfce4-settings"),
    "accessibility settings": ("xfce4-accessibility-settings", "xfce4-settings"),
    "keyboard settings": ("xfce4-keyboard-settings", "xfce4-settings"),
    "mouse settings": ("xfce4-mouse-settings", "xfce4-settings"),
}
"""Name in lower case → program, Debian package."""


def launch_table() -> dict[str, list[str]]:
    """The option `programs` of the SSH driver."""
    return {name: [program] for name, (program, _) in PROGRAMS.items()}
