"""A small judge bench of the real worlds: traces perform again to the same pixels, labels hold, ids say nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from generators.proving.judge_bench.build import OPERATORS, BenchConfig, build, is_held_out
from generators.proving.judge_bench.defects.steps import Tools, inside, shift
from generators.proving.judge_bench.recorders.own_pages import OwnPagesRecorder
from generators.proving.judge_bench.trace import Trace, perform, reached
from generators.proving.judge_bench.verify import verify
from generators.proving.judge_bench.worlds import recorders
from generators.worlds.pages.pages_world import PagesWorld
from quality.items.folder import read_directory
from quality.items.truth import BAND_OF, EPISODE_DEFECTS, LABELS
from schemas.actions import parse

Phone = tuple[PagesWorld, list[Trace]]
SMALL = BenchConfig(traces=6, screens=5, copies=4, natural=3, seed=5)
pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.usefixtures("shared_chromium")]


def of_worlds(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Builds are of these worlds alone, each with its share."""
    found = {name: entry for name, entry in recorders().items() if name in names}
    monkeypatch.setattr("generators.proving.judge_bench.build.recorders", lambda pages: found)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One world of each kind: what is drawn for a phone's screen and for a desktop's has one recorder."""
    folder = tmp_path_factory.mktemp("bench") / "judge"
    with pytest.MonkeyPatch.context() as patch:
        of_worlds(patch, "own_desktop", "odd_phone", "miniwob", "phone", "fsm")
        build(folder, SMALL)
    return folder


@pytest.fixture(scope="module")
def phone() -> Iterator[Phone]:
    recorder = OwnPagesRecorder("phone")
    with recorder.open() as world:
        yield world, list(recorder.record(world, 8, 900))


def truth_of(bench: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(bench / "truth.parquet").to_pylist()
    return rows


def test_a_sound_trace_is_reached_and_performs_again_to_the_same_pixels(phone: Phone) -> None:
    world, traces = phone
    assert len(traces) == 8 and len({trace.family for trace in traces}) > 6
    for trace in traces:
        shots, end = perform(world, trace)
        assert [shot.png for shot in shots] == [shot.png for shot in trace.shots] and end == trace.end_state
        assert reached(end, trace.evaluator)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_damages_what_it_says_and_nothing_else(phone: Phone, name: str) -> None:
    world, traces = phone
    tools = Tools(world, traces, Random(name))
    made = [planted for trace in traces if (planted := OPERATORS[name].make(trace, tools)) is not None]
    if not made:
        assert name in (
            "contradictory_thought/element",
            "contradictory_thought/kind",
            "wrong_text/typo",
            "wrong_text/other",
            "flipped_scroll",
        )  # few of eight traces have thoughts or texts
        return
    by_uid = {trace.uid: trace for trace in traces}
    for planted in made:
        sound = by_uid[planted.trace.uid.partition("~")[0]]
        assert planted.confirmed_by in ("replay", "hit_test", "pixels", "state", "exact")
        if planted.step is None:
            assert OPERATORS[name].defect in EPISODE_DEFECTS
            same = (planted.trace.goal, planted.trace.moves, planted.trace.shots) == (
                sound.goal,
                sound.moves,
                sound.shots,
            )
            assert not same
        else:
            others = [at for at in range(len(sound.moves)) if at != planted.step]
            assert [planted.trace.moves[at] for at in others] == [sound.moves[at] for at in others]
            assert [planted.trace.shots[at] for at in others] == [sound.shots[at] for at in others]


def test_a_shift_is_of_the_sizes_told_and_off_the_element() -> None:
    box = (400.0, 400.0, 500.0, 440.0)
    made = [moved for seed in range(200) if (moved := shift(box, (450, 420), Random(seed), 0.5, 2.0)) is not None]
    assert len(made) >= 190  # half a size from the middle still lies on the border
    for new, point, sizes in made:
        assert 0.5 <= sizes <= 2 and not inside(box, point)
        assert max(abs(new[0] - box[0]) / 100, abs(new[1] - box[1]) / 40) == pytest.approx(sizes)


def test_every_label_belongs_to_an_item_and_has_its_band(bench: Path) -> None:
    part = read_directory(bench)
    items = {item.item_id for item in part.items} | {s.item_id for e in part.episodes for s in e.actions}
    rows = truth_of(bench)
    assert len({row["item_id"] for row in rows}) == len(rows) and {row["item_id"] for row in rows} <= items
    for row in rows:
        assert row["label"] in LABELS and row["confirmed_by"]
        assert row["held_out"] == bool(row["held_out_by"])
        if row["label"] == "planted":
            assert row["band"] == BAND_OF[row["kind"]]
        if row["label"] in ("clean", "hard"):
            assert row["band"] == "keep"
        if is_held_out(row["family"]):
            assert row["held_out_by"] == "family"
    planted = Counter(row["kind"] for row in rows if row["label"] == "planted")
    assert len(planted) >= 11, planted
    assert {"natural", "hard", "clean"} <= {row["label"] for row in rows}


def test_nothing_that_a_judge_reads_tells_the_label(bench: Path) -> None:
    """Sound and damaged episodes differ in no column but what the defect changed: ids and provenance are digests."""
    rows = pq.read_table(bench / "steps.parquet").to_pylist()
    for row in rows:
        assert len(row["episode_id"]) == 20 and int(row["episode_id"], 16) >= 0
        assert set(json.loads(row["provenance"])) == {"file", "record", "native_index"}
        assert json.loads(row["provenance"])["file"] == "traces" and row["episode_outcome"] is None
        parse(row["action_text"])
    assert len({row["split"] for row in rows}) == 1


def test_the_same_configuration_gives_the_same_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_worlds(monkeypatch, "own_phone")  # that every world shows the same when done again has tests of its own
    few = BenchConfig(traces=3, screens=2, copies=1, natural=0, seed=5)
    build(tmp_path / "one", few)
    with ThreadPoolExecutor(1) as thread:  # which has a Chromium of its own
        thread.submit(build, tmp_path / "two", few).result()
    for name in ("steps.parquet", "samples.parquet", "screens.parquet", "truth.parquet", "episodes.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(ValueError, match="name another one"):
        build(tmp_path, SMALL)
    assert (tmp_path / "letter.txt").exists()


def test_of_a_corpus_itself_as_gold_the_truth_is_its_sound_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was refined: the share after equals the share before, and all that is sound is kept."""
    of_worlds(monkeypatch, "own_phone")
    corpus = tmp_path / "corpus"
    build(corpus, BenchConfig(traces=20, screens=8, copies=0, natural=0, low=0.303, seed=6))
    found = verify(corpus, corpus)
    assert found.clean_kept == 1.0 and found.after == found.before > 1 - found.planted
    assert 0.2 < found.planted < 0.45
    assert sum(found.left.values()) == round((1 - found.after) * found.gold)
    gold = tmp_path / "gold"
    gold.mkdir()
    rows = truth_of(corpus)
    bad = {row["item_id"].split("/")[1] for row in rows if row["label"] == "planted" and "/" in row["item_id"]}
    steps = pq.read_table(corpus / "steps.parquet")
    sound = next(name for name in steps["episode_id"].to_pylist() if name not in bad)
    pq.write_table(pq.read_table(corpus / "samples.parquet"), gold / "samples.parquet")
    for lacking, whole in ((bad, True), ({sound}, False)):
        kept = pc.invert(pc.is_in(steps["episode_id"], pa.array(sorted(lacking), pa.string())))
        pq.write_table(steps.filter(kept), gold / "steps.parquet")
        less = verify(corpus, gold)
        assert (less.whole_kept == 1.0) is whole and 0.5 < less.clean_kept <= 1.0
