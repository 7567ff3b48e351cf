"""Names of apps, as tasks and models write them, to packages of Android."""

from collections.abc import Mapping, Sequence

from generators.devices.drivers.driver_names import NAMES

PACKAGES: dict[str, tuple[str, ...]] = {name: tuple(found) for name, found in NAMES["packages"].items()}
"""Where the package doesn't hold the app's name, or several do: the usual ones, in the order they are tried."""


def pick_package(name: str, installed: Sequence[str], table: Mapping[str, tuple[str, ...]]) -> str:
    """The installed package that an app's name means: the name itself, the table's, or the only one that has the name
    as a part between dots. "" if there is none or more than one."""
    if name in installed:
        return name
    wanted = name.strip().lower()
    for package in table.get(wanted, ()):
        if package in installed:
            return package
    part = "".join(wanted.split())
    # the last part is the app's own name in most packages: com.google.android.gm.calendar
    last = [package for package in installed if package.lower().rpartition(".")[2] == part]
    within = [package for package in installed if part in package.lower().split(".")]
    for found in (last, within):
        if len(found) == 1:
            return found[0]
    return ""
