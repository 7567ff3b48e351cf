"""`vesper sources pull`: a source's native files, from the hub or any fsspec URL, into its raw folder."""

import base64
import hashlib
import json
import posixpath
import time
from pathlib import Path
from typing import Any

from pipelines.mapping.card import Download
from pipelines.raw import hub
from pipelines.raw.names import BOOK_KEEPING, local_path
from pipelines.raw.remote_file import ATTEMPTS, FIRST_WAIT_S, PullError

BLOCK_BYTES = 4 << 20


def pull_source(
    download: Download, target: Path, *, revision: str | None = None, update: bool = False, endpoint: str | None = None
) -> str:
    """Pull what a descriptor names into `target`; what was done, in one line. Raises `PullError`, `ArchiveError`."""
    if not download.repo:
        copied, there = copy_tree(download.url, target)
        return f"{copied} files copied, {there} there already"
    done = hub.pull(
        download.repo,
        target,
        revision=revision,
        files=download.files,
        unpack=download.unpack,
        update=update,
        endpoint=endpoint,
    )
    report = [f"{len(done.fetched)} files fetched", f"{len(done.unchanged)} there already"]
    report += [f"{len(done.renamed)} renamed"] * bool(done.renamed) + [f"{len(done.removed)} gone"] * bool(done.removed)
    report += [f"{pattern}: {count} members unpacked" for pattern, count in done.unpacked]
    newer = f"; revision {done.newer[:12]} is out, --update takes it" if done.newer else ""
    return f"{', '.join(report)}, at revision {done.commit[:12]}{newer}"


def first_rows(repo: str, rows: int, target: Path, *, revision: str | None = None) -> dict[str, int]:
    """The first `rows` rows of each configuration and split, streamed into parquet below `target`; rows by file.

    Nothing but those rows is fetched, and pictures stay the encoded bytes they are. `datasets` knows one hub, that of
    `HF_ENDPOINT`. Raises `PullError` where the repository has no tables that `datasets` reads.
    """
    import datasets
    import pyarrow.parquet as pq
    from datasets.exceptions import DatasetsError

    listing = hub.list_repository(repo, revision)
    rows_by_file: dict[str, int] = {}
    try:
        for config in datasets.get_dataset_config_names(repo, revision=listing.commit):
            streams = datasets.load_dataset(repo, config, revision=listing.commit, streaming=True)
            for split, stream in streams.items():
                for name, feature in (stream.features or {}).items():
                    if isinstance(feature, datasets.Image):
                        # Undecoded: pictures stay the bytes that were published.
                        stream = stream.cast_column(name, datasets.Image(decode=False))
                taken = datasets.Dataset.from_list(list(stream.take(rows)), features=stream.features)
                path = local_path(target, f"{config}/{split}-first-{rows}.parquet")
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(taken.data.table, path)
                rows_by_file[path.relative_to(target.resolve()).as_posix()] = taken.num_rows
    except (DatasetsError, OSError, ValueError) as error:
        raise PullError(f"{repo}: no rows can be streamed: {str(error).splitlines()[0][:200]}") from error
    return rows_by_file


def copy_tree(origin: str, target: Path) -> tuple[int, int]:
    """Copy a folder (or one file) of any fsspec file system; (copied, already there).

    A copy that was cut goes on where it stopped, as long as the file at the origin is still the same; a checksum that
    the file system knows (md5, or an S3 ETag) is compared. Raises `PullError` if there is nothing, a name leads out of
    the folder, or a file can't be read or has another checksum.
    """
    import fsspec
    from tqdm import tqdm

    try:
        system, path = fsspec.core.url_to_fs(origin)
        single = system.isfile(path)
        found: dict[str, Any] = {path: system.info(path)} if single else system.find(path, detail=True)
    except (ImportError, ValueError, OSError) as error:
        raise PullError(f"{origin[:120]!r}: {error}") from error
    if not found:
        raise PullError(f"{origin[:120]!r}: expected a folder with files or a file, found nothing")
    base = posixpath.dirname(path) if single else path.rstrip("/")
    copied = there = 0
    for name, info in tqdm(sorted(found.items()), desc=target.name, unit="file", mininterval=2):
        inner = posixpath.relpath(name, base)
        if BOOK_KEEPING in inner.split("/"):  # of the pull that filled the origin
            continue
        place = local_path(target, inner)
        # By size alone: a checksum would read all of the origin again.
        if place.exists() and place.stat().st_size == info.get("size"):
            there += 1
            continue
        _copy(system, name, info, place)
        copied += 1
    return copied, there


def _copy(system: Any, name: str, info: dict[str, Any], place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    partial, stamp = place.with_name(f".{place.name}.part"), place.with_name(f".{place.name}.part.json")
    # The origin as it is now: another file of the same name is begun anew.
    identity = json.dumps([info.get("size"), *(str(info.get(key)) for key in ("ETag", "etag", "mtime", "md5Hash"))])
    if not (stamp.exists() and partial.exists() and stamp.read_text() == identity):
        partial.write_bytes(b"")
        stamp.write_text(identity)
    wait, last = FIRST_WAIT_S, ""
    for attempt in range(ATTEMPTS):
        try:
            with system.open(name, "rb", block_size=BLOCK_BYTES) as remote, partial.open("ab") as out:
                # Goes on where it was cut.
                if out.tell():
                    remote.seek(out.tell())
                while block := remote.read(BLOCK_BYTES):
                    out.write(block)
            break
        except Exception as error:  # whatever the file system raises: it is tried again, and then named
            last = f"{type(error).__name__}: {str(error)[:120]}"
        if attempt < ATTEMPTS - 1:
            time.sleep(wait)
            wait *= 2
    else:
        raise PullError(f"{name[:120]!r}: can't be read in {ATTEMPTS} attempts; last: {last}")
    expected = info.get("size")
    wrong = expected is not None and partial.stat().st_size != expected
    # A checksum only where the file system states one.
    if wrong or (_known_md5(info) not in (None, _md5(partial))):
        found = partial.stat().st_size
        partial.unlink()
        stamp.unlink()
        raise PullError(f"{name[:120]!r}: came with another checksum or size ({found} of {expected} bytes); pull again")
    partial.replace(place)
    stamp.unlink()


def _known_md5(info: dict[str, Any]) -> str | None:
    """The md5 (hex) that a file system states, if it does."""
    if isinstance(said := info.get("md5Hash"), str):  # Google Cloud Storage
        return base64.b64decode(said).hex()
    said = str(info.get("ETag") or info.get("md5") or "").strip('"').lower()
    return said if len(said) == 32 and all(char in "0123456789abcdef" for char in said) else None


def _md5(path: Path) -> str:
    state = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return state.hexdigest()
