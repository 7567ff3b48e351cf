"""The pinned packages install on every Python that the project promises, the first release of the lowest included."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]


def _pins() -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
    found = [Requirement(line) for line in lines if line]
    return {one.name: next(iter(one.specifier)).version for one in found}


def _lowest_python() -> str:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    [lowest] = [one.version for one in SpecifierSet(told) if one.operator == ">="]
    return f"{lowest}.0" if lowest.count(".") == 1 else lowest


def _installed(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def test_the_pins_are_installed_and_run_on_the_lowest_python() -> None:
    """Debian 12 has Python 3.11.2, so a package that wants 3.11.5 can't be installed there."""
    lowest, wrong, looked_at = Version(_lowest_python()), [], 0
    for name, pinned in _pins().items():
        if (found := _installed(name)) is None:  # another platform's, or of an extra that tests don't need
            continue
        looked_at += 1
        wanted = found.metadata.get("Requires-Python")  # brackets raise where the backport's finder is loaded
        if Version(found.version).public != Version(pinned).public:
            wrong.append(f"{name}: {found.version} is installed, {pinned} is pinned")
        if wanted is not None and lowest not in SpecifierSet(wanted):
            wrong.append(f"{name}=={pinned} asks for Python {wanted}")
    assert looked_at > 100 and not wrong
