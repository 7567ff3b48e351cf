"""The page and the schema of the settings are those of the fields, and the shipped deployment is valid by them."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import yaml

from dagster_project.settings import deployment, reference


def test_every_variable_that_is_read_stands_on_the_page() -> None:
    root = reference.DOCS.parent
    folders = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project")
    texts = (path.read_text(encoding="utf-8") for folder in folders for path in (root / folder).rglob("*.py"))
    read = {name for text in texts for name in re.findall(r'"(VESPER_[A-Z_]+[A-Z])"', text)}
    shown = set(re.findall(r"`(VESPER_[A-Z_]+)`", reference.PAGE.read_text(encoding="utf-8")))
    marks = {"VESPER_DESKTOP_PROGRAM"}  # set by Vesper for the programs that it starts
    assert read - marks <= shown and len(read) > 12


def test_the_page_and_the_schema_are_those_of_the_fields() -> None:
    again = "run python -m dagster_project.settings.reference"
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), again
    assert json.loads(reference.SCHEMA.read_text(encoding="utf-8")) == json.loads(
        json.dumps(reference.deployment_schema())
    ), again


def test_the_shipped_deployment_is_valid_and_names_its_schema() -> None:
    text = deployment.FILE.read_text(encoding="utf-8")
    named = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (deployment.FILE.parent / named).resolve() == reference.SCHEMA.resolve()
    jsonschema.validate(yaml.safe_load(text), reference.deployment_schema())


@pytest.mark.parametrize(
    "said", [{"executer": "in_process"}, {"judge": {"ask_again": -1}}, {"trainer": {"midtrain": {"max_steps": 0}}}]
)
def test_an_editor_shows_what_the_loader_refuses(said: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(said, reference.deployment_schema())
