"""A file that isn't what was written is noticed before anything is made of it, and named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from dagster_project import cli
from pipelines.raw.rawdata import damaged_raw, register_raw
from pipelines.store import PartSpec, PartWriter, Store, StoreError, soundness
from pipelines.store.images import encode_png
from pipelines.store.manifest import Manifest
from pipelines.store.remembered import remember, remembered
from pipelines.store.verify_store import damages
from quality.evidence.embedding import VectorCache
from quality.model_client.answer_cache import CachedAnswer, read_entry
from quality.model_client.questions import Usage


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(soundness, "_SOUND", {})  # as in a process of its own
    monkeypatch.setattr("pipelines.store.manifest._OPENED", set())
    return Store(tmp_path / "home")


def committed(store: Store, rows: int = 500) -> Manifest:
    def write(out: PartWriter) -> dict[str, int]:
        out.table("numbers", pa.table({"n": list(range(rows)), "word": [f"w{n}" for n in range(rows)]}))
        out.bytes("note.txt", b"as written")
        return {}

    spec = PartSpec("one", f"{rows}")
    with store.build("gold/toy", code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        return build.commit()


def flip(path: Path, rng: Random) -> None:
    """One bit, and the time of change as it was: what a bad disk does."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("seed", range(20))
def test_one_bit_of_a_table_stops_whoever_opens_it(store: Store, seed: int) -> None:
    manifest = committed(store)
    [entry] = [entry for entry in manifest.files if entry.table]
    path = manifest.folder / entry.path
    flip(path, Random(seed))
    for read in (
        lambda: manifest.read("numbers"),
        lambda: manifest.paths("numbers"),
        lambda: manifest.path(entry),
        lambda: manifest.root,
    ):
        with pytest.raises(StoreError, match=path.name):
            read()


def test_a_file_beside_the_tables_is_held_to_its_digest_when_it_is_opened(store: Store) -> None:
    manifest = committed(store)
    path = manifest.file("note.txt")
    assert path.read_bytes() == b"as written"
    path.write_bytes(b"as wrltten")
    with pytest.raises(StoreError, match="note.txt is damaged"):
        manifest.file("note.txt")


def test_a_sound_file_is_read_for_its_digest_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = committed(store)
    manifest.read("numbers")
    monkeypatch.setattr(soundness, "file_sha256", None)
    assert manifest.read("numbers").num_rows == 500


def test_a_picture_is_what_it_is_named_after(store: Store) -> None:
    info = store.put_screen(encode_png(np.full((8, 8, 3), 200, np.uint8)))
    flip(store.screen_path(info.sha256), Random(1))
    with pytest.raises(StoreError, match="damaged"):
        store.screen_bytes(info.sha256)


def test_verify_names_each_damaged_file(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = committed(store)
    info = store.put_screen(encode_png(np.full((8, 8, 3), 200, np.uint8)))
    home = ["--home", str(store.home)]
    assert cli.main(["verify", *home]) == 0
    assert "every file is what was written" in capsys.readouterr().out
    table = manifest.folder / next(entry.path for entry in manifest.files if entry.table)
    flip(table, Random(3))
    flip(store.screen_path(info.sha256), Random(4))
    manifest.file("note.txt").unlink()
    assert cli.main(["verify", *home]) == 1
    said = capsys.readouterr().out
    assert all(name in said for name in (table.name, "note.txt", info.sha256, "3 damaged"))
    assert cli.main(["verify", "gold/none", *home]) != 0


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("current.json", lambda text: text[1:], "current.json: expected a pointer to a version"),
        ("current.json", lambda text: text.replace('"version": "', '"version": "0'), "which isn't there"),
        ("current.json", lambda text: text.replace('"data_version": "', '"data_version": "0'), "data version"),
        ("promotions.jsonl", lambda text: text[1:], "promotions.jsonl: expected one change"),
        ("promotions.jsonl", lambda text: text.replace("version", "versi\udcefn"), "promotions.jsonl: expected one"),
        ("manifest.json", lambda text: text.replace('"sha256": "', '"sha256": "0', 1), "isn't what was written"),
        ("manifest.json", lambda text: text.replace("true", "false"), "isn't what was written"),
    ],
)
def test_a_damaged_pointer_hides_no_other_damage(
    store: Store, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[str], str], said: str
) -> None:
    manifest = committed(store)
    info = store.put_screen(encode_png(np.full((8, 8, 3), 200, np.uint8)))
    flip(store.screen_path(info.sha256), Random(4))
    [path] = store.root(manifest.asset).rglob(name)
    path.write_text(change(path.read_text("utf-8")), "utf-8", "surrogateescape")  # bytes that are no UTF-8, too
    assert cli.main(["verify", "--home", str(store.home)]) == 1
    told = capsys.readouterr().out
    assert said in told and info.sha256 in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["*/manifest.json", "parts/*.json"])
