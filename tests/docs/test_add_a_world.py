"""The world of docs/add-a-world.md and the proposer of docs/add-a-proposer.md, as they stand there: found by their
paths, a round is generated in the one by the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_project.cli import main
from generators.generation.learned import read_proposals
from generators.generation.loop import LoopConfig
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.proposers import arms
from generators.generation.round_names import BANK, TRAJECTORIES, VERIFIED
from generators.generation.task_worlds.own_world import OwnWorld
from generators.generation.task_worlds.registry import load_task_world, open_task_world
from generators.policies.registry import ORACLES
from generators.tasks.world_interface import UnsupportedAction, World
from generators.worlds.evaluators import RULES, holds
from generators.worlds.registry import WORLDS, open_world
from pipelines.store import Store
from schemas.actions import Click, PressHome

ROOT = Path(__file__).parents[2]


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Kind of part → where the page's file stands."""
    found = {}
    for kind, name in (("world", "lamps"), ("proposer", "favourites")):
        page = (ROOT / f"docs/add-a-{kind}.md").read_text(encoding="utf-8")
        (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        found[kind] = f"{tmp_path}/{name}.py:{name}"
    yield found
    for registry in (WORLDS, RULES, ORACLES):
        registry.pop("lamps", None)


def test_a_round_is_generated_in_the_page_s_world(paths: dict[str, str], tmp_path: Path) -> None:
    named = ["--world", paths["world"], "--proposer", "static", "--proposer", paths["proposer"]]
    size = ["--rounds", "1", "--tasks", "4", "--targets", "1", "--mix", "1", "0", "0", "--error-rate", "0"]
    assert main(["generate", "--out", str(tmp_path / "store"), *named, *size]) == 0
    store = Store(tmp_path / "store")
    proposed = read_proposals(store.require(f"{BANK}/round_001"))
    assert {proposal.arm for proposal in proposed} == {"static", "favourites"}
    assert store.require(f"{TRAJECTORIES}/round_001").counts["infrastructure failures"] == 0
    counts = store.require(f"{VERIFIED}/round_001").counts
    assert counts["executed"] == counts["verified"] == 4 and counts["feasible"] == 1.0


def test_an_episode_in_the_page_s_world_can_be_looked_at(paths: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "play"
    assert main(["play", "--policy", "scripted", "--world", paths["world"], "--out", str(out)]) == 0
    episode = json.loads((out / "episode.json").read_text(encoding="utf-8"))
    assert episode["verdict"] == "solved" and (episode["world"], len(episode["steps"])) == ("lamps", 2)


def test_the_page_s_world_keeps_the_contract(paths: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="unknown name 'lamps'"):
        open_world("lamps")  # a task alone, which is data, brings no code in
    task_world = open_task_world(paths["world"], 1)
    task = next(iter(load_task_world(paths["world"]).tasks(7)))  # type: ignore[attr-defined]
    assert task_world.targets == ("lamps/house",) and task_world.shortest(task) == 1
    with open_world("lamps") as world:
        assert isinstance(world, World)
        world.reset(task.initial_state)
        first = world.observe()
        assert not holds(task.evaluator, world.state())
        element = next(place for place in first.elements if place.key == task.evaluator["room"])
        world.act(Click(element.centre))
        assert holds(task.evaluator, world.state()) and world.observe().sha256 != first.sha256
        world.reset(task.initial_state)
        assert world.observe() == first
        with pytest.raises(UnsupportedAction):
            world.act(PressHome())


def test_names_that_lead_nowhere_or_are_taken_are_refused(paths: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="task world: .*found 'moon'"):
        LoopConfig(ground="moon")
    with pytest.raises(ValueError, match="proposer: .*found 'muse'"):
        arms(open_task_world("fsm", 1), Catalogue(), names=["muse"])
    with pytest.raises(ValueError, match="its arm 'static' is taken"):
        arms(open_task_world("fsm", 1), Catalogue(), names=["static", "static"])
    own = load_task_world(paths["world"])
    assert isinstance(own, OwnWorld)
    with pytest.raises(ValueError, match="the name 'phone' is taken"):
        OwnWorld("phone", "mobile", own.open, own.tasks, own.rule).enter()
