"""Jobs and settings: the page names every job, schedule, sensor and key of `deployment.yaml` that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dagster_project import definitions
from dagster_project.settings import deployment
from dagster_project.settings.environment import PREFIX, Environment

ROOT = Path(__file__).parents[2]
OF_ITS_OWN = {"VESPER_DESKTOP_PROGRAM"}
"""Marks the programs that a desktop started; nobody sets it."""


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs/running.md").read_text(encoding="utf-8")


def test_every_job_schedule_and_sensor_stands_on_the_page(page: str) -> None:
    repository = definitions.build(deployment.load()).get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    sensors = {sensor.name for sensor in repository.sensor_defs}
    schedules = {schedule.name for schedule in repository.schedule_defs}
    assert {"refresh_sources", "train"} <= jobs and sensors and schedules
    named = set(re.findall(r"`([a-z_]+)`", page))
    for kind, names in (("jobs", jobs), ("sensors", sensors), ("schedules", schedules)):
        assert names <= named, f"docs/running.md lacks {kind} {sorted(names - named)}"


def test_every_variable_stands_on_the_page_and_no_other(page: str) -> None:
    """Of those that the code names as a text of its own, or a script of `deploy/` reads."""
    folders = ("pipelines", "quality", "generators", "trainer", "dagster_project")
    code = "".join(path.read_text(encoding="utf-8") for one in folders for path in (ROOT / one).rglob("*.py"))
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "deploy").glob("*.sh"))
    read = {*re.findall(r'"(VESPER_[A-Z_]+)"', code), *re.findall(r"\$\{(VESPER_[A-Z_]+)", scripts)} - OF_ITS_OWN
    read |= {f"{PREFIX}{name.upper()}" for name in Environment.model_fields}
    table = page[page.index("| variable | what |") :].partition("\n\n")[0]
    cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(named) == len(set(named)) and set(named) == read


def test_every_key_of_the_deployment_stands_on_the_page_and_no_other(page: str) -> None:
    keys = set(yaml.safe_load((ROOT / "dagster_project/deployment.yaml").read_text(encoding="utf-8")))
    table = page[page.index("| key | what |") : page.index("In the environment:")]
    named = {
        name for cell in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert named == keys
