"""`deploy/get_devices.sh` on a machine that has nothing: what it asks apt for, in which order. Gets nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "get_devices.sh"
APT = """#!/bin/bash
echo "$*" >> "{log}"
[[ " $* " == *" {fails} "* ]] && exit 100
case " $* " in
  *" postgresql-common "*)
    mkdir -p "{etc}"
    printf '# Whether\\n#create_main_cluster = true\\n' > "{etc}/createcluster.conf";;
  *" postgresql "*) cat "{etc}/createcluster.conf" >> "{log}";;
esac
"""


def _got(folder: Path, *, there: tuple[str, ...] = (), fails: str = "none", user: int = 0) -> tuple[list[str], str]:
    """(lines of what apt was asked, what the script said) where only the programs `there` are."""
    stubs, server = folder / "bin", folder / "server"
    stubs.mkdir()
    for name in ("sed", "grep", "mkdir", "cat", "bash"):
        (stubs / name).symlink_to(str(shutil.which(name)))
    etc, log = folder / "etc", folder / "log"
    made = {"apt-get": APT.format(log=log, etc=etc, fails=fails), "id": f"#!/bin/bash\necho {user}\n"}
    made |= dict.fromkeys(there, "#!/bin/bash\n")
    for name, text in made.items():
        path = server / "15" / "bin" / name if name in ("initdb", "postgres") else stubs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    text = SCRIPT.read_text().replace("/usr/lib/postgresql", str(server)).replace("/etc/postgresql-common", str(etc))
    text = text.replace("/usr/sbin", str(folder / "sbin")).replace("/run/systemd/system", str(folder / "systemd"))
    done = subprocess.run(
        ["/bin/bash"], input=text, env={"PATH": str(stubs)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines() if log.exists() else [], done.stderr


DEVICES = (
    "adb",
    "sshd",
    "Xvfb",
    "xdotool",
    "xclip",
    "import",
    "openbox",
    "dbus-daemon",
    "dbus-launch",
    "galculator",
    "mousepad",
    "thunar",
    "xfce4-appearance-settings",
    "gnumeric",
    "abiword",
    "xfce4-terminal",
    "gtkhash",
    "engrampa",
    "ristretto",
    "mtpaint",
    "atril",
    "claws-mail",
    "bwrap",
    "tesseract",
)


def test_the_server_comes_once_it_is_told_to_make_no_cluster(tmp_path: Path) -> None:
    asked, said = _got(tmp_path, there=DEVICES)
    assert [line.split()[-1] for line in asked if line.startswith("install")] == ["postgresql-common", "postgresql"]
    assert asked[-1] == "create_main_cluster = false", "what stood there when the server was installed"
    assert "not installed" not in said


def test_a_system_without_apt_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bash").symlink_to("/bin/bash")
    done = subprocess.run(["/bin/bash", SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0 and "no apt-get here" in done.stderr


def test_nothing_is_asked_where_all_is_there(tmp_path: Path) -> None:
    assert _got(tmp_path, there=(*DEVICES, "initdb", "postgres")) == ([], "")


@pytest.mark.parametrize(("fails", "missing"), [("postgresql-common", "postgresql"), ("xclip", "xclip")])
def test_what_cannot_be_had_is_named_and_the_rest_is_got(fails: str, missing: str, tmp_path: Path) -> None:
    there = tuple(name for name in DEVICES if name != "xclip")
    asked, said = _got(tmp_path, there=there, fails=fails)
    assert f"not installed: {missing}; tests that need them are skipped" in said
    got = {word for line in asked if line.startswith("install") for word in line.split()}
    assert ("postgresql" in got) == (fails == "xclip"), "no server where it would make a cluster"
    assert "xclip" in got


def test_who_may_not_install_is_told_what_is_missing(tmp_path: Path) -> None:
    asked, said = _got(tmp_path, there=DEVICES, user=1000)
    assert asked == [] and "not installed: postgresql;" in said
