"""`vesper judge` and `vesper refine` on a folder: the same bytes however its files are cut, whoever runs its parts, and
nothing twice."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.unify import buckets
from quality.commands.judge import judge_directory
from quality.commands.refine import refine_directory
from quality.judges.registry import JudgeConfig
from quality.refinement.taught_thoughts import ThoughtTeachers
from schemas.actions import Click, Finished
from schemas.tables import Samples, Screens, Steps
from tests.support.scripted_judge import Question, ScriptedJudge

EPISODES = 24


@pytest.fixture
def tables(world: Any, buttons: Any) -> dict[str, pa.Table]:
    """Episodes of two steps, some of which click beside everything, and samples that share their pictures."""
    pages = [world.page(buttons, note=str(number)) for number in range(4)]
    steps = [
        world.row(place, action, pages[(number + place) % 4], episode_id=f"e{number:02d}")
        for number in range(EPISODES)
        for place, action in enumerate([Click((750, 195) if number % 3 else (5, 990)), Finished()])
    ]
    samples = [sample.row for page in pages for sample in world.samples(world.grounding("Search", page, (1, 2, 9, 9)))]
    return {
        "steps": Steps.table(steps),
        "samples": Samples.table(samples),
        "screens": Screens.table(world.rows.values()),
    }


def written(folder: Path, tables: dict[str, pa.Table], world: Any, cuts: int, flat: bool = False) -> Path:
    for name, table in tables.items():
        for cut in range(cuts):
            # Every so many rows from one file: an episode's steps come from two.
            part = table.take(pa.array(range(cut, table.num_rows, cuts), pa.int64()))
            (folder / "screens").mkdir(parents=True, exist_ok=True)
            pq.write_table(part, folder / f"{name}-{cut}.parquet")
    for sha, data in world.data.items():
        place = folder / "screens" / ("" if flat else sha[:2]) / f"{sha}.png"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    return folder


def digest_of(folder: Path, *names: str) -> str:
    return hashlib.sha256(b"".join((folder / f"{name}.parquet").read_bytes() for name in names)).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("flat", [False, True])
def test_neither_cuts_nor_workers_change_a_byte(
    tables: dict[str, pa.Table], world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flat: bool
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_ROWS", 8)
    found, reports = set(), []
    for number, (cuts, engine, workers) in enumerate(
        [(1, "in-process", 1), (7, "in-process", 1), (7, "processes", 2)][: 2 if flat else 3]
    ):
        folder = written(tmp_path / f"in-{number}", tables, world, cuts, flat)
        execution = Execution(EngineSettings(runner=engine, workers=workers))
        reports.append(judge_directory(folder, tmp_path / f"out-{number}", execution=execution))
        found.add(digest_of(tmp_path / f"out-{number}", "verdicts"))
        parts = list(
            (tmp_path / f"out-{number}" / ".store" / "assets" / "verdicts" / "folder" / "parts").glob("*.json")
        )
        assert len(parts) == 8
    assert len(found) == 1 and all(report == reports[0] for report in reports)
    assert reports[0]["items"] == 2 * EPISODES + 4 and 0 < reports[0]["keep"] < reports[0]["items"]


@pytest.mark.slow
def test_refining_depends_on_rows_alone(
    tables: dict[str, pa.Table], world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_ROWS", 8)
    found, reports = set(), []
    for cuts, engine in ((1, "in-process"), (7, "processes")):
        folder, out = written(tmp_path / f"in-{cuts}", tables, world, cuts), tmp_path / f"out-{cuts}"
        execution = Execution(EngineSettings(runner=engine, workers=2))
        reports.append(refine_directory(folder, out, execution=execution))
        found.add(digest_of(out, "steps", "samples", "rejects", "verdicts", "screens"))
    assert len(found) == 1 and reports[0] == reports[1]
    judged = judge_directory(tmp_path / "in-1", tmp_path / "judged")
    first = [row for row in pq.read_table(tmp_path / "out-1" / "verdicts.parquet").to_pylist() if row["round"] == 0]
    assert first == pq.read_table(tmp_path / "judged" / "verdicts.parquet").to_pylist()
    assert judged["items"] == reports[0]["items"] and 0 < reports[0]["gold"] < judged["items"]


@pytest.mark.parametrize("lacking", ["steps", "samples"])
def test_a_folder_with_one_kind_of_rows_is_refined(
    tables: dict[str, pa.Table], world: Any, tmp_path: Path, lacking: str
) -> None:
    folder = written(tmp_path / "in", {k: v for k, v in tables.items() if k != lacking}, world, 1)
    report = refine_directory(folder, tmp_path / "out")
    assert report["items"] == (4 if lacking == "steps" else 2 * EPISODES) and report["rejected"]


@pytest.mark.slow
def test_taught_thoughts_are_in_gold_and_in_what_is_derived_from_it(
    tables: dict[str, pa.Table], world: Any, tmp_path: Path
) -> None:
    thought = "Nothing is left to be done, so I finish."

    def answer(question: Question) -> dict[str, Any]:
        if "action" in question.fields:
            return {"action": "Finished()"}
        return {"thought": thought if question.blocks["action"].startswith("Finished") else " "}

    with ScriptedJudge(answer) as server:
        teachers = ThoughtTeachers(server.url, "teacher", "reader")
        folder = written(tmp_path / "in", tables, world, 1)
        report = refine_directory(folder, tmp_path / "out", teachers=teachers)
        asked = len(server.bodies)
        # again, and without them: nothing of what was asked is asked or shown again
        assert refine_directory(folder, tmp_path / "out", teachers=teachers) == report and len(server.bodies) == asked
        plain = refine_directory(folder, tmp_path / "plain")
    steps = pq.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    ends = [row for row in steps if row["action_text"] == "Finished(content='')"]
    assert ends and all(row["thought"] == thought for row in ends)
    assert report["thoughts"]["written"] == len(ends) and report["thoughts"]["declined"]["empty"] > 0
    answers = pq.read_table(tmp_path / "out" / "samples.parquet")["answer"].to_pylist()
    assert sum(thought in text for text in answers) == len(ends)
    assert "thoughts" not in plain and report["gold"] == plain["gold"]


def test_a_second_call_judges_what_changed_and_another_folder_is_judged_anew(
    tables: dict[str, pa.Table], world: Any, tmp_path: Path
) -> None:
    folder, out = written(tmp_path / "in", tables, world, 2), tmp_path / "out"
    first = judge_directory(folder, out)
    [made] = (out / ".store" / "assets" / "verdicts" / "folder").glob("*/part-*.verdicts.parquet")
    before = made.stat().st_mtime_ns
    assert judge_directory(folder, out) == first and made.stat().st_mtime_ns == before
    less = {**tables, "steps": tables["steps"].slice(0, 4)}
    report = judge_directory(written(tmp_path / "less", less, world, 1), out)
    assert report["items"] == 4 + 4 and len(pq.read_table(out / "verdicts.parquet")) == 2 + 4 + 4
    assert (folder / "screens").is_dir() and any((folder / "screens").rglob("*.png")), "only links to it went"


OWN = """
from dataclasses import replace
from pathlib import Path
from quality.judges.rules import RulesJudge

