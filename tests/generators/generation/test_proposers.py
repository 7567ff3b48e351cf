"""Catalogue, bank and proposers: what was learned steers what is proposed, and nothing is proposed twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from fsm_walks import walk
from openai_server import OpenAIServer

from generators.generation.proposing.catalogue import Catalogue, TaskOutcome
from generators.generation.proposing.openai_proposer import OpenAIProposer
from generators.generation.proposing.proposers import arms
from generators.generation.proposing.task_bank import Proposed, TaskBank, gate, propose, shares
from generators.generation.task_worlds.registry import open_task_world
from generators.generation.task_worlds.task_world import Idea, Name, TaskWorld
from generators.tasks.task_spec import VOTES, TaskSpec
from generators.worlds.evaluators import holds
from quality.evidence.embedding import EMBEDDED, Embedder
from quality.model_client.client import ModelClient, Retry
from tests.support.scripted_judge import Question, ScriptedJudge

pytestmark = pytest.mark.slow

QUOTAS = {"easy": 8, "medium": 3, "hard": 1}


@pytest.fixture(scope="module")
def task_world() -> TaskWorld:
    return open_task_world("fsm", 3)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(EMBEDDED)


def learned(task_world: TaskWorld, proposed: Proposed, catalogue: Catalogue | None = None) -> tuple[Catalogue, float]:
    """What a round of walks teaches, and its yield."""
    catalogue = catalogue or Catalogue()
    runs = [walk(proposal.contract, seed=n) for n, proposal in enumerate(proposed.proposals)]
    catalogue.see(runs)
    done = [holds(run.contract.evaluator, run.end_state) for run in runs]
    catalogue.learn(
        [
            TaskOutcome(p.contract.target, p.ideas, p.arm, ok, "no way to it")
            for p, ok in zip(proposed.proposals, done, strict=True)
        ]
    )
    return catalogue, sum(done) / len(done)


@pytest.fixture(scope="module")
def rounds(task_world: TaskWorld, embedder: Embedder) -> list[tuple[Proposed, float]]:
    """Three rounds, each learning from those before."""
    bank, catalogue, found = TaskBank(embedder, 0.9), Catalogue(), []
    for number in range(3):
        proposed = propose(task_world, catalogue, bank, QUOTAS, number, arms(task_world, catalogue))
        catalogue, share = learned(task_world, proposed, catalogue)
        found.append((proposed, share))
    return found


def test_rounds_keep_their_mix_and_repeat_nothing(rounds: list[tuple[Proposed, float]], embedder: Embedder) -> None:
    for proposed, _ in rounds:
        strata = [proposal.contract.stratum for proposal in proposed.proposals]
        wanted = {name: QUOTAS[name] - proposed.short[name] for name in QUOTAS}
        assert {name: strata.count(name) for name in QUOTAS} == wanted
    texts = [proposal.contract.instruction for proposed, _ in rounds for proposal in proposed.proposals]
    assert TaskBank(embedder, 0.9, texts).closest_pair() < 0.9


def test_what_was_learned_opens_other_arms_and_raises_the_yield(rounds: list[tuple[Proposed, float]]) -> None:
    first, last = rounds[0], rounds[-1]
    assert {proposal.arm for proposal in first[0].proposals} == {"static"}
    assert {proposal.arm for proposal in last[0].proposals} > {"reverse"}
    assert last[1] > first[1]


def test_recorded_walks_are_told_in_the_words_of_the_writer_that_is_given(
    task_world: TaskWorld, embedder: Embedder
) -> None:
    proposers = arms(task_world, Catalogue())
    proposed = propose(task_world, Catalogue(), TaskBank(embedder, 0.9), QUOTAS, 0, proposers)
    catalogue, _ = learned(task_world, proposed)
    prompts: list[str] = []

    def writer(prompt: str) -> str:
        prompts.append(prompt)
        return f"Do errand number {len(prompts)}"

    proposer = arms(task_world, catalogue, writer)["reverse"]
    told = [
        p.contract.instruction for target in task_world.targets for p in proposer.propose(target, "easy", Random(0))
    ]
    assert prompts and told and all(words.startswith("Do errand number ") for words in told)


def test_proposing_is_a_function_of_its_arguments(task_world: TaskWorld, embedder: Embedder) -> None:
    small = {"easy": 4}
    catalogue, proposers = Catalogue(), arms(task_world, Catalogue())
    one, two, other = (
        propose(task_world, catalogue, TaskBank(embedder, 0.9), small, seed, proposers) for seed in (7, 7, 8)
    )
    assert one.proposals == two.proposals != other.proposals


def test_a_chance_follows_what_came_off(task_world: TaskWorld) -> None:
    catalogue = Catalogue()
    good, bad = (Idea("fsm/shop/0", f"shop/{name}", "Do it", 3) for name in ("add", "order"))
    assert catalogue.chance([good]) == catalogue.chance([bad]) == 0.5
    catalogue.learn(
        [TaskOutcome("fsm/shop/0", (good,), "static", True, "")] * 4
        + [TaskOutcome("fsm/shop/0", (bad,), "static", False, "no order form")] * 4
    )
    assert catalogue.chance([good]) > 0.6 > 0.4 > catalogue.chance([bad])
    assert catalogue.chance([good, bad]) < catalogue.chance([bad])
    assert catalogue.reasons["shop/order"]["no order form"] == 4
    weights = shares(catalogue, ["static", "reverse"])
    assert sum(weights.values()) == pytest.approx(1) and min(weights.values()) > 0


def test_support_is_what_was_seen_on_the_target() -> None:
    catalogue = Catalogue()
    idea = Idea("t/a/0", "a/add", "Add the Oak Lamp", 3, thing="Oak Lamp")
    assert catalogue.support(idea) == "target unseen"
    catalogue.names["t/a/0"] = {Name("Soup Pot", "link"): 1}  # type: ignore[assignment]
    catalogue._names_text.clear()
    assert catalogue.support(idea) == "unseen"
    catalogue.names["t/a/0"] = {Name("Oak Lamp", "link"): 1}  # type: ignore[assignment]
    catalogue._names_text.clear()
    assert catalogue.support(idea) == "seen"
    assert catalogue.support(replace(idea, text="Ask for help", thing="")) == "nothing named"


def test_the_gate_names_what_is_wrong(task_world: TaskWorld) -> None:
    world = task_world.offline()
    contract = next(
        c
        for idea in islice(task_world.ideas(task_world.targets[0], Random(3)), 20)
        if (c := task_world.contract([idea], Random(0))) is not None and task_world.shortest(c)
    )
    assert gate(contract, task_world.targets, world) == ""
    holds_now = replace(contract, evaluator={"rule": "state_conditions", "conditions": [["page", "eq", "home"]]})
    assert gate(holds_now, task_world.targets, world) == "evaluator: holds at the start"
    assert gate(replace(contract, instruction="two\nlines are too many"), task_world.targets, world).startswith(
        "instruction"
    )
    assert gate(replace(contract, target="fsm/moon/1"), task_world.targets, world) == "target: unknown"
    assert gate(replace(contract, evaluator={"rule": "guess"}), task_world.targets, world).startswith("contract: ")
    nowhere = {**contract.initial_state, "page": "cellar"}
    assert gate(replace(contract, initial_state=nowhere), task_world.targets, world).startswith("contract: ")


def test_a_bank_takes_what_is_new(embedder: Embedder) -> None:
    bank = TaskBank(embedder, 0.9, ["Open the settings"])
    known, new = bank.admit_all(["Open the settings", "Send an email to Ann about the meeting on Friday"])
    assert known == (False, pytest.approx(1.0), "Open the settings") and new[0]
    assert len(bank.texts) == 2 and bank.closest_pair() < 0.9
    pool = TaskBank(embedder, 0.9, ["Open the settings", "Open the settings"])  # a pool's own tasks may be alike
    assert pool.closest_pair() == pytest.approx(1.0) and pool.closest_pair(2) == -1.0
    with pytest.raises(ValueError, match="0 < epsilon <= 1"):
        TaskBank(embedder, 0)


def test_a_question_that_the_model_cannot_answer_gives_no_proposal(task_world: TaskWorld, tmp_path: Path) -> None:
    """The first question is refused; the second, and the control question, are answered."""

    def script(question: Question) -> dict[str, str] | int:
        if len(server.questions) == 1:
            return 400
        return {f"task_{k}": f"Write down the weather of day {k}" for k in range(1, 5)} | {
            f"steps_{k}": "4" for k in range(1, 5)
        }

    with ScriptedJudge(script) as server:
        client = ModelClient(server.url, "m", tmp_path, retry=Retry(attempts=1))
        proposer = OpenAIProposer(task_world, Catalogue(), client)
        found = list(islice(proposer.propose(task_world.targets[0], "easy", Random(0)), 1))
        client.close()
    assert [p.contract.instruction for p in found] == ["Write down the weather of day 1"]
    assert len(server.questions) == 3


@pytest.mark.parametrize("name, platform", [("fsm", "web"), ("phone", "mobile"), ("desktop", "desktop")])
def test_what_a_model_proposes_has_the_platform_of_its_ground(name: str, platform: str, tmp_path: Path) -> None:
    task_world = open_task_world(name, 1)
    with OpenAIServer() as server:
        server.answer = {f"task_{k}": "" for k in range(1, 5)} | {f"steps_{k}": "3" for k in range(1, 5)}
        server.answer["task_1"] = "Write down the weather"
        client = ModelClient(server.url, "m", tmp_path, retry=Retry(attempts=1))
        proposals = OpenAIProposer(task_world, Catalogue(), client).propose(task_world.targets[0], "easy", Random(0))
        [found] = list(islice(proposals, 1))
        client.close()
    assert found.contract.platform == platform and found.contract.world == name


def test_a_model_proposes_with_what_is_known(task_world: TaskWorld, tmp_path: Path) -> None:
    catalogue, target = Catalogue(), task_world.targets[0]
    catalogue.examples = [(target, "Do the first verified thing", 4), ("elsewhere", "Another thing", 2)]
    with OpenAIServer() as server:
        server.answer = {f"task_{k}": "" for k in range(1, 5)} | {f"steps_{k}": "3" for k in range(1, 5)}
        server.answer |= {
            "task_1": "Write  down\nthe weather",
            "steps_1": "4",
            "task_2": "A long errand",
            "steps_2": "30",
        }
        client = ModelClient(server.url, "m", tmp_path, retry=Retry(attempts=1))
        found = list(islice(OpenAIProposer(task_world, catalogue, client).propose(target, "easy", Random(0)), 1))
        client.close()
        asked = str(server.bodies[0])
    assert [(p.contract.instruction, p.contract.expected_steps) for p in found] == [("Write down the weather", 4)]
    contract: TaskSpec = found[0].contract
    assert contract.evaluator == {"rule": VOTES} and gate(contract, task_world.targets, task_world.offline()) == ""
    assert "Do the first verified thing" in asked and "functions" in asked


def test_the_documents_are_a_models_context_only_where_they_are_given(task_world: TaskWorld, tmp_path: Path) -> None:
    target, read = task_world.targets[0], list[str]()

    def passages(name: str) -> list[str]:
        read.append(name)
        return ["sort - sort lines of text files"]

    with OpenAIServer() as server:
        server.answer = {f"task_{k}": "" for k in range(1, 5)} | {f"steps_{k}": "3" for k in range(1, 5)}
        server.answer["task_1"] = "Sort the lines of a file"
        client = ModelClient(server.url, "m", tmp_path, retry=Retry(attempts=1))
        for given in (None, passages):
            proposer = OpenAIProposer(task_world, Catalogue(), client, given)
            assert len(list(islice(proposer.propose(target, "easy", Random(0)), 1))) == 1
        client.close()
        plain, told = map(str, server.bodies)
    assert read == [target] and "sort lines of text files" in told and "documents" not in plain
