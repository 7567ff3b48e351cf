"""Runs on the desktop (its system's python3, standard library only); the driver sends it over stdin.

Input: JSON {"do": "launch" | "stop" | "reset" | "state", ...}. Output: JSON {"ok": ...} or {"refused": why}.
Programs are known by an entry of their environment that all they start inherits.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from typing import Any

MARK = ".disposable-home"
TAG = "VESPER_DESKTOP_PROGRAM"
HOME = os.path.realpath(os.environ["HOME"])
# bytes of a file whose text a check may read
SMALL = 65536
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_FILES = 2000
# services that D-Bus starts for programs and that outlive them
SERVICES = ("xfconfd", "dconf-service", "gvfsd", "gvfsd-metadata")
# what programs remember of their windows: it differs from run to run
VOLATILE = re.compile(r"/state/|/last-(window|separator|details|location|side|status|image)|recent")


class DesktopRefused(Exception):
    pass


def programs() -> list[int]:
    """Ids of living processes that `launch` began, and of what they started."""
    wanted = f"{TAG}={HOME}".encode()
    found: list[int] = []
    for name in os.listdir("/proc"):
        # not this script itself, which has the same environment
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
    return found


def services() -> dict[int, str]:
    """Those that D-Bus started for the programs of this home: they remember settings that a reset takes away."""
    wanted, found = f"HOME={HOME}".encode(), dict[int, str]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/comm") as said:
                    comm = said.read().strip()
                if comm in SERVICES:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if wanted in file.read().split(b"\0"):
                            found[int(name)] = comm
            except OSError:
                pass
    return found


def stop(_: object) -> bool:
    begin = time.monotonic()
    while True:
        left = [*programs(), *services()]
        late = time.monotonic() - begin
        if not left:
            return True
        if late > 5:
            raise OSError(f"programs {left} did not end")
        # asked first, forced after 0.3 s: programs may save their settings on the way out
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL if late > 0.3 else signal.SIGTERM)
            except ProcessLookupError:
                pass
        time.sleep(0.03)


def launch(asked: dict[str, Any]) -> int:
    argv = asked["argv"]
    path = shutil.which(argv[0])
    if path is None:
        package = asked.get("package")
        how = f"; apt-get install {package}" if package else ""
        raise DesktopRefused(f"program {argv[0]} is not installed{how}")
    log = subprocess.DEVNULL
    env = dict(os.environ, **{TAG: HOME})
    done = subprocess.Popen(
        # a session of its own, so that the end of this script doesn't end the program
        argv,
        executable=path,
        env=env,
        cwd=HOME,
        stdin=log,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    return done.pid


def place(name: str) -> str:
    """A path inside the home folder."""
    path = os.path.join(HOME, name)
    if name.startswith("/") or "\0" in name or ".." in name.split("/") or not name or name == MARK:
        raise DesktopRefused(f"expected a path inside the home folder, found {name[:80]!r}")
    return path


def reset(asked: dict[str, Any]) -> bool:
    if not os.path.isfile(os.path.join(HOME, MARK)):
        raise DesktopRefused(f"{HOME} is no disposable home folder: it is emptied only with a file {MARK} in it")
    # all names and contents checked before anything is removed
    files = {place(name): base64.b64decode(data, validate=True) for name, data in asked["files"].items()}
    stop(asked)
    for entry in os.scandir(HOME):
        if entry.name != MARK:
            # a link to a folder is removed itself, and not what it leads to
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    for path, data in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return True


def ini(path: str) -> dict[str, str]:
    """ "section/key" → value of a file of settings; empty where there is none, or it is none."""
    try:
        with open(os.path.join(HOME, path), encoding="utf-8", errors="replace") as file:
            lines = file.read(SMALL).splitlines()
    except OSError:
        return {}
    found, section = {}, ""
    for line in lines:
        key, equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[] ") + "/"
        elif equals and not line.startswith("#"):
            found[section + key.strip()] = value.strip()
    return found


def xfconf(channels: list[str]) -> dict[str, str]:
    """ "channel/key" → value of what xfconfd holds: it writes its files late."""
    found: dict[str, str] = {}
    if "xfconfd" in services().values():
        for channel in channels:
            done = subprocess.run(["xfconf-query", "-c", channel, "-lv"], capture_output=True, timeout=5)
            for line in done.stdout.decode("utf-8", "replace").splitlines():
                key, _, value = line.partition(" ")
                found[channel + key] = value.strip()
    return found


def settings(asked: dict[str, Any]) -> dict[str, str]:
    """What programs keep as settings, but for sizes and places of windows and what was open."""
    found = {**ini(".config/glib-2.0/settings/keyfile"), **xfconf(asked["channels"])}
    for name, path in asked["settings"].items():
        found.update({f"{name}/{key}": value for key, value in ini(path).items()})
    return {key: found[key] for key in sorted(found) if not VOLATILE.search(key)}


def running() -> list[str]:
    """Names of the programs that run."""
    found = set()
    for pid in programs():
        try:
            found.add(os.path.basename(os.readlink(f"/proc/{pid}/exe")))
        except OSError:
            pass  # it has ended
    return sorted(found)


def members(path: str) -> dict[str, str] | None:
    """Name → sha256 of the files in an archive; None for a file that is none, or one that can't be read."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as held:
                return {
                    name: hashlib.sha256(held.read(name)).hexdigest() for name in held.namelist() if name[-1] != "/"
                }
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as packed:
                inner = {entry.name.removeprefix("./"): packed.extractfile(entry) for entry in packed if entry.isfile()}
                return {name: hashlib.sha256(file.read()).hexdigest() for name, file in inner.items() if file}
    # whatever a broken or encrypted archive raises: then it has no members to tell
    except (OSError, tarfile.TarError, zipfile.BadZipFile, RuntimeError, EOFError, zlib.error):
        pass
    return None


