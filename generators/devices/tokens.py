"""Signed leave to reach one device under one lease: a JSON Web Token (HS256) that authority and nodes share a key for.

It carries all that a node needs (device, its address, fencing token, expiry), so a node that has just started, with
the authority down, serves the leases that live. Nothing in it is secret but the whole: who holds it has the lease.
"""

import hashlib
import hmac
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.devices.records import DeviceRecord

ALGORITHM = "HS256"
AUDIENCE = "vesper-gateway"
MIN_SECRET = 32


class BadToken(Exception):
    """The token is missing, malformed, not signed by this gateway, for another audience, expired or cut off. The
    message says which and holds nothing of the token."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a valid token says. `expires_at` in seconds since 1970; `node` = the owner hint of the device."""

    device: str
    protocol: str
    host: str
    port: int
    fence: int
    expires_at: float
    node: str = ""


class Tokens:
    """Signs and checks. `secret`: at least 32 bytes, the same on the authority and all nodes."""

    def __init__(self, secret: str) -> None:
        importlib.import_module("jwt")  # now, and not with the first connection
        self._key = secret.encode()
        if len(self._key) < MIN_SECRET:
            raise ValueError(f"gateway secret: expected at least {MIN_SECRET} bytes, found {len(self._key)}")

    def sign(self, access: Access) -> str:
        """Token of an access."""
        import jwt

        claims = {
            "aud": AUDIENCE,
            "sub": access.device,
            "exp": access.expires_at,
            "fence": access.fence,
            "protocol": access.protocol,
            "host": access.host,
            "port": access.port,
            "node": access.node,
        }
        return jwt.encode(claims, self._key, ALGORITHM)

    def check(self, token: str | None, now: float) -> Access:
        """The access a token gives. Raises `BadToken`. The signature is compared in constant time (`hmac`), and only
        HS256 is accepted, whatever the token's own header says."""
        import jwt

        if not token:
            raise BadToken("token: missing; send Authorization: Bearer TOKEN")
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                # the expiry is checked below by the clock that is given, not by the library's own
                options={"require": ["aud", "sub", "exp"], "verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidAudienceError:
            raise BadToken("token: made for another audience") from None
        except jwt.PyJWTError:
            raise BadToken("token: malformed or not signed by this gateway") from None
        access = _access(claims)
        if access.expires_at <= now:
            raise BadToken("token: expired")
        return access

    def forward_mark(self, token: str, node: str) -> str:
        """Mark that a node of this gateway sets on a request that it passes on to `node` (nodes alone can make it)."""
        # with the node's name in it, so that a mark made for one node opens no other
        return hmac.new(self._key, f"forward\0{node}\0{token}".encode(), hashlib.sha256).hexdigest()

    def is_forwarded(self, mark: str, token: str, node: str) -> bool:
        """Whether a node of this gateway set the mark for `node`, in constant time."""
        return hmac.compare_digest(mark.encode(), self.forward_mark(token, node).encode())


def _access(claims: Mapping[str, Any]) -> Access:
    """The claims as checked values; the signature was good, so a wrong one is a mistake of the authority's version."""
    try:
        record = DeviceRecord(claims["sub"], claims["protocol"], claims["host"], claims["port"], node=claims["node"])
        fence, expires = claims["fence"], claims["exp"]
        # `type`, since True is an int to `isinstance`
        if type(fence) is not int or type(expires) not in (int, float):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise BadToken("token: signed, but its claims aren't those of this version") from None
    return Access(record.id, record.protocol, record.host, record.port, fence, float(expires), record.node)
