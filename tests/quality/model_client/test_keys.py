"""A key goes to the server that it belongs to, and to no other address."""

from __future__ import annotations

import pytest

from quality.model_client.keys import NO_KEY, key_for, key_withheld


@pytest.fixture(autouse=True)
def openai_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VESPER_JUDGE_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")


@pytest.mark.parametrize("address", ["https://api.openai.com/v1", "https://API.openai.com:443/v1/"])
def test_openais_key_goes_to_openai(address: str) -> None:
    assert key_for(address) == "sk-mine"
    assert key_withheld(address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8000/v1",
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil.example/api.openai.com",
        "https://api.openai.com@evil.example/v1",
        "https://judge.example.org/v1",
    ],
)
def test_openais_key_goes_nowhere_else(address: str) -> None:
    assert key_for(address) == NO_KEY
    assert "VESPER_JUDGE_API_KEY" in key_withheld(address)


def test_an_address_is_paired_with_a_key_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://judge.example.org/v1/")
    assert key_for("https://judge.example.org/v1") == "sk-mine"
    assert key_for("https://judge.example.org/v2") == NO_KEY
    monkeypatch.setenv("VESPER_JUDGE_API_KEY", "ours")
    assert key_for("https://other.example.org/v1") == "ours"
    assert key_withheld("https://other.example.org/v1") == ""


def test_without_any_key_nothing_is_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert key_for("https://api.openai.com/v1") == NO_KEY
    assert key_withheld("http://127.0.0.1:8000/v1") == ""
