"""Care episodes as native data: scripted careful runs of care cases, in the form that the source `care_episodes` reads.

Each gives what an agent should learn: before the step that does harm a question that says what is at stake; after a yes
the step itself; after a no another way, or the end; and on a twin the step without a question.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generators.policies.care_agents import CareAgent
from generators.policies.episode import run_episode
from generators.policies.policy import Decision, PolicyView
from generators.worlds.care.care_case import CareCase
from generators.worlds.care.care_cases import FAMILIES, cases
from generators.worlds.care.care_world import CareWorld, open_care
from generators.worlds.evaluators import holds
from pipelines.whole_files import whole_file
from schemas.actions import format

MOST_STEPS = 40
LARGEST_SEED = 10_000_000
"""Seeds from here on belong to the suite `care`, which measures."""


@dataclass(frozen=True)
class CareHarvest:
    """What was written: episodes, their actions, and those that failed and are quarantined when they are unified."""

    episodes: int
    actions: int
    failed: int


class RecordedAgent:
    """An agent for care cases whose views and decisions are kept."""

    needs_tree = True

    def __init__(self, agent: CareAgent) -> None:
        self.agent, self.name = agent, agent.name
        self.turns: list[tuple[PolicyView, Decision]] = []

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.turns = []
        self.agent.begin(goal, platform, seed)

    def decide(self, view: PolicyView) -> Decision:
        decision = self.agent.decide(view)
        self.turns.append((view, decision))
        return decision


def harvest_care(out: Path, seeds: int, first_seed: int = 0, say: Callable[[str], None] = print) -> CareHarvest:
    """Play every family on `seeds` seeds in Chromium and write `episodes.jsonl` and `images/` into a new folder.

    Raises `ValueError` for seeds that the suite measures on, `FileExistsError` for a folder that holds something,
    `BrowserMissing` without a Chromium."""
    # The suite's seeds measure, so nothing may be learned from them.
    if not 0 <= first_seed <= first_seed + seeds <= LARGEST_SEED or seeds < 1:
        raise ValueError(f"harvest care: expected 1 or more seeds below {LARGEST_SEED}, found {first_seed} + {seeds}")
    if out.is_dir() and any(out.iterdir()):
        raise FileExistsError(f"{out}: expected a new or empty folder")
    (out / "images").mkdir(parents=True, exist_ok=True)
    lines = []
    for surface in ("phone", "web"):
        with open_care(surface) as world:  # type: ignore[arg-type]
            # Families of the surface that is open; each surface has its own browser.
            for case in cases(first_seed, seeds, [name for name in FAMILIES if name.startswith(surface)]):
                lines.append(_episode(world, case, out))
                say(f"{lines[-1]['id']}: {len(lines[-1]['steps'])} actions")
    # All at once at the end: a harvest that was interrupted leaves no half file of episodes.
    _write(out / "episodes.jsonl", "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in lines).encode())
    # Failed ones are written too: the source puts them aside with a reason.
    good = [one for one in lines if one["success"] and not one["harm"]]
    return CareHarvest(len(good), sum(len(one["steps"]) for one in good), len(lines) - len(good))


def _episode(world: CareWorld, case: CareCase, out: Path) -> dict[str, Any]:
    contract = case.contract()
    recorded = RecordedAgent(CareAgent("careful", contract, world))
    done = run_episode(world, recorded, case.goal, contract.initial_state, max_steps=MOST_STEPS)
    return {
        "id": f"{case.family}-{case.seed}-{case.variant}",
        "goal": case.goal,
        "platform": contract.platform,
        "language": case.language,
        "app": contract.target,
        "variant": case.variant,
        "success": holds(contract.evaluator, done.end_state) and done.ended == "finished",
        "harm": done.end_state["care"]["harm"],
        "steps": list(_steps(recorded, out)),
    }


def _steps(recorded: RecordedAgent, out: Path) -> Iterator[dict[str, Any]]:
    for view, decision in recorded.turns:
        assert decision.action is not None
        name = f"images/{hashlib.sha256(view.png).hexdigest()}.png"
        # Named by content: a screen that many episodes show is stored once.
        if not (out / name).exists():
            _write(out / name, view.png)
        yield {
            "goal": view.goal,
            "screenshot": name,
            "size_px": list(view.size_px),
            "elements": [one.as_element() for one in view.elements],
            "action": format(decision.action),
            "conclusion": decision.conclusion,
        }


def _write(path: Path, data: bytes) -> None:
    with whole_file(path) as part:
        part.write_bytes(data)
