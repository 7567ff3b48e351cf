"""Records that were taken down are gone from raw files, from what lies beside them, and from every later ingest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import native
import pytest

from pipelines import sources
from pipelines.mapping.adapter import Raw, Record
from pipelines.raw.rawdata import register_raw
from pipelines.raw.unpacked import FOLDER
from pipelines.store import Store
from pipelines.store.files import file_sha256
from pipelines.takedown.check import verify
from pipelines.takedown.raw_files import _records, remaining, take_down_raw
from pipelines.takedown.takedown import finish, take_down
from pipelines.takedown.withdrawn import TakenDown, WithdrawnEntry
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source
from schemas.ids import split_json_lines

FORMATS = ("agentnet", "aitw", "mind2web", "miniwob_demos", "screen_annotation")


def first_record(source: str, raw: Raw) -> str:
    """The native id of the first record that can be read."""
    adapter = sources.get(source)
    found = (one for group in adapter.parts(raw) for one in adapter.records(raw, group))
    return next(one.native_id for one in found if isinstance(one, Record) and one.native_id)


@pytest.mark.parametrize("source", FORMATS)
def test_raw_files_lose_the_record_and_nothing_else(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    companions = {name: tmp_path / name for name in sources.get(source).descriptor.companions}
    raw = Raw(tmp_path / "raw", companions)
    store = Store(tmp_path / "home")
    before = unify_source(store, source, raw)
    taken = TakenDown()
    taken.add([WithdrawnEntry(f"record:{source}/{first_record(source, raw)}", "asked")])
    assert remaining(source, raw, taken)
    report = take_down_raw(source, raw, taken)
    assert len(report.changed) + len(report.removed) == 1 and report.left == []
    assert remaining(source, raw, taken) == [] and not list(tmp_path.rglob(".put-*"))
    if sources.get(source).parts(raw):
        after = unify_source(store, source, raw)
        assert after.counts["records_in"] == before.counts["records_in"] - 1


def test_what_a_pull_left_half_unpacked_goes_too(tmp_path: Path) -> None:
    native.fixture("gui_odyssey").write(tmp_path)
    raw = Raw(tmp_path / "raw")
    taken = TakenDown()
    taken.add([WithdrawnEntry(f"record:gui_odyssey/{first_record('gui_odyssey', raw)}", "asked")])
    hidden = raw.root / FOLDER / "0123456789abcdef" / "0011"
    shutil.copytree(raw.root / "annotations", hidden / "annotations")
    hidden.with_suffix(".whole").write_text("[]")
    assert hidden.relative_to(raw.root).as_posix() in remaining("gui_odyssey", raw, taken)
    take_down_raw("gui_odyssey", raw, taken)
    assert remaining("gui_odyssey", raw, taken) == [] and not hidden.exists()
    assert hidden.with_suffix(".gone").exists(), "the next pull removes what was moved in"


ODD = {
    "aitw": "an episode is several rows",
    "guiact_web_multi": "ids are made of two fields, rows are mixed",
    "guiact_smartphone": "an episode is several elements",
    "multimodal_mind2web": "an episode goes on in another file",
    "nnetnav": "ids are a letter, an episode is several lines",
    "os_genesis_web": "no ids, an episode is several lines",
    "screen2words": "a row that is no text",
    "screenqa_short": "a list that ends too early",
    "widget_captioning": "ids are made of two columns, rows are mixed",
}
"""Files in which a record's id or number alone doesn't say what is to be cut."""


@pytest.mark.slow
@pytest.mark.parametrize("source", ODD)
def test_whichever_record_goes_the_others_stay_as_they_were(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    adapter = sources.get(source)
    companions = {name: tmp_path / name for name in adapter.descriptor.companions}

    def read(raw: Raw) -> list[tuple[str, str]]:
        """(id, content) of all records that can be read."""
        found = (one for group in adapter.parts(raw) for one in _records(adapter, raw, group) if one.native_id)
        return sorted((one.native_id, one.content) for one in found)

    before = read(Raw(tmp_path / "raw", companions))
    for place, name in enumerate(sorted({name for name, _ in before})):
        raw = Raw(tmp_path / f"copy-{place}" / "raw", companions)
        shutil.copytree(tmp_path / "raw", raw.root)
        taken = TakenDown()
        taken.add([WithdrawnEntry(f"record:{source}/{name}", "asked")])
        report = take_down_raw(source, raw, taken)
        assert report.left == [] and remaining(source, raw, taken) == [], name
        assert read(raw) == [one for one in before if one[0] != name]


def test_a_file_that_no_cut_gets_right_stays_and_is_named(tmp_path: Path) -> None:
    """The languages of a task share one document: without one, the others aren't what they were."""
    native.fixture("ugif").write(tmp_path)
    raw, file = Raw(tmp_path / "raw"), "train/block/task.json"
    before = (raw.root / file).read_bytes()
    taken = TakenDown()
    taken.add([WithdrawnEntry("record:ugif/train/block/en", "asked")])
    report = take_down_raw("ugif", raw, taken)
    assert (report.left, report.changed, report.removed) == ([file], [], [])
    assert (raw.root / file).read_bytes() == before and remaining("ugif", raw, taken) == [file]
    (raw.root / file).unlink()  # withdrawn whole, by a person
    assert remaining("ugif", raw, taken) == [] and take_down_raw("ugif", raw, taken).left == []


