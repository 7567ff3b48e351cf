"""Rico semantics: icons of Rico screens with boxes drawn by people, labelled by shape and by meaning.

Licence: CC-BY-SA-4.0 (share alike: what is made of it keeps the licence).

A raw screen (element of the JSON list `data/semantics/train.json`, `val.json`, `test.json`; `data/iconnet/*` holds
shapes only; made up):

    {"screen_id": "66184", "screen_elements": [
      {"xmin": 0.04, "ymin": 0.06, "xmax": 0.09, "ymax": 0.08, "label": "ICON_THREE_BARS:MENU"}]}

| native | unified |
|---|---|
| element | a perception sample "What is at [x,y]?" → `ICON three bars: menu` (the meaning OTHER is left out) |
| element whose label is alone on its screen | also a grounding sample "Where is the menu icon (three bars)?" |
| every element | screens.elements: role `icon`, name = meaning, or the shape where the meaning is OTHER or not given |
| `data/grouping/*` (label association) | quarantined: `unknown_schema`; what its labels mean isn't documented |

The split is the file's name. Pictures come from the companion `rico`; without it the samples have none.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import rico
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, json_list
from schemas.coordinates import ScreenBox

WORD = "element"
_LABEL = re.compile(r"(?:ICON_)?([A-Z0-9_]+)(?::([A-Z0-9_]+))?")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_SCREEN = frozenset({"screen_id", "screen_elements"})
_ELEMENT = frozenset({*_SIDES, "label"})

DESCRIPTOR = Descriptor(
    id="rico_semantics",
    title="Rico semantics",
    origin="https://github.com/google-research-datasets/rico_semantics",
    licence="CC-BY-SA-4.0",
    platforms=("mobile",),
    objectives=("perception", "grounding"),
    size="about 350,000 icon shapes, 78,000 icon meanings, 66,000 label associations",
    citation="Sunkara et al., Towards Better Semantic Understanding of Mobile Interfaces, arXiv 2210.02663",
    frame="0..1 of the JPEG, xmin, ymin, xmax, ymax, origin top left",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "share alike: derivatives keep the licence",
        "about a fifth of the screens have no element",
        "many icons have the meaning OTHER; several icons of a screen may have the same label",
    ),
    loss=(
        Loss(WORD, "perception sample", "kept", "asked by its centre; a unique label also by name"),
        Loss("element/bad", "-", "dropped", "no box, a box without area, or a label of another form"),
        Loss("grouping", "-", "dropped", "unknown_schema: the meaning of its labels isn't documented"),
    ),
    companions=(rico.COMPANION,),
)


class RicoSemanticsAdapter(Adapter):
    """One record per screen and task (meanings, shapes)."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("screen_elements",)
    patterns = ("**/*.json",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One screen at a time; its id is `<task>/<screen>`, as a screen stands in several tasks."""
        for file in files:
            task = _task(file)
            yield from json_list(raw, file, of_id=partial(_id, task), count=count_of('"label"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → perception and grounding samples. Raises `RecordError`."""
        row = record.payload
        listed = row.get("screen_elements") if isinstance(row, dict) else None
        if not isinstance(listed, list):
            raise RecordError("missing_field", "expected screen_id and screen_elements")
        if _task(record.file) == "grouping":
            raise RecordError("unknown_schema", "label association: its labels aren't documented", len(listed))
        identifier = rico.screen_id(row.get("screen_id"), len(listed))
        found: list[tuple[int, str, str, ScreenBox]] = []
        failed: list[tuple[int, Any, ItemError]] = []
        new = unknown_fields(row, _SCREEN)
        for index, element in enumerate(listed):
            try:
                found.append((index, *_element(element)))
                new += unknown_fields(element, _ELEMENT)
            except ItemError as error:
                failed.append((index, element, error))
        elements = [
            {"box": box, "role": "icon", "text": "", "name": meaning or shape} for _, shape, meaning, box in found
        ]
        screen = RecordScreen.load(rico.picture(raw, identifier), elements, normalised=True)
        builder = SampleBuilder(self.descriptor, record, split=rico.file_split(record.file))
        for index, element, problem in failed:
            builder.reject(problem.reason, native=element, native_index=index, word=problem.word, detail=str(problem))
        # A label that two elements bear points at neither.
        labels = Counter((shape, meaning) for _, shape, meaning, _ in found)
        for index, shape, meaning, box in found:
            said = f"ICON {shape}: {meaning}" if meaning else f"ICON {shape}"
            builder.region(said, box, screen, index, WORD)
            if labels[shape, meaning] == 1 and not failed:  # an unread element might bear the same label
                named = f"the {meaning} icon ({shape})" if meaning else f"the {shape} icon"
                builder.grounding(named, box, screen, index, WORD, k=1, count=False, rules=["unique_label"])
        return notices(builder.finish(), new)


def _task(file: str) -> str:
    """Name of the file's folder: semantics, iconnet or grouping; a file without a folder holds semantics."""
    return file.split("/")[-2] if "/" in file else "semantics"


def _id(task: str, row: object) -> str | None:
    identifier = row.get("screen_id") if isinstance(row, dict) else None
    return f"{task}/{identifier}" if isinstance(identifier, str | int) else None


def _element(element: object) -> tuple[str, str, ScreenBox]:
    """Shape, meaning ("" for OTHER or none) and box in 0..1000. Raises `ItemError`."""
    word = "element/bad"
    if not isinstance(element, dict):
        raise ItemError("bad_value", f"expected an object, found {type(element).__name__}", word)
    label = element.get("label")
    match = _LABEL.fullmatch(label) if isinstance(label, str) else None
    if match is None:
        raise ItemError("bad_value", f"label: expected SHAPE or SHAPE:MEANING, found {label!r:.60}", word)
    if missing := [side for side in _SIDES if side not in element]:
        raise ItemError("missing_field", f"no {missing}", word)
    box = unit_box([element[side] for side in _SIDES], (1.0, 1.0), word)
    shape, meaning = (part.replace("_", " ").strip().lower() for part in (match[1], match[2] or ""))
    return shape, "" if meaning == "other" else meaning, box
