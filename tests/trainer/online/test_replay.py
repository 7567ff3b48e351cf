"""Success replay: who stands in for whom, and that the buffer comes back from JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from trainer.online.replay import ReplayBuffer
from trainer.online.rollouts import ReplySample, Rollout


def rollout(key: str, success: bool | None, task_id: str = "t", **values: Any) -> Rollout:
    sample = ReplySample("[]", b"\x89PNG\x00", "web", (5, 6), (-0.5, -1e-9), 3)
    return Rollout(key, task_id, (sample,), success, 1, 0, "finished", **values)


def test_a_group_without_a_live_success_gets_a_past_one() -> None:
    buffer = ReplayBuffer(2)
    failed = [rollout("a", False), rollout("b", False), rollout("c", None)]
    assert buffer.fill(failed, "s") == failed
    buffer.add([rollout("x", True), rollout("y", False), rollout("z", True, task_id="other")])
    filled = buffer.fill(failed, "s")
    assert [one.key for one in filled] == ["a", "x", "c"]  # the last live one gave way, the lost one stays lost
    assert [one.replayed for one in filled] == [False, True, False]
    assert filled[1].samples == rollout("x", True).samples  # its log-probabilities are the behaviour's
    live = [rollout("a", False), rollout("b", True)]
    assert buffer.fill(live, "s") == live
    lost = [rollout("a", None), rollout("b", None)]
    assert buffer.fill(lost, "s") == lost


def test_only_the_last_live_successes_are_kept() -> None:
    buffer = ReplayBuffer(2)
    buffer.add([rollout(name, True) for name in "abc"])
    buffer.add([rollout("d", True, replayed=True)])
    assert len(buffer) == 2
    drawn = {buffer.fill([rollout("f", False)], str(seed))[0].key for seed in range(20)}
    assert drawn == {"b", "c"}
    again = ReplayBuffer(2)
    again.load(json.loads(json.dumps(buffer.to_plain())))
    assert again.to_plain() == buffer.to_plain() and again.fill([rollout("f", False)], "1") == buffer.fill(
        [rollout("f", False)], "1"
    )
    again.add([replace(rollout("used", True), samples=())])  # nothing could be learned from it
    assert again.to_plain() == buffer.to_plain()
    nothing = ReplayBuffer(0)
    nothing.add([rollout("a", True)])
    assert len(nothing) == 0
