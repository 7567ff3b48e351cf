"""Verdicts of a trained judge name the very weights that gave them: another checkpoint is another judge."""

from __future__ import annotations

import json
from pathlib import Path

import goldmaker
import pytest
from nanomaker import random_judge

from dagster_project.lineage.origins import judges
from generators.proving.judge_bench import stages
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from quality.judges.judge import Verdict
from quality.judges.nano.judge import NanoJudge, model_version
from quality.judges.verdicts import judge_source
from schemas.tables import Verdicts


def test_weights_and_cuts_make_the_version(tmp_path: Path) -> None:
    first, again, other = (random_judge(tmp_path / name, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert model_version(first) == model_version(again) != model_version(other)
    about = json.loads((again / "nano.json").read_text())
    about["cuts"]["sample"] = 0.1  # the same weights, and other scores
    (again / "nano.json").write_text(json.dumps(about))
    assert model_version(again) not in (model_version(first), model_version(other))
    assert NanoJudge(again).model == model_version(again)


def _models(verdicts: Manifest) -> set[str]:
    return set(verdicts.read("verdicts", Verdicts.schema)["model"].to_pylist())


def test_verdicts_of_one_checkpoint_are_not_those_of_another(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goldmaker.gold(store, count=2)
    asked: list[str] = []

    def counted(self: NanoJudge, item_id: str, axes: object, findings: object, number: int, risk: object) -> Verdict:
        asked.append(item_id)
        return Verdict(item_id, 8, 8, "made", 0.5, self.name, self.model, self.rubric_version, number)

    monkeypatch.setattr(NanoJudge, "_verdict", counted)
    old, new = (random_judge(tmp_path / name, seed) for name, seed in (("old", 0), ("new", 1)))
    first = judge_source(store, "toy", NanoJudge(old))
    once = len(asked)
    assert once > 0 and _models(first) == {model_version(old)}
    assert judge_source(store, "toy", NanoJudge(old)).version == first.version and len(asked) == once, "kept"
    second = judge_source(store, "toy", NanoJudge(new))
    assert len(asked) == 2 * once and _models(second) == {model_version(new)}, "nothing of the old one's is used"
    told = {(use.judge, use.model) for use in judges([first, second])}
    assert told == {("nano", model_version(old)), ("nano", model_version(new))}, "lineage tells them apart"


def test_the_checkpoint_says_under_which_name_it_judges(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.store import PartSpec

    spec = PartSpec("bench", "1")
    with store.build(stages.BENCH, code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("truth.parquet", b"1"))
        build.commit()

    def trained(bench: Path, out: Path, config: object, tell: object, reader: object) -> dict[str, object]:
        assert reader is None
        random_judge(out)
        return {"examples": {"step": 60}, "cuts": {"step": 0.4}}

    monkeypatch.setattr(stages, "train_nano", trained)
    made = stages.train_judge(store)
    assert made.checks_passed and made.counts["model"] == NanoJudge(stages.nano_folder(made)).model
    assert stages.train_judge(store).counts["model"] == made.counts["model"], "of a part that is there, too"
