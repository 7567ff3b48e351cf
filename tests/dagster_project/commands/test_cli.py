"""Every command says how it is used, and says in one line what is wrong with its input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_project import cli
from dagster_project.commands import source_cards
from pipelines.mapping.card import Loss
from pipelines.sources import registry
from pipelines.store import Check, PartSpec, Store
from pipelines.store.manifest import Manifest
from quality.model_client.spending import Ceiling

ROOT = Path(__file__).parents[3]


def _help(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [*([name] for name in cli.COMMANDS), ["sources", "list"], ["sources", "pull"]])
def test_help_has_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(capsys, *words)
    assert "example" in text and f"vesper {words[0]}" in text


def test_a_reader_that_has_enough_is_no_failure() -> None:
    command = [sys.executable, "-m", "dagster_project.cli", "sources", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.read(10)
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait(60) == 141


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(capsys)
    assert all(name in text for name in cli.COMMANDS)


BAD = {
    "unknown source": ["unify", "nope", "--raw", ".", "--out", "out"],
    "no raw folder": ["unify", "aitw", "--raw", "missing", "--out", "out"],
    "raw folder without its files": ["unify", "aitw", "--raw", "empty", "--out", "out"],
    "raw is a plain file": ["unify", "aitw", "--raw", "texts.jsonl", "--out", "out"],
    "raw is a damaged archive": ["unify", "aitw", "--raw", "damaged.zip", "--out", "out"],
    "companion without a folder": ["unify", "screenqa", "--raw", "empty", "--out", "out", "--companion", "rico"],
    "judge nothing": ["judge", "empty", "--out", "out"],
    "judge without endpoint": ["judge", "empty", "--out", "out", "--judge", "openai"],
    "refine nothing": ["refine", "empty", "--out", "out"],
    "refine no rounds": ["refine", "empty", "--out", "out", "--max-rounds", "0"],
    "dedup no file": ["dedup", "missing.jsonl", "--threshold", "0.9", "--out", "out"],
    "dedup threshold": ["dedup", "texts.jsonl", "--threshold", "1.5", "--out", "out"],
    "dedup columns": ["dedup", "texts.jsonl", "--threshold", "0.9", "--out", "out"],
    "shard nothing": ["shard", "empty", "--out", "out"],
    "train without a store": ["train", "base", "--home", "empty", "--out", "out"],
    "eval no checkpoint": ["eval", "empty"],
    "merge no checkpoint": ["merge", "--method", "ties", "--base", "empty", "--model", "empty", "--out", "out"],
    "lineage without a store": ["lineage", "unified", "--home", "empty"],
    "pull unknown": ["sources", "pull", "nope", "--from", "empty"],
    "pull nothing": ["sources", "pull", "aitw", "--from", "missing", "--to", "out"],
    "demo report": ["demo", "--report", "missing/report.json"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_an_exit_code(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts.jsonl").write_text('{"id": 1, "words": "x"}\n')
    (tmp_path / "damaged.zip").write_bytes(b"PK\x03\x04 and then nothing of use")
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) != 0
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1 and told[0].startswith(f"vesper {arguments[0]}: ") and len(told[0]) > 30


@pytest.mark.parametrize("arguments", [["nope"], ["train", "nope"], ["judge", "x"], []])
def test_bad_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "vesper" in capsys.readouterr().err


def test_commands_start_without_the_heavy_libraries() -> None:
    code = """
import sys
from dagster_project import cli
for words in (["--help"], ["unify", "--help"], ["judge", "--help"], ["sources", "list"]):
    try:
        cli.main(words)
    except SystemExit:
        pass
