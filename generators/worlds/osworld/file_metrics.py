"""What evaluators ask of files: their text, what is in an archive, a picture's size. Files are the agent's:
one that can't be read is as none."""

import io
import tarfile
import zipfile
import zlib

from PIL import Image

from generators.worlds.osworld.pattern_search import RuleError
from generators.worlds.osworld.task_file import JsonObject
from generators.worlds.osworld.task_machine import FetchedFile

MAX_UNPACKED = 64 << 20
MAX_PIXELS = 1 << 25


def file_of(value: object) -> FetchedFile | None:
    """A getter's value as a file; None where it is none."""
    return value if isinstance(value, FetchedFile) else None


def text_of(value: object) -> str | None:
    """The text of a file; None without one."""
    file = file_of(value)
    return None if file is None else file.text.replace("\r\n", "\n")


def lines_of(value: object) -> list[str] | None:
    """The lines of a file; None without one."""
    text = text_of(value)
    return None if text is None else text.splitlines()


def members(file: FetchedFile) -> dict[str, bytes] | None:
    """Path → what it holds, of the files in a zip or tar archive; None for a file that is none, or unpacks to more
    than 64 MiB."""
    found: dict[str, bytes] = {}
    left = MAX_UNPACKED
    try:
        if zipfile.is_zipfile(io.BytesIO(file.data)):
            with zipfile.ZipFile(io.BytesIO(file.data)) as held:
                for info in (one for one in held.infolist() if not one.is_dir()):
                    with held.open(info) as inner:
                        found[info.filename] = inner.read(left + 1)
                    left -= len(found[info.filename])
                    if left < 0:
                        return None
            return found
        with tarfile.open(fileobj=io.BytesIO(file.data)) as packed:
            for entry in packed:
                opened = packed.extractfile(entry) if entry.isfile() else None
                if opened is not None:
                    found[entry.name.removeprefix("./")] = opened.read(left + 1)
                    left -= len(found[entry.name.removeprefix("./")])
                if left < 0:
                    return None
    except (OSError, tarfile.TarError, zipfile.BadZipFile, RuntimeError, EOFError, zlib.error, ValueError):
        return None
    return found


def compare_archives(result: object, expected: object, options: JsonObject) -> float:
    """The share of the texts in which two archives agree, below a folder where `file_path` names one; 0 where their
    names differ. Archives of other kinds of files raise `RuleError`."""
    kind, below = options.get("file_type", "text"), str(options.get("file_path", "")).strip("/")
    if kind != "text":
        raise RuleError(f"compare_archive: expected a file_type of text, found {kind!r:.40}")
    held = []
    for file in (file_of(result), file_of(expected)):
        inner = members(file) if file is not None else None
        if inner is None:
            return 0.0
        held.append({name: data for name, data in inner.items() if not below or name.startswith(f"{below}/")})
    if held[0].keys() != held[1].keys() or not held[1]:
        return 0.0
    same = [held[0][name].replace(b"\r\n", b"\n") == held[1][name].replace(b"\r\n", b"\n") for name in held[1]]
    return sum(same) / len(same)


def picture_size(value: object, ignore_transparent: bool = False) -> tuple[int, int] | None:
    """Width and height in pixels, of what isn't transparent if that is asked for; None for a file that is no
    picture."""
    file = file_of(value)
    try:
        with Image.open(io.BytesIO(file.data if file else b"")) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                return None
            box = opened.convert("RGBA").getchannel("A").getbbox() if ignore_transparent else (0, 0, *opened.size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return (0, 0) if box is None else (box[2] - box[0], box[3] - box[1])
