"""Figures of unify: full step rows, read and written, beside `datasets.map`; peak memory; what a change costs."""

import gc
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import native, peers
from bench.timing import alternately, one_core, result

ROOT = Path(__file__).parents[1]
FULL_RUNS, CHANGES = 3, 7
"""Repeats of what is measured in seconds once, and in tenths of a second."""


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """All figures; `small` divides the sizes."""
    one_core()
    with tempfile.TemporaryDirectory() as folder:
        yield from flat(Path(folder, "flat"), 96_000 // small)
        yield nested(Path(folder, "nested"), 2_000 // small)
        yield memory(Path(folder, "memory"), 1_000_000 // small)
        yield from change(Path(folder, "change"), 100, 10_000 // small)


def _unify(source: str, raw: Path, home: Path) -> Any:
    """A fresh store each time, so that nothing is skipped."""
    from pipelines.mapping.adapter import Raw
    from pipelines.store import Store
    from pipelines.unify.unify import unify_source

    shutil.rmtree(home, ignore_errors=True)
    return unify_source(Store(home), source, Raw(raw))


def same(manifest: Any, theirs: Path) -> int:
    """Assert that two tables of steps hold the same cells; returns how many cells there are."""
    import pyarrow.parquet as pq

    from schemas.tables import Steps

    order = [("episode_id", "ascending"), ("step_index", "ascending")]
    ours = manifest.read("steps", Steps.schema).sort_by(order)
    peer = pq.read_table(theirs).cast(Steps.schema).sort_by(order)
    assert ours.num_rows == peer.num_rows > 0, (ours.num_rows, peer.num_rows)
    for name in Steps.schema.names:
        if not ours[name].combine_chunks().equals(peer[name].combine_chunks()):
            pairs = zip(ours[name].to_pylist(), peer[name].to_pylist(), strict=True)
            raise AssertionError(f"{name} differs: {next((a, b) for a, b in pairs if a != b)}")
    return int(ours.num_rows * len(Steps.schema.names))


def flat(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    """A parquet file of AITW steps."""
    made = native.flat(folder / "raw" / "a.parquet", count)
    manifest = _unify("aitw", folder / "raw", folder / "home")

    for batched in (False, True):
        (folder / f"cache{batched}").mkdir()
        out = folder / f"peer{batched}.parquet"

        def run(batched: bool = batched, out: Path = out) -> None:
            peers.flat(folder / "raw" / "a.parquet", out, folder / f"cache{batched}", batched=batched)

        run()
        cells = same(manifest, out)
        ours, theirs = alternately(lambda: _unify("aitw", folder / "raw", folder / "home"), run)
        way = "batched=True" if batched else "row by row"
        yield result(
            "unify, flat (AITW parquet)",
            made / ours,
            "rows/s per core",
            f"datasets.map {way}, {cells:,} cells equal",
            made / theirs,
            digits=0,
        )


def nested(folder: Path, episodes: int) -> dict[str, Any]:
    """JSON files of AITZ episodes."""
    made = native.nested(folder / "raw", episodes)
    manifest = _unify("aitz", folder / "raw", folder / "home")
    (folder / "cache").mkdir()

    def run() -> None:
        peers.nested(folder / "raw", folder / "peer.parquet", folder / "cache")

    run()
    cells = same(manifest, folder / "peer.parquet")
    ours, theirs = alternately(lambda: _unify("aitz", folder / "raw", folder / "home"), run)
    return result(
        "unify, nested (AITZ JSON)",
        made / ours,
        "rows/s per core",
        f"datasets.map episode by episode, {cells:,} cells equal",
        made / theirs,
        digits=0,
    )


_MEASURE = """
import re, sys
sys.path.insert(0, sys.argv[1])
from bench.unify import _unify
from pathlib import Path
_unify("aitw", Path(sys.argv[2]), Path(sys.argv[3]))
# not ru_maxrss: that begins at what the process was forked from
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def memory(folder: Path, count: int) -> dict[str, Any]:
    """Peak memory of a process that unifies one file, of a tenth of the rows and of all."""
    peaks = []
    for size in (count // 10, count):
        native.flat(folder / f"raw{size}" / "a.parquet", size)
        words = [sys.executable, "-c", _MEASURE, str(ROOT), str(folder / f"raw{size}"), str(folder / "home")]
        peaks.append(float(subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout))
        shutil.rmtree(folder)
    return result(
        f"unify, peak memory at {count:,} rows", peaks[1], "MB", f"the same at {count // 10:,} rows", peaks[0]
    )


def change(folder: Path, files: int, each: int) -> Iterator[dict[str, Any]]:
    """What it costs when one of the raw files changes: against the first, full run. CPU times are medians: of some
    full runs into fresh stores, and of some changes one after another."""
    import apache_beam  # noqa: F401  start-up of both runs

    from pipelines.mapping.adapter import Raw
    from pipelines.store import Store
    from quality.evidence.embedding import Embedder

    for number in range(files):
        native.flat(folder / "raw" / f"{number:03d}.parquet", each, number)
    raw = Raw(folder / "raw")
    Embedder(cache=None).encode(["start-up"])
    firsts, agains = [], []
    for number in range(FULL_RUNS):
        store = Store(folder / f"home{number}")
        embedder = None if number else Embedder(cache=folder / "vectors")
        firsts.append(_run(store, raw, embedder))
    store = Store(folder / "home0")
    for number in range(CHANGES):  # one file anew, with goals of which some were never seen
        many = native.GOALS // 100
        fresh = native.goals(native.GOALS + number * many, many)
        native.flat(folder / "raw" / "050.parquet", each, 10_000 + number, of=fresh)
        agains.append(_run(store, raw, Embedder(cache=folder / "vectors")))
    full, again = _median(firsts), _median(agains)
    names = {
        "rows": "rows decoded",
        "bytes": "bytes written",
        "embedded": "embedding calls",
        "unify_cpu": "CPU time of unify",
        "cpu": "CPU time with embedding",
    }
    for key, name in names.items():
        yield result(
            f"1 of {files} files changes: {name}",
            again[key],
            "s" if key.endswith("cpu") else key,
            f"full run of {full['rows']:,} rows",
            full[key],
            digits=3,
        )


def _median(runs: list[dict[str, float]]) -> dict[str, float]:
    """The first run, with the median of all for the time of unify; the embedding was done once."""
    unified = statistics.median(run["unify_cpu"] for run in runs)
    cpu = unified + statistics.median(run["embed_cpu"] for run in runs if "embed_cpu" in run)
    return {**runs[0], "unify_cpu": unified, "cpu": cpu}


def _run(store: Any, raw: Any, embedder: Any) -> dict[str, float]:
    """Unify, and embed the instructions of what is new (if there is an embedder); what that took."""
    from pipelines.unify.unify import unify_source

    before = store.current("unified/aitw")
    known = {entry.sha256 for entry in before.files} if before else set()
    files = _sizes(store.home)
    gc.collect()
    began = time.process_time()
    manifest = unify_source(store, "aitw", raw)
    took = {"unify_cpu": time.process_time() - began}
    written = sum(size for path, (size, stamp) in _sizes(store.home).items() if files.get(path) != (size, stamp))
    decoded = sum(result.counts["items_in"] for result in _new_parts(store, manifest))
    if embedder is not None:
        began = time.process_time()
        embedder.encode(_instructions(manifest, known))
        took |= {"embed_cpu": time.process_time() - began, "embedded": embedder.embedded}
    return {"rows": decoded, "bytes": written, **took}


def _instructions(manifest: Any, known: set[str]) -> list[str]:
    """Those of the files of steps that aren't known."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    fresh = [entry for entry in manifest.files if entry.table == "steps" and entry.sha256 not in known]
    texts: set[str] = set()
    for entry in fresh:
        column = pq.read_table(manifest.root / entry.path, columns=["instruction"], read_dictionary=["instruction"])
        texts.update(pc.unique(column["instruction"]).to_pylist())
    return sorted(texts)


def _sizes(home: Path) -> dict[str, tuple[int, int]]:
    found = {str(path): path.stat() for path in home.rglob("*") if path.is_file()}
    return {path: (status.st_size, status.st_mtime_ns) for path, status in found.items()}


def _new_parts(store: Any, manifest: Any) -> list[Any]:
    """Parts whose files lie in this version's folder: those that ran now."""
    from pipelines.store import PartResult

    found = []
    for marker in (store.root(manifest.asset) / "parts").glob("*.json"):
        plain = json.loads(marker.read_text())
        if plain["files"] and plain["files"][0]["path"].startswith(manifest.version + "/"):
            found.append(PartResult(plain["key"], [], [], plain["counts"], skipped=False))
    return found
