"""The plain way: `datasets.map` over the same native files, giving the same full step rows.

What a competent user writes: one function from a native row to a step row, plain Python, no waste; the same with
`batched=True` over lists; episodes of nested files by a function that gives several rows for one. What a row can't know
(outcome and app of its episode) is looked up in dicts that Arrow's group_by makes beforehand.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

UNITS = 1000
PLAIN = {5: "PressBack", 6: "PressHome", 7: "PressEnter"}
NATIVE = (
    "android_api_level",
    "current_activity",
    "device_type",
    "results/action_type",
    "results/type_action",
    "results/yx_lift",
    "results/yx_touch",
    "step_id",
)
ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def dumps(value: Any) -> str:
    """Canonical JSON, as the standard library writes it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def unit(value: float) -> int:
    """0..1 → 0..1000."""
    return min(max(math.floor(value * 1000.0 + 0.5), 0), UNITS)


def action(code: int, touch: list[float], lift: list[float], text: str) -> tuple[str, str, list[str], Any]:
    """(action type, action text, rules, click point)."""
    if code == 4:
        x, y = unit(touch[1]), unit(touch[0])
        if math.dist(touch, lift) <= 0.04:
            return "Click", f"Click(box=({x},{y}))", ["click_at_touch_point"], (x, y)
        x2, y2 = unit(lift[1]), unit(lift[0])
        dx, dy = x2 - x, y2 - y
        way = ("down" if dy < 0 else "up") if abs(dy) >= abs(dx) else ("right" if dx < 0 else "left")
        return "Scroll", f"Scroll(start=({x},{y}), end=({x2},{y2}), direction='{way}')", ["direction_from_points"], None
    if code == 3:
        return "Type", f"Type(content='{text.translate(ESCAPES)}')", [], None
    if code in (10, 11):
        return "Finished", "Finished(content='')", ["status_impossible"] if code == 11 else [], None
    return PLAIN[code], f"{PLAIN[code]}()", [], None


def smallest(flat: list[float], point: tuple[int, int]) -> list[float] | None:
    """The smallest box of (y, x, h, w) quadruples that holds a point."""
    best, best_area = None, math.inf
    for at in range(0, len(flat), 4):
        y, x, height, width = flat[at : at + 4]
        left, top, right, bottom = x * 1000.0, y * 1000.0, (x + width) * 1000.0, (y + height) * 1000.0
        if right < 0 or bottom < 0 or left > UNITS or top > UNITS:
            continue
        left, top, right, bottom = (min(max(side, 0.0), 1000.0) for side in (left, top, right, bottom))
        area = (right - left) * (bottom - top)
        if (
            left < right
            and top < bottom
            and left <= point[0] <= right
            and top <= point[1] <= bottom
            and area < best_area
        ):
            best, best_area = [left, top, right, bottom], area
    return best


def flat_row(
    row: dict[str, Any], index: int, file: str, outcome: dict[str, Any], app: dict[str, Any]
) -> dict[str, Any]:
    """A native row of the flat source → a step row."""
    name = row["episode_id"]
    kind, text, rules, point = action(
        row["results/action_type"], row["results/yx_touch"], row["results/yx_lift"], row["results/type_action"]
    )
    provenance: dict[str, Any] = {
        "file": file,
        "image_missing": "image_missing",
        "locator": f"row {index - row['step_id']}",
        "native_index": row["step_id"],
        "record": name,
    }
    if rules:
        provenance["rules"] = rules
    if row["results/action_type"] == 11:
        provenance["lossy"] = True
    return {
        "source": "aitw",
        "episode_id": name,
        "step_index": row["step_id"],
        "split": "train",
        "platform": "mobile",
        "language": "en",
        "app": app[name],
        "instruction": row["goal_info"],
        "step_instruction": None,
        "screenshot_sha256": None,
        "width_px": row["image/width"],
        "height_px": row["image/height"],
        "action_type": kind,
        "action_text": text,
        "target_box": smallest(row["image/ui_annotations_positions"], point) if point else None,
        "thought": None,
        "conclusion": None,
        "episode_outcome": outcome[name],
        "native_action": dumps({key: row[key] for key in NATIVE}),
        "provenance": dumps(provenance),
    }


def flat_batch(rows: dict[str, list[Any]], indices: list[int], **more: Any) -> dict[str, list[Any]]:
    """The same for a batch: lists in, lists out."""
    names = list(rows)
    made = [
        flat_row(dict(zip(names, values, strict=True)), index, **more)
        for index, values in zip(indices, zip(*rows.values(), strict=True), strict=True)
    ]
    return {key: [row[key] for row in made] for key in made[0]}


