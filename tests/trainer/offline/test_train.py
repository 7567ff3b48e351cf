"""Offline RL on a tiny model: the gain is real and paired, runs repeat bit for bit, and kill −9 changes nothing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows, scroll_rows
from forked import kill_myself, run_until_killed

from trainer.modeling.checkpoint import load_checkpoint
from trainer.modeling.generation import generate
from trainer.modeling.model import reply_logprobs
from trainer.modeling.sampler import Sampler
from trainer.modeling.tensors import WeightFiles
from trainer.offline.held_out import measure
from trainer.offline.tasks import tasks_of
from trainer.offline.train import train_offline
from trainer.runtime.deterministic import deterministic
from trainer.settings.grpo import GrpoConfig
from trainer.settings.offline import OfflineConfig, SemiOnlineConfig
from trainer.settings.rewards import RewardConfig

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]

CONFIG = OfflineConfig(
    domain="web",
    updates=4,
    prompts=4,
    num_generations=4,
    learning_rate=3e-4,
    warmup_steps=1,
    validation_limit=6,
    validation_samples=1,
    held_out_limit=9,
    held_out_samples=1,
    eval_steps=4,
    patience=3,
    save_steps=2,
    keep="last",
    threads=1,
    grpo=GrpoConfig(max_completion_length=48),
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """A model this small gains nothing from threads, and loses much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def start(habitual: Path) -> Path:
    return habitual


def run(start: Path, out: Path, config: OfflineConfig, **options: Any) -> dict[str, Any]:
    return train_offline(start, scroll_rows(24, 2), scroll_rows(8, 3), out, config, **options).metrics


@pytest.fixture(scope="module")
def trained(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Rows]:
    events: Rows = []
    out = tmp_path_factory.mktemp("web") / "out"
    config = CONFIG.changed(
        updates=12,
        prompts=6,
        num_generations=6,
        eval_steps=12,
        warmup_steps=3,
        keep="peak",
        held_out_limit=24,
        held_out_samples=3,
        validation_limit=6,
        validation_samples=1,
    )
    metrics = run(start, out, config, on_event=events.append)
    return out, metrics, events


class TestTraining:
    def test_the_held_out_reward_rises_outside_its_interval(self, trained: tuple[Path, dict[str, Any], Rows]) -> None:
        _, metrics, _ = trained
        assert metrics["reward_gain"]["low"] > 0, (metrics["before"], metrics["after"], metrics["reward_gain"])
        assert metrics["reward_gain"]["clusters"] == 8
        assert metrics["after"]["reward"] - metrics["before"]["reward"] == pytest.approx(metrics["reward_gain"]["mean"])

    def test_the_checkpoint_loads_and_carries_its_figures(
        self, trained: tuple[Path, dict[str, Any], Rows], start: Path
    ) -> None:
        out, metrics, _ = trained
        loaded = load_checkpoint(out)
        assert loaded.lineage["stage"] == "offline_web" and loaded.lineage["seeds"] == {"offline_rl": 0}
        assert loaded.lineage["parents"] == {"checkpoints/mid_trained": WeightFiles(start).digest()}
        assert {info.dtype for info in WeightFiles(out).tensors.values()} == {"F32"}
        assert json.loads((out / "rl.json").read_text()) == json.loads(json.dumps(metrics))

    def test_the_weight_delta_is_that_of_the_files(
        self, trained: tuple[Path, dict[str, Any], Rows], start: Path
    ) -> None:
        out, metrics, _ = trained
        old, new = WeightFiles(start), WeightFiles(out)
        moved = sum(float((new.read(n) - old.read(n)).double().pow(2).sum()) for n in old.tensors)
        whole = sum(float(old.read(n).double().pow(2).sum()) for n in old.tensors)
        assert metrics["weight_delta"] == pytest.approx((moved / whole) ** 0.5, rel=1e-5)
        assert metrics["weight_delta"] > 0

    def test_events_tell_the_run(self, trained: tuple[Path, dict[str, Any], Rows]) -> None:
        _, metrics, events = trained
        kinds = [event["kind"] for event in events]
        assert kinds[:3] == ["start", "held_out", "look"] and kinds[-2:] == ["held_out", "done"]
        updates = [event for event in events if event["kind"] == "update"]
        assert len(updates) == metrics["updates"]
        share = sum(event["zero_variance"] for event in updates) / sum(event["groups"] for event in updates)
        assert metrics["zero_variance_share"] == pytest.approx(share)
        for event in updates:
            terms = 0.1 * event["rewards/format/mean"] + 0.9 * event["rewards/action/mean"]
            assert event["reward"] == pytest.approx(terms) and event["rewards/action/std"] >= 0
            # a reply that can't be read earns nothing for its action, another 2.5 at most
            assert 0 <= event["rewards/action/mean"] <= 2.5 * (1 - event["unreadable_share"])
        assert any(event["reward_std"] > 0 for event in updates)
        assert [row["rewards/action/mean"] for row in metrics["curve"]] == [e["rewards/action/mean"] for e in updates]
        # on-policy with one iteration: the ratio is 1 up to the float error between cached and whole passes
        assert all(abs(event["ratio"] - 1) < 1e-3 for event in updates if "ratio" in event)

    def test_traces_are_counted_over_whole_episodes(self, trained: tuple[Path, dict[str, Any], Rows]) -> None:
        _, metrics, _ = trained
        assert metrics["before"]["traces"] == metrics["after"]["traces"] == 8
        assert metrics["after"]["trace_success"] <= metrics["after"]["step_success"]


