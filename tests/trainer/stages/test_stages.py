"""The stages on a small store: every checkpoint and its evaluation, committed once, with inputs recorded.

Online RL needs worlds: its stages have tests of their own (`test_online.py`), and here the offline specialists
are merged.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from event_files import scalars_of
from goldmaker import gold
from hub_folder import COMPANIONS, hub_weights, write_hub
from tiny_published import KINDS, QWEN3_5
from tiny_training import SHAPE, short_replies

from dagster_project import cli
from pipelines.store import Store, StoreError
from pipelines.training_data import shards
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.evaluation.evaluate import compare
from trainer.evaluation.records import Records
from trainer.modeling.checkpoint import read_preset
from trainer.modeling.tensors import WeightFiles
from trainer.settings.domains import DOMAINS
from trainer.settings.presets import PRESETS, nano
from trainer.settings.stages import ONLINE, SPECIALISTS
from trainer.stages.assets import CHECKPOINTS, STAGES, checkpoint_folder
from trainer.stages.rl_rows import by_cluster
from trainer.stages.run import opened, run_stage
from trainer.stages.settings import preset_from, stage_settings

pytestmark = pytest.mark.slow

CONFIG: dict[str, Any] = {
    "shape": SHAPE,
    "domains": list(DOMAINS),
    "midtrain": {"max_steps": 8, "batch_size": 8, "warmup_steps": 2, "save_steps": 4, "eval_steps": 0, "threads": 1},
    "validation_share": 0.15,
    "offline": {
        "threads": 1,
        "updates": 1,
        "prompts": 3,
        "grpo": {"max_completion_length": 12},  # what so few steps teach rambles to the end of any length
        "num_generations": 4,
        "held_out_limit": 8,
        "held_out_samples": 1,
        "validation_limit": 4,
        "validation_samples": 1,
    },
    "merge": {"specialists": list(SPECIALISTS), "density": [0.5], "lambda": [0.7, 1.0], "validation_rows": 8},
    "distilled": {
        "threads": 1,
        "updates": 1,
        "prompts": 3,
        "held_out_limit": 8,
        "validation_limit": 4,
        "teachers": {name: one.offline for name, one in DOMAINS.items()},
    },
    "evaluate": {"threads": 1, "grounding": 6, "navigation": 4, "max_new_tokens": 8},
}
MADE = [name for name in CHECKPOINTS if name not in ONLINE]


def stage_config(stage: str, given: dict[str, Any], trained: str = "") -> dict[str, Any]:
    """What a stage's version depends on."""
    return stage_settings(stage, given, trained).of_stage(stage)


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    with short_replies():
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = gold(tmp_path_factory.mktemp("stages"), count=20, parts=2, platforms=("web", "mobile", "desktop"))
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    return store


@pytest.fixture(scope="module")
def made(store: Store) -> dict[str, Any]:
    """All stages but those of online RL, in order."""
    stages = [stage for stage in STAGES if stage.rpartition("/")[2] in MADE]
    return {stage: run_stage(stage, store.home, CONFIG, progress=False) for stage in stages}


def test_every_stage_is_committed_with_checks_passed_and_inputs_recorded(store: Store, made: dict[str, Any]) -> None:
    for stage, manifest in made.items():
        assert manifest.checks_passed, (stage, [c for c in manifest.checks if not c.passed])
        assert manifest.checks and store.require(manifest.asset).version == manifest.version
        for asset, version in manifest.inputs.items():
            assert store.require(asset).version == version
    assert set(made["unified"].inputs) == {
        "checkpoints/mid_trained",
        *(f"checkpoints/{name}" for name in SPECIALISTS),
        "mid_training/shards",
    }
    merged = made["unified"].counts
    choice = json.loads((checkpoint_folder(made["unified"]).parent / "merge_choice.json").read_text())
    assert merged["models"] == 4 and "computer" in choice[0]["success"], "it is validated on rows of its own"
    assert merged["tried"] == len(choice) == 2 and merged["validation_success"] == max(one["mean"] for one in choice)
    assert {"density": merged["density"][0], "lambda": merged["lambda"]} in [
        {"density": one["density"], "lambda": one["lambda"]} for one in choice
    ]


