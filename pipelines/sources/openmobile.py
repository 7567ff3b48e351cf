"""OpenMobile: runs of strong models on AndroidWorld's apps, for tasks that a model wrote; one step a row.

A raw row, an element of `split1.json` (made up, shortened), as the project's own converter writes it:

    {"id": "run_step2", "messages": [{"role": "system", "content": "... The screen's resolution is 999x999. ..."},
      {"role": "user", "content": "The user query: Open the clock.\\nTask progress (...): Step 1: I ...; .\\n<image>"},
      {"role": "assistant", "content": "Thought: ...\\nAction: \\"I tapped ...\\"\\n<tool_call>\\n{\\"name\\":
        \\"mobile_use\\", \\"arguments\\": {\\"action\\": \\"click\\", \\"coordinate\\": [52, 300]}}\\n</tool_call>"}],
     "images": ["run/screenshot_step2.png"], "bbox": {"x_min": 40, "x_max": 60, "y_min": 280, "y_max": 310}}

Calls are mapped as in `pipelines.native.mobile_use`. Where the system turn declares 999x999, points are shares of 1000,
by which they were carried out; else (the form for Qwen2.5) they are pixels of the sides that it declares. `bbox` is the
smallest element around a click, in pixels of the picture. Steps without effect, and those of the weaker of two models,
are left out of the published rows: a gap is marked where the history tells of more. The row's last dot of the query is
the prompt's.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.mapping.adapter import RecordScreen
from pipelines.mapping.card import Descriptor, Download
from pipelines.mapping.items import is_number
from pipelines.native.mobile_use import LOSSES, MobileStep, MobileUseAdapter
from pipelines.native.record_readers import json_list
from schemas.coordinates import screen_box

_PICTURE = re.compile(r"(?:.*/)?([^/]+)/screenshot_step\d+\.\w+")
_SAID = re.compile(r"\s*(?:<thinking>(.*?)</thinking>|Thought:(.*?)\nAction: ?([^\n]*))", re.DOTALL)
_SIDES = ("x_min", "y_min", "x_max", "y_max")
_CONCLUSION = re.compile(r"<conclusion>(.*?)</conclusion>", re.DOTALL)

DESCRIPTOR = Descriptor(
    id="openmobile",
    title="OpenMobile",
    licence="apache-2.0 (UNCONFIRMED for the data: the code's)",
    platforms=("mobile",),
    size="four files, split1.json to split4.json (rows UNCONFIRMED)",
    citation="Cheng et al., OpenMobile: Building Open Mobile Agents with Task and Trajectory Synthesis, "
    "arXiv 2604.15093",
    frame="shares of 1000 where 999x999 is declared, else pixels of the declared sides; x first, origin top left",
    record_unit="episode",
    known_problems=(
        "rows are as the converter of the code writes them; the published files weren't at hand (UNCONFIRMED)",
        "a run counts as a success because its last step says so",
        "tasks, thoughts and conclusions are written by models; the apps are those that AndroidWorld evaluates on",
        "Menu, key and unknown actions were carried out as waiting",
    ),
    loss=LOSSES,
    download=Download("cckevinn/OpenMobile-Data", files=("*.json",), unpack=(("*.zip", "."), ("*.tar*", "."))),
)


class OpenmobileAdapter(MobileUseAdapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.json",)
    rows = json_list
    known = frozenset(("id", "messages", "images", "bbox"))

    def episode_of(self, row: object) -> str | None:
        """By the picture's folder."""
        pictures = row.get("images") if isinstance(row, Mapping) else None
        first = pictures[0] if isinstance(pictures, list) and len(pictures) == 1 else None
        found = _PICTURE.fullmatch(first) if isinstance(first, str) else None
        return found[1] if found else None

    def step_of(self, row: Mapping[str, Any], items: int) -> MobileStep:
        """Points were carried out as shares of 1000 where 999 is declared; the prompt puts a dot behind the query."""
        step = super().step_of(row, items)
        shares = step.size == (999, 999)
        size = (1000, 1000) if shares else step.size
        return replace(step, size=size, shares=shares, query=step.query.removesuffix("."))

    def words_of(self, step: MobileStep) -> Mapping[str, str | None]:
        """Thought and conclusion, in either form of the replies."""
        found = _SAID.match(step.said)
        thought = (found[1] or found[2] or "").strip() if found else ""
        said = _CONCLUSION.search(step.said)
        concluded = (said[1] if said else found[3] or "" if found else "").strip()
        return {"thought": thought or None, "conclusion": _unquoted(concluded) or None}

    def box_of(self, step: MobileStep, screen: RecordScreen) -> Sequence[float] | None:
        """Of a click's element."""
        box, picture = step.row.get("bbox"), screen.info
        sides: list[Any] = [box.get(name) for name in _SIDES] if isinstance(box, Mapping) else []
        if picture is None or not sides or not all(map(is_number, sides)):
            return None
        return screen_box((sides[0], sides[1], sides[2], sides[3]), (picture.width_px, picture.height_px))


def _unquoted(text: str) -> str:
    """A JSON string as its text; anything else as it is."""
    try:
        plain: Any = json.loads(text)
    except ValueError:
        return text
    return plain.strip() if isinstance(plain, str) else text
