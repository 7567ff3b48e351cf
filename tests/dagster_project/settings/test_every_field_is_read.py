"""Every setting is read: its name is loaded as an attribute somewhere in the product. Where two models share
a name, one reader is enough for both."""

from __future__ import annotations

import ast
import functools
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from dagster_project.settings.deployment import Deployment, GenerationSettings
from dagster_project.settings.environment import Environment
from schemas.settings import Settings, setting
from trainer.settings.stages import STAGES
from trainer.settings.tree import TrainerSettings

ROOT = Path(__file__).parents[3]
READERS = {
    Deployment: ("dagster_project", "pipelines", "generators"),
    Environment: ("dagster_project",),
    TrainerSettings: ("trainer", "generators", "dagster_project"),
}


@functools.cache
def read(folders: tuple[str, ...]) -> frozenset[str]:
    """Names of all attributes that the code of these folders loads."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


def fields(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        if name in STAGES:  # a stage's own settings are read by its name
            continue
        yield (*path, name)
        waiting = [field.annotation]
        while waiting:
            option = waiting.pop()
            waiting += typing.get_args(option)
            if isinstance(option, type) and issubclass(option, BaseModel):
                yield from fields(option, (*path, name))


ALL = [(model, path) for model in READERS for path in fields(model)]


@pytest.mark.parametrize(("model", "path"), ALL, ids=[f"{model.__name__}.{'.'.join(path)}" for model, path in ALL])
def test_a_field_is_read(model: type[BaseModel], path: tuple[str, ...]) -> None:
    assert path[-1] in read(READERS[model]), f"{'.'.join(path)}: nobody reads it"


def test_a_field_that_nobody_reads_is_found() -> None:
    class Odd(Settings):
        """One more setting."""

        nobody_reads_this: int = setting(0, "Nothing.")

    assert [path for path in fields(Odd) if path[-1] not in read(("dagster_project",))] == [("nobody_reads_this",)]
    assert set(fields(GenerationSettings)) >= {("rounds",), ("steer",)}
