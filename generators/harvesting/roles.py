"""How people call the roles that accessibility trees (AT-SPI) name."""

from __future__ import annotations

ROLE_WORDS: dict[str, str] = {
    "push button": "button",
    "toggle button": "button",
    "menu": "menu",
    "menu item": "menu item",
    "check menu item": "menu item",
    "radio menu item": "menu item",
    "check box": "check box",
    "radio button": "radio button",
    "page tab": "tab",
    "text": "text field",
    "password text": "password field",
    "entry": "text field",
    "spin button": "number field",
    "combo box": "drop-down list",
    "slider": "slider",
    "label": "label",
    "table cell": "cell",
    "list item": "list entry",
    "link": "link",
    "info bar": "notice",
    "status bar": "status bar",
    "tree item": "entry",
}
"""Roles that a person would point at; others (panels, bars that hold others) are left out, and so are column
headers: they neither take the focus nor answer when asked what is at a point."""
