"""An exported checkpoint: the folder whole, loaded by plain `from_pretrained`, with what it was trained on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from corpusmaker import commit, light_source
from hub_folder import write_hub

from pipelines.store import Manifest, Store, StoreError
from pipelines.training_data.dataset_card import Card, Group
from pipelines.training_data.shards import build_shards
from trainer import exports
from trainer.modeling.tensors import REMAINDER

GROUPS = {Group("toy", "MIT", "vqa", "web", "train"): 3}
export_checkpoint = partial(exports.export_checkpoint, refuses=lambda licence: "")
CARD = Card("A GUI agent", "Of a test.", GROUPS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """A tiny published model as a checkpoint of shards of one source."""
    folder = tmp_path_factory.mktemp("checkpoint")
    store = Store(folder / "home")
    light_source(store, folder / "raw", "toy", 1)
    shards = build_shards(store, ["toy"])
    written = write_hub(folder / "tiny", "dense")
    files = {f"model/{path.name}": path.read_bytes() for path in sorted(written.iterdir())}
    files[f"model/{REMAINDER}/model.safetensors"] = b"what training goes on from"
    return commit(store, "checkpoints/mid_trained", {shards.asset: shards.version}, files=files)


def test_from_pretrained_loads_the_same_weights(made: Manifest, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    groups = export_checkpoint(made, "hub", tmp_path / "out", CARD)
    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "out")
    before = AutoModelForImageTextToText.from_pretrained(made.file("config.json").parent)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before.parameters(), strict=True))
    assert AutoTokenizer.from_pretrained(tmp_path / "out").decode([65])
    names = {path.name for path in made.file("config.json").parent.iterdir()} - {REMAINDER}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {"README.md", "LICENSES.md", ".export"}
    before_bytes = {name: made.file(name).read_bytes() for name in names}
    assert {name: (tmp_path / "out" / name).read_bytes() for name in names} == before_bytes
    assert groups == GROUPS and "# A GUI agent" in (tmp_path / "out/README.md").read_text()
    assert "| toy | MIT | 3 |" in (tmp_path / "out/LICENSES.md").read_text()


def test_what_is_no_checkpoint_makes_no_folder(tmp_path: Path) -> None:
    made = commit(Store(tmp_path / "home"), "gold/toy", {}, files={"a.txt": b"no model"})
    with pytest.raises(StoreError, match=r"expected a file 'config\.json', found none"):
        export_checkpoint(made, "hub", tmp_path / "out", CARD)
    assert not (tmp_path / "out").exists()


def test_a_rerun_copies_only_what_is_missing_or_damaged(made: Manifest, tmp_path: Path) -> None:
    export_checkpoint(made, "hub", tmp_path / "out", CARD)
    whole = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    shard = "model-00001-of-00002.safetensors"
    (tmp_path / "out" / shard).write_bytes(b"torn")
    (tmp_path / "out/config.json").unlink()
    lines: list[str] = []
    export_checkpoint(made, "hub", tmp_path / "out", CARD, lines.append)
    assert {line.partition(":")[0] for line in lines} == {shard, "config.json"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == whole


def test_as_an_asset_it_links_the_files_and_is_loaded_from_its_folder(made: Manifest) -> None:
    from transformers import AutoModelForImageTextToText

    store = Store(made.folder.parents[2])
    asset = exports.build_export(store, "exports/checkpoint_mid_trained", made, CARD, refuses=lambda licence: "")
    root = made.file("config.json").parent
    assert AutoModelForImageTextToText.from_pretrained(asset.directory).num_parameters() > 1000
    for path in (path for path in root.iterdir() if path.name != REMAINDER):
        assert (asset.directory / path.name).samefile(path), "weights take no room twice"
    assert not (asset.directory / REMAINDER).exists() and asset.inputs == {made.asset: made.version}
    assert "# A GUI agent" in (asset.directory / "README.md").read_text()
    again = exports.build_export(store, asset.asset, made, CARD, refuses=lambda licence: "")
    assert again.version == asset.version
    figures = exports.build_export(store, asset.asset, made, Card("Evaluated", "", GROUPS), refuses=lambda licence: "")
    assert figures.version != asset.version and (figures.directory / "config.json").samefile(root / "config.json")
    with pytest.raises(ValueError, match="source toy: no; train it without that source"):
        exports.build_export(store, asset.asset, made, CARD, refuses=lambda licence: "no")


def test_an_export_whose_bytes_are_not_the_checkpoints_is_never_current(made: Manifest) -> None:
    damaged = made.folder / made.version / "model/model-00001-of-00002.safetensors"
    whole = damaged.rename(damaged.with_suffix(".whole"))
    try:
        damaged.write_bytes(b"rotten")
        store = Store(made.folder.parents[2])
        asset = exports.build_export(store, "exports/damaged", made, CARD, refuses=lambda licence: "")
        assert not asset.checks_passed and store.current("exports/damaged") is None
    finally:
        whole.replace(damaged)
