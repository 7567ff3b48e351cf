"""Rollout servers that really sample, and what can be wrong with one."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked import CONTEXT

from trainer.modeling.checkpoint import load_checkpoint
from trainer.serving.requests import RequestRefused
from trainer.serving.rollout_server import RolloutServer
from trainer.serving.serve import serving
from trainer.serving.turns import Caller


class FaultyServer(RolloutServer):
    """`fails`: so many replies are a 500. `hang`: replies wait for it. `keeps_old`: it says that it has reloaded, and
    hasn't. `edit` changes the answers of replies that aren't scores. `asked` counts those."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fails = self.asked = 0
        self.hang: threading.Event | None = None
        self.keeps_old = False
        self.edit: Callable[[dict[str, Any]], None] = lambda answer: None
        self.on_reload: Callable[[], None] = lambda: None

    def generate(self, body: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        scoring = "prompt_logprobs" in body["sampling_params"]
        if not scoring:
            self.asked += 1
            if self.fails:
                self.fails -= 1
                raise RequestRefused(500, "out of memory")
            if self.hang is not None:
                self.hang.wait(30)
        answer = super().generate(body, caller)
        if not scoring:
            self.edit(answer)
        return answer

    def collective_rpc(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self.on_reload()
        return {"results": [None]} if self.keeps_old else super().collective_rpc(body)


@contextmanager
def rollout_server(start: Path, root: Path) -> Iterator[tuple[FaultyServer, str]]:
    """A server in this process; (it, its URL)."""
    made = FaultyServer(load_checkpoint(start), weights_root=root, weight_transfer=True)
    with serving(made) as (url, _):
        try:
            yield made, url.removesuffix("/v1")
        finally:
            if made.hang is not None:
                made.hang.set()


class ServerProcess:
    """A server in a process of its own, which can be killed and started anew on the same port. `kill_in_reload`: it
    kills itself in the middle of that call of `reload_weights`, counted from 1."""

    def __init__(self, start: Path, root: Path) -> None:
        self.start, self.root = start, root
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = int(listening.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: Any = None

    def run(self, kill_in_reload: int = 0) -> None:
        """Start it; it answers when this returns."""
        self._process = CONTEXT.Process(target=_serve, args=(self.start, self.root, self.port, kill_in_reload))
        self._process.start()
        for _ in range(2400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self._process.is_alive(), f"the server ended at once: {self._process.exitcode}"
            time.sleep(0.05)
        raise AssertionError("the server didn't start")

    def wait_dead(self) -> None:
        """Until it was killed."""
        self._process.join(30)
        assert self._process.exitcode == -signal.SIGKILL

    def kill(self) -> None:
        """Whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join(10)


def _serve(start: Path, root: Path, port: int, kill_in_reload: int) -> None:
    import torch

    torch.set_num_threads(1)
    made, count = FaultyServer(load_checkpoint(start), weights_root=root), [0]

    def reloading() -> None:
        count[0] += 1
        if count[0] == kill_in_reload:
            os.kill(os.getpid(), signal.SIGKILL)

    made.on_reload = reloading
    with serving(made, port=port) as (_, thread):
        thread.join()
