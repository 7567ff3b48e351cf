"""A stand-in for the hub that the client libraries talk to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hub import Hub, serve


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    made = Hub()
    with serve(made):
        yield made
