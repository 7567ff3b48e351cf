"""A pool of devices by what people write, and what is missing of it before anything is leased."""

from __future__ import annotations

from pathlib import Path

import gateway_parts as parts
import pytest

from generators.execution.device_pool import GatewayPool, LocalPool, Pools
from generators.execution.device_sources import DevicePlaces, missing, open_pool
from generators.tasks.task_spec import TaskSpec

NOWHERE = "http://127.0.0.1:9"


def _task(world: str) -> TaskSpec:
    return TaskSpec("Do it", "web", "t", {"world": world}, {"rule": "page_state"}, 2)


def test_what_nobody_names_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VESPER_DEVICES", "VESPER_SITE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert DevicePlaces.of() == DevicePlaces(("local",), "") and DevicePlaces.of().local
    monkeypatch.setenv("VESPER_DEVICES", f"{NOWHERE}, local")
    monkeypatch.setenv("VESPER_SITE_URL", "http://pages")
    assert DevicePlaces.of() == DevicePlaces((NOWHERE, "local"), "http://pages")
    assert DevicePlaces.of(["local"], "http://others") == DevicePlaces(("local",), "http://others")


def test_each_world_goes_to_the_first_place_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_GATEWAY_KEY", "k")
    worlds = ["phone", "fsm", "miniwob"]
    with open_pool(DevicePlaces((NOWHERE, "local")), worlds) as pool:
        assert isinstance(pool, Pools)
        assert [pool.kind(_task(world)) for world in worlds] == ["0:phone", "1:fsm", "1:miniwob"]
    with open_pool(DevicePlaces((NOWHERE,), "http://pages"), worlds) as pool:
        assert isinstance(pool, GatewayPool) and pool.kind(_task("fsm")) == "fsm"
        with pytest.raises(ValueError, match="no lease is set for the world 'miniwob'"):
            pool.kind(_task("miniwob"))
    with (
        open_pool(DevicePlaces(), worlds, lambda: LocalPool({})) as pool,
        pytest.raises(ValueError, match="no device has"),
    ):
        pool.kind(_task("fsm"))


def test_what_cannot_be_leased_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_GATEWAY_KEY", "k")
    for places, worlds, said in (
        (
            DevicePlaces(("somewhere",)),
            ["phone"],
            "expected local, or an authority's http address .* found 'somewhere'",
        ),
        (
            DevicePlaces((NOWHERE,)),
            ["fsm"],
            "with the sites' page: --site-url, site_url or .VESPER_SITE_URL.* found fsm",
        ),
        (DevicePlaces((NOWHERE,)), ["miniwob"], "put local beside http://127.0.0.1:9"),
    ):
        with pytest.raises(ValueError, match=said), open_pool(places, worlds):
            pass
    monkeypatch.delenv("VESPER_GATEWAY_KEY")
    with pytest.raises(ValueError, match="and no key"), open_pool(DevicePlaces((NOWHERE,)), ["phone"]):
        pass


def test_a_gateway_is_asked_for_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VESPER_GATEWAY_KEY", "not a key")
    assert missing(DevicePlaces(), ["phone"]) == []
    [line] = missing(DevicePlaces((NOWHERE,)), ["phone"])
    assert f"{NOWHERE} tells no devices" in line
    [line] = missing(DevicePlaces((NOWHERE,)), ["miniwob"])
    assert "found miniwob" in line
    with parts.gateway(tmp_path) as gateway:
        places = DevicePlaces((gateway.url, "local"))
        [line] = missing(places, ["phone"])
        assert "tells no devices" in line and "VESPER_GATEWAY_KEY" in line and "not a key" not in line
        monkeypatch.setenv("VESPER_GATEWAY_KEY", parts.CLIENT)
        gateway.register("browser", 9, "cdp")
        [line] = missing(places, ["phone", "fsm"])
        assert "has 1 devices, and none of what the worlds need (adb)" in line
        assert missing(places, ["miniwob"]) == [], "that one runs here"
        gateway.register("phone", 9, "adb")
        assert missing(places, ["phone", "fsm"]) == []
