"""Probes on a small corpus: equal tokens, the same questions, kept by content, gone on with after a kill."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import corpusmaker
import pyarrow as pa
import pytest

from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture_config import TARGET_SHARES
from pipelines.training_data.shards import build_shards
from schemas.tables import Verdicts
from trainer.settings.stages import HELDOUT
from trainer.settings.worth import WorthSettings
from trainer.stages.worth import Deployed, build_worth
from trainer.worth.plan import plan
from trainer.worth.pools import PoolRow, RowPools
from trainer.worth.probe import ProbeRunner
from trainer.worth.tables import ALONE, LEFT_OUT, MIXTURE, PROPOSAL, RULES, SOURCES
from trainer.worth.variants import Variant

NAMES = ("first", "second", "third")  # one of them may change beside the others as they were
DEPLOYED = Deployed(NAMES, TARGET_SHARES)
SMALL = {"tokens": 600, "batch_size": 2, "grounding": 4, "navigation": 1, "processes": 1}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("corpus")
    store = Store(folder / "home")
    for number, name in enumerate(NAMES):
        corpusmaker.light_source(store, folder / "raw", name, seed=number + 1)
    build_shards(store, NAMES, HELDOUT, ("test",))
    return store


@pytest.fixture
def store(corpus: Store, tmp_path: Path) -> Store:
    shutil.copytree(corpus.home, tmp_path / "home")
    return Store(tmp_path / "home")


class Counted:
    """Counts the probes that were run; a kill after `last` of them."""

    def __init__(self, last: int = 10_000) -> None:
        self.runs, self._last = 0, last

    def __call__(self, event: dict[str, Any]) -> None:
        if event["kind"] == "probe":
            self.runs += 1
            if self.runs == self._last:
                raise KeyboardInterrupt


def _worth(store: Store, base: Path, asset: str, counted: Counted | None = None, **more: Any) -> Manifest:
    config = {"worth": {**SMALL, "base": str(base), **more}}
    return build_worth(store, asset, DEPLOYED, config, counted)


@pytest.mark.slow(seconds=70)
def test_each_source_is_measured_and_one_that_changed_costs_its_own_probes_alone(
    store: Store, base: Path, tmp_path: Path
) -> None:
    first = Counted()
    made = _worth(store, base, SOURCES, first)
    rows = made.read("worth").to_pylist()
    assert {(row["kind"], row["subject"]) for row in rows} == {(k, n) for k in (LEFT_OUT, ALONE) for n in NAMES}
    # of three seeds each: all together, three times all but one, each alone; the base is no training, so once. A plan
    # that is another's (a source whose rows come late in all) is no run of its own.
    assert 3 * (1 + 2 + 3) <= first.runs <= 3 * (1 + 3 + 3) + 1
    assert all(row["seeds"] == 3 and row["questions"] > 0 and row["tokens"] >= SMALL["tokens"] for row in rows)
    assert max(row["tokens"] for row in rows) < SMALL["tokens"] + 2 * 160, "equal tokens, but for the last batch"
    assert made.rows("costs") == len(rows)

    again = Counted()
    assert _worth(store, base, SOURCES, again).version == made.version and again.runs == 0

    corpusmaker.light_source(store, tmp_path / "raw", "second", seed=77)
    changed = Counted()
    later = _worth(store, base, SOURCES, changed)
    assert later.version != made.version
    assert 3 < changed.runs <= 3 * 2, "the second source beside the others as they were, and alone"
    # what others are worth is what it was: they were measured beside the second source as it was
    before, after = (
        {(r["kind"], r["subject"]): r for r in one.read("worth").to_pylist() if r["subject"] != "second"}
        for one in (made, later)
    )
    assert before == after

    fresh = Counted()
    _worth(store, base, SOURCES, fresh, company="current")
    assert 3 < fresh.runs <= 3 * 2, "without each of the others, which now holds the new second source"


@pytest.mark.slow
def test_a_killed_measurement_goes_on_in_several_processes_to_the_answers_of_one(store: Store, base: Path) -> None:
    killed, rest, whole = Counted(last=5), Counted(), Counted()
    with pytest.raises(KeyboardInterrupt):
        _worth(store, base, MIXTURE, killed)
    made = _worth(store, base, MIXTURE, rest, processes=2)
    shutil.rmtree(store.home / "cache" / "worth")
    shutil.rmtree(store.home / "assets" / "worth")
    again = _worth(store, base, MIXTURE, whole)
    assert killed.runs + rest.runs == whole.runs
    assert again.data_version == made.data_version, "the same answers, killed or not, in one process or in two"
    proposal = json.loads(made.file(PROPOSAL).read_text())
    assert proposal["current"] == TARGET_SHARES and {row["objective"] for row in proposal["transfers"]} <= set(
        TARGET_SHARES
    )


@pytest.mark.slow
def test_rules_let_train_what_they_say(store: Store, base: Path) -> None:
    verdicts = store.require("verdicts/first")
    rows = verdicts.read("verdicts").to_pylist()
    for number, row in enumerate(rows):
        row["score"] = row["alignment"] = (5, 6, 8)[number % 3]
    corpusmaker.commit(store, "verdicts/first", verdicts.inputs, {"verdicts": Verdicts.table(rows)})
    pools = RowPools(store, {"first": store.require("gold/first")}, 8)
    scores = pools.scores("first")

    def steps(least: int) -> set[str]:
        pool = pools.unified("first", lambda item: scores.get(item, -1) >= least)
        return {parent for one in pool for parent in one.row["parents"] if parent.startswith("step:")}

    everything = {parent for one in pools.unified("first") for parent in one.row["parents"]}
    assert steps(9) == set() and steps(0) == {name for name in everything if name.startswith("step:")}
    assert steps(8) < steps(6) < steps(5)
    assert all(scores[name] >= 6 for name in steps(6))

    made = _worth(store, base, RULES, thresholds=[6, 9])
    subjects = {row["subject"]: row for row in made.read("worth").to_pylist()}
    assert "score 6 and more against raw" in subjects and "score 9 and more against raw" in subjects
    assert subjects["refined against raw"]["says"] == "the same rows", "nothing was repaired or rejected here"
    assert {"navigation", "grounding_element"} <= set(subjects), "each deriver"
    assert "generated" not in subjects and not any("nano" in name for name in subjects), "there are none of these"


@pytest.mark.slow
def test_a_plan_has_the_tokens_and_shares_that_were_asked_for(store: Store, base: Path) -> None:
    runner = ProbeRunner(store, base, [], WorthSettings())
    pools = RowPools(store, {name: store.require(f"gold/{name}") for name in NAMES}, 8)
    pool = tuple(one for name in NAMES for one in pools.gold(name))
    assert pool and {one.row["split"] for one in pool} == {"train"}
    shares = {"grounding": 0.75, "navigation": 0.25}
    made = plan(Variant("a", pool, shares), 0, 8000, 4, runner.length)
    lengths = [runner.length(one) or 0 for one in made.rows]
    assert made.tokens == sum(lengths) >= 8000 > made.tokens - sum(lengths[-4:]) and len(made.rows) % 4 == 0
    tokens: Counter[str] = Counter()
    for one, size in zip(made.rows, lengths, strict=True):
        tokens[one.row["objective"]] += size
    assert set(tokens) == set(shares)
    assert tokens["grounding"] / made.tokens == pytest.approx(0.75, abs=0.03)
    assert plan(Variant("b", pool[::-1], shares), 0, 8000, 4, runner.length) == made, "whatever the order of the rows"
    assert plan(Variant("a", pool, shares), 1, 8000, 4, runner.length) != made
    # without a few rows the rest still trains, in the same order: two variants differ in what they differ in
    less = plan(Variant("c", pool[8:], shares), 0, 4000, 4, runner.length)
    missing = {one.digest for one in pool[:8]}
    both = [one for one in made.rows if one.digest not in missing and one.row["objective"] == "grounding"]
    assert [one for one in less.rows if one.row["objective"] == "grounding"][:10] == both[:10]
    with pytest.raises(ValueError, match="found .* rows and none of these"):
        plan(Variant("none", pool, {"perception": 0.0}), 0, 100, 4, runner.length)


def test_what_may_not_train_is_in_no_pool(store: Store) -> None:
    golds = {name: store.require(f"gold/{name}") for name in NAMES}
    pool = RowPools(store, golds, 8).gold("first")
    bad = pool[0].row["sample_id"]
    gone = pa.table({"item_id": [f"sample:{bad}"]})
    corpusmaker.commit(store, "hygiene/safety", {}, {"quarantine": gone})
    left = RowPools(store, golds, 8).gold("first")
    assert [one for one in pool if one.row["sample_id"] != bad] == list(left)
    assert PoolRow.of({**pool[0].row, "answer": "other"}).digest != pool[0].digest
