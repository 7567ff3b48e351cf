"""A site in a leased Chromium behind a real gateway is the site of the local world, and carries a run."""

from __future__ import annotations

from pathlib import Path

import gateway_parts as parts
import pytest
from chromium import open_chromium
from executing import fsm_contracts, path_policies

from generators.devices.client.sync_sdk import SyncClient
from generators.execution.device_pool import GatewayPool, LocalPool, Pools, leased_worlds
from generators.execution.journal import Journal
from generators.execution.leased_worlds import SITE_OPTIONS
from generators.execution.scheduling import run_all
from generators.tasks.world_interface import UnsupportedAction, WorldError
from generators.worlds.evaluators import holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from generators.worlds.serve_sites import serve_sites
from pipelines.store import Store
from schemas.action_types import Click, Launch, PressBack, Wait


def test_a_leased_site(tmp_path: Path) -> None:
    contracts = sorted(fsm_contracts(), key=lambda one: one.expected_steps)[1:3]
    with serve_sites() as url, parts.gateway(tmp_path) as gateway, open_chromium() as port:
        gateway.register("browser", port, "cdp", labels=["world=fsm"], options=SITE_OPTIONS)
        with SyncClient(gateway.url, parts.CLIENT) as client:
            devices = GatewayPool(client, leased_worlds(["fsm"], site_url=url))
            local = InterpretedWorld(make_site)
            with devices.open("fsm") as device:
                for world in (local, device.world):
                    world.reset(contracts[0].initial_state)
                link = next(element for element in local.elements() if element.clickable and element.role == "link")
                for action in (Wait(), Click(link.centre), PressBack(), PressBack(), Click(link.centre)):
                    for world in (local, device.world):
                        world.act(action)
                    seen, twin = device.world.observe(), local.observe()
                    assert seen.elements == twin.elements and seen.state == twin.state
                    assert device.world.state() == local.state()
                with pytest.raises(UnsupportedAction):
                    device.world.act(Launch(url="https://example.org"))
                with pytest.raises(WorldError):
                    device.world.reset({**contracts[0].initial_state, "page": "nowhere"})
            assert devices.most("fsm") == 1
            with Journal(tmp_path / "journal") as journal:
                pools = Pools(devices, LocalPool({}))
                done = run_all(contracts, pools, path_policies(), journal, store=Store(tmp_path / "home"))
    assert [one.ended for one in done] == ["finished", "finished"] and {one.device for one in done} == {"browser"}
    assert all(holds(one.contract.evaluator, one.end_state) for one in done)
