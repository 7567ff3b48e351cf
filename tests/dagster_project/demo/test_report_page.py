"""`report.html`: one file that asks for nothing, with hostile text as text, and what there is on it."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from goldmaker import commit_gold, picture, step_row
from PIL import Image

from dagster_project.demo import report, report_page
from dagster_project.settings import deployment
from dagster_project.stages import graph
from generators.execution.episode_film import FilmedEpisode, Verdict
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from pipelines.store import PartSpec, PartWriter, Store
from schemas.actions import Click, Finished
from schemas.tables import Samples, Steps
from trainer.stages.episodes import ASSET, BOTH, PLAYED
from trainer.stages.line_chart import line_chart

HOSTILE = "</p><script src=//evil.example/x.js>alert(1)</script><img src=http://evil.example/a.png onerror=alert(2)>"


def _episode(verdict: Verdict) -> FilmedEpisode:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), "white").save(buffer, "PNG")
    task = TaskSpec(HOSTILE, "web", "t", {"world": "fsm"}, {"rule": "state_conditions"}, 1)
    turns = tuple(
        ExecutedTurn("a", (64, 64), (), HOSTILE, action, HOSTILE) for action in (Click((500, 500)), None, Finished())
    )
    end = ExecutedTurn("a", (64, 64), (), "", None)
    done = ExecutedTrajectory(task, "p", "d", 0, turns, end, {}, "", "finished")
    return FilmedEpisode(done, {"a": buffer.getvalue()}, verdict, HOSTILE)


def _commit(store: Store, asset: str, files: dict[str, bytes], counts: dict[str, Any], checks: list[Any]) -> None:
    def write(out: PartWriter) -> None:
        for name, data in files.items():
            out.bytes(name, data)

    spec = PartSpec("a", "1")
    with store.build(asset, code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        build.commit(counts=counts, checks=checks)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two episodes, a loss curve and gold with a picture, all with hostile words."""
    store = Store(tmp_path / "home")
    episodes = {name: _episode(name) for name in ("solved", "failed")}  # type: ignore[arg-type]
    files = {f"{name}.webp": one.animation() for name, one in episodes.items()}
    files |= {f"{name}.json": json.dumps(one.plain()).encode() for name, one in episodes.items()}
    counts = {"records": 2, "solved": 1, "failed": 1}
    _commit(store, ASSET, files, counts, [PLAYED.check(True, 2, 1), BOTH.check(False, HOSTILE, "one of each")])
    curve = {"steps": [{"step": step, "loss": 3.0 / step} for step in (1, 2, 3)]}
    _commit(store, "checkpoints/mid_trained", {"curve.json": json.dumps(curve).encode()}, {}, [])
    shot = store.put_screen(picture(1)).sha256
    row = step_row("e", 0, shot, Click((500, 250)), source="aitz", instruction=HOSTILE)
    commit_gold(store, "aitz", Steps.table([row]), Samples.table([]))
    return store


def _page(store: Store) -> str:
    settings = deployment.Deployment(raw_root=Path("/nowhere"))
    stages = graph.stages(settings)
    made = report.make(store, ["aitz"], list(stages))
    made |= {"staircase": {"base greedy": 0.25, "base pass_at_k": 0.5}}
    made |= {"failed": {"gold/rico": HOSTILE}, "warned": {}, "seconds": {"total": 9.0, "stages": {ASSET: 2.0}}}
    return report_page.page(store, made, stages)


class _Tags(HTMLParser):
    """Every tag with its attributes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_asks_for_nothing_and_holds_hostile_words_as_words(store: Store) -> None:
    page = _page(store)
    tags = _Tags()
    tags.feed(page)
    names = {name for name, _ in tags.found}
    assert not names & {"script", "link", "iframe", "object", "a", "base"}
    assert all(not attribute.startswith("on") for _, given in tags.found for attribute in given)
    sources = [given["src"] or "" for name, given in tags.found if "src" in given]
    assert len(sources) == 3 and all(source.startswith("data:image/webp;base64,") for source in sources)
    assert "default-src 'none'" in page and "url(" not in page and "@import" not in page
    assert "&lt;script src=//evil.example/x.js&gt;" in page and "<script" not in page
    assert len(page) < 5_000_000


def test_the_page_shows_episodes_curves_samples_and_what_failed(store: Store) -> None:
    page = _page(store)
    films = [base64.b64decode(found) for found in re.findall(r"data:image/webp;base64,([A-Za-z0-9+/=]+)", page)]
    frames = [Image.open(io.BytesIO(film)).n_frames for film in films]  # type: ignore[attr-defined]
    assert frames == [4, 4, 1], "two episodes of three steps, and a sample"
    assert ">solved</span>" in page and ">failed</span>" in page and "<polyline" in page
    assert "mid-trained: Loss by step" in page and "one solved and one failed" in page
    assert '<td>base<td class="n">25.0 %<td class="n">50.0 %' in page
    assert "gold/rico failed: &lt;/p&gt;" in page and "Click(box=(500,250))" in page


def test_that_no_task_was_solved_is_said(tmp_path: Path) -> None:
    store, failed = Store(tmp_path / "home"), _episode("failed")
    files = {"failed.webp": failed.animation(), "failed.json": json.dumps(failed.plain()).encode()}
    _commit(
        store, ASSET, files, {"records": 5, "solved": 0, "failed": 5}, [BOTH.check(False, "0 solved", "one of each")]
    )
    page = _page(store)
    assert "It solved none of these tasks" in page and "(0 solved, 5 failed)" in page and ">solved</span>" not in page


def test_without_anything_made_there_is_a_page_all_the_same(tmp_path: Path) -> None:
    page = _page(Store(tmp_path))
    assert "0 / 0" in page and "An agent at play" not in page and "Samples" not in page


def test_a_curve_leaves_out_what_is_no_number_and_marks_few_points() -> None:
    drawn = line_chart("<b>", {"<i>": [(1, 2.0), (2, float("nan")), (3, 1.0)], "other": [(3, 1.5)]})
    assert drawn.count("<circle") == 3 and "nan" not in drawn and "&lt;b&gt;" in drawn and "&lt;i&gt;" in drawn
    assert line_chart("x", {"y": [(1, float("inf"))]}) == ""
