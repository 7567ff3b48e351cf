"""`vesper sources list` and `vesper unify` for every source, on real records where they lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path

import native
import pytest

from dagster_project import cli
from pipelines import sources, suites
from pipelines.store.files import file_sha256

AT_LEAST = 48


def test_the_list_shows_every_source_with_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sources", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.split()[0] for line in lines if line.split()[0] in sources.registry()]
    assert named == sorted(sources.registry()) and len(named) >= AT_LEAST
    assert cli.main(["sources", "list", "--json"]) == 0
    cards = json.loads(capsys.readouterr().out)
    assert [card["id"] for card in cards] == named and all(card["loss"] for card in cards)


def test_no_evaluation_suite_is_a_source() -> None:
    assert not set(suites.registry()) & set(sources.registry())


@pytest.mark.parametrize("source", native.names())
def test_unify_counts_real_records_in_native_units(source: str, tmp_path: Path) -> None:
    fixture = native.fixture(source)
    real = fixture.real is not None and (native.SAMPLES / source).is_dir()
    if real:
        assert fixture.real is not None
        fixture.real(native.SAMPLES / source, tmp_path)
    else:
        fixture.write(tmp_path)
    raw = native.raw_of(source, tmp_path)
    command = ["unify", source, "--raw", str(raw.root), "--out", str(tmp_path / "out"), "--damaged-files", "1"]
    for name, folder in raw.companions.items():
        command += ["--companion", f"{name}={folder}"]
    code = cli.main(command)
    report = json.loads((tmp_path / "out/report.json").read_text())
    items = report["items"]
    assert items["in"] == items["mapped"] + items["quarantined"] > 0 and items["mapped"] > 0
    half = all(2 * report[unit]["mapped"] >= report[unit]["in"] for unit in ("records", "items"))
    assert code == (0 if half else 2), "a source that quarantines most of it fails"
    lines = (tmp_path / "out/quarantine.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["items"] for line in lines) == items["quarantined"]
    tables = sorted((tmp_path / "out").glob("*.parquet"))
    before = {path.name: file_sha256(path) for path in tables}
    assert cli.main(command) == code
    assert {path.name: file_sha256(path) for path in tables} == before
