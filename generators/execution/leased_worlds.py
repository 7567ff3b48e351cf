"""Leased devices as the worlds that tasks name: what `reset` sends, what the truth and the elements are.

Add a world: one class and one entry in `LEASED_WORLDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from generators.devices.device import DeviceError
from generators.tasks.world_interface import Observation, ScreenElement, UnsupportedAction
from generators.worlds.fsm.choices import choose
from generators.worlds.fsm.interpreted import site_of
from generators.worlds.fsm.layout import HEIGHT, WIDTH
from generators.worlds.fsm.machine import Machine, address_of
from generators.worlds.fsm.sites import make_site
from schemas.action_types import GetUrl, Launch, RightClick, SelectOption
from schemas.actions import Action
from schemas.coordinates import box_to_unit
from schemas.ids import digest

if TYPE_CHECKING:
    from generators.devices.client.sync_sdk import SyncSession

SITE_OPTIONS = {
    "width": WIDTH,
    "height": HEIGHT,
    "tree": False,
    "schemes": ["http"],
    "reset_function": "deviceReset",
    "state_function": "deviceState",
}
"""Options to register a Chromium with that is to show FSM sites (`generators.worlds.serve_sites` has the page)."""


class LeasedWorld:
    """A leased device whose harness takes a contract's start as it is (see `World`)."""

    name = "device"

    def __init__(self, session: SyncSession) -> None:
        self.session = session
        self.platform, self.size_px = session.platform, session.size_px

    def reset(self, start: Mapping[str, object]) -> None:
        self.session.reset(start)

    def observe(self) -> Observation:
        shot = self._shoot()
        return Observation(shot.png, shot.elements, digest(self.state()), shot.said)

    def _shoot(self) -> Observation:
        shot = self.session.observe()
        self.size_px = self.session.size_px
        return shot

    def act(self, action: Action) -> None:
        self.session.act(action)

    def state(self) -> dict[str, Any]:
        return self.session.state()


class LeasedPhone(LeasedWorld):
    """An emulated phone with the phone world on its screen, over ADB.

    A phone that was started again in the middle shows another's home screen, as colours and icons show (`DeviceError`).
    """

    name = "phone"

    def reset(self, start: Mapping[str, object]) -> None:
        """As `PhoneWorld.reset`."""
        self.session.reset(start)
        self._look = self.session.state()["look"]

    def state(self) -> dict[str, Any]:
        state = self.session.state()
        # colours and icons are drawn anew at each start of the emulator
        if state["look"] != self._look:
            raise DeviceError(f"device {self.session.name}: it was started again since its reset")
        return state


class LeasedSite(LeasedWorld):
    """A browser that shows FSM sites: the page comes from `site_url`, the site itself is sent as plain data."""

    name = "fsm"

    def __init__(self, session: SyncSession, site_url: str) -> None:
        super().__init__(session)
        self._url = site_url

    def reset(self, start: Mapping[str, Any]) -> None:
        """As `FsmWorld.reset`."""
        self._site, self._said = site_of(start, make_site), ""
        page, variables = start.get("page", ""), dict(start.get("variables") or {})
        # a start that the site doesn't have is the task's fault, and known before any device is asked
        Machine(self._site).start(page, variables)  # says what is wrong with a start
        snapshot = {"page": page, "variables": variables}
        self.session.reset({"url": self._url, "site": self._site.plain(), "start": snapshot})

    def observe(self) -> Observation:
        """The picture, and the elements as the site itself lists them, as `FsmWorld` does."""
        shot, report = self._shoot(), self.session.state()
        return Observation(
            shot.png, tuple(_element(raw) for raw in report["places"]), digest(_state(report)), self._said
        )

    def act(self, action: Action) -> None:
        """As `FsmWorld.act`, but for Launch: it would lead out of the page."""
        if isinstance(action, Launch):
            raise UnsupportedAction("fsm: a leased browser shows one site and has no action Launch")
        if isinstance(action, RightClick):
            raise UnsupportedAction("fsm: a web page has no action RightClick")
        self._said = address_of(self._site, self.state()["page"]) if isinstance(action, GetUrl) else ""
        if isinstance(action, SelectOption):
            choose(self, action)
        if isinstance(action, SelectOption | GetUrl):
            return
        self.session.act(action)

    def state(self) -> dict[str, Any]:
        return _state(self.session.state())


def _state(report: Mapping[str, Any]) -> dict[str, Any]:
    state = report["state"]
    return {"page": state["page"], "variables": state["variables"], "history": digest(state["past"])[:16]}


def _element(raw: Mapping[str, Any]) -> ScreenElement:
    left, top, right, bottom = box_to_unit(raw["box"], (WIDTH, HEIGHT))
    return ScreenElement(
        (left, top, right, bottom), raw["role"], raw["text"], raw["name"], raw["key"], raw["clickable"]
    )


def _phone(**_: object) -> Callable[[SyncSession], LeasedWorld]:
    return LeasedPhone


def _site(site_url: str, **_: object) -> Callable[[SyncSession], LeasedWorld]:
    return lambda session: LeasedSite(session, site_url)


LEASED_WORLDS: dict[str, tuple[str, tuple[str, ...], Callable[..., Callable[[SyncSession], LeasedWorld]]]] = {
    "phone": ("adb", (), _phone),
    "fsm": ("cdp", ("world=fsm",), _site),
}
"""Protocol, labels to request, and what makes the wrapper from options."""
