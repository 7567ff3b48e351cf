"""Whether a rewritten instruction is true: the world's oracle, given it, reaches the state that the trace reached."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.own_pages import PageOracle, task_of
from generators.tasks.world_interface import WorldError
from generators.worlds.pages.pages_world import PagesWorld, open_pages_world


class OwnOracle:
    """Accepts rewritten instructions of our own pages; those of other worlds can't be checked and aren't accepted."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._worlds: dict[str, PagesWorld] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, episode: Mapping[str, object], instruction: str) -> bool:
        # Only our own pages can be carried out here.
        """See `judge_bench.verify.Accepts`. "No vaguer": the instruction is a full phrase of the family,
        so it names every slot that the goal named."""
        if not str(episode["uid"]).startswith("own/"):
            return False
        key = (str(episode["episode_id"]), instruction)
        # The same question comes again with every judge.
        if key not in self._known:
            self._known[key] = self._reaches(episode, instruction)
        return self._known[key]

    def _reaches(self, episode: Mapping[str, Any], instruction: str) -> bool:
        kind = "phone" if episode["platform"] == "mobile" else "desktop"
        if kind not in self._worlds:
            self._worlds[kind] = self._stack.enter_context(open_pages_world(kind))
        world, start = self._worlds[kind], episode["start"]
        world.reset(start)
        task = task_of(str(episode["family"]).removeprefix("own/"), world.state(), instruction)
        if task is None:
            return False
        task = replace(task, entry=start["home"] or start["app"] != task.app)
        try:
            PageOracle(world, instruction, Random(0)).run(task, by_name=False)
        except WorldError:
            return False
        # Where the walk ended doesn't matter, what it did does.
        wanted = {name: value for name, value in episode["end_state"].items() if name not in ("view", "app", "item")}
        return all(world.state().get(name) == value for name, value in wanted.items())


@contextmanager
def own_oracle() -> Iterator[OwnOracle]:
    """An oracle whose browsers are opened on first use and closed at the end."""
    with ExitStack() as stack:
        yield OwnOracle(stack)
