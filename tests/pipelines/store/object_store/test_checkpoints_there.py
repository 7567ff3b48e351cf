"""A checkpoint by its name from a store behind a URL: whole on a machine that never saw it, by alias and by listing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from shared_store import objects_of

from dagster_project.commands.checkpoint_option import checkpoint
from pipelines.store import PartSpec, Store
from pipelines.store.choose_version import promote, roll_back
from pipelines.store.manifest import Manifest

pytestmark = pytest.mark.slow

ASSET = "checkpoints/unified"


def commit(store: Store, *contents: str) -> Manifest:
    """A version with a file a part in `model/`; equal parts are done once."""
    specs = [PartSpec(f"p{place}", content) for place, content in enumerate(contents)]
    with store.build(ASSET, code_version="1", parts=specs) as build:
        for spec, name in zip(specs, ("config.json", "model.safetensors"), strict=True):
            build.run_part(
                spec, lambda out, name=name, spec=spec: out.bytes(f"model/{name}", spec.inputs_digest.encode())
            )  # type: ignore[misc]
        return build.commit()


def test_another_machine_serves_a_checkpoint_by_name_and_by_alias(
    url: str, machines: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machines(url)
    old, new = commit(first, "c", "w1"), commit(first, "c", "w2")
    promote(first, ASSET, old.version, alias="production")
    second = machines(url)
    monkeypatch.setenv("VESPER_HOME", str(second.home))
    monkeypatch.setenv("VESPER_STORE_URL", url)
    for said, weights in (("unified", "w2"), ("production", "w1"), (f"unified@{new.version[:6]}", "w2")):
        folder = checkpoint(said)
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "config.json": "c",
            "model.safetensors": weights,
        }, said
    promote(second, ASSET, new.version, alias="production")
    assert checkpoint("production") == checkpoint("unified")
    roll_back(first, ASSET, alias="production")
    assert checkpoint("production").parent.name == old.version, "what one machine changed another sees"


def test_the_listing_of_a_version_names_files_that_another_version_made(
    url: str, machines: Callable[[str], Store]
) -> None:
    store = machines(url)
    old, new = commit(store, "c", "w1"), commit(store, "c", "w2")
    assert store.copies is not None
    name = f"assets/{ASSET}/{new.version}/listing.json"
    found = store.copies.objects.read(name)
    assert found is not None
    files = json.loads(found.data)["files"]
    assert files == {
        "model/config.json": f"../{old.version}/model/config.json",
        "model/model.safetensors": "model/model.safetensors",
    }
    there = objects_of(store)
    for target in files.values():
        assert str(Path(f"/{name}").parent.joinpath(target).resolve()).removeprefix("/") in there