def train_until(start: Path, out: Path, state: Path, update: int) -> None:
    """Train, and die after that update."""

    def event(told: dict[str, Any]) -> None:
        if told["kind"] == "update" and told["update"] == update:
            kill_myself()

    run(start, out, CONFIG, state_dir=state, on_event=event)


class TestRepeatable:
    def test_the_same_seed_gives_the_same_bytes_and_another_does_not(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=2)
        first, second = run(start, tmp_path / "a", config), run(start, tmp_path / "b", config)
        assert first == second
        assert WeightFiles(tmp_path / "a").digest() == WeightFiles(tmp_path / "b").digest()
        run(start, tmp_path / "c", config.changed(seed=1))
        assert WeightFiles(tmp_path / "c").digest() != WeightFiles(tmp_path / "a").digest()

    def test_a_run_killed_with_9_goes_on_to_the_same_bytes(self, start: Path, tmp_path: Path) -> None:
        """Killed after a random update: what follows and the weights are those of an unbroken run."""
        at = random.Random(os.urandom(8)).randint(1, CONFIG.updates)
        saved = (at - 1) // CONFIG.save_steps * CONFIG.save_steps  # an update is saved after its event
        told = f"killed after update {at}"
        whole = run(start, tmp_path / "whole", CONFIG)
        run_until_killed(train_until, start, tmp_path / "out", tmp_path / "state", at)
        assert not (tmp_path / "out" / "lineage.json").exists(), told
        events: list[dict[str, Any]] = []
        resumed = run(start, tmp_path / "out", CONFIG, state_dir=tmp_path / "state", on_event=events.append)
        assert [event["update"] for event in events if event["kind"] == "resumed"] == ([saved] if saved else []), told
        updates = [event["update"] for event in events if event["kind"] == "update"]
        assert updates == list(range(saved + 1, CONFIG.updates + 1)), told
        assert resumed == whole, told
        assert WeightFiles(tmp_path / "out").digest() == WeightFiles(tmp_path / "whole").digest(), told
        assert not list((tmp_path / "state").iterdir()), told

    def test_a_state_of_another_run_is_not_gone_on_from(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=2, save_steps=1)
        state = tmp_path / "state"

        class Stop(Exception):
            pass

        def stop(event: dict[str, Any]) -> None:
            if event["kind"] == "saved":
                raise Stop

        with pytest.raises(Stop):
            run(start, tmp_path / "a", config, state_dir=state, on_event=stop)
        events: list[dict[str, Any]] = []
        run(start, tmp_path / "b", config.changed(seed=5), state_dir=state, on_event=events.append)
        assert "resumed" not in {event["kind"] for event in events}