def about(path: str, data: bytes) -> dict[str, Any]:
    """What a file is, as far as a check can ask: its text, where it is small and has one, and what is in an archive."""
    found: dict[str, Any] = {}
    if len(data) <= SMALL:
        try:
            found["text"] = data.decode()
        except UnicodeDecodeError:
            pass
    if path.endswith(ARCHIVES) and (inner := members(path)) is not None:
        found["members"] = inner
    return found


def state(asked: dict[str, Any]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    folders: list[str] = []
    for folder, names, files in os.walk(HOME):
        if folder == HOME:
            # in place, which is what keeps `os.walk` from entering them
            names[:] = [name for name in names if name not in asked["hidden"]]
            files = [name for name in files if name not in asked["hidden"]]
        names.sort()
        for name in names:
            shown = os.path.relpath(os.path.join(folder, name), HOME)
            folders.append(os.fsencode(shown).decode("utf-8", "replace"))
        if len(folders) > MAX_FILES:
            raise OSError(f"more than {MAX_FILES} folders in {HOME}")
        for name in sorted(files):
            path = os.path.join(folder, name)
            shown = os.path.relpath(path, HOME)
            # no links, sockets or devices: reading one might never end
            if shown == MARK or not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            if len(found) == MAX_FILES:
                raise OSError(f"more than {MAX_FILES} files in {HOME}")
            with open(path, "rb") as file:
                data = file.read()
            entry: dict[str, Any] = {
                "path": os.fsencode(shown).decode("utf-8", "replace"),
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                **about(path, data),
            }
            found.append(entry)
    return {"files": found, "folders": sorted(folders), "programs": running(), "settings": settings(asked)}


JOBS: dict[str, Any] = {"launch": launch, "stop": stop, "reset": reset, "state": state}


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer = {"ok": JOBS[asked["do"]](asked)}
    except DesktopRefused as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer))


main()
