"""`vesper dedup FILE`: the duplicates of any list of texts, outside a store."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.commands import write_report
from quality.duplicates.neighbours import TooManyPairs, check_threshold, keep
from quality.duplicates.same_text import alike_pairs
from quality.evidence.embedding import EMBEDDED, Embedder, normalise
from schemas.tables import Pairs

MAX_PAIRS = 20_000_000
"""More than this is no list of pairs anyone reads; the error says what to do."""


def dedup_file(
    path: str | Path, threshold: float, out: str | Path, *, model: str = EMBEDDED, cache: str | Path | None = None
) -> dict[str, object]:
    """A parquet or JSONL file with columns `id` and `text` → `pairs.parquet`, `kept.parquet` and `report.json` in
    `out`.

    Every pair of ids whose texts' cosine similarity is at least `threshold` is written once (left < right), unless the
    two differ in what vectors are deaf to (`quality.evidence.meaning`: on and off, numbers, names, unread scripts);
    kept are the rows that the greedy rule of `quality.duplicates.neighbours.keep` leaves, in order of their ids, with
    all their columns. Texts that are equal up to blanks have similarity 1; each of their ids is written beside the
    least of them alone, which also stands for them in all other pairs. Returns the report. Raises one-line
    `ValueError`s on bad input.
    """
    check_threshold(threshold)
    table = _read(Path(path))
    ids, texts = table["id"].to_pylist(), [normalise(text) for text in table["text"].to_pylist()]
    # Equal texts first: each is embedded once, and its ids, in order, have the least one as their owner.
    classes: dict[str, list[str]] = {}
    for name, text in sorted(zip(ids, texts, strict=True)):
        classes.setdefault(text, []).append(name)
    unique = list(classes)
    embedder = Embedder(model, cache=cache)
    try:
        found = alike_pairs(unique, threshold, embedder, most=MAX_PAIRS)
    except TooManyPairs as error:
        raise ValueError(f"{path}: {error}") from None
    rows = sorted(_pairs(classes, unique, found))
    # What stays is decided over ids, so that the ids of one text stay or go together.
    class_of = {name: number for number, text in enumerate(unique) for name in classes[text]}
    retained, displaced = keep({name: (name,) for name in ids}, (), class_of, ((i, j) for i, j, _ in found))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(Pairs.table({"left": a, "right": b, "similarity": s} for a, b, s in rows), folder / "pairs.parquet")
    # A set, as a list would be searched once for every row.
    standing = set(retained)
    stays = pa.array([name in standing for name in ids], pa.bool_())
    pq.write_table(table.filter(stays).sort_by("id"), folder / "kept.parquet")
    return write_report(
        folder,
        {
            "rows": len(ids),
            "pairs": len(rows),
            "kept": len(retained),
            "displaced": len(displaced),
            "embedded": embedder.embedded,
        },
    )


def _pairs(
    classes: dict[str, list[str]], unique: list[str], found: list[tuple[int, int, float]]
) -> Iterator[tuple[str, str, float]]:
    """Pairs of texts → pairs of the ids that stand for them, and each id of a text beside the one that does."""
    for owner, *others in classes.values():
        yield from ((owner, other, 1.0) for other in others)
    for i, j, value in found:
        # By id and not by text: `left < right` holds for what is written.
        left, right = sorted((classes[unique[i]][0], classes[unique[j]][0]))
        yield left, right, float(value)


def _read(path: Path) -> pa.Table:
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with path.open("rb") as stream:
            # By what it holds, as a file's ending may be anything.
            parquet = stream.read(4) == b"PAR1"
        table = pq.read_table(path) if parquet else _read_jsonl(path)
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise ValueError(f"{path}: expected parquet or JSONL, found: {reason}") from error
    for name in ("id", "text"):
        if name not in table.column_names:
            raise ValueError(f"{path}: expected columns id and text, found {table.column_names}")
        if table[name].null_count:
            raise ValueError(f"{path}: column {name!r} has {table[name].null_count} null values")
    if not (pa.types.is_string(table["text"].type) or pa.types.is_large_string(table["text"].type)):
        raise ValueError(f"{path}: column 'text' should be strings, found {table['text'].type}")
    # Whole numbers and texts as ids are one thing from here on.
    table = table.set_column(table.column_names.index("id"), "id", table["id"].cast(pa.string()))
    if (twice := table.num_rows - len(set(table["id"].to_pylist()))) > 0:
        raise ValueError(f"{path}: {twice} ids occur more than once; ids must be unique")
    return table


def _read_jsonl(path: Path) -> pa.Table:
    rows = []
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}: line {number} is not JSON: {error}") from error
            if not isinstance(row, dict) or "id" not in row or "text" not in row:
                raise ValueError(f"{path}: line {number}: expected an object with id and text, found {str(row)[:60]}")
            # Said by line: in a file of millions, a column's name alone helps nobody.
            if not isinstance(row["text"], str) or not isinstance(row["id"], str | int):
                raise ValueError(f"{path}: line {number}: expected a string text and a string or integer id")
            rows.append({"id": str(row["id"]), "text": row["text"]})
    return pa.Table.from_pylist(rows, schema=pa.schema([("id", pa.string()), ("text", pa.string())]))
