"""A desktop session that is sealed off (`session.open_desktop(sealed=True)`): for tasks of strangers, whose files name
commands that are to be carried out.

Bubblewrap gives the session namespaces of its own: no network, no process and no file of the host beside its programs
(`/usr` and what of `/etc` they read, all read-only), one user without rights. Its home folder, `/tmp` and what else it
may write go with it.
"""

import functools
import shutil
import subprocess
from pathlib import Path

from generators.worlds.desktop.program import PATH

USER, HOME = "user", "/home/user"
"""Names that OSWorld's task files use for its machine."""
PROGRAM, PACKAGE = "bwrap", "bubblewrap"
RUNTIME = "/run/user/1000"
BUS = f"unix:path={RUNTIME}/bus"
WINDOWS_SETTINGS = Path("/etc/xdg/openbox/rc.xml")
"""The window manager's settings, to which a sealed session adds the keys that open a terminal, as GNOME has them."""
_TERMINAL_KEYS = """<keybind key="C-A-t"><action name="Execute"><command>env VESPER_DESKTOP_PROGRAM=/home/user \
xfce4-terminal -x bash --rcfile .config/bashrc</command></action></keybind>
</keyboard>"""
MODULES, ALIASES = "/opt/modules", "/opt/bin"
"""Where a sealed session finds what commands of task files import and call: modules of ours, and `python`."""
_UID = "1000"
_ETC = (
    "ImageMagick-6",
    "X11",
    "alternatives",
    "bash.bashrc",
    "dbus-1",
    "dconf",
    "fonts",
    "gtk-2.0",
    "gtk-3.0",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "terminfo",
    "xdg",
)
"""What programs read there; nothing that names people, hosts or keys."""
_OWN = {
    "passwd": f"{USER}:x:{_UID}:{_UID}::{HOME}:/bin/bash\n",
    "group": f"{USER}:x:{_UID}:\n",
    "hosts": "127.0.0.1 localhost\n",
    "hostname": "desktop\n",
    "machine-id": f"{'0' * 31}1\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""Files of /etc that a sealed session has in the place of the host's."""


def find_seal() -> str:
    """The Debian package that sealing lacks here; "" where it has what it needs."""
    return "" if shutil.which(PROGRAM, path=PATH) else PACKAGE


@functools.cache
def why_not_sealed() -> str:
    """What this machine says to namespaces, where it lets nobody make any (as most containers do); "" where it does."""
    # All that a session asks for: some containers allow namespaces, and no /proc of one's own in them.
    tried = [PROGRAM, "--unshare-all", "--die-with-parent", "--uid", _UID, "--gid", _UID, "--cap-drop", "ALL"]
    tried += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "/bin/true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return "" if done.returncode == 0 else done.stderr.strip()[-200:] or f"exit code {done.returncode}"


def sealed_command(folder: Path, keeper: Path, modules: Path | None = None) -> list[str]:
    """The command that runs a session's keeper, a script, sealed off. `folder` is the session's own, with `home` in it,
    and lies at the same path inside; `modules` is a folder that lies at `MODULES`."""
    etc = folder / "etc"
    etc.mkdir(mode=0o755)
    for name, text in _OWN.items():
        (etc / name).write_text(text)
    log = folder / "session.log"
    log.touch()
    managed: list[str] = []
    if WINDOWS_SETTINGS.is_file():
        own_keys = folder / "rc.xml"
        own_keys.write_text(WINDOWS_SETTINGS.read_text().replace("</keyboard>", _TERMINAL_KEYS))
        managed = ["--ro-bind", str(own_keys), str(WINDOWS_SETTINGS)]
    kept = [word for name in _ETC for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")]
    own = [word for name in _OWN for word in ("--ro-bind", str(etc / name), f"/etc/{name}")]
    brought = ["--ro-bind", str(modules), MODULES] if modules else []
    links = [word for name in ("bin", "sbin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    return [
        *(PROGRAM, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--uid", _UID, "--gid", _UID, "--hostname", "desktop", "--cap-drop", "ALL"),
        *("--ro-bind", "/usr", "/usr", *links, *kept, *own, *managed),
        *("--ro-bind-try", "/var/cache/fontconfig", "/var/cache/fontconfig", "--tmpfs", "/var/lib/xkb"),
        *(
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
            "--tmpfs",
            "/run",
            "--perms",
            "0700",
            "--dir",
            RUNTIME,
        ),
        # of the session's own folder it may write the log and the home alone: what ends the session reads the rest
        *("--ro-bind", str(folder), str(folder), "--bind", str(log), str(log), "--bind", str(folder / "home"), HOME),
        *("--ro-bind", str(keeper), "/opt/keeper.py", *brought, "--symlink", "/usr/bin/python3", f"{ALIASES}/python"),
        *("--chdir", HOME, "--setenv", "PATH", PATH, "/usr/bin/python3", "-I", "/opt/keeper.py"),
    ]
