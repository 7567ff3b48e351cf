"""Pulls native files from a dataset repository of the hub: resumed, verified, and pinned to one revision.

    <raw root>/<source>/…                    the files, as they are named in the repository
    <raw root>/<source>/.vesper/pull.json    what was pulled: repository, commit, size and checksum of each file

A commit is resolved once and everything is asked for at that commit, so a repository that moves under a pull can't mix
two states. Each file's checksum (sha256 of large files, the git blob id of small ones) is compared with what the hub
says before the file takes its name; what doesn't fit is fetched anew once and then refused. The next pull stays at the
recorded commit unless it is to update, a file that a new revision only renamed is renamed here too. An archive that
a new revision changed is unpacked anew beside the old members, which go before the new ones come (`unpacked`).
"""

import fnmatch
import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipelines.raw.names import BOOK_KEEPING, local_path, refused
from pipelines.raw.remote_archives import unpack_remote
from pipelines.raw.remote_file import ATTEMPTS, FIRST_WAIT_S, PullError, RemoteFile
from pipelines.raw.unpacked import Unpacked
from pipelines.whole_files import whole_file

RECORD = f"{BOOK_KEEPING}/pull.json"
RETRIED = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]

    def chosen(self, patterns: Sequence[str]) -> list[RemoteFile]:
        """Files that match a pattern (none given: all but git's own). Raises `PullError` for a pattern that matches
        none: a file that was renamed must not be missed."""
        if not patterns:
            return [file for file in self.files if not file.path.rpartition("/")[2].startswith(".git")]
        found: dict[str, RemoteFile] = {}
        for pattern in patterns:
            hits = [file for file in self.files if fnmatch.fnmatchcase(file.path, pattern)]
            if not hits:
                near = [file.path for file in self.files if Path(file.path).suffix == Path(pattern).suffix][:5]
                raise PullError(
                    f"{self.repo} at {self.commit[:12]}: no file matches {pattern!r}; was it renamed? "
                    f"There are {', '.join(near) or 'none of its kind'}"
                )
            found |= {file.path: file for file in hits}
        return list(found.values())


