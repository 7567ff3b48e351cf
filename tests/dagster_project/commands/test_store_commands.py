"""`vesper promote | rollback | gc | takedown` on a store: what they print, change and return."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from goldmaker import gold

from dagster_project import cli
from pipelines.store import Check, PartSpec, Store
from pipelines.takedown.withdrawn import NAME
from pipelines.training_data.shards import build_shards


def _commit(store: Store, content: str, *, passed: bool = True, asset: str = "gold/x") -> str:
    spec = PartSpec("one", content)
    with store.build(asset, code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", content.encode()))
        return build.commit(checks=[Check("good", passed, "", "")]).version


def test_promote_list_roll_back_and_collect(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, bad = _commit(store, "a"), _commit(store, "b"), _commit(store, "c", passed=False)
    data = ["--home", str(store.home)]
    assert cli.main(["rollback", "gold/x", "--reason", "b is worse", *data]) == 0
    assert f"gold/x: {a} rolled back by" in capsys.readouterr().out
    assert cli.main(["promote", f"gold/x@{bad}", *data]) == 2
    assert "blocking checks failed: good" in capsys.readouterr().err
    assert cli.main(["promote", f"gold/x@{bad}", "--force", "--reason", "for once", *data]) == 0
    assert "though its checks failed" in capsys.readouterr().out and store.require("gold/x").version == bad
    assert cli.main(["promote", "gold/x", "--json", *data]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["version"]: one["current"] for one in listed["versions"]} == {a: False, b: False, bad: True}
    assert [one["why"] for one in listed["history"]][-2:] == ["b is worse", "for once"]
    for path in store.home.rglob("*"):
        os.utime(path, (time.time() - 3 * 86400,) * 2)
    assert cli.main(["gc", "--keep", "1", *data]) == 0
    told = capsys.readouterr().out
    assert "dry run: nothing was changed" in told and len(list(store.root("gold/x").glob("*/manifest.json"))) == 3
    assert cli.main(["gc", "--keep", "1", "--delete", "--json", *data]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["deleted"] and len(plan["assets"]["gold/x"]["dropped"]) >= 1
    assert {path.parent.name for path in store.root("gold/x").glob("*/manifest.json")} >= {bad}


AGENT = "checkpoints/unified"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("promote", "unified", "--list"), " promoted to production by "),
        (("promote", "production"), f"{AGENT}: "),
        (("rollback", "unified"), f"{AGENT}: "),
        (("rollback", "production"), f"{AGENT}@production: "),
        (("lineage", "production"), f"{AGENT} "),
        (("diff", "production", "unified"), "'production': nothing that it was trained on is in this store"),
        (("verify", "unified"), "every file is what was written"),
        (("verify", "production"), "every file is what was written"),
        (("rollback", "unified@1f2e"), "expected an asset without a version, which --to names"),
        (("lineage", "candidate"), f"{AGENT}@candidate: nobody has set this alias"),
        *(
            ((command, wrong), f"did you mean {AGENT}")
            for command in ("promote", "rollback", "lineage", "verify")
            for wrong in ("unifed", "checkpoints/unifed")
        ),
        (("diff", "unifed", "unified"), f"did you mean {AGENT}"),
        (("export", "checkpoint", "--to", "hub", "out", "--asset", "unifed"), f"did you mean {AGENT}"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_an_agent_goes_by_its_short_name_and_its_aliases_and_what_is_near_is_named(
    store: Store, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    data = ["--home", str(store.home)]
    for content in "abc":
        _commit(store, content, asset=AGENT)
        cli.main(["promote", AGENT, "--alias", "production", "--force", "--reason", "a test", *data])
    capsys.readouterr()
    done, told = cli.main([*words, *data]), capsys.readouterr()
    assert said in told.out + told.err
    assert done == 0 or len(told.err.splitlines()) == 1


def test_an_alias_is_set_listed_and_taken_back(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = _commit(store, "a"), _commit(store, "b")
    data = ["--home", str(store.home)]
    assert cli.main(["promote", f"gold/x@{a[:6]}", "--alias", "production", "--reason", "it won", *data]) == 0
    assert cli.main(["promote", "gold/x", "--alias", "production", *data]) == 0
    assert f"gold/x@production: {b} promoted by" in capsys.readouterr().out
    assert cli.main(["rollback", "gold/x", "--alias", "production", *data]) == 0
    assert cli.main(["promote", "gold/x", "--list", *data]) == 0
    told = capsys.readouterr().out
    assert f"{a} rolled back to production by" in told and ": it won" in told
    [line] = [line for line in told.splitlines() if line.startswith(a)]
    assert line.endswith("production") and store.require("gold/x").version == b
    assert cli.main(["promote", "gold/x", "--json", *data]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["version"]: one["aliases"] for one in listed["versions"]} == {a: ["production"], b: []}
    assert [change["version"] for change in listed["aliases"]["production"]] == [a, b, a]


def test_commands_on_folders_of_a_corpus_take_an_asset_by_its_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = gold(store, count=4).require("gold/toy")
    monkeypatch.setenv("VESPER_HOME", str(store.home))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["promote", "gold/toy", "--alias", "candidate"]) == 0
    assert cli.main(["scan", "unified/toy", "--out", "scanned"]) == 0
    assert cli.main(["scan", f"gold/toy@{made.version[:5]}"]) == 0
    assert json.loads((tmp_path / f"gold-toy-{made.version[:8]}-scan/report.json").read_text())["screens"] > 0
    assert cli.main(["judge", "unified/toy", "--out", "judged"]) == 0
    assert cli.main(["shard", "gold/toy@candidate", "--out", "packed"]) == 0
    counted = json.loads((tmp_path / "packed/report.json").read_text())
    assert counted["samples"] == build_shards(store, ["toy"]).rows("index")
    with pytest.raises(SystemExit):
        cli.main(["scan", "unified/toi"])
    assert "neither a folder 'unified/toi' nor an asset" in capsys.readouterr().err


def test_takedown_tells_what_went_and_proves_it(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold(store, count=4)
    build_shards(store, ["toy"])
    notes = tmp_path / "withdrawn.csv"
    notes.write_text("id,reason\nepisode:toy/e0001,a person asked\nrecord:toy/unknown,too\n")
    data = ["--home", str(store.home)]
    assert cli.main(["takedown", str(notes), *data]) == 0
    told = capsys.readouterr().out
    assert "2 ids remembered" in told and "not in this store, left out from now on: record:toy/unknown" in told
    assert "verified: nothing of it is left" in told and "mid_training/shards@" in told
    assert cli.main(["takedown", "--verify", *data]) == 0
    (store.home / "kept.jsonl").write_text('{"item_id": "step:toy/e0001/2"}\n')
    capsys.readouterr()
    assert cli.main(["takedown", "--verify", "--json", *data]) == 1
    assert json.loads(capsys.readouterr().out)["left"] == [{"place": "kept.jsonl", "what": "its name"}]
    assert (store.home / NAME).exists()


BAD = {
    "promote without a store": ["promote", "gold/x", "--home", "empty"],
    "promote an unknown asset": ["promote", "gold/x", "--home", "store"],
    "rollback of nothing": ["rollback", "../x", "--home", "store"],
    "gc keeps nothing": ["gc", "--keep", "0", "--home", "store"],
    "takedown of no list": ["takedown", "--home", "store"],
    "takedown of a strange list": ["takedown", "list.csv", "--home", "store"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "store" / "assets").mkdir(parents=True)
    (tmp_path / "list.csv").write_text("id,reason\n../x,y\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and told[0].startswith(f"vesper {arguments[0]}: ") and len(told[0]) > 30


@pytest.mark.parametrize("option", ["--home", "--data"])
def test_the_store_is_called_alike_by_both_of_its_names(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["lineage", "unified"], ["train", "base"], ["gc", "--keep", "1"]):
        assert cli.main([*command, option, "/no/store"]) == 2
        assert "--home /no/store: expected a store" in capsys.readouterr().err
