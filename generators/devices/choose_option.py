"""SelectOption on a page, whoever drives it: a native list is set, any other is opened and its option clicked."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from generators.tasks.world_interface import WorldError
from schemas.action_types import SelectOption

_SCRIPT = Path(__file__).with_name("choose_option.js")


@cache
def choice_script() -> str:
    """Defines `vesperChoose(x, y, text)` in a page; what it answers stands there."""
    return _SCRIPT.read_text(encoding="utf-8")


def no_option(action: SelectOption, answer: Mapping[str, Any]) -> WorldError:
    """What to raise where no option of that text was found, with those that there are."""
    options = [str(option) for option in answer.get("options", ())]
    there = f"its options are {', '.join(options)}" if options else "there is no list with options"
    return WorldError(f"SelectOption: no option {action.option[:80]!r} at {action.box}; {there}")
