"""What the image and the scripts beside it bring: its packages, the revision of its code, secrets."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from composed import BY_COMPOSE, composed

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_the_image_has_what_the_deployment_offers() -> None:
    told = (DEPLOY / "Dockerfile").read_text()
    [extras] = re.findall(r"^RUN .*deploy/install\.sh python ([\w,]+)$", told, re.MULTILINE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) == set(known) - {"dev", "docs"}, "s3 for $VESPER_STORE_URL, production for PostgreSQL"
    [listed] = re.findall(r"apt-get install -y --no-install-recommends (.+) \\$", told, re.MULTILINE)
    browser = re.findall(r"\bthen install ([\w -]+);", (DEPLOY / "get_browser.sh").read_text())
    reader = re.findall(r"\[tesseract\]=(\S+)", (DEPLOY / "get_devices.sh").read_text())
    assert len(browser) == 2 and len(reader) == 1
    wanted = {package for packages in (*browser, *reader) for package in packages.split()}
    assert wanted <= set(listed.split()), "what the scripts get elsewhere"


def test_images_may_be_named_by_their_digest() -> None:
    """No image stands here without a way to name another: a tag may be moved, a digest not."""
    told = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^FROM (.+)$", told, re.MULTILINE) == ["${BASE}"]
    [base] = re.findall(r"^ARG BASE=(\S+)$", told, re.MULTILINE)
    services = composed()["services"].values()
    built = [service["build"]["args"]["BASE"] for service in services if "build" in service]
    assert built and set(built) == {f"${{PYTHON_IMAGE:-{base}}}"}
    named = {service["image"] for service in services if "build" not in service}
    assert named and all(re.fullmatch(r"\$\{\w+:-\S+\}", one) for one in named)


def test_the_image_knows_the_codes_revision() -> None:
    assert "ARG REVISION" in (DEPLOY / "Dockerfile").read_text()
    builds = [service["build"] for service in composed()["services"].values() if "build" in service]
    assert {build["args"]["REVISION"] for build in builds} == {"${VESPER_CODE_REVISION:-}"}


@pytest.fixture
def make_secrets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DEPLOY))
    return importlib.import_module("make_secrets")


def test_the_revision_is_written_and_renewed_and_nothing_else_is(
    make_secrets: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, whom the script refuses."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(make_secrets, "code_revision", lambda: "a" * 40)
    arguments = ["--data", str(tmp_path / "data"), "--to", str(tmp_path)]
    assert make_secrets.main(arguments) == 0
    settings = tmp_path / ".env"
    first = settings.read_text()
    assert first.endswith(f"\nVESPER_CODE_REVISION={'a' * 40}\n")
    assert {line.partition("=")[0] for line in first.splitlines()} == BY_COMPOSE | {"VESPER_CODE_REVISION"}
    settings.write_text(f"{first}VESPER_JUDGE=nano")  # a person's own, without an end of line
    monkeypatch.setattr(make_secrets, "code_revision", lambda: "b" * 40)
    assert make_secrets.main(arguments) == 0
    assert settings.read_text() == f"{first}VESPER_JUDGE=nano".replace("a" * 40, "b" * 40)
    assert settings.stat().st_mode & 0o777 == 0o600 and not (tmp_path / ".env.new").exists()
    monkeypatch.setattr(make_secrets, "code_revision", lambda: "")
    assert make_secrets.main(arguments) == 0 and "b" * 40 in settings.read_text()
    assert make_secrets.with_revision("A=1", "c") == "A=1\nVESPER_CODE_REVISION=c\n"


def test_the_revision_is_that_of_the_checkout_itself(make_secrets: Any, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert make_secrets.code_revision(tmp_path) == ""
    git("init", "--quiet")
    assert make_secrets.code_revision(tmp_path) == "", "there is no commit yet"
    git("commit", "--quiet", "--allow-empty", "-m", "first")
    assert make_secrets.code_revision(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "inner").mkdir()
    assert make_secrets.code_revision(tmp_path / "inner") == "", "another repository further up isn't this code"


def test_secrets_are_made_once_and_are_settings_that_the_gateway_takes(make_secrets: Any, tmp_path: Path) -> None:
    from generators.devices.config import authority_config, node_config

    made = make_secrets.gateway_settings(2)
    authority = authority_config(made["authority.json"])
    nodes = [node_config(made[f"node-{number}.json"]) for number in range(2)]
    assert {node.secret for node in nodes} == {authority.secret} and len({node.id for node in nodes}) == 2
    key = next(key for key in authority.keys if key.key == nodes[0].api_key)
    assert key.roles == {"node"}
    services = composed()["services"]
    assert {node.public_host for node in nodes} <= set(services)
    assert f"http://authority:{authority.port}" == nodes[0].authority_url and "authority" in services
    path = tmp_path / "secrets" / "one"
    make_secrets.write_private(path, "first")
    make_secrets.write_private(path, "second")
    assert path.read_text() == "first" and path.stat().st_mode & 0o777 == 0o600


def test_scripts_are_shell_that_parses() -> None:
    for path in DEPLOY.glob("*.sh"):
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
