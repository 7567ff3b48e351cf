"""What was taken down, out of caches and the answers of people (`pipelines.takedown.takedown` does the rest).

- Models' answers (of judges, rewriters, proposers) are stored by a digest of the question, which names nobody whose
  question it was, and may quote what the model saw. They are written as they arrive: no table need tell yet, or ever,
  that a record was asked about. So all answers go; the bills stay. What was judged stays judged: only parts that are
  rebuilt ask again.
- Vectors of texts and looks of pictures go by their keys.
- Answers of people and their marks go by item; a promoted set that holds one goes whole, to be promoted again, and so
  does what `vesper browse` keeps ready.
"""

import contextlib
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipelines.store.frozen import MANIFEST, POINTER, frozen_digest
from pipelines.takedown.tables import SearchTerms, matches
from pipelines.takedown.withdrawn import TakenDown
from quality.evidence.embedding import VectorCache, read_segment
from quality.model_client.errors import ModelError
from quality.review.marks import marks_path
from quality.review.verdict_store import answers_path


@dataclass
class Forgotten:
    """What went."""

    answers: int = 0
    vectors: int = 0
    people: int = 0
    """Answers of people, their marks, and items that were given to them."""
    sets: list[str] = field(default_factory=list)
    """Promoted sets of people's answers."""


def forget(home: Path, taken: TakenDown) -> Forgotten:
    """Do all of it. Raises `ModelError` if a file is damaged or in use."""
    done = Forgotten()
    done.answers = _forget_answers(home)
    done.vectors = sum(_forget_vectors(folder, taken) for folder in _vector_folders(home))
    done.people = _forget_people(answers_path(home), ("verdicts", "assignments"), taken)
    done.people += _forget_people(marks_path(home), ("marks",), taken)
    shutil.rmtree(home / "cache" / "browse", ignore_errors=True)  # texts and small pictures, made again on use
    done.sets = _forget_sets(home, "feedback/human_verdicts", taken)
    return done


def _forget_answers(home: Path) -> int:
    """All answers of all models of a store; their number. The files hold nothing of them afterwards."""
    count = 0
    for path in sorted((home / "cache").glob("*/judge.sqlite")):
        with _opened(path) as base:
            count += int(base.execute("SELECT count(*) FROM answers").fetchone()[0])
            # The bills stand in tables of their own and stay: what a night has cost was paid.
            base.execute("DELETE FROM answers")
    return count


def _vector_folders(home: Path) -> Iterator[Path]:
    for cache in ("embeddings", "looks"):
        yield from (path for path in sorted((home / "cache" / cache).glob("*")) if path.is_dir())


def _forget_vectors(folder: Path, taken: TakenDown) -> int:
    """Segments without the keys of texts and pictures that went. The new pair is whole before the old one goes."""
    # Keys of texts and of pictures (the first 32 digits) don't meet, so one set does for both kinds of folder.
    gone = taken.texts | {sha[:32] for sha in taken.screens}
    count = 0
    for listing in sorted(folder.glob("*.keys")):
        keys, vectors = read_segment(listing)
        stays = [place for place, key in enumerate(keys) if key not in gone]
        if len(stays) == len(keys):
            continue
        count += len(keys) - len(stays)
        # A segment that was damaged has lost its order: its vectors are made again instead.
        if stays and vectors is not None:
            VectorCache(folder).put([keys[place] for place in stays], np.asarray(vectors[stays]))
        # A mapped file can't be removed everywhere while it is open.
        del vectors
        listing.unlink()
        listing.with_suffix(".npy").unlink(missing_ok=True)
    return count


def _forget_people(path: Path, tables: tuple[str, ...], taken: TakenDown) -> int:
    if not path.is_file():
        return 0
    with _opened(path) as base:
        base.create_function("taken", 1, lambda item: _is_of(str(item), taken))
        count = 0
        for table in tables:
            count += base.execute(f"DELETE FROM {table} WHERE taken(item_id)").rowcount
    return count


def _is_of(item_id: str, taken: TakenDown) -> bool:
    # A repaired item's versions are of the same record, and a step goes with its episode.
    plain = re.sub(r"@r\d+$", "", item_id)
    if plain.startswith("step:"):
        plain = "episode:" + plain[5:].rpartition("/")[0]
    return plain in taken.episodes or plain.removeprefix("sample:") in taken.samples


def _forget_sets(home: Path, feedback: str, taken: TakenDown) -> list[str]:
    """Frozen sets can't be changed: one that holds a record goes, and the pointer to it first."""
    terms = SearchTerms.of(taken, shown=True)
    gone, folder = [], home / feedback
    for manifest in sorted(folder.glob(f"*/{MANIFEST}")):
        one = manifest.parent
        if not any(matches(pq.read_table(path), terms).any() for path in sorted(one.glob("*.parquet"))):
            continue
        # Nobody must find a pointer to a set that is half gone.
        if frozen_digest(home, feedback) == one.name:
            (folder / POINTER).unlink()
        # Moved aside first: a name disappears at once, the files take their time.
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".gone-"))
        os.replace(one, aside / one.name)
        shutil.rmtree(aside)
        gone.append(one.name)
    return gone


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A file whose deleted rows are overwritten, with no copy left in its log."""
    try:
        base = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            # Deleted rows are overwritten, or their text would still stand in the file's free pages.
            base.execute("PRAGMA secure_delete = ON")
            base.execute("BEGIN IMMEDIATE")
            yield base
            base.execute("COMMIT")
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # After the log was folded in: then it is rewritten without free pages, and the log emptied again.
            base.execute("VACUUM")
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            base.close()
    except sqlite3.Error as error:
        raise ModelError(f"{path}: expected a database that can be cleaned, found {error}; stop who uses it") from error
