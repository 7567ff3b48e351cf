"""A folder of unified tables, reviewed on its page without a store."""

from __future__ import annotations

import json
from pathlib import Path

import goldmaker
from reviewing import run_vesper, served

from pipelines.store import Store


def test_a_folder_of_unify_is_reviewed_without_a_store(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    store = Store(tmp_path / "made")
    steps, screens = goldmaker.episodes(store, "toy", 3)
    folder = tmp_path / "out"
    folder.mkdir()
    pq.write_table(steps, folder / "steps.parquet")
    pq.write_table(screens, folder / "screens.parquet")
    (store.home / "screens").rename(folder / "screens")
    with served("--from", folder, "--annotators", 1) as server:
        assert server.lines[0].startswith("3 items, 1 people each")
        text = server.request("GET", "/api/next?annotator=ann")[2]
        ids = [one["item_id"] for one in json.loads(text)["items"]]
        assert sorted(ids) == [f"episode:toy/e000{n}" for n in range(3)]
        assert server.request("GET", f"/picture?item={ids[0]}&step=0")[0] == 200
    for words, told in (
        (("--from", tmp_path / "none"), "expected a folder"),
        (("--home", tmp_path / "none"), "expected a store"),
        (("--from", folder, "--annotators", 0), "at least 1"),
        (("--from", folder, "--port", 99999), "0 to 65535"),
    ):
        refused = run_vesper("review", "serve", *words)
        assert refused.returncode == 2 and told in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
