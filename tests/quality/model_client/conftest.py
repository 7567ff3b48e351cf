"""A real local server and clients of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from model_asking import QUICK
from openai_server import OpenAIServer

from quality.model_client.client import ModelClient


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(latency_s=0.005) as made:
        yield made


@pytest.fixture
def clients() -> Iterator[list[ModelClient]]:
    made: list[ModelClient] = []
    yield made
    for client in made:
        client.close()


@pytest.fixture
def client_of(clients: list[ModelClient]):
    def make(server: OpenAIServer | str, cache: Path | None = None, **more) -> ModelClient:
        url = server if isinstance(server, str) else server.url
        clients.append(ModelClient(url, more.pop("model", "m"), cache, **{"retry": QUICK, **more}))
        return clients[-1]

    return make
