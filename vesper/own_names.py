"""Whose packages our six folders are: other people's are called `schemas`, `quality` or `pipelines`, too.

Whatever stands first on Python's path wins, and what is installed later writes over what was there, without a word
from either. So the packages `vesper` and `dagster_project` look first of all, and tell. Only the standard library is
imported here, and none of the six folders, for any of them may be the other's.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NAMES = ("schemas", "pipelines", "quality", "generators", "trainer", "dagster_project")
HOME = Path(__file__).resolve().parents[1]
"""The checkout, or the `site-packages` that Vesper was installed into: the six lie beside this package."""
RECORD = "vesper-*.dist-info/RECORD"
"""What the installer wrote of each file; none stands beside a checkout."""
_COMMANDS = ("vesper", "vesper.exe", "-m")
"""How `sys.argv[0]` reads while a command starts: its script, or `python -m` before it has found the module."""


def check_own_names() -> None:
    """Raises `ImportError` in one line if a package that we would import isn't ours; warns (`RuntimeWarning`) of one
    that ours hides from whoever means it. Started as a command it prints the line, and exits with 2 where it would
    raise."""
    command = Path(sys.argv[0] if sys.argv else "").name in _COMMANDS
    if (problem := next(not_ours(), None)) is not None:
        if command:
            # an exception would bury the one line under a traceback through the script of the command
            print(f"vesper: {problem}", file=sys.stderr)
            raise SystemExit(2)
        raise ImportError(problem)
    for told in hidden_by_ours():
        if command:
            print(f"vesper: {told}", file=sys.stderr)
        else:
            warnings.warn(told, RuntimeWarning, stacklevel=3)


def not_ours() -> Iterator[str]:
    """A line for each of the names that stands for another's package."""
    installed = _installed_digests()
    for name in NAMES:
        expected, found = HOME / name / "__init__.py", _found(name)
        if found != expected:
            there = f"found {found or 'none'}, expected {expected}"
            yield f"the package `{name}` is another's: {there}; {_way_out(name, found)}"
        elif name in installed and _digest(expected) != installed[name]:
            yield (
                f"the package `{name}` was written over by another of that name: {expected} isn't the file that Vesper "
                f"installed; {_way_out(name, found)}"
            )


def hidden_by_ours() -> Iterator[str]:
    """A line for each package of these names that stands on the path behind ours."""
    seen = {HOME}
    for entry in sys.path:
        folder = Path(entry).resolve()  # an empty entry is the current folder
        if folder in seen or (folder / "vesper" / "__init__.py").is_file():  # another copy of Vesper
            continue
        seen.add(folder)
        for name in NAMES:
            found = _file(PathFinder.find_spec(name, [str(folder)]))
            if found is not None and found.is_relative_to(folder):
                yield (
                    f"two packages are called `{name}`: {HOME / name / '__init__.py'} of Vesper hides {found}, and "
                    f"code that means the latter gets Vesper's; {_way_out(name, found)}"
                )


def _found(name: str) -> Path | None:
    """The file that an import of this name would run, or has run."""
    loaded = sys.modules.get(name)
    if loaded is None:
        return _file(importlib.util.find_spec(name))
    return Path(loaded.__file__).resolve() if loaded.__file__ else None


def _file(spec: ModuleSpec | None) -> Path | None:
    # a folder without `__init__.py` has no file: it gives way to any package, so it is in nobody's way
    return Path(spec.origin).resolve() if spec is not None and spec.origin else None


def _installed_digests() -> dict[str, str]:
    """Name → digest of its `__init__.py` as the installer recorded it; nothing in a checkout."""
    wanted, digests = {f"{name}/__init__.py": name for name in NAMES}, {}
    for record in HOME.glob(RECORD):
        for line in record.read_text(encoding="utf-8").splitlines():
            path, _, rest = line.partition(",")
            if path in wanted:
                digests[wanted[path]] = rest.partition(",")[0]
    return digests


def _digest(path: Path) -> str:
    """As `RECORD` writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


def _way_out(name: str, found: Path | None) -> str:
    """What to do about another's package."""
    own = "install Vesper into an environment of its own"
    if found is None:
        return f"{own}, for this installation lacks it"
    package = found.name == "__init__.py"
    folder = found.parents[1] if package else found.parent
    ending = f"{name}/__init__.py" if package else found.name
    # only now: it takes as long to load as all else here, and reads every distribution's list of files
    from importlib.metadata import distributions

    holders = (one.name for one in distributions(path=[str(folder)]) if ending in map(str, one.files or ()))
    whose = next((name for name in holders if name != "vesper"), None)
    if whose is not None:
        return f"{own}, or `pip uninstall {whose}` and install Vesper again"
    return f"{own}, or take {folder} off the path (PYTHONPATH, or the folder that Python was started in)"
