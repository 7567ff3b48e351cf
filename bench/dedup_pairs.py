"""Whether pairs of tasks in twelve scripts are told apart: `python bench/dedup_pairs.py` (`--model`, `--threshold`).

Prints, for each script, how many pairs are decided right, and which aren't. The pairs are in `dedup_pairs.txt`; a pair
is decided as all users of the encoder decide it (`quality.duplicates.same_text.similarities`).
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from quality.duplicates.same_text import similarities
from quality.evidence.embedding import EMBEDDED, Embedder

DATA = Path(__file__).with_suffix(".txt")
THRESHOLD = 0.9
"""As the task pool and the generation loop have it."""
WANTED = 0.98


@dataclass(frozen=True)
class HandPair:
    """Two texts and whether they say the same."""

    script: str
    left: str
    right: str
    same: bool


def pairs() -> Iterator[HandPair]:
    """All pairs of the file: spellings of one task say the same, different tasks and texts of one `apart` don't."""
    script, tasks = "", list[str]()
    for line in DATA.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(": ")
        texts = [text.strip() for text in rest.split(" | ")]
        if line.startswith("["):
            script, tasks = line.strip("[]"), []
        elif kind == "task":
            yield HandPair(script, texts[0], texts[1], True)
            yield from (HandPair(script, other, texts[0], False) for other in tasks)
            tasks.append(texts[0])
        elif kind == "apart":
            yield from (HandPair(script, left, right, False) for left, right in combinations(texts, 2))


def decided(model: str = EMBEDDED, threshold: float = THRESHOLD) -> list[tuple[HandPair, float, bool]]:
    """Each pair with its similarity and whether it is decided right."""
    listed = list(pairs())
    values = similarities([(pair.left, pair.right) for pair in listed], Embedder(model)).tolist()
    return [(pair, value, (value >= threshold) is pair.same) for pair, value in zip(listed, values, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--threshold", type=float, default=THRESHOLD)
    options = parser.parse_args()
    found = decided(options.model, options.threshold)
    for script in dict.fromkeys(pair.script for pair, _, _ in found):
        mine = [right for pair, _, right in found if pair.script == script]
        print(f"{script:12} {sum(mine):3} of {len(mine)}")
    for pair, value, right in found:
        if not right:
            print(f"  {'same' if pair.same else 'apart'} at {value:.3f}: {pair.left} | {pair.right}")
    share = sum(right for _, _, right in found) / len(found)
    print(f"{len(found)} pairs, {share:.3f} right (wanted: {WANTED})")


if __name__ == "__main__":
    main()
