"""WebUI: 400,000 web pages rendered on desktops, tablets and phones, each with its accessibility tree and boxes.

One folder a page; for each device `<device>-axtree.json.gz` (`nodes` of role, name, backendDOMNodeId),
`<device>-bb.json.gz` (node → x, y, width, height in CSS pixels of the page, or null), `<device>-viewport.json.gz` (node
→ visible?) and `<device>-screenshot.webp`, whose pixels are 1, 2 or 3 times the CSS pixels.

| native | unified |
|---|---|
| visible node with a name | "Where is <name>?" → centre; for texts, links, headings "What is at [x,y]?" → the name |
| the text node of a node of the same name | counted with it |
| name that stands on several places of the page | "What is at [x,y]?" alone (lossy: `ambiguous_name`) |
| every visible named node | screens.elements: role, name |
| node that is hidden, or lies outside the first screen | a notice a page (`not_on_screen`): no item |

The full-page screenshots aren't read. Whether a page trains isn't in the files: `splits.json` (`{"train": [page ids]}`,
validation, test) beside the folders is heeded if there, by the page's folder name.
"""

import json
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.decompression import unpacked_gzip
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, split_of
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named

TREE = "-axtree.json.gz"
SPLITS = "splits.json"
SCALES = {"default": 1, "iPad": 2, "iPhone": 3}
"""Beginning of a device's name → picture pixels per CSS pixel."""
DRAWN = frozenset({"StaticText", "link", "heading", "button", "LabelText", "paragraph", "cell"})
SKIPPED = frozenset({"InlineTextBox", "RootWebArea", "none", "generic"})
WORD, INNER = "node", "text of a node"
_DEVICE = re.compile(r"(?P<page>.*?)(?P<device>[^/]+)-axtree\.json\.gz\Z")

DESCRIPTOR = Descriptor(
    id="webui_350k",
    title="WebUI",
    origin="https://github.com/js0nwu/webui",
    licence="research use (COPYRIGHT.txt of the release)",
    platforms=("web",),
    language="multi",
    objectives=("grounding", "perception"),
    size="400,000 pages on 6 to 8 devices each",
    citation="Wu et al., WebUI: A Dataset for Enhancing Visual UI Understanding with Web Semantics, arXiv 2301.13280",
    frame="CSS pixels of the page, x, y, width, height; pictures have 1, 2 or 3 pixels a CSS pixel",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "accessibility names are noisy: generic, empty, or of hidden nodes",
        "a page stands there once for each device",
        "what lies below the first screen is only in the full-page picture",
    ),
    loss=(
        Loss(
            WORD, "grounding and perception samples", "kept", "lossy where the name is ambiguous; dropped without box"
        ),
        Loss(INNER, "-", "kept", "said by the node that it is the text of"),
    ),
    download=Download("biglab/webui-350k"),
)


