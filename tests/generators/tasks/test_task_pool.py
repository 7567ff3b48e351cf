"""The task pool: proven static tasks, new dynamic ones, strata by expected steps, batches in proportion."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from goldmaker import commit_gold, episodes
from hypothesis import given
from hypothesis import strategies as st

from generators.devices.browser import BrowserMissing, find_chromium
from generators.generation.dynamic_task_pool import ProposedTask, RecordedPath, build_dynamic
from generators.generation.functional_maps import Attempts, MapConfig, functional_map, proven_tasks
from generators.generation.static_task_pool import build_static
from generators.tasks.strata import NANO_EDGES, stratum
from generators.tasks.task_pool import PoolConfig, build_shards, pool_row
from generators.tasks.task_sampling import TaskPool
from generators.worlds.app_tasks import works
from generators.worlds.desktop.session import find_missing
from pipelines.store import Store, StoreError
from quality.evidence.embedding import Embedder
from schemas.tables import Samples, Steps, Tasks


def task(instruction: str, steps: int = 3) -> dict[str, Any]:
    return {
        "instruction": instruction,
        "platform": "web",
        "target": "pages/shop",
        "capabilities": ["tap"],
        "initial_state": {"seed": steps},
        "evaluator": {"rule": "page_state", "checks": [["a", 1]]},
        "expected_steps": steps,
        "parents": [],
    }


def episodes_of(store: Store, source: str, instructions: list[str], **changes: Any) -> None:
    steps, screens = episodes(store, source, len(instructions), seed=len(source), instructions=instructions)
    rows = [{**row, "split": "train", **changes} for row in steps.to_pylist()]
    commit_gold(store, source, Steps.table(rows), Samples.table([]), screens=screens)


@pytest.mark.parametrize(("steps", "name"), [(1, "easy"), (10, "easy"), (11, "medium"), (20, "medium"), (21, "hard")])
def test_strata_are_those_of_the_method(steps: int, name: str) -> None:
    assert stratum(steps) == name


def test_strata_edges_are_config() -> None:
    assert [stratum(n, NANO_EDGES) for n in (1, 2, 3, 4, 5)] == ["easy", "easy", "medium", "medium", "hard"]
    with pytest.raises(ValueError, match="at least 1"):
        stratum(0)
    for bad in ({"edges": (4, 2)}, {"edges": (0, 2)}, {"epsilon": 0.0}, {"epsilon": 1.5}):
        with pytest.raises(ValueError, match="task pool"):
            PoolConfig(**bad)


def test_static_tasks_from_a_plain_list(tmp_path: Path) -> None:
    store = Store(tmp_path)
    manifest = build_static(store, tasks=[task("open the cart"), task("buy shoes", 15), task("open the cart")])
    rows = manifest.read("tasks", Tasks.schema).to_pylist()
    assert len(rows) == 2 and {row["stratum"] for row in rows} == {"easy", "medium"}
    assert {row["origin"] for row in rows} == {"static"}
    assert json.loads(rows[0]["evaluator"])["rule"] == "page_state"
    assert not build_static(store, tasks=[]).checks_passed


def test_dynamic_tasks_are_kept_iff_new_to_the_pool(tmp_path: Path) -> None:
    store = Store(tmp_path)
    build_static(store, tasks=[task("Open the shopping cart")])
    texts = ["open the shopping cart", "Delete my account", "Delete my account", "Write an email to Ann"]
    episodes_of(store, "toy", texts)
    manifest = build_dynamic(store, ["toy"], config=PoolConfig(epsilon=0.9))
    rows = manifest.read("tasks", Tasks.schema).to_pylist()
    assert sorted(row["instruction"] for row in rows) == ["Delete my account", "Write an email to Ann"]
    vectors = Embedder().encode(["Open the shopping cart", *(row["instruction"] for row in rows)])
    similar = vectors @ vectors.T
    assert all(similar[i, j] < 0.9 for i in range(3) for j in range(i))
    deleting = next(row for row in rows if row["instruction"].startswith("Delete"))
    assert deleting["parents"] == ["episode:toy/e0001"]
    assert deleting["expected_steps"] == 2 and deleting["origin"] == "dynamic"  # three steps, one of them Finished
    assert len(json.loads(deleting["evaluator"])["screenshot_sha256"]) == 64


def test_epsilon_decides_how_much_is_new(tmp_path: Path) -> None:
    store = Store(tmp_path)
    episodes_of(store, "toy", ["Open the shopping cart", "Please open the shopping cart", "Open shopping cart"])
    counts = [build_dynamic(store, ["toy"], config=PoolConfig(epsilon=e)).counts["tasks"] for e in (0.5, 0.89, 1.0)]
    assert counts[0] == 1 and counts[0] <= counts[1] <= counts[2] == 3


@pytest.mark.parametrize(
    "changes",
    [{"split": "test"}, {"episode_outcome": "failure"}, {"provenance": '{"gap_at":1}'}, {"screenshot_sha256": None}],
)
def test_what_proves_nothing_or_is_held_out_gives_no_task(tmp_path: Path, changes: dict[str, Any]) -> None:
    store = Store(tmp_path)
    episodes_of(store, "toy", ["Open the cart"], **changes)
    assert build_dynamic(store, ["toy"]).counts["tasks"] == 0


def test_a_proposer_may_suggest_more_than_the_episode_says(tmp_path: Path) -> None:
    store = Store(tmp_path)
    episodes_of(store, "toy", ["Open the cart"])

    def proposer(episode: RecordedPath) -> list[ProposedTask]:
        texts = (episode.instruction, "Show the weather of tomorrow", " ")
        return [ProposedTask(text, 2, episode.screens[0]) for text in texts]

    assert build_dynamic(store, ["toy"], proposer=proposer).counts["tasks"] == 2


def test_task_shards_hold_every_task_once_by_stratum_with_an_index(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="task_pool/static"):
        build_shards(store)
    build_static(store, tasks=[task(f"task {n}", n) for n in range(1, 31)])
    episodes_of(store, "toy", ["Water the plants on the balcony"])
    build_dynamic(store, ["toy"])
    manifest = build_shards(store)
    assert manifest.counts == {"easy": 11, "medium": 10, "hard": 10, "tasks": 31}
    by_file = {path.name: pq.read_table(path) for path in manifest.paths("tasks")}
    for entry in manifest.read("index").to_pylist():
        row = by_file[entry["shard"]].slice(entry["row"], 1).to_pylist()[0]
        assert row["task_id"] == entry["task_id"] and row["stratum"] == entry["stratum"]
    assert build_shards(store).data_version == manifest.data_version


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 3))
def test_batches_draw_from_the_strata_in_proportion(steps: list[int], size: int, seed: int) -> None:
    rows = rows_of(steps)
    pool = TaskPool(Tasks.table(rows), seed)
    drawn = [t for number in range(len(rows)) for t in pool.batch(number, size)]
    assert len(drawn) == len(rows) * size
    assert set(Counter(t["task_id"] for t in drawn).values()) == {size}  # every task equally often
    whole = Counter(row["stratum"] for row in rows)
    for number in range(len(rows)):
        batch = pool.batch(number, size)
        assert len(batch) == size
        for name, count in Counter(t["stratum"] for t in batch).items():
            assert abs(count - size * whole[name] / len(rows)) <= 3


def rows_of(steps: list[int]) -> list[dict[str, Any]]:
    return [
        {
            **task(f"t{n}", s),
            "task_id": f"{n:032x}",
            "initial_state": "{}",
            "evaluator": "{}",
            "stratum": stratum(s),
            "origin": "static",
        }
        for n, s in enumerate(steps)
    ]


def test_functional_map_names_pages_and_miniwob() -> None:
    chart = functional_map()
    assert "mail.star" in chart["pages/mail"] and "miniwob/click-button" in chart


def test_tasks_of_real_worlds_are_proven_by_their_recorded_path() -> None:
    try:
        find_chromium()
    except BrowserMissing as error:
        pytest.skip(str(error))
    attempts = Attempts()
    families = ("mail.star", "click-button", "login-user")
    config = MapConfig(page_platforms=("desktop",), miniwob_seeds=1, families=families)
    found = {row["target"]: row for row in proven_tasks(config, attempts)}
    assert attempts.tried == 3 and not attempts.failed
    assert found["miniwob/click-button"]["expected_steps"] == 1
    assert found["miniwob/login-user"]["expected_steps"] == 5  # two fields tapped and typed, one button
    assert found["pages/mail"]["evaluator"]["checks"][0][1] is True


@pytest.mark.skipif(bool(find_missing()), reason="needs the packages of a desktop")
def test_tasks_in_programs_are_proven_on_a_desktop_and_named_in_the_version_only_where_they_are_wanted() -> None:
    attempts = Attempts()
    families = ("calculator.close", "editor.read", "files.rename")
    config = MapConfig(page_seeds=0, miniwob_seeds=0, desktop_programs=("galculator", "mousepad"), families=families)
    made = list(proven_tasks(config, attempts))
    assert attempts.tried == 2 and not attempts.failed and {row["platform"] for row in made} == {"desktop"}
    assert [row["target"] for row in made] == ["desktop/galculator", "desktop/mousepad"]
    rows = [pool_row(row, "static", PoolConfig()) for row in made]
    assert {row["task_id"] for row in rows} <= {work.contract.task_id for work in works("desktop", 0)}
    assert "desktop_programs" in config.plain() and "desktop_programs" not in MapConfig().plain()
