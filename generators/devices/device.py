"""The contract of a driver, and how a driver reaches its device: directly or through a gateway, with no code change.

Frame of every point: 0..1000 (see `generators.tasks.world_interface`).
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from generators.tasks.world_interface import Observation
from schemas.actions import Action

PROTOCOLS = ("cdp", "adb", "ssh")


class DeviceError(RuntimeError):
    """The device or the way to it failed: infrastructure, never a failure of the task. The message names the device,
    what was tried and what came back."""


class LeaseLost(DeviceError):
    """The lease ran out, was preempted or fenced off; nothing more reaches the device under it."""


@dataclass(frozen=True, slots=True)
class DeviceEndpoint:
    """Where a device is reached.

    `protocol` is one of PROTOCOLS. `host`, `port`: the device itself, or a gateway node; with a gateway, `device` names
    the device behind it and `token` is the signed leave to reach it (None: direct). `options` are the driver's own,
    plain JSON data (a serial, a user name and key file, a browser's path), never text that a device sent.
    """

    protocol: str
    host: str
    port: int
    device: str = ""
    token: str | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"endpoint: expected a protocol of {', '.join(PROTOCOLS)}, found {self.protocol!r}")


@runtime_checkable
class AsyncDevice(Protocol):
    """An open device. All calls have a time limit of their own and raise `DeviceError` when it has passed."""

    platform: str
    size_px: tuple[int, int]

    async def observe(self) -> Observation:
        """Picture (PNG) and, where the device reports it, the UI tree."""
        ...

    async def act(self, action: Action) -> None:
        """One action at its point. `Type` arrives byte for byte. Finished, CallUser and
        TakeNote do nothing on any device; what GetUrl asks for is said by the next observation.
        Raises `UnsupportedAction` where this device has no such action."""
        ...

    async def reset(self, start: Mapping[str, object]) -> None:
        """Back to a snapshot; `start` is what the world on the device asks for, plain JSON data."""
        ...

    async def state(self) -> dict[str, Any]:
        """The truth behind the screen, read out of band, where the device can report it; else {}."""
        ...

    async def close(self) -> None:
        """Let go of the connection; the device goes on."""
        ...


class Driver(Protocol):
    """A module of `generators.devices.drivers` has one: `connect(endpoint)` gives an open device."""

    def __call__(self, endpoint: DeviceEndpoint) -> AbstractAsyncContextManager[AsyncDevice]: ...
