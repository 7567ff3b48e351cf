"""Writes real, decoded records back into the native TFRecord forms of the Android sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.native import tf_example, tfrecord
from pipelines.native.accessibility import AccessibilityNode, Window, encode
from pipelines.store.images import encode_png

AITW_WORDS = {"dual-point gesture": 4, "type": 3, "go back": 5, "go home": 6, "enter": 7, "task complete": 10}


@cache
def gradient(width: int, height: int, seed: int = 0) -> np.ndarray:
    """A deterministic picture [height, width, 3] that compresses well: stands in for redacted pixels."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(x + seed) % 256, (y // 2 + 7 * seed) % 256, np.full_like(x, 40 + seed)], axis=2).astype(np.uint8)


@cache
def png(width: int, height: int, seed: int = 0) -> bytes:
    return encode_png(gradient(width, height, seed))


def aitw_features(step: Mapping[str, Any], **changes: Any) -> dict[str, list[Any]]:
    """A step as agent-data-protocol decoded it → Example features. Pixels are made up (they were redacted)."""
    height, width = step["image/height"], step["image/width"]
    features: dict[str, list[Any]] = {
        name: [value] for name, value in step.items() if isinstance(value, int | str) and name != "image/encoded"
    }
    features["results/action_type"] = [AITW_WORDS[step["results/action_type"]]]
    features["image/encoded"] = [gradient(width, height, step["step_id"]).tobytes()]
    features["image/ui_annotations_positions"] = [
        float(v) for box in step["image/ui_annotations_positions"] for v in box
    ]
    for name in ("image/ui_annotations_text", "image/ui_annotations_ui_types"):
        features[name] = list(step[name])
    for name in ("results/yx_touch", "results/yx_lift"):
        features[name] = [float(value) for value in step[name]]
    return without(features | changes)


def small_aitw(step_id: int = 0, length: int = 1, code: int = 6, **changes: Any) -> dict[str, list[Any]]:
    """A made-up AITW step of 20×40 px."""
    features: dict[str, list[Any]] = {
        "episode_id": ["77"],
        "step_id": [step_id],
        "episode_length": [length],
        "goal_info": ["Open the clock"],
        "android_api_level": [31],
        "current_activity": ["com.android.launcher/.Main"],
        "device_type": ["PIXEL_3"],
        "image/encoded": [gradient(20, 40, step_id).tobytes()],
        "image/height": [40],
        "image/width": [20],
        "image/channels": [3],
        "image/ui_annotations_positions": [0.1, 0.2, 0.1, 0.4],
        "image/ui_annotations_text": ["Clock"],
        "image/ui_annotations_ui_types": ["TEXT"],
        "results/action_type": [code],
        "results/type_action": [""],
        "results/yx_touch": [-1.0, -1.0],
        "results/yx_lift": [-1.0, -1.0],
    }
    return without(features | {name.replace("__", "/"): value for name, value in changes.items()})


def android_control_features(episode: Mapping[str, Any], **changes: Any) -> dict[str, list[Any]]:
    """An episode as agent-data-protocol decoded it → Example features; trees are encoded again if it has any."""
    sizes = list(zip(episode["screenshot_widths"], episode["screenshot_heights"], strict=True))
    features: dict[str, list[Any]] = {
        "episode_id": [episode["episode_id"]],
        "goal": [episode["goal"]],
        "screenshots": [png(*size, place) for place, size in enumerate(sizes)],
        "screenshot_widths": list(episode["screenshot_widths"]),
        "screenshot_heights": list(episode["screenshot_heights"]),
        "actions": [json.dumps(action, separators=(",", ":")) for action in episode["actions"]],
        "step_instructions": list(episode["step_instructions"]),
        "accessibility_trees": [forest(nodes) for nodes in episode.get("accessibility_trees", [])],
    }
    return without(features | changes)


def small_episode(actions: Sequence[Any], /, **changes: Any) -> dict[str, list[Any]]:
    """A made-up AndroidControl episode on 100×200 px screens; `actions` are dicts, or bytes taken as they are."""
    count = len(actions)
    features: dict[str, list[Any]] = {
        "episode_id": [7],
        "goal": ["Do it"],
        "screenshots": [png(100, 200, place) for place in range(count + 1)],
        "screenshot_widths": [100] * (count + 1),
        "screenshot_heights": [200] * (count + 1),
        "actions": [action if isinstance(action, bytes) else json.dumps(action) for action in actions],
        "step_instructions": [f"step {place}" for place in range(count)],
    }
    return without(features | changes)


def without(features: dict[str, Any]) -> dict[str, list[Any]]:
    """Leave out the features that were set to None."""
    return {name: value for name, value in features.items() if value is not None}


def forest(nodes: Sequence[Mapping[str, Any]]) -> bytes:
    """Decoded nodes → one window's forest proto."""
    return encode([Window(id=1, type=1, nodes=tuple(node(item, place) for place, item in enumerate(nodes)))])


def node(item: Mapping[str, Any], place: int) -> AccessibilityNode:
    box = item["bbox_pixels"]
    flags = {
        f"is_{name}": bool(item[f"is_{name}"])
        for name in (
            "enabled",
            "focused",
            "selected",
            "checked",
            "checkable",
            "clickable",
            "editable",
            "focusable",
            "long_clickable",
            "scrollable",
        )
    }
    return AccessibilityNode(
        unique_id=place,
        bounds=(box["x_min"], box["y_min"], box["x_max"], box["y_max"]),
        text=item["text"] or "",
        content_description=item["content_description"] or "",
        hint_text=item["hint_text"] or "",
        tooltip_text=item["tooltip"] or "",
        class_name=item["class_name"] or "",
        view_id_resource_name=item["resource_id"] or "",
        is_visible_to_user=item["is_visible"],
        **flags,
    )


def write_examples(path: Path, examples: Sequence[Mapping[str, Any] | bytes], *, compress: bool = True) -> Path:
    """Examples (or raw payloads) → a TFRecord file; parents are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    payloads = [item if isinstance(item, bytes) else tf_example.serialise(item) for item in examples]
    tfrecord.write(path, payloads, compress=compress)
    return path
