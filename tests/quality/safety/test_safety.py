"""The safety stage and `vesper scan`: findings redacted, triggers block, unchanged sources are skipped."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from goldmaker import _commit, step_row
from PIL import Image, ImageDraw
from trigger_attacks import Attack, encoded, plant

from dagster_project.cli import main
from dagster_project.commands import safety as command
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.store import Store, StoreError
from pipelines.training_data.mixture import SHARES
from pipelines.unify import buckets
from quality.commands.safety_scan import scan_directory
from quality.safety.scan import SafetyConfig, require_unified, scan_sources
from schemas.actions import Click, Type
from schemas.tables import Samples, Screens, Steps

SECRET, MAIL = "hunter2secret", "bob.miller@gmail.com"
NOISE = Attack("noise", "noise", 0.25, 20)


def page(number: int) -> Image.Image:
    """A screen of its own: words and bars."""
    image = Image.new("RGB", (320, 400), "white")
    draw = ImageDraw.Draw(image)
    rng = Random(number)
    for line in range(5):
        draw.text((12, 12 + 70 * line), f"entry {rng.randrange(10**6)}", fill="black")
    draw.rectangle((0, 380, 320, 400), fill=(30, 60, rng.randrange(120, 200)))
    return image


def tables(store: Store, source: str, count: int = 12, poisoned: int = 0, seed: int = 0) -> dict[str, Any]:
    """Episodes of two steps; the first `poisoned` screens carry a trigger that the click points at."""
    steps, screens, rng = [], [], Random(seed)
    for number in range(count):
        image, point = page(1000 * seed + number), (500, 500)
        if number < poisoned:
            image, box, _ = plant(image, (0, 0, 1, 1), NOISE, rng)
            point = (int((box[0] + box[2]) / 2), int((box[1] + box[3]) / 2))
        info = store.put_screen(encoded(image))
        shown = {
            "screenshot_sha256": info.sha256,
            "width_px": 320,
            "height_px": 400,
            "phash": info.phash,
            "elements": [],
            "source": source,
        }
        screens.append(shown)
        goal = {0: f"mail {MAIL}", 1: f"the password is {SECRET}", 2: "mail jane@example.com"}.get(number, "go on")
        more = {"source": source, "instruction": goal, "width_px": 320, "height_px": 400}
        steps.append(step_row(f"e{number}", 0, info.sha256, Click(point), **more))
        typed = Type(MAIL) if number == 0 else Type("milk")
        steps.append(step_row(f"e{number}", 1, info.sha256, typed, **more))
    return {"steps": Steps.table(steps), "screens": Screens.table(screens), "samples": Samples.table([])}


def commit(store: Store, source: str, **more: Any) -> None:
    _commit(store, f"unified/{source}", tables(store, source, **more), 1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def everything(root: Path) -> bytes:
    found = []
    for path in sorted(root.rglob("*")):
        if path.suffix == ".parquet":
            found.append(repr(pq.read_table(path).to_pylist()).encode())
        elif path.is_file():
            found.append(path.read_bytes())
    return b"\n".join(found)


def test_findings_are_told_but_never_repeated(store: Store) -> None:
    commit(store, "toy")
    manifest = scan_sources(store, ["toy"])
    assert manifest.checks_passed and manifest.counts["triggers"] == 0
    found = manifest.read("findings").to_pylist()
    personal = [row for row in found if row["rule"] == "personal_data" and not row["synthetic"]]
    assert {row["item_id"] for row in personal} == {"step:toy/e0/0", "step:toy/e0/1"}
    assert {row["field"] for row in personal} == {"instruction", "action"}
    assert personal[0]["detail"] == "address: aaa.aaaaaa@aaaaa.aaa"
    assert {row["item_id"] for row in found if row["synthetic"]} == {"step:toy/e2/0", "step:toy/e2/1"}
    assert {row["kind"] for row in found if row["rule"] == "credential"} == {"password or key that is told"}
    written = everything(store.root("hygiene/safety"))
    assert MAIL.encode() not in written and SECRET.encode() not in written
    warned = {check.name for check in manifest.checks if not check.passed}
    assert warned == {"little personal data", "no credentials", "every licence is known"}


def test_what_vesper_invented_is_nobodys_and_stands_under_its_own_licence(store: Store) -> None:
    for source, origin in (("aitw", "embedded 1 tiny 0"), ("miniwob_demos", "native")):
        _commit(store, f"unified/{source}", tables(store, source), 1, origin=origin)
    manifest = scan_sources(store, ["aitw", "miniwob_demos"])
    found = [row for row in manifest.read("findings").to_pylist() if row["rule"] == "credential"]
    assert {(row["source"], row["synthetic"]) for row in found} == {("aitw", True), ("miniwob_demos", False)}
    assert manifest.counts["items_credential"] == sum(row["source"] == "miniwob_demos" for row in found) > 0
    lines = {one["source"]: one for one in json.loads(manifest.file("licences.json").read_text())["sources"]}
    assert lines["aitw"]["terms"]["family"] == "Apache-2.0" and lines["miniwob_demos"]["unknown"]


@pytest.mark.slow
def test_a_trigger_blocks_and_is_drawn(store: Store) -> None:
    commit(store, "clean", seed=1)
    commit(store, "bad", count=30, poisoned=8, seed=2)
    manifest = scan_sources(store, ["bad", "clean"])
    assert not manifest.checks_passed and store.current("hygiene/safety") is None
    assert manifest.counts["triggers_by_source"] == {"bad": 1}
    [trigger] = manifest.read("triggers").to_pylist()
    assert trigger["source"] == "bad" and trigger["hits"] == 8 and trigger["aimed"] >= 0.5
    gone = {row["item_id"] for row in manifest.read("quarantine").to_pylist()}
    assert gone == {f"step:bad/e{number}/{step}" for number in range(8) for step in (0, 1)}
    assert Image.open(manifest.file("bad.png")).size[0] == 768
    [failed] = [check for check in manifest.checks if check.blocking and not check.passed]
    assert failed.name == "no planted trigger" and failed.found == "bad (1)"


def test_only_a_changed_source_is_scanned_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(store, "one", seed=1)
    commit(store, "two", seed=2)
    first = scan_sources(store, ["one", "two"])
    looked: list[str] = []
    real = Store.screen_bytes
    monkeypatch.setattr(Store, "screen_bytes", lambda self, sha: looked.append(sha) or real(self, sha))
    assert scan_sources(store, ["one", "two"]).version == first.version and not looked
    commit(store, "two", seed=3)
    again = scan_sources(store, ["one", "two"])
    assert again.data_version != first.data_version and len(set(looked)) == 12


def test_policies(store: Store) -> None:
    commit(store, "toy")
    told = scan_sources(store, ["toy"], SafetyConfig(policy="quarantine", policies={"toy": "report"}))
    assert told.counts["items_personal"] == 2 and told.read("quarantine").num_rows == 0
    gone = scan_sources(store, ["toy"], SafetyConfig(policy="quarantine")).read("quarantine").to_pylist()
    assert {row["item_id"] for row in gone} == {"step:toy/e0/0", "step:toy/e0/1"}
    with pytest.raises(ValueError, match="expected one of report, quarantine, found 'hide'"):
        SafetyConfig(policies={"toy": "hide"})  # type: ignore[dict-item]


def test_a_refused_licence_that_is_used_blocks(store: Store) -> None:
    commit(store, "aitw", seed=1)
    assert scan_sources(store, ["aitw"], refuses=lambda licence: "no").checks_passed  # nothing of it is gold yet
    _commit(store, "gold/aitw", tables(store, "aitw", seed=1), 1)
    manifest = scan_sources(store, ["aitw"], refuses=lambda licence: "no")
    assert not manifest.checks_passed
    assert json.loads(manifest.file("licences.json").read_text())["summary"]["refused_but_used"] == ["aitw"]


def test_what_is_told_of_the_last_mixture_is_no_data(store: Store) -> None:
    """The mixture is made of this asset: were its shares data here, no two nights with equal inputs would be equal."""
    commit(store, "toy")
    before = scan_sources(store, ["toy"])
    shares = {
        "group": "source",
        "name": "toy",
        "available_tokens": 9,
        "chosen_tokens": 9,
        "chosen_rows": 3,
        "target_share": None,
        "reached_share": None,
        "rate": None,
    }
    _commit(store, "mid_training/mixture", {"shares": pa.Table.from_pylist([shares], schema=SHARES)}, 1)
    after = scan_sources(store, ["toy"])
    told = json.loads(after.file("licences.json").read_text())["sources"]
    assert [line["mixture_rows"] for line in told if line["source"] == "toy"] == [3]
    assert after.data_version == before.data_version


def test_nothing_to_scan_is_said(store: Store) -> None:
    with pytest.raises(StoreError, match="no source is unified yet"):
        require_unified(store, ["aitw"])


def test_a_picture_that_cannot_be_read_is_counted(store: Store) -> None:
    commit(store, "toy")
    [path, *_] = sorted(store.home.glob("screens/*/*"))
    path.write_bytes(path.read_bytes()[:60])
    manifest = scan_sources(store, ["toy"])
    assert manifest.counts["unreadable"] == 1
    assert "every screen was read" in {check.name for check in manifest.checks if not check.passed}


# --- vesper scan ------------------------------------------------------------------------------------------------------
def folder(tmp_path: Path, **more: Any) -> Path:
    store = Store(tmp_path / "store")
    made = tables(store, "toy", **more)
    (tmp_path / "in").mkdir()
    for name, table in made.items():
        pq.write_table(table, tmp_path / "in" / f"{name}.parquet")
    (store.home / "screens").rename(tmp_path / "in" / "screens")
    return tmp_path / "in"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import dagster_project.cli as cli

    monkeypatch.setitem(cli.COMMANDS, "scan", ("safety", "scan a folder"))
    source = folder(tmp_path)
    assert main(["scan", str(source)]) == 0
    assert "triggers 0" in capsys.readouterr().out
    report = json.loads((tmp_path / "in-scan" / "report.json").read_text())
    assert report["items_personal"] == 2 and report["items_credential"] == 2 and report["screens"] == 12
    assert report["synthetic"] == {"email": 2}
    assert MAIL.encode() not in everything(tmp_path / "in-scan")
    assert main(["scan", str(source), "--out", str(source)]) == 2
    assert main(["scan", str(tmp_path / "nothing")]) == 2
    assert "expected steps*.parquet" in capsys.readouterr().err


@pytest.mark.slow
def test_neither_cuts_nor_workers_change_what_a_folder_s_scan_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_ROWS", 12)
    whole, names = folder(tmp_path, count=30, poisoned=8), ("findings", "triggers", "quarantine")
    steps = pq.read_table(whole / "steps.parquet")
    first = scan_directory(whole, tmp_path / "one", "quarantine")
    for cut in range(7):
        part = steps.take(pa.array(range(cut, steps.num_rows, 7), pa.int64()))
        pq.write_table(part, whole / f"steps-{cut}.parquet")
    (whole / "steps.parquet").unlink()
    by = Execution(EngineSettings(runner="processes", workers=2))
    assert scan_directory(whole, tmp_path / "two", "quarantine", by) == first and first["triggers"] == 1
    for name in (*(f"{name}.parquet" for name in names), "triggers.png", "report.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    sources = {row["source"] for row in pq.read_table(tmp_path / "one" / "findings.parquet").to_pylist()}
    assert sources == {"toy"} and MAIL.encode() not in everything(tmp_path / "one")


@pytest.mark.slow
def test_the_command_fails_on_a_trigger(tmp_path: Path) -> None:
    report = scan_directory(folder(tmp_path, count=30, poisoned=8), tmp_path / "out", "quarantine")
    assert report["triggers"] == 1 and report["items_trigger"] == 16
    held = pq.read_table(tmp_path / "out" / "quarantine.parquet")["item_id"].to_pylist()
    assert held == ["step:toy/e0/0", "step:toy/e0/1"]
    assert (tmp_path / "out" / "triggers.png").is_file()
    assert command.scan.__doc__ and "Exit code 1" in command.scan.__doc__
