"""Pulling from a stand-in for the hub, through the real client libraries: faults, revisions, archives on the way."""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub import Hub, serve

from pipelines.mapping.card import Download
from pipelines.raw import hub as pulling
from pipelines.raw.archives import ArchiveError
from pipelines.raw.pull import copy_tree, pull_source
from pipelines.raw.remote_file import PullError
from pipelines.raw.unpacked import unpacked_folders

REPO = "acme/gui"
BIG = random.Random(0).randbytes(3_000_000)
FILES = {"data/rows.json": b"[1, 2]", "data/big.bin": BIG, ".gitattributes": b"*"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    made = Hub()
    with serve(made):
        yield made


def pull(hub: Hub, target: Path, **more: object) -> pulling.Pulled:
    return pulling.pull(REPO, target, endpoint=hub.url, first_wait_s=0.01, **more)  # type: ignore[arg-type]


def gets(hub: Hub, name: str) -> int:
    return sum(line.startswith("GET /datasets/") and line.endswith(name) for line in hub.requests)


def test_a_second_pull_fetches_nothing(hub: Hub, tmp_path: Path) -> None:
    commit = hub.commit(REPO, FILES)
    assert sorted(pull(hub, tmp_path).fetched) == ["data/big.bin", "data/rows.json"]
    assert (tmp_path / "data/big.bin").read_bytes() == BIG
    record = json.loads((tmp_path / ".vesper/pull.json").read_text())
    assert (
        record["commit"] == commit
        and record["files"][0]["sha256"] == pulling.read_record(tmp_path)["files"][0]["sha256"]
    )  # type: ignore[index]
    hub.requests.clear()
    assert pull(hub, tmp_path).fetched == []
    assert not [line for line in hub.requests if line.startswith("GET /datasets/")]


@pytest.mark.parametrize(
    "faults",
    [["429", "429"], ["500", "503"], ["cut:70000", "cut:900000"], ["corrupt"], ["cut:1000", "500", "corrupt"]],
    ids=",".join,
)
def test_a_passing_fault_costs_no_byte(hub: Hub, tmp_path: Path, faults: list[str]) -> None:
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = list(faults)
    hub.faults["API"] = ["429", "500"]
    pull(hub, tmp_path)
    assert (tmp_path / "data/big.bin").read_bytes() == BIG
    assert hub.faults["GET data/big.bin"] == [] == hub.faults["API"]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 50_000)  # 10 MB: longer than the file
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = ["cut:2000000"]
    pull(hub, tmp_path)
    assert hub.bytes_sent < len(BIG) + 100_000, "the first two million bytes weren't fetched twice"


def test_a_lying_hub_is_refused_and_leaves_nothing(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    hub.faults["GET data/big.bin"] = ["corrupt"] * 9
    with pytest.raises(PullError, match="'data/big.bin' came twice with another checksum"):
        pull(hub, tmp_path)
    assert not (tmp_path / "data/big.bin").exists()
    hub.faults.clear()
    assert "data/big.bin" in pull(hub, tmp_path).fetched


def test_a_hub_that_stays_down_ends_in_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    hub.faults["API"] = ["500"] * 9
    with pytest.raises(PullError, match=r"^acme/gui: the hub didn't answer in 5 attempts; last: HTTP 500$"):
        pull(hub, tmp_path)
    hub.faults.clear()
    hub.gated.add(REPO)
    with pytest.raises(PullError, match="ask for consent"):
        pull(hub, tmp_path)
    hub.gated.clear()
    with pytest.raises(PullError, match="no revision 'v9'"):
        pull(hub, tmp_path, revision="v9")
    with pytest.raises(PullError, match="no such dataset repository"):
        pulling.pull("acme/none", tmp_path, endpoint=hub.url, first_wait_s=0.01)


def test_a_damaged_local_file_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, FILES)
    pull(hub, tmp_path)
    (tmp_path / "data/big.bin").write_bytes(BIG[:-1] + b"?")
    assert pull(hub, tmp_path).fetched == ["data/big.bin"]
    assert (tmp_path / "data/big.bin").read_bytes() == BIG


def test_a_new_revision_is_told_and_taken_only_on_update(hub: Hub, tmp_path: Path) -> None:
    first = hub.commit(REPO, FILES)
    pull(hub, tmp_path)
    second = hub.commit(REPO, {"data/rows.json": b"[1, 2, 3]", "data/large.bin": BIG})
    stayed = pull(hub, tmp_path)
    assert (stayed.commit, stayed.newer, stayed.fetched) == (first, second, [])
    hub.requests.clear()
    moved = pull(hub, tmp_path, update=True)
    assert moved.commit == second and moved.fetched == ["data/rows.json"]
    assert moved.renamed == [("data/big.bin", "data/large.bin")] and gets(hub, "large.bin") == 0
    assert not (tmp_path / "data/big.bin").exists() and (tmp_path / "data/large.bin").read_bytes() == BIG
    back = pull(hub, tmp_path, revision=first)
    assert back.commit == first and (tmp_path / "data/rows.json").read_bytes() == b"[1, 2]"


