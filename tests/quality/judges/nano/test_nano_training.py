"""Training the nano judge on a small bench made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quality.evidence.reading import TextReader
from quality.items.screens import Element
from quality.judges.nano import forest
from quality.judges.nano.judge import NanoJudge
from quality.judges.nano.training import NanoConfig, train_nano
from tests.support.benchmaker import Maker

TINY = NanoConfig(hidden=(4,), members=1, epochs=2)


class ToldReader(TextReader):
    """Reads the same on every picture, and counts which it was asked about."""

    def __init__(self) -> None:
        self.version, self.asked = "told/1", set[str]()

    def texts(self, sha256: str, source: Any) -> list[Element]:
        self.asked.add(sha256)
        return [Element((20, 100, 160, 150), "text", "Settings", "")]


@pytest.fixture
def bench(world: Any, tmp_path: Path) -> Path:
    made = Maker(world)
    for number in range(12):
        made.episode(f"e{number}", None, None, None, None)
        made.label(f"episode:made/e{number}", "clean", family=f"f{number % 4}")
        low = number % 2 == 0
        made.label(
            f"step:made/e{number}/0", *(("planted", "wrong_element") if low else ("clean", "")), f"f{number % 4}"
        )
        low_sample = ("planted", "shifted_box") if number % 3 == 0 else ("clean", "")
        made.label(made.sample(number, None), *low_sample, f"f{number % 4}")
    return made.write(tmp_path / "bench")


def test_what_is_read_is_a_third_view_of_the_seen_part(
    bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest, "TREES", 5)  # instead of 300 in each of 28 heads: how well they judge isn't asked here
    plain = train_nano(bench, tmp_path / "plain", TINY, tell=lambda line: None)
    reader = ToldReader()
    read = train_nano(bench, tmp_path / "read", TINY, tell=lambda line: None, reader=reader)
    assert reader.asked == {path.stem for path in (bench / "screens").rglob("*.png")}
    assert (plain["read"], read["read"]) == (None, "told/1")
    assert json.loads((tmp_path / "read" / "nano.json").read_text())["read"] == "told/1"
    for unit in ("step", "sample"):
        assert read["examples"][unit] * 2 == plain["examples"][unit] * 3 > 0
    models = {NanoJudge(tmp_path / name).model for name in ("plain", "read")}
    assert len(models) == 2
