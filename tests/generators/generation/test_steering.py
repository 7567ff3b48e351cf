"""What the trainer measured moves the next round's difficulty; its agent becomes the policy. A round keeps its pins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.generation import rounds, steering
from generators.generation.loop import LoopConfig
from generators.generation.round_names import BANK, CATALOGUE
from generators.generation.rounds import build_bank, build_catalogue
from generators.generation.steering import AGENT, EVALUATION, EVALUATIONS, POLICY, mix_for, steered
from generators.tasks.strata import STRATA
from pipelines.store import Check, PartSpec, PartWriter, Store
from pipelines.store.files import StoreError
from pipelines.store.frozen import read_frozen
from pipelines.store.manifest import Manifest
from schemas.ids import digest

CONFIG = LoopConfig(targets=2, tasks=6)


def _commit(
    store: Store, asset: str, files: dict[str, str], inputs: dict[str, str], counts: dict[str, Any]
) -> Manifest:
    def write(out: PartWriter) -> None:
        for name, text in files.items():
            out.bytes(name, text.encode())

    spec = PartSpec("a", digest([files, counts]))
    with store.build(asset, code_version="1", inputs=inputs, parts=[spec]) as build:
        build.run_part(spec, write)
        return build.commit(counts=counts, checks=[Check("there", True, "1", "1")])


def agent(store: Store, name: str, step: float, hit: float = 0.5) -> Manifest:
    """An agent with its evaluation."""
    lineage = {"stage": "unified", "name": name}
    made = _commit(store, AGENT, {"lineage.json": json.dumps(lineage), "config.json": name}, {}, {})
    counts = {"navigation step": step, "grounding hit": hit}
    _commit(store, EVALUATION, {"evaluation.json": json.dumps([name, step])}, {AGENT: made.version}, counts)
    return made


def played(store: Store, name: str, outcomes: dict[str, tuple[int, int]], suite: str = "fsm") -> None:
    """Recorded attempts of that agent: stratum → (successes, attempts)."""
    policy = f"vesper-unified-{digest({'stage': 'unified', 'name': name})[:8]}-0a0a0a0a"
    records = [
        {"stratum": stratum, "success": float(number < good)}
        for stratum, (good, whole) in outcomes.items()
        for number in range(whole)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in [*records, {"stratum": "easy", "success": None}])
    _commit(store, f"leaderboard/results/{suite}/{name}", {"records.jsonl": lines}, {}, {"policy": policy})


def test_nothing_is_promoted_before_the_agent_is_evaluated(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert steering.evaluations_mark(store) == steering.policy_mark(store) == ""
    for promote in (steering.promote_evaluations, steering.promote_policy):
        with pytest.raises(StoreError, match="evaluat"):
            promote(store)
    agent(store, "a", 0.9)
    _commit(store, AGENT, {"lineage.json": "{}", "config.json": "newer"}, {}, {})
    assert steering.evaluations_mark(store) == "", "it speaks of another agent"


def test_success_is_what_was_played_else_what_steps_come_to(tmp_path: Path) -> None:
    store = Store(tmp_path)
    agent(store, "a", 0.9)
    first = steering.promote_evaluations(store)
    assert first["success"] == {"easy": round(0.9**6, 4), "medium": round(0.9**16, 4), "hard": round(0.9**30, 4)}
    assert first["inputs"] == {EVALUATION: store.require(EVALUATION).version}
    played(store, "a", {"hard": (9, 10), "easy": (0, 2)})
    played(store, "other", {"medium": (50, 50)})
    assert steering.evaluations_mark(store) != first["digest"]
    second = steering.promote_evaluations(store)
    assert second["attempts"] == {"easy": 2, "medium": 0, "hard": 10}, "another agent's results say nothing of this one"
    assert second["success"]["hard"] == pytest.approx((9 + 2 * 0.9**30) / 12, abs=1e-4)
    assert second["success"]["medium"] == first["success"]["medium"]
    assert steering.promote_evaluations(store) == second == read_frozen(store.home, EVALUATIONS)
    assert read_frozen(store.home, EVALUATIONS, first["digest"]) == first
    for bad in ("nope", "../../x"):
        with pytest.raises(StoreError, match="nothing was promoted as"):
            read_frozen(store.home, EVALUATIONS, bad)


def test_what_the_graph_played_counts_like_what_was_recorded_and_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    agent(store, "a", 0.9)
    lineage = digest({"stage": "unified", "name": "a"})[:8]

    def put(asset: str, tasks: Sequence[int], policy: str = f"vesper-unified-{lineage}") -> None:
        lines = "".join(json.dumps({"task_id": task, "stratum": "easy", "success": 1.0}) + "\n" for task in tasks)
        _commit(store, asset, {"records.jsonl": lines}, {}, {"policy": policy})

    put("suites/fsm", [1, 2, 3])
    put("suites/phone", [7], "vesper-unified-ffffffff")
    assert steering.promote_evaluations(store)["attempts"]["easy"] == 3
    put("leaderboard/results/fsm/a", [2, 3, 4])
    made = steering.promote_evaluations(store)
    assert made["attempts"]["easy"] == 4 and {"suites/fsm", "leaderboard/results/fsm/a"} <= set(made["inputs"])


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_a_steered_mix_is_a_mix(shares: list[float], rates: list[float]) -> None:
    easy, medium, hard = (share / sum(shares) for share in shares)
    mix = mix_for((easy, medium, hard), dict(zip(STRATA, rates, strict=True)))
    assert sum(mix) == pytest.approx(1, abs=1e-3) and min(mix) >= 0
    replace(CONFIG, mix=mix)  # accepted


def test_tasks_go_where_the_agent_learns_most() -> None:
    mix = CONFIG.mix
    assert mix_for(mix, dict.fromkeys(STRATA, 0.3)) == pytest.approx(mix, abs=1e-3), "all alike: nothing moves"
    weak, strong = ({"easy": 0.5, "medium": 0.05, "hard": 0.0}, {"easy": 1.0, "medium": 0.9, "hard": 0.5})
    assert mix_for(mix, weak)[0] > 0.85 and mix_for(mix, strong)[2] > 0.6
    assert min(mix_for(mix, weak)) > 0


class AnyEmbedder:
    """Texts → vectors that differ where the texts do; how alike tasks are isn't asked here."""

    identity = model = "toy"

    def __init__(self, *_: object, **__: object) -> None: ...

    def unknown_share(self, text: str) -> float:
        return 0.0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = [np.random.default_rng(int(digest(text)[:8], 16)).normal(size=64) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)


