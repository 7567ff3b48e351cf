"""Names of apps, as tasks and models write them, to packages of Android."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PACKAGES = {
    "calculator": ("com.google.android.calculator", "com.android.calculator2"),
    "calendar": ("com.google.android.calendar", "com.android.calendar"),
    "camera": ("com.android.camera2", "com.google.android.GoogleCamera"),
    "chrome": ("com.android.chrome",),
    "clock": ("com.google.android.deskclock", "com.android.deskclock"),
    "contacts": ("com.google.android.contacts", "com.android.contacts"),
    "files": ("com.google.android.documentsui", "com.android.documentsui", "com.google.android.apps.nbu.files"),
    "gmail": ("com.google.android.gm",),
    "maps": ("com.google.android.apps.maps",),
    "messages": ("com.google.android.apps.messaging", "com.android.messaging"),
    "notes": ("com.google.android.keep",),
    "phone": ("com.google.android.dialer", "com.android.dialer"),
    "photos": ("com.google.android.apps.photos",),
    "play store": ("com.android.vending",),
    "settings": ("com.android.settings",),
    "youtube": ("com.google.android.youtube",),
}
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
    last = [package for package in installed if package.lower().rpartition(".")[2] == part]
    within = [package for package in installed if part in package.lower().split(".")]
    for found in (last, within):
        if len(found) == 1:
            return found[0]
    return ""
