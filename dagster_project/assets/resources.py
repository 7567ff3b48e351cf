"""What assets are given: the store, and which judge to ask."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from dagster_project.settings import deployment
from dagster_project.stages.stage import JudgeSettings, Work
from pipelines.store import Store


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder where everything lies."""

    home: str = Field(default_factory=lambda: str(deployment.home()), description="$VESPER_HOME, default .vesper")

    def open(self) -> Store:
        """The store in that folder."""
        return Store(self.home)


class JudgeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """`rules` needs no model; `openai` asks any server that speaks the OpenAI protocol."""

    name: str = "rules"
    base_url: str = ""
    model: str = ""

    def settings(self) -> JudgeSettings:
        """As plain data."""
        return JudgeSettings(self.name or "rules", self.base_url or None, self.model or None)


def work(store: StoreResource, judge: JudgeResource) -> Work:
    """What a stage's function is given in this process."""
    return Work(store.open(), deployment.load(), judge.settings())
