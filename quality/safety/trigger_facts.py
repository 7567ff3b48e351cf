"""What the trigger scan reads from tables, and how its first look is kept: screens, labels, patches."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.engines.cores import usable_cores
from pipelines.store.files import StoreError
from pipelines.store.images import ImageError
from quality.items.part import SourcePart
from quality.safety.trigger_patches import Patch
from quality.safety.trigger_scan import Facts, ScreenPatches, look
from quality.safety.triggers import Box
from schemas.actions import parse
from schemas.ids import item_sample, item_step

PATCH = pa.struct(
    [
        ("box", pa.list_(pa.int32())),
        ("grey", pa.binary()),
        ("tint", pa.list_(pa.float32())),
        ("texture", pa.float32()),
        ("edge", pa.int32()),
        ("quiet", pa.float32()),
    ]
)
"""`grey`: float16 of the box's height x width."""
LOOKED = pa.schema(
    [
        ("screenshot_sha256", pa.string()),
        ("width_px", pa.int32()),
        ("height_px", pa.int32()),
        ("patches", pa.list_(PATCH)),
        ("cells", pa.binary()),
    ]
)


def on_screen(part: SourcePart) -> dict[str, list[str]]:
    """Screen → ids of the steps and samples that show it."""
    found: dict[str, list[str]] = defaultdict(list)
    columns = ["source", "episode_id", "step_index", "screenshot_sha256"]
    for row in part.steps.select(columns).to_pylist():
        if row["screenshot_sha256"] is not None:
            found[row["screenshot_sha256"]].append(item_step(row["source"], row["episode_id"], row["step_index"]))
    for row in part.samples.select(["sample_id", "images"]).to_pylist():
        for sha in row["images"]:
            found[sha].append(item_sample(row["sample_id"]))
    return dict(found)


def facts_of(part: SourcePart) -> dict[str, Facts]:
    """Elements and labels of all screens of a part. Labels: points of actions (else the target box), and the targets of
    grounding samples."""
    targets: dict[str, list[Box]] = defaultdict(list)
    for row in part.steps.select(["screenshot_sha256", "action_text", "target_box"]).to_pylist():
        target = _target(row)
        if row["screenshot_sha256"] is not None and target is not None:
            targets[row["screenshot_sha256"]].append(target)
    for row in part.samples.select(["objective", "images", "target_boxes"]).to_pylist():
        if row["objective"] == "grounding" and row["images"]:
            targets[row["images"][0]] += [tuple(box) for box in row["target_boxes"]]
    screens = {*targets, *part.screens.column("screenshot_sha256").to_pylist()}
    return {
        sha: Facts(tuple(element.box for element in part.bank.elements(sha)), tuple(targets.get(sha, ())))
        for sha in screens
    }


def _target(row: Mapping[str, Any]) -> Box | None:
    action = parse(row["action_text"]) if row["action_text"] else None
    point = getattr(action, "box", None)
    if point is not None:
        return (point[0], point[1], point[0], point[1])
    box = row["target_box"]
    return tuple(box) if box is not None else None


def look_at(screens: Iterable[str], load: Callable[[str], bytes]) -> tuple[dict[str, ScreenPatches], int]:
    """First pass over screens by hash → (what was seen, how many couldn't be read). Screens are looked at on all
    processors: Pillow and SciPy let others run while they work."""

    def seen(sha: str) -> ScreenPatches | None:
        try:
            return look(load(sha))
        except (ImageError, StoreError):
            return None

    names = sorted(screens)
    with ThreadPoolExecutor(usable_cores()) as pool:
        looked = list(pool.map(seen, names))
    found = {name: one for name, one in zip(names, looked, strict=True) if one is not None}
    return found, len(names) - len(found)


def to_rows(looked: Mapping[str, ScreenPatches]) -> list[dict[str, object]]:
    """Rows of `LOOKED`."""
    return [
        {
            "screenshot_sha256": sha,
            "width_px": one.frame[0],
            "height_px": one.frame[1],
            "patches": [_plain(patch) for patch in one.patches],
            "cells": one.cells,
        }
        for sha, one in sorted(looked.items())
    ]


def _plain(patch: Patch) -> dict[str, Any]:
    return {
        "box": list(patch.box),
        "grey": patch.grey.astype(np.float16).tobytes(),
        "tint": list(patch.tint),
        "texture": patch.texture,
        "edge": patch.edge,
        "quiet": patch.quiet,
    }


def from_table(table: pa.Table) -> dict[str, ScreenPatches]:
    """The reverse of `to_rows`, up to the rounding of float16."""
    return {
        row["screenshot_sha256"]: ScreenPatches(
            (row["width_px"], row["height_px"]), tuple(map(_patch, row["patches"])), row["cells"]
        )
        for row in table.to_pylist()
    }


def _patch(row: Mapping[str, Any]) -> Patch:
    left, top, right, bottom = row["box"]
    grey = np.frombuffer(row["grey"], np.float16).astype(np.float32).reshape(bottom - top, right - left)
    red, green, blue = row["tint"]
    return Patch((left, top, right, bottom), grey, (red, green, blue), row["texture"], row["edge"], row["quiet"])
