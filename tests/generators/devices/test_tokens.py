"""Tokens, and the hash that finds a device's owner."""

from __future__ import annotations

import base64
import json
from collections import Counter

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from generators.devices.rendezvous import rank
from generators.devices.tokens import AUDIENCE, Access, BadToken, Tokens

SECRET = "x" * 32
ACCESS = Access("p1", "adb", "127.0.0.1", 5555, 7, 1000.5)
TOKENS = Tokens(SECRET)


def test_a_token_says_what_was_signed_until_it_expires() -> None:
    token = TOKENS.sign(ACCESS)
    assert TOKENS.check(token, 1000.4) == ACCESS
    with pytest.raises(BadToken, match="expired"):
        TOKENS.check(token, 1000.5)


CLAIMS = {
    "aud": AUDIENCE,
    "sub": "p1",
    "exp": 1000.5,
    "fence": 7,
    "protocol": "adb",
    "host": "127.0.0.1",
    "port": 5555,
    "node": "",
}


def _unsigned() -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "typ": "JWT"}, CLAIMS)
    ]
    return ".".join([*parts, ""])


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (None, "missing"),
        ("", "missing"),
        ("a.b.c", "malformed"),
        ("é", "malformed"),
        (Tokens("y" * 32).sign(ACCESS), "not signed by this gateway"),
        (_unsigned(), "not signed"),
        (jwt.encode(CLAIMS, SECRET, "HS512"), "not signed"),
        (jwt.encode({**CLAIMS, "aud": "elsewhere"}, SECRET, "HS256"), "another audience"),
        (jwt.encode({key: value for key, value in CLAIMS.items() if key != "exp"}, SECRET, "HS256"), "malformed"),
        (jwt.encode({**CLAIMS, "fence": "7"}, SECRET, "HS256"), "claims"),
        (jwt.encode({**CLAIMS, "host": "a b"}, SECRET, "HS256"), "claims"),
    ],
)
def test_other_tokens_get_nowhere(token: str | None, says: str) -> None:
    with pytest.raises(BadToken, match=says):
        TOKENS.check(token, 0)


@given(st.data())
def test_a_token_changed_anywhere_is_refused(data: st.DataObject) -> None:
    token = TOKENS.sign(ACCESS)
    at = data.draw(st.integers(0, len(token) - 2))  # the last character of base64 holds bits that mean nothing
    char = data.draw(st.sampled_from("ABCxyz019-_.=\0 ").filter(lambda char: char != token[at]))
    changed = token[:at] + char + token[at + 1 :]
    try:
        assert TOKENS.check(changed, 0) == ACCESS and _decoded(changed) == _decoded(token)
    except BadToken:
        pass


def _decoded(token: str) -> list[bytes]:
    return [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")]


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes, found 5"):
        Tokens("short")


def test_only_a_node_can_mark_a_request_as_passed_on_and_only_for_one_node() -> None:
    mark = TOKENS.forward_mark("t", "n1")
    assert TOKENS.is_forwarded(mark, "t", "n1")
    assert not TOKENS.is_forwarded(mark, "t", "n2") and not TOKENS.is_forwarded(mark, "u", "n1")
    assert not Tokens("z" * 32).is_forwarded(mark, "t", "n1") and not TOKENS.is_forwarded("é", "t", "n1")


@given(st.sets(st.text("abcdef", min_size=1), min_size=1, max_size=8), st.text("xyz", min_size=1), st.data())
def test_a_node_that_goes_moves_only_its_own_devices(nodes: set[str], device: str, data: st.DataObject) -> None:
    order = rank(device, nodes)
    assert sorted(order) == sorted(nodes)
    gone = data.draw(st.sampled_from(sorted(nodes)))
    assert rank(device, nodes - {gone}) == [node for node in order if node != gone]
    assert rank(device, nodes, gone)[0] == gone and rank(device, nodes, "elsewhere") == order


def test_devices_are_spread_evenly() -> None:
    owners = Counter(rank(f"device-{k}", ["n0", "n1", "n2", "n3"])[0] for k in range(4000))
    assert all(880 <= count <= 1120 for count in owners.values()), owners  # 4 sigma of 1000
