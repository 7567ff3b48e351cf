"""Archives of a stand-in for the hub, unpacked on the way: parts, changed members, killed updates, full disks."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from hub import REPO, Hub, gets, pull

from pipelines.raw.archives import ArchiveError
from pipelines.raw.remote_file import PullError
from pipelines.raw.unpacked import unpacked_folders
from schemas.ids import digest

pytestmark = pytest.mark.slow


def tarred(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


PICTURES = {f"screens/{n}.png": random.Random(n).randbytes(120_000) for n in range(6)}


def test_a_tar_in_parts_is_unpacked_on_the_way(hub: Hub, tmp_path: Path) -> None:
    whole = tarred(PICTURES)
    parts = {f"img/all.tar.gz.part-{n:03}": whole[n * 100_000 : (n + 1) * 100_000] for n in range(8)}
    hub.commit(REPO, {"rows.json": b"[]", **parts})
    hub.faults["GET img/all.tar.gz.part-003"] = ["500", "cut:5000"]
    unpack = [("img/all.tar.gz.part-*", "images")]
    done = pull(hub, tmp_path, unpack=unpack)
    assert done.unpacked == [("img/all.tar.gz.part-*", 6)] and done.fetched == ["rows.json"]
    assert {name: (tmp_path / "images" / name).read_bytes() for name in PICTURES} == PICTURES
    assert not list(tmp_path.rglob("*.part-*")), "no archive is stored"
    hub.requests.clear()
    assert pull(hub, tmp_path, unpack=unpack).unpacked == []
    assert gets(hub, "part-003") == 0


def test_a_part_with_another_checksum_is_refused(hub: Hub, tmp_path: Path) -> None:
    whole = tarred(PICTURES) + bytes(2000)  # what follows the archive's end is read, and hashed, too
    hub.commit(REPO, {"a.tar.gz.part-0": whole[:300_000], "a.tar.gz.part-1": whole[300_000:]})
    hub.faults["GET a.tar.gz.part-1"] = ["corrupt"] * 99
    with pytest.raises((PullError, ArchiveError), match="a.tar.gz"):
        pull(hub, tmp_path, unpack=[("a.tar.gz.part-*", "images")])
    assert not (tmp_path / ".vesper/pull.json").exists() and unpacked(tmp_path) == {}
    hub.faults.clear()
    pull(hub, tmp_path, unpack=[("a.tar.gz.part-*", "images")])
    assert unpacked(tmp_path / "images") == PICTURES


OLD = {"1.json": b'{"x": 100}', "2.json": b'{"y": 1}', "deep/3.json": b"{}"}
NEW = {"1.json": b'{"x": 900}', "deep": b"a file now", "4.json": b"[]"}
OTHER = {"2.json": b"moved here", "rows/5.json": b"5"}
UNPACK = [("a.tar.gz", "."), ("b.tar.gz", ".")]


def unpacked(folder: Path) -> dict[str, bytes]:
    """All files but hidden ones."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {name.as_posix(): (folder / name).read_bytes() for name in names if not name.as_posix().startswith(".")}


def test_an_archive_that_changed_leaves_no_old_member(hub: Hub, tmp_path: Path) -> None:
    """A member of the same size, one that vanished, one that another archive of the same folder has now."""
    first = hub.commit(REPO, {"rows.json": b"[1]", "a.tar.gz": tarred(OLD), "b.tar.gz": tarred({"5.json": b"5"})})
    pull(hub, tmp_path, unpack=UNPACK)
    assert unpacked(tmp_path) == {"rows.json": b"[1]", **OLD, "5.json": b"5"}
    hub.commit(REPO, {"rows.json": b"[1]", "a.tar.gz": tarred(NEW), "b.tar.gz": tarred(OTHER)})
    moved = pull(hub, tmp_path, unpack=UNPACK, update=True)
    assert unpacked(tmp_path) == {"rows.json": b"[1]", **NEW, **OTHER}
    assert sorted(moved.removed) == ["5.json", "deep/3.json"] and not list(tmp_path.rglob("*.gone"))
    assert pull(hub, tmp_path, unpack=UNPACK).unpacked == []
    pull(hub, tmp_path, unpack=UNPACK, revision=first)
    assert unpacked(tmp_path) == {"rows.json": b"[1]", **OLD, "5.json": b"5"}