class Own(RulesJudge):
    def judge(self, *asked):
        with (Path(__file__).parent / "asked").open("a") as stream:
            stream.write("x")
        return [replace(verdict, risk=0.25) for verdict in super().judge(*asked)]

def own(config):
    return Own()
"""


def test_a_judge_of_your_own_is_asked_each_time(tables: dict[str, pa.Table], world: Any, tmp_path: Path) -> None:
    """It may have been edited since, and says nothing of that."""
    folder = written(tmp_path / "in", tables, world, 1)
    (tmp_path / "own.py").write_text(OWN)
    for times in (1, 2):
        judge_directory(folder, tmp_path / "out", JudgeConfig(f"{tmp_path}/own.py:own"))
        assert (tmp_path / "asked").read_text() == "x" * times
    (tmp_path / "asked").unlink()
    config, sizes = JudgeConfig(f"{tmp_path}/own.py:own"), []
    for _ in range(2):
        refine_directory(folder, tmp_path / "refined", config)
        sizes.append((tmp_path / "asked").stat().st_size)
    assert sizes[1] == 2 * sizes[0] > 0
    risks, verdicts = (pq.read_table(tmp_path / "refined" / f"{name}.parquet") for name in ("risks", "verdicts"))
    assert set(risks["item_id"].to_pylist()) == set(verdicts["item_id"].to_pylist())
    assert set(risks["risk"].to_pylist()) == {0.25}


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(ValueError, match=r"expected steps\*\.parquet or samples\*\.parquet with rows"):
        judge_directory(tmp_path / "in", tmp_path / "out")
