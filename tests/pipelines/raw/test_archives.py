"""Archives from strangers: what is refused leaves nothing behind."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pipelines import decompression
from pipelines.raw.archives import ArchiveError, unpack


def _zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


def test_a_zip_is_unpacked_once(tmp_path: Path) -> None:
    archive = _zip(tmp_path / "a.zip", {"train/x.json": b"[]", "train/y/z.png": b"1"})
    folder = unpack(archive, tmp_path / "cache")
    assert (folder / "train/y/z.png").read_bytes() == b"1"
    stamp = (folder / "train/x.json").stat().st_mtime_ns
    assert unpack(archive, tmp_path / "cache") == folder
    assert (folder / "train/x.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize("name", ["../evil.txt", "a/../../evil.txt", "/etc/evil.txt", "..\\evil.txt", "C:\\evil.txt"])
def test_zip_slip_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    archive = _zip(tmp_path / "slip.zip", {"good.txt": b"1", name: b"evil"})
    with pytest.raises(ArchiveError, match="leads out"):
        unpack(archive, tmp_path / "cache")
    assert not list(tmp_path.rglob("*evil*"))
    assert not list((tmp_path / "cache").iterdir())


def test_links_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "link.tar", "w") as out:
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(link)
    with pytest.raises(ArchiveError, match="'passwd' is a link"):
        unpack(tmp_path / "link.tar", tmp_path / "cache")
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as zipped:
        info = zipfile.ZipInfo("passwd")
        info.external_attr = 0o120777 << 16
        zipped.writestr(info, "/etc/passwd")
    with pytest.raises(ArchiveError, match="'passwd' is a link"):
        unpack(tmp_path / "link.zip", tmp_path / "cache")


def test_bombs_and_damage_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "RATIO_FROM", 1 << 20)
    with pytest.raises(ArchiveError, match="bomb"):
        unpack(_zip(tmp_path / "bomb.zip", {"zeros": bytes(8 << 20)}), tmp_path / "cache")
    whole = _zip(tmp_path / "whole.zip", {"a": bytes(range(256)) * 100}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match="damaged"):
        unpack(tmp_path / "cut.zip", tmp_path / "cache")
    stream = io.BytesIO(b"not gzip")
    (tmp_path / "no.tar.gz").write_bytes(stream.read())
    with pytest.raises(ArchiveError, match="damaged"):
        unpack(tmp_path / "no.tar.gz", tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("forged", [{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, {"GNU.sparse.map": "0,x"}])
def test_forged_headers_are_damage(tmp_path: Path, forged: dict[str, str]) -> None:
    with tarfile.open(tmp_path / "sparse.tar", "w", format=tarfile.PAX_FORMAT) as out:
        member = tarfile.TarInfo("a")
        member.pax_headers = forged | {"GNU.sparse.name": "a", "GNU.sparse.realsize": str(1 << 40)}
        out.addfile(member)
    with pytest.raises(ArchiveError, match="sparse.tar: damaged"):
        unpack(tmp_path / "sparse.tar", tmp_path / "cache")
