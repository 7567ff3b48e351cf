"""A pool of devices by what people write: `local` for worlds on this machine, or the address of a gateway's authority.

Where devices stand is no part of what a run is, so whoever names none gets those of the environment:
`VESPER_DEVICES` (separated by commas; `local` without it) and `VESPER_SITE_URL`, where the leased browsers find the
page of the FSM sites. A gateway's key always comes by `VESPER_GATEWAY_KEY`.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from generators.devices.client.authority_client import AuthorityRefused
from generators.devices.client.sync_sdk import SyncClient
from generators.devices.device import DeviceError
from generators.execution.device_pool import DevicePool, GatewayPool, LocalPool, Pools, leased_worlds, suits
from generators.execution.leased_worlds import LEASED_WORLDS

LOCAL = "local"
DEVICES, SITE_URL, KEY = "VESPER_DEVICES", "VESPER_SITE_URL", "VESPER_GATEWAY_KEY"
WITH_A_PAGE = ("fsm",)
"""Leased worlds whose browsers load a page first."""


@dataclass(frozen=True, slots=True)
class DevicePlaces:
    """Where devices come from, in the order in which they are tried for a task's world."""

    devices: tuple[str, ...] = (LOCAL,)
    site_url: str = ""

    @classmethod
    def of(cls, devices: Sequence[str] = (), site_url: str = "") -> "DevicePlaces":
        """What is named; the environment's where nothing is."""
        named = tuple(name for name in map(str.strip, os.environ.get(DEVICES, "").split(",")) if name)
        return cls(tuple(devices) or named or (LOCAL,), site_url or os.environ.get(SITE_URL, ""))

    @property
    def local(self) -> bool:
        """Whether worlds of this machine are among them."""
        return LOCAL in self.devices

    def leased(self, worlds: Sequence[str]) -> list[str]:
        """Those of the worlds that a gateway's devices can show."""
        return [name for name in worlds if name in LEASED_WORLDS and (self.site_url or name not in WITH_A_PAGE)]

    def check(self, worlds: Sequence[str]) -> None:
        """Raises `ValueError` for a device that is none, a gateway without a key, and gateways that no world of these
        can be leased from, with nothing local beside them."""
        key = os.environ.get(KEY, "")
        for device in self.devices:
            if device != LOCAL and (not device.startswith(("http://", "https://")) or not key):
                # in the environment, not in an argument, which other users of the machine could read
                raise ValueError(
                    f"device: expected {LOCAL}, or an authority's http address with its key in ${KEY}, "
                    f"found {device[:80]!r} and {'a' if key else 'no'} key"
                )
        if not self.local and not self.leased(worlds):
            raise ValueError(
                f"device: expected a world of {', '.join(LEASED_WORLDS)}, which gateways lease "
                f"({', '.join(WITH_A_PAGE)} with the sites' page: --site-url, site_url or ${SITE_URL}), found "
                f"{', '.join(worlds)[:120]}; name others, or put {LOCAL} beside {', '.join(self.devices)[:120]}"
            )


@contextlib.contextmanager
def open_pool(
    places: DevicePlaces, worlds: Sequence[str], local: Callable[[], DevicePool] = LocalPool
) -> Iterator[DevicePool]:
    """The pool of these places for tasks in `worlds`; `local` makes this machine's part of it. Raises `ValueError` as
    `DevicePlaces.check` does. A gateway that doesn't answer is waited for when a device is needed."""
    places.check(worlds)
    wishes = leased_worlds(places.leased(worlds), site_url=places.site_url)
    with contextlib.ExitStack() as stack:
        pools: list[DevicePool] = []
        for device in places.devices:
            if device == LOCAL:
                pools.append(local())
            else:
                client = stack.enter_context(SyncClient(device, os.environ[KEY]))
                pools.append(GatewayPool(client, wishes))
        yield pools[0] if len(pools) == 1 else Pools(*pools)


def missing(places: DevicePlaces, worlds: Sequence[str]) -> list[str]:
    """Why the gateways can't be used now, a line for each that doesn't answer, refuses the key, or has no device that
    shows one of the worlds. Nothing is leased."""
    try:
        places.check(worlds)
    except ValueError as error:
        return [str(error)]
    wanted = [LEASED_WORLDS[name][:2] for name in places.leased(worlds)]
    lines = []
    for device in places.devices:
        if device == LOCAL or not wanted:
            continue
        try:
            with SyncClient(device, os.environ[KEY]) as client:
                found = client.devices()
        except (DeviceError, AuthorityRefused) as error:
            lines.append(f"device: {device} tells no devices ({str(error)[:160]}); is it up, and ${KEY} its key?")
            continue
        if not any(suits(one, protocol, set(labels)) for one in found for protocol, labels in wanted):
            shown = ", ".join(f"{protocol} {' '.join(labels)}".strip() for protocol, labels in wanted)
            lines.append(
                f"device: {device} has {len(found)} devices, and none of what the worlds need ({shown}); "
                "register one with `vesper devices add`"
            )
    return lines
