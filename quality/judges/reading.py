"""Another judge that also gets what an OCR program reads on screens whose source lists nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quality.evidence.episode import Habits
from quality.evidence.reading import ReadBank, TextReader
from quality.items.item import Item, rebanked
from quality.judges.judge import Judge, Verdict


class ReadingJudge:
    """See `Judge`. All else is that judge's: name, model, costs; its rubric's version names the reader too."""

    def __init__(self, judge: Judge, reader: TextReader) -> None:
        self._judge, self._reader = judge, reader
        self.rubric_version = f"{judge.rubric_version}+{reader.version}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """See `Judge.judge`."""
        banks: dict[int, ReadBank] = {}
        # One bank for all items of a part, so that a screen is read once.
        seen = [rebanked(item, banks.setdefault(id(item.bank), ReadBank(item.bank, self._reader))) for item in items]
        return [
            replace(verdict, rubric_version=f"{verdict.rubric_version}+{self._reader.version}")
            for verdict in self._judge.judge(seen, round_number, habits)
        ]
