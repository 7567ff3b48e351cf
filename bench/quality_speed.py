"""How fast are judge, refine and shards on one core? python bench/quality_speed.py CHECKOUT [OTHER] [--items N]

The embedded AITZ data (drawn phone screens with planted defects), repeated under new ids with a picture of its own for
each step, is unified once by the first checkout. Then each checkout judges it by the rules, refines it and packs its
shards, each in a process of its own that keeps to one core. Printed for each stage: items per second of CPU, seconds
that passed, the peak of the process's memory, and a digest of all rows it wrote (without what names the code); the
last line says whether the checkouts agree on them. Exit code 1 if they don't.
"""

import argparse
import hashlib
import inspect
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # behind the checkout that is measured, which PYTHONPATH names
SOURCE = "aitz"
ITEMS = 8_700
STAGES = {"judge": f"verdicts/{SOURCE}", "refine": f"gold/{SOURCE}", "shards": "mid_training/shards"}
ID_STEP = 10**9
"""Between the ids of two copies of an episode: larger than the range of one copy's."""


def make_raw(folder: Path, items: int) -> None:
    """Native AITZ files of at least `items` steps in `folder`: the embedded demo data, copied under other ids; each
    copy's pictures differ from all others in one corner, the same in the whole copy, so that no step looks different
    to a judge. What is there is taken as it is."""
    from generators.proving.embedded.build import make
    from generators.proving.embedded.defects import DefectRates
    from generators.proving.embedded.makers import RawConfig

    if folder.is_dir():
        return
    making = folder.with_name(f"{folder.name}.making")
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name), RawConfig(SOURCE, "demo", 0, DefectRates()))
        copies = -(-items // int(made.counts["steps"]))
        for copy in range(copies):
            for path in sorted(Path(name).rglob("*.json")):
                _copy_episode(path, Path(name), making, copy)
    making.rename(folder)


def _copy_episode(path: Path, root: Path, target: Path, copy: int) -> None:
    """An episode's JSON and pictures under the id of a copy, which replaces the old one wherever it stands."""
    subset, _, uid = path.stem.rpartition("-")
    new = str(int(uid) + copy * ID_STEP)
    place = target / path.parent.relative_to(root).parent / f"{subset}-{new}"
    place.mkdir(parents=True)
    (place / f"{subset}-{new}.json").write_text(path.read_text().replace(uid, new))
    for picture in path.parent.glob("*.png"):
        (place / picture.name.replace(uid, new)).write_bytes(_numbered(picture.read_bytes(), copy))


def _numbered(data: bytes, copy: int) -> bytes:
    """A PNG whose last pixel holds a number below 65,536."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    image.putpixel((image.width - 1, image.height - 1), (copy & 255, copy >> 8, 255))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def unify(raw: Path, home: Path) -> None:
    """The raw files → `unified/aitz` in a store."""
    from pipelines.mapping.adapter import Raw
    from pipelines.store import Store
    from pipelines.unify.unify import unify_source

    unify_source(Store(home), SOURCE, Raw(raw))


def stage_function(home: Path, stage: str) -> Callable[[], int]:
    """What runs a stage over a store and returns how many items it worked on; all it needs is imported."""
    from pipelines.store import Store
    from pipelines.training_data.shards import build_shards
    from quality.judges.registry import JudgeConfig
    from quality.judges.rules import RulesJudge
    from quality.judges.verdicts import judge_source
    from quality.refinement.gold import build_gold
    from quality.refinement.rewrite import ProofRewriter

    store, judge = Store(home), RulesJudge()
    # By an engine, as the graph does; checkouts from before there were any take none.
    by_engine = "config" in inspect.signature(judge_source).parameters
    judged: dict[str, Any] = {"config": JudgeConfig()} if by_engine else {}
    refined: dict[str, Any] = {"judge_config": JudgeConfig()} if by_engine else {}
    functions: dict[str, Callable[[], Any]] = {
        "judge": lambda: judge_source(store, SOURCE, judge, **judged).counts["items"],
        "refine": lambda: build_gold(store, SOURCE, judge, ProofRewriter(), **refined).counts["items"],
        "shards": lambda: build_shards(store, [SOURCE]).counts["packed"],
    }
    return functions[stage]


def measure(home: Path, stage: str) -> dict[str, Any]:
    """Run a stage in this process, kept to one core: items, CPU and wall seconds, MB at the peak (Linux)."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    run = stage_function(home, stage)
    began, worked = time.perf_counter(), _cpu()
    items = run()
    spent = {"cpu_s": _cpu() - worked, "wall_s": time.perf_counter() - began}
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return {"items": items, **spent, "peak_mb": int(peak.split()[1]) * 1024 / 1e6}


def _cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def rows_digest(home: Path, asset: str) -> str:
    """One digest of the rows of all tables of an asset's current version, without what names the code."""
    from bench.compare_checkouts import digest

    folder = home / "assets" / asset
    version = json.loads((folder / "current.json").read_text())["version"]
    entries = json.loads((folder / version / "manifest.json").read_text())["files"]
    found = sorted((entry["table"], digest(folder / entry["path"])) for entry in entries)
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def child(checkout: Path, *words: str) -> str:
    """Run this file on the code of a checkout; what it printed."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(Path(__file__).resolve()), *words]
    done = subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def own_home(base: Path, home: Path) -> Path:
    """A store of its own for a checkout: pictures, `unified` and the small grey pictures that it left are those of
    `base`, nothing else is in it."""
    shutil.rmtree(home, ignore_errors=True)
    for name in ("screens", "assets/unified", "cache/greys"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        # Checkouts from before there were any make none.
        if (base / name).exists():
            (home / name).symlink_to(base / name)
    return home


def compare(checkouts: Sequence[Path], data: Path, items: int) -> bool:
    """Measure all stages of each checkout, print them; whether all wrote the same rows."""
    raw, base = data / f"raw-{items}", data / f"home-{items}"
    if not (base / "assets").is_dir():
        child(checkouts[0], "--make", str(raw), str(base), "--items", str(items))
    print(f"{'':44} {'items':>8} {'items/s of CPU':>15} {'s':>8} {'peak MB':>8}  rows")
    found = []
    for number, checkout in enumerate(checkouts):
        home = own_home(base, data / f"measured-{number}")
        for stage, asset in STAGES.items():
            one = json.loads(child(checkout, "--measure", str(home), stage).splitlines()[-1])
            rows = rows_digest(home, asset)
            speed = one["items"] / one["cpu_s"]
            name = f"{stage}, {checkout}"[-44:]
            print(f"{name:44} {one['items']:>8,} {speed:>15,.0f} {one['wall_s']:>8.1f} {one['peak_mb']:>8,.0f}  {rows}")
            found.append((stage, one["items"], rows))
    return len(set(found)) == len(STAGES)


def main() -> int:
    """Compare, or do in a process of its own what `compare` asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkouts", type=Path, nargs="*", help="checkouts to measure; the first makes the data")
    parser.add_argument("--items", type=int, default=ITEMS, help=f"steps at least ({ITEMS})")
    parser.add_argument("--data", type=Path, help="where data stays for the next run (a temporary folder)")
    parser.add_argument("--measure", nargs=2, metavar=("HOME", "STAGE"), help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, nargs=2, metavar=("RAW", "HOME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make_raw(options.make[0], options.items)
        unify(*options.make)
        return 0
    if options.measure:
        print(json.dumps(measure(Path(options.measure[0]), options.measure[1])))
        return 0
    checkouts = [path.resolve() for path in options.checkouts or [ROOT]]
    with tempfile.TemporaryDirectory(prefix="quality-speed-") as name:
        same = compare(checkouts, (options.data or Path(name)).resolve(), options.items)
    print("the same rows" if same else "rows differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
