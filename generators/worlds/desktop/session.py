"""A private desktop for tests and demos: X server, window manager, D-Bus with accessibility, and an SSH server of its
own on the loopback interface, all in one temporary folder. Nothing of it is left at the end.

    with open_desktop((1280, 800)) as endpoint:
        async with connect(endpoint) as desktop: ...
"""

import contextlib
import getpass
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from generators.devices.desktop.home_folder import MARK
from generators.devices.device import DeviceEndpoint, DeviceError
from generators.worlds.desktop.keeper import forget_display
from generators.worlds.desktop.program import PATH
from generators.worlds.desktop.programs import PROGRAMS, driver_options, missing_packages
from generators.worlds.desktop.sealing import BUS, HOME, RUNTIME, USER, find_seal, sealed_command, why_not_sealed
from pipelines.processes import end_process

START_S = 60.0
PACKAGES = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "Xvfb": "xvfb",
    "openbox": "openbox",
    "dbus-daemon": "dbus",
    "xdotool": "xdotool",
    "xclip": "xclip",
    "import": "imagemagick",
}
"""What a session needs, whatever programs run in it → their Debian packages."""
_PYTHON = "/usr/bin/python3"
_BINDING = "import gi; gi.require_version('Atspi', '2.0'); from gi.repository import Atspi"


class DesktopMissing(RuntimeError):
    """Programs of a desktop session are not installed; the message names their Debian packages."""


def find_missing() -> list[str]:
    """Debian packages that a session lacks here, those of its programs included; empty: every task can be done."""
    return find_base_missing() + missing_packages(PROGRAMS.values())


def find_base_missing() -> list[str]:
    """Debian packages without which no session starts here; empty: it can start."""
    lacking = {package for program, package in PACKAGES.items() if shutil.which(program, path=PATH) is None}
    missing = sorted(lacking)
    # The accessibility bus is started by this file, not by a program on the PATH.
    if not Path("/usr/share/dbus-1/services/org.a11y.Bus.service").exists():
        missing.append("at-spi2-core")
    asked = [_PYTHON, "-c", _BINDING]
    # The binding is of the system's own Python, which scripts on the desktop run with.
    if not Path(_PYTHON).exists() or subprocess.run(asked, capture_output=True, check=False).returncode:
        missing += ["python3-gi", "gir1.2-atspi-2.0"]
    return missing


