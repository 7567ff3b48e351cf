"""Files that tasks name by their addresses, out of a folder beside them: nothing is downloaded.

Below `file_cache` of the tasks' folder lies what the address names after `resolve/REVISION/` (so the dataset
`xlangai/ubuntu_osworld_file_cache` fits as it is), or else a file of that base name below DOMAIN/ID.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from generators.worlds.osworld.task_machine import FetchedFile

FOLDER = "file_cache"
MAX_BYTES = 32 << 20


def file_of(folder: Path, address: str, domain: str, task_id: str) -> FetchedFile | None:
    """The file of an address; None where the folder has none that may be read (32 MiB at most, and below it)."""
    root = (folder / FOLDER).resolve()
    path = unquote(urlsplit(address).path)
    name = path.rpartition("/")[2]
    tail = path.partition("/resolve/")[2].partition("/")[2]
    for relative in (tail, f"{domain}/{task_id}/{name}"):
        if not relative or "\0" in relative:
            continue
        found = (root / relative).resolve()
        # a link or ".." in the address may lead anywhere; only what lies below the cache is anybody's business
        if found.is_relative_to(root) and found.is_file() and found.stat().st_size <= MAX_BYTES:
            return FetchedFile(name, found.read_bytes())
    return None
