"""What is upstream of raw files: the revision that the source's repository has come to, or the files themselves."""

from pathlib import Path

from pipelines.mapping.adapter import Raw
from pipelines.mapping.card import Download
from pipelines.raw import hub
from pipelines.raw.file_hashes import FileHashes
from pipelines.raw.rawdata import list_raw
from schemas.ids import digest


def files_version(home: Path, source: str, folder: Path) -> str:
    """A digest of the names and bytes of all files of a raw folder; "" if there are none. Files that were hashed once
    aren't read again. `home` is the store's, which remembers them."""
    if not folder.is_dir():
        return ""
    names = list_raw(Raw(folder))
    hashes = FileHashes(home / "cache" / "raw" / f"{source}.json")
    found = [[name, sha256] for name, sha256 in zip(names, hashes.all([folder / name for name in names]), strict=True)]
    hashes.save()
    return f"files {digest(found)[:16]}" if found else ""


def hub_version(download: Download, revision: str | None = None, *, endpoint: str | None = None) -> str:
    """The commit that a repository's revision (None: its main branch) stands at. Raises `PullError`."""
    return f"commit {hub.list_repository(download.repo, revision, endpoint=endpoint).commit}"


def pulled_before(folder: Path) -> bool:
    """Whether a folder's files came by `vesper sources pull`."""
    return (folder / hub.RECORD).is_file()
