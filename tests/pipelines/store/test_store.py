"""Commit, skip, resume, refuse: the store under faults."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pipelines.store import Check, PartSpec, PartWriter, Store, StoreError
from pipelines.store.asset_locks import Holder, holder
from pipelines.store.images import ImageError, encode_png, open_image, phash, read_image


def _write(out: PartWriter) -> dict[str, int]:
    out.table("steps", pa.table({"n": list(range(5))}))
    out.bytes("cost.json", b"{}", hashed=False)
    return {"rows": 5}


def _commit(store: Store, checks: list[Check] | None = None, digest: str = "a") -> object:
    spec = PartSpec("one", digest)
    with store.build("unified/x", code_version="1", parts=[spec]) as build:
        result = build.run_part(spec, _write)
        manifest = build.commit(counts={"rows": 5}, checks=checks or [])
    return manifest, result


def test_a_second_build_of_equal_inputs_does_no_work(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, ran = _commit(store)  # type: ignore[misc]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    second, skipped = _commit(store)  # type: ignore[misc]
    assert not ran.skipped and skipped.skipped
    assert second == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before
    assert store.require("unified/x").read("steps").column("n").to_pylist() == [0, 1, 2, 3, 4]


def test_a_part_whose_file_was_cut_is_done_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest, _ = _commit(store)  # type: ignore[misc]
    manifest.paths("steps")[0].write_bytes(b"PAR1")
    again, result = _commit(store)  # type: ignore[misc]
    assert not result.skipped
    assert again.data_version == manifest.data_version


def test_failed_checks_keep_the_last_good_version_current(tmp_path: Path) -> None:
    store = Store(tmp_path)
    good, _ = _commit(store)  # type: ignore[misc]
    bad, _ = _commit(store, [Check("rows", False, "0", "more than 0")], digest="b")  # type: ignore[misc]
    assert not bad.checks_passed
    assert store.require("unified/x").version == good.version
    assert store.version("unified/x", bad.version).checks[0].found == "0"


def test_consumers_refuse_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing committed"):
        Store(tmp_path).require("unified/x")
    with pytest.raises(ValueError, match="asset key"):
        Store(tmp_path).root("../x")
    with pytest.raises(StoreError, match="64 hex"):
        Store(tmp_path).screen_path("../../etc/passwd")


def test_side_files_do_not_enter_the_data_version(tmp_path: Path) -> None:
    versions = []
    for place, cost in enumerate((b"1", b"2")):

        def write(out: PartWriter, cost: bytes = cost) -> None:
            out.table("steps", pa.table({"n": [1]}))
            out.bytes("cost.json", cost, hashed=False)

        spec = PartSpec("one", "a")
        with Store(tmp_path / str(place)).build("unified/x", code_version="1", parts=[spec]) as build:
            build.run_part(spec, write)
            versions.append(build.commit().data_version)
    assert versions[0] == versions[1]


def test_a_column_has_a_dictionary_or_statistics_only_where_they_are_of_use(tmp_path: Path) -> None:
    table = pa.table({"native_action": ["{}", '{"a":1}'], "app": ["x", "x"], "episode_id": ["e1", "e2"]})
    writer = PartWriter(tmp_path, "v", "k")
    writer.table("steps", table)
    [entry] = writer.finish()[0]
    assert pq.read_table(tmp_path / entry.path).equals(table) and entry.rows == 2
    unique, repeating, ordered = map(pq.read_metadata(tmp_path / entry.path).row_group(0).column, range(3))
    assert not unique.has_dictionary_page and unique.statistics is None
    assert repeating.has_dictionary_page and repeating.statistics is None
    assert ordered.has_dictionary_page and (ordered.statistics.min, ordered.statistics.max) == ("e1", "e2")


def test_one_writer_per_asset_however_long_it_writes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    root = store.root("unified/x")
    assert holder(root) is None
    with store.build("unified/x", code_version="1", inputs={"raw/x": "v"}) as build:
        assert holder(root) == Holder(os.uname().nodename, os.getpid(), build.version, {"raw/x": "v"})
        for name in ("lock.json", "build.lock"):  # long ago
            os.utime(root / name, (0, 0))
        with pytest.raises(StoreError, match="one writer"), store.build("unified/x", code_version="1"):
            pass
        assert (root / "lock.json").exists()  # the second one takes nothing of the first
        with pytest.raises(StoreError, match="one writer"), store.build("unified/x", code_version="2"):
            pass
    assert holder(root) is None and not (root / "lock.json").exists()


def test_a_dead_writer_is_none_wherever_it_ran_and_whatever_it_left_behind(tmp_path: Path) -> None:
    """A container that is made anew has another name, its processes the numbers of others; children outlive."""
    script = textwrap.dedent(
        """
        import json, os, sys, time
        from pathlib import Path
        from pipelines.store import Store
        store = Store(sys.argv[1])
        with store.build("unified/x", code_version="1"):
            lock = store.root("unified/x") / "lock.json"
            lock.write_text(json.dumps({**json.loads(lock.read_text()), "host": "before", "pid": os.getppid()}))
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            print("ready", flush=True); time.sleep(60)
        """
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        store = Store(tmp_path)
        root = store.root("unified/x")
        assert holder(root) == Holder("before", os.getpid(), holder(root).version)  # type: ignore[union-attr]
        with pytest.raises(StoreError, match="locked by process .* on before"):
            _commit(store)
        writer.kill()
        writer.wait()
        os.killpg(writer.pid, 0)  # its child still lives
        assert holder(root) is None
        _commit(store)
        assert store.current("unified/x") is not None
    finally:
        os.killpg(writer.pid, signal.SIGKILL)


@pytest.mark.slow
def test_one_of_many_writers_gets_a_dead_ones_lock(tmp_path: Path) -> None:
    """Four processes at once, again and again, where a dead writer's lock lies: never two inside."""
    script = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from pipelines.store import Store, StoreError
        inside, tries = Path(sys.argv[1]) / "inside", 0
        while tries < 12:
            try:
                with Store(sys.argv[1]).build("unified/x", code_version="1"):
                    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
                    os.unlink(inside)
                tries += 1
            except StoreError:
                pass
        """
    )
    root = Store(tmp_path).root("unified/x")
    root.mkdir(parents=True)
    (root / "lock.json").write_text(json.dumps({"host": os.uname().nodename, "pid": 2**22 - 1, "expires": 0}))
    writers = [subprocess.Popen([sys.executable, "-c", script, tmp_path]) for _ in range(4)]
    assert [writer.wait(120) for writer in writers] == [0] * 4


@pytest.mark.slow
def test_kill_9_in_a_part_leaves_nothing_that_counts_and_a_rerun_gives_the_same_bytes(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time, pyarrow as pa
        from pipelines.store import PartSpec, Store
        def write(n):
            def inner(out):
                out.table("steps", pa.table({"n": [n] * 1000}))
                if n == 1 and sys.argv[2] == "hang":
                    print("ready", flush=True); time.sleep(60)
            return inner
        specs = [PartSpec(f"p{n}", str(n)) for n in range(3)]
        with Store(sys.argv[1]).build("unified/x", code_version="1", parts=specs) as build:
            for n, spec in enumerate(specs):
                build.run_part(spec, write(n))
            print(build.commit().data_version)
        """
    )
    command = [sys.executable, "-c", script]
    clean = subprocess.run([*command, tmp_path / "clean", "run"], capture_output=True, text=True, check=True)
    hung = subprocess.Popen([*command, tmp_path / "killed", "hang"], stdout=subprocess.PIPE, text=True)
    assert hung.stdout is not None and hung.stdout.readline() == "ready\n"
    hung.send_signal(signal.SIGKILL)
    hung.wait()
    assert Store(tmp_path / "killed").current("unified/x") is None
    again = subprocess.run([*command, tmp_path / "killed", "run"], capture_output=True, text=True, check=True)
    assert again.stdout == clean.stdout


