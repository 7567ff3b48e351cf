"""The whole demo on local files and on an S3-compatible store, asset by asset: python bench/same_graph.py [--size tiny]

`vesper demo` runs twice, each time from nothing: with a home on local files, and with one in front of a bucket of an S3
server on loopback. Online RL runs in step (`sync`), as its rollouts would else come in an order that no run repeats;
the staircase's can't, and is left out. Exit code 1 if an asset's data differ, or if one is missing on either side.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from s3_server import KEYS, s3_server  # noqa: E402

from pipelines.store import Store  # noqa: E402
from trainer.proving.staircase.stage import ASSET as STAIRCASE  # noqa: E402

TRAINER = {"online": {"mode": "sync"}}


def demo(home: Path, size: str, more: Mapping[str, str]) -> float:
    """Run the demo into a home; its seconds. Its output is `demo.log` beside the home."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VESPER_TRAINER": json.dumps(TRAINER), **more}
    environment.pop("DAGSTER_HOME", None)
    began = time.monotonic()
    with (home.parent / f"{home.name}.log").open("wb") as log:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "dagster_project.cli",
                "demo",
                "--size",
                size,
                "--home",
                str(home),
                "--report",
                str(home.parent / f"{home.name}.json"),
            ],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )
    if done.returncode:
        text = (home.parent / f"{home.name}.log").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"same_graph: the demo in {home.name} failed: {text[-2000:]}")
    return time.monotonic() - began


def data_versions(store: Store) -> dict[str, str]:
    """Data version of the current version of every asset."""
    assets = store.home / "assets"
    names = sorted(path.parent.relative_to(assets).as_posix() for path in assets.rglob("current.json"))
    return {name: store.require(name).data_version for name in names if name != STAIRCASE}


def main() -> int:
    """Both demos; a line of what they gave."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", choices=("tiny", "demo"), default="tiny", help="how much embedded data (tiny)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="same-graph-") as name, s3_server() as server:
        folder = Path(name)
        local_s = demo(folder / "local", options.size, {})
        url = f"s3://{server.bucket()}/vesper"
        there = {**KEYS, "AWS_ENDPOINT_URL": server.url, "VESPER_STORE_URL": url}
        there_s = demo(folder / "s3", options.size, there)
        os.environ.update(there)
        local, behind = data_versions(Store(folder / "local")), data_versions(Store(folder / "s3", url))
        asked = len(server.asked)
    other = sorted(key for key in local.keys() | behind.keys() if local.get(key) != behind.get(key))
    print(f"{len(local)} assets on local files in {local_s:.0f} s")
    print(f"{len(behind)} assets on S3 in {there_s:.0f} s, {asked} requests")
    for key in other:
        print(f"DIFFERS: {key}: {local.get(key)} on local files, {behind.get(key)} on S3")
    print(f"{len(other)} differ" if other else "all data are the same")
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
