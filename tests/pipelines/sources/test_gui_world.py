"""GUI-World: a sample on all key frames shows each of them, in order, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from webnative import png

from pipelines import sources
from pipelines.mapping.adapter import Raw, Record

VIDEO = {
    "video_path": "software/1.mp4",
    "Caption": "A line.",
    "keyframes": [{"frame": 30, "sub_goal": "Open it"}, {"frame": 60, "sub_goal": "Close it"}],
}


def caption(root: Path) -> dict[str, Any]:
    adapter = sources.get("gui_world")
    mapped = adapter.map(Record("Annotation/train/software.jsonl", "line 1", VIDEO, "software/1.mp4"), Raw(root))
    assert mapped.items == mapped.mapped == len(mapped.samples) == 3
    return mapped.samples[-1]


def test_all_frames_are_shown_in_order(tmp_path: Path) -> None:
    (tmp_path / "software/1").mkdir(parents=True)
    for number in (30, 60):
        (tmp_path / f"software/1/{number}.png").write_bytes(png(64, 32, number))
    row = caption(tmp_path)
    assert len(set(row["images"])) == 2
    (turn,) = json.loads(row["messages"])
    assert [part["type"] for part in turn["content"]] == ["text", "image", "image"]
    assert "all_key_frames" in row["provenance"]


def test_one_missing_frame_leaves_no_picture(tmp_path: Path) -> None:
    (tmp_path / "software/1").mkdir(parents=True)
    (tmp_path / "software/1/30.png").write_bytes(png(64, 32, 1))
    row = caption(tmp_path)
    assert row["images"] == [] and "frames_missing" in row["provenance"]