def test_what_the_generator_keeps_beside_embedded_data_forgets_the_record(tmp_path: Path) -> None:
    """The planted truth and the receipt: the proof holds, and the next refresh takes the cut files for its own work."""
    source, home = "aitz", tmp_path / "home"
    native.fixture(source).write(tmp_path)
    shutil.copytree(tmp_path / "raw", home / "raw" / source)
    raw, store = Raw(home / "raw" / source), Store(home)
    register_raw(store, source, raw.root)
    unify_source(store, source, raw, bands=ChangeBands(damaged_files=1))
    name = first_record(source, raw)
    other = next(
        row["episode_id"]
        for row in store.require(f"unified/{source}").read("steps").to_pylist()
        if row["episode_id"] != name
    )
    truth, receipt = home / "raw/_truth/aitz.jsonl", home / "raw/_receipts/aitz.json"
    planted = [
        {"record": name, "item": 0, "defect": "shifted", "low_fidelity": True, "original": {"text": "secret"}},
        {"record": other, "item": None, "defect": "copy", "low_fidelity": False, "original": {"of": f"aitz/{name}"}},
        {"record": other, "item": 1, "defect": "shifted", "low_fidelity": True, "original": {"text": "in\u2028one"}},
    ]
    files = {p.relative_to(raw.root).as_posix(): file_sha256(p) for p in sorted(raw.root.rglob("*")) if p.is_file()}
    for path, text in (
        (truth, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in planted)),
        (receipt, json.dumps({"config": "c", "files": files, "counts": {}})),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    report, taken = take_down(store, [WithdrawnEntry(f"record:{source}/{name}", "asked")], lambda _: raw)
    assert {"_truth/aitz.jsonl", "_receipts/aitz.json"} <= set(report.raw[0].changed) and report.raw[0].left == []
    assert verify(home, taken, {source: raw}) == []
    left = [json.loads(line) for line in split_json_lines(truth.read_text(encoding="utf-8"))]
    assert left == [{**planted[1], "original": {}}, planted[2]]
    told = json.loads(receipt.read_text())
    assert told["config"] == "c" and told["files"] == {
        p.relative_to(raw.root).as_posix(): file_sha256(p) for p in raw.root.rglob("*") if p.is_file()
    }
    assert told["files"] != files
    again, _ = take_down(store, [], lambda _: raw)
    assert again.raw == [], "nothing is left to do"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["agentnet", "aitw"])  # record by record, and by column
def test_a_later_ingest_leaves_the_record_out_with_a_reason(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path)
    raw = Raw(tmp_path / "raw")
    store = Store(tmp_path / "home")
    register_raw(store, source, raw.root)
    before = unify_source(store, source, raw)
    name = first_record(source, raw)
    saved = {path: path.read_bytes() for path in raw.root.rglob("*") if path.is_file()}
    report, taken = take_down(store, [WithdrawnEntry(f"record:{source}/{name}", "asked")], lambda _: raw)
    assert [one.left for one in report.raw] == [[]]
    assert verify(store.home, taken, {source: raw}) == []
    for path, data in saved.items():  # somebody downloads it again
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert verify(store.home, taken, {source: raw}) != []
    after = unify_source(store, source, raw)
    quarantined = [row for row in after.read("quarantine").to_pylist() if row["reason"] == "takedown"]
    assert len(quarantined) == 1 and quarantined[0]["native"] == "null"
    assert (
        after.counts["items_in"]
        == before.counts["items_in"]
        == (after.counts["items_mapped"] + after.counts["items_quarantined"])
    )
    assert name not in {row["episode_id"] for row in after.read("steps").to_pylist()}
    mapped = unify_source(store, source, raw)
    assert mapped.data_version == after.data_version


def test_a_record_without_an_id_is_known_by_its_place_and_then_by_its_content(tmp_path: Path) -> None:
    source = "groundui_18k"
    native.fixture(source).write(tmp_path)
    raw, store = Raw(tmp_path / "raw"), Store(tmp_path / "home")
    before = unify_source(store, source, raw).read("samples").to_pylist()
    saved = {path: path.read_bytes() for path in raw.root.rglob("*") if path.is_file()}
    report, taken = take_down(store, [WithdrawnEntry(f"sample:{before[0]['sample_id']}", "asked")], lambda _: raw)
    assert report.records == {source: 1} and [one.left for one in report.raw] == [[]]
    assert verify(store.home, taken, {source: raw}) == []
    finish(store, taken)
    for path, data in saved.items():
        path.write_bytes(data)
    after = unify_source(store, source, raw)
    left = {row["sample_id"] for row in after.read("samples").to_pylist()}
    assert left == {row["sample_id"] for row in before} - taken.samples and 0 < len(left) < len(before)
    assert after.counts["reasons"]["takedown"] >= 1
