"""OSWorld-G, in its original and its refined wording: boxes, polygons and refusals, by capability and element type.

Capabilities come from `classification_result.json` (`{"classified": {capability: [{"id": …}, …]}}`), where a row has
several: it counts in each, as in the authors' table. Refusals count in the total; `present` leaves them out.
"""

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.suites.osworld_g import FORM, SIDE_FILES
from trainer.suites.reading import Benchmark, Row, stem, text

CLASSES = "classification_result"


def capabilities(raw: Raw) -> dict[str, tuple[str, ...]]:
    """Id → capabilities, sorted; empty without the file. Raises `ValueError` for a file of another form."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in raw.files(f"**/{CLASSES}.json"):
        try:
            whole = json.loads(raw.read(name))
            for kind, entries in whole.get("classified", whole).items():
                for entry in entries:
                    found[str(entry["id"] if isinstance(entry, dict) else entry)].add(str(kind))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f'{name}: expected {{"classified": {{capability: [{{"id": …}}]}}}}, found {error!r:.120}; '
                "restore the file or take it away"
            ) from error
    return {identity: tuple(sorted(kinds)) for identity, kinds in found.items()}


def labels(row: Row, file: str, side: Any) -> dict[str, str | tuple[str, ...]]:
    """capability and gui_type (several each), and the kind of target."""
    kinds = row.get("GUI_types")
    types = tuple(sorted({str(kind) for kind in kinds})) if isinstance(kinds, list) and kinds else ("unknown",)
    unknown = ("refusal",) if refuses(row, file) else ("unknown",)
    return {
        "platform": "desktop",
        "capability": side.get(str(row.get("id")), unknown),
        "gui_type": types,
        "target": text(row, "box_type"),
    }


def refuses(row: Row, file: str) -> bool:
    """Rows whose element isn't there."""
    return row.get("box_type") == "refusal" or row.get("gt_type") == "negative"


def _original(file: str) -> bool:
    return not any(name in file for name in SIDE_FILES) and "refined" not in stem(file).lower()


def _refined(file: str) -> bool:
    return not any(name in file for name in SIDE_FILES) and "refined" in stem(file).lower()


OSWORLD_G = Benchmark(
    "osworld_g",
    "OSWorld-G",
    FORM,
    labels,
    (("capability",), ("gui_type",), ("target",)),
    asks=_original,
    refuses=refuses,
    side=capabilities,
)
OSWORLD_G_REFINED = replace(OSWORLD_G, name="osworld_g_refined", title="OSWorld-G (refined)", asks=_refined)