def test_the_distilled_checkpoint_knows_its_teachers(made: dict[str, Any]) -> None:
    teachers = {f"checkpoints/{name}" for name in SPECIALISTS}
    rows = {"checkpoints/mid_trained", "mid_training/shards", "evaluations/heldout"}
    assert set(made["distilled"].inputs) == teachers | rows
    counts = made["distilled"].counts
    assert counts["teachers"] == 4 and counts["updates"] == 1
    for domain in DOMAINS:
        assert 0 <= counts[f"{domain}_success_before"] <= 1 and 0 <= counts[f"{domain}_success_after"] <= 1


def test_the_agent_may_be_the_distilled_one(store: Store, made: dict[str, Any], tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(store.home, home)
    config = {**CONFIG, "merge": {**CONFIG["merge"], "unified": "distilled"}}
    agent = run_stage("unified", home, config, progress=False)
    assert agent.checks_passed and agent.inputs == {"checkpoints/distilled": made["distilled"].version}
    taken, own = checkpoint_folder(made["distilled"]), checkpoint_folder(agent)
    assert WeightFiles(own).digest() == WeightFiles(taken).digest()
    before, after = (json.loads((folder / "lineage.json").read_text()) for folder in (taken, own))
    assert after == {**before, "stage": "unified", "parents": agent.inputs}


def test_checkpoints_load_plainly_and_lineage_leads_back_to_the_shards(store: Store, made: dict[str, Any]) -> None:
    from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

    for name in MADE:
        folder = checkpoint_folder(made[name])
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder)
        assert len(AutoTokenizer.from_pretrained(str(folder))) == model.config.text_config.vocab_size == 1536
        found = json.loads((folder / "lineage.json").read_text())
        assert found["stage"] == name and found["action_space"] == "v1.5" and found["prompt_version"]
        assert found["parents"] == made[name].inputs
    seen, ahead = set(), ["checkpoints/unified"]
    while ahead:
        asset = ahead.pop()
        seen.add(asset)
        ahead += [parent for parent in store.require(asset).inputs if parent not in seen]
    assert {"checkpoints/base", "mid_training/shards", "mid_training/mixture", "gold/toy"} <= seen


