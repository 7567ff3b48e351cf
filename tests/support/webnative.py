"""Writes real records of web, desktop and question sources back into their native files; runs `unify` on them."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.store.images import encode_png

SAMPLES = Path(__file__).parents[2] / "../shared/sources/samples"


def real(source: str, name: str) -> Path:
    """A file of real records, or a skip where it doesn't lie beside the checkout."""
    path = SAMPLES / source / name
    if not path.is_file():
        pytest.skip(f"no real records {source}/{name} beside this checkout")
    return path


@cache
def png(width: int, height: int, seed: int = 0) -> bytes:
    """A deterministic picture that compresses well."""
    shown = np.full((height, width, 3), 40, np.uint8)
    shown[..., 0] = (np.arange(width) + seed) % 256
    shown[..., 1] = (np.arange(height) // 2 % 256)[:, None]
    return encode_png(shown)


def write(path: Path, data: Any) -> Path:
    """bytes as they are, text as UTF-8, anything else as JSON (gzipped for a name in .gz)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(data, bytes | str):
        data = json.dumps(data)
    raw = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" and not raw.startswith(b"\x1f\x8b") else raw)
    return path


def write_csv(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def candidate(tag: str, rect: str, **more: Any) -> dict[str, Any]:
    """A Mind2Web candidate: attributes are JSON in a string."""
    return {"tag": tag, "backend_node_id": "1", "attributes": json.dumps({"bounding_box_rect": rect}), **more}


def web_action(op: str = "CLICK", rect: str | None = "100,200,50,20", uid: str = "u1", **more: Any) -> dict[str, Any]:
    """A made-up Mind2Web action on a page of 1000x2000."""
    value = more.pop("value", "")
    target = [] if rect is None else [candidate("a", rect, is_original_target=True, is_top_level_target=True)]
    return {
        "action_uid": uid,
        "raw_html": "<html/>",
        "cleaned_html": "<html/>",
        "operation": {"op": "CLICK" if op in ("HOVER", "ENTER") else op, "original_op": op, "value": value},
        "pos_candidates": target,
        "neg_candidates": [candidate("html", "0,0,1000,2000")],
        **more,
    }


def web_episode(actions: Sequence[Mapping[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "annotation_id": "e1",
        "website": "site",
        "domain": "d",
        "subdomain": "s",
        "confirmed_task": "Do it",
        "action_reprs": ["[a]  x -> CLICK"] * len(actions),
        "actions": list(actions),
        **changes,
    }


def demo(*events: Mapping[str, Any], doms: Sequence[Any] = (), **changes: Any) -> dict[str, Any]:
    """A made-up MiniWoB demonstration; `doms` are the trees of the states from 0 on (the last one repeats)."""
    trees = list(doms) or [box("BODY", 0, 0, 500, 210, box("BUTTON", 10, 20, 40, 20, text="ok"))]
    actions = [None, *({"timing": 1, **event} for event in events)]
    states = [
        {"time": place, "action": action, "dom": trees[min(place, len(trees) - 1)]}
        for place, action in enumerate(actions)
    ]
    return {"utterance": "Do it", "reward": 1, "rawReward": 1, "states": states, **changes}


def box(tag: str, left: float, top: float, width: float, height: float, *children: Any, **more: Any) -> dict[str, Any]:
    """A DOM node."""
    return {"tag": tag, "left": left, "top": top, "width": width, "height": height, "children": list(children), **more}


def press(x: float, y: float, up: tuple[float, float] | None = None) -> list[dict[str, Any]]:
    """mousedown, mouseup and, at one place, click."""
    end = up or (x, y)
    events = [{"type": "mousedown", "x": x, "y": y}, {"type": "mouseup", "x": end[0], "y": end[1]}]
    return events if up else [*events, {"type": "click", "x": x, "y": y}]


def key(code: int, char: int = 0) -> list[dict[str, Any]]:
    """keydown, keypress if it writes a character, keyup."""
    down, up = ({"type": kind, "keyCode": code, "charCode": 0} for kind in ("keydown", "keyup"))
    return [down, *([{"type": "keypress", "keyCode": char, "charCode": char}] if char else []), up]
