"""A source that lost files, or fell behind its last good version, doesn't become current, and says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from native import write_json
from webnative import png

from dagster_project import cli
from pipelines.mapping.adapter import Raw
from pipelines.store import Manifest, Store
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source

JUNK = "\x00\x01 this was a download that ended with an error page"


def page(number: int, elements: int) -> dict[str, Any]:
    """A page of ShowUI-web with so many texts, each of its own."""
    boxes = [[0.1, 0.02 * place, 0.3, 0.02 * place + 0.015] for place in range(1, elements + 1)]
    texts = [
        {"instruction": f"word {number} {place}", "bbox": box, "point": box[:2], "data_type": "text"}
        for place, box in enumerate(boxes)
    ]
    return {"img_url": f"{number}.png", "img_size": [1920, 1080], "element": texts, "element_size": elements}


def write(raw: Path, files: int, elements: int = 4) -> None:
    for number in range(files):
        write_json(raw / f"metadata/part-{number:02d}.json", [page(number, elements)])


def build(home: Path, raw: Path, **more: Any) -> Manifest:
    return unify_source(Store(home), "showui_web", Raw(raw), **more)


def failed(manifest: Manifest) -> dict[str, str]:
    return {check.name: check.found for check in manifest.checks if not check.passed}


def test_files_overwritten_with_junk_are_named_and_the_good_version_stays(tmp_path: Path) -> None:
    raw, home = tmp_path / "raw", tmp_path / "home"
    write(raw, 36)
    good = build(home, raw)
    assert good.checks_passed and good.counts["files"] == 36
    for path in sorted(raw.rglob("*.json"))[:30]:
        path.write_text(JUNK)
    bad = build(home, raw)
    assert bad.counts["damaged_files"] == 30 and bad.counts["records_quarantined"] == 30
    found = failed(bad)
    assert {"files_readable", "items_against_current", "share_against_current"} <= set(found)
    assert "30 of 36 files damaged" in found["files_readable"] and "part-00.json" in found["files_readable"]
    assert Store(home).require("unified/showui_web").version == good.version


def test_a_download_that_ended_half_way_stops_its_source_at_once(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write(raw, 3)
    path = raw / "metadata/part-01.json"
    path.write_text(path.read_text()[:-40])
    manifest = build(tmp_path / "home", raw)
    assert "part-01.json: truncated_record" in failed(manifest)["files_readable"]
    assert Store(tmp_path / "home").current("unified/showui_web") is None
    assert build(tmp_path / "other", raw, bands=ChangeBands(damaged_files=0.5)).checks_passed


def test_broken_pictures_warn_by_a_check_of_their_own(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write(raw, 4)
    for number in range(4):
        (raw / "images").mkdir(exist_ok=True)
        (raw / f"images/{number}.png").write_bytes(png(64, 36, number) if number else b"\x89PNG cut")
    manifest = build(tmp_path / "home", raw)
    assert manifest.checks_passed, "rows stay, without the picture"
    assert failed(manifest) == {"pictures_readable": "1 of 4 pictures broken"}
    assert not failed(build(tmp_path / "other", raw, bands=ChangeBands(broken_pictures=0.25)))


def test_pictures_that_are_gone_hold_their_source_back(tmp_path: Path) -> None:
    """Their rows are mapped without them, so no count of items, records or reasons tells."""
    raw, home = tmp_path / "raw", tmp_path / "home"
    write(raw, 10)
    (raw / "images").mkdir()
    for number in range(10):
        (raw / f"images/{number}.png").write_bytes(png(64, 36, number))
    good = build(home, raw)
    (raw / "images/0.png").unlink()
    assert build(home, raw).checks_passed, "a tenth fewer"
    for path in (raw / "images").iterdir():
        path.unlink()
    bad = build(home, raw)
    assert failed(bad) == {"pictures_against_current": "0 pictures, 9 in the current version (100.0% fewer)"}
    assert bad.counts["items_mapped"] == good.counts["items_mapped"]
    assert Store(home).require("unified/showui_web").version != bad.version


def test_pictures_that_never_came_are_said_and_no_gold_is_an_error(tmp_path: Path, capsys: Any) -> None:
    write(tmp_path / "raw", 2)
    places = [str(tmp_path / name) for name in ("raw", "unified", "gold")]
    assert cli.main(["unify", "showui_web", "--raw", places[0], "--out", places[1]]) == 0
    assert "note: 16 of 16 rows have no picture" in capsys.readouterr().out
    assert cli.main(["refine", places[1], "--out", places[2]]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and "the judge judges: " in told[0] and "16 abstentions" in told[0]


def test_a_fall_within_the_bands_passes_and_one_beyond_is_held_back(tmp_path: Path) -> None:
    raw, home = tmp_path / "raw", tmp_path / "home"
    write(raw, 10)
    first = build(home, raw)
    (raw / "metadata/part-09.json").unlink()
    assert build(home, raw).checks_passed, "a tenth fewer"
    for number in (6, 7, 8):
        (raw / f"metadata/part-{number:02d}.json").unlink()
    bad = build(home, raw)
    assert "24 items, 36 in the current version (33.3% fewer)" in failed(bad)["items_against_current"]
    assert build(home, raw, bands=ChangeBands(rows=0.5)).checks_passed
    assert first.version != bad.version


def test_a_word_whose_loss_is_accepted_warns_no_more_and_any_other_does(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    odd = page(1, 4)
    odd["element"][0]["data_type"], odd["element"][1]["data_type"] = "gesture", "dance"
    write_json(raw / "metadata/part-00.json", [odd])
    expected = {"unknown_action:gesture": 1, "unknown_action:dance": 1}
    assert json.loads(failed(build(tmp_path / "home", raw))["vocabulary_known"]) == expected
    one = ChangeBands(words=("unknown_action:gesture",))
    left = failed(build(tmp_path / "one", raw, bands=one))["vocabulary_known"]
    assert json.loads(left) == {"unknown_action:dance": 1}
    assert "vocabulary_known" not in failed(build(tmp_path / "both", raw, bands=ChangeBands(words=tuple(expected))))


def test_data_of_another_origin_is_not_compared(tmp_path: Path) -> None:
    raw, home = tmp_path / "raw", tmp_path / "home"
    write(raw, 10)
    build(home, raw, origin="embedded")
    for path in sorted(raw.rglob("*.json"))[1:]:
        path.unlink()
    assert build(home, raw, origin="native").checks_passed


def test_a_rerun_of_what_is_current_says_what_it_said(tmp_path: Path) -> None:
    raw, home = tmp_path / "raw", tmp_path / "home"
    write(raw, 10)
    build(home, raw)
    (raw / "metadata/part-09.json").unlink()
    changed = build(home, raw)
    assert any(check.name == "items_against_current" for check in changed.checks)
    assert build(home, raw).to_json() == changed.to_json()


def test_the_command_fails_on_junk_and_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw"
    write(raw, 6)
    path = raw / "metadata/part-05.json"
    path.write_text(JUNK)
    command = ["unify", "showui_web", "--raw", str(raw), "--out", str(tmp_path / "out")]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "1 of them quarantined" in said and "part-05.json" in said
    assert cli.main([*command[:-1], str(tmp_path / "strict"), "--damaged-files", "0"]) != 0
    assert "part-05.json" in capsys.readouterr().err