heavy = ("dagster", "torch", "transformers", "apache_beam", "faiss", "playwright")
print("heavy:", *[name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "heavy:"


def test_train_gives_the_success_judge_the_deployments_ceiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster_project.commands import training

    given = {}

    def stage(name: str, *words: object, judge: Mapping[str, object], **more: object) -> Manifest:
        given[name] = judge
        return Store(tmp_path / "home").require("bench/made")

    store = Store(tmp_path / "home")
    with store.build("bench/made", code_version="1", parts=[PartSpec("all", "1")]) as build:
        build.run_part(PartSpec("all", "1"), lambda out: None)
        build.commit(checks=[Check("made", True, "yes", "yes")])
    (tmp_path / "deployment.yaml").write_text("judge: {requests_per_night: 3}\n")
    monkeypatch.setenv("VESPER_DEPLOYMENT", str(tmp_path / "deployment.yaml"))
    monkeypatch.setattr(training, "run_stage", stage)
    assert cli.main(["train", "online_web", "--home", str(store.home)]) == 0
    ceiling = given["online_web"]["ceiling"]
    assert isinstance(ceiling, Ceiling) and (ceiling.requests, ceiling.tokens) == (3, None)


def test_sources_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sources", "list", "--json"]) == 0
    cards = {card["id"]: card for card in json.loads(capsys.readouterr().out)}
    assert len(cards) >= 10
    assert all(card["loss"] and card["licence"] and card["version"] >= 1 for card in cards.values())


def test_pull_copies_once_and_stays_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    origin = tmp_path / "origin" / "aitw"
    (origin / "deep").mkdir(parents=True)
    (origin / "a.txt").write_text("one")
    (origin / "deep" / "b.txt").write_text("two")
    arguments = ["sources", "pull", "aitw", "--from", str(tmp_path / "origin" / "{id}"), "--to", str(tmp_path / "raw")]
    assert cli.main(arguments) == 0
    assert "2 files copied, 0 there" in capsys.readouterr().out
    assert (tmp_path / "raw" / "aitw" / "deep" / "b.txt").read_text() == "two"
    assert cli.main(arguments) == 0
    assert "0 files copied, 2 there" in capsys.readouterr().out


def _commit(store: Store, asset: str, inputs: dict[str, str]) -> str:
    with store.build(asset, code_version="1", inputs=inputs) as build:
        build.run_part(PartSpec("a", asset), lambda out: out.bytes("a.txt", asset.encode()))
        return build.commit(counts={"files": 1}, checks=[Check("there", True, "1", "1")]).version


def test_lineage_follows_manifests_to_the_raw_files(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    raw = _commit(store, "raw/aitw", {})
    gold = _commit(store, "gold/aitw", {"raw/aitw": raw})
    mid = _commit(store, "checkpoints/mid_trained", {"gold/aitw": gold})
    _commit(store, "checkpoints/unified", {"checkpoints/mid_trained": mid, "gold/aitw": gold})
    assert cli.main(["lineage", "unified", "--home", str(store.home)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("checkpoints/unified ")
    assert any(line.endswith(f"raw/aitw {raw}  1 files") for line in lines)
    assert sum("raw/aitw" in line for line in lines) == 1, "what was shown above isn't shown again"
    assert cli.main(["lineage", "unified", "--home", str(store.home), "--json"]) == 0
    assert f"raw/aitw@{raw}" in json.loads(capsys.readouterr().out)["ancestors"]


def test_the_page_about_the_sources_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sources", "list", "--markdown"]) == 0
    page = capsys.readouterr().out
    said = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    assert said == page, "run `vesper sources list --markdown > docs/sources.md`"
    for name, adapter in registry().items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert sum(line.startswith("| ") for line in section.splitlines()) == len(adapter.descriptor.loss) + 1
        assert adapter.descriptor.licence in section and adapter.descriptor.size in section


def test_markup_in_a_descriptor_stays_text() -> None:
    card = replace(registry()["aitw"].descriptor, loss=(Loss("a|b", "<b>*x*", "lossy", "back\\slash\nnext | line"),))
    assert "| a\\|b | &lt;b&gt;\\*x\\* | lossy | back\\\\slash next \\| line |" in source_cards.page([card])
