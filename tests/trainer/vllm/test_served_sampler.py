"""Replies to rows by servers: those of the model's own weights, and whoever draws replies gets them there as well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from drawn import make_rows, scroll_rows
from rollout_servers import FaultyServer, rollout_server
from vllm_engines import moved

from generators.policies.policy import PolicyError
from trainer.distill.train import DomainRows, distill
from trainer.evaluation.evaluate import evaluate
from trainer.merging.merge_choice import choose_ties, validation_tasks
from trainer.modeling.checkpoint import Checkpoint, lineage, load_checkpoint, save_checkpoint
from trainer.modeling.model import reply_logprobs
from trainer.modeling.sampler import Sampler
from trainer.offline.train import train_offline
from trainer.settings.distill import DistillSettings
from trainer.settings.grpo import VllmConfig
from trainer.settings.measuring import EvalConfig, MergeSettings
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


Events = list[dict[str, Any]]


def offline(start: Path, other: Path, replies: dict[str, Any], out: Path) -> tuple[Any, Events]:
    events: Events = []
    config = OfflineConfig.parsed(
        {
            **{"domain": "web", "updates": 2, "prompts": 2, "num_generations": 3, "eval_steps": 2, "threads": 1},
            **{"validation_limit": 2, "validation_samples": 1, "held_out_limit": 2, "held_out_samples": 0},
            **{"learning_rate": 1e-3, "keep": "last", "pass_band": None, **replies},
        }
    )
    found = train_offline(start, scroll_rows(8, 2), scroll_rows(4, 3), out, config, on_event=events.append)
    return found.metrics["before"], events


def distilled(divergence: str) -> User:
    def user(start: Path, other: Path, replies: dict[str, Any], out: Path) -> tuple[Any, Events]:
        events: Events = []
        config = DistillSettings.parsed(
            {
                **{"teachers": {"grounding": None, "mobile": None, "web": "online_web"}, "divergence": divergence},
                **{"updates": 2, "prompts": 2, "eval_steps": 2, "validation_limit": 2, "validation_samples": 0},
                **{"held_out_limit": 2, "held_out_samples": 0, "keep": "last", "threads": 1, **replies},
                "pushes": {"right": 1.0},
            }
        )
        rows: Any = {"web": DomainRows(scroll_rows(8, 2), scroll_rows(4, 3))}
        found = distill(start, {"online_web": other}, rows, out, config, on_event=events.append)
        return found.metrics["domains"]["web"]["before"], events

    return user


def evaluated(start: Path, other: Path, replies: dict[str, Any], out: Path) -> tuple[Any, Events]:
    config = EvalConfig.parsed({"grounding": 3, "navigation": 2, "threads": 1, **replies})
    report = evaluate(load_checkpoint(start), make_rows(8, 4), config, progress=False)
    out.mkdir()
    (out / "report.json").write_text(json.dumps(report))
    return (report["records"], report["summary"]), []


def merged(start: Path, other: Path, replies: dict[str, Any], out: Path) -> tuple[Any, Events]:
    tasks = validation_tasks({"web": scroll_rows(4, 3), "grounding": make_rows(4, 4)}, start, 3)
    settings = MergeSettings.parsed(replies)
    _, tried = choose_ties(start, [other], out, [(0.5, 1.0), (1.0, 0.7)], tasks, replies=settings)
    return tried, []


User = Callable[[Path, Path, dict[str, Any], Path], tuple[Any, Events]]
USERS: dict[str, User] = {
    "offline RL": offline,
    "distillation, sampled": distilled("sampled"),
    "distillation, whole vocabulary": distilled("full"),
    "evaluation": evaluated,
    "choice of a merge": merged,
}
"""Who draws replies to rows: with what replies are set by, what comes of greedy ones, and what is told of updates."""


@pytest.mark.parametrize("user", USERS)
def test_whoever_draws_replies_gets_the_same_from_servers_and_says_how_far_they_are(
    user: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reply is drawn in this process; what is learned from is compared with the learner's own log-probabilities."""
    taught = load_checkpoint(start)
    moved(taught.model, 0.02)
    save_checkpoint(tmp_path / "other", taught.model, taught.processor, lineage("other", taught.processor.preset))
    expected, _ = USERS[user](start, tmp_path / "other", {}, tmp_path / "in process")
    asked: list[int] = []
    generate = FaultyServer.generate
    monkeypatch.setattr(FaultyServer, "generate", lambda *given: (asked.append(1), generate(*given))[1])
    monkeypatch.setattr(Sampler, "draw", lambda *given, **more: pytest.fail("drawn in this process"))
    with rollout_server(start, tmp_path / "weights") as (_, url):
        served = {"rollout_engine": "vllm", "vllm": settings(url, tmp_path / "weights").plain()}
        found, events = USERS[user](start, tmp_path / "other", served, tmp_path / "out")
    assert asked and found == expected
    learned = [event for event in events if event["kind"] == "update" and "grad_norm" in event]
    assert bool(learned) == bool(events)
    assert all(event["sampling_logp_difference_max"] < 1e-4 for event in learned)
    assert not list((tmp_path / "weights").glob("*/*")), "weights are cleared away"
    told = [path for path in (tmp_path / "out").rglob("*.json") if url in path.read_text()]
    assert not told, "where servers stand is no part of what is made"