def _picture(seed: int = 0, size: tuple[int, int] = (40, 30)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8)


def test_encode_png_is_lossless_and_golden() -> None:
    pixels = _picture()
    data = encode_png(pixels)
    assert np.array_equal(np.asarray(open_image(data)), pixels)
    gradient = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert read_image(encode_png(gradient)).sha256 == GOLDEN_SHA256
    for bad in (pixels.astype(np.float32), pixels[:, :, 0], pixels[:0]):
        with pytest.raises(ValueError, match="uint8"):
            encode_png(bad)


GOLDEN_SHA256 = "6cc8a53db75723da54649f39c1c96caef1d3f8253690982f4738473ee6f59bd6"


def test_pictures_are_verified_before_they_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    data = encode_png(_picture())
    info = store.put_screen(data)
    assert store.screen_bytes(info.sha256) == data
    assert (info.width_px, info.height_px, info.ext) == (40, 30, "png")
    for bad, reason in (
        (b"", "image_empty"),
        (b"GIF89a but not really", "image_"),
        (b"hello", "image_unreadable"),
        (data[: len(data) // 2], "image_truncated"),
    ):
        with pytest.raises(ImageError, match=reason):
            store.put_screen(bad)


@pytest.mark.slow
def test_a_decompression_bomb_is_refused_before_its_pixels_are_decoded() -> None:
    stream = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(stream, "PNG")
    assert len(stream.getvalue()) < 500_000
    with pytest.raises(ImageError, match="image_bomb"):
        read_image(stream.getvalue())


def test_phash_stays_near_under_recompression_and_far_for_another_picture() -> None:
    base = Image.fromarray(_picture(1, (8, 8))).resize((200, 300), Image.Resampling.BICUBIC)
    stream = io.BytesIO()
    base.save(stream, "JPEG", quality=60)
    again = open_image(stream.getvalue())
    other = Image.fromarray(_picture(2, (8, 8))).resize((200, 300), Image.Resampling.BICUBIC)
    assert (phash(base) ^ phash(again)).bit_count() <= 4
    assert (phash(base) ^ phash(other)).bit_count() >= 16


def test_a_missing_asset_names_the_nearest_and_looks_into_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, spec, looked = Store(tmp_path), PartSpec("all", "a"), []
    for asset in ("unified/aitw", "generation/verified/round_001"):
        with store.build(asset, code_version="1", parts=[spec]) as build:
            build.run_part(spec, lambda out: out.bytes("deep/er/file.txt", b"x"))
            build.commit(checks=[Check("made", True, "yes", "yes")])
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(Path(path)) or scan(path))
    with pytest.raises(StoreError, match="did you mean unified/aitw"):
        store.require("unified/aitv")
    with pytest.raises(StoreError, match="did you mean generation/verified/round_001"):
        store.require("generation/verified/round_002")
    version = store.require("unified/aitw").version
    assert looked and not any({version, "parts"} & set(path.parts) for path in looked)


def test_a_screen_is_found_without_listing_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, stem = Store(tmp_path), "ab" + "0" * 62
    (tmp_path / "screens" / "ab").mkdir(parents=True)

    def listed(*_: object) -> None:
        raise AssertionError("a folder of screens was listed: that takes longer with every screen")

    for ending in ("png", "jpg", "webp", "gif", "bmp"):
        path = tmp_path / "screens" / "ab" / f"{stem}.{ending}"
        path.touch()
        with monkeypatch.context() as forbidden:
            forbidden.setattr(os, "scandir", listed)
            forbidden.setattr(os, "listdir", listed)
            assert store.screen_path(stem) == path
        path.unlink()
