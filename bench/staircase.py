"""The staircase's long form: seeds one after the other, then all of them as one report.

    python bench/staircase.py --out DIR --base CHECKPOINT                      # web with three seeds, phone with one
    python bench/staircase.py --out DIR --platform web --seeds 0,1,2 --base …

Nano on two cores, at most 100 minutes a seed beside the tasks and episodes that all seeds share. It is resumable: call
it again after a stop, and it goes on; each seed leaves its report beside the others before the next begins. The short
form of the same path is `python -m trainer.proving.staircase.run run --short`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT_SEEDS = {"web": (0, 1, 2), "mobile": (0,)}
MOST_MINUTES = 100


def run(out: Path, platform: str, seeds: tuple[int, ...], base: str) -> Path:
    """All seeds of a platform, then their joint report; → its folder."""
    from trainer.proving.staircase.config import long_form
    from trainer.proving.staircase.report import combine
    from trainer.proving.staircase.run import prepare, run_staircase, seed_folder
    from trainer.proving.staircase.stopwatch import Stopwatch

    prepare(out, long_form(platform, seeds[0], base), progress)
    folders = []
    for seed in seeds:
        config = long_form(platform, seed, base)
        folder = seed_folder(out, config)
        folders.append(folder)
        if (folder / "report.json").is_file():
            print(f"{folder.name}: finished already", flush=True)
            continue
        watch = Stopwatch(folder / "clock.json")

        def event(told: Mapping[str, Any], watch: Stopwatch = watch) -> None:
            watch.tick()
            progress(told)

        run_staircase(out, config, event)
        watch.write()
        minutes = watch.seconds / 60
        verdict = "within" if minutes <= MOST_MINUTES else "MORE THAN"
        print(f"{folder.name}: {minutes:.1f} minutes, {verdict} the {MOST_MINUTES} of a seed", flush=True)
    combine(folders, out / platform)
    return out / platform


def progress(event: Mapping[str, Any]) -> None:
    """A line an event that people wait for."""
    if event.get("kind") in ("measured", "part", "stage", "stage_done", "pass", "look", "evaluated"):
        told = {key: value for key, value in event.items() if isinstance(value, int | float | str)}
        print(time.strftime("%H:%M:%S"), json.dumps(told), flush=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of all seeds and reports")
    parser.add_argument("--base", default="", help="checkpoint folder to begin from (random weights without one)")
    parser.add_argument("--platform", choices=sorted(DEFAULT_SEEDS), help="one platform alone")
    parser.add_argument("--seeds", help="training seeds, as 0,1,2")
    given = parser.parse_args()
    try:
        listed = given.seeds.split(",") if given.seeds else []
        if not all(seed.strip().isdigit() for seed in listed):
            raise ValueError(f"--seeds: expected whole numbers as 0,1,2, found {given.seeds!r:.60}")
        chosen = tuple(map(int, listed))
        for platform in [given.platform] if given.platform else sorted(DEFAULT_SEEDS, reverse=True):
            print(run(given.out, platform, chosen or DEFAULT_SEEDS[platform], given.base) / "report.md", flush=True)
    except (ValueError, RuntimeError) as error:
        print(f"staircase: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
