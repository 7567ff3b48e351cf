"""The script that gets a browser, on a machine where Playwright's driver lacks a library, as on a small Debian."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "get_browser.sh"
PYTHON = """#!/bin/sh
case "$*" in
  *"import playwright"*) exit 0 ;;
  *"-m playwright --version"*) [ -e "{library}" ] || {{ echo "libatomic.so.1: cannot open" >&2; exit 127; }} ;;
esac
"""
"""An interpreter that has Playwright, whose driver starts once its library is there."""


def _run(folder: Path, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The script with a python of `PYTHON`, an existing browser, and only these programs on top of the plain ones."""
    bin_ = folder / "bin"
    bin_.mkdir()
    for name in ("bash", "sh", "cat", "touch"):
        (bin_ / name).symlink_to(str(shutil.which(name)))
    programs = {"python": PYTHON, "browser": "#!/bin/sh\n", **programs}
    for name, text in programs.items():
        (bin_ / name).write_text(text.format(library=folder / "library", said=folder / "said"))
        (bin_ / name).chmod(0o755)
    environment = {**os.environ, "PATH": str(bin_), "VESPER_BROWSER": str(bin_ / "browser")}
    return subprocess.run(["bash", SCRIPT, bin_ / "python"], capture_output=True, text=True, env=environment)


PLAYWRIGHT = PYTHON.replace(
    "esac",
    """  *"-m playwright install"*) echo "$*" >> "{said}"; [ -e "{offline}" ] || touch "{browser}" ;;
  -) cat >/dev/null; [ -e "{browser}" ] && echo "{browser}" ;;
esac""",
)
"""The same that can get a browser of its own."""
APT = '#!/bin/sh\necho "$*" >> "{said}"\n[ "$1" = update ] || exit 100\n'


def _got(folder: Path, *, offline: bool = False) -> tuple[subprocess.CompletedProcess[str], str]:
    """The script where the system's packages have no Chromium, run as `make setup` does; what was asked for."""
    (folder / "library").touch()
    if offline:
        (folder / "offline").touch()
    bin_ = folder / "bin"
    bin_.mkdir()
    for name in ("bash", "sh", "cat", "touch", "tail"):
        (bin_ / name).symlink_to(str(shutil.which(name)))
    where = {name: folder / name for name in ("library", "said", "browser", "offline")}
    for name, text in {"python": PLAYWRIGHT, "apt-get": APT, "id": "#!/bin/sh\necho 0\n"}.items():
        (bin_ / name).write_text(text.format(**where))
        (bin_ / name).chmod(0o755)
    [recipe] = re.findall(r"^\t@(browser=.*)$", (SCRIPT.parents[1] / "Makefile").read_text(), re.MULTILINE)
    command = recipe.replace("$(CURDIR)/$(BIN)/python", str(bin_ / "python")).replace("$$", "$")
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        cwd=SCRIPT.parents[1],
        env={"PATH": str(bin_)},
        timeout=60,
    )
    return done, (folder / "said").read_text()


def test_where_the_system_has_no_package_playwrights_own_is_taken(tmp_path: Path) -> None:
    done, said = _got(tmp_path)
    assert done.returncode == 0 and done.stdout == f"browser: {tmp_path / 'browser'}\n", done.stderr
    assert "install -y -qq --no-install-recommends chromium" in said
    assert "-m playwright install --with-deps chromium" in said


def test_a_set_up_without_a_browser_is_none(tmp_path: Path) -> None:
    done, said = _got(tmp_path, offline=True)
    assert done.returncode == 1 and "VESPER_BROWSER" in done.stderr and "browser: " not in done.stdout
    assert "playwright install" in said


def test_a_library_that_the_driver_lacks_is_installed(tmp_path: Path) -> None:
    apt = '#!/bin/sh\necho "$*" >> "{said}"\ncase "$*" in *libatomic1*) touch "{library}" ;; esac\n'
    done = _run(tmp_path, {"apt-get": apt, "id": "#!/bin/sh\necho 0\n"})
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "bin" / "browser")
    said = (tmp_path / "said").read_text()
    assert "libatomic1" in said and "chromium" not in said  # there is a browser


@pytest.mark.parametrize("programs", [{}, {"apt-get": "#!/bin/sh\nexit 1\n", "id": "#!/bin/sh\necho 1000\n"}])
def test_who_may_not_install_is_told_what_to_install(tmp_path: Path, programs: dict[str, str]) -> None:
    done = _run(tmp_path, programs)
    assert done.returncode == 1 and not done.stdout
    assert "libatomic.so.1" in done.stderr and "apt-get install libatomic1" in done.stderr
