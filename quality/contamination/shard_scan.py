"""`hygiene/shard_scan`: the packed shards, read as a trainer reads them, must hold nothing of an evaluation suite.

This doesn't ask what `hygiene/contamination` removed. It takes the picture bytes and prompts that stand in the shards,
hashes them anew and looks for them among the fingerprints, by the same measures (but for the app of an episode, which
isn't packed). A leak from anywhere, such as a row written into a shard by other hands, fails its blocking check, and
`pipelines.training_data.mixture` refuses shards that haven't passed. One part a shard file, so only new shards are
read.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import CheckSpec, Manifest, PartResult, PartSpec, PartWriter, Store, run_part
from pipelines.store.images import ImageError, open_image, phash
from pipelines.training_data.chat_turns import with_prompts
from pipelines.training_data.mixture import SCAN
from pipelines.training_data.shards import ASSET as SHARDS
from quality.contamination.gold_scan import Hits, training_text_of
from quality.contamination.suite_index import SuiteIndex, SuiteMatch, pin, pinned_index, settings
from quality.duplicates.looks import PictureLook, look
from schemas.ids import digest, item_sample
from schemas.tables import Column

ASSET = SCAN
CODE_VERSION = "4"
BYTES_A_SECOND = 10e6
"""Of packed rows that one core reads and looks for, roughly: most of it is decoding their pictures."""
NO_PICTURE_LEAKED = CheckSpec("no evaluation picture in the shards", "A packed picture equals one of a suite")
NO_TEXT_LEAKED = CheckSpec("no evaluation instruction in the shards", "A packed instruction equals one of a suite")
ALL_READ = CheckSpec("every packed row was read", "The scan couldn't read rows or pictures of the shards")
HAS_SUITES = CheckSpec("there is something to look for", "No suite has fingerprints: it proves nothing", blocking=False)
CHECKS = (NO_PICTURE_LEAKED, NO_TEXT_LEAKED, ALL_READ, HAS_SUITES)


class Leaks(Hits, version=1):
    """A row of a shard that shows or asks what an evaluation does."""

    shard = Column(pa.string(), "file that holds it")


_COLUMNS = ["sample_id", "source", "objective", "images", "messages", "answer", "target_boxes"]


def scan_shards(store: Store, suites: Sequence[str], execution: Execution | None = None) -> Manifest:
    """Every packed row against the fingerprints of `suites` → table `leaks`, which must be empty to pass.

    Suites without fingerprints are passed over and listed in the counts. `execution` says who reads the files. Raises
    `StoreError` without shards.
    """
    source = store.require(SHARDS)
    index = SuiteIndex(store, suites)
    entries = {entry.path.rpartition("/")[2]: entry for entry in source.files if entry.table == "shard"}
    # Part by file and its bytes: a shard that is unchanged isn't read again.
    base = [CODE_VERSION, index.identity]
    specs = {
        name: PartSpec(name.removesuffix(".parquet"), digest([base, entry.sha256])) for name, entry in entries.items()
    }
    inputs = {m.asset: m.version for m in (source, *index.manifests.values())}
    with store.build(
        ASSET, code_version=CODE_VERSION, config=settings(), inputs=inputs, parts=list(specs.values())
    ) as build:
        counts: Counter[str] = Counter(rows=0, pictures=0, leaks=0, leaked_pictures=0, leaked_texts=0, unreadable=0)
        known = (tuple(suites), pin(store.home, index), source.version)
        calls = []
        for name, spec in specs.items():
            part, entry = ShardPart(str(store.home), build.version, spec, *known, name), entries[name]
            calls.append(PartCall(part, (spec,), entry.bytes / BYTES_A_SECOND, entry.rows or 0))
        for result in run_parts(store, ASSET, run_shard_part, calls, execution):
            build.add(result)
            counts.update(result.counts)
        packed = sum(entry.rows or 0 for entry in entries.values())
        checks = [
            NO_PICTURE_LEAKED.check(counts["leaked_pictures"] == 0, counts["leaked_pictures"], 0),
            NO_TEXT_LEAKED.check(counts["leaked_texts"] == 0, counts["leaked_texts"], 0),
            # Unread rows prove nothing, so they fail the scan as a leak would.
            ALL_READ.check(
                counts["rows"] == packed and counts["unreadable"] == 0,
                f"{counts['rows']} rows, {counts['unreadable']} pictures unreadable",
                f"{packed} rows, 0",
                counts["rows"],
                packed,
            ),
            HAS_SUITES.check(
                # Without any fingerprints nothing was looked for, and the check says so.
                bool(index.present) or not suites,
                f"fingerprints of {len(index.present)} of {len(suites)} suites",
                "at least one",
                len(index.present),
                1,
            ),
        ]
        return build.commit(counts={**counts, "present": index.present, "absent": index.absent}, checks=checks)


@dataclass(frozen=True)
class ShardPart:
    """All a worker needs to read one shard file: plain data."""

    home: str
    version: str
    spec: PartSpec
    suites: tuple[str, ...]
    index: str
    """Digest of the identity of their index."""
    shards: str
    """The version of the shards."""
    name: str


def run_shard_part(item: ShardPart) -> PartResult:
    """Read one shard file; called by an engine's workers."""
    store = Store(item.home)
    index = pinned_index(Path(item.home), item.suites, item.index)
    shards = store.version(SHARDS, item.shards)
    [path] = [path for path in shards.paths("shard") if path.name == item.name]
    return run_part(store.root(ASSET), item.version, item.spec, lambda out: _scan(out, index, path, item.name))


