"""Small gold data made on the spot: real pictures, real elements, committed through the real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.derivers.derive import derive_samples
from pipelines.store import Check, Manifest, PartSpec, Store
from pipelines.store.images import encode_png
from schemas.actions import Click, Finished, Scroll, Type, format
from schemas.tables import Samples, Screens, Steps

CLICK = Click((250, 140))
NAMES = ["Sign in", "Search", "Cart", "Help", "Settings", "Profile", "Log out", "Orders", "Filters", "Home"]


def picture(seed: int, width_px: int = 96, height_px: int = 64) -> bytes:
    """PNG bytes of a picture that differs by seed."""
    pixels = np.full((height_px, width_px, 3), 255, np.uint8)
    rng = np.random.default_rng(seed)
    for _ in range(6):
        x, y = int(rng.integers(0, width_px - 12)), int(rng.integers(0, height_px - 8))
        pixels[y : y + 8, x : x + 12] = rng.integers(0, 255, 3)
    return encode_png(pixels)


def elements(seed: int, count: int = 5) -> list[dict[str, Any]]:
    """Elements in a column, none overlapping, names from `NAMES` by seed."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(NAMES)[:count]
    return [
        {
            "box": [100.0, 100.0 + 150 * i, 400.0, 180.0 + 150 * i],
            "role": ("BUTTON", "LINK")[i % 2],
            "text": str(name),
            "name": str(name),
        }
        for i, name in enumerate(names)
    ]


def screen_row(store: Store, seed: int, source: str = "toy", *, count: int = 5) -> dict[str, Any]:
    """A screens row whose picture is in the store."""
    info = store.put_screen(picture(seed))
    return {
        "screenshot_sha256": info.sha256,
        "width_px": info.width_px,
        "height_px": info.height_px,
        "phash": info.phash,
        "elements": elements(seed, count),
        "source": source,
    }


def step_row(episode: str, index: int, sha: str | None, action: Any = CLICK, **more: Any) -> dict[str, Any]:
    """A steps row; anything may be overridden."""
    return {
        "source": "toy",
        "episode_id": episode,
        "step_index": index,
        "split": "train",
        "platform": "web",
        "instruction": f"open the cart of {episode}",
        "screenshot_sha256": sha,
        "width_px": 96,
        "height_px": 64,
        "action_type": type(action).__name__ if action else None,
        "action_text": format(action) if action else None,
        "episode_outcome": "success",
        "native_action": "{}",
        "provenance": "{}",
        **more,
    }


def episodes(
    store: Store,
    source: str,
    count: int,
    *,
    seed: int = 0,
    length: int = 3,
    instructions: list[str] | None = None,
    platforms: tuple[str, ...] = ("web", "mobile"),
) -> tuple[pa.Table, pa.Table]:
    """(steps, screens) of `count` episodes on own pictures, on the platforms in turn; every fifth episode is a test
    one."""
    steps, screens = [], []
    for number in range(count):
        split = "test" if number % 5 == 4 else "train"
        platform = platforms[number % len(platforms)]
        for index in range(length):
            shown = screen_row(store, seed * 100_000 + number * 100 + index, source)
            screens.append(shown)
            last = index == length - 1
            action = Finished() if last else (Click((250, 140)), Type("red shoes"), Scroll(direction="down"))[index % 3]
            first = shown["elements"][0]
            steps.append(
                step_row(
                    f"e{number:04d}",
                    index,
                    shown["screenshot_sha256"],
                    action,
                    source=source,
                    split=split,
                    platform=platform,
                    instruction=instructions[number]
                    if instructions
                    else f"task {number} of {source}: open page {number}",
                    step_instruction=f"Click on the {first['name']} button" if index == 0 else None,
                    target_box=first["box"] if index == 0 else None,
                )
            )
    return Steps.table(steps), Screens.table(screens)


def commit_gold(
    store: Store, source: str, steps: pa.Table, samples: pa.Table, *, screens: pa.Table | None = None, parts: int = 1
) -> Manifest:
    """Commit `gold/<source>` (and `unified/<source>` if screens are given) in `parts` parts by episode."""
    if screens is not None:
        _commit(store, f"unified/{source}", {"steps": steps, "screens": screens, "samples": samples}, 1)
    return _commit(store, f"gold/{source}", {"steps": steps, "samples": samples}, parts)


def _commit(store: Store, asset: str, tables: dict[str, pa.Table], parts: int, **counts: Any) -> Manifest:
    specs = [PartSpec(f"{n:04d}", f"{n}/{parts}/{[_fingerprint(t) for t in tables.values()]}") for n in range(parts)]
    with store.build(asset, code_version="1", parts=specs) as build:
        for number, spec in enumerate(specs):
            mine = {name: pa.array(range(number, table.num_rows, parts), pa.int64()) for name, table in tables.items()}
            cut = {name: table.take(mine[name]) for name, table in tables.items()}
            build.run_part(spec, lambda out, cut=cut: [out.table(name, table) for name, table in cut.items()] and {})
        return build.commit(counts=counts, checks=[Check("made", True, "yes", "yes")])


def _fingerprint(table: pa.Table) -> str:
    import hashlib

    return hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()[:16]


def gold(home: Path | Store, source: str = "toy", count: int = 10, **more: Any) -> Store:
    """A store with one gold source of derived samples."""
    store = home if isinstance(home, Store) else Store(home)
    parts = more.pop("parts", 1)
    steps, screens = episodes(store, source, count, **more)
    samples = derive_samples(steps, screens, licence="CC0-1.0", synthetic=True)
    Samples.check(samples)
    commit_gold(store, source, steps, samples, screens=screens, parts=parts)
    return store