@dataclass
class Pulled:
    """What a pull did. `newer` is the commit that the repository has moved on to, if it stayed at an older one."""

    commit: str
    fetched: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Files, and members of archives."""
    unpacked: list[tuple[str, int]] = field(default_factory=list)
    """(pattern of an archive's parts, members)"""
    newer: str | None = None


def pull(
    repo: str,
    target: Path,
    *,
    revision: str | None = None,
    files: Sequence[str] = (),
    unpack: Sequence[tuple[str, str]] = (),
    update: bool = False,
    endpoint: str | None = None,
    first_wait_s: float = FIRST_WAIT_S,
) -> Pulled:
    """Bring `files` (glob patterns; none: everything) of a dataset repository to `target` and record them.

    `unpack` names archives as (pattern that all parts of one share, folder below `target`): they are unpacked on the
    way and not stored.

    `revision` (branch, tag or commit) is what the caller pins; without one, the recorded commit stays unless `update`
    says to take the newest. `endpoint` None: the library's own (`HF_ENDPOINT`). Raises `PullError` with one line.
    """
    before = read_record(target)
    # A pull stays at the commit that it first took, until somebody asks for another.
    pinned = revision or (before["commit"] if before and before["repo"] == repo and not update else None)
    listing = list_repository(repo, pinned, endpoint=endpoint, first_wait_s=first_wait_s)
    archives = {pattern: listing.chosen([pattern]) for pattern, _ in unpack}
    packed = {file.path for parts in archives.values() for file in parts}
    wanted = [file for file in listing.chosen(files) if file.path not in packed]
    done = Pulled(listing.commit)
    old = {entry["path"]: RemoteFile(**entry) for entry in before["files"]} if before else {}
    stamps = dict(before["stamps"]) if before else {}
    unpacked = dict(before["unpacked"]) if before else {}
    # What an archive is: its parts with their checksums.
    states = {pattern: [[file.path, file.sha256 or file.blob] for file in archives[pattern]] for pattern, _ in unpack}
    held = {
        pattern: Unpacked(target, local_path(target, folder), pattern, states[pattern]) for pattern, folder in unpack
    }
    # Before a file of another revision comes.
    for pattern, archive in held.items():
        if unpacked.get(pattern, states[pattern]) != states[pattern]:
            _require_list(target, pattern, archive)
    # Renamed files are taken along first, or they would be fetched again.
    _rename(target, old, wanted, done)
    from tqdm import tqdm

    for file in tqdm(wanted, desc=repo, unit="file", mininterval=2):
        path = local_path(target, file.path)
        # Known by size and time, else by its bytes: a file that is right isn't fetched.
        if old.get(file.path) == file and _stamp(path) == stamps.get(file.path, "") or file.matches(path):
            done.unchanged.append(file.path)
            continue
        _fetch(repo, listing.commit, file, target, endpoint, first_wait_s)
        done.fetched.append(file.path)
    changed: list[Unpacked] = []
    for pattern, folder in unpack:
        archive = held[pattern]
        if unpacked.get(pattern) == states[pattern] and (
            archive.stands or (local_path(target, folder).is_dir() and not archive.known)
        ):
            done.unchanged.append(pattern)
            continue
        archive.unpack(_unpacker(repo, listing.commit, archives[pattern], endpoint, first_wait_s))
        changed.append(archive)
        unpacked[pattern] = states[pattern]
        done.unpacked.append((pattern, len(archive.members())))
    # Old members go only when all new ones are unpacked.
    for archive in changed:
        archive.retire_others()
    names = {file.path for file in wanted}
    _remove_files(target, set(old) - names, done)
    # Members of this revision stay even where an older archive had the same name.
    names = names.union(*(archive.members() for archive in held.values()))
    _replace_members(changed, names, done)
    # The record last: killed before it, the next pull looks at every file again.
    _write_record(target, {"repo": repo, "asked": revision, "commit": listing.commit, "unpacked": unpacked}, wanted)
    for archive in changed:
        archive.forget_others()
    if pinned is not None and revision is None:
        # Asked only where nobody named a revision: then a newer one is worth telling of.
        newest = list_repository(repo, None, endpoint=endpoint, first_wait_s=first_wait_s).commit
        done.newer = newest if newest != listing.commit else None
    return done


def _require_list(target: Path, pattern: str, archive: Unpacked) -> None:
    """Raises `PullError` for an archive whose old members nobody could tell from the new ones."""
    if not archive.known:
        raise PullError(
            f"{target}: {pattern!r} has changed since it was unpacked: expected a list of its old members, so that "
            "none of them stays, found none (older versions wrote no list); move this folder away and pull anew"
        )


def _replace_members(changed: Sequence[Unpacked], names: Collection[str], done: Pulled) -> None:
    """New members take the places of old ones, all of which are gone by then; `names` stay."""
    for archive in changed:
        done.removed += archive.remove_others(names)
    for archive in changed:
        archive.move_in()


def _remove_files(target: Path, gone: Collection[str], done: Pulled) -> None:
    """Remove what a new revision doesn't have any more."""
    for path in sorted(gone):
        local = local_path(target, path)
        # Somebody may have removed it already; then this pull didn't.
        if local.exists():
            local.unlink()
            done.removed.append(path)


def list_repository(
    repo: str, revision: str | None, *, endpoint: str | None = None, first_wait_s: float = FIRST_WAIT_S
) -> Listing:
    """Commit and files of a repository. Raises `PullError`: no such repository or revision, gated, no answer."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi(endpoint=endpoint)
    try:
        info = _retried(
            lambda: api.dataset_info(repo, revision=revision, files_metadata=True, timeout=30), repo, first_wait_s
        )
    except GatedRepoError as error:
        raise PullError(f"{repo}: its owners ask for consent first: log in with `hf auth login` and accept") from error
    except RevisionNotFoundError as error:
        raise PullError(f"{repo}: no revision {revision!r}") from error
    except RepositoryNotFoundError as error:
        raise PullError(f"{repo}: no such dataset repository, or it isn't public") from error
    commit = str(info.sha)
    # A hub that answers with another commit than was asked for isn't believed.
    if revision is not None and _is_commit(revision) and commit != revision:
        raise PullError(f"{repo}: asked for commit {revision}, the hub answered with {commit}")
    found = [
        RemoteFile(
            file.rfilename, int(file.size or 0), getattr(file.lfs, "sha256", None) if file.lfs else None, file.blob_id
        )
        for file in info.siblings or []
    ]
    return Listing(repo, commit, tuple(sorted(found, key=lambda file: file.path)))


def read_record(target: Path) -> dict[str, Any] | None:
    """What the last pull recorded, or None. Raises `PullError` on a record that can't be read."""
    path = target / RECORD
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not {"repo", "commit", "files", "stamps", "unpacked"} <= set(found):
            raise ValueError("expected repo, commit, files, stamps and unpacked")
        for entry in found["files"]:
            if why := refused(RemoteFile(**entry).path):
                raise ValueError(f"{entry['path'][:120]!r} {why}")
    except (ValueError, TypeError, AttributeError) as error:
        raise PullError(f"{path}: {error}; remove it to pull anew") from error
    return dict(found)


def _rename(target: Path, old: dict[str, RemoteFile], wanted: list[RemoteFile], done: Pulled) -> None:
    """Take along what a new revision only renamed, by its checksum."""
    known = {(file.sha256 or file.blob): path for path, file in old.items()}
    paths = {file.path for file in wanted}
    for file in wanted:
        before = known.get(file.sha256 or file.blob)
        here = local_path(target, file.path)
        if before is None or before in paths or here.exists() or not file.matches(local_path(target, before)):
            continue
        here.parent.mkdir(parents=True, exist_ok=True)
        local_path(target, before).rename(here)
        done.renamed.append((before, file.path))


def _stamp(path: Path) -> str:
    """Size and time of change: while they stand, a file that was verified once isn't hashed again."""
    status = path.stat() if path.is_file() else None
    return f"{status.st_size} {status.st_mtime_ns}" if status else "none"


def _fetch(repo: str, commit: str, file: RemoteFile, target: Path, endpoint: str | None, first_wait_s: float) -> None:
    """One file, by the hub's own client (it resumes what a killed pull left); verified, twice at most."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    local_path(target, file.path)
    # A second time from the start: what resumed a damaged part would be damaged again.
    for force in (False, True):

        def download(force: bool = force) -> str:
            return str(
                hf_hub_download(
                    repo,
                    file.path,
                    repo_type="dataset",
                    revision=commit,
                    local_dir=target,
                    endpoint=endpoint,
                    force_download=force,
                )
            )

        try:
            path = Path(_retried(download, f"{repo}: {file.path}", first_wait_s))
        except EntryNotFoundError as error:
            raise PullError(f"{repo} at {commit[:12]}: {file.path!r} is listed, but gone") from error
        if file.matches(path):
            return
        path.unlink()
    raise PullError(
        f"{repo} at {commit[:12]}: {file.path!r} came twice with another checksum than the hub says; it isn't stored"
    )


def _unpacker(
    repo: str, commit: str, parts: Sequence[RemoteFile], endpoint: str | None, first_wait_s: float
) -> Callable[[Path], int]:
    return lambda folder: unpack_remote(repo, commit, parts, folder, endpoint=endpoint, first_wait_s=first_wait_s)


def _retried(call: Callable[[], Any], what: str, first_wait_s: float) -> Any:
    """Call, and call again after a pause where the server was busy or failing. Raises `PullError` when it stays so;
    what the hub says for good (404, 403) passes through."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wait, last = first_wait_s, ""
    for attempt in range(ATTEMPTS):
        try:
            return call()
        except HfHubHTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            # Gone, forbidden, unknown: asking again changes nothing.
            if status not in RETRIED:
                raise
            last = f"HTTP {status}"
        except (httpx2.HTTPError, LocalEntryNotFoundError, OSError) as error:
            last = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
        if attempt < ATTEMPTS - 1:
            time.sleep(wait)
            wait *= 2
    raise PullError(f"{what}: the hub didn't answer in {ATTEMPTS} attempts; last: {last}")


def _write_record(target: Path, plain: dict[str, Any], files: Sequence[RemoteFile]) -> None:
    path = target / RECORD
    stamps = {file.path: _stamp(local_path(target, file.path)) for file in files}
    whole = {**plain, "files": [asdict(file) for file in files], "stamps": stamps}
    with whole_file(path, alone=True) as part:
        part.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _is_commit(revision: str) -> bool:
    return len(revision) == 40 and all(char in "0123456789abcdef" for char in revision)
