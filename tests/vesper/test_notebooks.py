"""The notebooks of the documentation run from top to bottom on a small store."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import corpusmaker
import pytest

import vesper

nbclient = pytest.importorskip("nbclient", reason="the extra `dev` isn't installed: no nbclient")
nbformat = pytest.importorskip("nbformat", reason="the extra `dev` isn't installed: no nbformat")
pytest.importorskip("ipykernel", reason="the extra `dev` isn't installed: no ipykernel")

CHECKOUT = Path(__file__).parents[2]
NOTEBOOKS = CHECKOUT / "docs" / "notebooks"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with shards of two sources and a task."""
    folder = tmp_path_factory.mktemp("notebooks")
    store = corpusmaker.build_all(folder / "home", folder / "raw")
    corpusmaker.light_tasks(store, "aitz")
    return store.home


def outputs(name: str, home: Path, folder: Path) -> list[Any]:
    """What the cells of a notebook with code give, each as text ("" if nothing)."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    env = {**os.environ, "VESPER_HOME": str(home), "PYTHONPATH": str(CHECKOUT), "HF_HOME": str(folder)}
    client = nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3")
    client.execute(env=env, cwd=str(folder))
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(one.get("data", {}).get("text/plain", "") for one in shown) for shown in cells]


def test_a_corpus_is_looked_at(home: Path, tmp_path: Path) -> None:
    shown = outputs("look_at_a_corpus.ipynb", home, tmp_path)
    assert ast.literal_eval(shown[0])[0] == len(vesper.open(home).corpus())
    assert "aitz" in shown[1]
    assert "image mode=RGB" in shown[2]
    assert "open the cart" in shown[-1]


def test_trls_trainer_learns_from_a_corpus(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="the extra `dev` isn't installed: no trl")
    losses = ast.literal_eval(outputs("train_with_trl.ipynb", home, tmp_path)[-1])
    assert [step for step, _ in losses] == [1, 2, 3]
    assert all(0 < loss < 50 for _, loss in losses)


def test_notebooks_are_kept_with_what_they_gave() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        assert any(cell.outputs for cell in cells), path
        assert not any(one.output_type == "error" for cell in cells for one in cell.outputs), path
