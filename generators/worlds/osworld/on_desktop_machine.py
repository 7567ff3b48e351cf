"""Runs in a sealed desktop session (its system's python3, standard library only); the driver sends it over stdin.

Input: JSON {"do": "run" | "launch" | "read" | "write" | "list" | "window" | "window_size", ...}. Output: JSON
{"ok": ...} or {"refused": why}. What it is asked for comes from task files of strangers: it runs where nothing but the
session's own home can be harmed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

TAG = "VESPER_DESKTOP_PROGRAM"
MAX_OUT = 1 << 20
MAX_FILE = 32 << 20
MAX_NODES = 5000


class MachineRefused(Exception):
    pass


def environment() -> dict[str, str]:
    """As a login on OSWorld's machine: `python` is there, and so is `pyautogui`. The tag ends with a reset whatever
    was started."""
    home = os.environ["HOME"]
    path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/opt/bin"
    return dict(os.environ, PATH=path, PYTHONPATH="/opt/modules", PWD=home, **{TAG: os.path.realpath(home)})


def place(path: str) -> str:
    """An absolute path; relative ones begin in the home folder."""
    if "\0" in path or not path:
        raise MachineRefused(f"expected a path, found {path[:80]!r}")
    return os.path.join(os.environ["HOME"], os.path.expanduser(path))


def cut(data: bytes) -> str:
    return data[:MAX_OUT].decode("utf-8", "replace")


def run(asked: dict[str, Any]) -> dict[str, Any]:
    """A command's output. What it leaves in the background keeps the pipes open, so only the command is waited for."""
    log = [os.path.join("/tmp", f".command-{os.getpid()}-{name}") for name in ("out", "err")]
    try:
        with open(log[0], "wb") as out, open(log[1], "wb") as err:
            try:
                child = subprocess.Popen(
                    asked["command"],
                    shell=asked["shell"],
                    executable="/bin/bash" if asked["shell"] else None,
                    cwd=os.environ["HOME"],
                    env=environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
                code = child.wait(timeout=asked["timeout_s"])
            except (OSError, ValueError) as error:
                return {"output": "", "error": str(error)[:500], "returncode": 127}
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                raise MachineRefused(f"the command took longer than {asked['timeout_s']} s") from None
        with open(log[0], "rb") as out, open(log[1], "rb") as err:
            return {"output": cut(out.read(MAX_OUT)), "error": cut(err.read(MAX_OUT)), "returncode": code}
    finally:
        for path in log:
            if os.path.exists(path):
                os.unlink(path)


def active() -> str:
    """Id of the active window and of its process (X gives a dead window's id to the next); empty: none."""
    words = ["xdotool", "getactivewindow", "getactivewindow", "getwindowpid"]
    done = subprocess.run(words, capture_output=True, timeout=5)
    return done.stdout.decode("ascii", "replace").strip()


def launch(asked: dict[str, Any]) -> bool:
    """Start a program and wait for another active window, which not all of them bring: whether one came."""
    command, shell = asked["command"], asked["shell"]
    if not shell and shutil.which(command[0], path=environment()["PATH"]) is None:
        raise MachineRefused(f"program {command[0][:60]!r} is not installed")
    before, null = active(), subprocess.DEVNULL
    subprocess.Popen(
        command,
        shell=shell,
        executable="/bin/bash" if shell else None,
        cwd=os.environ["HOME"],
        env=environment(),
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
    )
    end = time.monotonic() + asked["window_s"]
    while time.monotonic() < end:
        if active() not in ("", before):
            time.sleep(0.5)  # until it has drawn itself
            return True
        time.sleep(0.1)
    return False


def read(asked: dict[str, Any]) -> dict[str, str] | None:
    """A file's bytes; None where there is none."""
    path = place(asked["path"])
    if not os.path.isfile(path):
        return None
    if os.path.getsize(path) > MAX_FILE:
        raise MachineRefused(f"{asked['path'][:80]}: expected at most {MAX_FILE} bytes, found more")
    with open(path, "rb") as file:
        return {"data": base64.b64encode(file.read()).decode()}


def write(asked: dict[str, Any]) -> bool:
    path = place(asked["path"])
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(asked["data"], validate=True))
    except OSError as error:
        raise MachineRefused(f"{asked['path'][:80]}: {error.strerror}") from None
    return True


def tree(path: str, left: list[int]) -> dict[str, Any]:
    """A folder as {"type", "name", "children"}."""
    left[0] -= 1
    if left[0] < 0:
        raise MachineRefused(f"a folder of more than {MAX_NODES} entries")
    name = os.path.basename(path.rstrip("/"))
    if os.path.isdir(path) and not os.path.islink(path):
        inner = [tree(os.path.join(path, child), left) for child in sorted(os.listdir(path))]
        return {"type": "directory", "name": name, "children": inner}
    return {"type": "file", "name": name}


def list_folder(asked: dict[str, Any]) -> dict[str, Any] | None:
    path = place(asked["path"])
    return tree(path, [MAX_NODES]) if os.path.isdir(path) else None


def windows(asked: dict[str, Any]) -> list[str]:
    """Ids of the visible windows of a title or class. Its name is matched as plain text, whatever it holds."""
    how, wanted = ("--class" if asked["by_class"] else "--name"), asked["name"]
    pattern = "".join(f"\\{letter}" if letter in r"\.[]*^$+?(){}|" else letter for letter in wanted)
    pattern = f"^{pattern}$" if asked["strict"] else pattern
    done = subprocess.run(["xdotool", "search", "--onlyvisible", how, pattern], capture_output=True, timeout=10)
    return done.stdout.decode("ascii", "replace").split()


def window(asked: dict[str, Any]) -> bool:
    """Activate or close a window; waits up to `wait_s` for it to be there."""
    end = time.monotonic() + asked["wait_s"]
    while not (found := windows(asked)):
        if time.monotonic() > end:
            raise MachineRefused(f"no window {asked['name'][:60]!r} came")
        time.sleep(0.2)
    subprocess.run(["xdotool", "windowactivate", "--sync", found[-1]], capture_output=True, timeout=10)
    if asked["close"]:
        subprocess.run(["xdotool", "key", "--window", found[-1], "alt+F4"], capture_output=True, timeout=10)
    time.sleep(0.3)
    return True


def window_size(asked: dict[str, Any]) -> dict[str, int] | None:
    found = windows(asked)
    if not found:
        return None
    done = subprocess.run(["xdotool", "getwindowgeometry", "--shell", found[-1]], capture_output=True, timeout=10)
    said = dict(line.split("=", 1) for line in done.stdout.decode("ascii", "replace").splitlines() if "=" in line)
    return {"width": int(said["WIDTH"]), "height": int(said["HEIGHT"])}


JOBS: dict[str, Any] = {
    "run": run,
    "launch": launch,
    "read": read,
    "write": write,
    "list": list_folder,
    "window": window,
    "window_size": window_size,
}


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer = {"ok": JOBS[asked["do"]](asked)}
    except MachineRefused as error:
        answer = {"refused": str(error)}
    sys.stdout.write(json.dumps(answer))


main()
