"""What tests of the lease authority ask it with: rules, a clock of their own, requests and devices."""

from __future__ import annotations

from generators.devices.records import DeviceLease, DeviceRecord, LeaseRequest, LeaseWaiting, Rules

RULES = Rules(ttl_s=100, max_ttl_s=1000, idle_s=60, quarantine_after=2, quarantine_holders=1)


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def ask(name: str, priority: int = 0, labels: tuple[str, ...] = (), **more: object) -> LeaseRequest:
    return LeaseRequest(name, "anna", "adb", labels, priority=priority, **more)  # type: ignore[arg-type]


def phone(name: str, *labels: str) -> DeviceRecord:
    return DeviceRecord(name, "adb", "127.0.0.1", 5555, labels)


def granted(found: DeviceLease | LeaseWaiting) -> DeviceLease:
    assert isinstance(found, DeviceLease)
    return found
