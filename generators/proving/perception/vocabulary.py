"""Everything that can stand on a perception screen: colours, shapes, icons and words, each under one name."""

from __future__ import annotations

from pathlib import Path

COLOURS: dict[str, str] = {
    "red": "#d92b2b",
    "green": "#2a9d3f",
    "blue": "#2456d6",
    "yellow": "#f2cf1d",
    "orange": "#f28c1c",
    "purple": "#7d3cc0",
    "pink": "#f07fb8",
    "brown": "#7a4a25",
    "black": "#111111",
    "gray": "#8a8a8a",
    "cyan": "#1fc3d6",
}
"""Name → CSS colour."""

SHAPES: dict[str, str] = {
    "circle": '<circle cx="12" cy="12" r="11"/>',
    "square": '<rect x="1.5" y="1.5" width="21" height="21"/>',
    "triangle": '<path d="M12 1 23 22H1z"/>',
    "star": '<path d="M12 1l3.2 7.4 8 .7-6.1 5.3 1.9 7.9L12 18.100l-7 4.200 1.900-7.900L.8 9.100l8-.7z"/>',
    "diamond": '<path d="M12 1 22 12 12 23 2 12z"/>',
    "cross": '<path d="M8 1h8v7h7v8h-7v7H8v-7H1V8h7z"/>',
    "ring": '<path d="M12 1a11 11 0 100 22 11 11 0 000-22zm0 5.500a5.500 5.500 0 110 11 5.500 5.500 0 010-11z" '
    'fill-rule="evenodd"/>',
    "bar": '<rect x="0.5" y="8" width="23" height="8"/>',
}
"""Name → SVG in a 24 x 24 box, filled with the colour."""

ICONS: dict[str, str] = {
    "search": '<circle cx="10" cy="10" r="6"/><path d="m14.500 14.500 6 6"/>',
    "home": '<path d="M3 11 12 3l9 8M6 10v10h12V10"/>',
    "menu": '<path d="M4 6h16M4 12h16M4 18h16"/>',
    "plus": '<path d="M12 4v16M4 12h16"/>',
    "close": '<path d="m5 5 14 14M19 5 5 19"/>',
    "check": '<path d="m4 13 5 5L20 6"/>',
    "back": '<path d="M20 12H4m7-7-7 7 7 7"/>',
    "forward": '<path d="M4 12h16m-7-7 7 7-7 7"/>',
    "up": '<path d="M12 20V4m-7 7 7-7 7 7"/>',
    "down": '<path d="M12 4v16m-7-7 7 7 7-7"/>',
    "heart": '<path d="M12 20S3 14 3 8.500A4.500 4.500 0 0112 7a4.500 4.500 0 019 1.500C21 14 12 20 12 20z"/>',
    "mail": '<rect x="3" y="5" width="18" height="14"/><path d="m3 7 9 7 9-7"/>',
    "lock": '<rect x="5" y="11" width="14" height="10"/><path d="M8 11V7a4 4 0 018 0v4"/>',
    "user": '<circle cx="12" cy="8" r="4"/><path d="M4 21c0-5 4-7 8-7s8 2 8 7"/>',
    "bell": '<path d="M6 17V10a6 6 0 0112 0v7l2 2H4zM10 21h4"/>',
    "trash": '<path d="M4 6h16M9 6V3h6v3M6 6l1 15h10l1-15M10 10v7M14 10v7"/>',
    "edit": '<path d="m4 20 1-5L16 4l4 4L9 19z"/>',
    "play": '<path d="M6 4v16l14-8z"/>',
    "pause": '<path d="M8 4v16M16 4v16"/>',
    "folder": '<path d="M3 6h6l2 3h10v11H3z"/>',
    "file": '<path d="M6 2h8l5 5v15H6zM14 2v6h5"/>',
    "calendar": '<rect x="3" y="5" width="18" height="16"/><path d="M3 10h18M8 2v5M16 2v5"/>',
    "clock": '<circle cx="12" cy="12" r="9"/><path d="M12 7v5l4 3"/>',
    "chat": '<path d="M3 4h18v12H10l-5 5v-5H3z"/>',
    "cart": '<path d="M2 4h3l3 11h10l3-8H6"/><circle cx="9" cy="19" r="1.500"/><circle cx="17" cy="19" r="1.500"/>',
    "download": '<path d="M12 3v12m-5-5 5 5 5-5M4 20h16"/>',
    "upload": '<path d="M12 16V4M7 9l5-5 5 5M4 20h16"/>',
    "refresh": '<path d="M20 12a8 8 0 11-3-6.200M20 3v6h-6"/>',
    "settings": '<circle cx="12" cy="12" r="3.500"/><path d="M12 2v4M12 18v4M2 12h4M18 12h4M5 5l3 3M16 16l3 3M19 5l-3 '
    '3M8 16l-3 3"/>',
    "more": '<circle cx="5" cy="12" r="1.500"/><circle cx="12" cy="12" r="1.500"/><circle cx="19" cy="12" r="1.500"/>',
    "camera": '<path d="M3 7h5l2-3h4l2 3h5v13H3z"/><circle cx="12" cy="13" r="4"/>',
    "phone": '<path d="M5 3h4l2 6-3 2c1 3 3 5 6 6l2-3 5 2v4C12 22 3 13 5 3z"/>',
    "flag": '<path d="M5 22V3h13l-3 5 3 5H5"/>',
    "filter": '<path d="M3 4h18l-7 9v7l-4-2v-5z"/>',
}
"""Name → SVG in a 24 x 24 box, drawn as strokes."""

WIDGETS = (
    "checked checkbox",
    "empty checkbox",
    "selected radio button",
    "empty radio button",
    "switch on",
    "switch off",
    "slider",
    "empty text field",
    "dropdown",
)
"""Widgets that carry no text."""

WORDS = tuple((Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split())
"""Words of interfaces, and those that the phone, the sites and MiniWoB++'s pages say more than once (`words.txt`).

A label is one or two of them, or a number."""
