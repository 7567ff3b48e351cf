"""Real stages, from native files to a mixture that a trainer reads, on local files and on an S3-compatible store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import corpusmaker
import pytest
from s3_server import S3Server

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.reader import ShardReader

pytestmark = pytest.mark.slow

Machines = Callable[[str], Store]


def manifests(store: Store) -> dict[str, Manifest]:
    """The current version of every asset."""
    assets = store.home / "assets"
    names = [path.parent.relative_to(assets).as_posix() for path in assets.rglob("current.json")]
    return {name: store.require(name) for name in names}


def test_the_same_graph_on_s3_gives_the_hashes_of_local_files_and_another_machine_goes_on_with_it(
    s3_url: str, server: S3Server, machines: Machines, tmp_path: Path
) -> None:
    corpusmaker.write_raw(tmp_path / "raw")
    local, there = Store(tmp_path / "local"), machines(s3_url)
    for store in (local, there):
        for source in corpusmaker.SOURCES:
            corpusmaker.build_source(store, tmp_path / "raw", source)
        corpusmaker.build_corpus(store)
    plain, behind = manifests(local), manifests(there)
    assert len(plain) >= 12 and plain.keys() == behind.keys()
    for name, manifest in plain.items():
        assert manifest.data_version == behind[name].data_version, name
        assert [(e.path, e.sha256) for e in manifest.files] == [(e.path, e.sha256) for e in behind[name].files], name
        assert manifest.inputs == behind[name].inputs and manifest.counts == behind[name].counts, name

    other = machines(s3_url)
    server.asked.clear()
    for source in corpusmaker.SOURCES:
        corpusmaker.build_source(other, tmp_path / "raw", source)
    put = {path.rpartition("/")[2] for method, path in server.asked if method == "PUT"}
    assert put == {"lock.json"}, "all parts were found finished"
    assert manifests(other) == behind
    rows = [ShardReader.from_mixture(store, global_batch=1).batch(0, 0) for store in (local, other)]
    assert rows[0] == rows[1]
    steps = plain["unified/aitz"].read("steps")
    assert other.require("unified/aitz").read("steps").equals(steps)
    for sha in plain["unified/aitz"].read("screens")["screenshot_sha256"].to_pylist():
        assert other.screen_bytes(sha) == local.screen_bytes(sha)