class Webui350kAdapter(Adapter):
    """One record per page and device."""

    descriptor = DESCRIPTOR
    version = 2
    side_lists = (SPLITS,)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Pages by the last digits of their folder: all devices of a page together."""
        groups: dict[str, list[str]] = {}
        for name in raw.files(f"**/*{TREE}"):
            # All devices together: the same page in two parts could fall apart.
            groups.setdefault(posixpath.dirname(name)[-2:] or "page", []).append(name)
        return [tuple(group) for _, group in sorted(groups.items())]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One tree at a time."""
        for file in files:
            try:
                tree = json.loads(unpacked_gzip(raw.read(file)))
            except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
                yield Broken(file, "document", "truncated_record", f"gzip or JSON: {error}", 0)
                continue
            yield Record(file, "document", tree, file.removesuffix(TREE))

    def count_items(self, record: Record) -> int:
        """Nodes with a name: an upper bound, for which of them are on the first screen stands in other files."""
        nodes = record.payload.get("nodes") if isinstance(record.payload, dict) else None
        return max(sum(map(_has_name, nodes)), 1) if isinstance(nodes, list) else 1

    def items_held(self, record: Record, raw: Raw) -> int:
        """Named nodes on the first screen."""
        boxes, size, _ = _page(record, raw)
        shown, inner, _ = _visible(record, raw, boxes, size)
        return len(shown) + inner

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One page on one device → samples. Raises `RecordError`: missing_field, bad_frame."""
        boxes, size, bare = _page(record, raw)
        shown, inner, hidden = _visible(record, raw, boxes, size)
        good, failed, _ = named_boxes.read_elements(shown, lambda node: _named(node, boxes, size), frozenset())
        screen = RecordScreen.load(bare.data, named_boxes.screen_elements(good))
        page = posixpath.basename(posixpath.dirname(record.file))
        builder = SampleBuilder(self.descriptor, record, split=split_of(raw, SPLITS, page) or "train")
        builder.count(INNER, inner)
        found = (
            [("not_on_screen", f"{hidden} named nodes are hidden or outside the first screen", None)] if hidden else []
        )
        return notices(named_boxes.emit(builder, screen, good, failed), found)


def _page(record: Record, raw: Raw) -> tuple[Mapping[str, Any], tuple[float, float], RecordScreen]:
    """(boxes of the nodes by their ids, size of the screen in CSS pixels, its picture). Raises `RecordError`."""
    if not isinstance(record.payload, dict) or not isinstance(record.payload.get("nodes"), list):
        raise RecordError("missing_field", "expected an object with nodes")
    match = _DEVICE.fullmatch(record.file)
    device = match["device"] if match else ""
    scale = next((scale for start, scale in SCALES.items() if device.startswith(start)), None)
    # Without its scale a picture's size isn't that of the page.
    if scale is None:
        raise RecordError(f"unknown_device:{device[:40]}", f"expected one of {', '.join(SCALES)}")
    bare = RecordScreen.load(raw.read_if_there(f"{record.native_id}-screenshot.webp"), normalised=True)
    if bare.width_px is None or bare.height_px is None:
        raise RecordError("bad_frame", f"no usable picture ({bare.problem}), so no size of the screen")
    return _side(raw, f"{record.native_id}-bb.json.gz"), (bare.width_px / scale, bare.height_px / scale), bare


def _side(raw: Raw, name: str) -> Mapping[str, Any]:
    data = raw.read_if_there(name)
    try:
        plain = json.loads(unpacked_gzip(data)) if data is not None else {}
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise RecordError("truncated_record", f"{posixpath.basename(name)}: {error}") from error
    if not isinstance(plain, dict):
        raise RecordError("bad_value", f"{posixpath.basename(name)}: expected an object")
    return plain


def _visible(
    record: Record, raw: Raw, boxes: Mapping[str, object], size: tuple[float, float]
) -> tuple[list[dict[str, Any]], int, int]:
    """(named nodes on the first screen, text nodes that only repeat their parent's name, named nodes elsewhere)."""
    nodes, visible = record.payload["nodes"], _side(raw, f"{record.native_id}-viewport.json.gz")
    # By their ids, as children repeat the names of their parents.
    names = {node.get("nodeId"): _value(node, "name") for node in nodes if isinstance(node, dict)}
    shown: list[dict[str, Any]] = []
    inner = hidden = 0
    for node in nodes:
        if not isinstance(node, dict) or not _has_name(node):
            continue
        key = str(node.get("backendDOMNodeId"))
        # Only the first screen was drawn.
        if visible.get(key) is False or not _on_screen(boxes.get(key), size):
            hidden += 1
        elif _value(node, "role") == "StaticText" and names.get(node.get("parentId")) == _value(node, "name"):
            inner += 1
        else:
            shown.append(node)
    return shown, inner, hidden


def _has_name(node: object) -> bool:
    if not isinstance(node, dict) or node.get("ignored") or not _value(node, "name").strip():
        return False
    return _value(node, "role") not in SKIPPED


def _value(node: Mapping[str, object], name: str) -> str:
    held = node.get(name)
    value = held.get("value") if isinstance(held, dict) else None
    return value if isinstance(value, str) else ""


def _on_screen(box: Any, size: tuple[float, float]) -> bool:
    try:
        left, top, width, height = (float(box[name]) for name in ("x", "y", "width", "height"))
    except (TypeError, KeyError, ValueError):
        return False
    # A thousandth of slack: boxes are rounded.
    inside = left >= -size[0] / 1000 and top >= -size[1] / 1000
    return inside and width > 0 and height > 0 and left + width <= 1.001 * size[0] and top + height <= 1.001 * size[1]


def _named(node: Any, boxes: Mapping[str, Any], size: tuple[float, float]) -> Named:
    name, role = _value(node, "name"), _value(node, "role")
    if not is_text(name):
        raise ItemError("bad_value", "the name is not Unicode text", WORD)
    box = boxes[str(node.get("backendDOMNodeId"))]
    corners = [box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]]
    return Named(name, named_boxes.unit_box(corners, size, WORD), WORD, role, drawn=role in DRAWN)
