"""What people refused doesn't train, as long as it is what they saw."""

from __future__ import annotations

from pathlib import Path

import goldmaker
import pyarrow as pa
import pytest

from pipelines.store import Store
from pipelines.training_data.shards import build_shards
from quality.review.promote import promote
from quality.review.queue import build_queue, open_queue
from quality.review.refusals import Quarantine, find_refused
from quality.review.verdict_store import HumanVerdict, VerdictStore, answers_path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = goldmaker.gold(tmp_path, count=4)
    build_queue(made, ["toy"])
    return made


def _answer(store: Store, decisions: dict[str, str]) -> None:
    """Two people say of each item of the queue what is decided, `keep` where nothing is."""
    answers = VerdictStore(answers_path(store.home))
    for name in ("ann", "bob"):
        for place, (item, shown) in enumerate(open_queue(store).trajectories.items()):
            decision, request = decisions.get(item, "keep"), f"request:{name}:{place}"
            answers.add(HumanVerdict(item, name, "annotator", decision, request=request, content=shown.digest))
    answers.close()
    promote(store)


def _refused(store: Store) -> list[str]:
    return list(find_refused(store, ["toy"]).read("quarantine", Quarantine.schema)["item_id"].to_pylist())


def test_without_human_verdicts_nothing_changes(store: Store) -> None:
    before = build_shards(store, ["toy"])
    made = find_refused(store, ["toy"])
    assert made.checks_passed and made.counts["settled"] == 0 and made.rows("quarantine") == 0
    assert build_shards(store, ["toy"]).data_version == before.data_version


def test_what_people_refused_is_kept_from_the_shards(store: Store) -> None:
    everything = build_shards(store, ["toy"])
    _answer(store, {"episode:toy/e0001": "discard", "episode:toy/e0002": "rewrite"})
    made = find_refused(store, ["toy"])
    assert (made.counts["settled"], made.counts["refused"], made.counts["refused in gold"]) == (4, 2, 2)
    names = made.read("quarantine", Quarantine.schema)["item_id"].to_pylist()
    assert {name for name in names if name.startswith("episode:")} == {"episode:toy/e0001", "episode:toy/e0002"}
    assert all("e0001" in name or "e0002" in name for name in names)
    shards = build_shards(store, ["toy"])
    assert shards.checks_passed and shards.inputs["hygiene/human_verdicts"] == made.version
    assert shards.counts["refused"] > 0
    assert shards.counts["packed"] + shards.counts["refused"] == everything.counts["packed"]
    samples = store.require("gold/toy").read("samples").to_pylist()
    parents = {row["sample_id"]: " ".join(row["parents"]) for row in samples}
    packed = shards.read("index")["sample_id"].to_pylist()
    assert packed and not any("e0001" in parents[name] or "e0002" in parents[name] for name in packed)
    again = find_refused(store, ["toy"])
    assert again.version == made.version and build_shards(store, ["toy"]).version == shards.version


def test_what_was_repaired_since_is_not_what_people_saw(store: Store) -> None:
    _answer(store, {"episode:toy/e0001": "rewrite"})
    assert _refused(store)
    gold = store.require("gold/toy")
    steps = gold.read("steps")
    goals = [
        f"{goal} now" if episode == "e0001" else goal
        for goal, episode in zip(steps["instruction"].to_pylist(), steps["episode_id"].to_pylist(), strict=True)
    ]
    place = steps.schema.get_field_index("instruction")
    repaired = steps.set_column(place, steps.schema.field(place), pa.array(goals, pa.string()))
    goldmaker.commit_gold(store, "toy", repaired, gold.read("samples"))
    assert _refused(store) == []
