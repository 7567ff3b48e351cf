"""What derivers say of scripted runs, many of which fail, against the states that the sites really were in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from executing import contract_of, pool

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
from pipelines.derivers.trajectories import derive_trajectories, judged_trajectories
from pipelines.prompts import prompt_text
from pipelines.store import Store
from schemas.actions import parse, parse_reply

KINDS, SEEDS, TASKS, ERRORS = ("shop", "survey", "forum"), 5, 6, 0.12


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


def test_what_is_said_of_runs_is_true_and_no_failure_teaches_an_action(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    sites = [make_site(kind, seed) for kind in KINDS for seed in range(SEEDS)]
    contracts = [contract_of(task) for site in sites for task in TaskMaker(site).tasks(TASKS)]

    def noisy(contract: TaskSpec, world: World) -> ScriptedAgent:
        return ScriptedAgent(FsmOracle(), contract, world.state, error_rate=ERRORS)

    scripted = PolicyMaker(scripted_name(ERRORS), noisy)
    with Journal(tmp_path / "journal") as journal:
        done = run_all(contracts, pool(), scripted, journal, store=store)
    tables = trajectory_tables(done, [Verifier([WorldRule()]).verify(one) for one in done], store)
    verdicts = {row["trajectory_id"]: run_verdict(row) for row in tables["trajectories"].to_pylist()}
    known = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    failed = {name for name, verdict in known.items() if verdict.decision == "failure"}
    assert 0.2 * len(done) < len(failed) < 0.8 * len(done)

    runs = list(judged_trajectories(tables["steps"], tables["screens"], known))
    made = derive_trajectories(runs, ["step_data"], licence="MIT", synthetic=True)
    assert not made.refused and min(made.kinds.values()) > 20, made.kinds
    acts = {run.steps[0]["episode_id"]: [row["action_text"] for row in run.steps] for run in runs}
    replays = {one.trajectory_id: Replayed(one.contract, acts[one.trajectory_id]) for one in done}
    right: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for row in [*made.corpus.to_pylist(), *made.judges.to_pylist()]:
        said = json.loads(row["provenance"])
        assert not (said["episode"] in failed and parse_reply(row["answer"]).action is not None)
        if said["kind"] not in ("action", "intent"):
            whole[said["kind"]] += 1
            right[said["kind"]] += replays[said["episode"]].true(row, said)
    assert all(right[kind] >= 0.95 * whole[kind] for kind in whole), (right, whole)
    assert failed & {json.loads(text)["episode"] for text in made.corpus["provenance"].to_pylist()}
