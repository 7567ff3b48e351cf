"""Replies to rows by servers: those of the model's own weights, and an offline run whose replies all come from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import scroll_rows
from rollout_servers import FaultyServer, rollout_server
from vllm_engines import moved

from generators.policies.policy import PolicyError
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.model import reply_logprobs
from trainer.modeling.sampler import Sampler
from trainer.offline.train import train_offline
from trainer.settings.grpo import VllmConfig
from trainer.settings.offline import OfflineConfig
from trainer.vllm.sampler import ServedSampler


def settings(url: str, root: Path, **more: Any) -> VllmConfig:
    return VllmConfig(endpoints=(url,), weights_dir=str(root), logprob_tolerance=1e-3, **more)


def gap(loaded: Checkpoint, rows: list[dict[str, Any]], replies: list[Any]) -> float:
    """Nats between what replies were recorded with and the learner's own pass over their tokens, at most."""
    batch = loaded.processor.reply_batch([rows[one.row] for one in replies], [one.token_ids for one in replies])
    with torch.no_grad():
        found = reply_logprobs(loaded.model, batch, never=loaded.processor.never).logprobs
    return max(
        float((torch.tensor(one.logprobs) - own[: len(one.logprobs)]).abs().max())
        for one, own in zip(replies, found, strict=True)
    )


def test_replies_are_drawn_from_the_weights_that_the_model_has(loaded: Checkpoint, tmp_path: Path) -> None:
    assert loaded.folder is not None
    rows = scroll_rows(3, 1)[:3]
    own = Sampler(loaded.model, loaded.processor)
    with (
        rollout_server(loaded.folder, tmp_path) as (server, url),
        ServedSampler(loaded.model, loaded.processor, settings(url, tmp_path), "run") as served,
    ):
        replies = served.draw(rows, group=2, temperature=1.0, max_new_tokens=9, generator=served.seeded(5))
        assert [(one.row, one.member) for one in replies] == [(row, member) for row in range(3) for member in range(2)]
        assert gap(loaded, rows, replies) < 1e-4
        same = served.draw(rows, group=2, temperature=1.0, max_new_tokens=9, generator=served.seeded(5))
        other = served.draw(rows, group=2, temperature=1.0, max_new_tokens=9, generator=served.seeded(6))
        assert [one.token_ids for one in same] == [one.token_ids for one in replies] != [one.token_ids for one in other]
        assert [one.text for one in served.draw(rows, max_new_tokens=9)] == [
            one.text for one in own.draw(rows, max_new_tokens=9)
        ]
        moved(loaded.model, 0.05)
        stale = served.draw(rows, temperature=1.0, generator=served.seeded(5), max_new_tokens=9)
        served.renew(1)
        new = served.draw(rows, temperature=1.0, generator=served.seeded(5), max_new_tokens=9)
        assert gap(loaded, rows, new) < 1e-4 < gap(loaded, rows, stale)
        server.fails = 99
        served._engine.settings = settings(url, tmp_path, wait_s=0.2)
        with pytest.raises(PolicyError):
            served.draw(rows, max_new_tokens=9)
        with pytest.raises(ValueError, match="windows are ranked in process"):
            served.draw(rows, max_new_tokens=9, decided=True)


def test_an_offline_run_learns_from_replies_of_servers_and_says_how_far_they_are(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reply is drawn in this process, and the run is the one that it would have been: the same tasks and figures."""
    asked: list[int] = []
    events: list[dict[str, Any]] = []
    generate = FaultyServer.generate
    monkeypatch.setattr(FaultyServer, "generate", lambda *given: (asked.append(1), generate(*given))[1])
    monkeypatch.setattr(Sampler, "draw", lambda *given, **more: pytest.fail("drawn in this process"))
    with rollout_server(start, tmp_path / "weights") as (_, url):
        config = OfflineConfig.parsed(
            {
                **{"domain": "web", "updates": 2, "prompts": 2, "num_generations": 3, "eval_steps": 2, "threads": 1},
                **{"validation_limit": 2, "validation_samples": 1, "held_out_limit": 2, "held_out_samples": 1},
                **{"learning_rate": 1e-3, "rollout_engine": "vllm", "keep": "last"},
                "pass_band": None,
                "vllm": settings(url, tmp_path / "weights").plain(),
            }
        )
        rows, held_out = scroll_rows(8, 2), scroll_rows(4, 3)
        found = train_offline(start, rows, held_out, tmp_path / "out", config, on_event=events.append)
    updates = [event for event in events if event["kind"] == "update"]
    assert len(updates) == 2 and len(asked) > 2 * 2 * 3
    compared = [event for event in updates if "sampling_logp_difference_mean" in event]
    assert compared and all(event["sampling_logp_difference_max"] < 1e-4 for event in compared)
    assert found.metrics["weight_delta"] and url not in (tmp_path / "out" / "lineage.json").read_text()
    assert not list((tmp_path / "weights").glob("*/*")), "weights are cleared away"