@pytest.mark.parametrize(("onwards", "first"), [("the same", 0), ("back", 1), ("on", 2)])
def test_an_update_that_is_killed_anywhere_is_ended_by_the_next(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, onwards: str, first: int
) -> None:
    """Each third step in each case: all of them take a minute."""

    class Killed(BaseException):
        pass

    states = {"back": {**OLD, "5.json": b"5"}, "the same": {**NEW, **OTHER}, "on": {"6.json": b"6", "7.json": b"7"}}
    archives = {"back": (OLD, {"5.json": b"5"}), "the same": (NEW, OTHER), "on": ({"6.json": b"6"}, {"7.json": b"7"})}
    commits = {
        name: hub.commit(REPO, {"a.tar.gz": tarred(a), "b.tar.gz": tarred(b)}) for name, (a, b) in archives.items()
    }
    steps = 0
    replace, rename, unlink = os.replace, Path.replace, Path.unlink
    for limit in range(first, 100, 3):
        left, folder = limit, tmp_path / f"{limit}"

        def step(name: object, folder: Path = folder) -> None:
            nonlocal left, steps
            if str(folder) in str(name) and "huggingface" not in str(name):
                if left == 0:
                    raise Killed
                left -= 1

        pull(hub, folder, unpack=UNPACK, revision=commits["back"])
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", lambda a, b: (step(a), replace(a, b)))
            patched.setattr(Path, "replace", lambda self, to: (step(self), rename(self, to)))
            patched.setattr(Path, "unlink", lambda self, missing_ok=False: (step(self), unlink(self, missing_ok)))
            left = limit
            try:
                pull(hub, folder, unpack=UNPACK, revision=commits["the same"])
            except Killed:
                steps += 1
            else:
                break
        pull(hub, folder, unpack=UNPACK, revision=commits[onwards])
        assert unpacked(folder) == states[onwards], f"killed before step {limit}"
        in_place = [path for path in folder.rglob("*.whole") if not path.with_suffix("").is_dir()]
        assert not list(folder.rglob("*.gone")) and len(in_place) == 2
    assert steps > 4


def test_an_archive_whose_members_were_never_listed_is_not_mixed_with_another(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"a.tar.gz": tarred(OLD)})
    pull(hub, tmp_path, unpack=UNPACK[:1])
    shutil.rmtree(tmp_path / ".vesper/unpacked")  # as older versions left it
    assert pull(hub, tmp_path, unpack=UNPACK[:1]).unpacked == []
    hub.commit(REPO, {"a.tar.gz": tarred(NEW), "rows.json": b"[2]"})
    with pytest.raises(
        PullError, match="expected a list of its old members.*found none.*move this folder away and pull anew"
    ):
        pull(hub, tmp_path, unpack=UNPACK[:1], update=True)
    assert unpacked(tmp_path) == OLD  # and no plain file of the new revision beside them


def test_an_update_that_breaks_off_costs_nothing_of_what_is_there(hub: Hub, tmp_path: Path) -> None:
    random_tar = tarred(PICTURES)
    hub.commit(REPO, {"a.tar.gz": random_tar})
    pull(hub, tmp_path, unpack=UNPACK[:1])
    newer = {**PICTURES, "screens/6.png": random.Random(6).randbytes(120_000)}
    hub.commit(REPO, {"a.tar.gz": tarred(newer)})
    hub.faults["GET a.tar.gz"] = [f"cut:{300_000}", *["500"] * 99]
    with pytest.raises((PullError, ArchiveError), match="a.tar.gz"):
        pull(hub, tmp_path, unpack=UNPACK[:1], update=True)
    hub.faults.clear()
    hub.requests.clear()
    kept = pull(hub, tmp_path, unpack=UNPACK[:1])
    assert kept.unchanged == ["a.tar.gz"] and kept.unpacked == [] and kept.newer and gets(hub, "a.tar.gz") == 0
    assert unpacked(tmp_path) == PICTURES
    assert pull(hub, tmp_path, unpack=UNPACK[:1], update=True).unpacked == [("a.tar.gz", 7)]
    assert unpacked(tmp_path) == newer and not unpacked_folders(tmp_path)


