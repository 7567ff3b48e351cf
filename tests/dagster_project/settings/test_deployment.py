"""What a deployment.yaml may say, and how a wrong setting is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dagster_project.settings import deployment
from dagster_project.settings.raw_folders import raw_folder
from dagster_project.stage_functions.sources import judge_config
from dagster_project.stages import graph, sources
from dagster_project.stages.stage import JudgeSettings, StageWork
from pipelines.store import Store
from quality.judges.nightly import ask_again_of
from quality.judges.registry import build_judge


def test_a_nights_money_needs_prices(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("judge: {money_per_night: 5, price_prompt: 2}\n")
    with pytest.raises(deployment.DeploymentError, match="expected price_prompt and price_completion"):
        deployment.load(path)
    limits = deployment.JudgeOptions(money_per_night=5.0, price_prompt=2, price_completion=8)
    asked = StageWork(
        Store(tmp_path), deployment.Deployment(raw_root=tmp_path, judge=limits), JudgeSettings("openai", "u", "m")
    )
    ceiling = judge_config(asked).client["ceiling"]
    assert (ceiling.money, ceiling.prices.prompt, ceiling.prices.completion) == (5.0, 2, 8)


def test_a_deployment_has_its_judge_read(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("judge: {read: 1}\n")
    with pytest.raises(deployment.DeploymentError, match="judge.read: expected true or false"):
        deployment.load(path)
    deployment._load.cache_clear()
    path.write_text("judge: {read: true}\n")
    work = StageWork(Store(tmp_path), deployment.load(path), JudgeSettings())
    assert judge_config(work).read
    assert not judge_config(replace(work, deployment=deployment.Deployment(raw_root=tmp_path))).read


def test_people_have_what_had_no_answer_asked_again_by_a_number(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("judge: {ask_again: -1}\n")
    with pytest.raises(deployment.DeploymentError, match="judge.ask_again: expected a whole number, 0 or more"):
        deployment.load(path)
    deployment._load.cache_clear()
    path.write_text("judge: {ask_again: 2, requests_per_night: null}\n")
    work = StageWork(Store(tmp_path), deployment.load(path), JudgeSettings("openai", "http://u", "m"))
    assert ask_again_of(build_judge(judge_config(work))) == 2
    usual = replace(work, deployment=deployment.Deployment(raw_root=tmp_path))
    assert ask_again_of(build_judge(judge_config(usual))) == 0


def test_deployment_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("sources: {aitw: {enable: false}}\n")
    with pytest.raises(deployment.DeploymentError, match="unknown 'enable'"):
        deployment.load(path)
    with pytest.raises(ValueError, match="unknown source 'nope'"):
        sources.enabled(deployment.Deployment(raw_root=Path("/x"), sources={"nope": deployment.SourceSettings()}))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("personal_data: {agent_net: quarantine}", "personal_data: unknown source 'agent_net'; did you mean agentnet"),
        ("personal_data: {generated: quarantine}", "personal_data: unknown source 'generated'"),
        ("sources: {screen_qa: {enabled: false}}", "unknown source 'screen_qa'; did you mean screenqa"),
        ("sources: {screenspot: {enabled: false}}", "sources.screenspot.enabled: expected it for sources that train"),
        ("sources: {rico: {enabled: true}}", "found rico, which is a companion"),
        ("sources: {screenqa: {companions: {ricco: /x}}}", "screenqa: unknown companion 'ricco'; did you mean rico"),
        ("sources: {mind2web: {companions: {rico: /x}}}", "mind2web: unknown companion 'rico'; known are none"),
        (
            "sources: {screenqa: {companions: [rico]}}",
            "sources.screenqa.companions: expected settings by name, found",
        ),
        ("sources: {aitw: {raw: 5}}", "sources.aitw.raw: expected a text, found 5"),
        (
            "sources: {screenqa: {companions: {rico: /a}}, ui_refexp: {companions: {rico: /b}}}",
            "expected one folder for rico, .* found sources.screenqa.companions.rico: /a, "
            "sources.ui_refexp.companions.ri",
        ),
        (
            "sources: {screenqa: {companions: {rico: /a}}, rico: {raw: /b}}",
            "found sources.*rico: /a, sources.rico.raw: /b",
        ),
        ("freshness: {gold/aitv: 36}", "unknown group or asset 'gold/aitv'; did you mean .*gold/aitw"),
        ("freshness: {nonsense: 36}", "unknown group or asset 'nonsense'; known are bench, cards, checkpoints, "),
        (
            "freshness: {generation/task_bank: 36}",
            "can be late, found generation/task_bank, which is made round by round",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(said: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(f"raw_root: {tmp_path}\n{said}\n")
    with pytest.raises(deployment.DeploymentError, match=wanted):
        graph.stages(deployment.load(tmp_path / "d.yaml"))


def test_settings_of_what_is_not_here_now_are_kept_for_later(tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(
        "embedded: {enabled: false}\nsources: {mind2web: {enabled: false}, rico: {owners: [team:pictures]}}\n"
        "freshness: {raw: 36, gold/mind2web: 36, raw/screenspot: 48, suites/screenspot: 48}\n"
        f"personal_data: {{default: report, agentnet: quarantine}}\nraw_root: {tmp_path}\n"
    )
    settings = deployment.load(tmp_path / "d.yaml")
    assert not [key for key in graph.stages(settings) if key.startswith("gold/") and key != "gold/generated"]
    (tmp_path / "screenqa").mkdir()
    assert graph.stages(settings)["raw/rico"].owners == ("team:pictures",)


def test_the_shipped_examples_of_sources_are_accepted(tmp_path: Path) -> None:
    lines = deployment.FILE.read_text().splitlines()
    first = lines.index("# sources:")
    example = [line.removeprefix("# ") for line in lines[first : lines.index("sources: {}")]]
    (tmp_path / "d.yaml").write_text("\n".join(example) + "\n")
    settings = deployment.load(tmp_path / "d.yaml")
    assert {"aitw", "mind2web", "screenqa", "screenspot"} <= set(settings.sources)
    assert "raw/screenspot" in graph.stages(settings) and settings.native_folder("rico") == Path.home() / "rico"


@pytest.mark.parametrize("text", ["{}", "raw_root: null"])
def test_native_files_are_looked_for_in_the_store_that_a_command_works_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.yaml").write_text(f"{text}\n")
    other = tmp_path / "other"
    for folder in (tmp_path / "said/aitw", other / "incoming/aitw"):
        folder.mkdir(parents=True)
    settings = deployment.load(tmp_path / "d.yaml")  # whose home is $VESPER_HOME
    assert raw_folder(settings, other, "aitw") == other / "incoming/aitw"
    assert raw_folder(settings, other, "amex") == other / "raw/amex"
    said = deployment.load(tmp_path / "d.yaml", raw_root=tmp_path / "said")
    assert raw_folder(said, other, "aitw") == tmp_path / "said/aitw"
