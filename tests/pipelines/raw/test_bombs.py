"""What a small archive or compressed file can ask for: refused before it is held, in little memory and time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines import decompression
from pipelines.decompression import BombError, open_plain, unpacked_gzip
from pipelines.mapping.adapter import Broken, Raw
from pipelines.native.record_readers import json_lines
from pipelines.raw.archives import ArchiveError, unpack

MEBI = 1 << 20


def _header(name: str, kind: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


def _pax(text: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return _header("././@PaxHeader", kind, len(text)) + text + bytes(-len(text) % 512)


def _global(number: int) -> bytes:
    body = b"k%06d=" % number + b"v" * (500 << 10) + b"\n"
    length = len(body) + 8
    return _pax(b"%07d " % length + body, tarfile.XGLTYPE) + _header(f"{number}", tarfile.REGTYPE, 0)


def _zeros(count: int) -> Iterator[bytes]:
    return (bytes(MEBI) for _ in range(count))


BOMBS: dict[str, Callable[[], Iterator[bytes]]] = {
    "a pax header of 300 MiB": lambda: iter((_header("p", tarfile.XHDTYPE, 300 * MEBI), *_zeros(300))),
    "a long name of 300 MiB": lambda: iter((_header("l", tarfile.GNUTYPE_LONGNAME, 300 * MEBI), *_zeros(300))),
    "a long link of 300 MiB": lambda: iter((_header("l", tarfile.GNUTYPE_LONGLINK, 300 * MEBI), *_zeros(300))),
    "a global header in front of each member": lambda: (_global(number) for number in range(600)),
    "a name of 8,000 folders": lambda: iter((_pax(b"16019 path=" + b"a/" * 8003 + b"x\n"), _header("x", b"0", 0))),
}


def _packed(path: Path, blocks: Iterator[bytes]) -> Path:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as out:
        for block in blocks:
            out.write(packer.compress(block))
        out.write(packer.flush())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_headers_of_a_tar_count_before_they_are_held(bomb: str, tmp_path: Path) -> None:
    archive = _packed(tmp_path / "bomb.tar.gz", BOMBS[bomb]())
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(ArchiveError, match=r"^bomb\.tar\.gz"):
        unpack(archive, tmp_path / "cache")
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 2 and peak < 32 * MEBI
    assert list((tmp_path / "cache").iterdir()) == []


def test_empty_members_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "RATIO_FROM", 2 * MEBI)
    monkeypatch.setattr(decompression, "MAX_RATIO", 20)  # equal headers pack some 100 to 1
    one = _header("same", tarfile.REGTYPE, 0)
    with pytest.raises(ArchiveError, match="bomb"):
        unpack(_packed(tmp_path / "many.tar.gz", iter([one * 5000])), tmp_path / "cache")


@pytest.mark.parametrize("name", [".vesper/pull.json", "a/.vesper/unpacked/x.whole", ".Vesper/x", "./.vesper/x"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_no_member_lands_in_the_book_keeping(name: str, kind: str, tmp_path: Path) -> None:
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr(name, "[]")
    else:
        with tarfile.open(archive, "w") as out:
            out.addfile(tarfile.TarInfo(name))
    with pytest.raises(ArchiveError, match="lies in the book-keeping of a pull"):
        unpack(archive, tmp_path / "cache")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_each_kind_of_tar_is_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    plain = io.BytesIO()
    long = "deep/" * 30 + "name" * 30
    with tarfile.open(fileobj=plain, mode="w") as out:
        for name, size in (("a", 3), (long, 200_000), ("empty", 0)):
            entry = tarfile.TarInfo(name)
            entry.size = size
            out.addfile(entry, io.BytesIO(b"x" * size))
    half = len(plain.getvalue()) // 2
    whole = pack(plain.getvalue()[:half]) + pack(plain.getvalue()[half:])  # two packed streams in a row are one
    (tmp_path / "a.tar.gz").write_bytes(whole)
    folder = unpack(tmp_path / "a.tar.gz", tmp_path / "cache")
    assert {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()
    } == {
        "a": 3,
        long: 200_000,
        "empty": 0,
    }
    if pack is not bytes:
        (tmp_path / "cut.tar.gz").write_bytes(whole[:-60])
        with pytest.raises(ArchiveError, match="damaged"):
            unpack(tmp_path / "cut.tar.gz", tmp_path / "cache")


def test_xz_that_asks_for_too_much_memory_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * MEBI}]
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(bytes(1024), filters=filters))
    with pytest.raises(ArchiveError, match="[Mm]emory"):
        unpack(tmp_path / "a.tar.xz", tmp_path / "cache")


def test_compressed_records_stop_at_the_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "RATIO_FROM", MEBI)
    _packed(tmp_path / "rows.jsonl.gz", iter([b'{"a": 1}\n', *_zeros(8)]))
    *sound, last = json_lines(Raw(tmp_path), "rows.jsonl.gz")
    assert len(sound) <= 1
    assert isinstance(last, Broken) and "bomb" in last.detail
    with pytest.raises(BombError):
        unpacked_gzip((tmp_path / "rows.jsonl.gz").read_bytes())


def test_sound_compressed_files_are_read_whole(tmp_path: Path) -> None:
    plain = b"".join(b"%d\n" % number for number in range(50_000))
    (tmp_path / "a.gz").write_bytes(gzip.compress(plain[:1000]) + gzip.compress(plain[1000:]))
    with open_plain(tmp_path / "a.gz") as stream:
        assert stream.read() == plain
    assert unpacked_gzip((tmp_path / "a.gz").read_bytes()) == plain
    (tmp_path / "b.gz").write_bytes(b"plain")
    with pytest.raises(gzip.BadGzipFile):
        open_plain(tmp_path / "b.gz")