def test_what_begins_with_another_action_space_speaks_it_to_the_end(store: Store, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(store.home, home)
    config = {**CONFIG, "action_space": "v2"}
    for stage in ("base", "mid_trained"):
        made = run_stage(stage, home, config, progress=False)
        assert made.checks_passed
        folder = checkpoint_folder(made)
        assert json.loads((folder / "lineage.json").read_text())["action_space"] == "v2"
        assert json.loads((folder / "preset.json").read_text())["action_space"] == "v2"
    assert "action_space" not in stage_config("base", CONFIG)


def test_a_second_run_does_nothing_and_says_so(store: Store, made: dict[str, Any]) -> None:
    for stage, manifest in made.items():
        events: list[dict[str, Any]] = []
        again = run_stage(stage, store.home, CONFIG, events.append, progress=False)
        assert again.version == manifest.version and again.data_version == manifest.data_version
        assert [event["kind"] for event in events] == ["stage", "committed"] and events[-1]["skipped"]
    assert not list((store.home / "cache/training").glob("*"))  # no state of finished runs is left


def test_the_events_of_a_finished_run_lie_beside_its_checkpoint(made: dict[str, Any]) -> None:
    for stage, tag in (("mid_trained", "train/loss"), ("offline_grounding", "train/reward")):
        asset = made[stage]
        [entry] = [entry for entry in asset.side_files if "/runs/" in entry.path]
        assert entry not in asset.files and "runs" not in str([e.path for e in asset.files])
        assert scalars_of((asset.root / entry.path).parent)[tag]


def test_the_same_inputs_give_the_same_bytes_elsewhere(made: dict[str, Any], tmp_path: Path) -> None:
    other = gold(tmp_path, count=20, parts=2, platforms=("web", "mobile", "desktop"))
    build_shards(other, ["toy"])
    build_mixture(other)
    for stage in ("base", "mid_trained"):
        assert run_stage(stage, tmp_path, CONFIG, progress=False).data_version == made[stage].data_version


def test_training_begins_from_a_checkpoint_by_its_folder(
    store: Store, made: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same tensors, its own tokenizer, its digest in the lineage; other weights there are another version."""
    kept = tmp_path / "kept"
    shutil.copytree(checkpoint_folder(made["mid_trained"]), kept)
    config = {"weights": str(kept), "preset": "nano"}
    base = run_stage("base", store.home, config, progress=False)
    folder = checkpoint_folder(base)
    assert WeightFiles(folder).digest() == WeightFiles(kept).digest()
    assert (folder / "tokenizer.json").read_bytes() == (kept / "tokenizer.json").read_bytes()
    parents = json.loads((folder / "lineage.json").read_text())["parents"]
    assert parents == {**base.inputs, "weights": WeightFiles(kept).digest()}
    assert run_stage("base", store.home, config, progress=False).version == base.version
    moved = {**config, "weights": str(kept.rename(tmp_path / "moved"))}
    assert run_stage("base", store.home, moved, progress=False).version == base.version
    shutil.copytree(checkpoint_folder(made["base"]), kept)
    assert run_stage("base", store.home, config, progress=False).version != base.version
    wrongs: dict[str, dict[str, Any]] = {
        "expected the folder of a checkpoint": {"weights": str(tmp_path)},
        "no other shape": {**config, "shape": {"layers": 1}},
        "preset 2b": {**config, "preset": "2b"},
    }
    for says, wrong in wrongs.items():
        assert cli.main(["train", "base", "--home", str(store.home), "--config", json.dumps(wrong)]) == 2
        assert says in capsys.readouterr().err
    run_stage("base", store.home, CONFIG, progress=False)  # what the other tests read


@pytest.mark.parametrize("kind", [*KINDS, QWEN3_5])
def test_training_begins_from_a_folder_of_published_weights(
    kind: str, store: Store, made: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of sizes that no preset has; what is unchanged goes out bit for bit."""
    hub = write_hub(tmp_path / "hub", kind)
    config = {"weights": str(hub), "preset": KINDS.get(kind, "2b"), "pixels": [32 * 32, 96 * 128]}
    run = ["train", "base", "--home", str(store.home), "--out", str(tmp_path / "out"), "--config"]
    assert cli.main([*run, json.dumps(config)]) == 0
    export = ["export", "checkpoint", "--to", "hub", "--asset", "base", "--home", str(store.home)]
    assert cli.main([*export, str(tmp_path / "exported")]) == 0
    for folder in (tmp_path / "out", tmp_path / "exported"):
        before, after = hub_weights(hub), hub_weights(folder)
        assert {name: one.dtype for name, one in before.items()} == {name: one.dtype for name, one in after.items()}
        assert all(torch.equal(after[name], one) for name, one in before.items())
        assert [one for one in COMPANIONS if (folder / one).read_bytes() != (hub / one).read_bytes()] == []
    preset = read_preset(tmp_path / "out")
    assert preset.name == KINDS.get(kind, "2b") and str(tmp_path) not in preset.source and preset.max_pixels == 96 * 128
    moved = {**config, "weights": str(hub.rename(tmp_path / "elsewhere"))}
    version = run_stage("base", store.home, config | moved, progress=False).version
    assert version == store.require("checkpoints/base").version
    capsys.readouterr()
    assert cli.main(["train", "base", "--home", str(store.home), "--config", json.dumps({"weights": moved["weights"]})])
    assert "say the preset" in capsys.readouterr().err
    run_stage("base", store.home, CONFIG, progress=False)  # what the other tests read


def test_data_that_is_made_anew_alike_trains_nothing(
    store: Store, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "CODE_VERSION", "another")
    build_shards(store, ["toy"])
    build_mixture(store)
    events: list[dict[str, Any]] = []
    again = run_stage("base", store.home, CONFIG, events.append, progress=False)
    assert events[-1]["skipped"] and again.data_version == made["base"].data_version
    assert again.inputs == {asset: store.require(asset).version for asset in made["base"].inputs} != made["base"].inputs


def test_evaluations_have_controls_and_records_of_the_same_samples(made: dict[str, Any]) -> None:
    records = {name: made[f"evaluations/{name}"].read("records").to_pylist() for name in MADE}
    ids = {name: [record["sample_id"] for record in listed] for name, listed in records.items()}
    assert all(listed == ids["base"] for listed in ids.values()) and len(ids["base"]) > 4
    report = json.loads(made["evaluations/unified"].file("evaluation.json").read_text())
    controls = report["summary"]["grounding"]["controls"]
    assert controls["blind"]["n"] == controls["swapped"]["n"] == controls["random_element"]["n"] > 0
    assert report["summary"]["grounding"]["elements_known"] in (0.0, 1.0)  # the toy gold has no unified screens: 0
    assert compare(records["mid_trained"], records["base"], "format")["n"] == len(ids["base"])
    written = made["evaluations/unified"].read("records").schema
    assert {c.name: c.type for c in written} == {n: Records.schema.field(n).type for n in written.names}


def test_a_setting_of_one_stage_leaves_the_others_alone() -> None:
    changed = {**CONFIG, "evaluate": {"grounding": 9}}
    same = {s for s in STAGES if stage_config(s, changed) == stage_config(s, CONFIG)}
    assert same == set(CHECKPOINTS)
    own = stage_config("offline_web", {"offline": {"updates": 3, "offline_web": {"updates": 5}, "offline_mobile": {}}})
    offline = nano().version_part()["offline"]
    common = {name: value for name, value in offline.items() if name not in SPECIALISTS}
    pointing = {**common, **offline["offline_grounding"]}
    assert own["offline"] == {**common, "updates": 5}
    assert stage_config("offline_grounding", {"offline": {"updates": 3}})["offline"] == {**pointing, "updates": 3}
    assert stage_config("offline_grounding", {})["offline"] == pointing != common
    assert stage_config("base", {})["preset"] == "nano"


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "nano"])
def test_a_published_presets_settings_lie_between_the_defaults_and_what_is_given(name: str) -> None:
    given = {"midtrain": {"max_steps": 700}, "offline": {"offline_web": {"updates": 9}}}
    mid = stage_settings("mid_trained", given, name).midtrain
    assert (mid.max_steps, mid.learning_rate, mid.packing, mid.gradient_checkpointing) == (700, 1e-5, True, True)
    web = stage_settings("offline_web", given, name).offline.of_domain("web")
    assert (web.updates, web.learning_rate, web.gradient_checkpointing) == (9, 1e-6, True)
    pointing = stage_settings("offline_grounding", given, name).offline.of_domain("grounding")
    assert pointing.updates == PRESETS[name]().offline.updates
    live = stage_settings("online_web", given, name).online.of_run()
    assert (live.mode, live.workers, live.learning_rate, live.reference.episodes) == ("async", 64, 1e-6, 200)
    small = stage_settings("mid_trained", {}, "nano").midtrain
    assert small == stage_settings("mid_trained", {}).midtrain != mid


