"""Where the data of a source's version is from: its publisher, or Vesper's own generator."""

from pipelines.store import Manifest

NATIVE = "native"
"""Of the publisher's files; anything else names the generator's settings."""


def made_here(unified: Manifest) -> bool:
    """Whether a version of `unified/<source>` was read from data that Vesper made itself."""
    return bool(unified.counts.get("origin", NATIVE) != NATIVE)
