"""Several platforms in one run: what each weighs, who takes turns, which rollouts are kept; and a run with them all."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from choice_world import task
from hypothesis import given
from hypothesis import strategies as st
from online_runs import settings, train

from schemas.settings import SettingsError
from trainer.online.platforms import AlternatingBatches, batches_of, most_mixed, platform_advantages
from trainer.online.strata import StratifiedBatches
from trainer.rl.grpo import group_advantages
from trainer.settings.grpo import GrpoConfig

REWARDS = st.none() | st.sampled_from([0.0, 0.3, 0.5, 1.0])
GRPO = GrpoConfig()


class TestWeighting:
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(REWARDS, min_size=1, max_size=4)), min_size=1))
    def test_every_platform_with_a_comparison_has_the_same_share(
        self, groups: list[tuple[str, list[float | None]]]
    ) -> None:
        names, rewards = [name for name, _ in groups], [some for _, some in groups]
        found, pooled = platform_advantages(rewards, names, GRPO), group_advantages(rewards, GRPO)
        assert found.values == pooled.values  # scaled by groups, a platform changes no advantage
        assert (found.groups, found.used) == (pooled.groups, pooled.used)
        weights, share = iter(found.weights), dict.fromkeys(names, 0.0)
        for name, some in groups:
            share[name] += sum(next(weights) for _ in some)
        counted = [one for one in share.values() if one]
        assert counted == pytest.approx([1 / max(1, len(counted))] * len(counted))

    def test_a_batch_is_scaled_by_its_own_platform(self) -> None:
        batch = GrpoConfig(scale_rewards="batch", advantage_epsilon=1e-12)
        found = platform_advantages([[0.0, 10.0], [0.0, 1.0]], ["phone", "web"], batch)
        assert found.values == pytest.approx([-0.70711, 0.70711] * 2, abs=1e-5)


class TestMostMixed:
    @given(st.lists(REWARDS, min_size=1, max_size=7), st.integers(1, 7))
    def test_no_other_choice_differs_more(self, rewards: list[float | None], keep: int) -> None:
        found = most_mixed(rewards, keep)
        assert len(found) == min(keep, len(rewards)) and found == sorted(set(found))
        known = [one for one in rewards if one is not None]
        kept = [one for one in (rewards[at] for at in found) if one is not None]
        assert len(kept) == min(keep, len(known))
        if kept:
            most = max(statistics.pvariance(some) for some in itertools.combinations(known, len(kept)))
            assert statistics.pvariance(kept) == pytest.approx(most)

    def test_one_success_among_failures_is_kept(self) -> None:
        assert most_mixed([0.0, 0.0, 0.0, None, 1.0, 0.0], 2) == [0, 4]


class TestTurns:
    TASKS = [replace(task(1 + place % 3, place), platform="web" if place % 3 else "mobile") for place in range(12)]

    def test_a_platform_goes_on_where_its_turn_ended(self) -> None:
        turns = AlternatingBatches(self.TASKS, (1, 2), 3, phase=2)
        found = [turns.batch(number, 2) for number in range(8)]
        assert [{one.platform for one in some} for some in found] == [{"mobile"}] * 2 + [{"web"}] * 2 + [
            {"mobile"}
        ] * 2 + [{"web"}] * 2
        mobile = StratifiedBatches([one for one in self.TASKS if one.platform == "mobile"], (1, 2), 3)
        own = [found[at] for at in (0, 1, 4, 5)]
        assert own == [mobile.batch(number, 2) for number in range(4)]
        assert turns.sizes == StratifiedBatches(self.TASKS, (1, 2), 3).sizes

    def test_without_a_phase_batches_are_what_they_were(self) -> None:
        usual = settings()
        assert batches_of(self.TASKS, usual).batch(1, 4) == StratifiedBatches(self.TASKS, (1, 2), 0).batch(1, 4)


def test_oversampling_is_refused_where_groups_are_compared_early() -> None:
    with pytest.raises(SettingsError, match=r"expected platforms.oversampling 1 in mode async"):
        settings(mode="async", platforms={"oversampling": 2.0})


@pytest.mark.slow
def test_a_run_reports_its_platforms_and_keeps_as_many_rollouts_as_it_is_told(start: Path, tmp_path: Path) -> None:
    tasks = [replace(task(1 + place % 2, place), platform="web" if place % 2 else "mobile") for place in range(6)]
    platforms = {"weighting": "platform", "oversampling": 2.0, "phase": 1}
    events: list[dict[str, object]] = []
    config = settings(updates=2, eval_steps=0, replay_per_task=0, platforms=platforms)
    found = train(start, tmp_path / "out", config, tasks=tasks, on_event=events.append)
    made = [event["rollouts"] for event in events if event["kind"] == "rollouts"]
    assert made == [2 * 4 * 2] * 2  # two groups of four, twice as many rollouts each
    reported = [{key for key in row if key.startswith("platforms/")} for row in found.metrics["curve"]]
    assert reported == [{f"platforms/{name}/{word}" for word in ("success", "share")} for name in ("mobile", "web")]