@pytest.mark.parametrize("seed", range(20))
def test_one_bit_of_what_no_hash_names_is_seen_and_a_rebuild_mends_it(store: Store, name: str, seed: int) -> None:
    manifest = committed(store)
    [path] = store.root(manifest.asset).glob(name)
    good = path.read_bytes()
    flip(path, Random(seed))
    [damage] = damages(store)
    assert damage.path == path
    with pytest.raises(StoreError, match=path.name):
        committed(store) if "parts" in name else store.current(manifest.asset)
    path.unlink()  # as the message says
    assert store.compared_with(manifest.asset) == (manifest if "parts" in name else None)
    assert committed(store).files == manifest.files and path.read_bytes() == good


def test_what_an_earlier_checkout_wrote_without_a_seal_is_as_good(store: Store) -> None:
    manifest = committed(store)
    path = manifest.directory / "manifest.json"
    path.write_text(manifest.to_json(seal=False))
    before = path.stat().st_mtime_ns
    assert committed(store) == store.current(manifest.asset) == manifest and path.stat().st_mtime_ns == before
    assert list(damages(store)) == []


def test_native_files_are_held_to_what_their_version_lists(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    (folder / "below").mkdir(parents=True)
    names = ("below/one.json", "gone.json", "good.json", "two.json")
    for name in names:
        (folder / name).write_text(f'{{"of": "{name}"}}')
    register_raw(store, "toy", folder)
    register_raw(store, "elsewhere", folder)  # whose files aren't on this machine
    shutil.rmtree(store.home / "cache")  # what a cache remembers isn't asked

    def damaged(*assets: str) -> list[tuple[str, str]]:
        found = damaged_raw(store, tmp_path.joinpath, assets)
        return [(damage.asset, damage.path.relative_to(folder).as_posix()) for damage in found]

    assert damaged() == []
    (folder / "gone.json").unlink()
    (folder / "below/one.json").write_text("{}")  # a person's
    flip(folder / "two.json", Random(1))
    (folder / "good.json").touch()
    wanted = [("raw/toy", name) for name in ("below/one.json", "gone.json", "two.json")]
    assert damaged() == damaged("raw/toy") == wanted
    assert damaged("raw/elsewhere") == damaged("gold/toy") == []
    register_raw(store, "toy", folder)  # it was meant
    assert damaged() == []


def rotted(path: Path) -> Iterator[None]:
    """A file with one bit the other way, a third of all, one after the other; whole again at the end."""
    whole = path.read_bytes()
    for place in range(0, len(whole) * 8, 3):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        path.write_bytes(data)
        yield
    path.write_bytes(whole)


def test_a_bit_that_rots_in_what_is_known_of_a_picture_costs_one_decoding(store: Store) -> None:
    data = encode_png(np.zeros((20, 40, 3), np.uint8))
    info, key = store.put_screen(data), "ab" * 32
    known = store.known_pictures()
    known.add_pixels(key, info)
    known.save()
    lost = 0
    for path in (store.home / "cache" / "pictures").rglob("*.*"):
        for _ in rotted(path):
            found = store.known_pictures()
            assert found.get(info.sha256) in (None, info) and found.of_pixels(key) in (None, info)
            lost += None in (found.get(info.sha256), found.of_pixels(key))
    assert lost > 300 and store.known_pictures().get(info.sha256) == store.known_pictures().of_pixels(key) == info


def test_a_bit_that_rots_in_a_cache_of_json_costs_making_it_again(tmp_path: Path) -> None:
    path, value = tmp_path / "known.json", {"a.jsonl": [[0, 1000, 0], [1000, 2000, 17]]}
    remember(path, value)
    assert remembered(path) == value and remembered(tmp_path / "none.json") is None
    found = [remembered(path) for _ in rotted(path)]
    assert found.count(None) > 300 and found.count(None) + found.count(value) == len(found)
    path.write_text(json.dumps(value))  # as an earlier checkout wrote it
    assert remembered(path) is None


def test_a_bit_that_rots_in_a_vector_costs_embedding_it_again(tmp_path: Path) -> None:
    keys, vectors = ["ab" * 16, "cd" * 16], np.arange(4, dtype=np.float32).reshape(2, 2)
    VectorCache(tmp_path).put(keys, vectors)
    for path in sorted(tmp_path.iterdir()):
        for _ in rotted(path):
            cache = VectorCache(tmp_path)
            there = [number for number, key in enumerate(keys) if key in cache]
            assert not there or (cache.get([keys[number] for number in there]) == vectors[there]).all()
    assert VectorCache(tmp_path).get(keys).tolist() == vectors.tolist()


def test_a_bit_that_rots_in_an_answer_costs_asking_again() -> None:
    schema = {"score": int}
    answer = CachedAnswer({"score": 7}, Usage(20, 5))
    whole = answer.text().encode()
    read = []
    for place in range(len(whole) * 8):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        read.append(read_entry(data.decode("utf-8", "replace"), schema))
    assert read_entry(answer.text(), schema) == answer and set(map(str, read)) <= {"None", str(answer)}
    unsealed = json.dumps({"answer": {"score": 7}, "usage": [20, 5]})
    assert read_entry(unsealed, schema) == answer, "of an earlier checkout"


def test_a_removed_file_comes_back_when_its_asset_is_built_again(store: Store) -> None:
    manifest = committed(store)
    table = manifest.folder / next(entry.path for entry in manifest.files if entry.table)
    before = table.read_bytes()
    table.unlink()
    committed(store)
    assert table.read_bytes() == before
