"""`vesper serve worlds`: tasks and their worlds behind the protocol of OpenEnv, for trainers that aren't ours."""

import argparse

from dagster_project.commands.serve_model import server_access, until_stopped
from dagster_project.commands.store_option import add_store, open_store
from generators.tasks.task_pool import SHARDS
from generators.tasks.task_spec import TaskSpec
from generators.worlds.registry import WORLDS
from schemas.action_types import ACTION_SPACE, SPACES
from schemas.tables import Tasks
from trainer.serving.checkpoint_policy import played_prompt
from trainer.serving.world_server import WorldServer
from trainer.serving.world_sessions import SessionRules
from trainer.suites.play import opener, tasks_of
from trainer.suites.worlds import outcome

EXAMPLES = """examples:
  vesper serve worlds --world miniwob --count 200 --port 8100
  vesper serve worlds --pool --home .vesper --sessions 8
then, from a trainer:
  from openenv import GenericEnvClient
  env = GenericEnvClient("http://127.0.0.1:8100").sync()"""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("--world", action="append", default=[], metavar="WORLD", help="tasks of a world (again: of several)")
    add("--task", action="append", default=[], metavar="NAME", help="of these pages, goals, sites or families alone")
    add("--count", type=int, default=100, metavar="N", help="tasks of each world (100)")
    add("--seed", type=int, default=0, help="of the tasks (0)")
    add("--pool", action="store_true", help="the tasks of the store's pool that a world here can run")
    add_store(parser)
    add("--style", choices=("full", "nano"), default="full", help="how large worlds are drawn (full)")
    add(
        "--steps",
        type=int,
        default=0,
        metavar="N",
        help="of an episode at most (twice what the task should take, and 5)",
    )
    add("--action-space", choices=tuple(SPACES), default=ACTION_SPACE, help=f"what replies may say ({ACTION_SPACE})")
    add("--sessions", type=int, default=4, metavar="N", help="clients at a time, each with a world of its own (4)")
    add("--host", default="127.0.0.1", help="where to listen; anything but the loopback needs $VESPER_SERVE_API_KEY")
    add("--port", type=int, default=8100, help="0 is a free one (8100)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Let clients play until Ctrl+C."""
    if options.steps < 0 or options.count < 1:
        raise ValueError(
            f"expected --steps of 0 or more and --count of 1 or more, found {options.steps}, {options.count}"
        )
    tasks = _tasks(options)
    rules = SessionRules(
        lambda task: opener(task, options.style)(),
        outcome,
        played_prompt,
        space=options.action_space,
        most_steps=options.steps,
    )
    server = WorldServer({"train": tasks}, rules, sessions=options.sessions, **server_access(options))
    return until_stopped(server, options, lambda url: f"{len(tasks)} tasks at {url.removesuffix('/v1')}")


def _tasks(options: argparse.Namespace) -> list[TaskSpec]:
    """Those of the worlds that are named, or of the pool that a world here can run and a rule decide."""
    # Exactly one of the two.
    if options.pool == bool(options.world):
        raise ValueError("expected --world (one or more) or --pool, found " + ("both" if options.pool else "neither"))
    if not options.pool:
        return [task for world in options.world for task in tasks_of(world, options.count, options.seed, options.task)]
    from trainer.stages.online import runnable_tasks  # with torch, which the tasks of worlds do without

    rows = open_store(options.home).require(SHARDS).read("tasks", Tasks.schema).to_pylist()
    platforms = sorted({kind.platform for kind in WORLDS.values()})
    found, left_out = runnable_tasks(rows, platforms, list(WORLDS))
    # Why the others can't be run here is worth saying.
    if not found:
        raise ValueError(f"{SHARDS}: expected tasks that a world here can run, found none; others: {dict(left_out)}")
    return found