class TestStopping:
    def test_the_peak_is_that_of_traces_where_there_are_enough(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=1, validation_limit=6, keep="peak", min_traces=4)
        enough = run(start, tmp_path / "a", config, validation_rows=scroll_rows(6, 4))
        assert (enough["peak_criterion"], enough["validation_traces"]) == ("trace_success", 4)
        assert enough["tasks"]["validation"] == 12 and enough["looks"][0]["traces"] == 4
        few = run(start, tmp_path / "b", config, validation_rows=scroll_rows(3, 4))
        assert (few["peak_criterion"], few["validation_traces"], few["tasks"]["validation"]) == ("reward", 2, 6)
        # a look whose traces are as many and whose reward is higher is a peak by either; one with fewer traces by none
        for found, word in ((enough, "trace_success"), (few, "reward")):
            peak = next(look for look in found["looks"] if look["update"] == found["peak_update"])
            assert peak[word] == max(look[word] for look in found["looks"])

    def test_a_ruinous_learning_rate_is_stopped_and_undone(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=20, eval_steps=1, patience=2, learning_rate=3.0, keep="peak")
        metrics = run(start, tmp_path / "out", config)
        assert metrics["stopped_early"] and metrics["peak_update"] == 0 and metrics["updates"] == 2
        assert metrics["weight_delta"] == 0 and metrics["reward_gain"]["mean"] == 0
        for name in WeightFiles(start).tensors:
            assert WeightFiles(start).read(name).equal(WeightFiles(tmp_path / "out").read(name)), name

    def test_groups_without_variance_leave_the_weights_alone(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=2, rewards=RewardConfig(w_format=0.0, w_answer=0.0))
        metrics = run(start, tmp_path / "out", config)
        assert metrics["zero_variance_share"] == 1.0 and metrics["weight_delta"] == 0.0

    def test_options_change_the_outcome(self, start: Path, tmp_path: Path) -> None:
        config = CONFIG.changed(updates=1, num_generations=8, num_iterations=2, validation_limit=3, held_out_limit=3)
        options: dict[str, dict[str, Any]] = {
            "plain": {},
            "beta": {"beta": 0.1},
            "entropy": {"entropy_coef": 0.05},
            "sequence": {"importance_sampling_level": "sequence"},
            "clipped": {"advantage_clip": 0.5},
            "corrected": {"beta": 0.1, "use_bias_correction_kl": True},
        }
        found = {}
        for name, grpo in options.items():
            run(start, tmp_path / name, config.changed(grpo=config.grpo.changed(**grpo)))
            found[name] = WeightFiles(load_checkpoint(tmp_path / name).folder or "").digest()
        assert len(set(found.values())) == len(options), found

    def test_a_controller_weighs_the_kl_term_anew_after_every_update(self, start: Path, tmp_path: Path) -> None:
        named = {"controller": "target_kl", "options": {"target": 1e-9, "gain": 0.5, "error_clip": 1.0}}
        config = CONFIG.changed(updates=3, validation_limit=3, held_out_limit=3)
        grpo = config.grpo.changed(beta=0.1, kl_weight=named)
        curve = run(start, tmp_path / "out", config.changed(grpo=grpo))["curve"]
        weights = [row["kl_weight"] for row in curve if "kl_weight" in row]
        # the first update starts at the reference itself, so that only what follows it lies too far away
        assert weights[0] == 0.1 and weights[-1] > 0.1


