"""What the trainer says comes back to the loop: its evaluations as the next round's difficulty, its agent as policy.

    feedback/evaluations   how often the agent does easy, medium and hard tasks
    feedback/policy        the agent that acts where the loop's policy is `checkpoint`

Both are frozen manifests with `inputs`, asset → version (`pipelines.store.frozen`), never edges.
A round pins both when it begins: its catalogue records them, and its later stages read them there.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from generators.generation.round_names import CATALOGUE
from generators.tasks.strata import METHOD_EDGES, STRATA
from generators.tasks.task_sampling import PRIOR, frontier_weight
from pipelines.store import Store
from pipelines.store.files import StoreError
from pipelines.store.frozen import freeze, read_frozen
from pipelines.store.manifest import Manifest
from schemas.ids import digest, split_json_lines

if TYPE_CHECKING:
    from generators.generation.loop import LoopConfig

EVALUATIONS, POLICY = "feedback/evaluations", "feedback/policy"
AGENT, EVALUATION = "checkpoints/unified", "evaluations/unified"
PLAYED = ("suites/*", "leaderboard/results/*/*")
"""Where an agent's attempts are: suites that the graph ran, and those recorded by `vesper eval --record`."""
LEAST_SHARE = 0.1
"""Of a stratum's own share in the mix, however easy or hopeless its tasks are: its record has to stay fresh."""
MIDDLE = tuple(round(n) for n in ((1 + METHOD_EDGES[0]) / 2, (1 + sum(METHOD_EDGES)) / 2, 1.5 * METHOD_EDGES[1]))
"""Steps of a task in the middle of each stratum."""


# --- promoting --------------------------------------------------------------------------------------------------------
def agent_measured(store: Store) -> tuple[Manifest, Manifest] | None:
    """(the current agent, its evaluation), whose checks passed; None while it isn't evaluated as it is now."""
    agent, evaluation = store.current(AGENT), store.current(EVALUATION)
    # An evaluation of an earlier agent says nothing of this one.
    if agent is None or evaluation is None or evaluation.inputs.get(AGENT) != agent.version:
        return None
    return agent, evaluation


def evaluations_mark(store: Store) -> str:
    """Digest that `promote_evaluations` would promote, by data alone; "" while the agent isn't evaluated."""
    return _mark(_used(store))


def _used(store: Store) -> list[Manifest]:
    """The agent's held-out evaluation, then all results of suites of it; empty while it isn't evaluated."""
    found = agent_measured(store)
    return [found[1], *_played(store, found[0])] if found is not None else []


def _mark(used: list[Manifest]) -> str:
    # By data version, so that a rebuilt but equal evaluation steers nothing anew.
    return digest({one.asset: one.data_version for one in used})[:16] if used else ""


def evaluations_now(store: Store) -> dict[str, object] | None:
    """What `promote_evaluations` would promote; None while the agent isn't evaluated."""
    used = _used(store)
    if not used:
        return None
    evaluation, *played = used
    counts: dict[str, Counter[str]] = {name: Counter() for name in STRATA}
    attempts = Counter[str]()
    for result in played:
        # Maximum and not sum (`|`): what both record is the same attempt.
        attempts |= _lines(result)  # the same attempts, by the graph and by command, are known once
    for line, times in attempts.items():
        record = json.loads(line)
        if record.get("success") is not None and record.get("stratum") in counts:
            counts[record["stratum"]]["attempts"] += times
            # Scores from 0.5 on count as done, as suites report them.
            counts[record["stratum"]]["successes"] += times * (record["success"] >= 0.5)
    step = float(evaluation.counts.get("navigation step") or 0.0)
    return {
        "digest": _mark(used),
        "agent": evaluation.inputs[AGENT],
        "step": step,
        "inputs": {one.asset: one.version for one in used},
        "success": {name: round(success(step, name, counts[name]), 4) for name in STRATA},
        "attempts": {name: counts[name]["attempts"] for name in STRATA},
    }


def success(step: float, stratum: str, played: Mapping[str, int]) -> float:
    """How often the agent does a stratum's tasks: what it did when it played some, drawn towards s^n, which n steps in
    a row come to if each is right with the held-out share s (independently, which they aren't: it is a prior of `PRIOR`
    attempts, and all there is until the agent has played)."""
    # s^n with n = steps in the middle of the stratum.
    expected = step ** MIDDLE[STRATA.index(stratum)]
    # A Beta prior of `PRIOR` attempts centred on it.
    return (played.get("successes", 0) + PRIOR * expected) / (played.get("attempts", 0) + PRIOR)


def promote_evaluations(store: Store) -> dict[str, object]:
    """Make the agent's newest evaluations what rounds are steered by. Raises `StoreError` while there are none."""
    found = evaluations_now(store)
    if found is None:
        raise StoreError(f"{EVALUATIONS}: {EVALUATION} of the current {AGENT} is missing; run the job train")
    return freeze(store.home, EVALUATIONS, found)


