"""The pinned packages install on every Python that the project promises, the first release of the lowest included."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "constraints.txt"


def _blocks() -> dict[str, tuple[str, str]]:
    """{name: (version, the rest of its lines)}."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)((?:.*\\\n)*.*)", LOCK.read_text(), re.MULTILINE)
    return {name: (version, rest) for name, version, rest in found}


def _pins() -> dict[str, str]:
    return {name: version for name, (version, _) in _blocks().items()}


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
        if name == "pip":  # it installs the others, and may be newer than when it did
            continue
        if (found := _installed(name)) is None:  # another platform's, or of an extra that tests don't need
            continue
        looked_at += 1
        wanted = found.metadata.get("Requires-Python")  # brackets raise where the backport's finder is loaded
        if Version(found.version).public != Version(pinned).public:
            wrong.append(f"{name}: {found.version} is installed, {pinned} is pinned")
        if wanted is not None and lowest not in SpecifierSet(wanted):
            wrong.append(f"{name}=={pinned} asks for Python {wanted}")
    assert looked_at > 100 and not wrong


def test_every_pin_has_the_hashes_of_its_files() -> None:
    """One line without ends every installation, since pip then asks for hashes of all."""
    for name, (_, rest) in _blocks().items():
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?: \\)?$", rest, re.MULTILINE)
        assert hashes and len(hashes) == len(set(hashes)) == rest.count("--hash"), name


def test_the_lock_holds_what_installs_and_all_that_is_asked_for() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = told["project"]["optional-dependencies"].values()
    asked = [*told["project"]["dependencies"], *(one for extra in extras for one in extra), "pip>=26", "setuptools>=77"]
    pins = {canonicalize_name(name): version for name, version in _pins().items()}
    for one in map(Requirement, asked):
        assert one.specifier.contains(pins[canonicalize_name(one.name)]), one


def test_what_the_installer_asks_pip_for(tmp_path: Path) -> None:
    """The real script, with a Python in front that writes down what pip is asked."""
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/bash\n"
        f'[ "$1" = -m ] || exec {sys.executable} "$@"\n'
        'for word in "$@"; do [ -f "$word" ] && [ "$word" != constraints.txt ] && cat "$word"; done >> "$0.files"\n'
        'echo "$@" >> "$0.asked"\n'
    )
    python.chmod(0o755)
    subprocess.run([str(ROOT / "deploy" / "install.sh"), str(python), "webapps,s3", "--editable"], check=True)
    first, second, third = (tmp_path / "python.asked").read_text().splitlines()
    assert "--require-hashes --requirement" in first and "--constraint constraints.txt --requirement" in second
    assert third.endswith("--no-deps --no-build-isolation --editable .")
    files = (tmp_path / "python.files").read_text()
    asked = {re.split("[^a-z0-9-]", line)[0] for line in files.splitlines() if not line.startswith(" ")}
    assert {"pip", "setuptools", "datasette", "django", "s3fs", "pyarrow"} <= asked and "torch" not in asked
    assert files.count("--hash=sha256:") == 4, "of pip and of setuptools, two files each"
    subprocess.run([str(ROOT / "deploy" / "install.sh"), str(python), "train"], check=True)
    plain = (tmp_path / "python.asked").read_text().splitlines()[4]
    assert "--no-deps --require-hashes" in plain, "the build without CUDA, where it is offered"
    assert f"torch=={_pins()['torch']}+cpu" in (tmp_path / "python.files").read_text()
    unknown = subprocess.run([str(ROOT / "deploy" / "install.sh"), str(python), "nonsense"], capture_output=True)
    assert unknown.returncode != 0 and len((tmp_path / "python.asked").read_text().splitlines()) == 7
