"""The letters of an open page with their places, as the browser knows them."""

from pathlib import Path

LETTERS_JS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
"""A function of a page: [letter, x, y] of each letter that shows, centres in pixels of the picture; "" where something
may be written, nobody knows what."""
