"""Tasks in OSWorld's form on real programs: false at the start, true after a solution, false after a near miss; and
what commands of a task file can reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.desktop_task import Intent
from generators.worlds.desktop.plan import IntentPerformer
from generators.worlds.evaluators import holds
from generators.worlds.osworld.osworld_tasks import read_folder
from generators.worlds.osworld.osworld_world import OsworldWorld, refuses
from schemas.actions import Action, CallUser, Click, Finished, Wait
from tests.support.osworld_solutions import SOLUTIONS

pytestmark = pytest.mark.real_parts
FIXTURES = Path(__file__).parents[3] / "fixtures" / "osworld"
TASKS = {str(task.initial_state["task"]["id"]): task for task in read_folder(FIXTURES).playable}
QUICK = "b0d3-no-bluetooth", "6a08-either-place"


def after(world: OsworldWorld, task: TaskSpec, plan: tuple[Intent, ...]) -> bool:
    performer = IntentPerformer(world)
    for intent in plan:
        performer.do(intent)
    return holds(task.evaluator, world.state())


def gate(world: OsworldWorld, name: str) -> None:
    task, (solution, near_miss) = TASKS[name], SOLUTIONS[name]
    world.reset(task.initial_state)
    assert not after(world, task, ())
    if "postconfig" in TASKS[name].initial_state["task"]["evaluator"]:  # carried out by asking, and for the end alone
        world.reset(task.initial_state)
    assert after(world, task, solution)
    world.reset(task.initial_state)
    assert not after(world, task, near_miss)


def test_every_fixture_that_can_be_played_has_a_solution() -> None:
    assert TASKS.keys() == SOLUTIONS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_a_task_is_false_at_the_start_true_after_its_solution_and_false_after_a_near_miss(
    osworld: OsworldWorld, name: str
) -> None:
    gate(osworld, name)


@pytest.mark.slow(seconds=100)
@pytest.mark.parametrize("name", sorted(TASKS.keys() - set(QUICK)))
def test_and_so_is_every_other(osworld: OsworldWorld, name: str) -> None:
    gate(osworld, name)


HOSTILE = {
    "network": "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 53), 3)\"",
    "files of the host": "ls /root /work /etc/shadow",
    "writing outside of its home": "touch /usr/x /etc/x",
    "rights": "chown 0:0 ~/x",
}


@pytest.mark.parametrize("command", HOSTILE.values(), ids=HOSTILE)
def test_a_command_of_a_task_file_reaches_nothing_of_the_host(osworld: OsworldWorld, command: str) -> None:
    check = {
        "type": "vm_command_line",
        "command": f"touch ~/x; ({command}) && echo reached || echo kept",
        "shell": True,
    }
    expected = {"type": "rule", "rules": {"include": ["kept"], "exclude": ["reached"]}}
    evaluator = {"func": "check_include_exclude", "result": check, "expected": expected}
    native = {"id": "x", "snapshot": "os", "instruction": "Nothing.", "evaluator": evaluator}
    osworld.reset({"task": native})
    assert osworld.state()["score"] == 1.0


def test_a_file_is_written_inside_of_the_session_alone(osworld: OsworldWorld, tmp_path: Path) -> None:
    """Its own /tmp is none of ours, whatever path a task file names."""
    target = tmp_path / "escaped"
    native = {
        "id": "x",
        "snapshot": "os",
        "instruction": "Nothing.",
        "config": [
            {"type": "execute", "parameters": {"command": f"mkdir -p {tmp_path}; touch {target}", "shell": True}}
        ],
        "evaluator": {"func": "infeasible"},
    }
    osworld.reset({"task": native})
    assert not target.exists()


def test_what_the_setup_started_has_ended_after_the_next_reset(osworld: OsworldWorld) -> None:
    started = {"type": "execute", "parameters": {"command": "sleep 300 & sleep 300 & true", "shell": True}}
    asked = {"type": "vm_command_line", "command": "ps -C sleep -o stat= | grep -vc Z", "shell": True}
    evaluator = {"func": "exact_match", "result": asked, "expected": {"type": "rule", "rules": {"expected": "0\n"}}}
    native = {"id": "x", "snapshot": "os", "instruction": "Nothing.", "evaluator": evaluator}
    osworld.reset({"task": {**native, "config": [started]}})
    assert osworld.state()["score"] == 0.0
    osworld.reset({"task": native})
    assert osworld.state()["score"] == 1.0


def test_a_setup_that_fails_refuses_the_start(osworld: OsworldWorld) -> None:
    steps = [
        {"type": "download", "parameters": {"files": [{"url": "https://x.org/a.txt", "path": "/home/user/a.txt"}]}}
    ]
    native = {"id": "x", "snapshot": "os", "instruction": "N.", "config": steps, "evaluator": {"func": "infeasible"}}
    with pytest.raises(WorldError, match=r"a\.txt isn't in the tasks' folder"):
        osworld.reset({"task": native})
    with pytest.raises(WorldError, match="instruction: expected a text"):
        osworld.reset({"task": {**native, "instruction": ""}})


@pytest.mark.parametrize(
    ("action", "refused"),
    [
        (CallUser("I can't do that: there is no Bluetooth adapter."), True),
        (CallUser("infeasible"), True),
        (Finished("failure"), True),
        (Finished(""), False),
        (CallUser("It is switched on."), False),
        (Click((5, 5)), False),
    ],
)
def test_a_refusal_is_what_says_so(action: Action, refused: bool) -> None:
    assert refuses(action) is refused


def test_a_refusal_is_the_last_word_alone(osworld: OsworldWorld) -> None:
    osworld.reset(TASKS["b0d3-no-bluetooth"].initial_state)
    osworld.act(CallUser("infeasible"))
    assert osworld.state()["score"] == 1.0
    osworld.act(Wait())
    assert osworld.state()["score"] == 0.0
