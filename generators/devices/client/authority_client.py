"""HTTP calls of the lease authority, with its errors as exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from generators.devices.device import DeviceError, LeaseLost

if TYPE_CHECKING:
    import httpx


class AuthorityDown(DeviceError):
    """The authority can't be reached: no new leases now; those that live hold to their TTL."""


class AuthorityRefused(ValueError):
    """The authority doesn't do what was asked (wrong key, wrong value, nothing that suits); the message says why."""


class AuthorityClient:
    """`async with`; one connection pool."""

    def __init__(self, url: str, api_key: str, timeout_s: float = 10.0) -> None:
        self.url, self._key, self._timeout_s = url, api_key, timeout_s
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> AuthorityClient:
        import httpx

        headers = {"Authorization": f"Bearer {self._key}"}
        # no bound on connections: each lease's long poll holds one
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        self._http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=self._timeout_s, limits=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """One call; `wait_s` is added to the usual time-out. Raises `AuthorityDown`, `LeaseLost` (409), and
        `AuthorityRefused` for all else but success."""
        import httpx

        if self._http is None:
            raise RuntimeError("authority client: it isn't open; use it in `async with`")
        try:
            reply = await self._http.request(method, path, json=body, timeout=self._timeout_s + wait_s)
        except httpx.HTTPError as error:
            raise AuthorityDown(f"lease authority at {self.url}: {str(error) or type(error).__name__}") from None
        # a server's error says nothing of the lease: as if it couldn't be reached
        if reply.status_code >= 500:
            raise AuthorityDown(f"lease authority at {self.url}: status {reply.status_code}")
        try:
            answer: dict[str, Any] = reply.json()
        except ValueError:
            raise AuthorityRefused(f"{self.url}: expected a lease authority's answer, found something else") from None
        if reply.status_code == 409:
            raise LeaseLost(f"lease lost: {answer['error']}")
        if reply.status_code >= 300:
            raise AuthorityRefused(str(answer.get("error", reply.status_code)))
        return answer
