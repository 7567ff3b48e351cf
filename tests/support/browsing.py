"""Corpora to browse: sources with varied verdicts, rejected and displaced items, and a `vesper browse` of one's own."""

from __future__ import annotations

import random
from pathlib import Path

import corpusmaker
import goldmaker
import pyarrow as pa

from pipelines.derivers.derive import derive_samples
from pipelines.store import Store
from quality.duplicates.dedup import DISPLACED
from quality.judges.judge import route
from schemas.ids import item_episode, item_step
from schemas.tables import Quarantine, Verdicts

REASONS = (
    "box_shift: all 7 boxes lie off what is drawn",
    "no_effect: the screen after it is the same",
    "the point lies in its target box",
    "<b>looks fine</b> & nothing objects",
)
HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> '); DROP TABLE items; -- ${7*7}"


def verdict_row(item_id: str, score: int | None, reason: str, number: int = 0) -> dict[str, object]:
    """A row of `verdicts`."""
    return {
        "item_id": item_id,
        "round": number,
        "score": score,
        "alignment": score,
        "reachability": score,
        "disposition": route(score),
        "reason": reason,
        "confidence": 0.5,
        "judge": "rules" if score != 1 else "cleaning",
        "model": "none",
        "rubric_version": "rules-1",
    }


def browsed_source(store: Store, source: str, seed: int, count: int = 8, goals: list[str] | None = None) -> None:
    """`unified`, `verdicts` and `gold` of a source: a verdict a step, drawn by seed; what scored 3 or less isn't gold,
    and one native record couldn't be mapped."""
    draw = random.Random(seed)
    steps, screens = goldmaker.episodes(store, source, count, seed=seed, instructions=goals)
    rows = []
    for row in steps.to_pylist():
        score = draw.choice([None, 0, 1, 3, 4, 6, 7, 9, 10])
        name = item_step(source, row["episode_id"], row["step_index"])
        rows.append(verdict_row(name, score, draw.choice(REASONS)))
    rows += [
        verdict_row(item_episode(source, episode), draw.choice([5, 8, 10]), "ends with Finished")
        for episode in sorted(set(steps["episode_id"].to_pylist()))
    ]
    lost = [
        {
            "source": source,
            "unit": "record",
            "items": 1,
            "reason": "off_screen",
            "detail": "x 900 lies outside",
            "file": "a.json",
            "record": "row 2",
            "native": "{}",
        }
    ]
    bad = {row["item_id"] for row in rows if row["score"] is not None and row["score"] <= 3}
    kept = pa.array(
        [item_step(source, row["episode_id"], row["step_index"]) not in bad for row in steps.to_pylist()], pa.bool_()
    )
    tables = {"steps": steps, "screens": screens, "quarantine": Quarantine.table(lost)}
    unified = corpusmaker.commit(store, f"unified/{source}", {}, tables)
    inputs = {unified.asset: unified.version}
    verdicts = corpusmaker.commit(store, f"verdicts/{source}", inputs, {"verdicts": Verdicts.table(rows)})
    samples = derive_samples(steps.filter(kept), screens, licence="MIT")
    corpusmaker.commit(
        store,
        f"gold/{source}",
        {**inputs, verdicts.asset: verdicts.version},
        {"steps": steps.filter(kept), "samples": samples},
    )


def browsed_store(home: Path) -> Store:
    """A store with two browsed sources, some samples displaced by duplicates, one episode unsafe."""
    store = Store(home)
    browsed_source(store, "aitz", 1, goals=[HOSTILE, *(f"Open page {number} and come back" for number in range(7))])
    browsed_source(store, "toy", 2)
    samples = sorted(store.require("gold/toy").read("samples")["sample_id"].to_pylist())
    rows = [
        {"item_id": f"sample:{name}", "source": "toy", "kept": f"sample:{samples[0]}", "similarity": 0.9, "reason": "x"}
        for name in samples[1:4]
    ]
    corpusmaker.commit(store, "hygiene/duplicates", {}, {"displaced": pa.Table.from_pylist(rows, DISPLACED)})
    unsafe = [{"item_id": "episode:toy/e0001", "source": "toy", "reason": "personal_data: phone"}]
    corpusmaker.commit(store, "hygiene/safety", {}, {"quarantine": pa.Table.from_pylist(unsafe)})
    return store