def _of_episodes(table: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(outcome, app) by episode."""
    import pyarrow.compute as pc

    grouped = (
        table.select(["episode_id", "results/action_type"])
        .group_by("episode_id")
        .aggregate([("results/action_type", "max")])
    )
    outcome = {
        name: {10: "success", 11: "infeasible"}.get(code)
        for code, name in zip(
            grouped["results/action_type_max"].to_pylist(), grouped["episode_id"].to_pylist(), strict=True
        )
    }
    package = pc.list_element(pc.split_pattern(table["current_activity"].cast("string"), "/", max_splits=1), 0)
    pairs = table.select(["episode_id"]).append_column("package", package)
    found = pairs.group_by("episode_id").aggregate([("package", "min"), ("package", "max")])
    columns = (found[name].to_pylist() for name in ("episode_id", "package_min", "package_max"))
    return outcome, {name: low if low == high else None for name, low, high in zip(*columns, strict=True)}


def flat(path: Path, out: Path, cache: Path, *, batched: bool) -> None:
    """A parquet file of native rows → a parquet file of step rows."""
    import datasets

    from schemas.tables import Steps

    native = datasets.Dataset.from_parquet(str(path), cache_dir=str(cache))
    outcome, app = _of_episodes(native.data.table)
    more = {"file": path.name, "outcome": outcome, "app": app}
    mapped = native.map(
        flat_batch if batched else flat_row,
        batched=batched,
        with_indices=True,
        fn_kwargs=more,
        remove_columns=native.column_names,
        features=datasets.Features.from_arrow_schema(Steps.schema),
        load_from_cache_file=False,
        cache_file_name=str(cache / "mapped.arrow"),
    )
    mapped.to_parquet(str(out))


def episode_rows(file: str, text: str) -> list[dict[str, Any]]:
    """A native episode file of the nested source → step rows."""
    steps = json.loads(text)
    codes = [step["result_action_type"] for step in steps]
    outcome = "infeasible" if 11 in codes else "success" if 10 in codes else None
    folder = os.path.dirname(file)
    made = []
    for step in steps:
        touch, lift = json.loads(step["result_touch_yx"]), json.loads(step["result_lift_yx"])
        kind, text, rules, _ = action(step["result_action_type"], touch, lift, step["result_action_text"])
        picture = os.path.join(folder, os.path.basename(step["image_path"]))
        assert not os.path.exists(picture), "the bench has no pictures: decoding would hide what is measured"
        provenance: dict[str, Any] = {
            "file": file.partition("/raw/")[2],
            "image_missing": "image_missing",
            "locator": "file",
            "native_index": step["step_id"],
            "record": step["episode_id"],
        }
        if rules:
            provenance["rules"] = rules
        if step["result_action_type"] == 11:
            provenance["lossy"] = True
        native = (
            "step_id",
            "result_action_type",
            "result_action_text",
            "result_touch_yx",
            "result_lift_yx",
            "coat_screen_desc",
            "image_path",
        )
        made.append(
            {
                "source": "aitz",
                "episode_id": step["episode_id"],
                "step_index": step["step_id"],
                "split": "train",
                "platform": "mobile",
                "language": "en",
                "app": None,
                "instruction": step["instruction"],
                "step_instruction": step["coat_action_desc"] or None,
                "screenshot_sha256": None,
                "width_px": None,
                "height_px": None,
                "action_type": kind,
                "action_text": text,
                "target_box": None,
                "thought": step["coat_action_think"] or None,
                "conclusion": step["coat_action_result"] or None,
                "episode_outcome": outcome,
                "native_action": dumps({key: step[key] for key in native}),
                "provenance": dumps(provenance),
            }
        )
    return made


def nested(folder: Path, out: Path, cache: Path) -> None:
    """JSON files, an episode each, → a parquet file of step rows: one episode a call, several rows out."""
    import datasets

    from schemas.tables import Steps

    paths = sorted(str(path) for path in folder.rglob("*.json"))

    def one(row: dict[str, list[str]]) -> dict[str, list[Any]]:
        [path] = row["path"]
        with open(path, encoding="utf-8") as stream:
            rows = episode_rows(path, stream.read())
        return {key: [row[key] for row in rows] for key in rows[0]}

    mapped = datasets.Dataset.from_dict({"path": paths}).map(
        one,
        batched=True,
        batch_size=1,
        remove_columns=["path"],
        load_from_cache_file=False,
        features=datasets.Features.from_arrow_schema(Steps.schema),
        cache_file_name=str(cache / "mapped.arrow"),
    )
    mapped.to_parquet(str(out))
