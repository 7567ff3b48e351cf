"""The process that holds all others of a desktop session; run by `session` as a script, with the standard library only.

It reads one line of JSON (what to start), answers with one line of JSON (display, port, bus, or error), serves SSH
until its stdin ends, which also happens when whoever started it dies, or until its X server ends; then it kills every
descendant and removes the folder: it is the subreaper of all, so that none can slip away by a double fork or a session
of its own. If it is killed itself, its children get SIGKILL from the kernel, and what is left loses display and bus.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
START_S = 20.0


def die_with_parent() -> None:
    """For a child, before it becomes its program."""
    # SIGKILL from the kernel, even if the keeper is killed itself.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def forget_display(display: str) -> None:
    """Remove the socket of an X server that was killed before it could; one that is listened to stays."""
    path = Path(f"/tmp/.X11-unix/X{display.removeprefix(':')}")
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asked:
        try:
            # Refused: nobody listens, so the socket is left over.
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def descendants() -> list[int]:
    """Process ids below this one."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # After the last bracket: a program's name may hold blanks and brackets.
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_all() -> None:
    """SIGTERM for half a second, then SIGKILL until nobody is left."""
    begin = time.monotonic()
    while left := descendants():
        late = time.monotonic() - begin
        for pid in left:
            # Half a second to end in order, then none.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late > 0.5 else signal.SIGTERM)
        reap()
        # Processes in an uninterruptible state can't be waited for.
        if late > 10:
            return
        time.sleep(0.05)


def read_line(file: int, child: subprocess.Popen[bytes], what: str) -> str:
    """The first line that a child writes. Raises `RuntimeError` when it ends or says nothing in time."""
    said, end = b"", time.monotonic() + START_S
    while b"\n" not in said:
        # A server that never becomes ready must not hold the session for ever.
        if not select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
            raise RuntimeError(f"{what}: expected it to be ready within {START_S:g} s; it wrote nothing")
        more = os.read(file, 4096)
        if not more:
            raise RuntimeError(f"{what} ended with code {child.wait()} before it was ready")
        said += more
    return said.split(b"\n")[0].decode()


def start(plan: dict[str, Any]) -> tuple[str, str, subprocess.Popen[bytes]]:
    """X server, D-Bus and window manager; gives the display, the bus's address and the X server."""
    log = open(plan["log"], "ab")  # noqa: SIM115 (the children keep it)
    env = {**plan["env"]}

    def run(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        # Every child dies with the keeper, even when it can't clean up.
        return subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stderr=log, preexec_fn=die_with_parent, **more
        )

    reader, writer = os.pipe()
    size = "x".join(map(str, plan["size"]))
    # The server picks a free display and writes it down: no two sessions race for a number.
    command = ["Xvfb", "-displayfd", str(writer), "-screen", "0", f"{size}x24", "-nolisten", "tcp", "-noreset"]
    server = run(command, stdout=log, pass_fds=(writer,))
    os.close(writer)
    env["DISPLAY"] = f":{int(read_line(reader, server, 'Xvfb'))}"
    os.close(reader)
    bus = ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address"]
    if "bus" in plan:
        bus.append(f"--address={plan['bus']}")
    daemon = run(bus, stdout=subprocess.PIPE)
    assert daemon.stdout is not None
    env["DBUS_SESSION_BUS_ADDRESS"] = read_line(daemon.stdout.fileno(), daemon, "dbus-daemon")
    # No session manager: windows of an earlier session aren't restored.
    run(["openbox", "--sm-disable"], stdout=log)
    return env["DISPLAY"], env["DBUS_SESSION_BUS_ADDRESS"], server


def serve(listener: socket.socket, plan: dict[str, Any], server: subprocess.Popen[bytes]) -> None:
    """One `sshd -i` for each connection, until stdin ends, or the X server does. Listening here leaves no moment in
    which the port is anybody else's."""
    with open(plan["log"], "ab") as log:
        while server.poll() is None:
            # Half a second at most, so that ended children are reaped and the server's end is seen.
            ready, _, _ = select.select([0, listener.fileno()], [], [], 0.5)
            reap()
            # The end of stdin: whoever started this is gone, or wants it to end.
            if 0 in ready and not os.read(0, 4096):
                return
            if listener.fileno() in ready:
                peer, _ = listener.accept()
                with peer:
                    subprocess.Popen(
                        [plan["sshd"], "-i", "-e", "-f", plan["sshd_config"]],
                        stdin=peer.fileno(),
                        stdout=peer.fileno(),
                        stderr=log,
                        env=plan["env"],
                        # A session of its own, so that a signal to the keeper's group doesn't cut it off.
                        start_new_session=True,
                        preexec_fn=die_with_parent,
                    )


def main() -> None:
    # Before anything is started: orphans come to this process instead of init.
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("keeper: this system has no subreapers; expected Linux 3.4 or newer")
    plan = json.loads(sys.stdin.buffer.readline())
    # Listening at once, so that the port is taken before it is named.
    # a sealed session has a network of its own: whoever starts it listens outside and hands the socket in
    listener = socket.socket(fileno=plan["listener"]) if "listener" in plan else socket.create_server(("127.0.0.1", 0))
    display = ""
    try:
        try:
            display, bus, server = start(plan)
            answer = {"display": display, "bus": bus, "port": listener.getsockname()[1]}
        except (RuntimeError, OSError, ValueError) as error:
            answer = {"error": str(error)}
        # The one line that the starter waits for.
        print(json.dumps(answer), flush=True)
        if "error" not in answer:
            serve(listener, plan, server)
    finally:
        listener.close()
        # Whatever happened: nothing of the session is left.
        kill_all()
        forget_display(display)
        shutil.rmtree(plan["folder"], ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    main()
