"""Words from which snapshots of the phone and the slots of its tasks are drawn; they stand in `words.json`."""

import json
from pathlib import Path

_FOUND = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))


def _texts(name: str) -> tuple[str, ...]:
    return tuple(_FOUND[name])


def _groups(name: str) -> dict[str, tuple[str, ...]]:
    return {group: tuple(texts) for group, texts in _FOUND[name].items()}


FIRST = _texts("first")
LAST = _texts("last")
STREETS = _texts("streets")
CITIES = _texts("cities")
CHAT = _texts("chat")
REPLIES = _texts("replies")
NOTE_TITLES = _texts("note_titles")
NOTE_BODIES = _texts("note_bodies")
LISTS = _groups("lists")
ALARM_LABELS = _texts("alarm_labels")
FILE_STEMS = _texts("file_stems")
FILE_KINDS: dict[str, str] = _FOUND["file_kinds"]
FOLDERS = _texts("folders")
NEW_FOLDERS = _texts("new_folders")
PRODUCTS = _groups("products")
COLOURS = _texts("colours")
EVENTS = _texts("events")
PLACES = _texts("places")
NETWORKS = _texts("networks")
WALLPAPERS = _texts("wallpapers")
TINTS = _texts("tints")
WORLD_CITIES: dict[str, int] = _FOUND["world_cities"]
SHORT_DAYS = _texts("short_days")
MONTHS = _texts("months")
SWITCHES = _texts("switches")
