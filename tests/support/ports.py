"""A port of this machine for a server that a test or a measurement starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that nobody listens on; whoever asks takes it at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
