"""What people wait for in the UI, with every source in the graph: python bench/ui.py [--json FILE] [--pictures FOLDER]

Seconds until the definitions are loaded in a process of their own; until the lineage of all groups, and that of all
assets, is drawn in a Chromium with an empty cache; and from the click on Materialize to the end of the run of one
source on embedded data. `--pictures` keeps the lineage view. Take the figures on a quiet machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import yaml  # noqa: E402
from dagster_dev import graphql, page_of, running  # noqa: E402

from dagster_project.settings import deployment  # noqa: E402
from dagster_project.stages import graph  # noqa: E402
from pipelines import sources as adapters  # noqa: E402

SOURCE = "aitw"
LOAD = "from dagster_project.definitions import defs; defs().get_repository_def()"
LIMITS = {
    "definitions loaded": 3.0,
    "lineage of all groups drawn": 5.0,
    "lineage of all assets drawn": 5.0,
    "one source materialised from the UI": 15.0,
}
"""Seconds that nobody should wait longer than."""
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
ROUNDS = 3


def every_source(folder: Path) -> dict[str, str]:
    """The environment of a deployment with every source that there is in the graph."""
    path = folder / "deployment.yaml"
    plain = yaml.safe_load(deployment.FILE.read_text(encoding="utf-8"))
    plain["sources"] = {name: {"enabled": True} for name in adapters.registry()}
    plain["embedded"] = {"enabled": True, "size": "tiny"}
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return {"VESPER_DEPLOYMENT": str(path)}


def definitions_s(environment: dict[str, str]) -> float:
    """Seconds of the fastest of some loads, interpreter and all."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", LOAD], cwd=ROOT, env=_with_bytecode(environment), check=True)
        times.append(time.perf_counter() - began)
    return min(times)


def _with_bytecode(environment: dict[str, str]) -> dict[str, str]:
    """As people have it: a compiled module is kept, whatever this shell says."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}, **environment}


def lineage_s(url: str, groups: set[str], pictures: Path | None) -> Iterator[tuple[str, float]]:
    """Of the groups, then of all assets after a press of the key that opens them: laid out are all, drawn those that
    fit on the screen."""
    with page_of(url, 1800, 1000) as page:
        began = time.perf_counter()
        page.goto(f"{url}/asset-groups")
        page.wait_for_function(
            "names => { const shown = new Set(document.body.innerText.split('\\n'));"
            " return names.every(name => shown.has(name)); }",
            arg=sorted(groups),
            timeout=60_000,
        )
        yield "lineage of all groups drawn", time.perf_counter() - began
        if pictures:
            page.wait_for_timeout(1500)
            page.screenshot(path=pictures / "lineage.png")
        boxes = "document.querySelectorAll('foreignObject').length"
        before, began = page.evaluate(boxes), time.perf_counter()
        page.keyboard.press("Alt+KeyE")
        page.wait_for_function(f"count => {boxes} > count", arg=before, timeout=60_000)
        yield "lineage of all assets drawn", time.perf_counter() - began
        if pictures:
            page.wait_for_timeout(1500)
            page.screenshot(path=pictures / "lineage_all.png")


def materialised_s(url: str) -> float:
    """From the click to the end of the run."""
    with page_of(url) as page:
        page.goto(f"{url}/assets/unified/{SOURCE}?view=lineage&lineageScope=upstream")
        button = page.get_by_role("button", name="Materialize all")
        button.wait_for(timeout=60_000)
        began = time.perf_counter()
        button.click()
        query = "{ runsOrError { ... on Runs { results { status assetSelection { path } } } } }"
        while True:
            page.wait_for_timeout(200)
            runs: list[dict[str, Any]] = graphql(page, query)["runsOrError"]["results"]
            ours = [run for run in runs if {"path": ["unified", SOURCE]} in (run["assetSelection"] or [])]
            if ours and ours[0]["status"] in ENDED:
                break
            if time.perf_counter() - began > 300:
                raise RuntimeError(f"the run of unified/{SOURCE} doesn't end: {ours}")
        spent = time.perf_counter() - began
        if ours[0]["status"] != "SUCCESS":
            raise RuntimeError(f"the run of unified/{SOURCE} ended as {ours[0]['status']}; see server.log")
        return spent


def main() -> int:
    """Take all figures; 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0], epilog="example: python bench/ui.py")
    parser.add_argument("--json", type=Path, help="where the figures go too")
    parser.add_argument("--pictures", type=Path, help="folder for the lineage view")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vesper-ui-") as name:
        folder = Path(name)
        environment = every_source(folder)
        stages = graph.stages(deployment.load(folder / "deployment.yaml"))
        groups = {stage.group for stage in stages.values()}
        figures = {"definitions loaded": definitions_s(environment)}
        with running(folder, environment) as url:
            figures |= dict(lineage_s(url, groups, options.pictures))
            figures["one source materialised from the UI"] = materialised_s(url)
    print(f"{len(stages)} assets in {len(groups)} groups")
    for what, seconds in figures.items():
        print(f"{what:40} {seconds:6.1f} s of {LIMITS[what]:.0f} s")
    if options.json:
        measured = {"assets": len(stages), "groups": len(groups), **{k: round(v, 2) for k, v in figures.items()}}
        options.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return int(any(seconds > LIMITS[what] for what, seconds in figures.items()))


if __name__ == "__main__":
    sys.exit(main())