def test_a_renamed_file_that_a_pattern_asks_for_is_an_error(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"data/train_new.json": b"[]"})
    with pytest.raises(
        PullError, match=r"no file matches 'data/train\.json'; was it renamed\? There are data/train_new"
    ):
        pull(hub, tmp_path, files=("data/train.json",))


def test_a_name_that_leads_out_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"../evil.json": b"[]"})
    with pytest.raises(PullError, match="leads out of the folder"):
        pull(hub, tmp_path / "raw")
    assert not (tmp_path / "evil.json").exists()


def test_a_killed_pull_is_taken_up(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {f"part-{n:02}.bin": BIG for n in range(4)} | {"last.bin": BIG[:-1]})
    hub.faults["GET part-02.bin"] = ["hang"] * 3
    code = f"from pathlib import Path; from pipelines.raw.hub import pull; pull({REPO!r}, Path({str(tmp_path)!r}))"
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
    for _ in range(300):
        if (tmp_path / "part-01.bin").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    assert (tmp_path / "part-01.bin").exists() and not (tmp_path / ".vesper/pull.json").exists()
    hub.faults.clear()
    done = pull(hub, tmp_path)
    assert {"part-00.bin", "part-01.bin"} <= set(done.kept) and "part-03.bin" in done.fetched
    assert all((tmp_path / f"part-{n:02}.bin").read_bytes() == BIG for n in range(4))


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
    assert kept.kept == ["a.tar.gz"] and kept.unpacked == [] and kept.newer and gets(hub, "a.tar.gz") == 0
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


def test_rows_are_streamed_without_the_rest(hub: Hub, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from webnative import png

    sink = pa.BufferOutputStream()
    pictures = [png(40, 30, n) + random.Random(n).randbytes(20_000) for n in range(300)]
    rows = [{"image": {"bytes": data, "path": None}, "n": n} for n, data in enumerate(pictures)]
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=10)
    whole = sink.getvalue().to_pybytes()
    hub.commit(REPO, {f"data/train-0000{n}.parquet": whole for n in range(5)})
    code = (
        f"from pathlib import Path; from pipelines.raw.pull import first_rows as f; print(f({REPO!r}, 12, Path('.')))"
    )
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(tmp_path / "hf"),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    ran = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    [(name, count)] = ast.literal_eval(ran.stdout).items()
    assert count == 12 and pq.read_table(tmp_path / name)["n"].to_pylist() == list(range(12))
    assert pq.read_table(tmp_path / name)["image"][0].as_py()["bytes"] == pictures[0]
    assert hub.bytes_sent < 2 * len(whole), "four of five files aren't touched but for their schema"


def test_a_copy_from_another_file_system_goes_on_and_is_checked(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pipe("/bucket/aitw/general/a.tfrecord", BIG)
    memory.pipe("/bucket/aitw/splits.json", b"{}")
    assert copy_tree("memory://bucket/aitw", tmp_path / "aitw") == (2, 0)
    assert copy_tree("memory://bucket/aitw", tmp_path / "aitw") == (0, 2)
    assert (tmp_path / "aitw/general/a.tfrecord").read_bytes() == BIG
    with pytest.raises(PullError, match="found nothing"):
        copy_tree("memory://bucket/none", tmp_path / "none")
    told = pull_source(Download(url="memory://bucket/aitw"), tmp_path / "aitw")
    assert told == "0 files copied, 2 there already"


def test_the_command_pulls_what_a_descriptor_names(hub: Hub, tmp_path: Path) -> None:
    hub.commit("acme/mind2web", {"data/train/train_0.json": b"[]", "README.md": b"#"})
    environment = {**os.environ, "HF_HUB_OFFLINE": "0", "VESPER_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "dagster_project.cli", "sources", "pull", "mind2web", "--endpoint", hub.url]
    command += ["--from", "hf://datasets/acme/mind2web", "--to", str(tmp_path / "raw")]
    where = Path(__file__).parents[3]
    first = subprocess.run(command, env=environment, cwd=where, capture_output=True, text=True)
    assert first.returncode == 0 and "mind2web: 2 files fetched, 0 there already, at revision " in first.stdout
    assert (tmp_path / "raw/mind2web/data/train/train_0.json").read_bytes() == b"[]"
    settings = tmp_path / "deployment.yaml"
    settings.write_text('licences: {deny: ["*"]}')
    refused = subprocess.run(
        command, env={**environment, "VESPER_DEPLOYMENT": str(settings)}, cwd=where, capture_output=True, text=True
    )
    assert refused.returncode != 0 and "mind2web: licence" in refused.stderr and "denied" in refused.stderr
