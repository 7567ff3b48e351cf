"""What samples of judged runs say (Step-GUI), against the states that the sites really were in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, share
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.annotators import WorldRule
from generators.generation.judged_runs import run_verdict
from generators.generation.tables import trajectory_tables
from generators.generation.verify import Verifier
from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.policies.policy_maker import PolicyMaker
from generators.policies.scripted_agent import ScriptedAgent, scripted_name
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.fsm.evaluate import holds
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from pipelines.derivers.trajectories import TrajectorySamples, derive_trajectories, judged_trajectories
from pipelines.prompts import prompt_text
from pipelines.store import Store
from schemas.actions import parse, parse_reply
from tests.support.executing import contract_of, pool

KINDS, TASKS, ERRORS = ("shop", "survey", "forum"), 6, 0.12
LEAST_TRUE, MOST_CALLS = 0.95, 0.1


class Replayed:
    """A run carried out again: for each step the texts that the site's spec shows on the page, and its state."""

    def __init__(self, contract: TaskSpec, actions: list[str | None]) -> None:
        world = InterpretedWorld(make_site)
        world.reset(contract.initial_state)
        self.names: list[set[str]] = []
        self.states: list[dict[str, Any]] = []
        self.values: list[set[str]] = []
        for text in actions:
            moment, machine = world.moment, world.machine
            self.names.append({machine.text(moment.values, e.text) for e in machine.visible(moment)})
            details = {machine.text(moment.values, f"{e.text} {e.detail}") for e in machine.visible(moment)}
            held = {str(value) for value in moment.values}
            self.values.append({word.strip() for word in details | held | {"✓", "●"}} | {"•" * len(v) for v in held})
            self.states.append(world.state())
            if text is not None:
                world.act(parse(text))
        self.rule = contract.evaluator

    def true(self, row: dict[str, Any], said: dict[str, Any]) -> bool:
        """Whether what a sample says holds in these states."""
        at, answer = said["step"], row["answer"]
        if said["kind"] == "progress":
            return holds(self.states[at], self.rule) == (answer == "yes")
        if said["kind"] == "check":
            name = prompt_text(row["messages"]).rpartition('Is "')[2].removesuffix('" on the second screen?')
            return (name in self.names[at]) == (answer == "yes")
        if said["kind"] == "state":
            return answer in self.values[at]
        came = [name.strip('"') for name in answer.split('", "')]
        return all(name in self.names[at + 1] - self.names[at] for name in came)


@dataclass
class JudgedSites:
    """`runs` and their `steps`, the ids of those that `failed`; what was `made` of them; by kind how many answers there
    are and how many are true; `taught`: actions that samples of failures teach."""

    runs: int
    steps: int
    failed: set[str]
    made: TrajectorySamples
    taught: int = 0
    whole: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)


def judged_sites(folder: Path, seeds: int) -> JudgedSites:
    """Noisy scripted runs on so many sites of each kind, judged once each, with what `step_data` makes of them."""
    store = Store(folder / "home")
    sites = [make_site(kind, seed) for kind in KINDS for seed in range(seeds)]
    contracts = [contract_of(task) for site in sites for task in TaskMaker(site).tasks(TASKS)]

    def noisy(contract: TaskSpec, world: World) -> ScriptedAgent:
        return ScriptedAgent(FsmOracle(), contract, world.state, error_rate=ERRORS)

    with Journal(folder / "journal") as journal:
        done = run_all(contracts, pool(), PolicyMaker(scripted_name(ERRORS), noisy), journal, store=store)
    tables = trajectory_tables(done, [Verifier([WorldRule()]).verify(one) for one in done], store)
    verdicts = {row["trajectory_id"]: run_verdict(row) for row in tables["trajectories"].to_pylist()}
    known = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    runs = list(judged_trajectories(tables["steps"], tables["screens"], known))
    made = derive_trajectories(runs, ["step_data"], licence="MIT", synthetic=True)
    acts = {run.steps[0]["episode_id"]: [row["action_text"] for row in run.steps] for run in runs}
    replays = {one.trajectory_id: Replayed(one.contract, acts[one.trajectory_id]) for one in done}
    failed = {name for name, verdict in known.items() if verdict.decision == "failure"}
    found = JudgedSites(len(done), len(tables["steps"]), failed, made)
    for row in [*made.corpus.to_pylist(), *made.judges.to_pylist()]:
        said = json.loads(row["provenance"])
        found.taught += said["episode"] in failed and parse_reply(row["answer"]).action is not None
        if said["kind"] not in ("action", "intent"):
            found.whole[said["kind"]] += 1
            found.right[said["kind"]] += replays[said["episode"]].true(row, said)
    return found


def step_data_figures(folder: Path, seeds: int = 17) -> Iterator[Figure]:
    """Statements by kind that are true, what failures teach, and how many answers one verdict gives."""
    found = judged_sites(folder, seeds)
    said = f"{found.runs} runs, {len(found.failed)} failed"
    for kind, whole in sorted(found.whole.items()):
        yield share(f"step data, true: {kind}", found.right[kind], whole, LEAST_TRUE)
    yield Figure("step data: actions of failures", found.taught, said, most=0)
    answers = sum(found.whole.values())
    yield Figure("step data: judge calls an answer", found.runs / answers, f"{answers} answers", most=MOST_CALLS)
    yield Figure("step data: judge calls a step", found.runs / found.steps, f"{found.steps} steps, {said}")
