"""Servers of worlds over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from choice_world import ChoiceWorld

from generators.tasks.task_spec import TaskSpec
from trainer.serving.checkpoint_policy import played_prompt
from trainer.serving.serve import serving
from trainer.serving.world_server import WorldServer
from trainer.serving.world_sessions import SessionRules
from trainer.suites.worlds import outcome


@contextmanager
def served(
    tasks: list[TaskSpec], opened: Any = ChoiceWorld, *, key: str = "", sessions: int = 2, **rules: Any
) -> Iterator[str]:
    """A server of these tasks; its address."""

    @contextmanager
    def world(_: TaskSpec) -> Iterator[Any]:
        yield opened()

    server = WorldServer(
        {"train": tasks}, SessionRules(world, outcome, played_prompt, **rules), sessions=sessions, key=key
    )
    with serving(server) as (url, _):
        yield url.removesuffix("/v1")
