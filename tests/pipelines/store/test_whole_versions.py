"""Each version's folder holds all of its files, whichever version made them."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_project.commands.checkpoint_option import checkpoint, name_of
from pipelines.store import PartSpec, PartWriter, Store, StoreError
from pipelines.store.choose_version import asset_folder, roll_back
from pipelines.store.collect_garbage import collect
from pipelines.store.manifest import Manifest

ASSET = "checkpoints/toy"


def build(store: Store, *digests: str) -> Manifest:
    """A version with a table and a file of two folders for each of its parts; equal digests are done once."""
    specs = [PartSpec(f"p{place}", digest) for place, digest in enumerate(digests)]
    with store.build(ASSET, code_version="1", parts=specs) as made:
        for spec in specs:

            def write(out: PartWriter, spec: PartSpec = spec) -> dict[str, int]:
                out.table("rows", pa.table({"text": [spec.inputs_digest]}))
                out.bytes(f"model/{spec.key}/config.json", spec.inputs_digest.encode())
                return {}

            made.run_part(spec, write)
        return made.commit()


def shown(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_version_that_made_one_part_anew_holds_the_others_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = build(store, "a", "b")
    second = build(store, "a", "c")
    assert {entry.path.partition("/")[0] for entry in second.files} == {first.version, second.version}
    assert shown(second.directory) == shown(first.directory) and len(shown(first.directory)) == 6
    texts = pa.concat_tables(pq.read_table(path) for path in sorted(second.directory.glob("*.parquet")))
    assert texts["text"].to_pylist() == ["a", "c"] == second.read("rows")["text"].to_pylist()
    config = "model/p0/config.json"
    assert os.path.samefile(second.directory / config, first.directory / config)


def test_each_table_of_a_version_is_opened_by_datasets(tmp_path: Path) -> None:
    store, specs = Store(tmp_path), [PartSpec("p0", "a"), PartSpec("p1", "b")]
    with store.build("verdicts/toy", code_version="1", parts=specs) as made:
        for place, spec in enumerate(specs):

            def write(out: PartWriter, place: int = place) -> dict[str, int]:
                out.table("costs", pa.table({"seconds": [0.5] * place}))  # the first part has cost nothing
                out.table("verdicts", pa.table({"score": [place, place]}))
                out.table("pending", pa.table({"item_id": pa.array([], pa.string())}))
                return {}

            made.run_part(spec, write)
        folder = str(made.commit().directory)

    def opened(*table: str) -> dict[str, list[float]]:
        return datasets.load_dataset(folder, *table, split="train", cache_dir=str(tmp_path / "cache")).to_dict()

    assert opened() == opened("verdicts") == {"score": [0, 0, 1, 1]} and opened("costs") == {"seconds": [0.5]}
    assert datasets.get_dataset_config_names(folder) == ["verdicts", "costs"], "a table without rows can't be opened"


def test_what_goes_in_one_version_stays_in_the_other(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = build(store, "a", "b"), build(store, "a", "c")
    third = build(store, "d", "c")
    collect(store, 1, min_age_s=-1)
    assert not (first.directory / "manifest.json").exists()
    assert shown(third.directory) == shown(asset_folder(store, ASSET)) and len(shown(third.directory)) == 6
    assert third.read("rows")["text"].to_pylist() == ["d", "c"]
    assert not first.directory.exists() or shown(first.directory) == []
    assert second.version != third.version


def test_a_disk_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    store = Store(tmp_path)
    first = build(store, "a", "b")
    monkeypatch.setattr(os, "link", refuse)
    second = build(store, "a", "c")
    copied = second.directory / "model/p0/config.json"
    assert copied.read_text() == "a" and not os.path.samefile(copied, first.directory / "model/p0/config.json")
    assert not [name for name in shown(tmp_path) if ".put-" in name]


def test_a_version_made_before_there_were_links_is_completed_when_it_is_chosen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = build(store, "a", "b"), build(store, "a", "c")
    third = build(store, "d", "c")
    for path in (second.directory / "model/p0").iterdir():
        path.unlink()
    roll_back(store, ASSET, second.version, why="it was better")
    assert shown(second.directory) == shown(third.directory)
    (first.directory / "model/p0/config.json").unlink()
    with pytest.raises(StoreError, match="expected a file"):
        asset_folder(store, f"{ASSET}@{second.version[:6]}")


def test_commands_take_a_checkpoint_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path / "home"))
    assert checkpoint("toy") == Path("toy")  # no store yet: a folder that isn't there
    store = Store(tmp_path / "home")
    spec = PartSpec("all", "a")
    with store.build(ASSET, code_version="1", parts=[spec]) as made:
        made.run_part(spec, lambda out: out.bytes("model/config.json", b"{}"))
        manifest = made.commit()
    model = manifest.directory / "model"
    for said in ("toy", ASSET, f"toy@{manifest.version[:5]}", str(model)):
        assert checkpoint(said).resolve() == model.resolve(), said
    assert name_of(model) == "toy" and name_of(tmp_path / "mine") == "mine"
    with pytest.raises(argparse.ArgumentTypeError, match=r"neither a folder 'toi' nor an asset: checkpoints/toi"):
        checkpoint("toi")
    with pytest.raises(argparse.ArgumentTypeError, match="expected one of"):
        checkpoint("toy@ffff")
    assert checkpoint("out/of the store") == Path("out/of the store")
