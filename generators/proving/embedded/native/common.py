"""What several writers share: files per shard, pixels, and Android's names for what is on a screen."""

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from generators.worlds.pages.own_pages import PageElement
from generators.worlds.pages.recording import RecordedEpisode

T = TypeVar("T")


def _named(prefix: str, pairs: str) -> dict[str, str]:
    return {word: prefix + name for word, _, name in (pair.partition("=") for pair in pairs.split())}


ICONS = _named(
    "ICON_",
    "back=V_BACKWARD home=HOME square=NAV_BAR_RECT circle=NAV_BAR_CIRCLE search=MAGNIFYING_GLASS star=STAR "
    "delete=DELETE cart=SHOPPING_CART plus=PLUS close=X check=CHECK mail=ENVELOPE person=PERSON settings=SETTINGS "
    "list=LIST heart=HEART right=V_FORWARD down=V_DOWNWARD phone=CALL camera=CAMERA share=SHARE edit=EDIT "
    "send=SEND bell=NOTIFICATIONS menu=THREE_BARS play=PLAY",
)
ANDROID = _named(
    "android.widget.",
    "button=Button link=Button textbox=EditText checkbox=CheckBox radio=RadioButton switch=Switch slider=SeekBar "
    "combobox=Spinner option=CheckedTextView tab=TextView listitem=LinearLayout icon=ImageView image=ImageView "
    "heading=TextView text=TextView",
)


def android_class(element: PageElement) -> str:
    """The Android view class that this element is drawn as; a button that is only an icon is an ImageButton."""
    if element.role == "button" and element.icon and not element.text:
        return "android.widget.ImageButton"
    return ANDROID.get(element.role, "android.view.View")


def is_icon(element: PageElement) -> bool:
    """Whether the element is drawn as a picture without words."""
    return bool(element.icon) and not element.text


def pixels(png: bytes) -> np.ndarray | None:
    """uint8[height, width, 3] of a picture; None if the bytes are no whole picture."""
    try:
        with Image.open(io.BytesIO(png)) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError):
        return None


def shards(items: Sequence[T], per_file: int) -> list[list[T]]:
    """Items in order, `per_file` in each but the last."""
    return [list(items[at : at + per_file]) for at in range(0, len(items), per_file)]


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)


def dump(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def split_ids(episodes: Iterable[RecordedEpisode]) -> dict[str, list[str]]:
    """train | validation | test → episode ids, each once, in order."""
    found: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for episode in episodes:
        if episode.uid not in found[episode.split]:
            found[episode.split].append(episode.uid)
    return found


def ocr(elements: Sequence[PageElement]) -> list[tuple[PageElement, str, str]]:
    """(element, text, kind) as an OCR and icon detector would see the screen: TEXT, or ICON_* without text."""
    found = []
    for e in elements:
        if is_icon(e):
            found.append((e, "", ICONS.get(e.icon, "ICON_" + e.icon.upper())))
        elif (
            e.role in ("text", "heading")
            and e.text
            or e.text
            and e.role in ("button", "option", "tab", "combobox", "textbox", "link", "radio")
        ):
            found.append((e, e.text, "TEXT"))
    return found
