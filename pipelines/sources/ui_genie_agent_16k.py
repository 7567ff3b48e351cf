"""UI-Genie-Agent: synthetic Android episodes accepted by a reward model, one step a row; also rows on AMEX pictures.

A raw row, a line of `ui_genie_agent_16k.jsonl` or `AMEX_Agent_34K.jsonl` (made up, shortened):

    {"messages": [{"role": "system", "content": "... The screen's resolution is 504x1120. ..."},
      {"role": "user", "content": "The user query: Open the clock\\nTask progress (...): Step1: ...; Step2: ...; "},
      {"role": "assistant", "content": "<tool_call>\\n{\\"name\\": \\"mobile_use\\", \\"arguments\\": {\\"action\\":
        \\"click\\", \\"coordinate\\": [52, 300], \\"action_desc\\": \\"Tap ...\\"}}\\n</tool_call>"}],
     "images": ["data/screenshots/ab12/screenshot-3.png"]}

Calls are mapped as in `pipelines.native.mobile_use`; the whole episode of one with `som` is quarantined
(`no_coordinates`): its pictures have tags painted in.

Coordinates are pixels of the resolution that the system turn declares, which isn't that of the picture. Rows of one
episode (the picture's folder, or its name before the last `-`) are put in order by the steps already done; the numbers
in picture names jump. `action_desc` is the step's instruction.
"""

import re
from collections.abc import Mapping

from pipelines.mapping.card import Descriptor, Download
from pipelines.native.mobile_use import LOSSES, MobileStep, MobileUseAdapter
from pipelines.native.record_readers import json_lines

_PICTURE = re.compile(r"(?:.*/)?(?:data/screenshots/([^/]+)/[^/]+|AMEX/screenshot/([^/]+)-\d+\.\w+)")

DESCRIPTOR = Descriptor(
    id="ui_genie_agent_16k",
    title="UI-Genie-Agent-16k",
    licence="UNCONFIRMED",
    platforms=("mobile",),
    size="2,208 episodes, 16,698 steps; on AMEX pictures 2,981 episodes, 35,088 steps",
    citation="Xiao et al., UI-Genie: A Self-Improving Approach for Iteratively Boosting MLLM-based Mobile GUI Agents, "
    "arXiv 2505.21496",
    frame="pixels of the resolution that the system turn declares, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "417 episodes have tags painted into their pictures and no coordinates",
        "34 episodes have a coordinate outside the declared frame; 21 have gaps",
        "some episodes lack the last action; 32 have no other",
        "pictures of the second file come with AMEX",
    ),
    loss=LOSSES,
    download=Download("HanXiao1999/UI-Genie-Agent-16k"),
)


class UiGenieAgent16kAdapter(MobileUseAdapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.jsonl",)
    rows = json_lines
    known = frozenset(("messages", "images", "action_desc", "action_info", "som"))

    def episode_of(self, row: object) -> str | None:
        """By the picture's folder or name."""
        pictures = row.get("images") if isinstance(row, Mapping) else None
        if not isinstance(pictures, list) or len(pictures) != 1 or not isinstance(pictures[0], str):
            return None
        match = _PICTURE.fullmatch(pictures[0])
        return (match[1] or match[2]) if match else None

    def words_of(self, step: MobileStep) -> Mapping[str, str | None]:
        """`action_desc`, an argument of the call."""
        said = step.arguments.get("action_desc")
        return {"step_instruction": said} if isinstance(said, str) and said.strip() else {}
