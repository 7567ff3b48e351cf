"""The script that resets and reads a desktop's home folder, and starts and ends its programs (`on_desktop_home.py`)."""

from pathlib import Path

MARK = ".disposable-home"
"""A home folder is emptied only where this file is in it."""
HIDDEN = (".cache", ".config", ".local", ".dbus")
"""What programs keep in the home folder for themselves: no part of the state but for their settings."""
SCRIPT = Path(__file__).with_name("on_desktop_home.py").read_bytes()
