"""What people kept though the judge rejected it is gold, with who said so and when; as long as it is what they saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import goldmaker
import pytest

from pipelines.store import Check, PartSpec, Store
from pipelines.store.manifest import Manifest
from pipelines.training_data.shards import build_shards
from quality.items.item import Episode
from quality.judges.judge import Verdict
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewrite import ProofRewriter
from quality.review.promote import promote
from quality.review.queue import build_queue, open_queue
from quality.review.verdict_store import HumanVerdict, VerdictStore, answers_path
from schemas.tables import Samples, Steps

BAD, OTHER = "e0001", "e0002"
SAID_AT = 1_700_000_000.0  # 2023-11-14T22:13:20+00:00


class Harsh:
    """Rejects two episodes whatever is done to them."""

    name, model, rubric_version = "harsh", "none", "1"

    def judge(self, items: Any, round_number: int = 0, habits: Any = None) -> list[Verdict]:
        found = []
        for item in items:
            assert isinstance(item, Episode)
            score = 2 if item.item_id.rpartition("/")[2] in (BAD, OTHER) else 9
            names = [item.item_id, *(step.item_id for step in item.actions)]
            found += [
                Verdict(
                    name,
                    None if name.startswith("episode:") else score,
                    score,
                    "because",
                    0.8,
                    self.name,
                    self.model,
                    self.rubric_version,
                    round_number,
                )
                for name in names
            ]
        return found


class Idle(ProofRewriter):
    """Repairs nothing: what is rejected stays what it was."""

    def rewrite_episode(self, *_: Any) -> None:
        return None

    def rewrite_step(self, *_: Any) -> None:
        return None

    def rewrite_sample(self, *_: Any) -> None:
        return None


def _unify(store: Store, **changed: str) -> None:
    """`unified/toy` of four episodes in two parts; `changed`: episode → its goal."""
    steps, screens = goldmaker.episodes(store, "toy", 4)
    rows = [{**row, "instruction": changed.get(row["episode_id"], row["instruction"])} for row in steps.to_pylist()]
    specs = [PartSpec(str(n), repr(sorted(changed.items())) if n == 0 else "") for n in range(2)]
    with store.build("unified/toy", code_version="1", parts=specs) as build:
        for number, spec in enumerate(specs):
            mine = Steps.table(row for row in rows if int(row["episode_id"][1:]) // 2 == number)
            tables = {"steps": mine, "samples": Samples.schema.empty_table(), "screens": screens}
            build.run_part(spec, lambda out, tables=tables: [out.table(n, t) for n, t in tables.items()] and {})
        build.commit(checks=[Check("made", True, "yes", "yes")])


def _gold(store: Store) -> Manifest:
    judge_source(store, "toy", Harsh())
    return build_gold(store, "toy", Harsh(), Idle())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("quality.refinement.refine.reconstruct_step", lambda *_: None)  # nothing is repaired
    monkeypatch.setattr("quality.refinement.refine.reconstruct_episode", lambda *_: None)
    made = Store(tmp_path)
    _unify(made)
    gold = _gold(made)
    assert _episodes(gold) == {"e0000", "e0003"} and gold.counts["overruled"] == 0
    build_queue(made, ["toy"])
    return made


def _episodes(gold: Manifest) -> set[str]:
    return set(gold.read("steps", Steps.schema)["episode_id"].to_pylist())


def _answer(store: Store, number: int = 0, **decisions: str) -> None:
    """Two people say of episodes of the queue what is decided, `discard` where nothing is."""
    answers = VerdictStore(answers_path(store.home), clock=lambda: SAID_AT)
    for name in ("ann", "bob"):
        for place, (item, shown) in enumerate(open_queue(store).trajectories.items()):
            decision = decisions.get(item.rpartition("/")[2], "discard")
            request = f"request:{name}:{place}:{number}"
            answers.add(HumanVerdict(item, name, "annotator", decision, request=request, content=shown.digest))
    answers.close()
    promote(store)


def test_people_overrule_the_judge_and_the_corpus_has_it(store: Store) -> None:
    before = store.require("gold/toy")
    _answer(store, e0001="keep")
    gold = _gold(store)
    assert gold.checks_passed and _episodes(gold) == {"e0000", BAD, "e0003"}
    asked = {row["episode_id"]: row for row in store.require("unified/toy").read("steps").to_pylist()}
    mine = [row for row in gold.read("steps").to_pylist() if row["episode_id"] == BAD]
    assert len(mine) == 3 and mine[0]["instruction"] == asked[BAD]["instruction"]
    assert gold.counts["overruled"] == 2 + 1 and gold.counts["gold"] == before.counts["gold"] + 3
    rejects = gold.read("rejects")["item_id"].to_pylist()
    assert rejects and not any(BAD in name for name in rejects)
    # who, when, and whom they overruled
    said = [row for row in gold.read("verdicts").to_pylist() if row["judge"] == "people"]
    promoted = gold.counts["feedback/human_verdicts"]
    assert {row["item_id"] for row in said} >= {f"episode:toy/{BAD}", f"step:toy/{BAD}/0"}
    assert all(row["disposition"] == "keep" and row["model"] == promoted[:16] for row in said)
    assert said[0]["reason"].startswith("kept by ann, bob (2023-11-14T22:13:20+00:00); harsh had 2: because")
    assert f'"feedback/human_verdicts":"{promoted}"' in mine[0]["provenance"] and "ann" not in mine[0]["provenance"]
    # and it trains
    shards = build_shards(store, ["toy"])
    named = {row["sample_id"]: " ".join(row["parents"]) for row in gold.read("samples").to_pylist()}
    assert any(BAD in named[name] for name in shards.read("index")["sample_id"].to_pylist())
    # the part of which nobody kept anything isn't made again, nor anything in a second run
    files = {m.version: {e.sha256: e.path for e in m.files if e.table == "steps"} for m in (before, gold)}
    assert len(set(files[before.version].items()) & set(files[gold.version].items())) == 1
    assert _gold(store).version == gold.version


def test_it_holds_only_for_what_they_saw_and_while_they_say_so(store: Store) -> None:
    _answer(store, e0001="keep", e0002="keep")
    assert _episodes(_gold(store)) == {"e0000", BAD, OTHER, "e0003"}
    _unify(store, e0001="something else entirely")
    assert _episodes(_gold(store)) == {"e0000", OTHER, "e0003"}, "nobody saw this goal"
    _unify(store)
    _answer(store, 1, e0001="keep")  # they changed their mind about the other one
    assert _episodes(_gold(store)) == {"e0000", BAD, "e0003"}


def test_what_a_judge_keeps_anyway_costs_nothing(store: Store) -> None:
    before = store.require("gold/toy")
    _answer(store, e0000="keep", e0003="keep")
    gold = _gold(store)
    assert gold.version == before.version and "feedback/human_verdicts" not in gold.counts
