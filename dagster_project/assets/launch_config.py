"""The settings of a stage in Dagster's launchpad: typed, with texts and defaults, made from the settings themselves.

A stage names settings of the deployment (`trainer.midtrain`, `mixture`, `judge`). Their `dg.Config` shows what the
deployment gives as the default; only what a person changes goes over it, for that run alone, and enters the version of
what is made as the deployment's own value would.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import dagster as dg
from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from dagster_project.settings import deployment as deployments
from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage
from dagster_project.stages.training import trainer_config
from schemas.settings import Settings, options_of, range_of
from trainer.settings.presets import configured
from trainer.settings.tree import over

Given = dict[str, Any]
"""Settings by name, settings within settings likewise."""


@dataclass(frozen=True)
class Shown:
    """What stages work with where a run sets nothing, by section; the forms made of it so far, and those as Dagster
    takes them by the settings of a stage: many stages share one, and there are hundreds of fields."""

    sections: Mapping[str, Settings]
    forms: dict[str, Any] = field(default_factory=dict)
    schemas: dict[tuple[str, ...], dg.Field | None] = field(default_factory=dict)

    def field(self, path: str) -> tuple[Any, Any]:
        """The form of one setting (`trainer.midtrain`) or of a whole section (`judge`)."""
        if path not in self.forms:
            section, _, name = path.partition(".")
            model = self.sections[section]
            if name:
                self.forms[path] = _field(name, type(model).model_fields[name], getattr(model, name), section)
            else:
                inner = _config(section, model, "run")
                self.forms[path] = (inner, Field(default=inner(), description=" ".join((model.__doc__ or "").split())))
        found: tuple[Any, Any] = self.forms[path]
        return found


def config_of(stage: GraphStage, shown: Shown) -> type[dg.Config] | None:
    """The launchpad's form of a stage's settings, None if it has none. `shown`: see `defaults`."""
    if not stage.settings:
        return None
    # Dagster's forms have plain names; the section is known by the stage.
    fields: dict[str, Any] = {path.rpartition(".")[2]: shown.field(path) for path in stage.settings}
    return create_model(_title(stage.key), __base__=dg.Config, **fields)


def defaults(deployment: Deployment) -> Shown:
    """What stages work with where nobody says anything: the deployment over the preset. A setting of the trainer that
    nobody could train with shows the preset's; `preflight` refuses it before anything trains."""
    try:
        given = trainer_config()
        trainer = over(configured(str(given.get("preset", ""))), given)
    except (TypeError, ValueError):
        # Settings that can't be read: show the preset, as preflight will refuse to run with them anyway.
        trainer = configured()
    sections: dict[str, Settings] = {
        "trainer": trainer,
        "mixture": deployment.mixture,
        "judge": deployment.judge,
        "generation": deployment.generation,
    }
    return Shown(sections)


def given_to(stage: GraphStage, run_config: Mapping[str, Any], shown: Shown) -> Given:
    """What the launchpad says of a stage, as settings of the deployment: what isn't the default already.

    Raises `SettingsError` that names the op, the setting, what was expected and what was found.
    """
    # How Dagster names the op of an asset.
    op = stage.key.replace("/", "__")
    said = (run_config.get("ops") or {}).get(op, {}).get("config") or {}
    found: Given = {}
    for path in stage.settings:
        section, _, name = path.partition(".")
        here = said.get(name or section)
        if here is None:
            continue
        # Whole section or one setting of it, as the stage has named it.
        default = getattr(shown.sections[section], name) if name else shown.sections[section]
        changed = _changed(here, default)
        if changed is not _SAME:
            found.setdefault(section, {}).update({name: changed} if name else changed)
    if found:
        _require(found, f"run config: ops.{op}.config")
    return found


def _require(found: Given, where: str) -> None:
    trainer = found.get("trainer", {})
    over(configured(str(trainer.get("preset", ""))), trainer, where=where)
    for section in found.keys() - {"trainer"}:
        model = type(getattr(Deployment(), section))
        # Each section in its own words, which name what was expected.
        model.parsed(found[section], f"{where}: {section}")
    deployments.load(**found)  # together with what the deployment says there may be a contradiction


class _Same:
    """Nothing that differs from the default."""


_SAME = _Same()


def _changed(said: Any, default: object) -> Any:
    """What a person changed: settings within settings one by one, as they wrote it."""
    if isinstance(default, Settings) and isinstance(said, Mapping):
        known = {field.alias or name: getattr(default, name) for name, field in type(default).model_fields.items()}
        parts = {name: _changed(value, known.get(name)) for name, value in said.items()}
        differing = {name: value for name, value in parts.items() if value is not _SAME}
        return differing or _SAME
    # The form gives lists for our tuples.
    plain = list(default) if isinstance(default, tuple) else default
    return _SAME if said == plain else said


def _config(name: str, settings: Settings, key: str) -> type[dg.Config]:
    model = type(settings)
    # Some settings take what they don't know, such as options of a part of one's own.
    base = dg.PermissiveConfig if model.model_config.get("extra") == "allow" else dg.Config
    fields = {
        field.alias or word: _field(word, field, getattr(settings, word), f"{key}_{name}")
        for word, field in model.model_fields.items()
    }
    return create_model(_title(f"{key}_{name}"), __base__=base, **fields)  # type: ignore[call-overload,no-any-return]


def _field(name: str, field: FieldInfo, default: object, key: str) -> tuple[Any, Any]:
    """(type, field) of Dagster's for one of ours, with its text, its range and the default that is shown."""
    said = " ".join(filter(None, (field.description or "", f"({range_of(field)})" if range_of(field) else "")))
    if isinstance(default, Settings):
        inner = _config(name, default, key)
        return inner, Field(default=inner(), description=said)
    options = options_of(field.annotation)
    kind = _kind(options[0], f"{key}_{name}") if len(options) == 1 else Any
    if default is None:
        # None is shown as empty, and means "nothing said".
        return (Any if kind is Any else kind | None), Field(default=None, description=said)
    if isinstance(kind, type) and issubclass(kind, Enum):
        # Dagster shows a choice as an enum, whose default must be one of its members.
        return kind, Field(default=kind(default), description=said)
    plain = list(default) if isinstance(default, tuple) else default
    return kind, Field(default=_plain(plain), description=said)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _kind(annotation: Any, title: str) -> Any:
    """The type that Dagster knows for one of ours; `Any` where it knows none (what it holds is checked even so)."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _kind(typing.get_args(annotation)[0], title)
    # Literals of words become a choice; of anything else Dagster has no form.
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        return Enum(_title(title), {one: one for one in choices}) if all(isinstance(c, str) for c in choices) else Any
    if typing.get_origin(annotation) is tuple:
        inner = {_kind(one, title) for one in typing.get_args(annotation) if one is not Ellipsis}
        # One kind of members makes a list; a tuple of several kinds is taken as it comes.
        return list[inner.pop()] if len(inner) == 1 else Any  # type: ignore[misc]
    return annotation if annotation in (int, float, bool, str) else Any


def _title(key: str) -> str:
    return "".join(word.capitalize() for word in key.replace("/", "_").split("_"))
