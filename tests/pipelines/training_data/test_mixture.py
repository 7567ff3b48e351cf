"""The mixture reaches its token shares, says when it can't, and moves little when data grows a little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from goldmaker import gold
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.store import Manifest, PartSpec, Store, StoreError
from pipelines.store.files import file_sha256
from pipelines.training_data import mixture
from pipelines.training_data.index_columns import IndexColumns, seeded_hashes
from pipelines.training_data.mixture import (
    SHARES,
    Mixture,
    build_mixture,
    shards_of,
)
from pipelines.training_data.mixture_config import FLOORED, TARGET_SHARES, MixtureConfig
from pipelines.training_data.shard_form import ShardIndex
from pipelines.training_data.shards import build_shards
from schemas.actions import SPACES, WIDEST
from schemas.tables import OBJECTIVES, PLATFORMS


def choose(table: pa.Table, config: MixtureConfig) -> tuple[np.ndarray, dict[str, float]]:
    return mixture.choose(IndexColumns.of([table], config.seed), config)


def index(count: int, seed: int = 0, weights: tuple[float, ...] = (1, 1, 1, 1), start: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    p = np.array(weights) / sum(weights)
    return pa.Table.from_pylist(
        [
            {
                "sample_id": f"{seed}-{start + n}",
                "shard": "a",
                "row": n,
                "row_group": n // 16,
                "source": "s",
                "platform": "web",
                "split": "train",
                "tokens": int(rng.integers(50, 150)),
                "objective": OBJECTIVES[rng.choice(4, p=p)],
                "action": "",
            }
            for n in range(count)
        ],
        schema=ShardIndex.schema,
    )


def shares(table: pa.Table, repeats: np.ndarray) -> dict[str, float]:
    tokens = table["tokens"].to_numpy() * repeats
    names = np.array(table["objective"].to_pylist())
    return {name: float(tokens[names == name].sum() / tokens.sum()) for name in OBJECTIVES}


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.integers(0, 999), st.tuples(*[st.floats(0.8, 2)] * 4))  # below, one objective has too few to repeat
def test_shares_are_reached_when_there_is_enough(seed: int, weights: tuple[float, ...]) -> None:
    table = index(2_000, seed, weights)
    repeats, rates = choose(table, MixtureConfig(seed=seed))
    assert max(rates.values()) < 4
    for name, share in shares(table, repeats).items():
        assert abs(share - TARGET_SHARES[name]) < 0.005


@pytest.mark.slow
def test_one_percent_new_rows_change_about_one_percent() -> None:
    for seed in range(5):
        old, new = index(20_000, seed), index(200, seed + 100, start=10**6)
        before, _ = choose(old, MixtureConfig(seed=seed))
        after, _ = choose(pa.concat_tables([old, new]), MixtureConfig(seed=seed))
        changed = float((before != after[: len(before)]).mean())
        assert changed < 0.02, changed


def test_new_rows_of_one_objective_only_change_little_as_well() -> None:
    old = index(20_000, 1)
    new = index(400, 7, (0, 0, 0, 1), start=10**6)
    before, _ = choose(old, MixtureConfig())
    after, _ = choose(pa.concat_tables([old, new]), MixtureConfig())
    assert float((before != after[: len(before)]).mean()) < 0.04


def test_the_order_of_rows_has_no_say() -> None:
    table = index(1_000)
    order = np.random.default_rng(0).permutation(1_000)
    repeats, _ = choose(table, MixtureConfig())
    mixed, _ = choose(table.take(pa.array(order)), MixtureConfig())
    assert np.array_equal(mixed, repeats[order])


def test_the_seed_changes_who_is_chosen_but_not_how_much() -> None:
    table = index(5_000)
    one, two = choose(table, MixtureConfig(seed=1))[0], choose(table, MixtureConfig(seed=2))[0]
    assert (one != two).mean() > 0.02
    assert shares(table, one) == pytest.approx(shares(table, two), abs=0.01)
    hashes = seeded_hashes(table["sample_id"].to_pylist(), 1)
    assert len(set(hashes.tolist())) == 5_000 and abs((hashes / 2.0**64).mean() - 0.5) < 0.02


def test_repeats_are_bounded_and_a_budget_is_kept() -> None:
    table = index(3_000, 3, (0.02, 1, 1, 1))
    repeats, rates = choose(table, MixtureConfig(max_repeats=3))
    assert repeats.max() == 3 and rates["perception"] == 3
    table = index(3_000, 3)
    half = choose(table, MixtureConfig(budget_tokens=100_000))[0]
    assert abs(int((table["tokens"].to_numpy() * half).sum()) - 100_000) < 1_000


def test_mixture_of_real_shards_names_rows_that_exist_and_reports_shares(tmp_path: Path) -> None:
    store = gold(tmp_path, count=20)
    shards = build_shards(store, ["toy"])
    manifest = build_mixture(store)
    assert manifest.checks_passed
    listed = shards.read("index", ShardIndex.schema)
    where = {(r["shard"], r["row"]): r for r in listed.to_pylist()}
    spent = 0
    for row in manifest.read("mixture", Mixture.schema).to_pylist():
        assert file_sha256(shards_of(store, manifest, [row["shard"]])[0]) == row["sha256"]
        for number, times, group in zip(row["rows"], row["repeats"], row["row_groups"], strict=True):
            entry = where[row["shard"], number]
            assert entry["row_group"] == group and times >= 1
            spent += entry["tokens"] * times
    assert spent == manifest.counts["tokens"]
    table = {(r["group"], r["name"]): r for r in manifest.read("shares", SHARES).to_pylist()}
    assert sum(table["objective", name]["reached_share"] for name in OBJECTIVES) == pytest.approx(1)
    assert table["platform", "web"]["chosen_tokens"] > 0 and table["source", "toy"]["reached_share"] == 1


def test_short_data_is_reported_not_padded(tmp_path: Path) -> None:
    store = gold(tmp_path, count=5)
    build_shards(store, ["toy"])
    config = MixtureConfig(
        shares={"perception": 0.02, "vqa": 0.02, "grounding": 0.02, "navigation": 0.94}, max_repeats=1
    )
    manifest = build_mixture(store, config=config)
    assert manifest.checks_passed and manifest.counts["short"] == ["navigation"]
    assert manifest.counts["reached"]["navigation"] < 0.94


def test_displaced_duplicates_never_train(tmp_path: Path) -> None:
    store = gold(tmp_path)
    build_shards(store, ["toy"])
    ids = store.require("mid_training/shards").read("index")["sample_id"].to_pylist()[:50]
    spec = PartSpec("all", "x")
    with store.build("hygiene/duplicates", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.table("displaced", pa.table({"item_id": [f"sample:{n}" for n in ids]})))
        build.commit()
    manifest = build_mixture(store, config=MixtureConfig(max_repeats=9))
    assert manifest.counts["displaced"] == 50
    rows = {(r["shard"], n) for r in manifest.read("mixture").to_pylist() for n in r["rows"]}
    index_rows = store.require("mid_training/shards").read("index").to_pylist()
    assert not any((r["shard"], r["row"]) in rows for r in index_rows if r["sample_id"] in ids)
    assert build_mixture(store, duplicates=False).counts["displaced"] == 0


def test_a_rerun_is_the_same_version(tmp_path: Path) -> None:
    store = gold(tmp_path, count=4)
    build_shards(store, ["toy"])
    other = build_mixture(store, config=MixtureConfig(seed=1)).version
    assert build_mixture(store).version == build_mixture(store).version != other


@pytest.mark.parametrize(
    "bad",
    [
        {"shares": {"vqa": 0.5}},
        {"shares": {"chess": 1.0}},
        {"shares": {"vqa": 1.5, "grounding": -0.5}},
        {"max_repeats": 0},
        {"budget_tokens": 0},
    ],
)
def test_contradictory_configs_are_refused(bad: dict) -> None:
    with pytest.raises(ValueError, match="MixtureConfig: "):
        MixtureConfig(**bad)


def test_no_shards_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="mid_training/shards"):
        build_mixture(Store(tmp_path))


def navigation(counts: dict[str, int], seed: int = 0) -> pa.Table:
    """An index of navigation rows, so many of each action type."""
    table = index(sum(counts.values()), seed, (0, 0, 0, 1))
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    return table.set_column(table.schema.get_field_index("action"), "action", pa.array(kinds))


NAVIGATION = {"perception": 0.0, "vqa": 0.0, "grounding": 0.0, "navigation": 1.0}


def of_actions(table: pa.Table, config: MixtureConfig) -> dict[str, float]:
    """Action type → share of the chosen tokens."""
    repeats, _ = choose(table, config)
    spent, kinds = table["tokens"].to_numpy() * repeats, np.array(table["action"].to_pylist())
    return {kind: float(spent[kinds == kind].sum() / spent.sum()) for kind in sorted(set(kinds))}


def test_sparse_actions_are_repeated_to_their_share_and_the_others_make_room() -> None:
    table = navigation({"Click": 9_000, "Type": 940, "LongPress": 40, "PressRecent": 5, "Wait": 15})
    config = MixtureConfig(shares=NAVIGATION, max_repeats=16)
    found = of_actions(table, config)
    assert found["LongPress"] == pytest.approx(0.005, abs=0.0005)  # 0.4 % of the rows
    assert found["PressRecent"] == pytest.approx(0.005, abs=0.001)  # 0.05 % of the rows
    assert found["Wait"] == pytest.approx(0.005, abs=0.001)
    assert sum(found.values()) == pytest.approx(1) and found["Click"] > 0.88
    bounded = of_actions(table, MixtureConfig(shares=NAVIGATION, max_repeats=4))
    assert 0.001 < bounded["PressRecent"] < 0.0025, "four times what there is, where data allows no more"
    plain = of_actions(table, MixtureConfig(shares=NAVIGATION, sparse_action=0))
    assert plain["PressRecent"] < 0.001
    repeats, _ = choose(table, config)
    tokens = table["tokens"].to_numpy()
    assert abs(int((tokens * repeats).sum()) - int(tokens.sum())) < 500, "the budget is kept"
    order = np.random.default_rng(0).permutation(table.num_rows)
    assert np.array_equal(choose(table.take(pa.array(order)), config)[0], repeats[order])


def held_to(share: float, others: int = 3_000, config: MixtureConfig | None = None) -> float:
    """Share of the chosen tokens that a source of 1,000 navigation rows has beside others, held down to a share."""
    table = navigation({"Click": 1_000 + others})
    names = ["habit"] * 1_000 + ["s"] * others
    table = table.set_column(table.schema.get_field_index("source"), "source", pa.array(names))
    repeats, _ = choose(table, config or MixtureConfig(shares=NAVIGATION, most_of_source={"habit": share}))
    spent = table["tokens"].to_numpy() * repeats
    assert abs(int(spent.sum()) - int(table["tokens"].to_numpy().sum())) < 500, "the budget is kept"
    return float(spent[:1_000].sum() / spent.sum())


def test_a_source_is_held_below_its_share_and_the_others_make_up() -> None:
    assert held_to(1.0) == pytest.approx(0.25, abs=0.01)
    assert held_to(0.05) == pytest.approx(0.05, abs=0.002) and held_to(0.0) == 0.0
    assert held_to(0.05, others=0) == 1.0, "there is nothing else"
    assert held_to(0.05, others=100) == pytest.approx(1 - 4 * 100 / 1_100, abs=0.02), "others repeat four times at most"


def failed(manifest: Manifest) -> dict[str, str]:
    return {check.name: str(check.found) for check in manifest.checks if not check.passed}


def test_a_corpus_that_is_nearly_one_objective_is_blocked_and_says_what_is_short(tmp_path: Path) -> None:
    store = gold(tmp_path, count=20)
    build_shards(store, ["toy"])
    listed = store.require("mid_training/shards").read("index", ShardIndex.schema)
    others = pa.array([n for n, name in enumerate(listed["objective"].to_pylist()) if name != "perception"])
    ids = listed.take(others)["sample_id"].to_pylist()[3:]  # of all other objectives three samples are left
    spec = PartSpec("all", "x")
    with store.build("hygiene/duplicates", code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.table("displaced", pa.table({"item_id": [f"sample:{n}" for n in ids]})))
        build.commit()
    manifest = build_mixture(store)
    assert manifest.counts["reached"]["perception"] > 0.8 and not manifest.checks_passed
    [found] = [text for name, text in failed(manifest).items() if name == "every objective has its floor"]
    assert "navigation 0.00% of 8.08%" in found and "perception" not in found
    assert store.current("mid_training/mixture") is None, "it doesn't become current"
    assert build_mixture(store, config=MixtureConfig(least_of_target=0)).checks_passed


def test_floors_hold_for_platforms_and_action_types_by_name(tmp_path: Path) -> None:
    store = gold(tmp_path, count=20)
    build_shards(store, ["toy"])
    sound = build_mixture(store)
    assert sound.checks_passed and set(sound.counts["actions"]) == {"Click", "Type", "Finished"}
    assert sum(sound.counts["actions"].values()) == pytest.approx(1, abs=1e-4)
    short = failed(build_mixture(store, config=MixtureConfig(floors={"desktop": 0.2, "LongPress": 0.1, "Click": 0.01})))
    assert set(short) == {"every platform has its floor", "every action type has its floor"}
    assert "desktop 0.00% of 20.00%" in short["every platform has its floor"]
    assert "LongPress 0.00% of 10.00%" in short["every action type has its floor"]


def test_only_what_can_be_short_has_a_floor() -> None:
    assert set(FLOORED) == {*OBJECTIVES, *PLATFORMS, *SPACES[WIDEST]}
    with pytest.raises(ValueError, match="floors: 'chess' is no objective"):
        MixtureConfig(floors={"chess": 0.1})
