"""Native files of the size that a bench needs: AITW as a parquet re-pack (flat), AITZ as JSON files (nested)."""

import json
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 8
"""Steps of an episode."""
ELEMENTS = 20
"""Annotated elements of a screen; the real sample has 11, 21 and 29."""
GOALS = 2_000
_KINDS = np.array(["TEXT", "TEXT", "TEXT", "ICON_PLAY", "ICON_HOME"])
_WORDS = np.array(["OK", "Cancel", "Search", "", "12:30", "Settings", "Battery", "Open", "Share", "Edit"])
_APPS = np.array(
    ["com.android.chrome/com.google.android.apps.chrome.Main", "com.google.android.apps.nexuslauncher/.Nex"]
)


def goals(first: int, count: int) -> np.ndarray:
    """Distinct instructions."""
    return np.array(
        [f"Open app number {n}, look for the settings and switch on dark mode" for n in range(first, first + count)]
    )


def flat(path: Path, rows: int, seed: int = 0, *, of: np.ndarray | None = None, group_rows: int = 65_536) -> int:
    """`rows` sound steps of AITW in a parquet file; returns their number. `of` are the goals to draw from."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    left, writer = rows // STEPS * STEPS, None
    made = left
    while left:
        table = _table(
            min(left, group_rows), np.random.default_rng([seed, left]), goals(0, GOALS) if of is None else of
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        left -= table.num_rows
    assert writer is not None
    writer.close()
    return made


def _table(rows: int, rng: np.random.Generator, of: np.ndarray) -> Any:
    import pyarrow as pa

    episodes, many = rows // STEPS, rows * ELEMENTS
    codes = rng.choice([4, 4, 4, 4, 4, 3, 5, 6, 7], rows)
    last = np.arange(STEPS - 1, rows, STEPS)
    codes[last] = rng.choice([10, 10, 10, 11], episodes)
    touch = rng.random((rows, 2), np.float32)
    swipe = rng.random(rows) < 0.3
    lift = np.where(swipe[:, None], rng.random((rows, 2), np.float32), touch)
    touch[codes != 4] = lift[codes != 4] = -1
    typed = np.where(codes == 3, np.char.add("query ", rng.integers(0, 5000, rows).astype(str)), "")
    # (y, x, h, w) in whole pixels of a 540 x 1080 screen, as OCR gives them, divided by its size
    pixels = [rng.integers(0, size, many) / side for size, side in ((970, 1080), (480, 540), (110, 1080), (60, 540))]
    boxes = np.stack(pixels, axis=1)

    def lists(values: Any, size: int) -> Any:
        flat_values = pa.array(values)
        chunk = flat_values.combine_chunks() if isinstance(flat_values, pa.ChunkedArray) else flat_values
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * size, pa.int32()), chunk)

    return pa.table(
        {
            "episode_id": np.repeat(rng.integers(10**18, 9 * 10**18, episodes).astype(str), STEPS),
            "step_id": np.tile(np.arange(STEPS), episodes),
            "episode_length": np.full(rows, STEPS),
            "goal_info": np.repeat(of[rng.integers(0, len(of), episodes)], STEPS),
            "android_api_level": np.full(rows, 31),
            "current_activity": _APPS[rng.integers(0, 2, rows)],
            "device_type": np.repeat(np.array(["PIXEL_3", "PIXEL_4", "pixel_5"])[rng.integers(0, 3, episodes)], STEPS),
            "image/height": np.full(rows, 1080),
            "image/width": np.full(rows, 540),
            "image/channels": np.full(rows, 3),
            "image/ui_annotations_positions": lists(boxes.astype(np.float32).ravel(), 4 * ELEMENTS),
            "image/ui_annotations_text": lists(_WORDS[rng.integers(0, len(_WORDS), many)], ELEMENTS),
            "image/ui_annotations_ui_types": lists(_KINDS[rng.integers(0, len(_KINDS), many)], ELEMENTS),
            "results/action_type": codes,
            "results/type_action": typed,
            "results/yx_touch": lists(touch.ravel(), 2),
            "results/yx_lift": lists(lift.ravel(), 2),
        }
    )


def nested(folder: Path, episodes: int, seed: int = 0) -> int:
    """AITZ: a JSON file an episode, without pictures; returns the number of steps."""
    rng = np.random.default_rng(seed)
    names = rng.choice(10**9, episodes, replace=False)
    for name in names.tolist():
        stem = f"GENERAL-{name}"
        steps = [_step(rng, str(name), stem, number) for number in range(STEPS)]
        path = folder / "train" / "general" / stem / f"{stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(steps, indent=1, ensure_ascii=False), encoding="utf-8")
    return episodes * STEPS


def _step(rng: np.random.Generator, name: str, stem: str, number: int) -> dict[str, Any]:
    code = int(rng.choice([4, 4, 4, 3, 5, 6])) if number < STEPS - 1 else 10
    touch = rng.random(2).round(6).tolist() if code == 4 else [-1.0, -1.0]
    lift = touch if rng.random() < 0.7 or code != 4 else rng.random(2).round(6).tolist()
    boxes = rng.integers(0, 200, (ELEMENTS, 4)).tolist()
    return {
        "episode_id": name,
        "episode_length": STEPS,
        "step_id": number,
        "instruction": f"Open app {name}, look for the settings and switch on dark mode",
        "ui_positions": json.dumps(boxes),
        "ui_text": json.dumps(["Settings"] * ELEMENTS),
        "ui_types": json.dumps(["TEXT"] * ELEMENTS),
        "result_action_type": code,
        "result_action_text": "dark mode" if code == 3 else "",
        "result_touch_yx": json.dumps(touch),
        "result_lift_yx": json.dumps(lift),
        "image_path": f"general/{stem}/{stem}_{number}.png",
        "image_full_path": f"android-in-the-wild/aitw_with_gpt/train/general/{stem}/{stem}_{number}.png",
        "coat_screen_desc": "This is a screenshot of the home screen of a phone. It shows icons and a search bar.",
        "coat_action_think": "The settings are not in view, so the list of apps has to be opened by swiping up first.",
        "coat_action_desc": "scroll up",
        "coat_action_result": "By doing so, all apps will be shown on the screen.",
    }
