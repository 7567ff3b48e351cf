"""Cases by which the rule for consequential actions was never corrected: controls of programs of others.

`care_heldout.txt` holds labels out of the texts of four programs as their authors and translators wrote them. They were
picked and labelled by hand, with what each control does as truth, from a list in a random order, after the words of the
rule were fixed; the language was drawn. Whoever corrects words by these cases must take others, of other programs, and
say so here: this is the third set, the first two have corrected the words.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from generators.proving.care_bench import LabelledStep
from generators.tasks.world_interface import ScreenElement
from quality.evidence.consequences import KINDS, Kind, consequence
from schemas.actions import Click

CASES = Path(__file__).with_name("care_heldout.txt")
ORIGIN = "held out"
_HEADING = (50.0, 50.0, 950.0, 100.0)
_CONTROL = (400.0, 500.0, 600.0, 560.0)


def heldout_steps(path: Path = CASES) -> Iterator[LabelledStep]:
    """One step a case: a click on the control, below the headings of its screen. Raises `ValueError` for a line of
    another form."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or cells[1] not in ("-", *KINDS):
            raise ValueError(f"{path.name}:{number}: expected language | kind or - | role | label | headings | goal")
        language, kind, role, label, headings, goal = cells
        texts = [_element("heading", text.strip(), _HEADING) for text in headings.split(";")]
        control = _element(role, label, _CONTROL)
        action = Click(control.centre)
        found = consequence(action, [*texts, control], goal)
        truth = None if kind == "-" else cast(Kind, kind)
        said, words = (found.kind, found.words) if found else (None, "")
        yield LabelledStep(ORIGIN, language, goal, action, label, truth, said, words)


def _element(role: str, text: str, box: tuple[float, float, float, float]) -> ScreenElement:
    return ScreenElement(box, role, text, text, text)
