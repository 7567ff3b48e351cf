"""Figures of semantic dedup: all pairs with cosine >= T, beside brute force (FAISS, flat) and semhash.

1. 100,000 real sentence embeddings (`dedup_texts`, all-MiniLM-L6-v2): all pairs by our pruned search, by FAISS and by
   semhash, which gets the same vectors. Ours must equal FAISS's pair by pair; of semhash it is said how many it finds.
   Embedding takes about 20 minutes on one core, once: vectors are kept in $VESPER_HOME/cache/embeddings, or in the
   temporary folder.
2. 1,000,000 seeded vectors of 64 numbers (256 MB): clusters of unequal size and width, background, planted near copies.
   All pairs by ours; brute force on 2,000 sampled queries must find the same neighbours of them (recall and precision
   1.0, or this raises), and its time is scaled from those.
3. 16,000 equal samples: their classes and who of them stays, beside the same decision over all their pairs, of which
   there are as many as a thousand of them have.

Each search is a process of its own with one thread, where it can be limited to one; its time is CPU seconds, its
memory the peak less what it held when it had the vectors.
semhash is no dependency: it lives in an environment that the bench makes in the temporary folder (`PEER`), or in that
whose interpreter is $VESPER_SEMHASH_PYTHON.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from bench.timing import cpu, measured_memory, result  # noqa: E402

PEER = "semhash==0.5.0"
REAL, REAL_T = 100_000, 0.9
SEEDED, WIDTH, SEEDED_T, QUERIES = 1_000_000, 64, 0.95, 2_000
EQUAL, PAIRED = 16_000, 1_000


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Real embeddings, then seeded vectors; `small` divides how many."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _real(Path(folder), REAL // small)
        yield from _seeded(Path(folder), SEEDED // small)
    yield _equal(EQUAL // small)


def _real(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    from bench.dedup_texts import texts
    from quality.evidence.embedding import Embedder

    listed = texts(count)
    home = os.environ.get("VESPER_HOME")
    cache = Path(home) / "cache" / "embeddings" if home else Path(tempfile.gettempdir()) / "vesper-bench-embeddings"
    np.save(folder / "real.npy", Embedder(cache=cache).encode(listed))
    (folder / "real.json").write_text(json.dumps(listed))
    ours, flat = (_search(kind, folder / "real.npy", REAL_T) for kind in ("pruned", "flat"))
    if not np.array_equal(ours["pairs"], flat["pairs"]):
        raise AssertionError(f"dedup: {len(ours['pairs'])} pairs, brute force {len(flat['pairs'])}")
    what = f"dedup, all pairs of {count:,} real embeddings, T={REAL_T}"
    yield _less(what, "CPU s", ours["seconds"], "FAISS flat", flat["seconds"])
    yield _less(f"{what}, memory", "MiB", ours["mib"], "FAISS flat", flat["mib"])
    peer = _search("semhash", folder / "real.npy", REAL_T)
    yield _less(what, "CPU s", ours["seconds"], PEER, peer["seconds"])
    yield _less(f"{what}, memory", "MiB", ours["mib"], PEER, peer["mib"])
    found = len(np.intersect1d(ours["pairs"], peer["pairs"]))
    missed = np.setdiff1d(ours["pairs"], peer["pairs"])
    for i, j in zip(*np.divmod(missed[:3], count), strict=True):
        print(f"  (missed by {PEER}: {listed[i]!r} | {listed[j]!r})", file=sys.stderr)
    yield result(f"{what}, of {len(ours['pairs']):,} pairs found", len(ours["pairs"]), "pairs", PEER, found, digits=0)


def _seeded(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    np.save(folder / "seeded.npy", seeded(count))
    ours = _search("pruned", folder / "seeded.npy", SEEDED_T)
    queries = min(QUERIES, count)
    brute = _search("sampled", folder / "seeded.npy", SEEDED_T)
    i, j = np.divmod(ours["pairs"], count)
    asked = np.zeros(count, bool)
    asked[_sample(count)] = True
    mine = np.unique(np.concatenate([i[asked[i]] * count + j[asked[i]], j[asked[j]] * count + i[asked[j]]]))
    if not np.array_equal(mine, brute["pairs"]):
        raise AssertionError(f"dedup: {len(mine)} neighbours of the sampled queries, brute force {len(brute['pairs'])}")
    what = f"dedup, all pairs of {count:,} seeded vectors of {WIDTH}, T={SEEDED_T}"
    whole = brute["seconds"] * count / queries / 2  # each pair once
    yield _less(what, "CPU s", ours["seconds"], f"FAISS flat, scaled from {queries:,} queries", whole)
    yield _less(f"{what}, memory", "MiB", ours["mib"], f"FAISS flat, {queries:,} queries", brute["mib"])
    recall = len(np.intersect1d(mine, brute["pairs"])) / max(len(brute["pairs"]), 1)
    yield result(
        f"{what}, recall on {queries:,} queries, {len(brute['pairs']):,} neighbours",
        recall,
        "recall",
        "brute force",
        1.0,
        digits=6,
    )


def _equal(count: int) -> dict[str, Any]:
    """Seconds for `count` equal samples; over all pairs `PAIRED` of them are timed, and scaled by how many pairs there
    are."""
    from quality.duplicates.dedup import decide, keep
    from quality.duplicates.item_classes import DuplicateCandidate, item_classes
    from quality.evidence.embedding import Embedder

    items = [DuplicateCandidate(f"sample:{n:06}", "s", "web", "What is this?", "k") for n in range(count)]
    order, embedder = {item.id: item.order for item in items[:PAIRED]}, Embedder()
    ours = cpu(lambda: decide(items, item_classes(items, 0.8, embedder)))
    theirs = cpu(lambda: keep(order, list(combinations(order, 2))))
    kept = decide(items, item_classes(items, 0.8, embedder))[0]
    if kept != keep(order, list(combinations(order, 2)))[0]:
        raise AssertionError(f"dedup: of equal samples {kept[:3]} stay")
    scaled = theirs * (count * (count - 1)) / (PAIRED * (PAIRED - 1))
    return _less(f"dedup, {count:,} equal samples", "s", ours, "over all their pairs", scaled)


def _less(name: str, unit: str, ours: float, peer: str, theirs: float) -> dict[str, Any]:
    return result(name, ours, unit, peer, theirs, digits=2)


def seeded(count: int, width: int = WIDTH, seed: int = 0) -> np.ndarray:
    """Unit float32 [count, width]: 80 % in clusters (sizes and widths vary), 10 % background, 10 % near copies."""
    rng = np.random.default_rng(seed)
    near, loose = count // 10, count // 10
    clusters = max(count // 500, 1)
    shares = rng.pareto(1.5, clusters) + 0.1
    home = rng.choice(clusters, count - near - loose, p=shares / shares.sum())
    spread = rng.uniform(0.3, 0.8, clusters) / np.sqrt(width)
    made = np.empty((count, width), np.float32)
    made[: len(home)] = _unit(rng.normal(size=(clusters, width)))[home]
    made[: len(home)] += rng.standard_normal((len(home), width), np.float32) * spread[home, None].astype(np.float32)
    made[len(home) : len(home) + loose] = rng.standard_normal((loose, width), np.float32)
    made[:-near] = _unit(made[:-near])
    noise = rng.standard_normal((near, width), np.float32) * np.float32(0.2 / np.sqrt(width))
    made[-near:] = _unit(made[rng.integers(0, count - near, near)] + noise)
    return made[rng.permutation(count)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _sample(count: int) -> np.ndarray:
    return np.sort(np.random.default_rng(1).choice(count, min(QUERIES, count), replace=False))


# -- the other processes ----------------------------------------------------------------------------------------------


def _search(kind: str, vectors: Path, threshold: float) -> dict[str, Any]:
    """{"seconds", "mib", "pairs" as i * count + j} of this file, or of the peer's, in a process of its own."""
    out = vectors.with_suffix(f".{kind}.npy")
    script = [sys.executable, __file__]
    if kind == "semhash":
        script = [str(_peer_python()), str(Path(__file__).with_name("dedup_semhash.py"))]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [*script, kind, str(vectors), str(threshold), str(out)],
        env={**os.environ, **one},
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return {**json.loads(done.stdout.splitlines()[-1]), "pairs": np.load(out)}


