"""What a gateway node knows of the authority: which fencing tokens are cut off, and which nodes live.

A node asks in a long poll, and announces itself with it. With the authority down it goes on with what it knows, after
a start of its own too (`FenceFile`); tokens that come by teach it: a greater fence for a device cuts off every lower
one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from generators.devices.client.authority_client import AuthorityClient, AuthorityRefused
from generators.devices.config import NodeConfig
from generators.devices.device import DeviceError
from generators.devices.gateway.fence_file import FenceFile
from generators.devices.records import NodeRecord

log = logging.getLogger(__name__)
# seconds of a long poll; of the pause after a failure
WAIT_S = 10.0
RETRY_S = 0.5
RETIRE_S = 3.0
"""Limit on the farewell: a node that goes waits for nobody."""


class FenceFeed:
    """`floors`: by device the lowest fence still good. `raised(device)` is called when one rises."""

    def __init__(self, config: NodeConfig, me: NodeRecord, raised: Callable[[str], None]) -> None:
        self._config, self.me, self._raised = config, me, raised
        self._file = FenceFile(config.fences) if config.fences is not None else None
        self.floors: dict[str, int] = {}
        self._remembered = dict(self._file.floors) if self._file else {}
        """Floors of the node's last run. They hold until the authority is heard, which knows better."""
        self.nodes: dict[str, NodeRecord] = {me.id: me}
        self.heard_at: float | None = None
        self.leaving = False
        self._epoch, self._change = "", 0

    def admit(self, device: str, fence: int) -> bool:
        """Whether a token of this fence is still good; if it is the greatest seen, lower ones no longer are."""
        # a later lease of the device was seen: this one has ended, whatever its TTL says
        if fence < max(self.floors.get(device, 0), self._remembered.get(device, 0)):
            return False
        self._raise(device, fence)
        return True

    def age_s(self) -> float:
        """Seconds since the authority was last heard; -1 if never."""
        return -1.0 if self.heard_at is None else time.monotonic() - self.heard_at

    async def run(self) -> None:
        """Poll until cancelled."""
        async with AuthorityClient(self._config.authority_url, self._config.api_key) as authority:
            while True:
                # the first time at once: until it was heard, only remembered fences hold
                wait = WAIT_S if self.heard_at is not None else 0.0
                known = {"epoch": self._epoch, "after": self._change, "wait_s": wait, "leaving": self.leaving}
                me = {"node": self.me.id, "nodes": sorted(self.nodes), "host": self.me.host, "port": self.me.port}
                try:
                    self._take(await authority.call("POST", "/v1/fences", {**known, **me}, wait))
                except (DeviceError, ValueError, KeyError, TypeError) as error:
                    log.warning("node %s: no word from the authority: %s", self.me.id, error)
                    await asyncio.sleep(RETRY_S)

    async def retire(self) -> None:
        """Report to the authority that this node goes; if that fails it will find out. Fences are still followed."""
        self.leaving = True
        with contextlib.suppress(DeviceError, AuthorityRefused):
            async with AuthorityClient(self._config.authority_url, self._config.api_key, RETIRE_S) as authority:
                await authority.call("POST", "/v1/nodes/retire", {"node": self.me.id})

    def _take(self, said: dict[str, Any]) -> None:
        for device, floor in said["floors"].items():
            self._raise(str(device), int(floor))
        nodes = {node["id"]: NodeRecord(node["id"], node["host"], node["port"]) for node in said["nodes"]}
        # itself, whatever the authority knows of it
        self.nodes = nodes | {self.me.id: self.me}
        self._epoch, self._change = str(said["epoch"]), int(said["change"])
        # the authority knows better than the file, also that a floor of before was another device's
        if self._file is not None and self.heard_at is None:
            self._remembered = {}
            self._file.replace(self.floors)
        self.heard_at = time.monotonic()

    def _raise(self, device: str, floor: int) -> None:
        if floor > self.floors.get(device, 0):
            self.floors[device] = floor
            if self._file is not None:
                self._file.add(device, floor)
            # relays below the floor end now
            self._raised(device)