def _scan(out: PartWriter, index: SuiteIndex, path: object, shard: str) -> dict[str, int]:
    """One shard file, a row group at a time."""
    counts: Counter[str] = Counter()
    leaks: list[dict[str, Any]] = []
    seen: dict[str, list[SuiteMatch]] = {}
    pictures = _ShardPictures()
    for rows in _groups(path):
        new = pictures.add(rows)
        found = index.match_pictures(new, pictures)
        # Looks at new pictures only, and remembers what they matched for the rows that follow.
        seen.update({sha: found.get(sha, []) for sha in new})
        requested = [training_text_of(row, [pictures.facts(sha) for sha in row["shas"]]) for row in rows]
        texts = iter(index.match_texts([one for one in requested if one is not None]))
        for row, one in zip(rows, requested, strict=True):
            shown = [match for sha in row["shas"] for match in seen.get(sha, ())]
            stated = next(texts) if one is not None else []
            counts["rows"] += 1
            counts["leaked_pictures"] += bool(shown)
            counts["leaked_texts"] += bool(stated)
            leaks += [_leak(row, shard, match) for match in (*shown, *stated)]
    counts["leaks"], counts["pictures"], counts["unreadable"] = len(leaks), len(seen), pictures.unreadable
    leaks.sort(key=lambda leak: (leak["item_id"], leak["suite"], leak["kind"]))
    out.table("leaks", pa.Table.from_pylist(leaks, schema=Leaks.schema))
    return dict(counts)


def _leak(row: Mapping[str, Any], shard: str, match: SuiteMatch) -> dict[str, Any]:
    return {
        "item_id": item_sample(row["sample_id"]),
        "shard": shard,
        "source": row["source"],
        "suite": match.suite,
        "suite_item": match.item,
        "kind": match.kind,
        "measure": match.measure,
        "threshold": match.threshold,
    }


def _groups(path: object) -> Iterator[list[dict[str, Any]]]:
    """Row groups as dicts; `images` stays, `shas` names each picture by its bytes."""
    with pq.ParquetFile(path) as file:
        for group in range(file.metadata.num_row_groups):
            rows = with_prompts(file.read_row_group(group, columns=_COLUMNS, use_threads=False)).to_pylist()
            for row in rows:
                # By the bytes that stand in the shard, whatever the row calls them.
                row["shas"] = [hashlib.sha256(image["bytes"] or b"").hexdigest() for image in row["images"]]
            yield rows


class _ShardPictures:
    """The pictures of a shard: hash and shape of all, and looks where they are asked for (as `LookBook` gives them).

    Rows are ordered by picture, so a picture that opens a row group may have closed the one before; it is decoded once.
    """

    def __init__(self) -> None:
        self.unreadable = 0
        self._facts: dict[str, tuple[int, float] | None] = {}
        self._bytes: dict[str, bytes] = {}

    def add(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
        """Take up a row group; returns sha256 → phash of the pictures that are new."""
        # Only this row group's bytes are held: a picture may close one group and open the next.
        self._bytes = {
            sha: image["bytes"] or b"" for row in rows for sha, image in zip(row["shas"], row["images"], strict=True)
        }
        new: dict[str, int] = {}
        for sha, data in self._bytes.items():
            if sha in self._facts:
                continue
            try:
                decoded = open_image(data)
            except ImageError:
                self._facts[sha] = None
                self.unreadable += 1
                continue
            new[sha] = phash(decoded)
            self._facts[sha] = (new[sha], decoded.width / decoded.height)
        return new

    def get(self, shas: Iterable[str]) -> dict[str, PictureLook]:
        """Looks of pictures of the row group at hand."""
        return {sha: look(open_image(self._bytes[sha])) for sha in sorted(set(shas))}

    def facts(self, sha: str) -> tuple[int, float] | None:
        """(phash, width / height) of a picture; None if it can't be read."""
        return self._facts[sha]
