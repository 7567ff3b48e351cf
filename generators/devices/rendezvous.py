"""Rendezvous (highest random weight) hashing: every node ranks the nodes for a device alike, with no table and no talk.

Thaler and Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 6(1), 1998. A node that goes
moves only its own devices; one that comes takes 1/n of them.
"""

import hashlib
from collections.abc import Iterable


def rank(device: str, nodes: Iterable[str], hint: str = "") -> list[str]:
    """Names of the nodes, the owner of the device first, then who takes over in turn. A `hint` that is among the nodes
    comes first."""

    # the hash depends on device and node alone, so every node computes the same order
    def weight(node: str) -> tuple[bool, bytes, str]:
        return node == hint, hashlib.blake2b(f"{node}\0{device}".encode(), digest_size=8).digest(), node

    return sorted(set(nodes), key=weight, reverse=True)