def policy_now(store: Store) -> dict[str, object] | None:
    """What `promote_policy` would promote: the agent, with the mean of its hits and right steps on held-out data. None
    while it isn't evaluated, or does worse than the one that is promoted."""
    found = agent_measured(store)
    if found is None:
        return None
    agent, evaluation = found
    score = score_of(evaluation)
    before = read_frozen(store.home, POLICY)
    # A worse agent would give worse trajectories; equal scores promote the newer one.
    if before and before["agent"] != agent.data_version and score < before["score"]:
        return None
    return {
        "digest": digest([AGENT, agent.data_version])[:16],
        "agent": agent.data_version,
        "score": score,
        "inputs": {agent.asset: agent.version, evaluation.asset: evaluation.version},
    }


def policy_mark(store: Store) -> str:
    """Digest that `promote_policy` would promote; "" for none."""
    return str((policy_now(store) or {}).get("digest", ""))


def score_of(evaluation: Manifest) -> float:
    """Mean of what the held-out evaluation measured of grounding (hits) and navigation (right steps)."""
    known = [evaluation.counts.get(name) for name in ("grounding hit", "navigation step")]
    values = [float(value) for value in known if value is not None]
    return round(math.fsum(values) / len(values), 6) if values else 0.0


def promote_policy(store: Store) -> dict[str, object]:
    """Make the current agent the loop's policy. Raises `StoreError` if it isn't evaluated, or worse than the last."""
    found = policy_now(store)
    if found is None:
        raise StoreError(f"{POLICY}: the current {AGENT} isn't evaluated yet, or does worse than the promoted one")
    return freeze(store.home, POLICY, found)


def _played(store: Store, agent: Manifest) -> list[Manifest]:
    """Results of suites of this very agent, whose reports name it by stage and lineage."""
    # The name under which `trainer` reports an agent: a suite's result
    # of another lineage isn't about this one.
    name = f"vesper-{AGENT.rpartition('/')[2]}-{digest(json.loads(agent.file('lineage.json').read_text('utf-8')))[:8]}"
    root = store.home / "assets"
    paths = sorted(path for kind in PLAYED for path in root.glob(f"{kind}/current.json"))
    keys = [path.parent.relative_to(root).as_posix() for path in paths]
    found = [manifest for key in keys if (manifest := store.current(key)) is not None]
    return [one for one in found if str(one.counts.get("policy", "")).startswith(name)]


def _lines(result: Manifest) -> Counter[str]:
    """Records of a result, as JSON → how often each is in it."""
    return Counter(split_json_lines(result.file("records.jsonl").read_text(encoding="utf-8")))


# --- steering ---------------------------------------------------------------------------------------------------------
def pins_of(store: Store, round_name: str) -> dict[str, str]:
    """Digests that a round goes by: those that its catalogue recorded, else those promoted now ("" for none)."""
    begun = store.current(f"{CATALOGUE}/{round_name}")
    # A round that has begun keeps its pins, whatever was promoted meanwhile.
    if begun is not None:
        return {name: str(begun.counts.get(name, "")) for name in (EVALUATIONS, POLICY)}
    return {name: str(read_frozen(store.home, name).get("digest", "")) for name in (EVALUATIONS, POLICY)}


def steered(store: Store, config: LoopConfig, round_name: str) -> LoopConfig:
    """The loop's settings for a round: its shares moved to where the agent learns most, and what they were moved by."""
    pins = pins_of(store, round_name)
    if pins[EVALUATIONS]:
        found = read_frozen(store.home, EVALUATIONS, pins[EVALUATIONS])
        config = replace(config, mix=mix_for(config.mix, found["success"]), evaluations=pins[EVALUATIONS])
    return config


def with_agent(store: Store, config: LoopConfig, round_name: str) -> LoopConfig:
    """The loop's settings for a round, with the digest of the agent that acts in it, where the policy is one."""
    return replace(config, agent=pins_of(store, round_name)[POLICY]) if config.policy == "checkpoint" else config


def mix_for(mix: tuple[float, float, float], rates: Mapping[str, float]) -> tuple[float, float, float]:
    """Shares of the strata: each share of `mix` times the `frontier_weight` of the agent's success there; none below
    `LEAST_SHARE` of its own; sum 1."""
    # Greatest weight near a success of one half: tasks that always or never succeed teach least.
    weights = [share * frontier_weight(rates[name]) for name, share in zip(STRATA, mix, strict=True)]
    whole = math.fsum(weights) or 1.0
    # The floor is part of the raised weights, which are then made to sum to 1 again.
    raised = [max(weight / whole, LEAST_SHARE * share) for weight, share in zip(weights, mix, strict=True)]
    easy, medium, hard = (round(value / math.fsum(raised), 4) for value in raised)
    # The easy share takes what rounding left, so that the three sum to exactly 1.
    return round(1 - medium - hard, 4) if easy else 0.0, medium, hard


def policy_folder(store: Store, chosen: str) -> tuple[Manifest, str]:
    """(the promoted agent's checkpoint, its folder). Raises `StoreError` if nothing was promoted."""
    if not chosen:
        raise StoreError(f"{POLICY}: nothing is promoted yet; evaluate {AGENT}, or use another policy")
    # By the digest that was pinned: the agent that is promoted today may be another.
    agent = store.version(AGENT, read_frozen(store.home, POLICY, chosen)["inputs"][AGENT])
    return agent, str(agent.file("config.json").parent)
