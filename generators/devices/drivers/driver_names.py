"""Tables of names, in `names.json`: keysyms of X, packages of apps, roles of Android's classes."""

import json
from pathlib import Path

NAMES = json.loads(Path(__file__).with_name("names.json").read_text("utf-8"))