def test_a_part_that_is_given_in_part_keeps_the_rest_of_it() -> None:
    for stage in ("online_web", "offline_web"):
        kind = stage.partition("_")[0]
        for given in (
            {kind: {"grpo": {"beta": 0.5}}},
            {kind: {stage: {"grpo": {"beta": 0.5}}}},
            {kind: {"grpo": {"beta": 9.0, "epsilon": 0.3}, stage: {"grpo": {"beta": 0.5}}}},
        ):
            found = stage_config(stage, given, "8b")[kind]
            assert found["grpo"].items() >= {"max_completion_length": 512, "beta": 0.5}.items(), given
            assert ("epsilon" in found["grpo"]) == ("epsilon" in str(given))
    small = stage_config("online_web", {"online": {"limits": {"retries": 3}, "reference": {"alpha": 0.3}}})["online"]
    assert small["limits"] == {"step_factor": 1.0, "step_extra": 2, "retries": 3}
    assert small["reference"] == {"episodes": 8, "alpha": 0.3}
    assert stage_config("online_web", {}, "8b")["online"]["limits"] == {}  # the classes' own, not nano's
    with pytest.raises(ValueError, match="trainer: online: expected settings by name, found 5"):
        stage_config("online_web", {"online": 5})
    for bad in ("fast", None):  # of one specialist: what the graph catches too, so that it loads
        with pytest.raises(ValueError, match="trainer: online.online_web: expected settings by name, found"):
            stage_config("online_web", {"online": {"online_web": bad}})


