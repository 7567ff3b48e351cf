"""How fast the corpus browser answers over a million samples: python bench/browser.py [--samples 1000000]

Makes a store in a temporary folder (parquet files of the real tables, by parts of 24,576 rows, with verdicts and
screens, no pictures), starts `vesper browse` on it, and times requests over HTTP as the page makes them: the median and
the 95th percentile of `--times` requests of each kind, on whatever cores this process may use (`taskset -c 0,1`), and
the CPU time that the server took for one, which is the figure to look at where other work runs beside it.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import psutil
import pyarrow as pa

from dagster_project.lineage.id_index import index_version
from pipelines.prompts import grounding_text, messages
from pipelines.store import Check, PartSpec, Store
from schemas.tables import Samples, Screens, Steps, Verdicts

PART_ROWS = 24_576
SOURCES = 12
NOUNS = "alarm album cart contact event filter inbox message orders profile search video"
PLACES = ["archive", "calendar", "gallery", "home", "menu", "settings"]
WORDS = [f"{place} {noun}" for place in PLACES for noun in NOUNS.split()]
REASONS = (
    "the box has a size and something in it",
    "box_shift: all {n} boxes of this picture lie off what is drawn",
    "blank_box: nothing is drawn in the target box, {n} px of one colour",
    "no_effect: the screen after step {n} is the same",
    "the point lies in its target box; the box is that of element {n}",
)


def main() -> int:
    """Make the store, ask, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=40, help="requests of each kind")
    parser.add_argument("--home", type=Path, help="where the store is made, and left; default: a temporary folder")
    options = parser.parse_args()
    home = options.home or Path(tempfile.mkdtemp(prefix="browse-bench-"))
    try:
        if not (home / "assets").is_dir():
            started = time.perf_counter()
            make_store(home, options.samples)
            print(f"{'made the store':44} {time.perf_counter() - started:8.1f} s")
        measure(home, options.times)
    finally:
        if options.home is None:
            shutil.rmtree(home)
    return 0


