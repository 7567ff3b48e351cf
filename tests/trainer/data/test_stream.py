"""The stream of the mixture, and the rows kept out of it for validation."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from goldmaker import gold

from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.data.clusters import cluster_of, set_aside
from trainer.data.row_sources import ListSource
from trainer.data.rows import light_rows, pick, with_pictures
from trainer.data.stream import MixtureSource, ScheduledSource
from trainer.midtrain.schedule import scheduled
from trainer.settings.supervised import MidtrainConfig


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = gold(tmp_path_factory.mktemp("stream"), count=20, parts=2)
    build_shards(store, ["toy"])
    build_mixture(store)
    return store


def ids(rows: Any) -> list[str | None]:
    return [row["sample_id"] if row else None for row in rows]


@pytest.mark.slow
def test_any_position_is_found_at_once(store: Store) -> None:
    source = MixtureSource(store, store.require("mid_training/mixture"), seed=1)
    whole = ids(islice(source.rows(0), 300))
    for start in (0, 1, 31, 32, 33, 150, 299):
        assert ids(islice(source.rows(start), 300 - start)) == whole[start:]
    other = MixtureSource(store, store.require("mid_training/mixture"), seed=2)
    assert ids(islice(other.rows(0), 300)) != whole and other.digest() != source.digest()


def test_rows_kept_for_validation_never_come(store: Store) -> None:
    mixture = store.require("mid_training/mixture")
    plain = ids(islice(MixtureSource(store, mixture).rows(0), 200))
    banned = {plain[0], plain[7]}
    source = MixtureSource(store, mixture, without=sorted(str(name) for name in banned))
    assert ids(islice(source.rows(0), 200)) == [None if name in banned else name for name in plain]


def recorded(platform: str, episode: int, length: int, last: str = "Finished()") -> list[dict[str, object]]:
    """Rows of an episode as shards hold them, as far as validation asks."""
    return [
        {
            "sample_id": f"{platform}{episode}-{step}",
            "source": "drawn",
            "objective": "navigation",
            "platform": platform,
            "parents": [f"step:drawn/{platform}{episode}/{step}"],
            "provenance": json.dumps({"episode": f"{platform}{episode}", "step": step}),
            "answer": f"<think></think><action>{last if step == length - 1 else 'Wait()'}</action>",
        }
        for step in range(length)
    ]


def test_validation_takes_so_many_whole_episodes_of_each_platform_and_leaves_half() -> None:
    lengths = {"mobile": 60, "web": 8}
    rows = [row for name, count in lengths.items() for at in range(count) for row in recorded(name, at, 2 + at % 4)]
    # no end, a gap: such episodes say nothing of traces
    torn = [row for at in range(60, 90) for row in (*recorded("mobile", at, 2, "Wait()"), *recorded("web", at, 3)[1:])]
    screens = [{**row, "objective": "grounding", "parents": [f"screen:{row['sample_id']}"]} for row in rows]

    def episodes(share: float, least: int) -> dict[str, dict[str, int]]:
        """Episodes that are set aside, with their rows, by platform."""
        aside = [row for row in set_aside([*rows, *torn, *screens], share, least) if row["objective"] == "navigation"]
        return {name: Counter(cluster_of(row) for row in aside if row["platform"] == name) for name in lengths}

    alone = episodes(0.0, 20)
    assert [len(some) for some in alone.values()] == [20, 4]
    assert sorted(alone["mobile"].values()) == [2] * 15 + [3] * 5, "the shortest: a look is paid for by the step"
    assert sorted(alone["web"].values()) == [2, 2, 3, 3]
    assert [len(some) for some in episodes(0.0, 0).values()] == [0, 0]
    by_share, both, more = episodes(0.1, 0), episodes(0.1, 20), episodes(0.1, 25)
    for name in lengths:
        assert set(by_share[name]) <= set(both[name]) <= set(more[name])  # it adds, and swaps nothing
    without = set_aside([*rows, *screens], 0.1, 20), set_aside([*rows, *screens], 0.1)
    grounding = [[row for row in some if row["objective"] == "grounding"] for some in without]
    assert grounding[0] == grounding[1]


def test_validation_takes_whole_episodes_and_screens(store: Store) -> None:
    rows = light_rows(store.require("mid_training/shards"))
    aside = set_aside(rows, 0.3)
    inside, outside = {cluster_of(r) for r in aside}, {cluster_of(r) for r in rows if r not in aside}
    assert inside and outside and not inside & outside
    assert set_aside(rows[::-1], 0.3) == aside[::-1] and set_aside(rows, 0.0) == []
    assert {r["sample_id"] for r in set_aside(rows, 0.1)} <= {r["sample_id"] for r in aside}  # grows, never swaps
    step = {"parents": ["step:aitw/ep/1/7"], "sample_id": "s"}
    assert cluster_of(step) == "episode:aitw/ep/1" and cluster_of({"parents": [], "sample_id": "s"}) == "sample:s"


def test_pictures_are_read_for_the_rows_asked_for_only(store: Store) -> None:
    manifest = store.require("mid_training/shards")
    light = light_rows(manifest, ("train",))
    assert all("images" not in row for row in light) and light_rows(manifest, ("test",)) == []
    chosen = pick(light, 3, 0, lambda row: row["objective"])
    filled = with_pictures(manifest, chosen[::-1])
    assert [row["sample_id"] for row in filled] == [row["sample_id"] for row in chosen[::-1]]
    assert all(row["images"][0]["bytes"].startswith(b"\x89PNG") for row in filled)
    with pytest.raises(ValueError, match="expected parquet files with messages"):
        light_rows(replace(manifest, files=[]))


def test_a_schedule_gives_each_phase_its_shares_at_any_position() -> None:
    rows = [{"sample_id": str(i), "objective": "grounding" if i % 10 else "navigation"} for i in range(200)]
    schedule = [(0.25, {"grounding": 1.0}), (0.75, {"grounding": 1.0, "navigation": 3.0})]
    counts = {"grounding": 180, "navigation": 20, "vqa": 0}
    source = ScheduledSource(ListSource(rows, 1), schedule, counts, 2000, seed=3)
    kept = list(islice((row for row in source.rows(0) if row), 2000))
    first, second = kept[:480], kept[520:]
    assert {row["objective"] for row in first} == {"grounding"}
    share = sum(row["objective"] == "navigation" for row in second) / len(second)
    assert 0.72 < share < 0.78
    whole = list(islice(source.rows(0), 900))
    assert list(islice(source.rows(555), 345)) == whole[555:]
    other = ScheduledSource(ListSource(rows, 1), schedule[::-1][:1] + [(0.25, {"grounding": 1.0})], counts, 2000)
    assert other.digest() != source.digest()


def test_the_schedule_of_a_config_counts_what_there_is(store: Store) -> None:
    mixture, rows = store.require("mid_training/mixture"), light_rows(store.require("mid_training/shards"))
    plain = MixtureSource(store, mixture)
    config = MidtrainConfig.parsed(
        {"max_steps": 30, "batch_size": 4, "schedule": [[0.5, {"grounding": 1}], [0.5, {"navigation": 1}]]}
    )
    source = scheduled(plain, config, rows)
    kept = [row["objective"] for row in islice((row for row in source.rows(0) if row), 120)]
    assert set(kept[:45]) == {"grounding"} and set(kept[75:]) == {"navigation"}
    assert scheduled(plain, MidtrainConfig.parsed({"max_steps": 3}), rows) is plain
    packed = scheduled(plain, config.changed(packing=True, max_length=4 * int(rows[0]["tokens"])), rows)
    assert packed.digest() != source.digest()


@pytest.mark.parametrize(
    "schedule", [[], [(0.5, {"grounding": 1.0})], [(1.0, {})], [(1.0, {"other": 1.0})], [(1.0, {"grounding": -1.0})]]
)
def test_a_schedule_that_cannot_be_kept_is_refused(schedule: Any) -> None:
    with pytest.raises(ValueError, match="schedule"):
        ScheduledSource(ListSource([{"objective": "grounding"}]), schedule, {"grounding": 1}, 10)