@pytest.mark.parametrize("more", [{}, {"grpo": GrpoConfig(max_completion_length=48, beta=0.05, entropy_coef=0.01)}])
def test_the_engine_trl_makes_the_update_of_our_own(start: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    """On the replies that both draw, since they begin with the same weights and seed."""
    made = {}
    for engine in ("own", "trl"):
        config = CONFIG.changed(updates=1, prompts=6, learning_rate=1e-6, engine=engine, **more)
        made[engine] = {k: v for k, v in run(start, tmp_path / engine, config)["curve"][0].items() if k != "kind"}
    assert made["own"]["groups"] > made["own"]["zero_variance"], "some of the groups hold a comparison"
    assert made["trl"] == pytest.approx(made["own"], abs=1e-5, rel=1e-4)
    lineage = json.loads((tmp_path / "trl" / "lineage.json").read_text())
    assert lineage["config"]["engine"] == "trl" and lineage["parents"] == {
        "checkpoints/mid_trained": WeightFiles(start).digest()
    }


def test_small_targets_weigh_more_where_difficulty_counts(start: Path, tmp_path: Path) -> None:
    rows = [row for row in make_rows(48, 2) if row["objective"] == "grounding"]
    for row in rows[::2]:  # half of the targets are as large as the screen
        row["target_boxes"] = [[0.0, 0.0, 1000.0, 1000.0]]
    config = CONFIG.changed(domain="grounding", updates=1, prompts=12, validation_limit=3)
    found = set()
    for difficulty in (0.0, 1.0):
        out = tmp_path / str(difficulty)
        train_offline(start, rows, make_rows(8, 3), out, config.changed(difficulty=difficulty))
        found.add(WeightFiles(out).digest())
    assert len(found) == 2


class TestSemiOnline:
    CONFIG = CONFIG.changed(updates=3, prompts=2, save_steps=1, semi_online=SemiOnlineConfig())

    def test_it_trains_on_rollouts_tells_how_far_they_come_and_goes_on_after_a_stop(
        self, start: Path, tmp_path: Path
    ) -> None:
        events: Rows = []
        whole = run(start, tmp_path / "whole", self.CONFIG, on_event=events.append)
        updates = [event for event in events if event["kind"] == "update"]
        assert [event["groups"] for event in updates] == [2, 2, 2] and whole["weight_delta"] > 0
        assert all(abs(event["ratio"] - 1) < 1e-3 for event in updates if "ratio" in event)
        for when in ("before", "after"):
            found = whole[when]
            assert found["trace_success"] <= found["sop_success"] <= found["sop_progress"] <= 1
            assert found["sop"] == pytest.approx((found["sop_progress"] + found["sop_success"]) / 2)

        class Stop(Exception):
            pass

        def stop(event: dict[str, Any]) -> None:
            if event["kind"] == "saved" and event["update"] == 2:
                raise Stop

        with pytest.raises(Stop):
            run(start, tmp_path / "out", self.CONFIG, state_dir=tmp_path / "state", on_event=stop)
        assert run(start, tmp_path / "out", self.CONFIG, state_dir=tmp_path / "state") == whole
        assert WeightFiles(tmp_path / "out").digest() == WeightFiles(tmp_path / "whole").digest()

    def test_no_whole_episode_is_an_error_that_says_so(self, start: Path, tmp_path: Path) -> None:
        rows = [row for row in scroll_rows(8, 2) if not row["sample_id"].endswith("02")]
        with pytest.raises(ValueError, match="none in"):
            train_offline(start, rows, scroll_rows(4, 3), tmp_path / "out", self.CONFIG)


class TestRefused:
    def test_no_data_is_an_error_that_says_so(self, start: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="mobile: no train task"):
            run(start, tmp_path / "out", CONFIG.changed(domain="mobile"))

    def test_training_never_sees_a_held_out_picture(self, start: Path, tmp_path: Path) -> None:
        rows = scroll_rows(6, 2)
        with pytest.raises(ValueError, match="no train task"):
            train_offline(start, rows, rows, tmp_path / "out", CONFIG.changed(held_out_limit=100))


def test_measuring_is_a_function_of_the_seed(start: Path) -> None:
    loaded = load_checkpoint(start)
    tasks, _ = tasks_of(scroll_rows(4, 3), "web", loaded.processor)
    found = [
        measure(Sampler(loaded.model, loaded.processor), tasks, samples=2, seed=seed, config=RewardConfig())
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] and found[0].sampled != found[2].sampled and found[0].greedy == found[2].greedy


def test_control_tokens_are_never_sampled_however_likely(start: Path) -> None:
    # an image place without a picture can't be laid out, so the policy is the model without it
    loaded = load_checkpoint(start)
    processor, row = loaded.processor, scroll_rows(1, 2)[0]
    assert processor.image_id in processor.never and processor.end_id not in processor.never
    wanted = loaded.model.get_input_embeddings().weight  # tied with the head: a longer row is a larger logit
    with torch.no_grad():
        wanted[processor.never] = 50 * wanted[processor.end_id]
    generator = torch.Generator().manual_seed(0)
    made = generate(loaded.model, processor, [row], group=16, temperature=1.0, max_new_tokens=6, generator=generator)
    assert not {token for reply in made for token in reply.token_ids} & set(processor.never)
    with torch.no_grad():
        batch = processor.reply_batch([row] * len(made), [reply.token_ids for reply in made])
        found = reply_logprobs(loaded.model, batch, never=processor.never)
        unmasked = reply_logprobs(loaded.model, batch)
    recorded = torch.cat([torch.tensor(reply.logprobs) for reply in made])
    torch.testing.assert_close(found.logprobs[found.mask], recorded, rtol=1e-4, atol=1e-4)
    assert torch.isfinite(found.entropy).all() and (unmasked.logprobs[found.mask] < recorded - 1.0).any()


def test_threads_and_kernels_are_given_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(KeyError), deterministic("cpu", before + 1):
        assert torch.get_num_threads() == before + 1 and torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory
        raise KeyError
    assert torch.get_num_threads() == before and not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory
