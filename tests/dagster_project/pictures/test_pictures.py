"""What a checkpoint's page shows of how it was trained."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from dagster_project.pictures import asset_pictures
from pipelines.store import PartSpec, Store

OFFLINE = {
    "curve": [{"update": n, "reward": 0.8 + 0.01 * n} for n in range(1, 41)],
    "looks": [
        {"update": n, "reward": 0.9 + 0.01 * n, "step_success": 0.3 + 0.01 * n, "trace_success": trace}
        for n, trace in ((0, None), (10, 0.15), (20, 0.25), (30, 0.2), (40, 0.15))
    ],
}
ONLINE = {
    "curve": [{"update": n, "reward": 0.1 * n - 0.1, "success": 0.1 * n} for n in range(1, 5)],
    "validation": [{"update": 0, "success": 0.0}, {"update": 4, "success": None}],
}


def committed(home: Path, name: str, found: dict[str, Any]) -> tuple[Any, Store]:
    """A checkpoint of nothing but the file that tells its training."""
    store, spec = Store(home), PartSpec("checkpoint", name)

    def write(out: Any) -> dict[str, Any]:
        out.path(f"model/{name}").write_text(json.dumps(found), encoding="utf-8")
        return {}

    with store.build("checkpoints/some", code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        build.commit(counts={}, checks=[])
    return store.require("checkpoints/some"), store


def test_a_mean_without_an_interval_is_drawn() -> None:
    sure = {"mean": 0.5, "low": 0.4, "high": 0.6}
    few = {"mean": 0.25, "low": None, "high": None, "estimable": "too few clusters"}
    [shown] = asset_pictures._intervals("t", [("a", sure), ("b", few), ("c", {"mean": None})], ("a",)).values()
    with Image.open(io.BytesIO(base64.b64decode(shown.partition("base64,")[2].rstrip(")")))) as image:
        assert image.width > 500


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        (
            "rl.json",
            OFFLINE,
            {
                "success": {
                    "step success": [(0, 30.0), (10, 40.0), (20, 50.0), (30, 60.0), (40, 70.0)],
                    "trace success": [(10, 15.0), (20, 25.0), (30, 20.0), (40, 15.0)],
                },
                "reward": {
                    "validation": [(n, 0.9 + 0.01 * n) for n in range(0, 41, 10)],
                    "sampled in training": [(n, 0.8 + 0.01 * n) for n in range(1, 41)],
                },
            },
        ),
        (
            "online_rl.json",
            ONLINE,
            {
                "success": {
                    "sampled in training": [(1, 10.0), (2, 20.0), (3, 30.0), (4, 40.0)],
                    "validation": [(0, 0.0)],
                },
                "reward": {"sampled in training": [(1, 0.0), (2, 0.1), (3, 0.2), (4, 0.3)]},
            },
        ),
    ],
)
def test_success_is_drawn_beside_the_reward(
    name: str, found: dict[str, Any], expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}
    lines = asset_pictures._lines

    def recorded(chart: str, title: str, series: Any) -> dict[str, str]:
        drawn[chart] = {label: [(x, pytest.approx(y)) for x, y in points] for label, points in series.items()}
        return lines(chart, title, series)

    monkeypatch.setattr(asset_pictures, "_lines", recorded)
    shown = asset_pictures.of(*committed(tmp_path, name, found))
    assert drawn == expected and list(shown) == ["success", "reward"]
    for text in shown.values():
        data = base64.b64decode(text.partition("base64,")[2].rstrip(")"))
        with Image.open(io.BytesIO(data)) as image:
            assert image.width > 500 and len(data) < 50_000
