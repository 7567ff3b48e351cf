"""The deriver of docs/add-a-deriver.md, as it stands there: named by its path, it makes samples of what is gold."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from drawn import draw
from native import write_bytes, write_lines

from dagster_project.cli import main
from pipelines.derivers.derive import find_deriver
from pipelines.prompts import prompt_text

ROOT = Path(__file__).parents[2]


def test_the_page_s_deriver_asks_for_what_lies_in_a_corner(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/add-a-deriver.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "corners.py").write_text(code, encoding="utf-8")
    boxes = {"red": (320, 180, 360, 190), "blue": (180, 90, 220, 110)}
    inner = {colour: (box[0] + 3, box[1] + 3, box[2] - 3, box[3] - 3) for colour, box in boxes.items()}
    picture = draw(inner, (400, 200))  # a box of one colour alone is taken for blank
    name = f"images/{hashlib.sha256(picture).hexdigest()}.png"
    write_bytes(tmp_path / "raw" / name, picture)
    elements = [
        {"box_px": list(map(float, box)), "role": "button", "name": colour, "text": "", "expressions": [colour]}
        for colour, box in boxes.items()
    ]
    row = {"screenshot": name, "size_px": [400, 200], "platform": "web", "elements": elements}
    write_lines(tmp_path / "raw/screens.jsonl", [row])

    unified, gold = tmp_path / "unified", tmp_path / "gold"
    assert main(["unify", "harvested", "--raw", str(tmp_path / "raw"), "--out", str(unified)]) == 0
    assert main(["refine", str(unified), "--out", str(gold), "--deriver", f"{tmp_path}/corners.py:corners"]) == 0
    rows = pq.read_table(gold / "samples.parquet").to_pylist()
    (sample,) = [row for row in rows if '"deriver":"corner"' in row["provenance"]]
    assert (sample["answer"], sample["objective"]) == ("bottom right", "vqa")
    assert prompt_text(sample["messages"]) == 'In which corner of the screen is "red"?'
    assert sample["target_boxes"] == [[800.0, 900.0, 900.0, 950.0]]


def test_what_is_no_deriver_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def plain(screen, pool, config):\n    return []\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"plain.py:plain': expected a StepDeriver or a ScreenDeriver, found a func"):
        find_deriver(f"{tmp_path}/plain.py:plain")
    with pytest.raises(ValueError, match=r"deriver: expected one of .* did you mean vqa"):
        find_deriver("vqaa")
