"""Where an asset's code stands and which columns it takes over, without importing what makes it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_project.assets.origins import code_references, column_lineage
from dagster_project.settings.deployment import Deployment
from dagster_project.stages import graph
from dagster_project.stages.stage import GraphStage, NamedFunction, StageWork
from pipelines.store import Manifest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stages() -> dict[str, GraphStage]:
    return graph.stages(Deployment(raw_root=Path("/nowhere")))


def test_every_asset_names_the_line_at_which_its_function_begins(stages: dict[str, GraphStage]) -> None:
    for key, stage in stages.items():
        found = code_references(stage)
        assert found is not None, key
        [one] = found.code_references
        line = Path(one.file_path).read_text(encoding="utf-8").splitlines()[one.line_number - 1]
        assert re.match(r"def \w+\(", line) or "lambda" in line or "run=" in line, (key, one.source, line)
        if isinstance(stage.run, NamedFunction):
            assert line.startswith(f"def {stage.run.where.rpartition(':')[2]}("), key


def test_a_function_in_a_file_of_ones_own_is_found(tmp_path: Path, stages: dict[str, GraphStage]) -> None:
    (tmp_path / "mine.py").write_text('"""Mine."""\n\n\ndef make(work):\n    ...\n')
    named = GraphStage("a/b", (), "train", NamedFunction(f"{tmp_path}/mine.py:make"), "", (), "1")
    found = code_references(named)
    assert found is not None and found.code_references[0].source == f"{tmp_path}/mine.py:4"

    class Made:
        def __call__(self, work: StageWork) -> Manifest:
            raise AssertionError("not called")

    found = code_references(GraphStage("a/b", (), "train", Made(), "", (), "1"))
    assert found is not None and found.code_references[0].file_path == __file__
    gone = GraphStage("a/b", (), "train", NamedFunction("nowhere:make"), "", (), "1")
    assert code_references(gone) is None


def test_columns_are_followed_from_shards_to_gold_to_what_it_was_mapped_to(stages: dict[str, GraphStage]) -> None:
    def taken(key: str, column: str) -> list[tuple[str, str]]:
        found = column_lineage(stages[key], stages)
        assert found is not None
        return [(one.asset_key.to_user_string(), one.column_name) for one in found.deps_by_column[column]]

    assert ("gold/screenqa", "objective") in taken("mid_training/shards", "objective")
    assert taken("mid_training/mixture", "shard") == [("mid_training/shards", "shard")]
    assert taken("gold/screenqa", "answer") == [("unified/screenqa", "answer")]
    assert taken("gold/aitw", "answer") == [("unified/aitw", "action_text")]
    assert column_lineage(stages["verdicts/aitw"], stages) is None


def test_nothing_is_imported_to_find_it() -> None:
    code = (
        "import sys\nfrom dagster_project.assets.origins import code_references\n"
        "from dagster_project.stages.stage import GraphStage, NamedFunction\n"
        "stage = GraphStage('a/b', (), 'train', NamedFunction('trainer.stages.checkpoints:base'), '', (), '1')\n"
        "assert code_references(stage).code_references[0].line_number > 1\n"
        "print('torch' in sys.modules, 'trainer.stages.checkpoints' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
