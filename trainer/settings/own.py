"""Settings of one stage, derived from the list of stages."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import create_model

from schemas.settings import ALWAYS, Settings, setting
from trainer.settings.stage import TrainerStage

Section = TypeVar("Section", bound=type[Settings])
OwnSettings = dict[str, Any]
"""Settings of one specialist, by the names of those that all share."""


def with_own(section: Section, specialists: Sequence[str]) -> Section:
    """A section of settings that specialists share, with a field for each of them."""
    text = "Settings of this specialist alone; these win."
    return with_fields(section, {name: (OwnSettings, setting({}, text)) for name in specialists})


def with_stages(tree: Section, stages: Mapping[str, TrainerStage]) -> Section:
    """The tree of settings with a field for each stage that has settings of its own."""
    fields = {
        stage.name: (stage.own_settings, setting(stage.own_settings(), stage.description, in_version=ALWAYS))
        for stage in stages.values()
        if stage.own_settings
    }
    return with_fields(tree, fields) if fields else tree


def with_fields(model: Section, fields: Mapping[str, Any]) -> Section:
    """A model of settings with more fields: name → (type, `setting(…)`)."""
    made: Any = create_model(
        model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **fields
    )
    return made  # type: ignore[no-any-return]
