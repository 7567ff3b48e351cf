"""What a training wrote of its progress, as series to draw: the charts of an asset's page and of the demo's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.store.manifest import Manifest

Point = tuple[float, float]


@dataclass(frozen=True)
class CurveChart:
    """One chart: label of a series → its (step or update, value)."""

    title: str
    series: Mapping[str, Sequence[Point]]


def curves_of(manifest: Manifest) -> dict[str, CurveChart]:
    """Name → chart of a checkpoint's training; empty for one that was not trained."""
    names = {entry.path.rpartition("/")[2] for entry in manifest.files}
    # One file each: how a checkpoint was trained tells which figures it has.
    if "curve.json" in names:
        return {
            "loss": CurveChart(
                "Loss by step", {"loss": _points(_json(manifest, "curve.json")["steps"], "loss", x="step")}
            )
        }
    if "rl.json" in names:
        metrics = _json(manifest, "rl.json")
        looks = metrics["looks"]
        success = {f"{word} success": _points(looks, f"{word}_success", 100) for word in ("step", "trace")}
        reward = {"sampled in training": _points(metrics["curve"], "reward"), "validation": _points(looks, "reward")}
        return {
            "success": CurveChart("Success on validation by update, %", success),
            "reward": CurveChart("Reward by update", reward),
        }
    if "online_rl.json" in names:
        found = _json(manifest, "online_rl.json")
        success = {
            "sampled in training": _points(found["curve"], "success", 100),
            "validation": _points(found["validation"], "success", 100),
        }
        reward = {"sampled in training": _points(found["curve"], "reward")}
        return {
            "success": CurveChart("Success of rollouts by update, %", success),
            "reward": CurveChart("Reward of rollouts by update", reward),
        }
    return {}


def _json(manifest: Manifest, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(manifest.file(name).read_text(encoding="utf-8"))
    return found


def _points(rows: Sequence[Mapping[str, Any]], name: str, scale: float = 1.0, x: str = "update") -> list[Point]:
    """A figure by step or update, in the rows that have it."""
    return [(row[x], scale * row[name]) for row in rows if row.get(name) is not None]