def test_another_preset_than_the_checkpoints_is_refused(store: Store, made: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="preset: expected nano, that of checkpoints/base, found '8b'; make base anew"):
        run_stage("mid_trained", store.home, {**CONFIG, "preset": "8b"}, progress=False)
    _, chosen = opened(store, "mid_trained", {**CONFIG, "preset": "nano"})
    assert chosen == stage_settings("mid_trained", CONFIG)


def test_a_published_presets_pictures_are_those_that_are_asked_for() -> None:
    asked = preset_from(stage_settings("base", {"preset": "8b", "pixels": [900_000, 1_000_000]}))
    assert (asked.min_pixels, asked.max_pixels) == (900_000, 1_000_000)
    for config, told in (
        ({"preset": "8b", "pixels": [2, 1]}, r"expected \[least, largest\]"),
        ({"preset": "nano", "pixels": [1, 2]}, "say shape.pixels"),
        ({"preset": "8b", "shape": {"hidden": 64}}, "shape can't be changed"),
    ):
        with pytest.raises(ValueError, match=told):
            preset_from(stage_settings("base", config))


def test_a_device_that_is_not_here_is_named(
    store: Store, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for stage in ("mid_trained", "offline_grounding", "evaluations/unified"):
        with pytest.raises(ValueError, match="cuda:1 was asked for, and torch .* finds no GPU here"):
            run_stage(stage, store.home, {**CONFIG, "device": "cuda:1"}, progress=False)
    with pytest.raises(ValueError, match="expected cpu, cuda or cuda:<number>, found 'tape'"):
        run_stage("mid_trained", store.home, {**CONFIG, "device": "tape"}, progress=False)


def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        (["base", "--home", str(tmp_path)], "expected a store"),
        (["online_web", "--home", str(store.home)], "task_pool/shards: nothing committed yet"),
        (
            ["base", "--home", str(store.home), "--config", '{"presets": "nano"}'],
            "unknown 'presets'; did you mean preset",
        ),
        (
            ["base", "--home", str(store.home), "--config", '{"preset": "9b"}'],
            "preset: expected nano, 2b, 8b or 30b-a3b, found '9b'",
        ),
        (["base", "--home", str(store.home), "--config", "{"], "--config: expected JSON"),
    ):
        code, told = cli.main(["train", *words]), capsys.readouterr().err
        assert code == 2 and message in told and told.count("\n") == 1, told
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "train", *words],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stderr) == (2, told)  # as a process of its own, too
    with pytest.raises(StoreError, match="nothing committed"):
        run_stage("unified", tmp_path)


def test_replay_gets_as_many_episodes_as_it_has_prompts() -> None:
    rows = [
        {"sample_id": f"{episode}-{step}", "parents": [f"step:toy/{episode}/{step}"]}
        for episode in range(40)
        for step in range(8)
    ]
    chosen = by_cluster(rows, 1000, 0, 12)
    assert len(chosen) == 12 * 8 and len({row["sample_id"].partition("-")[0] for row in chosen}) == 12
    assert by_cluster(rows, 50, 0, 12) == chosen[:48]  # and no more rows than it may have
    assert len(by_cluster(rows, 1000, 0)) == len(rows)
