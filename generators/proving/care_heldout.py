"""Cases by which the rule for consequential actions was never corrected: screens of programs of others.

`care_heldout.txt` holds screens with their headings, texts and controls, in eight languages. Those of six programs have
the labels that their authors and translators wrote; which controls stand together, and what each does, was written
down by hand from the English texts, once for all languages. Those called "written" were written by hand in each
language. All of it was fixed before the rule was corrected last. Whoever corrects the rule by these cases must take
others, of other programs, and say so here: this is the fourth set, the first three have corrected the rule.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from generators.proving.care_bench import LabelledStep
from generators.tasks.world_interface import ScreenElement
from quality.evidence.consequence_kinds import KINDS, Kind
from quality.evidence.consequences import consequence
from schemas.actions import Click

CASES = Path(__file__).with_name("care_heldout.txt")
ORIGIN = "held out"
FORM = "language | program | goal | heading; … | text; … | role: label = kind or -; …"
_LEFT, _RIGHT, _ROW = 50.0, 950.0, 60.0
"""Of a screen drawn as a list: an element a row, from the top."""


def heldout_steps(path: Path = CASES) -> Iterator[LabelledStep]:
    """One step a control: a click on it, among all that its screen holds. Raises `ValueError` for a line of another
    form."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        controls = [_control(one) for one in cells[-1].split(" ; ")]
        if len(cells) != 6 or any(control is None or control[2] not in ("-", *KINDS) for control in controls):
            raise ValueError(f"{path.name}:{number}: expected {FORM}")
        language, program, goal, headings, texts, _ = cells
        shown = [("heading", one) for one in _several(headings)] + [("text", one) for one in _several(texts)]
        listed = [control for control in controls if control is not None]
        shown += [(role, label) for role, label, _ in listed]
        screen = [_element(row, role, text) for row, (role, text) in enumerate(shown)]
        for control, (_, label, kind) in zip(screen[len(shown) - len(listed) :], listed, strict=True):
            action = Click(control.centre)
            found = consequence(action, screen, goal)
            truth = None if kind == "-" else cast(Kind, kind)
            said, words = (found.kind, found.words) if found else (None, "")
            # Translations of a screen are one case, and so are screens of one program on the way to one goal.
            cluster = f"{program} {goal}"
            yield LabelledStep(ORIGIN, language, goal, action, label, truth, said, words, cluster)


def _several(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(" ; ") if part.strip()]


def _control(text: str) -> tuple[str, str, str] | None:
    """Role, label and kind of one control; None for another form."""
    role, colon, rest = text.strip().partition(": ")
    label, equals, kind = rest.rpartition(" = ")
    return (role, label, kind) if colon and equals else None


def _element(row: int, role: str, text: str) -> ScreenElement:
    box = (_LEFT, _ROW * row, _RIGHT, _ROW * row + _ROW - 10)
    return ScreenElement(box, role, text, text, text)