def test_a_full_disk_keeps_what_was_unpacked(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit(REPO, {"a.tar.gz": tarred(PICTURES)})
    replace, done = Path.replace, list[Path]()

    def full(self: Path, to: Path) -> Path:
        if self.name.endswith(".part") and len(done) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        done.append(self)
        return replace(self, to)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(ArchiveError, match="No space left on device"):
            pull(hub, tmp_path, unpack=UNPACK[:1])
    [left] = unpacked_folders(tmp_path)
    assert len(list(left.rglob("*.png"))) == 3
    pull(hub, tmp_path, unpack=UNPACK[:1])
    assert unpacked(tmp_path) == PICTURES


def test_zips_cut_by_size_and_split_by_zip_are_unpacked(hub: Hub, tmp_path: Path) -> None:
    if shutil.which("zip") is None:
        pytest.skip("no zip program here to split a zip with")
    for name, data in PICTURES.items():
        path = tmp_path / "made" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for option in (["-s", "200k", "split.zip"], ["whole.zip"]):
        subprocess.run(["zip", "-q", "-r", *option, "screens"], cwd=tmp_path / "made", check=True)
    whole = (tmp_path / "made/whole.zip").read_bytes()
    split = {path.name: path.read_bytes() for path in sorted((tmp_path / "made").glob("split.z*"))}
    assert len(split) > 2
    hub.commit(REPO, {"cut_aa": whole[:250_000], "cut_ab": whole[250_000:], **split})
    done = pull(hub, tmp_path / "raw", unpack=[("cut_a?", "cut"), ("split.z*", "split")])
    assert [count for _, count in done.unpacked] == [6, 6]
    for folder in ("cut", "split"):
        assert {name: (tmp_path / "raw" / folder / name).read_bytes() for name in PICTURES} == PICTURES


def test_an_archive_that_names_our_lists_is_refused_and_nothing_outside_goes(hub: Hub, tmp_path: Path) -> None:
    raw, precious = tmp_path / "raw", tmp_path / "home" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    lists = f".vesper/unpacked/{digest('a.tar.gz')[:16]}"
    planted = {"1.json": b"{}", f"{lists}/planted.whole": b'["../home/precious.txt", "rows.json"]'}
    hub.commit(REPO, {"rows.json": b"[1]", "a.tar.gz": tarred(planted)})
    with pytest.raises(ArchiveError, match="book-keeping"):
        pull(hub, raw, unpack=[("a.tar.gz", ".")])
    assert not list(raw.rglob("planted*"))


@pytest.mark.parametrize("name", ["../home/precious.txt", "/etc/hostname", "link/precious.txt", ".vesper/pull.json"])
def test_a_list_with_a_name_that_no_member_has_removes_nothing(name: str, hub: Hub, tmp_path: Path) -> None:
    """Lists that an archive planted before such members were refused."""
    raw, precious = tmp_path / "raw", tmp_path / "home" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")
    hub.commit(REPO, {"a.tar.gz": tarred(OLD)})
    pull(hub, raw, unpack=[("a.tar.gz", ".")])
    (raw / "link").symlink_to(precious.parent)
    planted = raw / ".vesper/unpacked" / digest("a.tar.gz")[:16] / "planted.whole"
    planted.write_text(json.dumps([name, "1.json"]))
    hub.commit(REPO, {"a.tar.gz": tarred({"4.json": b"[]"})})
    with pytest.raises(PullError, match="leads out|book-keeping"):
        pull(hub, raw, unpack=[("a.tar.gz", ".")], update=True)
    assert precious.read_text() == "mine"
    assert (raw / "1.json").is_file() and (raw / ".vesper/pull.json").is_file()


def test_a_repository_puts_nothing_into_the_book_keeping(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"rows.json": b"[1]", ".vesper/unpacked/0/x.whole": b"[]"})
    with pytest.raises(PullError, match="book-keeping"):
        pull(hub, tmp_path)
    assert not (tmp_path / ".vesper/unpacked").exists()


def test_a_record_with_a_name_that_leads_out_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"rows.json": b"[1]", "old.json": b"[2]"})
    pull(hub, tmp_path / "raw")
    (tmp_path / "old.json").write_bytes(b"[2]")
    record = tmp_path / "raw/.vesper/pull.json"
    record.write_text(record.read_text().replace('"old.json"', '"../old.json"'))
    hub.commit(REPO, {"rows.json": b"[1]"})
    with pytest.raises(PullError, match="leads out"):
        pull(hub, tmp_path / "raw", update=True)
    assert (tmp_path / "old.json").exists()
