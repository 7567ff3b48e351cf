"""OS-Atlas: elements of desktop, web and phone screens from accessibility trees, in two JSON shapes.

Raw elements of the arrays `<domain>_domain/*.json` (made up), nested and flat:

    {"img_filename": "a/1.png", "elements": [{"instruction": "Save", "bbox": [0.1, 0.02, 0.2, 0.05]}]}
    {"img_filename": "a/1.png", "instruction": "Save", "bbox": [0.1, 0.02, 0.2, 0.05], "data_type": "text"}

| native | unified |
|---|---|
| element | "Where is <name>?" → centre; "What is at [x,y]?" → the name, where `data_type` says that it is drawn |
| name that stands on several places of a nested screen | "What is at [x,y]?" alone (lossy: `ambiguous_name`) |
| box over 0.8 of the screen, off it or without area; name that is empty or but a role | rejected |

Desktop screenshots are cut into pieces, and boxes refer to the piece. Pictures are looked for in the folder that their
archive unpacks to (`linux_images/`, `fineweb_3m/`, …) beside the file. Re-hosted copies of other sources (RICOSCA,
Widget Captioning, UIBert, AMEX, SeeClick web) are read too, as long as they stand in the folder: leave them out, or let
the duplicates stage find them.
"""

import posixpath
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, json_list

MAX_SHARE = 0.8
"""Share of the screen from which a box is no element (as GUI-Actor's reader of these files has it)."""
FOLDERS = {
    "linux": ("linux_images",),
    "macos": ("macos_images",),
    "windows": ("windows_images", "windows_image"),
    "aw_mobile": ("mobile_images",),
    "amex_raw": ("amex_images",),
    "uibert_raw": ("UIBert",),
    "ricosca": ("combined", "rico_imgs"),
    "widget_captioning": ("combined", "rico_imgs"),
    "fineweb": ("fineweb_3m",),
    "seeclick_web": ("seeclick_web_image", "seeclick_web_imgs"),
}
"""Beginning of a file's name → folders that its archive may have been unpacked to."""
ROLES = frozenset(
    {
        "button",
        "link",
        "image",
        "text",
        "panel",
        "filler",
        "label",
        "icon",
        "unknown",
        "group",
        "pane",
        "window",
        "menu",
        "separator",
        "statictext",
        "axgroup",
        "axbutton",
        "axstatictext",
    }
)
_ROW = frozenset({"img_filename", "elements"})
_ELEMENT = frozenset({"instruction", "bbox", "data_type"})

DESCRIPTOR = Descriptor(
    id="os_atlas",
    title="OS-Atlas grounding corpus",
    licence="Apache-2.0",
    platforms=("desktop", "web", "mobile"),
    objectives=("grounding", "perception"),
    size="over 13 million elements on 2.3 million screenshots (UNCONFIRMED)",
    citation="Wu et al., OS-ATLAS: A Foundation Action Model for Generalist GUI Agents, arXiv 2410.23218",
    frame="fractions 0..1 of the (cut) picture, left, top, right, bottom",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "names from accessibility trees: file names, roles, invisible nodes",
        "re-hosts RICOSCA, Widget Captioning, UIBert, AMEX and SeeClick web",
        "two JSON shapes",
    ),
    loss=(
        Loss("element", "grounding sample", "kept", "lossy where the name is ambiguous; dropped without name or box"),
        Loss("text", "grounding and perception samples", "kept", "data_type text: the name is drawn"),
        Loss("role as name", "-", "dropped", "empty_text: a role says nothing of which element is meant"),
    ),
    download=Download(
        "OS-Copilot/OS-Atlas-data",
        files=("*.json",),
        unpack=(
            ("desktop_domain/linux_images.zip", "desktop_domain/linux_images"),
            ("desktop_domain/macos_images.zip", "desktop_domain/macos_images"),
            ("desktop_domain/windows_image*", "desktop_domain/windows_images"),
            ("mobile_domain/mobile_images.zip", "mobile_domain/mobile_images"),
        ),
    ),
)


class OsAtlasAdapter(Adapter):
    """One record per screen (nested) or element (flat)."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("elements",)
    patterns = ("**/*.json",)
    reader = partial(json_list, count=count_of('"bbox"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One record → samples. Raises `RecordError`: missing_field, unsafe_path."""
        row = record.payload
        if not isinstance(row, dict) or not isinstance(row.get("img_filename"), str):
            raise RecordError("missing_field", "expected img_filename", _items(row))
        # An object a screen, or a row an element, by file.
        listed = row["elements"] if isinstance(row.get("elements"), list) else [row] if "bbox" in row else None
        if listed is None:
            raise RecordError("missing_field", "expected elements, or instruction and bbox")
        flat = "elements" not in row
        good, failed, new = named_boxes.read_elements(
            listed, _element, _ELEMENT | _ROW if flat else _ELEMENT, "element"
        )
        data = _picture(raw, record.file, row["img_filename"], len(listed))
        screen = RecordScreen.load(data, named_boxes.screen_elements(good), normalised=True)
        builder = SampleBuilder(
            self.descriptor, record, record_id=f"{record.file}#{record.locator}", platform=_platform(record.file)
        )
        known = [] if flat else unknown_fields(row, _ROW)
        # Of a flat row the element's own fields were looked at already.
        return notices(named_boxes.emit(builder, screen, good, failed, new), known)


def _items(row: object) -> int:
    listed = row.get("elements") if isinstance(row, dict) else None
    return max(len(listed), 1) if isinstance(listed, list) else 1


def _platform(file: str) -> str:
    """By the folder that the file lies in; else by its name. Desktop files are the ones named after a system."""
    if "mobile_domain/" in file or posixpath.basename(file).startswith(("aw_", "amex", "uibert", "rico", "widget")):
        return "mobile"
    if "desktop_domain/" in file or posixpath.basename(file).startswith(("linux", "macos", "windows")):
        return "desktop"
    return "web"


def _picture(raw: Raw, file: str, name: str, items: int) -> bytes | None:
    stem, folder = posixpath.basename(file), posixpath.dirname(file)
    # Archives were unpacked below folders of their own.
    places = [""] + [place for start, places in FOLDERS.items() if stem.startswith(start) for place in places]
    return raw.first((posixpath.join(folder, place, name) for place in places), items)


def _element(element: Any) -> Named:
    name, kind = element.get("instruction"), element.get("data_type")
    if not isinstance(name, str):
        raise ItemError("missing_field", f"instruction: expected a text, found {name!r:.60}", "element")
    if not name.strip():
        raise ItemError("empty_text", "the element has no name", "element")
    # "button" would point at any of them.
    if name.strip().casefold() in ROLES:
        raise ItemError("empty_text", f"the name is but a role: {name[:40]!r}", "role as name")
    box = named_boxes.unit_box(element.get("bbox"), (1.0, 1.0), "element")
    # The background of a whole screen is no target.
    if (box[2] - box[0]) * (box[3] - box[1]) >= MAX_SHARE * 1e6:
        raise ItemError("bad_box", f"the box covers {(box[2] - box[0]) * (box[3] - box[1]) / 1e4:.0f} %", "element")
    drawn = kind == "text"
    return Named(name, box, "text" if drawn else "element", "text" if drawn else "", drawn=drawn)
