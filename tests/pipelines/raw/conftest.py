"""A stand-in for the hub that the client libraries talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hub import Hub, go_online, serve


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    go_online(monkeypatch)
    made = Hub()
    with serve(made):
        yield made
