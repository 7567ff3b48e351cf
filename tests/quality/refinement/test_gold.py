"""Gold on a store: what it holds, what makes it anew, how true it is, and the same by the commands on a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.store import PartSpec, Store
from pipelines.store.files import StoreError
from quality.commands.judge import judge_directory
from quality.commands.refine import refine_directory
from quality.judges.registry import JudgeConfig
from quality.judges.rules import RUBRIC_VERSION, RulesJudge
from quality.judges.verdicts import judge_source
from quality.refinement.fidelity import fidelity
from quality.refinement.gold import CODE_VERSION, build_gold
from quality.refinement.rewrite import ProofRewriter
from schemas.actions import Click, Scroll, Wait
from schemas.tables import Quarantine, Samples, Screens, Steps


@pytest.fixture
def store(tmp_path: Path, world, scrolled, buttons) -> Store:
    """A committed `unified/made` of two parts with one flipped scroll, one shifted click and a bad sample."""
    store = Store(tmp_path / "home")
    pages = [world.screen(scrolled(k)) for k in (0, 150)]
    page, after = world.page(buttons), world.page(buttons[:1])
    flipped = world.episode((Scroll(direction="up"), pages[0]), (Wait(), pages[1]))
    shifted = world.episode((Click((750, 900)), page, 'Tap "Search"'), (Wait(), after), episode_id="e2")
    samples = [
        world.grounding("Search", page, (200, 100, 340, 150), 0),
        world.grounding("Mail", page, (30, 500, 60, 530), 1),
    ]
    for data in world.data.values():
        store.put_screen(data)
    screens = Screens.table(world.rows.values())
    parts = {"a": ([s.row for s in flipped.steps], []), "b": ([s.row for s in shifted.steps], samples)}
    specs = [PartSpec(key, key) for key in parts]
    with store.build("unified/made", code_version="1", parts=specs) as build:
        for spec in specs:
            steps, native = parts[spec.key]

            def run(out, steps=steps, native=native):
                out.table("steps", Steps.table(steps))
                out.table("samples", Samples.table(native))
                out.table("screens", screens)
                out.table("quarantine", Quarantine.table([]))

            build.run_part(spec, run)
        build.commit()
    return store


class Counting(RulesJudge):
    asked = 0

    def judge(self, items, round_number=0, habits=None):
        self.asked += 1
        return super().judge(items, round_number, habits)


def test_gold_accounts_for_every_item_and_a_rerun_asks_nothing(store):
    judge = Counting()
    verdicts = judge_source(store, "made", judge)
    gold = build_gold(store, "made", judge, ProofRewriter())
    assert verdicts.counts["items"] == gold.counts["items"] == 6
    ends = ("kept", "rewritten", "reconstructed", "discarded", "unrepaired", "dropped", "review")
    assert sum(gold.counts[name] for name in ends) == 6 and gold.counts["reconstructed"] == 1
    assert gold.counts["share_after"] > gold.counts["share_before"]
    asked, version = judge.asked, gold.data_version
    judge_source(store, "made", judge)
    assert build_gold(store, "made", judge, ProofRewriter()).data_version == version and judge.asked == asked
    rejects = gold.read("rejects").to_pylist()
    assert all(json.loads(reject["row"]) and reject["reason"] for reject in rejects)


def test_nothing_is_derived_from_a_parent_that_was_forbidden(store):
    judge_source(store, "made", RulesJudge())
    gold = build_gold(store, "made", RulesJudge(), ProofRewriter())
    forbidden = {reject["item_id"].partition("@")[0] for reject in gold.read("rejects").to_pylist()}
    assert forbidden
    derived = [row for row in gold.read("samples").to_pylist() if row["parents"]]
    assert derived and not any(set(row["parents"]) & forbidden for row in derived)


def test_gold_is_made_anew_where_the_rules_that_prove_its_repairs_change():
    assert RUBRIC_VERSION in CODE_VERSION


def test_gold_needs_verdicts(store):
    with pytest.raises(StoreError, match="verdicts/made"):
        build_gold(store, "made", RulesJudge(), ProofRewriter())


def test_fidelity_compares_judge_and_truth(store, tmp_path, world):
    judge_source(store, "made", RulesJudge())
    build_gold(store, "made", RulesJudge(), ProofRewriter())
    lines = [
        {
            "unit": "item",
            "record": "e1",
            "item": 0,
            "defect": "flipped_scroll",
            "low_fidelity": True,
            "original": {"kind": "swipe", "direction": "down"},
        },
        {
            "unit": "item",
            "record": "e2",
            "item": 0,
            "defect": "shifted_point",
            "low_fidelity": True,
            "original": {"kind": "tap", "box": [200, 100, 340, 150]},
        },
        {
            "unit": "item",
            "record": "e2",
            "item": 1,
            "defect": "unseen_kind",
            "low_fidelity": True,
            "original": {"kind": "wait"},
        },
        {
            "unit": "record",
            "record": "e2",
            "item": None,
            "defect": "duplicate_record",
            "low_fidelity": False,
            "original": {},
        },
    ]
    truth = tmp_path / "made.jsonl"
    truth.write_text("\n".join(json.dumps(line) for line in lines))
    found = fidelity(store, "made", truth)
    assert found.items == 6 and found.truth_before == pytest.approx(0.5)
    assert found.kinds["flipped_scroll"].repaired == 1 and found.kinds["flipped_scroll"].recall == 1.0
    assert found.kinds["shifted_point"].found == 1 and found.kinds["shifted_point"].left_in_gold == 0
    assert found.kinds["unseen_kind"].recall == 0.0 and found.kinds["unseen_kind"].left_in_gold == 1
    assert found.precision == pytest.approx(2 / 3) and found.recall == pytest.approx(2 / 3)
    assert found.truth_after == pytest.approx(3 / 4)
    assert fidelity(store, "made", None).truth_before is None


def unified_directory(folder: Path, store: Store) -> Path:
    manifest = store.require("unified/made")
    for table in ("steps", "samples", "screens"):
        for number, path in enumerate(manifest.paths(table)):
            if pq.read_table(path).num_rows and not (table == "screens" and number):
                folder.mkdir(parents=True, exist_ok=True)
                pq.write_table(pq.read_table(path), folder / f"{table}-{number}.parquet")
    for sha in pq.read_table(folder / "screens-0.parquet").column("screenshot_sha256").to_pylist():
        target = folder / "screens" / sha[:2] / store.screen_path(sha).name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.screen_bytes(sha))
    return folder


def test_the_commands_work_on_a_folder_and_agree_with_the_store(store, tmp_path):
    folder = unified_directory(tmp_path / "in", store)
    report = judge_directory(folder, tmp_path / "judged")
    judged = judge_source(store, "made", RulesJudge())
    assert report["items"] == judged.counts["items"] and report["keep"] == judged.counts["keep"]
    assert pq.read_table(tmp_path / "judged" / "verdicts.parquet").num_rows == 8
    refined = refine_directory(folder, tmp_path / "refined")
    gold = build_gold(store, "made", RulesJudge(), ProofRewriter())
    assert refined["gold"] == gold.counts["gold"] and refined["share_after"] == gold.counts["share_after"]
    steps = pq.read_table(tmp_path / "refined" / "steps.parquet")
    assert steps.equals(gold.read("steps").cast(steps.schema))
    shown = {sha for sha in steps.column("screenshot_sha256").to_pylist() if sha}
    assert shown <= {path.stem for path in (tmp_path / "refined" / "screens").rglob("*.png")}


@pytest.mark.parametrize(("judge", "message"), [("oracle", "expected one of rules, "), ("openai", "--base-url")])
def test_a_bad_judge_is_refused_in_one_line(store, tmp_path, judge, message):
    with pytest.raises(ValueError, match=message):
        judge_directory(unified_directory(tmp_path / "in", store), tmp_path / "out", JudgeConfig(judge))


def test_a_folder_that_isn_t_unified_output_is_refused(tmp_path):
    with pytest.raises(ValueError, match="vesper unify"):
        judge_directory(tmp_path, tmp_path / "out")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "steps.parquet")
    with pytest.raises(ValueError, match="isn't a steps table"):
        judge_directory(tmp_path, tmp_path / "out")
