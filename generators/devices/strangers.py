"""Connections that haven't shown yet who they are: so many at most, and not for long, so that they keep nobody out."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def one_to_go(places: Mapping[T, str], newcomer: T) -> T:
    """Which connection makes room: the oldest of the address that has most of them; the newcomer where there is none.
    Who opens connections to keep others out pushes out his own. `places`: where each comes from, the oldest first."""
    crowded = max(Counter(places.values()).items(), key=lambda item: item[1], default=("", 0))[0]
    return next((one for one, place in places.items() if place == crowded), newcomer)


class Strangers:
    """Connections of a uvicorn server without a known key so far, by the client's (address, port)."""

    def __init__(self, most: int, limit_s: float) -> None:
        self._most, self._limit_s = most, limit_s
        self._held: dict[tuple[str, int], asyncio.Transport] = {}

    def know(self, client: tuple[str, int] | None) -> None:
        """The connection showed a key: it stays as long as it likes."""
        if client is not None:
            self._held.pop((client[0], client[1]), None)

    def add(self, client: tuple[str, int], transport: asyncio.Transport) -> None:
        """A connection was made; another may end for it, and this one ends after `limit_s` if it shows no key."""
        if len(self._held) >= self._most:
            self._end(one_to_go({one: one[0] for one in self._held}, client))
        self._held[client] = transport
        asyncio.get_running_loop().call_later(self._limit_s, self._expire, client, transport)

    def _expire(self, client: tuple[str, int], transport: asyncio.Transport) -> None:
        # the address may have another connection by now
        if self._held.get(client) is transport:
            self._end(client)

    def _end(self, client: tuple[str, int]) -> None:
        if transport := self._held.pop(client, None):
            transport.abort()

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's protocol of HTTP, with these limits."""
        from uvicorn.protocols.http.h11_impl import H11Protocol

        strangers = self

        class Limited(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client is not None:
                    strangers.add(self.client, transport)

            def connection_lost(self, exc: Exception | None) -> None:
                strangers.know(self.client)
                super().connection_lost(exc)

        return Limited