def make_store(home: Path, samples: int) -> None:
    """`unified`, `verdicts` and `gold` of all sources, some of the samples displaced by duplicates."""
    store = Store(home)
    rng = np.random.default_rng(0)
    each = -(-samples // SOURCES)
    displaced: list[dict[str, object]] = []
    for number in range(SOURCES):
        source = f"source_{number:02d}"
        parts = [min(PART_ROWS, each - start) for start in range(0, each, PART_ROWS)]
        made = [part_tables(rng, source, f"{number}-{place}", rows) for place, rows in enumerate(parts)]
        for group, names in (("unified", ("steps", "screens")), ("verdicts", ("verdicts",)), ("gold", ("samples",))):
            commit(store, f"{group}/{source}", [{name: tables[name] for name in names} for tables in made])
        ids = made[0]["samples"]["sample_id"].slice(0, 200).to_pylist()
        displaced += [
            {"item_id": f"sample:{one}", "source": source, "kept": f"sample:{ids[0]}", "similarity": 0.9, "reason": "x"}
            for one in ids[1:]
        ]
    commit(store, "hygiene/duplicates", [{"displaced": pa.Table.from_pylist(displaced)}])


def commit(store: Store, asset: str, parts: list[dict[str, pa.Table]]) -> None:
    """A version of an asset, a table set a part."""
    specs = [PartSpec(f"{number:04d}", f"{asset}-{number}") for number in range(len(parts))]
    with store.build(asset, code_version="1", parts=specs) as build:
        for spec, tables in zip(specs, parts, strict=True):
            build.run_part(spec, lambda out, tables=tables: [out.table(n, t) for n, t in tables.items()] and {})  # type: ignore[misc]
        manifest = build.commit(checks=[Check("made", True, "yes", "yes")])
    index_version(manifest)  # as the graph does after each stage, so that the first question needn't


def part_tables(rng: np.random.Generator, source: str, name: str, rows: int) -> dict[str, pa.Table]:
    """One part: twenty samples a screen, a step a screen, a verdict a sample and a step."""
    screens = max(1, rows // 20)
    shas = [rng.bytes(32).hex() for _ in range(screens)]
    words = np.array(WORDS)[rng.integers(0, len(WORDS), (rows, 3))]
    objective = np.array(["grounding", "perception", "vqa", "navigation"])[rng.integers(0, 4, rows)]
    platform = ("mobile", "web", "desktop")[int(rng.integers(0, 3))]
    split = np.array(["train", "validation", "test"])[rng.choice(3, rows, p=[0.9, 0.05, 0.05])]
    points, scores = rng.integers(0, 1000, (rows, 2)), rng.integers(-1, 11, rows + screens)
    sample_rows = [
        {
            "sample_id": rng.bytes(16).hex(),
            "source": source,
            "split": split[n],
            "platform": platform,
            "objective": objective[n],
            "images": [shas[n % screens]],
            "messages": messages("grounding", grounding_text(" ".join(words[n]))),
            "answer": f"[{points[n][0]},{points[n][1]}]",
            "target_boxes": [[float(points[n][0]), float(points[n][1]), 1000.0, 1000.0]],
            "tokens": 400,
            "licence": "MIT",
            "parents": [f"step:{source}/{name}-{n % screens // 5}/{n % screens % 5}"],
            "synthetic": False,
            "provenance": '{"deriver":"grounding_element","version":1}',
        }
        for n in range(rows)
    ]
    step_rows = [
        {
            "source": source,
            "episode_id": f"{name}-{n // 5}",
            "step_index": n % 5,
            "split": "train",
            "platform": platform,
            "instruction": f"open the {WORDS[n % len(WORDS)]} of {n}",
            "screenshot_sha256": shas[n],
            "action_type": "Click",
            "action_text": "Click(box=(250,140))",
            "target_box": [100.0, 100.0, 400.0, 180.0],
            "native_action": "{}",
            "provenance": "{}",
        }
        for n in range(screens)
    ]
    names = [f"sample:{row['sample_id']}" for row in sample_rows]
    names += [f"step:{source}/{row['episode_id']}/{row['step_index']}" for row in step_rows]
    verdict_rows = [
        {
            "item_id": item,
            "round": 0,
            "score": None if scores[n] < 0 else int(scores[n]),
            "disposition": "review" if scores[n] < 0 else "keep" if scores[n] >= 7 else "rewrite",
            "reason": REASONS[int(scores[n]) % len(REASONS)].format(n=n),
            "confidence": 0.5,
            "judge": "rules",
            "model": "none",
            "rubric_version": "1",
        }
        for n, item in enumerate(names)
    ]
    hashes = rng.integers(0, 2**63, screens)
    screen_rows = [
        {
            "screenshot_sha256": sha,
            "width_px": 1080,
            "height_px": 1920,
            "phash": int(bits),
            "elements": [],
            "source": source,
        }
        for sha, bits in zip(shas, hashes, strict=True)
    ]
    return {
        "samples": Samples.table(sample_rows),
        "steps": Steps.table(step_rows),
        "verdicts": Verdicts.table(verdict_rows),
        "screens": Screens.table(screen_rows),
    }


@contextmanager
def served(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    """`vesper browse` over a store → its address, and its process."""
    command = [sys.executable, "-m", "dagster_project.cli", "browse", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.match(r"open (http://\S+/)$", line):
                yield found[1], psutil.Process(process.pid)
                break
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def measure(home: Path, times: int) -> None:
    """Print a line a kind of request."""
    for state in ("first start, the index is made", "start, nothing changed"):
        started = time.perf_counter()
        with served(home) as (url, server):
            print(f"{state:44} {time.perf_counter() - started:8.1f} s", flush=True)
            if state.startswith("start"):
                ask_all(url, server, times)
    index = home / "cache" / "browse"
    for what, pattern in (("database", "*.duckdb"), ("parts", "parts/*.parquet")):
        print(f"{'index, ' + what:44} {sum(p.stat().st_size for p in index.glob(pattern)) / 1e6:8.0f} MB")
    print(
        f"{'tables of the store':44} {sum(p.stat().st_size for p in home.rglob('assets/**/*.parquet')) / 1e6:8.0f} MB"
    )


def ask_all(url: str, server: psutil.Process, times: int) -> None:
    """Time each kind of request; no two of a kind are equal, so that nothing is answered from memory of the last."""
    rng = np.random.default_rng(1)
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port)

    def get(path: str, query: Mapping[str, object]) -> tuple[float, dict[str, object]]:
        started = time.perf_counter()
        connection.request("GET", f"{place.path}{path}?{urlencode(query, doseq=True)}")
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data[:300]
        return 1000 * (time.perf_counter() - started), json.loads(data)

    def source() -> str:
        return f"source_{rng.integers(0, SOURCES):02d}"

    def word() -> str:
        return str(rng.choice(WORDS))

    found = get("api/items", {"source": source()})[1]["items"]
    assert isinstance(found, list)
    kinds: dict[str, tuple[str, object]] = {
        "first page": ("api/items", lambda: {"page": int(rng.integers(1, 4))}),
        "filtered by source and score": ("api/items", lambda: {"source": source(), "max": int(rng.integers(2, 9))}),
        "filtered by three columns": (
            "api/items",
            lambda: {"objective": "vqa", "split": "train", "disposition": "rewrite", "page": int(rng.integers(1, 50))},
        ),
        "text search": ("api/items", lambda: {"q": f"{word()} {word()}"}),
        "text search, one common word": ("api/items", lambda: {"q": word()}),
        "words of the reason": ("api/items", lambda: {"why": f"step {rng.integers(0, 9999)}"}),
        "page 10,000": ("api/items", lambda: {"page": 10_000 + int(rng.integers(0, 50))}),
        "counts, no filter": ("api/counts", lambda: {"min": 0, "max": 10, "page": int(rng.integers(1, 99))}),
        "counts, two filters": ("api/counts", lambda: {"source": source(), "objective": "vqa"}),
        "counts, text search": ("api/counts", lambda: {"q": word()}),
        "item page": ("api/item", lambda: {"id": found[int(rng.integers(0, len(found)))]["item_id"]}),
        "similar items": ("api/similar", lambda: {"id": found[int(rng.integers(0, len(found)))]["item_id"]}),
        "whole chain (read beside the item page)": (
            "api/chain",
            lambda: {"id": found[int(rng.integers(0, len(found)))]["item_id"]},
        ),
    }
    print(f"{'':44} {'p50 ms':>8} {'p95 ms':>8} {'CPU ms':>8}   {len(os.sched_getaffinity(0))} cores")
    for name, (path, query) in kinds.items():
        assert callable(query)
        before = sum(server.cpu_times()[:2])
        taken = sorted(get(path, query())[0] for _ in range(times))
        each = 1000 * (sum(server.cpu_times()[:2]) - before) / times
        print(f"{name:44} {np.percentile(taken, 50):8.0f} {np.percentile(taken, 95):8.0f} {each:8.0f}", flush=True)
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