def _peer_python() -> Path:
    """The interpreter of an environment that has the peer; made if there is none."""
    if given := os.environ.get("VESPER_SEMHASH_PYTHON"):
        return Path(given)
    folder = Path(tempfile.gettempdir()) / f"vesper-bench-{PEER.replace('==', '-')}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True, stdout=sys.stderr)
        (folder / "ready").touch()
    return python


def measured(search: Callable[[], np.ndarray], out: str) -> None:
    """Run a search; write its pairs, print CPU seconds and memory."""
    found: list[np.ndarray] = []
    spent = measured_memory(lambda: found.append(search()))
    np.save(out, np.sort(found[0]))
    print(json.dumps({"seconds": spent["cpu"], "mib": spent["mib"]}))


def _main(kind: str, path: str, threshold: float, out: str) -> None:
    import faiss

    from quality.duplicates.neighbours import cosines, similar_pairs

    faiss.omp_set_num_threads(1)
    vectors = np.load(path)

    def pairs() -> np.ndarray:
        i, j, _ = similar_pairs(vectors, threshold, pruned=kind == "pruned")
        return np.asarray(i * len(vectors) + j)

    def sampled() -> np.ndarray:
        queries = _sample(len(vectors))
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        limits, _, hits = index.range_search(vectors[queries], threshold - 1e-4)
        left, right = np.repeat(queries, np.diff(limits.astype(np.int64))), hits.astype(np.int64)
        true = (cosines(vectors[left], vectors[right]) >= threshold) & (left != right)
        return np.asarray(left[true] * len(vectors) + right[true])

    measured(sampled if kind == "sampled" else pairs, out)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4])
