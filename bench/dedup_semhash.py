"""All pairs by semhash, on vectors that are given; runs in the peer's own environment (`bench/dedup.py` starts it).

Its index (usearch, as it comes) and its own threshold query, which its deduplication begins with.
"""

import json
import sys
from pathlib import Path

import numpy as np
from semhash import SemHash

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dedup import measured


def main(path: str, threshold: float, out: str) -> None:
    """Write the pairs as i * count + j, i < j, and print CPU seconds and memory."""
    vectors = np.load(path)
    texts = json.loads(Path(path).with_suffix(".json").read_text())

    def pairs() -> np.ndarray:
        found = SemHash.from_embeddings(vectors, texts, model=None).index.query_threshold(vectors, threshold)
        i = np.repeat(np.arange(len(found)), [len(hits) for hits, _ in found])
        j = np.concatenate([np.asarray(hits, np.int64) for hits, _ in found])
        i, j = np.minimum(i, j)[i != j], np.maximum(i, j)[i != j]
        return np.unique(i * len(vectors) + j)

    measured(pairs, out)


if __name__ == "__main__":
    main(sys.argv[2], float(sys.argv[3]), sys.argv[4])
