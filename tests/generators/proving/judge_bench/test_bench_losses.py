"""What the judge bench's recorders lose stands in the build's report, by recorder, family and reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from generators.proving.judge_bench.build import BenchConfig, build
from generators.proving.judge_bench.recorders.losses import SHOWN, Losses, lines
from generators.proving.judge_bench.recorders.miniwob_tasks import MiniwobRecorder
from generators.proving.judge_bench.recorders.web_pages import LARGEST_BYTES, WebPages

pytestmark = pytest.mark.slow

FORM = """<!doctype html><title>{0}</title><body style="font: 16px sans-serif"><h1>{0}</h1>
<label>Full name <input type="text"></label><p><label>City <input type="text"></label></p>
<p><label><input type="checkbox"> Gift wrap</label></p><p><label><input type="checkbox"> Newsletter</label></p>
<p><label><input type="checkbox"> Insurance</label></p><p><label><input type="radio" name="s"> By train</label></p>
<p><label><input type="radio" name="s"> By ship</label></p><button>Help</button><button>Print</button></body>"""


def test_a_build_says_what_its_recorders_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_chromium: None
) -> None:
    """Two forms, a page that offers nothing, and one too large."""
    pages = tmp_path / "pages"
    pages.mkdir()
    for name in ("order", "visit"):
        (pages / f"form-{name}.html").write_text(FORM.format(name))
    (pages / "huge-list.html").write_text("<p>" + "x" * LARGEST_BYTES)
    (pages / "bare.html").write_text("<p>Nothing to do here</p>")
    recorder = WebPages(pages, "small")
    monkeypatch.setattr("generators.proving.judge_bench.build.recorders", lambda pages: {"web_pages": (1.0, recorder)})
    report = build(tmp_path / "bench", BenchConfig(traces=4, screens=2, copies=1, natural=0, seed=1))
    assert json.loads((tmp_path / "bench" / "bench.json").read_text()) == report

    lost = report["losses"]["web_pages"]
    assert lost["left_out"] == {"small/huge": {f"more than {LARGEST_BYTES} bytes": 1}} and "unsteady" not in lost
    assert lost["dropped"]["small/bare"]["the page offers nothing to do"] >= 1
    dropped = sum(number for reasons in lost["dropped"].values() for number in reasons.values())
    assert report["counts"]["dropped:web_pages"] == dropped and report["counts"]["left_out:web_pages"] == 1
    assert report["dry"] == ["small/bare"] and "unsteady:web_pages" not in report["counts"]

    told = list(lines(report))
    assert told[0] == f"web_pages: dropped {dropped}, pages left out 1"
    assert f"  pages left out 1, small/huge: more than {LARGEST_BYTES} bytes" in told
    assert told[-1] == "nothing at all of small/bare"


def test_the_gravest_losses_are_printed_and_the_others_counted() -> None:
    losses = Losses()
    for number in range(1, SHOWN + 3):
        for _ in range(number):
            losses.drop(f"world/{number}", "the oracle failed")
    told = list(lines({"losses": {"world": losses.plain()}, "dry": []}))
    assert told[0] == "world: dropped 36" and told[1] == "  dropped 8, world/8: the oracle failed"
    assert told[-1] == "  and 3 more, of 2 kinds: see bench.json" and len(told) == SHOWN + 2
    assert list(lines({"version": 2})) == [], "the report of an earlier build"


def test_another_seed_is_tried_where_a_page_asks_what_cannot_be_done(
    monkeypatch: pytest.MonkeyPatch, shared_chromium: None
) -> None:
    """A scroll list: half of what it asks for takes a key held down, and half of the rest has to be scrolled to."""
    from generators.proving.judge_bench.recorders import miniwob_tasks
    from generators.proving.judge_bench.trace import perform
    from schemas.action_types import Scroll

    task = "click-scroll-list"
    monkeypatch.setattr(miniwob_tasks, "SOLVERS", {task: miniwob_tasks.SOLVERS[task]})
    recorder = MiniwobRecorder()
    with recorder.open() as world:
        traces = list(recorder.record(world, 3, 0))
        scrolled = miniwob_tasks.record_one(world, task, 6)
        assert scrolled is not None and len(traces) == 3
        shots, end = perform(world, scrolled)
    assert recorder.losses.plain()["dropped"] == {
        f"miniwob/{task}": {"the oracle can't read the page": recorder.losses.total("dropped")}
    }
    strokes = [move for move in scrolled.moves if isinstance(move.action, Scroll)]
    for move in strokes:
        assert isinstance(move.action, Scroll) and move.action.start and move.action.end and move.box
        assert move.box[1] <= move.action.end[1] < move.action.start[1] <= move.box[3]
    assert strokes and end == scrolled.end_state and [s.png for s in shots] == [s.png for s in scrolled.shots]
