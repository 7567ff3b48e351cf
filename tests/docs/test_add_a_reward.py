"""The reward terms of docs/add-a-reward.md, as they stand there: named in the settings, they count."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainer.online.rewards import RolloutOutcome, trajectory_scores
from trainer.rl.own_terms import MEMBERS
from trainer.rl.rewards import DEFAULT, ReplyTarget, bounds, group_scores
from trainer.settings.tree import TrainerSettings

ROOT = Path(__file__).parents[2]
TRUTH = ReplyTarget("grounding", boxes=((0.0, 0.0, 100.0, 100.0),))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainerSettings:
    page = (ROOT / "docs/add-a-reward.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    _, written = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    (tmp_path / "brevity.py").write_text(code, encoding="utf-8")
    return TrainerSettings.parsed(json.loads(written.replace("brevity.py:", f"{tmp_path}/brevity.py:")), "rewards.json")


def test_members_are_named_without_a_path() -> None:
    page = (ROOT / "docs/add-a-reward.md").read_text(encoding="utf-8")
    written, _ = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    settings = TrainerSettings.parsed(json.loads(written), "rewards.json")
    config = settings.offline.rewards
    assert {*config.reply_terms, *config.group_terms, *settings.online.reward.trajectory_terms} == set(MEMBERS)
    (found,) = group_scores(["[50,50]"], TRUTH, config)
    assert found["total"] == pytest.approx(1.2)  # 0.2 for a distance of 0; no thought, no cost


def test_terms_of_a_reply_and_of_a_group_count_with_their_weights(settings: TrainerSettings) -> None:
    config = settings.offline.rewards
    texts = ["[50,50]", "[50,50]", "well " * 60]
    plain, found = group_scores(texts, TRUTH, DEFAULT), group_scores(texts, TRUTH, config)
    assert [one["short"] for one in found] == [1.0, 1.0, 0.0]  # 60 words are twice the 30 that the page allows
    assert [one["different"] for one in found] == [0.5, 0.5, 1.0]
    more = [one["total"] - before["total"] for one, before in zip(found, plain, strict=True)]
    assert more == pytest.approx([0.1 + 0.025, 0.1 + 0.025, 0.05])
    low, high = bounds("grounding", config)
    assert (low, high) == pytest.approx((0.0, bounds("grounding")[1] + 0.15))


def test_a_term_of_a_trajectory_counts_and_a_lost_one_stays_lost(settings: TrainerSettings) -> None:
    reward = settings.online.reward
    group = [RolloutOutcome(True, 3), RolloutOutcome(None, 0)]
    said = [SimpleNamespace(token_ids=ids) for ids in ((1,), (1,), (2,))]
    rollouts = [SimpleNamespace(samples=said), SimpleNamespace(samples=[])]
    first, lost = trajectory_scores(group, reward, rollouts)
    assert lost is None
    assert first["repeats"] == -0.5
    assert first["total"] == pytest.approx(trajectory_scores(group, reward)[0]["total"] - 0.1)


def test_a_value_out_of_its_range_is_an_error_that_names_the_term(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("def loud(text, truth):\n    return 7\n", encoding="utf-8")
    config = DEFAULT.changed(reply_terms={f"{tmp_path}/loud.py:loud": {"weight": 1}})
    with pytest.raises(ValueError, match=r"loud.py:loud': expected a number in 0..1, found 7"):
        group_scores(["[1,1]"], TRUTH, config)