def test_a_round_keeps_what_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real catalogues and banks of two rounds; what is promoted in between is the second's."""
    monkeypatch.setattr(rounds, "Embedder", AnyEmbedder)
    store = Store(tmp_path)
    assert steered(store, CONFIG, "round_001") == CONFIG, "nothing promoted: nothing steered"
    agent(store, "weak", 0.85)
    weak = steering.promote_evaluations(store)

    def bank(number: int) -> Manifest:
        name = f"round_{number:03d}"
        build_catalogue(store, number, steered(store, CONFIG, name))
        return build_bank(store, number, steered(store, CONFIG, name))

    first = bank(1)
    pinned = steered(store, CONFIG, "round_001")
    assert first.counts["easy"] == pinned.quotas["easy"] > CONFIG.quotas["easy"]
    assert first.counts[EVALUATIONS] == store.require(f"{CATALOGUE}/round_001").counts[EVALUATIONS] == weak["digest"]
    assert first.inputs[EVALUATION] == weak["inputs"][EVALUATION], "lineage sees through the loop"
    agent(store, "strong", 0.975)
    strong = steering.promote_evaluations(store)
    assert steered(store, CONFIG, "round_001") == pinned
    assert bank(1).version == first.version
    second = steered(store, CONFIG, "round_002")
    assert second.evaluations == strong["digest"] and second.mix[2] > CONFIG.mix[2] > pinned.mix[2]


def test_an_unsteered_loop_is_hashed_as_before() -> None:
    assert not {"evaluations", "agent"} & set(CONFIG.plain)
    assert replace(CONFIG, agent="a1").plain["agent"] == "a1"
    assert BANK == "generation/task_bank"


def test_an_agent_that_does_worse_isn_t_promoted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = agent(store, "a", 0.5)
    made = steering.promote_policy(store)
    assert made["score"] == 0.5 and made["inputs"][AGENT] == first.version
    agent(store, "worse", 0.4)
    assert steering.policy_mark(store) == ""
    with pytest.raises(StoreError, match="does worse"):
        steering.promote_policy(store)
    config = replace(CONFIG, policy="checkpoint")
    assert steering.with_agent(store, config, "round_001").agent == made["digest"]
    found, folder = steering.policy_folder(store, made["digest"])
    assert found.version == first.version and (Path(folder) / "config.json").read_text() == "a"
    better = agent(store, "better", 0.6)
    assert steering.promote_policy(store)["inputs"][AGENT] == better.version
    with pytest.raises(StoreError, match="nothing is promoted"):
        steering.policy_folder(store, "")
    assert read_frozen(store.home, POLICY)["score"] == 0.55
