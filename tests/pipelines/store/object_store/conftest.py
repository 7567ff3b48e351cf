"""An S3 server, a folder and the memory of the process, each as a store's URL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_server import KEYS, S3Server, s3_server

from pipelines.store import Store
from pipelines.store.object_store import objects

Machine = Callable[[], Store]
"""Another machine: an empty home in front of the same URL."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "TRIES", 2)


@pytest.fixture
def s3_url(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    server.asked.clear()
    yield f"s3://{server.bucket()}/team/vesper"
    server.fault = lambda method, path: ""


@pytest.fixture(params=["s3", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        return str(request.getfixturevalue("s3_url"))
    return f"file://{tmp_path / 'share'}" if request.param == "file" else f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def machines(tmp_path: Path) -> Callable[[str], Store]:
    """Makes a machine: a fresh home in front of a URL."""
    number = iter(range(100))

    def make(url: str) -> Store:
        return Store(tmp_path / f"machine{next(number)}", url)

    return make
