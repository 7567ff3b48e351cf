"""What assets are given: the store, and which judge to ask."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from dagster_project.settings import deployment
from dagster_project.settings.environment import Environment
from dagster_project.stages.stage import JudgeSettings, StageWork
from pipelines.store import Store


def _of_environment(name: str) -> Any:
    """A field with the default and the text of a variable's, which the launchpad shows."""
    field = Environment.model_fields[name]
    return Field(default=field.default, description=field.description)


class StoreResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder where everything lies."""

    home: str = Field(default_factory=lambda: str(deployment.home()), description="$VESPER_HOME, default .vesper")

    def open(self) -> Store:
        """The store in that folder."""
        return Store(self.home)


class JudgeResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """`rules` needs no model; `openai` asks any server that speaks the OpenAI protocol."""

    name: str = _of_environment("judge")
    base_url: str = _of_environment("judge_base_url")
    model: str = _of_environment("judge_model")

    def settings(self) -> JudgeSettings:
        """As plain data."""
        return JudgeSettings(self.name or "rules", self.base_url or None, self.model or None)


def work(store: StoreResource, judge: JudgeResource, given: Mapping[str, Any] | None = None) -> StageWork:
    """What a stage's function is given in this process; `given`: what its run sets over the deployment."""
    given = given or {}
    return StageWork(store.open(), deployment.load(**given), judge.settings(), given=given)