def _make_keys(folder: Path) -> str:
    """Host key, user key and the list of who may enter; gives the host's public key, "type base64"."""
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    # Only this key enters.
    (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
    return " ".join((folder / "host_key.pub").read_text().split()[:2])


def _write_config(folder: Path, user: str) -> Path:
    """Key authentication of one user only, nothing forwarded, no PAM."""
    config = folder / "sshd_config"
    lines = [
        f"HostKey {folder / 'host_key'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        f"AllowUsers {user}",
        "PidFile none",
        "UsePAM no",
        "StrictModes no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PubkeyAuthentication yes",
        "PermitRootLogin prohibit-password",
        "DisableForwarding yes",
        "PermitUserEnvironment no",
        "PermitUserRC no",
        "PrintMotd no",
        "UseDNS no",
        "MaxSessions 50",
        "LogLevel ERROR",
        "SetEnv SHLVL=1",  # bash reads the user's .bashrc for each command that comes by SSH, but as an inner shell not
    ]
    config.write_text("\n".join(lines) + "\n")
    return config


def _make_plan(folder: Path, size: tuple[int, int], user: str, home: str, runtime: str) -> dict[str, object]:
    """What the keeper starts; `home` and `runtime` are folders as the session sees them."""
    for name in ("home", "run"):
        (folder / name).mkdir(mode=0o700)
    # The mark says that this home may be emptied: a reset deletes what lies in it.
    (folder / "home" / MARK).touch()
    env = {
        "HOME": home,
        "XDG_RUNTIME_DIR": runtime,
        "PATH": PATH,
        "LANG": "C.UTF-8",
        # settings lie in files of the disposable home, where a reset and the truth find them
        "GSETTINGS_BACKEND": "keyfile",
        # Programs of both toolkits tell their trees only with these set.
        "NO_AT_BRIDGE": "0",
        "GTK_MODULES": "gail:atk-bridge",
        "USER": user,
    }
    return {
        "folder": str(folder),
        "env": env,
        "size": list(size),
        "log": str(folder / "session.log"),
        "sshd_config": str(_write_config(folder, user)),
        "sshd": shutil.which("sshd", path=PATH),
    }


def _ready(keeper: subprocess.Popen[bytes], folder: Path) -> dict[str, object]:
    assert keeper.stdout is not None
    # Its first line or the end of our patience.
    line = keeper.stdout.readline() if select.select([keeper.stdout], [], [], START_S)[0] else b""
    said = json.loads(line) if line else {"error": "its keeper said nothing"}
    if "error" in said:
        log = folder / "session.log"
        # Its end: what went wrong stands in the last lines.
        tail = log.read_text(errors="replace")[-300:].strip() if log.exists() else ""
        raise DeviceError(f"desktop session did not start: {said['error']}; its log ends with {tail!r}")
    return dict(said)


@contextmanager
def open_desktop(
    size: tuple[int, int] = (1280, 800), *, sealed: bool = False, modules: Path | None = None
) -> Iterator[DeviceEndpoint]:
    """A desktop of `size` pixels, as an endpoint for the SSH driver, with all programs of `PROGRAMS`; one that isn't
    installed is told with its package when it is to be started. `sealed`: it has no network and sees nothing of this
    machine but its programs and a folder of Python `modules` (see `sealing`). Raises `DesktopMissing` where the session
    itself lacks something, `DeviceError` where it doesn't start."""
    if not all(type(side) is int and 320 <= side <= 8192 for side in size):
        raise ValueError(f"desktop: expected a size of 320 to 8192 pixels a side, found {size!r}")
    seal = find_seal() if sealed else ""
    if missing := find_base_missing() + [seal] * bool(seal):
        raise DesktopMissing(
            f"desktop session: not installed: {', '.join(missing)}; apt-get install {' '.join(missing)}"
        )
    if sealed and (refused := why_not_sealed()):
        raise DesktopMissing(
            f"desktop session: expected a machine that lets bubblewrap make namespaces, found {refused!r}; allow user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1, or a container with --privileged)"
        )
    if os.geteuid() == 0 and not sealed:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd of root begins nowhere without it
    folder = Path(tempfile.mkdtemp(prefix="desktop-"))
    user, home, runtime = getpass.getuser(), str(folder / "home"), str(folder / "run")
    if sealed:
        user, home, runtime = USER, HOME, RUNTIME
    try:
        host_key = _make_keys(folder)
        plan = _make_plan(folder, size, user, home, runtime)
        if sealed:
            plan["bus"] = BUS
        with _kept(folder, plan, sealed, modules) as said:
            yield DeviceEndpoint(
                "ssh",
                "127.0.0.1",
                int(str(said["port"])),
                options={
                    "user": user,
                    "key_file": str(folder / "user_key"),
                    "host_key": host_key,
                    "display": said["display"],
                    "bus": said["bus"],
                    "home": home,
                    "runtime_dir": runtime,
                    **driver_options(tuple(PROGRAMS.values())),
                },
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _kept(folder: Path, plan: dict[str, object], sealed: bool, modules: Path | None) -> Iterator[dict[str, object]]:
    """The session's keeper, and with it all that it started, for the time of a `with`; gives what it said."""
    script = Path(__file__).with_name("keeper.py")
    # Isolated (`-I`): it must run with the standard library alone, whatever PYTHONPATH says.
    command = sealed_command(folder, script, modules) if sealed else [sys.executable, "-I", str(script)]
    with contextlib.ExitStack() as stack:
        shared: tuple[int, ...] = ()
        if sealed:  # its own loopback is not ours: it gets a socket that listens here
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            shared = (listener.fileno(),)
            plan["listener"] = listener.fileno()
        keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, pass_fds=shared
        )
    assert keeper.stdin is not None and keeper.stdout is not None
    said: dict[str, object] = {"display": ""}
    try:
        keeper.stdin.write(json.dumps(plan).encode() + b"\n")
        keeper.stdin.flush()
        # The address, only when everything runs.
        said = _ready(keeper, folder)
        yield said
    finally:
        keeper.stdin.close()
        # the end of its input makes it end the session's programs, which takes a while
        end_process(keeper, wait_s=15, signals=(signal.SIGKILL,), grace_s=None)
        keeper.stdout.close()
        if not sealed:  # whose display has a socket in a /tmp of its own
            forget_display(str(said["display"]))  # the keeper may have been killed
